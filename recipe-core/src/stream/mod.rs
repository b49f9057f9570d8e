//! Model output to events: chunks of an engine in, the neutral vocabulary of [`Event`] out.
//!
//! [`StreamProcessor`] decodes ids, feeds the state machine and keeps the counts. It knows no protocol.

mod call;
mod deltas;
mod event;
mod input;
mod machine;
mod pattern;
mod recent;
mod repair;
mod run;
mod scan;
mod tag;

use std::sync::Arc;

pub use event::{Event, Events, FinishReason, OutputUsage, PromptUsage, TokenLogprob, TokenProbability};

use crate::conversation::ToolDefinition;
use crate::error::{Error, Result};
use crate::json::Value;
use crate::options::ParsingOptions;
use crate::tokenizer::{Decoder, Token, TokenCounter, Tokenizer};
use input::Kind;
use machine::Machine;
use recent::RecentIds;

/// What an input that simply ends is reported as.
pub const NO_FINISH: &str = "the output ended without a finish reason";

/// The id of the end-of-sentence token in both vocabularies: counted, never shown.
const END_OF_SENTENCE: u32 = 1;

/// One message of an engine.
#[derive(Clone, Debug, PartialEq)]
pub enum InferenceChunk {
    /// The engine has taken the request. Only the first chunk of a stream counts as one.
    Ready {
        /// What the prompt cost.
        prompt_usage: Option<PromptUsage>,
        /// The engine's fingerprint.
        system_fingerprint: Option<String>,
    },
    /// Text, and how many tokens it accounts for.
    Text {
        /// The text; special tokens spelled out.
        content: String,
        /// Its tokens.
        token_count: u64,
    },
    /// Token ids, with log probabilities for each or for none.
    Tokens {
        /// The ids.
        token_ids: Vec<u32>,
        /// One entry an id.
        logprobs: Option<Vec<IdLogprob>>,
    },
    /// The engine has ended.
    Finish(InferenceFinishReason),
    /// The engine has failed.
    Error {
        /// What happened.
        message: String,
        /// A word for programs.
        code: String,
    },
}

/// The log probability of the sampled id, and those of the most likely ones.
#[derive(Clone, Debug, PartialEq)]
pub struct IdLogprob {
    /// Of the sampled id.
    pub logprob: f32,
    /// The most likely ids at this place.
    pub top: Vec<(u32, f32)>,
}

/// Why an engine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InferenceFinishReason {
    /// The model ended its turn.
    Stop,
    /// The output limit was reached.
    Length,
    /// A filter ended the output.
    ContentFilter,
}

/// The tools that an output may call: their schemas tell strings from other values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutputTools {
    tools: Vec<ToolDefinition>,
    custom: Vec<String>,
}

impl OutputTools {
    /// The declared tools; `custom` names those whose input is free text.
    pub fn new(tools: Vec<ToolDefinition>, custom: Vec<String>) -> Self {
        Self { tools, custom }
    }

    pub(crate) fn is_custom(&self, name: &str) -> bool {
        self.custom.iter().any(|custom| custom == name)
    }

    fn properties(&self, name: &str) -> Option<&Value<'static>> {
        self.tools.iter().find(|tool| tool.name == name)?.parameters.as_ref()?.get("properties")
    }
}

/// One output on its way: a plain value, so it can be cloned, kept and gone on with.
#[derive(Clone, Debug)]
pub struct StreamProcessor {
    machine: Machine,
    tokenizer: Option<Tokenizer>,
    decoder: Decoder,
    /// The log probabilities of the ids whose bytes wait in the decoder.
    waiting_logprobs: Vec<TokenLogprob>,
    recent: RecentIds,
    completion_tokens: u64,
    /// The tokens of the reasoning so far, if they are to be counted.
    reasoning: Option<TokenCounter>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    New,
    Running,
    Finished,
    Closed,
}

impl StreamProcessor {
    /// A processor at the start of an output. Without a tokenizer it takes text chunks alone.
    pub fn new(options: ParsingOptions, tools: Arc<OutputTools>, tokenizer: Option<Tokenizer>) -> Self {
        let counts = options.thinking_initial_stage.is_some() && tokenizer.is_some();
        Self {
            machine: Machine::new(Arc::new(options), tools),
            tokenizer,
            decoder: Decoder::default(),
            waiting_logprobs: Vec::new(),
            recent: RecentIds::default(),
            completion_tokens: 0,
            reasoning: counts.then(TokenCounter::default),
            phase: Phase::New,
        }
    }

    /// Whether the output has ended and the processor has not been closed.
    pub fn is_finished(&self) -> bool {
        self.phase == Phase::Finished
    }

    /// The stop sequence that ended the output, if one did.
    pub fn stop_sequence(&self) -> Option<&str> {
        self.machine.ended_by_itself().and_then(|(_, stop_sequence)| stop_sequence)
    }

    /// The text behind the place where the output ended by itself: at a stop sequence, or at the one call that was
    /// wanted. Empty if it ended otherwise or has not ended.
    pub fn remaining_text(&self) -> &str {
        self.machine.remaining()
    }

    /// The ids of [`remaining_text`](Self::remaining_text). An id with text on both sides of the end is not among them.
    pub fn remaining_ids(&self) -> Vec<u32> {
        self.machine.ended_at().map_or_else(Vec::new, |end| self.recent.behind(end))
    }

    /// Takes a chunk and appends its events. Errors are misuse of the API; after one that concerns the
    /// chunk itself the processor is closed, and the chunk has no events.
    pub fn push(&mut self, chunk: &InferenceChunk, events: &mut Events) -> Result<()> {
        match chunk {
            InferenceChunk::Ready { prompt_usage, system_fingerprint } => {
                self.check_open()?;
                self.start(prompt_usage.unwrap_or_default(), system_fingerprint.as_deref(), events);
                Ok(())
            }
            InferenceChunk::Text { content, token_count } => self.push_text(content, *token_count, events),
            InferenceChunk::Tokens { token_ids, logprobs } => self.push_tokens(token_ids, logprobs.as_deref(), events),
            InferenceChunk::Finish(reason) => self.push_finish(*reason, events),
            InferenceChunk::Error { message, code } => self.push_error(message, code, events),
        }
    }

    /// Takes text; see [`InferenceChunk::Text`].
    pub fn push_text(&mut self, content: &str, token_count: u64, events: &mut Events) -> Result<()> {
        self.begin(events)?;
        self.completion_tokens = self.completion_tokens.saturating_add(token_count);
        self.machine.push(content, Kind::Text, None);
        self.run(events);
        Ok(())
    }

    /// Takes token ids; see [`InferenceChunk::Tokens`].
    pub fn push_tokens(&mut self, ids: &[u32], logprobs: Option<&[IdLogprob]>, events: &mut Events) -> Result<()> {
        self.check_open()?;
        let Some(tokenizer) = self.tokenizer.clone() else {
            self.close();
            return Err(Error::misuse("token chunk received without a tokenizer"));
        };
        if let Some(logprobs) = logprobs.filter(|logprobs| logprobs.len() != ids.len()) {
            self.close();
            return Err(Error::misuse(format!(
                "invalid log probabilities: {} log probabilities for {} token IDs",
                logprobs.len(),
                ids.len()
            )));
        }
        if ids.is_empty() {
            // Nothing came: not even the output starts.
            return Ok(());
        }
        self.begin(events)?;
        self.completion_tokens = self.completion_tokens.saturating_add(ids.len() as u64);
        for (place, &id) in ids.iter().enumerate() {
            let logprob = logprobs.map(|logprobs| token_logprob(&tokenizer, id, &logprobs[place]));
            match tokenizer.token(id) {
                Some(Token::Added(spelling)) => {
                    self.release_decoded();
                    if id != END_OF_SENTENCE {
                        self.machine.push(spelling, Kind::Special, logprob.map(|entry| Arc::from([entry])));
                    }
                    self.recent.place(id, self.machine.received());
                }
                Some(Token::Plain(bytes)) => {
                    self.decoder.push(bytes);
                    self.recent.wait(id, bytes.len());
                    self.waiting_logprobs.extend(logprob);
                }
                None => {
                    self.recent.wait(id, 0);
                    self.waiting_logprobs.extend(logprob);
                }
            }
        }
        if let Some(text) = self.decoder.take_complete() {
            self.push_decoded(&text);
        }
        self.run(events);
        Ok(())
    }

    /// The engine has ended; see [`InferenceChunk::Finish`].
    pub fn push_finish(&mut self, reason: InferenceFinishReason, events: &mut Events) -> Result<()> {
        self.begin(events)?;
        self.flush(reason == InferenceFinishReason::Stop, events);
        if self.phase == Phase::Finished {
            return Ok(());
        }
        let reason = match reason {
            InferenceFinishReason::Stop => self.machine.normal_reason(),
            InferenceFinishReason::Length => FinishReason::Length,
            InferenceFinishReason::ContentFilter => FinishReason::ContentFilter,
        };
        events.finish(reason, None, self.usage());
        self.phase = Phase::Finished;
        Ok(())
    }

    /// The engine has failed; see [`InferenceChunk::Error`].
    pub fn push_error(&mut self, message: &str, code: &str, events: &mut Events) -> Result<()> {
        self.begin(events)?;
        self.flush(false, events);
        if self.phase != Phase::Finished {
            events.error(message, code, self.usage());
            self.phase = Phase::Finished;
        }
        Ok(())
    }

    /// Closes the input. Without a finish chunk before it, that is a failure. A second call has no events.
    pub fn finish(&mut self, events: &mut Events) -> Result<()> {
        if self.phase == Phase::Finished {
            return Ok(());
        }
        self.push_error(NO_FINISH, "server_error", events)
    }

    /// Ends without any event.
    pub fn close(&mut self) {
        self.phase = Phase::Closed;
    }

    fn check_open(&self) -> Result<()> {
        match self.phase {
            Phase::New | Phase::Running => Ok(()),
            Phase::Finished => Err(Error::misuse("stream processor has finished")),
            Phase::Closed => Err(Error::misuse("stream processor is closed")),
        }
    }

    /// Any first chunk starts the output.
    fn begin(&mut self, events: &mut Events) -> Result<()> {
        self.check_open()?;
        self.start(PromptUsage::default(), None, events);
        Ok(())
    }

    fn start(&mut self, usage: PromptUsage, system_fingerprint: Option<&str>, events: &mut Events) {
        if self.phase == Phase::New {
            self.phase = Phase::Running;
            events.start(usage, system_fingerprint);
        }
    }

    /// Hands what waits in the decoder to the machine; the rest of a broken character becomes U+FFFD.
    fn release_decoded(&mut self) {
        if let Some(text) = self.decoder.take_all() {
            self.push_decoded(&text);
        }
    }

    fn push_decoded(&mut self, text: &str) {
        let logprobs = std::mem::take(&mut self.waiting_logprobs);
        let logprobs = (!logprobs.is_empty()).then(|| Arc::from(logprobs));
        if let Some(tokenizer) = &self.tokenizer {
            self.recent.place_waiting(self.machine.received(), text.len(), tokenizer);
        }
        self.machine.push(text, Kind::Plain, logprobs);
    }

    fn run(&mut self, events: &mut Events) {
        let before = events.len();
        self.machine.run(events);
        self.after_run(before, events);
    }

    fn flush(&mut self, normally: bool, events: &mut Events) {
        self.release_decoded();
        let before = events.len();
        self.machine.end(normally, events);
        self.after_run(before, events);
    }

    /// Counts the reasoning, and finishes where the machine ended by itself.
    fn after_run(&mut self, before: usize, events: &mut Events) {
        if let (Some(reasoning), Some(tokenizer)) = (&mut self.reasoning, &self.tokenizer) {
            for event in events.iter_from(before) {
                if let Event::Reasoning { text, .. } = event {
                    reasoning.push(tokenizer, text);
                }
            }
        }
        if let Some((reason, stop_sequence)) = self.machine.ended_by_itself() {
            events.finish(reason, stop_sequence, self.usage());
            self.phase = Phase::Finished;
            // It is behind the end, too.
            self.release_decoded();
        } else {
            self.recent.release(self.machine.released());
        }
    }

    fn usage(&self) -> OutputUsage {
        let reasoning_tokens = self.reasoning.as_ref().zip(self.tokenizer.as_ref());
        OutputUsage {
            completion_tokens: self.completion_tokens,
            reasoning_tokens: reasoning_tokens.map(|(reasoning, tokenizer)| reasoning.total(tokenizer) as u64),
        }
    }
}

fn token_logprob(tokenizer: &Tokenizer, id: u32, entry: &IdLogprob) -> TokenLogprob {
    let probability = |id, logprob| TokenProbability {
        bytes: match tokenizer.token(id) {
            Some(Token::Plain(bytes)) => bytes.to_vec(),
            Some(Token::Added(spelling)) => spelling.as_bytes().to_vec(),
            None => Vec::new(),
        },
        logprob,
    };
    TokenLogprob {
        token: probability(id, entry.logprob),
        top: entry.top.iter().map(|(id, logprob)| probability(*id, *logprob)).collect(),
    }
}
