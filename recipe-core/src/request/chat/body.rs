//! The shape of a Chat Completions body below its top. Knows no meaning of it.

use crate::conversation::{ToolCall, ToolDefinition};
use crate::error::{Error, Result};
use crate::json::Value;
use crate::request::content::Detail;
use crate::request::custom::{self, CustomTool, Grammar};
use crate::request::shape::{names, read_field, shape, tagged, Defaulted, FromValue, Lenient, Says, StringOrList};
use crate::request::tools::Choice;
use crate::request::ThinkingType;

/// `stop`: a string or a list.
#[derive(Debug)]
pub(crate) struct Stop(pub(crate) StringOrList<String>);

impl FromValue for Stop {
    fn from_value(value: Value<'_>) -> Result<Self> {
        StringOrList::read(value, "expected a string or a list").map(Self)
    }
}

/// `modalities`: whether audio is among them.
#[derive(Debug)]
pub(crate) struct Modalities(pub(crate) Says);

impl FromValue for Modalities {
    fn from_value(value: Value<'_>) -> Result<Self> {
        let names = value.as_array().unwrap_or_default();
        Ok(Self(Says(names.iter().any(|name| name.as_str() == Some("audio")))))
    }

    fn absent(_field: &str) -> Result<Self> {
        Ok(Self(Says(false)))
    }
}

shape! {
    pub(crate) struct StreamOptions = plain "struct ChatCompletionStreamOptions" {
        "include_usage" => include_usage: Option<bool>,
    }
}

shape! {
    pub(crate) struct Thinking = plain "struct ChatCompletionThinking" {
        "type" => kind: ThinkingType,
        "budget_tokens" => _budget_tokens: Option<u64>,
    }
}

shape! {
    /// What Qwen's and other templates are told; clients of vLLM and SGLang send it.
    pub(crate) struct TemplateArguments = plain "a map" {
    }
    also {
        "enable_thinking" => enable_thinking: Lenient<bool>,
        "thinking" => thinking: Lenient<bool>,
    }
}

tagged! {
    pub(crate) enum ChatMessage = "ChatCompletionRequestMessage" by "role" {
        "system" => System(System),
        "user" => User(User),
        "assistant" => Assistant(Assistant),
        "tool" => Tool(ToolResult),
        "latest_reminder" => LatestReminder(LatestReminder),
    }
    also {
        "developer" => Developer(System),
    }
}

shape! {
    pub(crate) struct System = tagged "struct variant ChatCompletionRequestMessage::System" {
        "content" => content: Body<Part>,
        "name" => _name: Option<String>,
    }
}

shape! {
    pub(crate) struct User = tagged "struct variant ChatCompletionRequestMessage::User" {
        "content" => content: Body<Part>,
        "name" => _name: Option<String>,
    }
}

shape! {
    pub(crate) struct Assistant = tagged "struct variant ChatCompletionRequestMessage::Assistant" {
        "content" => content: Option<Body<AssistantPart>>,
        "reasoning_content" => reasoning_content: Option<String>,
        "name" => _name: Option<String>,
        "tool_calls" => tool_calls: Option<Vec<Call>>,
        "prefix" => prefix: Option<bool>,
    }
    also {
        "reasoning" => reasoning: Lenient<String>,
        "refusal" => refusal: Lenient<String>,
    }
}

shape! {
    pub(crate) struct ToolResult = tagged "struct variant ChatCompletionRequestMessage::Tool" {
        "content" => content: Body<Part>,
        "tool_call_id" => tool_call_id: String,
    }
}

shape! {
    pub(crate) struct LatestReminder = tagged "struct variant ChatCompletionRequestMessage::LatestReminder" {
        "content" => content: String,
    }
}

/// The content of a message: a string or a list of parts.
#[derive(Debug)]
pub(crate) struct Body<P>(pub(crate) StringOrList<P>);

impl<P: FromValue> FromValue for Body<P> {
    fn from_value(value: Value<'_>) -> Result<Self> {
        StringOrList::read(value, "content should be a string or a list").map(Self)
    }
}

tagged! {
    pub(crate) enum Part = "ChatCompletionRequestContentBlock" by "type" {
        "text" => Text(Text),
        "image_url" => Image(Image),
        "file" => File(File),
    }
}

/// A part of an assistant message, which may be a refusal.
#[derive(Debug)]
pub(crate) enum AssistantPart {
    Refusal(Refusal),
    Part(Part),
}

impl FromValue for AssistantPart {
    fn from_value(value: Value<'_>) -> Result<Self> {
        if value.get("type").and_then(Value::as_str) == Some("refusal") {
            return Refusal::from_value(value).map(Self::Refusal);
        }
        Part::from_value(value).map(Self::Part)
    }
}

shape! {
    pub(crate) struct Text = tagged "struct variant ChatCompletionRequestContentBlock::Text" {
        "text" => text: String,
    }
}

shape! {
    pub(crate) struct Refusal = tagged "struct variant ChatCompletionRequestContentBlock::Refusal" {
        "refusal" => refusal: String,
    }
}

shape! {
    pub(crate) struct Image = tagged "struct variant ChatCompletionRequestContentBlock::ImageUrl" {
        "image_url" => image_url: ImageUrl,
    }
}

shape! {
    pub(crate) struct ImageUrl = tagged "struct ChatCompletionImageUrl" {
        "url" => url: String,
        "detail" => detail: Defaulted<Detail>,
    }
}

shape! {
    pub(crate) struct File = tagged "struct variant ChatCompletionRequestContentBlock::File" {
        "file_id" => file_id: Option<String>,
        "file_data" => file_data: Option<String>,
        "filename" => filename: Option<String>,
    }
    also {
        "file" => file: Lenient<NestedFile>,
    }
}

shape! {
    /// The form that OpenAI's documentation gives: the fields one level down.
    pub(crate) struct NestedFile = plain "a map" {
    }
    also {
        "file_id" => file_id: Lenient<String>,
        "file_data" => file_data: Lenient<String>,
        "filename" => filename: Lenient<String>,
    }
}

names! {
    pub(crate) enum FunctionType {
        Function = "function",
    }
}

/// A call in the history.
#[derive(Debug)]
pub(crate) enum Call {
    Function(FunctionCall),
    Custom(CustomCall),
}

impl FromValue for Call {
    fn from_value(value: Value<'_>) -> Result<Self> {
        if is_custom(&value) {
            return CustomCall::from_value(value).map(Self::Custom);
        }
        FunctionCall::from_value(value).map(Self::Function)
    }
}

/// Whether a tool, a call or a choice is of the custom kind, which the reference does not know.
fn is_custom(value: &Value<'_>) -> bool {
    value.get("type").and_then(Value::as_str) == Some("custom")
}

shape! {
    pub(crate) struct FunctionCall = tagged "struct ChatCompletionRequestToolCall" {
        "id" => id: String,
        "type" => _kind: FunctionType,
        "function" => function: CalledFunction,
    }
}

shape! {
    pub(crate) struct CustomCall = tagged "struct ChatCompletionCustomToolCall" {
        "id" => id: String,
        "custom" => custom: CalledCustom,
    }
}

shape! {
    pub(crate) struct CalledCustom = tagged "struct ChatCompletionCustomCall" {
        "name" => name: String,
        "input" => input: String,
    }
}

shape! {
    pub(crate) struct CalledFunction = tagged "struct ChatCompletionRequestFunctionCall" {
        "name" => name: String,
        "arguments" => arguments: String,
    }
}

tagged! {
    pub(crate) enum Format = "ChatCompletionResponseFormat" by "type" {
        "json_object" => JsonObject(Bare),
        "json_schema" => JsonSchema(JsonSchemaFormat),
        "regex" => Regex(RegexFormat),
        "text" => Text(Bare),
    }
}

shape! {
    /// A variant without fields.
    pub(crate) struct Bare = tagged "a map" {
    }
}

shape! {
    pub(crate) struct JsonSchemaFormat = tagged "struct variant ChatCompletionResponseFormat::JsonSchema" {
        "json_schema" => json_schema: JsonSchema,
    }
}

shape! {
    pub(crate) struct JsonSchema = tagged "struct ChatCompletionResponseFormatJsonSchema" {
        "schema" => schema: Value<'static>,
        "name" => _name: Option<String>,
        "strict" => strict: Option<bool>,
    }
}

shape! {
    pub(crate) struct RegexFormat = tagged "struct variant ChatCompletionResponseFormat::Regex" {
        "regex" => regex: String,
    }
}

/// A declared tool.
#[derive(Debug)]
pub(crate) enum Tool {
    Function(FunctionTool),
    Custom(CustomToolBody),
}

impl FromValue for Tool {
    fn from_value(value: Value<'_>) -> Result<Self> {
        if is_custom(&value) {
            return CustomToolBody::from_value(value).map(Self::Custom);
        }
        FunctionTool::from_value(value).map(Self::Function)
    }
}

shape! {
    pub(crate) struct FunctionTool = plain "struct ChatCompletionTool" {
        "type" => _kind: FunctionType,
        "function" => function: Function,
    }
}

shape! {
    pub(crate) struct CustomToolBody = plain "struct ChatCompletionCustomTool" {
        "custom" => custom: Custom,
    }
}

shape! {
    pub(crate) struct Custom = plain "struct ChatCompletionCustomDefinition" {
        "name" => name: String,
    }
    also {
        "description" => description: Lenient<String>,
        "format" => format: Lenient<CustomFormat>,
    }
}

shape! {
    pub(crate) struct CustomFormat = plain "a map" {
    }
    also {
        "grammar" => grammar: Lenient<Grammar>,
    }
}

shape! {
    pub(crate) struct Function = plain "struct ChatCompletionFunctionDefinition" {
        "name" => name: String,
        "description" => description: Option<String>,
        "parameters" => parameters: Option<Value<'static>>,
        "strict" => strict: Option<bool>,
    }
}

impl Tool {
    /// The name, and its field.
    pub(crate) fn name(&self) -> (&str, &'static str) {
        match self {
            Self::Function(tool) => (&tool.function.name, "function.name"),
            Self::Custom(tool) => (&tool.custom.name, "custom.name"),
        }
    }

    /// The function that the model sees; a custom tool goes to `custom`, too.
    pub(crate) fn define(self, custom: &mut Vec<CustomTool>) -> ToolDefinition {
        match self {
            Self::Function(FunctionTool { function, .. }) => {
                let Function { name, description, parameters, strict } = function;
                ToolDefinition { name, description, parameters, strict, defer_loading: false }
            }
            Self::Custom(CustomToolBody { custom: Custom { name, description, format } }) => {
                let grammar = format.0.and_then(|format| format.grammar.0);
                let definition = custom::definition(&name, description.0, grammar.as_ref());
                custom.push(CustomTool { name, grammar });
                definition
            }
        }
    }
}

/// `tool_choice`.
#[derive(Debug)]
pub(crate) struct ChatChoice(pub(crate) Choice);

shape! {
    pub(crate) struct NamedFunction = plain "struct ChatCompletionToolChoiceFunction" {
        "name" => name: String,
    }
}

shape! {
    pub(crate) struct AllowedTools = plain "struct ChatCompletionAllowedTools" {
        "mode" => mode: AllowedMode,
        "tools" => tools: Vec<AllowedTool>,
    }
}

names! {
    pub(crate) enum AllowedMode {
        Auto = "auto",
        Required = "required",
    }
}

/// The name of an allowed tool.
#[derive(Debug)]
pub(crate) struct AllowedTool(String);

impl FromValue for AllowedTool {
    fn from_value(value: Value<'_>) -> Result<Self> {
        if is_custom(&value) {
            return AllowedCustom::from_value(value).map(|tool| Self(tool.custom.name));
        }
        AllowedFunction::from_value(value).map(|tool| Self(tool.function.name))
    }
}

shape! {
    pub(crate) struct AllowedFunction = plain "struct ChatCompletionToolChoice" {
        "type" => _kind: FunctionType,
        "function" => function: NamedFunction,
    }
}

shape! {
    pub(crate) struct AllowedCustom = plain "struct ChatCompletionCustomToolChoice" {
        "custom" => custom: NamedFunction,
    }
}

impl FromValue for ChatChoice {
    fn from_value(value: Value<'_>) -> Result<Self> {
        let unknown = || Err(Error::shape("expected one of `none`, `auto`, `required` or a tool"));
        let object = match value {
            Value::Object(object) if object.get("type").is_some() => object,
            value => {
                return Ok(Self(match value.as_str() {
                    Some("auto") => Choice::Auto,
                    Some("none") => Choice::None,
                    Some("required") => Choice::Required,
                    _ => return unknown(),
                }))
            }
        };
        let (mut kind, mut function, mut custom, mut allowed) = (Value::Null, Value::Null, Value::Null, Value::Null);
        for (key, value) in object {
            match key.as_ref() {
                "type" => kind = value,
                "function" => function = value,
                "custom" => custom = value,
                "allowed_tools" => allowed = value,
                _ => {}
            }
        }
        if kind.as_str() == Some("custom") {
            let custom: NamedFunction = read_field("custom", custom)?;
            return Ok(Self(Choice::Named(custom.name)));
        }
        if kind.as_str() == Some("allowed_tools") {
            let AllowedTools { mode, tools } = read_field("allowed_tools", allowed)?;
            let required = mode == AllowedMode::Required;
            let names = tools.into_iter().map(|tool| tool.0).collect();
            return Ok(Self(Choice::Allowed { required, names }));
        }
        let FunctionType::Function = read_field("type", kind)?;
        let function: NamedFunction = read_field("function", function)?;
        Ok(Self(Choice::Named(function.name)))
    }
}

impl From<Call> for ToolCall {
    fn from(call: Call) -> Self {
        let FunctionCall { id, function: CalledFunction { name, mut arguments }, .. } = match call {
            Call::Function(call) => call,
            Call::Custom(CustomCall { id, custom: CalledCustom { name, input } }) => {
                return Self { id, name, arguments: custom::arguments(&input) };
            }
        };
        // A call without arguments. A template could not write them as parameters otherwise.
        if arguments.trim().is_empty() {
            arguments = "{}".to_owned();
        }
        Self { id, name, arguments }
    }
}
