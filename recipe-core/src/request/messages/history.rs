//! The messages of a Messages body: their blocks, and how calls and results have to follow each other.

use std::collections::{BTreeMap, HashSet};

use super::body::{
    Block, Document, Image, ResultContent, ResultPart, ResultReference, Role, Source, Text, ThinkingBlock,
    ToolReference, ToolResult, ToolUse, Turn,
};
use super::source;
use crate::conversation::{Content, ImageSource, Message, ToolCall, ToolDefinition};
use crate::error::{Error, Result};
use crate::json::write_float;
use crate::options::{ConversionOptions, MessagesContinuation, ModelVersion, ToolPairing, WebSearchBehavior};
use crate::request::content::{Parts, UNSUPPORTED_IMAGE};
use crate::request::pairing;
use crate::request::shape::StringOrList;
use crate::special::SpecialToken;

/// Converts message by message; the first fault is the error. `known` are the names of the client's tools.
///
/// A system message that loads tools has just their names, until it is known which ones the tool choice leaves.
pub(crate) fn read(
    turns: Vec<Turn>,
    known: &HashSet<&str>,
    version: ModelVersion,
    options: &ConversionOptions,
) -> Result<Vec<Message>> {
    let Some(last) = turns.len().checked_sub(1) else {
        return Err(Error::conversion("messages: at least one message is required").at("messages"));
    };
    let mut reader = Reader {
        version,
        known,
        options,
        image_token: options.special_tokens.get(SpecialToken::Image),
        messages: Vec::with_capacity(turns.len()),
        awaited: Awaited::default(),
        unpaired: false,
    };
    for (i, turn) in turns.into_iter().enumerate() {
        let read = match turn.role {
            Role::User => reader.user(turn.content, i),
            Role::Assistant => reader.assistant(turn.content, i, i == last),
            Role::System => reader.system(turn.content, i),
        };
        read.map_err(|error| error.at(format!("messages[{i}]")))?;
    }
    reader.give_up_calls().map_err(|error| error.at(format!("messages[{last}]")))?;
    Ok(if reader.unpaired { pairing::repair(reader.messages) } else { reader.messages })
}

struct Reader<'r> {
    version: ModelVersion,
    known: &'r HashSet<&'r str>,
    options: &'r ConversionOptions,
    image_token: &'r str,
    messages: Vec<Message>,
    awaited: Awaited,
    /// Whether calls and results have to be paired anew.
    unpaired: bool,
}

/// The calls of the assistant message before, while their results are to come.
#[derive(Default)]
struct Awaited {
    /// The place of that message in the request.
    turn: usize,
    /// Sorted, as error texts list them.
    answered_by_id: BTreeMap<String, bool>,
    missing: usize,
}

impl Awaited {
    /// The error of a place where the results had to be.
    fn fault(&self, place: &str) -> Error {
        let open: Vec<&str> =
            self.answered_by_id.iter().filter(|(_, answered)| !**answered).map(|(id, _)| id.as_str()).collect();
        Error::conversion(format!(
            "{place}`tool_use` ids were found without `tool_result` blocks immediately after: {}. \
             Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
            open.join(", ")
        ))
    }

    /// Starts to wait for the result of one more call of a message. Whether the id is new there.
    fn open(&mut self, turn: usize, id: &str) -> bool {
        self.turn = turn;
        self.missing += 1;
        self.answered_by_id.insert(id.to_owned(), false).is_none()
    }
}

impl Reader<'_> {
    /// A pairing fault: an error, or noted for the repair. The text is made only where it is shown.
    fn pairing_fault(&mut self, fault: impl FnOnce(&Awaited) -> Error) -> Result<()> {
        if self.options.tool_pairing == ToolPairing::Refuse {
            return Err(fault(&self.awaited));
        }
        self.unpaired = true;
        Ok(())
    }

    /// Nothing but results may stand here while some are missing.
    fn check_answered(&mut self, place: impl FnOnce() -> String) -> Result<()> {
        if self.awaited.missing == 0 {
            return Ok(());
        }
        self.pairing_fault(|awaited| awaited.fault(&place()))
    }

    /// The place for results has passed.
    fn give_up_calls(&mut self) -> Result<()> {
        let turn = self.awaited.turn;
        // The reference leaves out a space here.
        self.check_answered(|| format!("messages.{turn}:"))?;
        self.awaited = Awaited::default();
        Ok(())
    }

    /// Another message stands in the place of the results.
    fn expect_no_results(&mut self, i: usize) -> Result<()> {
        self.check_answered(|| format!("messages.{i}: "))?;
        self.awaited = Awaited::default();
        Ok(())
    }

    /// Each text, image or document is a message of its own, each result a tool message.
    fn user(&mut self, content: StringOrList<Block>, i: usize) -> Result<()> {
        let blocks = match content {
            StringOrList::String(text) => {
                self.expect_no_results(i)?;
                self.messages.push(Message::User { content: Content::from(text) });
                return Ok(());
            }
            StringOrList::List(blocks) => blocks,
        };
        if blocks.is_empty() {
            return Err(no_content(i));
        }
        let mut loaded = Vec::new();
        for (j, block) in blocks.into_iter().enumerate() {
            if is_content(&block) {
                self.check_answered(|| format!("messages.{i}: "))?;
            }
            let mut content = Parts::default();
            match block {
                Block::Text(Text { text }) => content.text(&text),
                Block::Image(Image { source }) => {
                    let path = format!("messages.{i}.content[{j}]");
                    self.image(source, path.clone(), &path, &mut content)?;
                }
                Block::Document(document) => content.text(&self.document(document, || content_path(i, j))?),
                Block::RedactedThinking(_) => continue,
                Block::ToolResult(result) => {
                    self.answer(&result.tool_use_id, i, j)?;
                    self.result(result, i, j, &mut loaded)?;
                    continue;
                }
                other => return Err(misplaced(&other, i)),
            }
            self.messages.push(Message::User { content: content.finish() });
        }
        self.give_up_calls()?;
        if !loaded.is_empty() {
            self.messages.push(Message::System { content: Content::default(), tools: Some(loaded) });
        }
        Ok(())
    }

    /// Counts a result. One without a call is a pairing fault, a second one an error.
    fn answer(&mut self, id: &str, i: usize, j: usize) -> Result<()> {
        match self.awaited.answered_by_id.get_mut(id) {
            Some(true) => Err(Error::conversion(format!(
                "messages.{i}.content.{j}: each tool_use must have a single result. \
                 Found multiple `tool_result` blocks with id: {id}"
            ))),
            Some(answered) => {
                *answered = true;
                self.awaited.missing -= 1;
                Ok(())
            }
            None => self.pairing_fault(|_| {
                Error::conversion(format!(
                    "unexpected `messages.{i}.content.{j}: tool_use_id` found in `tool_result` blocks: {id}. \
                     Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
                ))
            }),
        }
    }

    /// A tool message; the tools that it refers to go to `loaded`.
    fn result(&mut self, result: ToolResult, i: usize, j: usize, loaded: &mut Vec<ToolDefinition>) -> Result<()> {
        let content = match result.content {
            None => Content::default(),
            Some(ResultContent(StringOrList::String(text))) => Content::from(text),
            Some(ResultContent(StringOrList::List(parts))) => self.result_content(parts, i, j, loaded)?,
        };
        self.messages.push(Message::Tool { content, tool_call_id: Some(result.tool_use_id) });
        Ok(())
    }

    fn result_content(
        &self,
        parts: Vec<ResultPart>,
        i: usize,
        j: usize,
        loaded: &mut Vec<ToolDefinition>,
    ) -> Result<Content> {
        // References are checked before images.
        for part in &parts {
            if let ResultPart::Reference(ResultReference { tool_name }) = part {
                self.load(tool_name, loaded).ok_or_else(|| {
                    Error::conversion(format!(
                        "messages.{i}.content.{j}: tool reference '{tool_name}' not found in available tools"
                    ))
                })?;
            }
        }
        let mut joined = Parts::default();
        for (k, part) in parts.into_iter().enumerate() {
            match part {
                ResultPart::Text(Text { text }) => joined.text(&text),
                ResultPart::Image(Image { source }) => {
                    let path = format!("messages.{i}.content.{j}.tool_result");
                    let fault_path = format!("{path}.content[{k}]");
                    self.image(source, path, &fault_path, &mut joined)?;
                }
                ResultPart::Document(document) => {
                    joined.text(&self.document(document, || format!("{}.content[{k}]", content_path(i, j)))?);
                }
                ResultPart::Reference(ResultReference { tool_name }) => joined.text(&tool_name),
            }
        }
        Ok(joined.finish())
    }

    fn document(&self, document: Document, path: impl FnOnce() -> String) -> Result<String> {
        source::document(document, self.options, path)
    }

    /// Notes a tool that the conversation loads. `None` if it is not declared. V4 has them all from the start.
    fn load(&self, name: &str, loaded: &mut Vec<ToolDefinition>) -> Option<()> {
        self.known.get(name)?;
        if self.version == ModelVersion::DeepseekV41Flash {
            let name = name.to_owned();
            loaded.push(ToolDefinition {
                name,
                description: None,
                parameters: None,
                strict: None,
                defer_loading: false,
            });
        }
        Some(())
    }

    /// Appends an image, or on V4 what stands for one.
    fn image(&self, source: Source, path: String, fault_path: &str, joined: &mut Parts) -> Result<()> {
        match self.seen_image(source, path, fault_path)? {
            Some(image) => joined.image(image, self.image_token),
            None => joined.text(UNSUPPORTED_IMAGE),
        }
        Ok(())
    }

    /// `None` on V4, which looks at no image.
    fn seen_image(&self, source: Source, path: String, fault_path: &str) -> Result<Option<ImageSource>> {
        match self.version {
            ModelVersion::DeepseekV4Pro => Ok(None),
            ModelVersion::DeepseekV41Flash => source::image(source, path, fault_path).map(Some),
        }
    }

    fn assistant(&mut self, content: StringOrList<Block>, i: usize, last: bool) -> Result<()> {
        self.expect_no_results(i)?;
        let blocks = match content {
            StringOrList::String(text) => {
                let prefix = last && self.continues(!text.is_empty());
                self.messages.push(Message::Assistant {
                    content: text,
                    reasoning_content: None,
                    tool_calls: None,
                    prefix,
                });
                return Ok(());
            }
            StringOrList::List(blocks) => blocks,
        };
        if blocks.is_empty() {
            return Err(no_content(i));
        }
        let (mut content, mut reasoning) = (String::new(), None::<Parts>);
        let mut add = |text: &str| {
            // Unlike in other messages, empty texts at the start are not joined.
            if !content.is_empty() {
                content.push_str("\n\n");
            }
            content.push_str(text);
        };
        let mut tool_calls = Vec::new();
        let mut said = false;
        for (j, block) in blocks.into_iter().enumerate() {
            if is_content(&block) {
                self.check_answered(|| format!("messages.{i}.{j}: "))?;
            }
            match block {
                Block::Text(Text { text }) => {
                    said |= !text.is_empty();
                    add(&text);
                }
                Block::Image(Image { source }) => {
                    let path = format!("messages.{i}.content[{j}]");
                    if self.seen_image(source, String::new(), &path)?.is_some() {
                        return Err(Error::conversion("Image in assistant message is unsupported"));
                    }
                    add(UNSUPPORTED_IMAGE);
                }
                Block::Document(document) => add(&self.document(document, || content_path(i, j))?),
                Block::Thinking(ThinkingBlock { thinking, .. }) => {
                    said |= !thinking.is_empty();
                    reasoning.get_or_insert_default().text(&thinking);
                }
                Block::RedactedThinking(_) => {}
                Block::ServerToolUse(_) | Block::WebSearchResult(_) => {
                    if self.options.messages_web_search == WebSearchBehavior::Reject {
                        return Err(Error::conversion("Unsupported content block: server tools are not supported"));
                    }
                }
                Block::ToolUse(call) => {
                    if !self.awaited.open(i, &call.id) {
                        let text = format!("messages.{i}.content.{j}: `tool_use` ids must be unique");
                        return Err(Error::conversion(text));
                    }
                    tool_calls.push(ToolCall::from(call));
                }
                other => return Err(misplaced(&other, i)),
            }
        }
        let prefix = last && tool_calls.is_empty() && self.continues(said);
        self.messages.push(Message::Assistant {
            content,
            reasoning_content: reasoning.map(|parts| parts.finish().into_text()),
            tool_calls: (!tool_calls.is_empty()).then_some(tool_calls),
            prefix,
        });
        Ok(())
    }

    /// Whether a last message, which says something or not, is a continuation.
    fn continues(&self, said: bool) -> bool {
        said && self.options.messages_continuation == MessagesContinuation::Continue
    }

    /// One message. V4 has no such turn in its template: the user passes it on.
    fn system(&mut self, content: StringOrList<Block>, i: usize) -> Result<()> {
        self.expect_no_results(i)?;
        let mut loaded = Vec::new();
        let content = match content {
            StringOrList::String(text) => Content::from(text),
            StringOrList::List(blocks) => self.system_content(blocks, i, &mut loaded)?,
        };
        match self.version {
            ModelVersion::DeepseekV41Flash => {
                let tools = (!loaded.is_empty()).then_some(loaded);
                self.messages.push(Message::System { content, tools });
            }
            ModelVersion::DeepseekV4Pro if content.text().is_empty() => {}
            ModelVersion::DeepseekV4Pro => {
                let text = format!("<system-reminder>\n{}\n</system-reminder>", content.text());
                self.messages.push(Message::User { content: Content::from(text) });
            }
        }
        Ok(())
    }

    fn system_content(&self, blocks: Vec<Block>, i: usize, loaded: &mut Vec<ToolDefinition>) -> Result<Content> {
        let mut joined = Parts::default();
        for (j, block) in blocks.into_iter().enumerate() {
            match block {
                Block::Text(Text { text }) => joined.text(&text),
                Block::Image(Image { source }) => {
                    let fault_path = format!("messages.{i}.content[{j}]");
                    self.image(source, format!("messages.{i}"), &fault_path, &mut joined)?;
                }
                Block::Document(document) => joined.text(&self.document(document, || content_path(i, j))?),
                Block::RedactedThinking(_) => {}
                Block::ToolAddition(addition) => {
                    let ToolReference::ToolReference(reference) = addition.tool;
                    self.load(&reference.name, loaded).ok_or_else(|| {
                        Error::conversion(format!(
                            "messages.{i}.content.{j}: `tool_addition` references unknown tool '{}'",
                            reference.name
                        ))
                    })?;
                }
                other => return Err(misplaced(&other, i)),
            }
        }
        Ok(joined.finish())
    }
}

/// The place of a block.
fn content_path(i: usize, j: usize) -> String {
    format!("messages[{i}].content[{j}]")
}

/// Whether a block is something said or shown.
fn is_content(block: &Block) -> bool {
    matches!(block, Block::Text(_) | Block::Image(_) | Block::Document(_))
}

fn no_content(i: usize) -> Error {
    Error::conversion(format!("messages.{i}: all messages must have non-empty content"))
}

/// The error of a block that the role of its message cannot have.
fn misplaced(block: &Block, i: usize) -> Error {
    let (kind, roles) = match block {
        Block::Thinking(_) => {
            let text = format!("messages.{i}.content: thinking blocks may only be in `assistant` messages");
            return Error::conversion(text);
        }
        Block::ToolUse(_) | Block::ServerToolUse(_) => ("tool_use", "assistant"),
        Block::ToolResult(_) => ("tool_result", "user"),
        Block::WebSearchResult(_) => ("web_search_tool_result", "assistant"),
        _ => ("tool_addition", "system"),
    };
    Error::conversion(format!("messages.{i}: `{kind}` blocks can only be in `{roles}` messages"))
}

impl From<ToolUse> for ToolCall {
    fn from(call: ToolUse) -> Self {
        let mut arguments = String::new();
        call.input.write_spaced(&mut arguments, write_float);
        Self { id: call.id, name: call.name, arguments }
    }
}
