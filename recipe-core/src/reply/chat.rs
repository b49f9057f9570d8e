//! Chat Completions: chunks of a streamed reply, and the complete response that adds them up.

use std::borrow::Cow;
use std::sync::Arc;

use super::custom_input::CustomInput;
use super::json::{write, write_logprobs, write_optional};
use super::{CallIds, Chunk, Reply};
use crate::json::write_string;
use crate::request::ConversationRequest;
use crate::save::saved;
use crate::stream::{Event, FinishReason, OutputTools, OutputUsage, PromptUsage, TokenLogprob};

/// What ends a stream of server-sent events in this protocol.
pub const SSE_DONE: &str = "[DONE]";

/// The finish reason of a reply that failed.
pub(super) const FAILED: &str = "insufficient_system_resource";

/// Makes the chunks of one choice.
#[derive(Clone, Debug)]
pub struct ChatGenerator {
    id: String,
    model: String,
    created: u64,
    index: u32,
    thinking: bool,
    starts_in_reasoning: bool,
    usage_everywhere: bool,
    tools: Arc<OutputTools>,
    call_ids: CallIds,
    prompt: PromptUsage,
    head: Arc<Head>,
    /// For reasoning and answer: whether it has text, and whether a call has come since.
    channels: [Seen; 2],
    /// The number of the open call and the decoder of its arguments, if its tool is a custom one.
    input: Option<(usize, CustomInput)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    text: bool,
    call: bool,
}

/// What all chunks of a reply have in common, written once.
#[derive(Debug, Default)]
struct Head {
    /// The JSON up to the delta.
    json: String,
    system_fingerprint: Option<String>,
    index: u32,
    thinking: bool,
    usage_everywhere: bool,
}

impl ChatGenerator {
    /// A generator for the reply to `request`. `created` is the Unix time in seconds; `seed` is random, for call ids.
    pub fn new(request: &ConversationRequest, id: &str, model: &str, created: u64, seed: u128) -> Self {
        let stage = request.parsing_options.thinking_initial_stage;
        Self {
            id: id.to_owned(),
            model: model.to_owned(),
            created,
            index: 0,
            thinking: request.conversation.thinking_mode,
            starts_in_reasoning: stage.is_some_and(|stage| stage.starts_in_reasoning()),
            usage_everywhere: !request.stream || request.include_usage,
            tools: Arc::new(OutputTools::new(request.conversation.tools.clone(), request.custom_tools.clone())),
            call_ids: CallIds::new(seed),
            prompt: PromptUsage::default(),
            head: Arc::default(),
            channels: [Seen::default(); 2],
            input: None,
        }
    }

    /// The same for the choice with this number.
    #[must_use]
    pub fn with_index(mut self, index: u32) -> Self {
        self.index = index;
        self
    }

    /// The Unix time in seconds that the chunks say.
    pub fn created(&self) -> u64 {
        self.created
    }

    fn open(&mut self, usage: PromptUsage, system_fingerprint: Option<&str>) {
        self.prompt = usage;
        let mut json = String::from("{\"id\":");
        write_string(&mut json, &self.id);
        write(&mut json, format_args!(",\"object\":\"chat.completion.chunk\",\"created\":{},\"model\":", self.created));
        write_string(&mut json, &self.model);
        json.push_str(",\"system_fingerprint\":");
        write_optional(&mut json, system_fingerprint);
        write(&mut json, format_args!(",\"choices\":[{{\"index\":{},\"delta\":", self.index));
        self.head = Arc::new(Head {
            json,
            system_fingerprint: system_fingerprint.map(str::to_owned),
            index: self.index,
            thinking: self.thinking,
            usage_everywhere: self.usage_everywhere,
        });
    }

    /// Text after a call stands apart from the text before it.
    fn separated<'a>(&mut self, reasoning: bool, text: &'a str) -> Cow<'a, str> {
        let seen = &mut self.channels[usize::from(reasoning)];
        if text.is_empty() {
            return text.into();
        }
        let apart = seen.text && seen.call;
        *seen = Seen { text: true, call: false };
        if apart {
            format!("\n\n{text}").into()
        } else {
            text.into()
        }
    }

    /// Ends the open custom call, if there is one. It may have held the begin of its input.
    fn end_input(&mut self, chunk: &mut dyn FnMut(ChatChunk<'_>)) {
        let Some((index, mut input)) = self.input.take() else {
            return;
        };
        let rest = input.rest();
        if !rest.is_empty() {
            let delta = Delta::CallArguments { index, custom: true, text: rest.into() };
            chunk(ChatChunk { head: self.head.clone(), delta });
        }
    }

    fn usage(&self, output: OutputUsage) -> Usage {
        // Without thinking the reply has no reasoning, whatever the parser was told.
        let reasoning_tokens = output.reasoning_tokens.filter(|_| self.thinking);
        Usage { prompt: self.prompt, output: OutputUsage { reasoning_tokens, ..output } }
    }
}

impl Reply for ChatGenerator {
    type Chunk<'a> = ChatChunk<'a>;

    fn tools(&self) -> Arc<OutputTools> {
        self.tools.clone()
    }

    fn say(&mut self, event: &Event<'_>, chunk: &mut dyn FnMut(ChatChunk<'_>)) {
        let delta = match *event {
            Event::Start { usage, system_fingerprint } => {
                self.open(usage, system_fingerprint);
                Delta::Start { in_reasoning: self.starts_in_reasoning }
            }
            Event::Reasoning { text, logprobs } => {
                Delta::Text { reasoning: true, text: self.separated(true, text), logprobs: logprobs.cloned() }
            }
            Event::Content { text, logprobs } => {
                Delta::Text { reasoning: false, text: self.separated(false, text), logprobs: logprobs.cloned() }
            }
            Event::CallStart { index, name } => {
                for seen in &mut self.channels {
                    seen.call = true;
                }
                let custom = self.tools.is_custom(name);
                self.input = custom.then(|| (index, CustomInput::default()));
                Delta::CallStart { index, id: self.call_ids.next(index), custom, name: name.into() }
            }
            Event::CallArguments { index, text } => match &mut self.input {
                Some((_, input)) => {
                    let input = input.feed(text);
                    if input.is_empty() {
                        return;
                    }
                    Delta::CallArguments { index, custom: true, text: input.into() }
                }
                None => Delta::CallArguments { index, custom: false, text: text.into() },
            },
            Event::CallEnd { .. } => return self.end_input(chunk),
            Event::Finish { reason, usage, .. } => {
                self.end_input(chunk);
                let reason = match reason {
                    FinishReason::Stop => "stop",
                    FinishReason::ToolCalls => "tool_calls",
                    FinishReason::Length => "length",
                    FinishReason::ContentFilter => "content_filter",
                };
                Delta::Finish { reason, usage: self.usage(usage), error: None }
            }
            Event::Error { message, code, usage } => {
                self.end_input(chunk);
                let error = Some(Failure { message: message.to_owned(), code: code.to_owned() });
                Delta::Finish { reason: FAILED, usage: self.usage(usage), error }
            }
        };
        chunk(ChatChunk { head: self.head.clone(), delta });
    }
}

/// One chunk of a streamed reply.
#[derive(Clone, Debug)]
pub struct ChatChunk<'a> {
    head: Arc<Head>,
    delta: Delta<'a>,
}

#[derive(Clone, Debug)]
enum Delta<'a> {
    Start {
        in_reasoning: bool,
    },
    Text {
        reasoning: bool,
        text: Cow<'a, str>,
        logprobs: Option<Arc<[TokenLogprob]>>,
    },
    CallStart {
        index: usize,
        id: String,
        custom: bool,
        name: Cow<'a, str>,
    },
    /// Arguments, or the input of a custom tool.
    CallArguments {
        index: usize,
        custom: bool,
        text: Cow<'a, str>,
    },
    Finish {
        reason: &'static str,
        usage: Usage,
        error: Option<Failure>,
    },
}

/// Why a reply failed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    message: String,
    code: String,
}

/// What a reply cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Usage {
    prompt: PromptUsage,
    output: OutputUsage,
}

impl ChatChunk<'_> {
    /// The same chunk without borrowed text.
    pub fn into_owned(self) -> ChatChunk<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let delta = match self.delta {
            Delta::Start { in_reasoning } => Delta::Start { in_reasoning },
            Delta::Text { reasoning, text, logprobs } => Delta::Text { reasoning, text: owned(text), logprobs },
            Delta::CallStart { index, id, custom, name } => Delta::CallStart { index, id, custom, name: owned(name) },
            Delta::CallArguments { index, custom, text } => Delta::CallArguments { index, custom, text: owned(text) },
            Delta::Finish { reason, usage, error } => Delta::Finish { reason, usage, error },
        };
        ChatChunk { head: self.head, delta }
    }

    /// The two text fields: one is set, and in thinking mode the other is null.
    fn write_texts(&self, out: &mut String, reasoning: bool, text: &str) {
        if reasoning {
            out.push_str("\"content\":null,\"reasoning_content\":");
            write_string(out, text);
        } else {
            out.push_str("\"content\":");
            write_string(out, text);
            if self.head.thinking {
                out.push_str(",\"reasoning_content\":null");
            }
        }
    }
}

impl Chunk for ChatChunk<'_> {
    fn sse_event_name(&self) -> Option<&'static str> {
        None
    }

    fn write_json(&self, out: &mut String) {
        out.push_str(&self.head.json);
        let (mut logprobs_of, mut finish, mut usage_of) = (None, None, None);
        out.push('{');
        match &self.delta {
            Delta::Start { in_reasoning } => {
                out.push_str("\"role\":\"assistant\",");
                self.write_texts(out, self.head.thinking && *in_reasoning, "");
            }
            Delta::Text { reasoning, text, logprobs } => {
                self.write_texts(out, *reasoning, text);
                logprobs_of = logprobs.as_ref().map(|logprobs| (*reasoning, logprobs));
            }
            Delta::CallStart { index, id, custom, name } => {
                out.push_str("\"tool_calls\":[");
                write_call(out, *index, id, *custom, name, "");
                out.push(']');
            }
            Delta::CallArguments { index, custom, text } => {
                let (kind, field) = call_words(*custom);
                write(out, format_args!("\"tool_calls\":[{{\"index\":{index},\"{kind}\":{{\"{field}\":"));
                write_string(out, text);
                out.push_str("}}]");
            }
            Delta::Finish { reason, usage, error } => {
                self.write_texts(out, false, "");
                finish = Some((*reason, error));
                usage_of = Some(usage);
            }
        }
        out.push_str("},\"logprobs\":");
        match logprobs_of {
            Some((reasoning, logprobs)) => {
                out.push_str(if reasoning { "{\"reasoning_content\":" } else { "{\"content\":" });
                write_logprobs(out, logprobs);
                out.push('}');
            }
            None => out.push_str("null"),
        }
        out.push_str(",\"finish_reason\":");
        write_optional(out, finish.map(|(reason, _)| reason));
        out.push_str("}]");
        match usage_of {
            Some(usage) => {
                out.push_str(",\"usage\":");
                usage.write_json(out);
            }
            None if self.head.usage_everywhere => out.push_str(",\"usage\":null"),
            None => {}
        }
        if let Some((_, Some(error))) = finish {
            error.write_json(out);
        }
        out.push('}');
    }
}

impl Failure {
    /// The member `error`, with the comma before it.
    fn write_json(&self, out: &mut String) {
        out.push_str(",\"error\":{\"message\":");
        write_string(out, &self.message);
        out.push_str(",\"type\":\"server_error\",\"param\":null,\"code\":");
        write_string(out, &self.code);
        out.push('}');
    }
}

impl Usage {
    fn write_json(&self, out: &mut String) {
        let PromptUsage { prompt_tokens, prompt_cache_hit_tokens: hits } = self.prompt;
        let completion = self.output.completion_tokens;
        let total = prompt_tokens.saturating_add(completion);
        write(
            out,
            format_args!(
                "{{\"prompt_tokens\":{prompt_tokens},\"completion_tokens\":{completion},\"total_tokens\":{total},\
                 \"prompt_tokens_details\":{{\"cached_tokens\":{hits}}}"
            ),
        );
        if let Some(reasoning) = self.output.reasoning_tokens {
            write(out, format_args!(",\"completion_tokens_details\":{{\"reasoning_tokens\":{reasoning}}}"));
        }
        let misses = prompt_tokens.saturating_sub(hits);
        write(out, format_args!(",\"prompt_cache_hit_tokens\":{hits},\"prompt_cache_miss_tokens\":{misses}}}"));
    }
}

/// The complete response: what the chunks so far add up to.
#[derive(Clone, Debug)]
pub struct ChatResponse {
    id: String,
    model: String,
    created: u64,
    system_fingerprint: Option<String>,
    choice: Option<Choice>,
    usage: Option<Usage>,
    error: Option<Failure>,
}

#[derive(Clone, Debug, Default)]
struct Choice {
    index: u32,
    content: Option<String>,
    reasoning_content: Option<String>,
    tool_calls: Vec<Call>,
    /// Of the reasoning and of the answer.
    logprobs: [Vec<TokenLogprob>; 2],
    has_logprobs: [bool; 2],
    finish_reason: Option<&'static str>,
}

#[derive(Clone, Debug)]
struct Call {
    index: usize,
    id: String,
    custom: bool,
    name: String,
    /// The arguments, or the input of a custom tool.
    arguments: String,
}

impl ChatResponse {
    /// A response without any chunk. `created` is the Unix time in seconds.
    pub fn new(id: &str, model: &str, created: u64) -> Self {
        Self {
            id: id.to_owned(),
            model: model.to_owned(),
            created,
            system_fingerprint: None,
            choice: None,
            usage: None,
            error: None,
        }
    }

    /// Whether the reply failed.
    pub fn is_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Adds a chunk.
    pub fn accumulate(&mut self, chunk: ChatChunk<'_>) {
        let head = &chunk.head;
        self.system_fingerprint.clone_from(&head.system_fingerprint);
        let choice = self.choice.get_or_insert_with(|| Choice { index: head.index, ..Choice::default() });
        match chunk.delta {
            Delta::Start { in_reasoning } => {
                let slot =
                    if head.thinking && in_reasoning { &mut choice.reasoning_content } else { &mut choice.content };
                slot.get_or_insert_default();
            }
            Delta::Text { reasoning, text, logprobs } => {
                let slot = if reasoning { &mut choice.reasoning_content } else { &mut choice.content };
                slot.get_or_insert_default().push_str(&text);
                if let Some(logprobs) = logprobs {
                    choice.has_logprobs[usize::from(reasoning)] = true;
                    choice.logprobs[usize::from(reasoning)].extend(logprobs.iter().cloned());
                }
            }
            Delta::CallStart { index, id, custom, name } => {
                let name = name.into_owned();
                choice.tool_calls.push(Call { index, id, custom, name, arguments: String::new() });
            }
            Delta::CallArguments { index, text, .. } => {
                // The deltas of a call usually come before the next call starts.
                if let Some(call) = choice.tool_calls.iter_mut().rfind(|call| call.index == index) {
                    call.arguments.push_str(&text);
                }
            }
            Delta::Finish { reason, usage, error } => {
                choice.content.get_or_insert_default();
                choice.finish_reason = Some(reason);
                self.usage = Some(usage);
                self.error = error;
            }
        }
    }

    /// Appends the response as JSON.
    pub fn write_json(&self, out: &mut String) {
        out.push_str("{\"id\":");
        write_string(out, &self.id);
        write(out, format_args!(",\"object\":\"chat.completion\",\"created\":{},\"model\":", self.created));
        write_string(out, &self.model);
        out.push_str(",\"choices\":[");
        if let Some(choice) = &self.choice {
            choice.write_json(out);
        }
        out.push(']');
        if let Some(usage) = &self.usage {
            out.push_str(",\"usage\":");
            usage.write_json(out);
        }
        out.push_str(",\"system_fingerprint\":");
        write_optional(out, self.system_fingerprint.as_deref());
        if let Some(error) = &self.error {
            error.write_json(out);
        }
        out.push('}');
    }
}

impl Choice {
    fn write_json(&self, out: &mut String) {
        write(out, format_args!("{{\"index\":{},\"message\":{{\"role\":\"assistant\",\"content\":", self.index));
        write_optional(out, self.content.as_deref());
        if let Some(reasoning) = &self.reasoning_content {
            out.push_str(",\"reasoning_content\":");
            write_string(out, reasoning);
        }
        if !self.tool_calls.is_empty() {
            out.push_str(",\"tool_calls\":[");
            for (place, call) in self.tool_calls.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write_call(out, call.index, &call.id, call.custom, &call.name, &call.arguments);
            }
            out.push(']');
        }
        out.push_str("},\"logprobs\":");
        if self.has_logprobs == [false; 2] {
            out.push_str("null");
        } else {
            let mut separator = '{';
            for (channel, name) in ["content", "reasoning_content"].into_iter().enumerate() {
                if self.has_logprobs[channel] {
                    write(out, format_args!("{separator}\"{name}\":"));
                    write_logprobs(out, &self.logprobs[channel]);
                    separator = ',';
                }
            }
            out.push('}');
        }
        out.push_str(",\"finish_reason\":");
        write_optional(out, self.finish_reason);
        out.push('}');
    }
}

/// The type of a call, and the field that holds what the model wrote.
fn call_words(custom: bool) -> (&'static str, &'static str) {
    if custom {
        ("custom", "input")
    } else {
        ("function", "arguments")
    }
}

fn write_call(out: &mut String, index: usize, id: &str, custom: bool, name: &str, arguments: &str) {
    let (kind, field) = call_words(custom);
    write(out, format_args!("{{\"index\":{index},\"id\":"));
    write_string(out, id);
    write(out, format_args!(",\"type\":\"{kind}\",\"{kind}\":{{\"name\":"));
    write_string(out, name);
    write(out, format_args!(",\"{field}\":"));
    write_string(out, arguments);
    out.push_str("}}");
}

saved! {
    struct ChatGenerator {
        id, model, created, index, thinking, starts_in_reasoning, usage_everywhere, tools, call_ids, prompt, head,
        channels, input,
    }
}
saved! { struct Seen { text, call } }
saved! { struct Head { json, system_fingerprint, index, thinking, usage_everywhere } }
saved! { struct Failure { message, code } }
saved! { struct Usage { prompt, output } }
saved! { struct ChatResponse { id, model, created, system_fingerprint, choice, usage, error } }
saved! {
    struct Choice { index, content, reasoning_content, tool_calls, logprobs, has_logprobs, finish_reason }
}
saved! { struct Call { index, id, custom, name, arguments } }
