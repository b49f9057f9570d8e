//! The neutral vocabulary of output: what the machine says and every reply listens to. No protocol here.

use std::ops::Range;
use std::sync::Arc;

use crate::save::saved;

/// One fact about the output. Texts are deltas: they add up to the whole.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// The engine has taken the request. Comes first, once.
    Start {
        /// What the prompt cost.
        usage: PromptUsage,
        /// The engine's fingerprint, if it has one.
        system_fingerprint: Option<&'a str>,
    },
    /// More of the reasoning.
    Reasoning {
        /// The text.
        text: &'a str,
        /// The log probabilities of all tokens of the piece that the text was cut from.
        logprobs: Option<&'a Arc<[TokenLogprob]>>,
    },
    /// More of the answer.
    Content {
        /// The text.
        text: &'a str,
        /// The log probabilities of all tokens of the piece that the text was cut from.
        logprobs: Option<&'a Arc<[TokenLogprob]>>,
    },
    /// A call begins.
    CallStart {
        /// Which call of the output, from 0.
        index: usize,
        /// The name of the tool.
        name: &'a str,
    },
    /// More of a call's arguments: JSON text.
    CallArguments {
        /// Which call.
        index: usize,
        /// The text.
        text: &'a str,
    },
    /// A call is finished: its arguments are one JSON object.
    CallEnd {
        /// Which call.
        index: usize,
    },
    /// The output has ended. Comes last, once.
    Finish {
        /// Why.
        reason: FinishReason,
        /// The stop sequence that matched, if one did.
        stop_sequence: Option<&'a str>,
        /// What the output cost.
        usage: OutputUsage,
    },
    /// The output has failed. Comes last, once, in place of `Finish`.
    Error {
        /// What happened.
        message: &'a str,
        /// A word for programs, for example `server_error`.
        code: &'a str,
        /// What the output cost so far.
        usage: OutputUsage,
    },
}

/// Why an output ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// By itself, or at a stop sequence.
    Stop,
    /// By itself, after at least one finished call.
    ToolCalls,
    /// At the output limit.
    Length,
    /// A filter ended it.
    ContentFilter,
}

/// What a prompt cost, in tokens, as the engine reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptUsage {
    /// All of the prompt.
    pub prompt_tokens: u64,
    /// The part that came from the prompt cache.
    pub prompt_cache_hit_tokens: u64,
}

/// What an output cost, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputUsage {
    /// All of the output.
    pub completion_tokens: u64,
    /// The tokens of the reasoning's text; `None` where the output could hold none or no tokenizer counts it.
    pub reasoning_tokens: Option<u64>,
}

/// The log probability of one output token, with alternatives.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The token that was sampled.
    pub token: TokenProbability,
    /// The most likely tokens at this place.
    pub top: Vec<TokenProbability>,
}

/// A token and its log probability.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenProbability {
    /// The bytes of the token; empty for an unknown id.
    pub bytes: Vec<u8>,
    /// The natural logarithm of its probability; may be infinite.
    pub logprob: f32,
}

/// A list of events whose texts stand in one buffer, so that an event costs no allocation of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Events {
    text: String,
    list: Vec<Record>,
}

#[derive(Clone, Debug, PartialEq)]
enum Record {
    Start { usage: PromptUsage, system_fingerprint: Option<Range<usize>> },
    Text { channel: Channel, text: Range<usize>, logprobs: Option<Arc<[TokenLogprob]>> },
    CallStart { index: usize, name: Range<usize> },
    CallArguments { index: usize, text: Range<usize> },
    CallEnd { index: usize },
    Finish { reason: FinishReason, stop_sequence: Option<Range<usize>>, usage: OutputUsage },
    Error { message: Range<usize>, code: Range<usize>, usage: OutputUsage },
}

/// Where text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    Reasoning,
    Content,
}

impl Events {
    /// Forgets all events and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.list.clear();
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The events in order.
    pub fn iter(&self) -> impl Iterator<Item = Event<'_>> {
        self.list.iter().map(|record| self.event(record))
    }

    /// The events from the one with this number on.
    pub(super) fn iter_from(&self, first: usize) -> impl Iterator<Item = Event<'_>> {
        self.list[first..].iter().map(|record| self.event(record))
    }

    fn event<'a>(&'a self, record: &'a Record) -> Event<'a> {
        let at = |range: &Range<usize>| &self.text[range.clone()];
        match record {
            Record::Start { usage, system_fingerprint } => {
                Event::Start { usage: *usage, system_fingerprint: system_fingerprint.as_ref().map(at) }
            }
            Record::Text { channel: Channel::Reasoning, text, logprobs } => {
                Event::Reasoning { text: at(text), logprobs: logprobs.as_ref() }
            }
            Record::Text { channel: Channel::Content, text, logprobs } => {
                Event::Content { text: at(text), logprobs: logprobs.as_ref() }
            }
            Record::CallStart { index, name } => Event::CallStart { index: *index, name: at(name) },
            Record::CallArguments { index, text } => Event::CallArguments { index: *index, text: at(text) },
            Record::CallEnd { index } => Event::CallEnd { index: *index },
            Record::Finish { reason, stop_sequence, usage } => {
                Event::Finish { reason: *reason, stop_sequence: stop_sequence.as_ref().map(at), usage: *usage }
            }
            Record::Error { message, code, usage } => {
                Event::Error { message: at(message), code: at(code), usage: *usage }
            }
        }
    }

    fn keep(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    pub(super) fn start(&mut self, usage: PromptUsage, system_fingerprint: Option<&str>) {
        let system_fingerprint = system_fingerprint.map(|text| self.keep(text));
        self.list.push(Record::Start { usage, system_fingerprint });
    }

    pub(super) fn text(&mut self, channel: Channel, text: &str, logprobs: Option<&Arc<[TokenLogprob]>>) {
        let text = self.keep(text);
        self.list.push(Record::Text { channel, text, logprobs: logprobs.cloned() });
    }

    pub(super) fn call_start(&mut self, index: usize, name: &str) {
        let name = self.keep(name);
        self.list.push(Record::CallStart { index, name });
    }

    pub(super) fn call_arguments(&mut self, index: usize, text: &str) {
        let text = self.keep(text);
        self.list.push(Record::CallArguments { index, text });
    }

    pub(super) fn call_end(&mut self, index: usize) {
        self.list.push(Record::CallEnd { index });
    }

    pub(super) fn finish(&mut self, reason: FinishReason, stop_sequence: Option<&str>, usage: OutputUsage) {
        let stop_sequence = stop_sequence.map(|text| self.keep(text));
        self.list.push(Record::Finish { reason, stop_sequence, usage });
    }

    pub(super) fn error(&mut self, message: &str, code: &str, usage: OutputUsage) {
        let (message, code) = (self.keep(message), self.keep(code));
        self.list.push(Record::Error { message, code, usage });
    }
}

saved! { struct PromptUsage { prompt_tokens, prompt_cache_hit_tokens } }
saved! { struct OutputUsage { completion_tokens, reasoning_tokens } }
saved! { struct TokenLogprob { token, top } }
saved! { struct TokenProbability { bytes, logprob } }
saved! { enum FinishReason { 0 = Stop, 1 = ToolCalls, 2 = Length, 3 = ContentFilter } }
