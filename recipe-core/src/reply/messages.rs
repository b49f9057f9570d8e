//! Anthropic Messages: events of a streamed reply, and the complete message that adds them up.

use std::borrow::Cow;
use std::sync::Arc;

use super::json::{write, write_optional};
use super::{CallIds, Chunk, Reply};
use crate::json::{write_string, Value};
use crate::request::ConversationRequest;
use crate::save::saved;
use crate::seal::ReplySealer;
use crate::stream::{Event, FinishReason, OutputTools, PromptUsage};

/// Makes the events of one message.
#[derive(Clone, Debug)]
pub struct MessagesGenerator {
    id: String,
    model: String,
    signature: String,
    /// What seals the reasoning in place of showing it, and the open block's reasoning so far.
    sealer: Option<(ReplySealer, String)>,
    thinking: bool,
    tools: Arc<OutputTools>,
    call_ids: CallIds,
    prompt: PromptUsage,
    /// The index of the open block, or of the next one.
    index: usize,
    open: Option<BlockKind>,
    pinged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockKind {
    Thinking,
    Text,
    ToolUse,
}

impl MessagesGenerator {
    /// A generator for the reply to `request`. `seed` is random, for call ids.
    pub fn new(request: &ConversationRequest, id: &str, model: &str, seed: u128) -> Self {
        let sealer = request.sealer.clone();
        Self {
            id: id.to_owned(),
            model: model.to_owned(),
            signature: id.to_owned(),
            sealer: sealer.map(|sealer| (ReplySealer::new(sealer, request.model_version, seed), String::new())),
            thinking: request.conversation.thinking_mode,
            tools: Arc::new(OutputTools::new(request.conversation.tools.clone(), Vec::new())),
            call_ids: CallIds::new(seed),
            prompt: PromptUsage::default(),
            index: 0,
            open: None,
            pinged: false,
        }
    }

    /// The same with this signature on thinking blocks, in place of the reply's id.
    #[must_use]
    pub fn with_signature(mut self, signature: &str) -> Self {
        signature.clone_into(&mut self.signature);
        self
    }

    /// Opens a block; the one before it ends. The first of a message is followed by a ping, as the reference does.
    fn open(&mut self, kind: BlockKind, start: BlockStart<'_>, chunk: &mut dyn FnMut(MessagesEvent<'_>)) {
        self.close(false, chunk);
        self.open = Some(kind);
        chunk(MessagesEvent(Kind::BlockStart { index: self.index, start }));
        if !self.pinged {
            self.pinged = true;
            chunk(MessagesEvent(Kind::Ping));
        }
    }

    /// Closes the open block, if there is one. A call that is not `finished` has been cut off.
    fn close(&mut self, finished: bool, chunk: &mut dyn FnMut(MessagesEvent<'_>)) {
        let Some(kind) = self.open.take() else {
            return;
        };
        let index = self.index;
        if kind == BlockKind::Thinking {
            let text = match &mut self.sealer {
                Some((sealer, reasoning)) => sealer.seal(&std::mem::take(reasoning), index).into(),
                None => self.signature.as_str().into(),
            };
            chunk(MessagesEvent(Kind::Delta { index, kind: DeltaKind::Signature, text }));
        }
        let cut = kind == BlockKind::ToolUse && !finished;
        chunk(MessagesEvent(Kind::BlockStop { index, cut }));
        self.index += 1;
    }

    /// A delta of reasoning or answer, in a block of its own where another kind is open.
    fn text(&mut self, kind: BlockKind, text: &str, chunk: &mut dyn FnMut(MessagesEvent<'_>)) {
        if self.open != Some(kind) {
            // No block is open behind a call that has ended.
            let behind_call = self.open.map_or(self.index > 0, |open| open == BlockKind::ToolUse);
            if behind_call && text.is_empty() {
                return;
            }
            let start = if kind == BlockKind::Thinking { BlockStart::Thinking } else { BlockStart::Text };
            self.open(kind, start, chunk);
        }
        if let (BlockKind::Thinking, Some((_, reasoning))) = (kind, &mut self.sealer) {
            reasoning.push_str(text);
            return;
        }
        let kind = if kind == BlockKind::Thinking { DeltaKind::Thinking } else { DeltaKind::Text };
        chunk(MessagesEvent(Kind::Delta { index: self.index, kind, text: text.into() }));
    }
}

impl Reply for MessagesGenerator {
    type Chunk<'a> = MessagesEvent<'a>;

    fn tools(&self) -> Arc<OutputTools> {
        self.tools.clone()
    }

    fn say(&mut self, event: &Event<'_>, chunk: &mut dyn FnMut(MessagesEvent<'_>)) {
        match *event {
            Event::Start { usage, .. } => {
                self.prompt = usage;
                let (id, model) = (self.id.as_str().into(), self.model.as_str().into());
                chunk(MessagesEvent(Kind::MessageStart { id, model, usage: self.usage(0) }));
                if self.thinking {
                    self.open(BlockKind::Thinking, BlockStart::Thinking, chunk);
                }
            }
            Event::Reasoning { text, .. } => self.text(BlockKind::Thinking, text, chunk),
            Event::Content { text, .. } => self.text(BlockKind::Text, text, chunk),
            Event::CallStart { index, name } => {
                let start = BlockStart::ToolUse { id: self.call_ids.next(index), name: name.into() };
                self.open(BlockKind::ToolUse, start, chunk);
            }
            Event::CallArguments { text, .. } => {
                chunk(MessagesEvent(Kind::Delta { index: self.index, kind: DeltaKind::Input, text: text.into() }));
            }
            Event::CallEnd { .. } => self.close(true, chunk),
            Event::Finish { reason, stop_sequence, usage } => {
                self.close(false, chunk);
                let stop_reason = match (reason, stop_sequence) {
                    (_, Some(_)) => "stop_sequence",
                    (FinishReason::Stop, None) => "end_turn",
                    (FinishReason::ToolCalls, None) => "tool_use",
                    (FinishReason::Length, None) => "max_tokens",
                    (FinishReason::ContentFilter, None) => "refusal",
                };
                let stop_sequence = stop_sequence.map(Cow::Borrowed);
                let usage = self.usage(usage.completion_tokens);
                chunk(MessagesEvent(Kind::MessageDelta { stop_reason, stop_sequence, usage }));
                chunk(MessagesEvent(Kind::MessageStop));
            }
            Event::Error { message, usage, .. } => {
                let usage = self.usage(usage.completion_tokens);
                chunk(MessagesEvent(Kind::Error { message: message.into(), usage }));
            }
        }
    }
}

impl MessagesGenerator {
    fn usage(&self, output_tokens: u64) -> Usage {
        Usage { prompt: self.prompt, output_tokens }
    }
}

/// One event of a streamed reply.
#[derive(Clone, Debug)]
pub struct MessagesEvent<'a>(Kind<'a>);

#[derive(Clone, Debug)]
enum Kind<'a> {
    MessageStart {
        id: Cow<'a, str>,
        model: Cow<'a, str>,
        usage: Usage,
    },
    BlockStart {
        index: usize,
        start: BlockStart<'a>,
    },
    Ping,
    Delta {
        index: usize,
        kind: DeltaKind,
        text: Cow<'a, str>,
    },
    BlockStop {
        index: usize,
        /// Whether the block is a call that never ended: the stream says nothing of it, but the complete message does.
        cut: bool,
    },
    MessageDelta {
        stop_reason: &'static str,
        stop_sequence: Option<Cow<'a, str>>,
        usage: Usage,
    },
    MessageStop,
    Error {
        message: Cow<'a, str>,
        usage: Usage,
    },
}

#[derive(Clone, Debug)]
enum BlockStart<'a> {
    Thinking,
    Text,
    ToolUse { id: String, name: Cow<'a, str> },
}

#[derive(Clone, Copy, Debug)]
enum DeltaKind {
    Thinking,
    Signature,
    Text,
    Input,
}

/// What a message cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Usage {
    prompt: PromptUsage,
    output_tokens: u64,
}

impl MessagesEvent<'_> {
    /// The same event without borrowed text.
    pub fn into_owned(self) -> MessagesEvent<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        MessagesEvent(match self.0 {
            Kind::MessageStart { id, model, usage } => Kind::MessageStart { id: owned(id), model: owned(model), usage },
            Kind::BlockStart { index, start } => {
                let start = match start {
                    BlockStart::Thinking => BlockStart::Thinking,
                    BlockStart::Text => BlockStart::Text,
                    BlockStart::ToolUse { id, name } => BlockStart::ToolUse { id, name: owned(name) },
                };
                Kind::BlockStart { index, start }
            }
            Kind::Ping => Kind::Ping,
            Kind::Delta { index, kind, text } => Kind::Delta { index, kind, text: owned(text) },
            Kind::BlockStop { index, cut } => Kind::BlockStop { index, cut },
            Kind::MessageDelta { stop_reason, stop_sequence, usage } => {
                Kind::MessageDelta { stop_reason, stop_sequence: stop_sequence.map(owned), usage }
            }
            Kind::MessageStop => Kind::MessageStop,
            Kind::Error { message, usage } => Kind::Error { message: owned(message), usage },
        })
    }

    fn name(&self) -> &'static str {
        match self.0 {
            Kind::MessageStart { .. } => "message_start",
            Kind::BlockStart { .. } => "content_block_start",
            Kind::Ping => "ping",
            Kind::Delta { .. } => "content_block_delta",
            Kind::BlockStop { .. } => "content_block_stop",
            Kind::MessageDelta { .. } => "message_delta",
            Kind::MessageStop => "message_stop",
            Kind::Error { .. } => "error",
        }
    }
}

impl Chunk for MessagesEvent<'_> {
    fn sse_event_name(&self) -> Option<&'static str> {
        Some(self.name())
    }

    fn write_json(&self, out: &mut String) {
        write(out, format_args!("{{\"type\":\"{}\"", self.name()));
        match &self.0 {
            Kind::MessageStart { id, model, usage } => {
                out.push_str(",\"message\":");
                write_message_head(out, id, model);
                out.push(']');
                write_message_end(out, None, None, *usage);
                out.push('}');
            }
            Kind::BlockStart { index, start } => {
                write(out, format_args!(",\"index\":{index},\"content_block\":"));
                match start {
                    BlockStart::Thinking => write_thinking(out, "", ""),
                    BlockStart::Text => write_text(out, ""),
                    BlockStart::ToolUse { id, name } => {
                        write_tool_use(out, id, name, &Value::Object(Default::default()));
                    }
                }
            }
            Kind::Ping | Kind::MessageStop => {}
            Kind::Delta { index, kind, text } => {
                let (name, key) = match kind {
                    DeltaKind::Thinking => ("thinking_delta", "thinking"),
                    DeltaKind::Signature => ("signature_delta", "signature"),
                    DeltaKind::Text => ("text_delta", "text"),
                    DeltaKind::Input => ("input_json_delta", "partial_json"),
                };
                write(out, format_args!(",\"index\":{index},\"delta\":{{\"type\":\"{name}\",\"{key}\":"));
                write_string(out, text);
                out.push('}');
            }
            Kind::BlockStop { index, .. } => write(out, format_args!(",\"index\":{index}")),
            Kind::MessageDelta { stop_reason, stop_sequence, usage } => {
                out.push_str(",\"delta\":{");
                write_stop(out, Some(stop_reason), stop_sequence.as_deref());
                out.push_str("},");
                usage.write_json(out);
            }
            Kind::Error { message, .. } => write_error(out, message),
        }
        out.push('}');
    }
}

/// A message up to its content, whose bracket is open.
fn write_message_head(out: &mut String, id: &str, model: &str) {
    out.push_str("{\"id\":");
    write_string(out, id);
    out.push_str(",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    write_string(out, model);
    out.push_str(",\"content\":[");
}

/// A message behind its content, without its closing brace.
fn write_message_end(out: &mut String, stop_reason: Option<&str>, stop_sequence: Option<&str>, usage: Usage) {
    out.push(',');
    write_stop(out, stop_reason, stop_sequence);
    out.push(',');
    usage.write_json(out);
}

fn write_stop(out: &mut String, reason: Option<&str>, sequence: Option<&str>) {
    out.push_str("\"stop_reason\":");
    write_optional(out, reason);
    out.push_str(",\"stop_sequence\":");
    write_optional(out, sequence);
}

fn write_thinking(out: &mut String, thinking: &str, signature: &str) {
    out.push_str("{\"type\":\"thinking\",\"thinking\":");
    write_string(out, thinking);
    out.push_str(",\"signature\":");
    write_string(out, signature);
    out.push('}');
}

fn write_text(out: &mut String, text: &str) {
    out.push_str("{\"type\":\"text\",\"text\":");
    write_string(out, text);
    out.push('}');
}

fn write_tool_use(out: &mut String, id: &str, name: &str, input: &Value<'_>) {
    out.push_str("{\"type\":\"tool_use\",\"id\":");
    write_string(out, id);
    out.push_str(",\"name\":");
    write_string(out, name);
    out.push_str(",\"input\":");
    input.write_compact(out);
    out.push('}');
}

/// The member `error`, with the comma before it.
fn write_error(out: &mut String, message: &str) {
    out.push_str(",\"error\":{\"type\":\"api_error\",\"message\":");
    write_string(out, message);
    out.push('}');
}

impl Usage {
    /// The member `usage`. Input tokens are those that did not come from the cache.
    fn write_json(self, out: &mut String) {
        let PromptUsage { prompt_tokens, prompt_cache_hit_tokens: hits } = self.prompt;
        let misses = prompt_tokens.saturating_sub(hits);
        let output = self.output_tokens;
        write(
            out,
            format_args!(
                "\"usage\":{{\"input_tokens\":{misses},\"cache_creation_input_tokens\":0,\
                 \"cache_read_input_tokens\":{hits},\"output_tokens\":{output},\"service_tier\":\"standard\"}}"
            ),
        );
    }
}

/// The complete message: what the events so far add up to.
#[derive(Clone, Debug)]
pub struct MessagesResponse {
    id: String,
    model: String,
    content: Vec<Block>,
    stop_reason: Option<&'static str>,
    stop_sequence: Option<String>,
    usage: Usage,
    error: Option<String>,
}

#[derive(Clone, Debug)]
enum Block {
    Thinking {
        thinking: String,
        signature: String,
    },
    Text(String),
    ToolUse {
        id: String,
        name: String,
        arguments: String,
        /// Only a finished call is shown in a message that has ended.
        finished: bool,
    },
}

impl MessagesResponse {
    /// A message without any event.
    pub fn new(id: &str, model: &str, prompt: PromptUsage) -> Self {
        Self {
            id: id.to_owned(),
            model: model.to_owned(),
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
            usage: Usage { prompt, output_tokens: 0 },
            error: None,
        }
    }

    /// Adds an event.
    pub fn accumulate(&mut self, event: MessagesEvent<'_>) {
        match event.0 {
            Kind::MessageStart { id, model, usage } => {
                self.id = id.into_owned();
                self.model = model.into_owned();
                self.usage = usage;
            }
            Kind::BlockStart { index, start } if index == self.content.len() => self.content.push(match start {
                BlockStart::Thinking => Block::Thinking { thinking: String::new(), signature: String::new() },
                BlockStart::Text => Block::Text(String::new()),
                BlockStart::ToolUse { id, name } => {
                    Block::ToolUse { id, name: name.into_owned(), arguments: String::new(), finished: false }
                }
            }),
            // A block that does not follow the last one has lost its start.
            Kind::BlockStart { .. } => {}
            Kind::Delta { index, kind, text } => match (self.content.get_mut(index), kind) {
                (Some(Block::Thinking { thinking, .. }), DeltaKind::Thinking) => thinking.push_str(&text),
                (Some(Block::Thinking { signature, .. }), DeltaKind::Signature) => signature.push_str(&text),
                (Some(Block::Text(content)), DeltaKind::Text) => content.push_str(&text),
                (Some(Block::ToolUse { arguments, .. }), DeltaKind::Input) => arguments.push_str(&text),
                _ => {}
            },
            Kind::BlockStop { index, cut } => {
                if let Some(Block::ToolUse { finished, .. }) = self.content.get_mut(index) {
                    *finished = !cut;
                }
            }
            Kind::MessageDelta { stop_reason, stop_sequence, usage } => {
                self.stop_reason = Some(stop_reason);
                self.stop_sequence = stop_sequence.map(Cow::into_owned);
                self.usage = usage;
            }
            Kind::Error { message, usage } => {
                self.usage = usage;
                self.error = Some(message.into_owned());
            }
            Kind::Ping | Kind::MessageStop => {}
        }
    }

    /// Appends the message as JSON.
    pub fn write_json(&self, out: &mut String) {
        write_message_head(out, &self.id, &self.model);
        // A call that is still unfinished when the message has ended was cut off: nobody may run half of it.
        let ended = self.stop_reason.is_some() || self.error.is_some();
        let shown =
            self.content.iter().filter(|block| !(ended && matches!(block, Block::ToolUse { finished: false, .. })));
        for (place, block) in shown.enumerate() {
            if place > 0 {
                out.push(',');
            }
            match block {
                Block::Thinking { thinking, signature } => write_thinking(out, thinking, signature),
                Block::Text(text) => write_text(out, text),
                Block::ToolUse { id, name, arguments, .. } => {
                    let input =
                        Value::parse(arguments.as_bytes()).unwrap_or_else(|_| Value::Object(Default::default()));
                    write_tool_use(out, id, name, &input);
                }
            }
        }
        out.push(']');
        write_message_end(out, self.stop_reason, self.stop_sequence.as_deref(), self.usage);
        if let Some(message) = &self.error {
            write_error(out, message);
        }
        out.push('}');
    }
}

saved! {
    struct MessagesGenerator {
        id, model, signature, sealer, thinking, tools, call_ids, prompt, index, open, pinged,
    }
}
saved! { enum BlockKind { 0 = Thinking, 1 = Text, 2 = ToolUse } }
saved! { struct Usage { prompt, output_tokens } }
saved! { struct MessagesResponse { id, model, content, stop_reason, stop_sequence, usage, error } }
saved! {
    enum Block { 0 = Thinking { thinking, signature }, 1 = Text(text), 2 = ToolUse { id, name, arguments, finished } }
}
