//! The shape of a Responses body below its top: settings and items. Knows no meaning of it.

mod tools;

use crate::error::{Error, Result};
use crate::json::Value;
use crate::request::content::Detail;
use crate::request::shape::{names, shape, tagged, Defaulted, FromValue, Lenient, StringOrList};
use crate::request::RequestedEffort;
pub(crate) use tools::*;

/// `input`: a string, or a list of items.
#[derive(Debug)]
pub(crate) struct Input(pub(crate) StringOrList<Item>);

impl FromValue for Input {
    fn from_value(value: Value<'_>) -> Result<Self> {
        StringOrList::read(value, "input should be a string or a list of input items").map(Self)
    }
}

shape! {
    pub(crate) struct Reasoning = plain "struct ResponsesReasoningConfig" {
        "effort" => effort: Option<NamedEffort>,
        "summary" => summary: Option<Summary>,
        "generate_summary" => generate_summary: Option<Summary>,
    }
}

/// An effort, and how the request spells it.
#[derive(Debug)]
pub(crate) struct NamedEffort {
    pub(crate) effort: RequestedEffort,
    /// As JSON.
    pub(crate) spelling: String,
}

impl FromValue for NamedEffort {
    fn from_value(value: Value<'_>) -> Result<Self> {
        let spelling = match &value {
            // The name may also stand as the one key of an object.
            Value::Object(object) => {
                object.iter().next().map(|(key, _)| Value::String(key.clone()).to_compact()).unwrap_or_default()
            }
            value => value.to_compact(),
        };
        Ok(Self { effort: RequestedEffort::from_value(value)?, spelling })
    }
}

names! {
    pub(crate) enum Summary {
        Auto = "auto",
        Concise = "concise",
        Detailed = "detailed",
    }
}

names! {
    pub(crate) enum Level {
        Low = "low",
        Medium = "medium",
        High = "high",
    }
}

shape! {
    pub(crate) struct TextConfig = plain "struct ResponsesTextConfig" {
        "format" => format: Format,
        "verbosity" => verbosity: Option<Level>,
    }
}

/// `text.format`, which may be absent but not null.
#[derive(Debug)]
pub(crate) struct Format(pub(crate) TextFormat);

impl FromValue for Format {
    fn from_value(value: Value<'_>) -> Result<Self> {
        TextFormat::from_value(value).map(Self)
    }

    fn absent(_field: &str) -> Result<Self> {
        Ok(Self(TextFormat::Text(Bare {})))
    }

    fn left_out() -> Option<Self> {
        Some(Self(TextFormat::Text(Bare {})))
    }
}

tagged! {
    pub(crate) enum TextFormat = "ResponsesTextFormat" by "type" {
        "text" => Text(Bare),
        "json_schema" => JsonSchema(JsonSchemaFormat),
        "json_object" => JsonObject(Bare),
    }
}

shape! {
    /// A variant without fields.
    pub(crate) struct Bare = tagged "a map" {
    }
}

shape! {
    pub(crate) struct JsonSchemaFormat = tagged "struct variant ResponsesTextFormat::JsonSchema" {
        "name" => name: String,
        "schema" => schema: Value<'static>,
        "description" => description: Option<String>,
        "strict" => strict: Option<bool>,
    }
}

/// An input item. Those of unknown types are as if they were not there, unless the options refuse them.
#[derive(Debug)]
pub(crate) enum Item {
    Message(Message),
    Reasoning(ReasoningItem),
    FunctionCall(FunctionCall),
    CustomCall(CustomCall),
    ToolSearchCall(ToolSearchCall),
    FunctionOutput(FunctionOutput),
    CustomOutput(CustomOutput),
    ToolSearchOutput(ToolSearchOutput),
    WebSearchCall,
    AdditionalTools(AdditionalTools),
    /// The type.
    Unknown(String),
}

impl FromValue for Item {
    fn from_value(value: Value<'_>) -> Result<Self> {
        let Value::Object(object) = &value else {
            return Err(Error::shape("invalid input item"));
        };
        let kind = match object.get("type") {
            Some(Value::String(kind)) => kind.as_ref(),
            Some(other) => return Err(other.mismatch("variant identifier").at("type")),
            None if object.get("role").is_some() => "message",
            None => return Err(Error::shape("invalid input item")),
        };
        Ok(match kind {
            "message" => Self::Message(FromValue::from_value(value)?),
            "reasoning" => Self::Reasoning(FromValue::from_value(value)?),
            "function_call" => Self::FunctionCall(FromValue::from_value(value)?),
            "custom_tool_call" => Self::CustomCall(FromValue::from_value(value)?),
            "tool_search_call" => Self::ToolSearchCall(FromValue::from_value(value)?),
            "function_call_output" => Self::FunctionOutput(FromValue::from_value(value)?),
            "custom_tool_call_output" => Self::CustomOutput(FromValue::from_value(value)?),
            "tool_search_output" => Self::ToolSearchOutput(FromValue::from_value(value)?),
            "additional_tools" => Self::AdditionalTools(FromValue::from_value(value)?),
            "web_search_call" => Self::WebSearchCall,
            unknown => Self::Unknown(unknown.to_owned()),
        })
    }
}

names! {
    pub(crate) enum Role {
        User = "user",
        Assistant = "assistant",
        System = "system",
        Developer = "developer",
    }
}

shape! {
    pub(crate) struct AnyMessage = tagged "struct ResponsesMessage" {
        "role" => role: Role,
        "content" => content: Body,
    }
}

/// A message. Only one of the assistant has refusals.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) role: Role,
    pub(crate) content: StringOrList<Part>,
}

impl FromValue for Message {
    fn from_value(value: Value<'_>) -> Result<Self> {
        let AnyMessage { role, content: Body(content) } = AnyMessage::from_value(value)?;
        let refuses = |content: &StringOrList<Part>| match content {
            StringOrList::String(_) => false,
            StringOrList::List(parts) => parts.iter().any(|part| matches!(part, Part::Refusal(_))),
        };
        if role != Role::Assistant && refuses(&content) {
            let names = ["input_text", "output_text", "input_image", "input_file"];
            return Err(Error::unknown_variant("refusal", &names).at("content"));
        }
        Ok(Self { role, content })
    }
}

/// The content of a message.
#[derive(Debug)]
pub(crate) struct Body(StringOrList<Part>);

impl FromValue for Body {
    fn from_value(value: Value<'_>) -> Result<Self> {
        StringOrList::read(value, "content should be a string or a list of content blocks").map(Self)
    }
}

tagged! {
    pub(crate) enum Part = "ResponsesContentBlock" by "type" {
        "input_text" => InputText(InputText),
        "output_text" => OutputText(OutputText),
        "input_image" => Image(Image),
        "input_file" => File(File),
    }
    also {
        "refusal" => Refusal(Refusal),
    }
}

shape! {
    pub(crate) struct InputText = tagged "struct variant ResponsesContentBlock::InputText" {
        "text" => text: String,
    }
}

shape! {
    pub(crate) struct OutputText = tagged "struct variant ResponsesContentBlock::OutputText" {
        "text" => text: String,
    }
}

shape! {
    pub(crate) struct Refusal = tagged "struct variant ResponsesContentBlock::Refusal" {
        "refusal" => refusal: String,
    }
}

shape! {
    pub(crate) struct Image = tagged "struct ResponsesInputImage" {
        "image_url" => image_url: Option<String>,
        "detail" => detail: Defaulted<Detail>,
        "file_id" => file_id: Option<String>,
    }
}

shape! {
    /// The reference looks at no field of a file.
    pub(crate) struct File = tagged "a map" {
    }
    also {
        "file_data" => file_data: Lenient<String>,
        "filename" => filename: Lenient<String>,
    }
}

/// What a tool answered.
#[derive(Debug)]
pub(crate) struct Output(pub(crate) StringOrList<OutputPart>);

impl FromValue for Output {
    fn from_value(value: Value<'_>) -> Result<Self> {
        StringOrList::read(value, "output should be a string or a list of output content parts").map(Self)
    }
}

tagged! {
    pub(crate) enum OutputPart = "ResponsesToolCallOutputItem" by "type" {
        "input_text" => Text(ResultText),
        "input_image" => Image(Image),
        "input_file" => File(File),
    }
}

shape! {
    pub(crate) struct ResultText = tagged "struct variant ResponsesToolCallOutputItem::InputText" {
        "text" => text: String,
    }
}

shape! {
    pub(crate) struct ReasoningItem = tagged "struct ResponsesReasoning" {
        "content" => content: Option<Vec<ReasoningText>>,
        "encrypted_content" => encrypted_content: Option<String>,
    }
    also {
        "summary" => summary: Lenient<Vec<Lenient<SummaryText>>>,
    }
}

shape! {
    pub(crate) struct ReasoningText = tagged "struct ResponsesReasoningContent" {
        "text" => text: String,
    }
}

shape! {
    pub(crate) struct SummaryText = plain "a map" {
    }
    also {
        "text" => text: Lenient<String>,
    }
}

shape! {
    pub(crate) struct FunctionCall = tagged "struct ResponsesFunctionCall" {
        "arguments" => arguments: String,
        "call_id" => call_id: String,
        "name" => name: String,
        "namespace" => namespace: Option<String>,
    }
}

shape! {
    pub(crate) struct CustomCall = tagged "struct ResponsesCustomToolCall" {
        "call_id" => call_id: String,
        "name" => name: String,
        "input" => input: String,
    }
}

shape! {
    pub(crate) struct ToolSearchCall = tagged "struct ResponsesToolSearchCall" {
        "call_id" => call_id: String,
        "arguments" => arguments: Map,
        "execution" => _execution: Option<Execution>,
    }
}

/// An object, whatever its members.
#[derive(Debug)]
pub(crate) struct Map(pub(crate) Value<'static>);

impl FromValue for Map {
    fn from_value(value: Value<'_>) -> Result<Self> {
        match value {
            Value::Object(_) => Ok(Self(value.into_owned())),
            value => Err(value.mismatch("a map")),
        }
    }
}

names! {
    pub(crate) enum Execution {
        Client = "client",
        Server = "server",
    }
}

shape! {
    pub(crate) struct FunctionOutput = tagged "struct ResponsesFunctionCallOutput" {
        "call_id" => call_id: Option<String>,
        "output" => output: Output,
    }
}

shape! {
    pub(crate) struct CustomOutput = tagged "struct ResponsesCustomToolCallOutput" {
        "call_id" => call_id: String,
        "output" => output: Option<Output>,
    }
}

shape! {
    pub(crate) struct ToolSearchOutput = tagged "struct ResponsesToolSearchOutput" {
        "call_id" => call_id: String,
        "tools" => tools: Vec<Tool>,
        "execution" => _execution: Option<Execution>,
    }
}

shape! {
    pub(crate) struct AdditionalTools = tagged "struct ResponsesAdditionalTools" {
        "tools" => tools: Vec<Tool>,
    }
}
