//! The neutral dialogue that every protocol becomes. Knows no protocol and no template.

use std::ops::Range;

use crate::json::Value;
use crate::save::saved;

/// A conversation and what the prompt has to say about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    /// The messages in order.
    pub messages: Vec<Message>,
    /// Whether the next assistant turn starts with reasoning.
    pub thinking_mode: bool,
    /// The declared tools in order.
    pub tools: Vec<ToolDefinition>,
    /// Whether a tool may, must or must not be called.
    pub tool_choice: ToolChoice,
    /// How much to think. Only looked at in thinking mode.
    pub reasoning_effort: Option<Effort>,
    /// The form that the answer has to take.
    pub response_format: ResponseFormat,
}

impl Default for Conversation {
    fn default() -> Self {
        Self {
            messages: Vec::new(),
            thinking_mode: true,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            reasoning_effort: None,
            response_format: ResponseFormat::Text,
        }
    }
}

impl Conversation {
    /// About how many bytes its prompt has, to reserve room and to tell short work from long. Schemas are not looked at:
    /// one makes the work long.
    pub fn size(&self) -> usize {
        let messages: usize = self.messages.iter().map(Message::size).sum();
        let answer = if matches!(self.response_format, ResponseFormat::JsonSchema(_)) { SCHEMAS } else { 0 };
        messages + schemas_size(&self.tools) + answer
    }

    /// Whether the prompt declares tools. A list of deferred tools counts, tools on system messages do not.
    pub fn has_active_tools(&self) -> bool {
        !self.tools.is_empty() && self.tool_choice != ToolChoice::None
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Instructions, possibly with tools that become callable here.
    System {
        /// The text.
        content: Content,
        /// Tools introduced by this message.
        tools: Option<Vec<ToolDefinition>>,
    },
    /// What the user says.
    User {
        /// The text.
        content: Content,
    },
    /// What the model said.
    Assistant {
        /// The answer.
        content: String,
        /// The reasoning before it.
        reasoning_content: Option<String>,
        /// The calls after it. V4 tells an absent list from an empty one.
        tool_calls: Option<Vec<ToolCall>>,
        /// Whether the model goes on with this message.
        prefix: bool,
    },
    /// What a tool answered.
    Tool {
        /// The result.
        content: Content,
        /// The call that it answers.
        tool_call_id: Option<String>,
    },
    /// Instructions that follow the conversation.
    LatestReminder {
        /// The text.
        content: String,
    },
}

impl Message {
    /// The name of the role.
    pub fn role(&self) -> &'static str {
        match self {
            Self::System { .. } => "system",
            Self::User { .. } => "user",
            Self::Assistant { .. } => "assistant",
            Self::Tool { .. } => "tool",
            Self::LatestReminder { .. } => "latest_reminder",
        }
    }

    /// The text, image placeholders included.
    pub fn text(&self) -> &str {
        match self {
            Self::System { content, .. } | Self::User { content } | Self::Tool { content, .. } => &content.text,
            Self::Assistant { content, .. } | Self::LatestReminder { content } => content,
        }
    }

    /// About how many bytes of a prompt it takes.
    fn size(&self) -> usize {
        let markup = 64;
        match self {
            Self::Assistant { content, reasoning_content, tool_calls, .. } => {
                let reasoning = reasoning_content.as_ref().map_or(0, String::len);
                let calls: usize = tool_calls.iter().flatten().map(|call| 4 * markup + call.arguments.len()).sum();
                markup + reasoning + content.len() + calls
            }
            Self::System { content, tools } => {
                markup + content.text.len() + schemas_size(tools.as_deref().unwrap_or_default())
            }
            message => markup + message.text().len(),
        }
    }

    /// The content with its images, for the roles that can hold some.
    pub fn content(&self) -> Option<&Content> {
        match self {
            Self::System { content, .. } | Self::User { content } | Self::Tool { content, .. } => Some(content),
            Self::Assistant { .. } | Self::LatestReminder { .. } => None,
        }
    }
}

/// What schemas count for, however long they are.
const SCHEMAS: usize = 4096;

fn schemas_size(tools: &[ToolDefinition]) -> usize {
    if tools.is_empty() {
        return 0;
    }
    SCHEMAS + 512 * tools.len()
}

/// Text with images. Only `placeholders` are special in a prompt; other text that spells one is plain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    text: String,
    placeholders: Vec<Range<usize>>,
    image_sources: Vec<ImageSource>,
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl Content {
    /// Content whose placeholders are the first occurrences of `image_token` in `text`, one a source.
    /// Where the text has fewer, the sources are kept all the same.
    pub fn with_images(text: String, image_sources: Vec<ImageSource>, image_token: &str) -> Self {
        let placeholders = text
            .match_indices(image_token)
            .take(image_sources.len())
            .map(|(start, found)| start..start + found.len())
            .collect();
        Self { text, placeholders, image_sources }
    }

    /// Appends text.
    pub(crate) fn push_str(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Appends an image, spelled `image_token`.
    pub(crate) fn push_image(&mut self, source: ImageSource, image_token: &str) {
        let start = self.text.len();
        self.text.push_str(image_token);
        self.placeholders.push(start..self.text.len());
        self.image_sources.push(source);
    }

    /// The text, placeholders spelled out.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text alone, images forgotten.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// Byte ranges of the placeholders in the text, ascending.
    pub fn placeholders(&self) -> &[Range<usize>] {
        &self.placeholders
    }

    /// The images in order; at least as many as there are placeholders.
    pub fn image_sources(&self) -> &[ImageSource] {
        &self.image_sources
    }
}

/// A call in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// What the result refers to.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the caller sent them: usually a JSON object, but never checked.
    pub arguments: String,
}

/// A declared tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// The name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// The JSON Schema of its arguments.
    pub parameters: Option<Value<'static>>,
    /// The `strict` setting as sent.
    pub strict: Option<bool>,
    /// Whether the prompt leaves it out until a system message loads it.
    pub defer_loading: bool,
}

/// Whether tools may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// No call, and no tools in the prompt.
    None,
    /// At least one call.
    Required,
}

impl ToolChoice {
    /// The name in the Python API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::Required => "required",
        }
    }
}

/// How much to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Little.
    Low,
    /// The default.
    High,
    /// Rendered as `High`.
    XHigh,
    /// All there is.
    Max,
    /// A number from 1 to 100. V4 knows three steps of it: up to 50, up to 99, and 100.
    Number(u8),
}

impl Effort {
    /// The name in the Python API; a number has none.
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Low => Some("low"),
            Self::High => Some("high"),
            Self::XHigh => Some("xhigh"),
            Self::Max => Some("max"),
            Self::Number(_) => None,
        }
    }
}

/// The form that the answer has to take.
#[derive(Clone, Debug, PartialEq)]
pub enum ResponseFormat {
    /// Anything.
    Text,
    /// One JSON object.
    JsonObject,
    /// JSON after this schema, as sent.
    JsonSchema(Value<'static>),
    /// Text that this expression matches, as sent.
    Regex(String),
}

impl ResponseFormat {
    /// The name in the Python API.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::JsonObject => "json_object",
            Self::JsonSchema(_) => "json_schema",
            Self::Regex(_) => "regex",
        }
    }
}

/// Where the bytes of an image are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSource {
    /// The place.
    pub data: ImageData,
    /// The level that the request asks for.
    pub detail: ImageDetail,
    /// The place in the request, for messages; empty when the source was made by hand.
    pub path: String,
}

/// The place of an image's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageData {
    /// An external URL, as sent.
    Url(String),
    /// A `data:` URL, as sent.
    DataUrl(String),
    /// The encoded bytes themselves.
    Bytes(Vec<u8>),
}

/// The level of detail of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageDetail {
    /// The model's choice.
    Auto,
    /// Small.
    Low,
    /// The default.
    High,
    /// As large as possible.
    Original,
}

impl ImageDetail {
    /// The name in requests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Low => "low",
            Self::High => "high",
            Self::Original => "original",
        }
    }
}

saved! { struct Conversation { messages, thinking_mode, tools, tool_choice, reasoning_effort, response_format } }
saved! {
    enum Message {
        0 = System { content, tools }, 1 = User { content },
        2 = Assistant { content, reasoning_content, tool_calls, prefix }, 3 = Tool { content, tool_call_id },
        4 = LatestReminder { content },
    }
}
saved! {
    struct Content { text, placeholders, image_sources }
    check |content| are_ranges_of(&content.placeholders, &content.text)
        && content.placeholders.len() <= content.image_sources.len()
}
saved! { struct ToolCall { id, name, arguments } }
saved! { struct ToolDefinition { name, description, parameters, strict, defer_loading } }
saved! { enum ToolChoice { 0 = Auto, 1 = None, 2 = Required } }
saved! { enum Effort { 0 = Low, 1 = High, 2 = XHigh, 3 = Max, 4 = Number(number) } }
saved! { enum ResponseFormat { 0 = Text, 1 = JsonObject, 2 = JsonSchema(schema), 3 = Regex(expression) } }
saved! { struct ImageSource { data, detail, path } }
saved! { enum ImageData { 0 = Url(url), 1 = DataUrl(url), 2 = Bytes(bytes) } }
saved! { enum ImageDetail { 0 = Auto, 1 = Low, 2 = High, 3 = Original } }

/// Whether ranges are those of parts of a text: ascending, disjoint and not empty.
pub(crate) fn are_ranges_of(ranges: &[Range<usize>], text: &str) -> bool {
    let mut behind = 0;
    ranges.iter().all(|range| {
        let is_next = behind <= range.start && text.get(range.clone()).is_some_and(|part| !part.is_empty());
        behind = range.end;
        is_next
    })
}
