//! The response object of Responses and its output items, as JSON. Knows no events.

use std::borrow::Cow;
use std::sync::Arc;

use crate::json::{write_float32, write_string, Value};
use crate::reply::json::{write, write_logprobs, write_optional};
use crate::request::responses::ResponsesEcho;
use crate::save::saved;
use crate::stream::{OutputUsage, PromptUsage, TokenLogprob};

/// How far a response or an item has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    InProgress,
    Completed,
    Incomplete,
    Failed,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
        }
    }
}

/// The kinds of output items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Reasoning,
    /// Reasoning that is sent as its own summary.
    Summary,
    Message,
    Function,
    Custom,
    ToolSearch,
}

impl Kind {
    fn id_prefix(self) -> &'static str {
        match self {
            Self::Reasoning | Self::Summary => "rs",
            Self::Message => "msg",
            Self::Function => "fc",
            Self::Custom => "ctc",
            Self::ToolSearch => "tsc",
        }
    }

    /// Whether the item's text stands in a part.
    pub(super) fn has_parts(self) -> bool {
        matches!(self, Self::Reasoning | Self::Summary | Self::Message)
    }
}

/// What the events about an item say of it.
#[derive(Clone, Debug)]
pub(super) struct ItemHead {
    pub(super) kind: Kind,
    pub(super) index: usize,
    pub(super) id: Arc<str>,
}

/// One item of the output.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) head: ItemHead,
    /// Of reasoning: a stub, or what is sealed, which comes when the item is done.
    pub(super) encrypted_content: Option<String>,
    pub(super) status: Status,
    /// Whether the part that holds the text has been added.
    pub(super) has_part: bool,
    /// Reasoning, answer, arguments or input.
    pub(super) text: String,
    pub(super) logprobs: Vec<TokenLogprob>,
    /// Whether a call follows the message.
    pub(super) commentary: bool,
    pub(super) call: Option<Call>,
}

/// What a call item has beside its arguments.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) namespace: Option<String>,
}

impl Item {
    pub(super) fn new(kind: Kind, index: usize, response_id: &Arc<str>, call: Option<Call>) -> Self {
        let id = format!("{}_{response_id}_{index}", kind.id_prefix()).into();
        Self {
            head: ItemHead { kind, index, id },
            encrypted_content: Some(format!("{response_id}-{index}")),
            status: Status::InProgress,
            has_part: false,
            text: String::new(),
            logprobs: Vec::new(),
            commentary: false,
            call,
        }
    }

    pub(super) fn write_json(&self, out: &mut String) {
        match self.head.kind {
            Kind::Reasoning => {
                self.write_start(out, "reasoning");
                out.push_str(",\"content\":");
                self.write_parts(out);
                out.push_str(",\"summary\":[]");
                self.write_encrypted_content(out);
            }
            Kind::Summary => {
                self.write_start(out, "reasoning");
                out.push_str(",\"content\":[],\"summary\":");
                self.write_parts(out);
                self.write_encrypted_content(out);
            }
            Kind::Message => {
                self.write_start(out, "message");
                out.push_str(",\"role\":\"assistant\",\"phase\":");
                out.push_str(if self.commentary { "\"commentary\"" } else { "\"final_answer\"" });
                out.push_str(",\"content\":");
                self.write_parts(out);
            }
            Kind::Function => {
                self.write_start(out, "function_call");
                self.write_call(out);
                out.push_str(",\"arguments\":");
                write_string(out, &self.text);
            }
            Kind::Custom => {
                self.write_start(out, "custom_tool_call");
                self.write_call(out);
                out.push_str(",\"input\":");
                write_string(out, &self.text);
            }
            Kind::ToolSearch => {
                self.write_start(out, "tool_search_call");
                out.push_str(",\"call_id\":");
                write_optional(out, self.call.as_ref().map(|call| call.id.as_str()));
                out.push_str(",\"execution\":\"client\",\"arguments\":");
                match Value::parse(self.text.as_bytes()) {
                    Ok(arguments @ Value::Object(_)) => arguments.write_compact(out),
                    _ => out.push_str("{}"),
                }
            }
        }
        out.push('}');
    }

    fn write_start(&self, out: &mut String, kind: &str) {
        write(out, format_args!("{{\"type\":\"{kind}\",\"id\":"));
        write_string(out, &self.head.id);
        write(out, format_args!(",\"status\":\"{}\"", self.status.as_str()));
    }

    fn write_call(&self, out: &mut String) {
        let Some(call) = &self.call else {
            return;
        };
        out.push_str(",\"call_id\":");
        write_string(out, &call.id);
        out.push_str(",\"name\":");
        write_string(out, &call.name);
        if let Some(namespace) = &call.namespace {
            out.push_str(",\"namespace\":");
            write_string(out, namespace);
        }
    }

    fn write_encrypted_content(&self, out: &mut String) {
        out.push_str(",\"encrypted_content\":");
        write_optional(out, self.encrypted_content.as_deref());
    }

    fn write_parts(&self, out: &mut String) {
        out.push('[');
        if self.has_part {
            self.write_part(out);
        }
        out.push(']');
    }

    /// The part that holds the text.
    pub(super) fn write_part(&self, out: &mut String) {
        out.push_str(match self.head.kind {
            Kind::Reasoning => "{\"type\":\"reasoning_text\"",
            Kind::Summary => "{\"type\":\"summary_text\"",
            _ => "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":",
        });
        if self.head.kind == Kind::Message {
            write_logprobs(out, &self.logprobs);
        }
        out.push_str(",\"text\":");
        write_string(out, &self.text);
        out.push('}');
    }
}

/// Why a response failed.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) message: String,
    pub(super) code: String,
}

/// The whole response, as far as it has come.
#[derive(Clone, Debug)]
pub(super) struct ResponseObject {
    pub(super) id: Arc<str>,
    pub(super) model: String,
    pub(super) created_at: u64,
    pub(super) completed_at: Option<u64>,
    pub(super) status: Status,
    pub(super) error: Option<Failure>,
    pub(super) incomplete_reason: Option<&'static str>,
    pub(super) output: Vec<Item>,
    pub(super) usage: Option<(PromptUsage, OutputUsage)>,
    pub(super) echo: Arc<ResponsesEcho>,
}

impl ResponseObject {
    pub(super) fn new(id: &str, model: &str, created_at: u64, echo: Arc<ResponsesEcho>) -> Self {
        Self {
            id: id.into(),
            model: model.to_owned(),
            created_at,
            completed_at: None,
            status: Status::InProgress,
            error: None,
            incomplete_reason: None,
            output: Vec::new(),
            usage: None,
            echo,
        }
    }

    pub(super) fn write_json(&self, out: &mut String) {
        let echo = &*self.echo;
        out.push_str("{\"id\":");
        write_string(out, &self.id);
        let status = self.status.as_str();
        write(
            out,
            format_args!(
                ",\"object\":\"response\",\"created_at\":{},\"status\":\"{status}\",\"background\":false,\
                 \"completed_at\":{},\"content_filters\":null,\"error\":",
                self.created_at,
                number_or_null(self.completed_at)
            ),
        );
        match &self.error {
            Some(Failure { message, code }) => {
                out.push_str("{\"code\":");
                write_string(out, code);
                out.push_str(",\"message\":");
                write_string(out, message);
                out.push('}');
            }
            None => out.push_str("null"),
        }
        out.push_str(",\"frequency_penalty\":0.0,\"incomplete_details\":");
        match self.incomplete_reason {
            Some(reason) => write(out, format_args!("{{\"reason\":\"{reason}\"}}")),
            None => out.push_str("null"),
        }
        out.push_str(",\"instructions\":");
        write_optional(out, echo.instructions.as_deref());
        write(
            out,
            format_args!(
                ",\"max_output_tokens\":{},\"max_tool_calls\":null,\"model\":",
                number_or_null(echo.max_output_tokens)
            ),
        );
        write_string(out, &self.model);
        out.push_str(",\"moderation\":null,\"output\":[");
        for (place, item) in self.output.iter().enumerate() {
            if place > 0 {
                out.push(',');
            }
            item.write_json(out);
        }
        write(
            out,
            format_args!(
                "],\"parallel_tool_calls\":true,\"presence_penalty\":0.0,\"previous_response_id\":null,\
                 \"prompt_cache_key\":null,\"prompt_cache_retention\":null,\"reasoning\":{},\
                 \"safety_identifier\":null,\"service_tier\":\"default\",\"store\":false,\"temperature\":",
                echo.reasoning
            ),
        );
        write_float32(out, echo.temperature);
        write(
            out,
            format_args!(
                ",\"text\":{},\"tool_choice\":{},\"tools\":{},\"top_logprobs\":{},\"top_p\":",
                echo.text, echo.tool_choice, echo.tools, echo.top_logprobs
            ),
        );
        write_float32(out, echo.top_p);
        out.push_str(",\"truncation\":\"disabled\",\"usage\":");
        match self.usage {
            Some((prompt, output)) => write_usage(out, prompt, output),
            None => out.push_str("null"),
        }
        out.push_str(",\"user\":");
        write_optional(out, echo.user.as_deref());
        out.push_str(",\"metadata\":{}}");
    }
}

fn number_or_null(number: Option<impl ToString>) -> Cow<'static, str> {
    number.map_or("null".into(), |number| number.to_string().into())
}

fn write_usage(out: &mut String, prompt: PromptUsage, output: OutputUsage) {
    let PromptUsage { prompt_tokens, prompt_cache_hit_tokens } = prompt;
    let OutputUsage { completion_tokens, reasoning_tokens } = output;
    let total = prompt_tokens.saturating_add(completion_tokens);
    write(
        out,
        format_args!(
            "{{\"input_tokens\":{prompt_tokens},\"input_tokens_details\":{{\"cached_tokens\":{prompt_cache_hit_tokens}}},\
             \"output_tokens\":{completion_tokens},\"output_tokens_details\":{{\"reasoning_tokens\":{}}},\
             \"total_tokens\":{total}}}",
            reasoning_tokens.unwrap_or(0)
        ),
    );
}

saved! { enum Status { 0 = InProgress, 1 = Completed, 2 = Incomplete, 3 = Failed } }
saved! { enum Kind { 0 = Reasoning, 1 = Summary, 2 = Message, 3 = Function, 4 = Custom, 5 = ToolSearch } }
saved! { struct ItemHead { kind, index, id } }
saved! { struct Item { head, encrypted_content, status, has_part, text, logprobs, commentary, call } }
saved! { struct Call { id, name, namespace } }
saved! { struct Failure { message, code } }
saved! {
    struct ResponseObject {
        id, model, created_at, completed_at, status, error, incomplete_reason, output, usage, echo,
    }
}
