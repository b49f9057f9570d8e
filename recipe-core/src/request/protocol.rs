//! Which protocol a body is written in, by its shape. Reads no values.

use crate::error::{Error, Result};
use crate::json::Value;

/// A protocol of requests and replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// OpenAI Chat Completions.
    ChatCompletions,
    /// Anthropic Messages.
    Messages,
    /// OpenAI Responses.
    Responses,
}

/// Fields that only Chat Completions has.
const CHAT_FIELDS: [&str; 22] = [
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "n",
    "seed",
    "stop",
    "stream_options",
    "response_format",
    "reasoning_effort",
    "parallel_tool_calls",
    "max_completion_tokens",
    "functions",
    "function_call",
    "modalities",
    "prediction",
    "audio",
    "web_search_options",
    "continue_final_message",
    "enable_thinking",
    "chat_template_kwargs",
];

/// Fields that only Messages has.
const MESSAGES_FIELDS: [&str; 8] = [
    "system",
    "stop_sequences",
    "top_k",
    "output_config",
    "output_format",
    "mcp_servers",
    "container",
    "context_management",
];

const CHAT_MESSAGE_FIELDS: [&str; 5] = ["tool_calls", "tool_call_id", "reasoning_content", "prefix", "refusal"];
const CHAT_PARTS: [&str; 4] = ["image_url", "file", "input_audio", "refusal"];
const MESSAGES_BLOCKS: [&str; 9] = [
    "image",
    "document",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "tool_result",
    "server_tool_use",
    "web_search_tool_result",
    "tool_addition",
];

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 3] = [Self::ChatCompletions, Self::Messages, Self::Responses];

    /// The name in the Python API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat_completions",
            Self::Messages => "messages",
            Self::Responses => "responses",
        }
    }

    /// The protocol that a body's shape shows. What shows none is Chat Completions.
    ///
    /// Fails where the shape shows two, and where it shows none but has a `max_tokens`: Messages requires it, and a
    /// body of plain turns with it can be either.
    pub fn of(body: &Value<'_>) -> Result<Self> {
        let has = |fields: &[&str]| fields.iter().any(|field| body.get(field).is_some());
        let messages = body.get("messages").and_then(Value::as_array);
        let input = has(&["input"]) || (messages.is_none() && has(&["instructions", "max_output_tokens"]));
        let mut signs = Signs { chat: has(&CHAT_FIELDS), messages: has(&MESSAGES_FIELDS), system_role: false };
        for message in messages.unwrap_or_default() {
            signs.read_message(message);
        }
        for tool in body.get("tools").and_then(Value::as_array).unwrap_or_default() {
            signs.chat |= nests_a_tool(tool);
            signs.messages |= tool.get("input_schema").is_some();
        }
        match body.get("tool_choice") {
            Some(Value::String(_)) => signs.chat = true,
            Some(choice) => {
                let kind = choice.get("type").and_then(Value::as_str);
                signs.chat |= nests_a_tool(choice);
                signs.messages |= matches!(kind, Some("auto" | "any" | "tool" | "none"));
            }
            None => {}
        }
        signs.messages |= body.get("thinking").is_some_and(|thinking| thinking.get("budget_tokens").is_some());
        // Chat's bodies usually begin with a system message; Messages has them as a rare extension.
        signs.chat |= signs.system_role && !signs.messages;

        let ambiguous = |protocols: &str| {
            Err(Error::argument(format!(
                "this body can be one of {protocols}: say which with the argument protocol, chat_completions, messages \
                 or responses"
            )))
        };
        match (input, messages.is_some()) {
            (true, false) => Ok(Self::Responses),
            (true, true) => {
                ambiguous("Responses (it has `input`) and Chat Completions or Messages (it has `messages`)")
            }
            (false, _) => match (signs.chat, signs.messages) {
                (true, false) => Ok(Self::ChatCompletions),
                (false, true) => Ok(Self::Messages),
                (false, false) if messages.is_none() || !has(&["max_tokens"]) => Ok(Self::ChatCompletions),
                _ => ambiguous("Chat Completions and Messages"),
            },
        }
    }
}

/// Whether a tool or a choice has its fields one level down, as in Chat Completions alone.
fn nests_a_tool(value: &Value<'_>) -> bool {
    value.get("function").is_some() || value.get("custom").is_some()
}

struct Signs {
    chat: bool,
    messages: bool,
    system_role: bool,
}

impl Signs {
    fn read_message(&mut self, message: &Value<'_>) {
        match message.get("role").and_then(Value::as_str) {
            Some("tool" | "developer" | "latest_reminder" | "function") => self.chat = true,
            Some("system") => self.system_role = true,
            _ => {}
        }
        self.chat |= CHAT_MESSAGE_FIELDS.iter().any(|field| message.get(field).is_some());
        for part in message.get("content").and_then(Value::as_array).unwrap_or_default() {
            let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
            self.chat |= CHAT_PARTS.contains(&kind);
            self.messages |= MESSAGES_BLOCKS.contains(&kind) || part.get("cache_control").is_some();
        }
    }
}
