//! The shape of a Messages body below its top. Knows no meaning of it.

use crate::conversation::ToolDefinition;
use crate::error::{Error, Result};
use crate::json::Value;
use crate::request::shape::{names, read_field, shape, tagged, FromValue, Late, Lenient, StringOrList};
use crate::request::{RequestedEffort, ThinkingType};

shape! {
    pub(crate) struct Thinking = plain "struct MessagesThinking" {
        "type" => kind: ThinkingType,
        "budget_tokens" => _budget_tokens: Option<u64>,
    }
    also {
        "display" => display: Lenient<String>,
    }
}

shape! {
    pub(crate) struct OutputConfig = plain "struct MessagesOutputConfig" {
        "effort" => effort: Option<RequestedEffort>,
    }
    also {
        "format" => format: Late<OutputFormat>,
    }
}

tagged! {
    pub(crate) enum OutputFormat = "MessagesOutputFormat" by "type" {
        "json_schema" => JsonSchema(JsonSchemaFormat),
    }
}

shape! {
    pub(crate) struct JsonSchemaFormat = tagged "struct variant MessagesOutputFormat::JsonSchema" {
        "schema" => schema: Value<'static>,
    }
}

shape! {
    pub(crate) struct Metadata = plain "struct MessagesMetadata" {
        "user_id" => _user_id: Option<String>,
    }
}

/// `system`: a string or a list of text blocks.
#[derive(Debug)]
pub(crate) struct System(pub(crate) StringOrList<SystemBlock>);

impl FromValue for System {
    fn from_value(value: Value<'_>) -> Result<Self> {
        StringOrList::read(value, STRING_OR_LIST).map(Self)
    }
}

const STRING_OR_LIST: &str = "expected a string or a list";

tagged! {
    pub(crate) enum SystemBlock = "MessagesSystemBlock" by "type" {
        "text" => Text(SystemText),
    }
}

shape! {
    pub(crate) struct SystemText = tagged "struct variant MessagesSystemBlock::Text" {
        "text" => text: String,
    }
}

/// One entry of `messages`.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) role: Role,
    pub(crate) content: StringOrList<Block>,
}

names! {
    pub(crate) enum Role {
        User = "user",
        Assistant = "assistant",
        System = "system",
    }
}

impl FromValue for Turn {
    fn from_value(value: Value<'_>) -> Result<Self> {
        const EXPECTED: &str = "adjacently tagged enum MessagesMessage";
        match value {
            Value::Object(object) => {
                let (mut role, mut content) = (None, None);
                for (key, value) in object {
                    match key.as_ref() {
                        "role" => role = Some(value),
                        "content" => content = Some(value),
                        _ => {}
                    }
                }
                Self::read(role, content, |field| Error::shape(format!("missing field `{field}`")).at(field))
            }
            Value::Array(items) => {
                let found = items.len();
                let wrong = |expected: &str| Error::shape(format!("invalid length {found}, expected {expected}"));
                let mut items = items.into_iter();
                let role = items.next();
                if let Some(role) = role.as_ref().filter(|role| role.as_str().is_none()) {
                    return Err(role.mismatch("variant identifier"));
                }
                let turn = Self::read(role, items.next(), |_| wrong(EXPECTED))?;
                if found > 2 {
                    return Err(wrong("fewer elements in array"));
                }
                Ok(turn)
            }
            other => Err(other.mismatch(EXPECTED)),
        }
    }
}

impl Turn {
    fn read(role: Option<Value>, content: Option<Value>, missing: impl Fn(&str) -> Error) -> Result<Self> {
        let role = Role::from_value(role.ok_or_else(|| missing("role"))?).map_err(|error| error.within("role"))?;
        let content = content.ok_or_else(|| missing("content"))?;
        let content = StringOrList::read(content, STRING_OR_LIST).map_err(|error| error.within("content"))?;
        Ok(Self { role, content })
    }
}

tagged! {
    /// A block of a message, in whatever role: where a kind may stand is a matter of meaning.
    #[allow(dead_code, reason = "server blocks are only checked for their shape")]
    pub(crate) enum Block = "MessagesContentBlock" by "type" {
        "text" => Text(Text),
        "image" => Image(Image),
        "document" => Document(Document),
        "thinking" => Thinking(ThinkingBlock),
        "server_tool_use" => ServerToolUse(ServerToolUse),
        "tool_use" => ToolUse(ToolUse),
        "tool_result" => ToolResult(ToolResult),
        "web_search_tool_result" => WebSearchResult(WebSearchResult),
        "tool_addition" => ToolAddition(ToolAddition),
    }
    also {
        "redacted_thinking" => RedactedThinking(Redacted),
    }
}

shape! {
    pub(crate) struct Text = tagged "struct variant MessagesContentBlock::Text" {
        "text" => text: String,
    }
}

shape! {
    pub(crate) struct Image = tagged "struct variant MessagesContentBlock::Image" {
        "source" => source: Source,
    }
}

tagged! {
    /// Where an image is.
    #[allow(dead_code, reason = "a file is only checked for its shape")]
    pub(crate) enum Source = "MessagesImageSource" by "type" or index {
        "base64" => Base64(Base64Source),
        "url" => Url(UrlSource),
        "file" => File(FileSource),
    }
}

shape! {
    pub(crate) struct Base64Source = tagged "struct variant MessagesImageSource::Base64" {
        "media_type" => media_type: ImageType,
        "data" => data: String,
    }
}

names! {
    /// The media types of images.
    pub(crate) enum ImageType {
        Jpeg = "image/jpeg",
        Jpg = "image/jpg",
        Png = "image/png",
        Gif = "image/gif",
        Webp = "image/webp",
    }
}

shape! {
    pub(crate) struct UrlSource = tagged "struct variant MessagesImageSource::Url" {
        "url" => url: String,
    }
}

shape! {
    pub(crate) struct FileSource = tagged "struct variant MessagesImageSource::File" {
        "file_id" => _file_id: String,
    }
}

shape! {
    pub(crate) struct Document = tagged "struct variant MessagesContentBlock::Document" {
        "source" => source: DocumentSource,
    }
    also {
        "title" => title: Lenient<String>,
        "context" => context: Lenient<String>,
    }
}

shape! {
    pub(crate) struct DocumentSource = tagged "struct MessagesDocumentSource" {
        "media_type" => media_type: Option<String>,
    }
    also {
        "type" => kind: Lenient<String>,
        "data" => data: Lenient<String>,
        "content" => content: Lenient<DocumentContent>,
    }
}

/// The text of a document's `content`: a string, or the text blocks of a list.
#[derive(Debug)]
pub(crate) struct DocumentContent(pub(crate) String);

impl FromValue for DocumentContent {
    fn from_value(value: Value<'_>) -> Result<Self> {
        if let Some(text) = value.as_str() {
            return Ok(Self(text.to_owned()));
        }
        let blocks = value.as_array().unwrap_or_default().iter();
        let texts: Vec<&str> = blocks
            .filter(|block| block.get("type").and_then(Value::as_str) == Some("text"))
            .filter_map(|block| block.get("text")?.as_str())
            .collect();
        if texts.is_empty() {
            return Err(Error::shape("no text"));
        }
        Ok(Self(texts.join("\n\n")))
    }
}

shape! {
    pub(crate) struct ThinkingBlock = tagged "struct variant MessagesContentBlock::Thinking" {
        "signature" => signature: Option<String>,
        "thinking" => thinking: String,
    }
}

shape! {
    pub(crate) struct Redacted = tagged "a map" {
    }
    also {
        "data" => data: Lenient<String>,
    }
}

shape! {
    pub(crate) struct ServerToolUse = tagged "struct variant MessagesContentBlock::ServerToolUse" {
        "id" => _id: String,
        "name" => _name: String,
        "input" => _input: Anything,
    }
}

shape! {
    pub(crate) struct WebSearchResult = tagged "struct variant MessagesContentBlock::WebSearchToolResult" {
        "tool_use_id" => _tool_use_id: String,
        "content" => _content: Anything,
    }
}

/// A value that has to be there, whatever it is.
#[derive(Debug)]
pub(crate) struct Anything;

impl FromValue for Anything {
    fn from_value(_value: Value<'_>) -> Result<Self> {
        Ok(Self)
    }
}

shape! {
    pub(crate) struct ToolUse = tagged "struct variant MessagesContentBlock::ToolUse" {
        "id" => id: String,
        "name" => name: String,
        "input" => input: Value<'static>,
    }
}

shape! {
    pub(crate) struct ToolResult = tagged "struct variant MessagesContentBlock::ToolResult" {
        "tool_use_id" => tool_use_id: String,
        "content" => content: Option<ResultContent>,
        "is_error" => _is_error: Option<bool>,
    }
}

/// The content of a tool result: a string or a list of parts.
#[derive(Debug)]
pub(crate) struct ResultContent(pub(crate) StringOrList<ResultPart>);

impl FromValue for ResultContent {
    fn from_value(value: Value<'_>) -> Result<Self> {
        StringOrList::read(value, STRING_OR_LIST).map(Self)
    }
}

tagged! {
    pub(crate) enum ResultPart = "MessagesToolResultBlock" by "type" {
        "text" => Text(Text),
        "image" => Image(Image),
        "document" => Document(Document),
        "tool_reference" => Reference(ResultReference),
    }
}

shape! {
    pub(crate) struct ResultReference = tagged "struct variant MessagesToolResultBlock::ToolReference" {
        "tool_name" => tool_name: String,
    }
}

shape! {
    pub(crate) struct ToolAddition = tagged "struct variant MessagesContentBlock::ToolAddition" {
        "tool" => tool: ToolReference,
    }
}

tagged! {
    pub(crate) enum ToolReference = "MessagesToolReference" by "type" or index {
        "tool_reference" => ToolReference(NamedReference),
    }
}

shape! {
    pub(crate) struct NamedReference = tagged "struct variant MessagesToolReference::ToolReference" {
        "name" => name: String,
    }
}

shape! {
    /// A variant without fields.
    pub(crate) struct Bare = tagged "a map" {
    }
}

/// A declared tool.
#[derive(Debug)]
pub(crate) enum Tool {
    /// One that the client runs.
    Client(ToolDefinition),
    /// One that the server would run.
    Server {
        /// Its type, with a version.
        kind: String,
        /// Its name, if it has one.
        name: Option<String>,
    },
}

impl FromValue for Tool {
    fn from_value(value: Value<'_>) -> Result<Self> {
        let (mut kind, mut name, mut description) = (None, None, Value::Null);
        let (mut input_schema, mut defer_loading, mut strict) = (Value::Null, Value::Null, Value::Null);
        if let Value::Object(object) = value {
            let is_typed = object.get("type").is_some();
            for (key, value) in object {
                match key.as_ref() {
                    // A type that is there has to be a string: null is none.
                    "type" => kind = Some(String::from_value(value).map_err(|error| error.within("type"))?),
                    "name" if is_typed && !matches!(value, Value::Null | Value::String(_)) => {
                        return Err(value.mismatch("a string").at("name"));
                    }
                    "name" => name = Some(value),
                    "description" => description = value,
                    "input_schema" => input_schema = value,
                    "defer_loading" => defer_loading = value,
                    "strict" => strict = value,
                    _ => {}
                }
            }
        }
        if let Some(kind) = kind.filter(|kind| kind != "custom") {
            let name = name.map_or(Ok(None), Option::from_value).map_err(|error| error.within("name"))?;
            return Ok(Self::Server { kind, name });
        }
        Ok(Self::Client(ToolDefinition {
            name: name.map_or_else(|| String::absent("name"), |name| read_field("name", name))?,
            description: read_field("description", description)?,
            // A missing schema is checked as null.
            parameters: Some(input_schema.into_owned()),
            strict: Lenient::from_value(strict)?.0,
            defer_loading: read_field::<Option<bool>>("defer_loading", defer_loading)?.unwrap_or(false),
        }))
    }
}

tagged! {
    pub(crate) enum ToolChoice = "MessagesToolChoice" by "type" {
        "auto" => Auto(AutoChoice),
        "any" => Any(AnyChoice),
        "tool" => Tool(ToolNamed),
        "none" => None(Bare),
    }
}

shape! {
    pub(crate) struct AutoChoice = tagged "struct variant MessagesToolChoice::Auto" {
        "disable_parallel_tool_use" => disable_parallel_tool_use: Option<bool>,
    }
}

shape! {
    pub(crate) struct AnyChoice = tagged "struct variant MessagesToolChoice::Any" {
        "disable_parallel_tool_use" => disable_parallel_tool_use: Option<bool>,
    }
}

shape! {
    pub(crate) struct ToolNamed = tagged "struct variant MessagesToolChoice::Tool" {
        "name" => name: String,
        "disable_parallel_tool_use" => disable_parallel_tool_use: Option<bool>,
    }
}
