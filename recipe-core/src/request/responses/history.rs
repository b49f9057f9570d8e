//! The items of a Responses body: how they make turns, and how calls and their outputs have to follow each other.
//! Knows nothing of the rest of the body.

use std::collections::{HashMap, HashSet};

use super::body::{
    AdditionalTools, CustomCall, CustomOutput, FunctionCall, FunctionOutput, Item, Message as MessageItem,
    ReasoningItem, Role, Tool, ToolSearchCall, ToolSearchOutput,
};
use super::declared::{ToolNames, TOOL_SEARCH};
use super::echo::search_result;
use super::parts::PartReader;
use crate::conversation::{Content, Message, ToolCall, ToolDefinition};
use crate::error::{Error, Result};
use crate::options::{ConversionOptions, ModelVersion, ToolPairing};
use crate::request::custom::{self, CustomTool};
use crate::request::{check_served, pairing};

/// The converted items.
pub(super) struct History {
    /// The messages in order. The tools of system messages are those that became callable there.
    pub(super) messages: Vec<Message>,
    /// The tools that items declare, in order.
    pub(super) tools: Vec<ToolDefinition>,
    /// The custom ones of them.
    pub(super) custom: Vec<CustomTool>,
}

impl History {
    /// Converts item by item behind `messages`; the first fault is the error.
    pub(super) fn read(
        messages: Vec<Message>,
        items: Vec<Item>,
        names: &mut ToolNames<'_>,
        version: ModelVersion,
        options: &ConversionOptions,
    ) -> Result<Self> {
        let mut names_by_item = HashMap::new();
        for (i, item) in items.iter().enumerate() {
            if let Some(tools) = declared_by(item, version) {
                names_by_item.insert(i, names.name(tools, &format!("input[{i}].tools"))?);
            }
        }
        let mut reader = Reader {
            names,
            version,
            options,
            parts: PartReader { version, options },
            history: Self { messages, tools: Vec::new(), custom: Vec::new() },
            turn: Turn::default(),
            closed_turns: 0,
            calls: HashMap::new(),
            unpaired: false,
        };
        let last = items.len().saturating_sub(1);
        for (i, item) in items.into_iter().enumerate() {
            let declared = names_by_item.remove(&i).unwrap_or_default();
            reader.read(item, i, declared).map_err(|error| error.at(format!("input[{i}]")))?;
        }
        reader.check_answered().map_err(|error| error.at(format!("input[{last}]")))?;
        reader.close_turn();
        let Reader { mut history, unpaired, .. } = reader;
        if unpaired {
            history.messages = pairing::repair(history.messages);
            sort_results(&mut history.messages);
        }
        Ok(history)
    }
}

/// The tools that an item declares. V4 knows no search for tools.
fn declared_by(item: &Item, version: ModelVersion) -> Option<&[Tool]> {
    match item {
        Item::ToolSearchOutput(output) if version == ModelVersion::DeepseekV41Flash => Some(&output.tools),
        Item::AdditionalTools(AdditionalTools { tools }) => Some(tools),
        _ => None,
    }
}

/// Puts the results behind each message with calls into the order of the calls.
fn sort_results(messages: &mut [Message]) {
    let mut start = 0;
    while start < messages.len() {
        let Message::Assistant { tool_calls: Some(calls), .. } = &messages[start] else {
            start += 1;
            continue;
        };
        let ids: HashSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
        let results = messages[start + 1..].iter().take_while(|message| ids.contains(result_id(message))).count();
        start += 1 + results;
        messages[start - results..start].sort_by(|a, b| result_id(a).cmp(result_id(b)));
    }
}

/// The call that a message answers; no call has an empty id.
fn result_id(message: &Message) -> &str {
    match message {
        Message::Tool { tool_call_id: Some(id), .. } => id,
        _ => "",
    }
}

/// An assistant message while its items come in, and the results that follow it.
#[derive(Default)]
struct Turn {
    started: bool,
    reasoning: String,
    text: String,
    calls: Vec<ToolCall>,
    /// How many of them have no result yet.
    open: usize,
    results: Vec<Message>,
    /// System messages of tools that the results load.
    loaded: Vec<Message>,
}

struct CallState {
    turn: usize,
    answered: bool,
}

struct Reader<'r, 'o> {
    names: &'r mut ToolNames<'o>,
    version: ModelVersion,
    options: &'r ConversionOptions,
    parts: PartReader<'r>,
    history: History,
    turn: Turn,
    /// How many turns have been closed.
    closed_turns: usize,
    /// All calls so far, by id.
    calls: HashMap<String, CallState>,
    /// Whether a fault of pairing has been met that is to be repaired.
    unpaired: bool,
}

impl Reader<'_, '_> {
    fn read(&mut self, item: Item, i: usize, declared: Vec<String>) -> Result<()> {
        match item {
            Item::Message(MessageItem { role: Role::Assistant, content }) => {
                self.leave_calls()?;
                let text = self.parts.assistant_text(content, i)?;
                self.turn.started = true;
                if !text.is_empty() {
                    push_joined(&mut self.turn.text, "\n\n", &text);
                }
            }
            Item::Message(MessageItem { role, content }) => {
                self.check_answered()?;
                self.close_turn();
                let content = self.parts.content(content, i)?;
                self.history.messages.push(match role {
                    Role::User => Message::User { content },
                    // The reference has no developer for V4.
                    Role::Developer if self.version == ModelVersion::DeepseekV4Pro => Message::User { content },
                    _ => Message::System { content, tools: None },
                });
            }
            Item::Reasoning(item) => {
                self.leave_calls()?;
                let reasoning = reasoning_text(item);
                if reasoning.is_empty() {
                    return Ok(());
                }
                if !self.turn.text.is_empty() {
                    self.close_turn();
                }
                self.turn.started = true;
                push_joined(&mut self.turn.reasoning, "\n", &reasoning);
            }
            Item::WebSearchCall => self.check_answered()?,
            Item::FunctionCall(FunctionCall { arguments, call_id, name, namespace }) => {
                let name = match namespace {
                    Some(namespace) => self.names.called(namespace, name),
                    None => name,
                };
                // A call without arguments. A template could not write them as parameters otherwise.
                let arguments = if arguments.trim().is_empty() { "{}".to_owned() } else { arguments };
                self.call(ToolCall { id: call_id, name, arguments }, i)?;
            }
            Item::CustomCall(CustomCall { call_id, name, input }) => {
                self.call(ToolCall { id: call_id, name, arguments: custom::arguments(&input) }, i)?;
            }
            Item::FunctionOutput(FunctionOutput { call_id: Some(id), output }) => {
                self.check_id(&id, i)?;
                let content = self.parts.output(Some(output), i)?;
                self.result(id, content, None)?;
            }
            Item::FunctionOutput(FunctionOutput { call_id: None, output }) => {
                self.check_answered()?;
                self.close_turn();
                let content = self.parts.output(Some(output), i)?;
                self.history.messages.push(Message::Tool { content, tool_call_id: None });
            }
            Item::CustomOutput(CustomOutput { call_id, output }) => {
                self.check_id(&call_id, i)?;
                let content = self.parts.output(output, i)?;
                self.result(call_id, content, None)?;
            }
            Item::AdditionalTools(AdditionalTools { tools }) => self.additional_tools(tools, declared),
            // V4 has no search for tools: as if it were not there.
            Item::ToolSearchCall(_) | Item::ToolSearchOutput(_) if self.version == ModelVersion::DeepseekV4Pro => {}
            Item::ToolSearchCall(ToolSearchCall { call_id, arguments, .. }) => {
                let call = ToolCall { id: call_id, name: TOOL_SEARCH.to_owned(), arguments: arguments.0.to_compact() };
                self.call(call, i)?;
            }
            Item::ToolSearchOutput(ToolSearchOutput { call_id, tools, .. }) => {
                self.check_id(&call_id, i)?;
                let content = search_result(&tools).ok_or_else(|| {
                    Error::conversion(format!(
                        "input[{i}]: the enum variant ResponsesTool::Unsupported cannot be serialized"
                    ))
                })?;
                let loaded = self.load(tools, declared);
                self.result(call_id, Content::from(content), loaded)?;
            }
            Item::Unknown(kind) => check_served(self.options, &kind, || format!("input[{i}]"))?,
        }
        Ok(())
    }

    /// Calls wait for their results. A fault is the error, or the calls are given up.
    fn check_answered(&mut self) -> Result<()> {
        if self.turn.open == 0 {
            return Ok(());
        }
        self.unpaired(|reader| {
            let answered = |call: &&ToolCall| reader.calls.get(&call.id).is_some_and(|state| state.answered);
            let missing = reader.turn.calls.iter().find(|call| !answered(call));
            format!("No tool output found for tool call {}.", missing.map_or("", |call| &call.id))
        })
    }

    fn unpaired(&mut self, text: impl FnOnce(&Self) -> String) -> Result<()> {
        if self.options.tool_pairing == ToolPairing::Refuse {
            return Err(Error::conversion(text(self)));
        }
        self.unpaired = true;
        Ok(())
    }

    /// What belongs before calls starts a new turn behind them.
    fn leave_calls(&mut self) -> Result<()> {
        self.check_answered()?;
        if !self.turn.calls.is_empty() {
            self.close_turn();
        }
        Ok(())
    }

    fn close_turn(&mut self) {
        let Turn { started, reasoning, text, mut calls, results, loaded, .. } = std::mem::take(&mut self.turn);
        if !started {
            return;
        }
        self.closed_turns += 1;
        // The reference keeps the calls of a turn by id, so the prompt has them in the order of their ids.
        calls.sort_by(|a, b| a.id.cmp(&b.id));
        let messages = &mut self.history.messages;
        messages.push(Message::Assistant {
            content: text,
            reasoning_content: (!reasoning.is_empty()).then_some(reasoning),
            tool_calls: (!calls.is_empty()).then_some(calls),
            prefix: false,
        });
        let start = messages.len();
        messages.extend(results);
        messages[start..].sort_by(|a, b| result_id(a).cmp(result_id(b)));
        messages.extend(loaded);
    }

    fn check_id(&self, id: &str, i: usize) -> Result<()> {
        if id.is_empty() {
            return Err(Error::conversion(format!(
                "Invalid 'input[{i}].call_id': empty string. \
                 Expected a string with minimum length 1, but got an empty string instead."
            )));
        }
        Ok(())
    }

    fn call(&mut self, call: ToolCall, i: usize) -> Result<()> {
        self.check_id(&call.id, i)?;
        let state = CallState { turn: self.closed_turns, answered: false };
        if self.calls.insert(call.id.clone(), state).is_some() {
            return Err(Error::conversion(format!("Duplicate 'call_id': {}.", call.id)));
        }
        self.turn.started = true;
        self.turn.open += 1;
        self.turn.calls.push(call);
        Ok(())
    }

    /// The result of a call, and the message that loads the tools of a search.
    fn result(&mut self, id: String, content: Content, loaded: Option<Message>) -> Result<()> {
        let turn = match self.calls.get_mut(&id) {
            Some(CallState { answered: true, .. }) => {
                return Err(Error::conversion(format!("Duplicate tool output for call_id: {id}.")));
            }
            Some(CallState { answered, turn }) => {
                *answered = true;
                Some(*turn)
            }
            None => {
                self.unpaired(|_| format!("No tool call found for tool output with call_id {id}."))?;
                None
            }
        };
        let message = Message::Tool { content, tool_call_id: Some(id) };
        if turn != Some(self.closed_turns) {
            // Its call is of an earlier turn, or of none: it stays here until the repair moves it.
            self.close_turn();
            self.history.messages.push(message);
            self.history.messages.extend(loaded);
            return Ok(());
        }
        self.turn.open -= 1;
        self.turn.results.push(message);
        self.turn.loaded.extend(loaded);
        if self.turn.open == 0 {
            self.close_turn();
        }
        Ok(())
    }

    /// Declares tools as deferred ones, and gives the message that makes them callable.
    fn load(&mut self, tools: Vec<Tool>, names: Vec<String>) -> Option<Message> {
        let mut defined = self.names.define(tools, names, &mut self.history.custom);
        for tool in &mut defined {
            tool.defer_loading = true;
        }
        self.history.tools.extend(defined.iter().cloned());
        (!defined.is_empty()).then(|| Message::System { content: Content::default(), tools: Some(defined) })
    }

    /// V4 cannot load tools later: there they are declared with the others.
    fn additional_tools(&mut self, tools: Vec<Tool>, names: Vec<String>) {
        if self.version == ModelVersion::DeepseekV4Pro {
            let defined = self.names.define(tools, names, &mut self.history.custom);
            self.history.tools.extend(defined);
            return;
        }
        let loaded = self.load(tools, names);
        if self.turn.open == 0 {
            self.close_turn();
            self.history.messages.extend(loaded);
        } else {
            self.turn.loaded.extend(loaded);
        }
    }
}

/// Appends a text, apart from what stands before it.
fn push_joined(joined: &mut String, separator: &str, text: &str) {
    if !joined.is_empty() {
        joined.push_str(separator);
    }
    joined.push_str(text);
}

/// The reasoning, or its summary where there is nothing else.
fn reasoning_text(item: ReasoningItem) -> String {
    let texts: Vec<String> = item.content.unwrap_or_default().into_iter().map(|part| part.text).collect();
    let reasoning = texts.join("\n");
    if !texts.iter().all(String::is_empty) {
        return reasoning;
    }
    let parts = item.summary.0.unwrap_or_default();
    let summary: Vec<String> = parts.into_iter().filter_map(|part| part.0?.text.0).collect();
    if summary.iter().all(String::is_empty) {
        return reasoning;
    }
    summary.join("\n\n")
}
