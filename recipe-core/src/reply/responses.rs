//! Responses: when each event of a streamed reply comes.

mod event;
mod object;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

pub use event::{ResponsesEvent, ResponsesResponse};

use super::custom_input::CustomInput;
use super::{CallIds, Reply};
use crate::request::responses::{NamespaceToolMap, ResponsesEcho, TOOL_SEARCH};
use crate::request::ConversationRequest;
use crate::save::saved;
use crate::seal::ReplySealer;
use crate::stream::{Event, FinishReason, OutputTools, OutputUsage, PromptUsage, TokenLogprob};
use event::{Body, Stage, Step};
use object::{Call, Failure, Item, Kind, ResponseObject, Status};

/// Makes the events of one reply.
#[derive(Clone, Debug)]
pub struct ResponsesGenerator {
    object: ResponseObject,
    /// The last item of the output, if it is not done yet.
    open: Option<Open>,
    next_sequence_number: u64,
    tools: Arc<OutputTools>,
    custom_tools: Arc<BTreeSet<String>>,
    namespace_tool_map: Arc<NamespaceToolMap>,
    tool_search: bool,
    sealer: Option<ReplySealer>,
    call_ids: CallIds,
    prompt: PromptUsage,
    clock: Option<fn() -> u64>,
}

/// An item that goes on.
#[derive(Clone, Debug)]
struct Open {
    kind: Kind,
    /// Whether nothing is missing: a call's arguments are whole, a text may end anywhere.
    whole: bool,
    /// Decodes the arguments of a custom call.
    input: CustomInput,
}

type Say<'c> = &'c mut dyn FnMut(ResponsesEvent<'_>);

impl ResponsesGenerator {
    /// A generator for the reply to `request`, with its echo and its namespaces. `created` is the Unix time
    /// in seconds; `seed` is random, for call ids.
    pub fn new(request: &ConversationRequest, id: &str, model: &str, created: u64, seed: u128) -> Self {
        let custom_tools = request.custom_tools.clone();
        let tools = OutputTools::new(request.conversation.tools.clone(), custom_tools.clone());
        Self {
            object: ResponseObject::new(id, model, created, request.echo.clone().unwrap_or_default()),
            open: None,
            next_sequence_number: 0,
            tools: Arc::new(tools),
            custom_tools: Arc::new(custom_tools.into_iter().collect()),
            namespace_tool_map: Arc::new(request.namespace_tool_map.clone()),
            tool_search: request.tool_search,
            sealer: request.sealer.clone().map(|sealer| ReplySealer::new(sealer, request.model_version, seed)),
            call_ids: CallIds::new(seed),
            prompt: PromptUsage::default(),
            clock: None,
        }
    }

    /// The same with other names for the functions of namespaces.
    #[must_use]
    pub fn with_namespace_tool_map(mut self, map: NamespaceToolMap) -> Self {
        self.namespace_tool_map = Arc::new(map);
        self
    }

    /// The same with other settings to report.
    #[must_use]
    pub fn with_echo(mut self, echo: ResponsesEcho) -> Self {
        self.object.echo = Arc::new(echo);
        self
    }

    /// The same with a clock, which gives the Unix time in seconds; without one a reply ends when it began.
    #[must_use]
    pub fn with_clock(mut self, clock: fn() -> u64) -> Self {
        self.clock = Some(clock);
        self
    }

    fn take_number(&mut self) -> u64 {
        let number = self.next_sequence_number;
        self.next_sequence_number += 1;
        number
    }

    fn send_response(&mut self, stage: Stage, say: Say<'_>) {
        let sequence_number = self.take_number();
        let body = Body::Response { stage, response: Cow::Borrowed(&self.object) };
        say(ResponsesEvent { sequence_number, body });
    }

    /// An event about the last item.
    fn send_item(&mut self, step: Step, say: Say<'_>) {
        let sequence_number = self.take_number();
        if let Some(item) = self.object.output.last() {
            say(ResponsesEvent { sequence_number, body: Body::Item { step, item: Cow::Borrowed(item) } });
        }
    }

    /// More of the last item's text.
    fn send_delta(&mut self, text: &str, logprobs: Option<&Arc<[TokenLogprob]>>, say: Say<'_>) {
        let sequence_number = self.take_number();
        if let Some(item) = self.object.output.last_mut() {
            item.text.push_str(text);
            item.logprobs.extend(logprobs.iter().flat_map(|entries| entries.iter().cloned()));
            let body = Body::Delta { head: item.head.clone(), text: text.into(), logprobs: logprobs.cloned() };
            say(ResponsesEvent { sequence_number, body });
        }
    }

    fn start_item(&mut self, kind: Kind, call: Option<Call>, say: Say<'_>) {
        let mut item = Item::new(kind, self.object.output.len(), &self.object.id, call);
        if self.sealer.is_some() {
            item.encrypted_content = None;
        }
        self.object.output.push(item);
        self.open = Some(Open { kind, whole: kind.has_parts(), input: CustomInput::default() });
        self.send_item(Step::Added, say);
        if kind.has_parts() {
            if let Some(item) = self.object.output.last_mut() {
                item.has_part = true;
            }
            self.send_item(Step::PartAdded, say);
        }
    }

    fn text(&mut self, kind: Kind, text: &str, logprobs: Option<&Arc<[TokenLogprob]>>, say: Say<'_>) {
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.end_item(true, false, say);
            self.start_item(kind, None, say);
        }
        self.send_delta(text, logprobs, say);
    }

    fn arguments(&mut self, text: &str, say: Say<'_>) {
        match &mut self.open {
            Some(Open { kind: Kind::Custom, input, .. }) => {
                let input = input.feed(text);
                if !input.is_empty() {
                    self.send_delta(&input, None, say);
                }
            }
            // A search has its arguments as an object, so they come only when they are whole.
            Some(Open { kind: Kind::ToolSearch, .. }) => {
                if let Some(item) = self.object.output.last_mut() {
                    item.text.push_str(text);
                }
            }
            _ => self.send_delta(text, None, say),
        }
    }

    /// Ends the open item, if there is one. `ends_well`: not by the failure or the limit that ends the reply.
    fn end_item(&mut self, ends_well: bool, call_follows: bool, say: Say<'_>) {
        let Some(Open { kind, whole, mut input }) = self.open.take() else {
            return;
        };
        let rest = input.rest();
        if !rest.is_empty() {
            self.send_delta(&rest, None, say);
        }
        if let Some(item) = self.object.output.last_mut() {
            item.status = if ends_well && whole { Status::Completed } else { Status::Incomplete };
            item.commentary = call_follows;
            if let (Kind::Reasoning | Kind::Summary, Some(sealer)) = (kind, &self.sealer) {
                item.encrypted_content = Some(sealer.seal(&item.text, item.head.index));
            }
        }
        if kind != Kind::ToolSearch {
            self.send_item(Step::TextDone, say);
        }
        if kind.has_parts() {
            self.send_item(Step::PartDone, say);
        }
        self.send_item(Step::Done, say);
    }

    fn start_call(&mut self, index: usize, name: &str, say: Say<'_>) {
        self.end_item(true, true, say);
        let id = self.call_ids.next(index);
        let (kind, place) = if self.custom_tools.contains(name) {
            (Kind::Custom, None)
        } else if self.tool_search && name == TOOL_SEARCH {
            (Kind::ToolSearch, None)
        } else {
            (Kind::Function, self.namespace_tool_map.get(name))
        };
        let call = match place {
            Some((namespace, local)) => Call { id, name: local.clone(), namespace: Some(namespace.clone()) },
            None => Call { id, name: name.to_owned(), namespace: None },
        };
        self.start_item(kind, Some(call), say);
    }

    fn finish(&mut self, stage: Stage, status: Status, usage: OutputUsage, say: Say<'_>) {
        self.end_item(status == Status::Completed, false, say);
        self.object.status = status;
        self.object.completed_at = Some(self.clock.map_or(self.object.created_at, |clock| clock()));
        self.object.usage = Some((self.prompt, usage));
        self.send_response(stage, say);
    }
}

impl Reply for ResponsesGenerator {
    type Chunk<'a> = ResponsesEvent<'a>;

    fn tools(&self) -> Arc<OutputTools> {
        self.tools.clone()
    }

    fn say(&mut self, event: &Event<'_>, chunk: &mut dyn FnMut(ResponsesEvent<'_>)) {
        match *event {
            Event::Start { usage, .. } => {
                self.prompt = usage;
                self.send_response(Stage::Created, chunk);
                self.send_response(Stage::InProgress, chunk);
            }
            Event::Reasoning { text, .. } => {
                let kind = if self.object.echo.summary { Kind::Summary } else { Kind::Reasoning };
                self.text(kind, text, None, chunk);
            }
            Event::Content { text, logprobs } => self.text(Kind::Message, text, logprobs, chunk),
            Event::CallStart { index, name } => self.start_call(index, name, chunk),
            Event::CallArguments { text, .. } => self.arguments(text, chunk),
            Event::CallEnd { .. } => {
                if let Some(open) = &mut self.open {
                    open.whole = true;
                }
            }
            Event::Finish { reason, usage, .. } => {
                let (stage, status, incomplete_reason) = match reason {
                    FinishReason::Stop | FinishReason::ToolCalls => (Stage::Completed, Status::Completed, None),
                    FinishReason::Length => (Stage::Incomplete, Status::Incomplete, Some("max_output_tokens")),
                    FinishReason::ContentFilter => (Stage::Incomplete, Status::Incomplete, Some("content_filter")),
                };
                self.object.incomplete_reason = incomplete_reason;
                self.finish(stage, status, usage, chunk);
            }
            Event::Error { message, code, usage } => {
                self.object.error = Some(Failure { message: message.to_owned(), code: code.to_owned() });
                self.finish(Stage::Failed, Status::Failed, usage, chunk);
            }
        }
    }
}

saved! {
    struct ResponsesGenerator {
        object, open, next_sequence_number, tools, custom_tools, namespace_tool_map, tool_search, sealer, call_ids,
        prompt, clock,
    }
    // Far from where numbers end.
    check |generator| generator.next_sequence_number < 1 << 48
}
saved! { struct Open { kind, whole, input } }
