//! The messages of a Chat Completions body: their parts, and how calls and results have to follow each other.

use foldhash::HashMap;

use super::body::{
    Assistant, AssistantPart, Body, ChatMessage, File, Image, ImageUrl, LatestReminder, Part, Refusal, System, Text,
    ToolResult, User,
};
use crate::conversation::{Content, ImageDetail, Message, ToolCall};
use crate::data_url::DataUrl;
use crate::error::{Error, Result};
use crate::options::{ConversionOptions, ModelVersion, ToolPairing};
use crate::request::content::{self, Parts, UNSUPPORTED_IMAGE};
use crate::request::pairing;
use crate::request::shape::StringOrList;
use crate::special::SpecialToken;

/// The converted messages, and what later checks ask about them.
pub(crate) struct History {
    /// The messages in order.
    pub(crate) messages: Vec<Message>,
    /// Whether the last message is continued.
    pub(crate) prefixed: bool,
    /// Whether there is a call or a result.
    pub(crate) uses_tools: bool,
}

impl History {
    /// Converts message by message; the first fault is the error.
    pub(crate) fn read(turns: Vec<ChatMessage>, version: ModelVersion, options: &ConversionOptions) -> Result<Self> {
        if turns.is_empty() {
            return Err(Error::conversion("Empty input messages").at("messages"));
        }
        let reader = MessageReader { version, image_token: options.special_tokens.get(SpecialToken::Image) };
        let mut awaited = Awaited::default();
        let mut fault = None;
        let mut uses_tools = false;
        let mut messages = Vec::with_capacity(turns.len());
        let last = turns.len() - 1;
        for (i, turn) in turns.into_iter().enumerate() {
            let at_turn = |error: Error| error.at(format!("messages[{i}]"));
            if let Some(error) = awaited.see(&turn, i).map_err(at_turn)? {
                fault = Some(refuse_unpaired(at_turn(error), options)?);
            }
            let message = reader.read(turn, i).map_err(at_turn)?;
            match &message {
                Message::Assistant { tool_calls, .. } => {
                    awaited.open(tool_calls.as_deref().unwrap_or_default(), i).map_err(at_turn)?;
                    uses_tools |= tool_calls.is_some();
                }
                Message::Tool { .. } => uses_tools = true,
                Message::System { content, .. } if content.text().is_empty() => continue,
                _ => {}
            }
            messages.push(message);
        }
        if awaited.missing > 0 {
            fault = Some(refuse_unpaired(Error::conversion(INSUFFICIENT).at(format!("messages[{last}]")), options)?);
        }
        // Dropped system messages do not count here.
        let is_prefix = |message: &Message| matches!(message, Message::Assistant { prefix: true, .. });
        let prefixed = messages.last().is_some_and(is_prefix);
        if messages.iter().rev().skip(1).any(is_prefix) {
            return Err(Error::conversion(
                "Invalid completion message: prefix set true with message which is not final message \
                 or message role is not assistant",
            ));
        }
        if fault.is_some() {
            messages = pairing::repair(messages);
        }
        Ok(Self { messages, prefixed, uses_tools })
    }
}

/// A pairing fault, if it is to be repaired; otherwise it is the error.
fn refuse_unpaired(fault: Error, options: &ConversionOptions) -> Result<Error> {
    match options.tool_pairing {
        ToolPairing::Repair => Ok(fault),
        ToolPairing::Refuse => Err(fault),
    }
}

const INSUFFICIENT: &str = "An assistant message with 'tool_calls' must be followed by tool messages responding to \
    each 'tool_call_id'. (insufficient tool messages following tool_calls message)";

/// The calls of the assistant message before, while tool messages are to follow it.
#[derive(Default)]
struct Awaited {
    answered_by_id: HashMap<String, bool>,
    missing: usize,
}

impl Awaited {
    /// Looks at the next message. A pairing fault is returned, and the calls are given up; a duplicate fails.
    fn see(&mut self, turn: &ChatMessage, i: usize) -> Result<Option<Error>> {
        let ChatMessage::Tool(ToolResult { tool_call_id: id, .. }) = turn else {
            return Ok((std::mem::take(&mut self.missing) > 0).then(|| Error::conversion(INSUFFICIENT)));
        };
        if self.missing == 0 {
            return Ok(Some(Error::conversion(
                "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
            )));
        }
        match self.answered_by_id.get_mut(id) {
            Some(true) => Err(duplicate_call_id(id, i)),
            Some(answered) => {
                *answered = true;
                self.missing -= 1;
                Ok(None)
            }
            None => {
                self.missing = 0;
                Ok(Some(Error::conversion(format!(
                    "An assistant message with 'tool_calls' must be followed by tool messages responding to \
                     each 'tool_call_id', The following tool_call_ids did not have response messages: {id}"
                ))))
            }
        }
    }

    /// Starts to wait for the results of these calls.
    fn open(&mut self, calls: &[ToolCall], i: usize) -> Result<()> {
        self.answered_by_id.clear();
        self.missing = calls.len();
        for call in calls {
            if self.answered_by_id.insert(call.id.clone(), false).is_some() {
                return Err(duplicate_call_id(&call.id, i));
            }
        }
        Ok(())
    }
}

fn duplicate_call_id(id: &str, i: usize) -> Error {
    Error::conversion(format!("Duplicate value for 'tool_call_id' of {id} in message[{i}]"))
}

/// Converts single messages.
struct MessageReader<'o> {
    version: ModelVersion,
    image_token: &'o str,
}

impl MessageReader<'_> {
    fn read(&self, turn: ChatMessage, i: usize) -> Result<Message> {
        Ok(match turn {
            ChatMessage::System(System { content, .. }) | ChatMessage::Developer(System { content, .. }) => {
                Message::System { content: self.content(content, i)?, tools: None }
            }
            ChatMessage::User(User { content, .. }) => Message::User { content: self.content(content, i)? },
            ChatMessage::Assistant(turn) => self.assistant(turn, i)?,
            ChatMessage::Tool(ToolResult { content, tool_call_id }) => {
                Message::Tool { content: self.content(content, i)?, tool_call_id: Some(tool_call_id) }
            }
            ChatMessage::LatestReminder(LatestReminder { content }) => Message::LatestReminder { content },
        })
    }

    fn content(&self, body: Body<Part>, i: usize) -> Result<Content> {
        let parts = match body.0 {
            StringOrList::String(text) => return Ok(Content::from(text)),
            StringOrList::List(parts) => parts,
        };
        let mut joined = Parts::default();
        // A part's own faults come before those of every URL.
        for part in parts.into_iter().map(|part| self.part(part, i)).collect::<Result<Vec<_>>>()? {
            match part {
                Converted::Text(text) => joined.text(&text),
                Converted::Image { url, detail } => {
                    joined.image(content::image_source(url, detail, image_path(i))?, self.image_token);
                }
            }
        }
        Ok(joined.finish())
    }

    fn assistant(&self, turn: Assistant, i: usize) -> Result<Message> {
        let content = match turn.content {
            None => turn.refusal.0,
            Some(Body(StringOrList::String(text))) => Some(text),
            Some(Body(StringOrList::List(parts))) => Some(self.assistant_text(parts, i)?),
        };
        let tool_calls: Vec<ToolCall> = turn.tool_calls.unwrap_or_default().into_iter().map(ToolCall::from).collect();
        if content.is_none() && tool_calls.is_empty() {
            return Err(Error::conversion("Invalid assistant message: content or tool_calls must be set"));
        }
        Ok(Message::Assistant {
            content: content.unwrap_or_default(),
            reasoning_content: turn.reasoning_content.or(turn.reasoning.0),
            tool_calls: (!tool_calls.is_empty()).then_some(tool_calls),
            prefix: turn.prefix.unwrap_or(false),
        })
    }

    fn assistant_text(&self, parts: Vec<AssistantPart>, i: usize) -> Result<String> {
        let mut joined = Parts::default();
        let read = |part| match part {
            AssistantPart::Refusal(Refusal { refusal }) => Ok(Converted::Text(refusal)),
            AssistantPart::Part(part) => self.part(part, i),
        };
        for part in parts.into_iter().map(read).collect::<Result<Vec<_>>>()? {
            match part {
                Converted::Text(text) => joined.text(&text),
                Converted::Image { .. } => {
                    return Err(Error::conversion("Image in assistant message is not supported"));
                }
            }
        }
        Ok(joined.finish().into_text())
    }

    fn part(&self, part: Part, i: usize) -> Result<Converted> {
        let image = match part {
            Part::Text(Text { text }) => return Ok(Converted::Text(text)),
            Part::Image(Image { image_url: ImageUrl { url, detail } }) => {
                Converted::Image { url, detail: detail.0.map_or(ImageDetail::High, ImageDetail::from) }
            }
            Part::File(file) => return self.file(file, i),
        };
        Ok(match self.version {
            ModelVersion::DeepseekV4Pro => Converted::Text(UNSUPPORTED_IMAGE.to_owned()),
            ModelVersion::DeepseekV41Flash => image,
        })
    }

    /// A file that is text becomes one; on V4.1 a file may be an image.
    fn file(&self, file: File, i: usize) -> Result<Converted> {
        let nested = file.file.0;
        let file_name = file.filename.or_else(|| nested.as_ref().and_then(|nested| nested.filename.0.clone()));
        let (file_id, file_data) = match (file.file_id, file.file_data, nested) {
            (None, None, Some(nested)) => (nested.file_id.0, nested.file_data.0),
            (file_id, file_data, _) => (file_id, file_data),
        };
        let data = file_data.as_deref().and_then(DataUrl::parse);
        if let (None, Some(data)) = (&file_id, data.as_ref().filter(|data| data.is_readable())) {
            if let Some(bytes) = data.decode() {
                let name = file_name.as_deref().unwrap_or("document");
                return Ok(Converted::Text(content::file_text(None, name, &bytes)));
            }
        }
        if self.version == ModelVersion::DeepseekV4Pro {
            return Ok(Converted::Text(UNSUPPORTED_IMAGE.to_owned()));
        }
        let fault = |text: &str| Err(Error::conversion(format!("{}: {text}", image_path(i))));
        let url = match (file_id, &file_data) {
            (Some(_), Some(_)) => return fault("file cannot have both file_id and file_data"),
            (None, None) => return fault("file must have a file_id or file_data"),
            (Some(_), None) => {
                return fault("file_id is not supported. Pass the image as a base64 data url instead.");
            }
            (None, Some(url)) => url,
        };
        let Some(data) = data.filter(DataUrl::is_decodable) else {
            return fault("file_data is not a valid base64 data url");
        };
        if !data.is_image() {
            return fault(
                "You have uploaded an unsupported file. \
                 Please make sure your file is valid and has one of the following formats: webp, png, jpeg, and gif.",
            );
        }
        Ok(Converted::Image { url: url.clone(), detail: ImageDetail::High })
    }
}

/// The path of an image in texts and sources: with a dot in front, and without the part's index.
fn image_path(i: usize) -> String {
    format!(".messages[{i}]")
}

/// A part once the model's abilities are taken into account.
enum Converted {
    Text(String),
    Image { url: String, detail: ImageDetail },
}
