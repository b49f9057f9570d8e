//! The events of a Responses stream, as JSON, and the complete response that adds them up. Knows not when they come.

use std::borrow::Cow;
use std::sync::Arc;

use super::object::{Item, ItemHead, Kind, ResponseObject};
use crate::json::write_string;
use crate::reply::json::{write, write_logprobs};
use crate::reply::Chunk;
use crate::save::saved;
use crate::stream::TokenLogprob;

/// One event of a streamed reply.
#[derive(Clone, Debug)]
pub struct ResponsesEvent<'a> {
    pub(super) sequence_number: u64,
    pub(super) body: Body<'a>,
}

#[derive(Clone, Debug)]
pub(super) enum Body<'a> {
    Response { stage: Stage, response: Cow<'a, ResponseObject> },
    Item { step: Step, item: Cow<'a, Item> },
    Delta { head: ItemHead, text: Cow<'a, str>, logprobs: Option<Arc<[TokenLogprob]>> },
}

/// What has become of the response.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    Created,
    InProgress,
    Completed,
    Incomplete,
    Failed,
}

/// What has become of an item.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Added,
    PartAdded,
    TextDone,
    PartDone,
    Done,
}

impl ResponsesEvent<'_> {
    /// The same event without borrowed text.
    pub fn into_owned(self) -> ResponsesEvent<'static> {
        let body = match self.body {
            Body::Response { stage, response } => Body::Response { stage, response: Cow::Owned(response.into_owned()) },
            Body::Item { step, item } => Body::Item { step, item: Cow::Owned(item.into_owned()) },
            Body::Delta { head, text, logprobs } => Body::Delta { head, text: Cow::Owned(text.into_owned()), logprobs },
        };
        ResponsesEvent { sequence_number: self.sequence_number, body }
    }

    fn name(&self) -> &'static str {
        match &self.body {
            Body::Response { stage, .. } => match stage {
                Stage::Created => "response.created",
                Stage::InProgress => "response.in_progress",
                Stage::Completed => "response.completed",
                Stage::Incomplete => "response.incomplete",
                Stage::Failed => "response.failed",
            },
            Body::Item { step: Step::Added, .. } => "response.output_item.added",
            Body::Item { step: Step::Done, .. } => "response.output_item.done",
            Body::Item { step: Step::PartAdded, item } => match item.head.kind {
                Kind::Summary => "response.reasoning_summary_part.added",
                _ => "response.content_part.added",
            },
            Body::Item { step: Step::PartDone, item } => match item.head.kind {
                Kind::Summary => "response.reasoning_summary_part.done",
                _ => "response.content_part.done",
            },
            Body::Item { step: Step::TextDone, item } => match item.head.kind {
                Kind::Reasoning => "response.reasoning_text.done",
                Kind::Summary => "response.reasoning_summary_text.done",
                Kind::Message => "response.output_text.done",
                Kind::Custom => "response.custom_tool_call_input.done",
                Kind::Function | Kind::ToolSearch => "response.function_call_arguments.done",
            },
            Body::Delta { head, .. } => match head.kind {
                Kind::Reasoning => "response.reasoning_text.delta",
                Kind::Summary => "response.reasoning_summary_text.delta",
                Kind::Message => "response.output_text.delta",
                Kind::Custom => "response.custom_tool_call_input.delta",
                Kind::Function | Kind::ToolSearch => "response.function_call_arguments.delta",
            },
        }
    }
}

impl Chunk for ResponsesEvent<'_> {
    fn sse_event_name(&self) -> Option<&'static str> {
        Some(self.name())
    }

    fn write_json(&self, out: &mut String) {
        write(out, format_args!("{{\"type\":\"{}\"", self.name()));
        let sequence_number = self.sequence_number;
        match &self.body {
            Body::Response { response, .. } => {
                out.push_str(",\"response\":");
                response.write_json(out);
                write(out, format_args!(",\"sequence_number\":{sequence_number}}}"));
            }
            Body::Item { step: Step::Added | Step::Done, item } => {
                out.push_str(",\"item\":");
                item.write_json(out);
                let index = item.head.index;
                write(out, format_args!(",\"output_index\":{index},\"sequence_number\":{sequence_number}}}"));
            }
            Body::Item { step: Step::PartAdded | Step::PartDone, item } => {
                write_content_index(out, item.head.kind);
                write_item(out, &item.head, None);
                out.push_str(",\"part\":");
                item.write_part(out);
                write(out, format_args!(",\"sequence_number\":{sequence_number}}}"));
            }
            Body::Item { step: Step::TextDone, item } if item.head.kind.has_parts() => {
                write_content_index(out, item.head.kind);
                let logprobs = (item.head.kind == Kind::Message).then_some(item.logprobs.as_slice());
                write_item(out, &item.head, logprobs);
                write(out, format_args!(",\"sequence_number\":{sequence_number},\"text\":"));
                write_string(out, &item.text);
                out.push('}');
            }
            Body::Item { step: Step::TextDone, item } => {
                let key = if item.head.kind == Kind::Custom { "input" } else { "arguments" };
                write(out, format_args!(",\"{key}\":"));
                write_string(out, &item.text);
                write_item(out, &item.head, None);
                write(out, format_args!(",\"sequence_number\":{sequence_number}}}"));
            }
            Body::Delta { head, text, logprobs } => {
                write_content_index(out, head.kind);
                out.push_str(",\"delta\":");
                write_string(out, text);
                let logprobs = (head.kind == Kind::Message).then(|| logprobs.as_deref().unwrap_or_default());
                write_item(out, head, logprobs);
                write(out, format_args!(",\"sequence_number\":{sequence_number}}}"));
            }
        }
    }
}

/// Where in an item the text stands; that of a call has no such place.
fn write_content_index(out: &mut String, kind: Kind) {
    match kind {
        Kind::Reasoning | Kind::Message => out.push_str(",\"content_index\":0"),
        Kind::Summary => out.push_str(",\"summary_index\":0"),
        Kind::Function | Kind::Custom | Kind::ToolSearch => {}
    }
}

/// Which item an event is about; the log probabilities stand in the middle.
fn write_item(out: &mut String, head: &ItemHead, logprobs: Option<&[TokenLogprob]>) {
    out.push_str(",\"item_id\":");
    write_string(out, &head.id);
    if let Some(logprobs) = logprobs {
        out.push_str(",\"logprobs\":");
        write_logprobs(out, logprobs);
    }
    write(out, format_args!(",\"output_index\":{}", head.index));
}

/// The complete response: what the events so far add up to.
#[derive(Clone, Debug)]
pub struct ResponsesResponse {
    object: ResponseObject,
}

impl ResponsesResponse {
    /// A response without any event. `created` is the Unix time in seconds.
    pub fn new(id: &str, model: &str, created: u64) -> Self {
        Self { object: ResponseObject::new(id, model, created, Arc::default()) }
    }

    /// Adds an event.
    pub fn accumulate(&mut self, event: ResponsesEvent<'_>) {
        let output = &mut self.object.output;
        match event.body {
            Body::Response { response, .. } => self.object = response.into_owned(),
            Body::Item { step: Step::Added, item } => output.push(item.into_owned()),
            Body::Item { step: Step::PartAdded | Step::Done, item } => {
                if let Some(slot) = output.get_mut(item.head.index) {
                    *slot = item.into_owned();
                }
            }
            Body::Item { step: Step::TextDone | Step::PartDone, .. } => {}
            Body::Delta { head, text, logprobs } => {
                if let Some(item) = output.get_mut(head.index) {
                    item.text.push_str(&text);
                    item.logprobs.extend(logprobs.iter().flat_map(|entries| entries.iter().cloned()));
                }
            }
        }
    }

    /// Appends the response as JSON.
    pub fn write_json(&self, out: &mut String) {
        self.object.write_json(out);
    }
}

saved! { struct ResponsesResponse { object } }
