//! The shape of tools and of the tool choice in a Responses body. Knows no meaning of it.

use super::{Bare, Execution, Level};
use crate::error::{Error, Result};
use crate::json::Value;
use crate::request::custom::Grammar;
use crate::request::shape::{names, shape, tagged, FromValue, Lenient};

/// A tool. Those of unknown types are left out, unless the options refuse them.
#[derive(Debug)]
pub(crate) enum Tool {
    Known(KnownTool),
    /// The type.
    Unknown(String),
}

impl FromValue for Tool {
    fn from_value(value: Value<'_>) -> Result<Self> {
        const NAMES: [&str; 6] =
            ["function", "namespace", "custom", "tool_search", "web_search", "web_search_2025_08_26"];
        let kind = match &value {
            Value::Object(object) => object.get("type"),
            Value::Array(items) => items.first(),
            _ => None,
        };
        if let Some(kind) = kind.and_then(Value::as_str).filter(|kind| !NAMES.contains(kind)) {
            let unknown = Self::Unknown(kind.to_owned());
            if let Value::Array(items) = value {
                Bare::from_value(Value::Array(items.into_iter().skip(1).collect()))?;
            }
            return Ok(unknown);
        }
        KnownTool::from_value(value).map(Self::Known)
    }
}

tagged! {
    pub(crate) enum KnownTool = "ResponsesTool" by "type" {
        "function" => Function(Function),
        "namespace" => Namespace(Namespace),
        "custom" => Custom(Custom),
        "tool_search" => ToolSearch(ToolSearch),
        "web_search" => WebSearch(WebSearch),
        "web_search_2025_08_26" => DatedWebSearch(WebSearch),
    }
}

shape! {
    pub(crate) struct Function = tagged "struct ResponsesFunctionTool" {
        "name" => name: String,
        "description" => description: Option<String>,
        "parameters" => parameters: Option<Value<'static>>,
        "strict" => strict: Option<bool>,
    }
}

shape! {
    pub(crate) struct Namespace = tagged "struct variant ResponsesTool::Namespace" {
        "name" => name: String,
        "description" => description: Option<String>,
        "tools" => tools: Vec<NamespaceTool>,
    }
}

tagged! {
    pub(crate) enum NamespaceTool = "ResponsesNamespaceTool" by "type" or index {
        "function" => Function(Function),
        "custom" => Custom(Custom),
    }
}

shape! {
    pub(crate) struct Custom = tagged "struct variant ResponsesTool::Custom" {
        "name" => name: String,
    }
    also {
        "description" => description: Lenient<String>,
        "format" => grammar: Lenient<Grammar>,
    }
}

shape! {
    pub(crate) struct ToolSearch = tagged "struct variant ResponsesTool::ToolSearch" {
        "execution" => execution: Option<Execution>,
        "description" => description: Option<String>,
        "parameters" => parameters: Option<Value<'static>>,
    }
}

shape! {
    pub(crate) struct WebSearch = tagged "struct ResponsesWebSearchTool" {
        "search_context_size" => search_context_size: Option<Level>,
        "user_location" => user_location: Option<UserLocation>,
    }
}

shape! {
    pub(crate) struct UserLocation = plain "struct ResponsesUserLocation" {
        "city" => city: Option<String>,
        "country" => country: Option<String>,
        "region" => region: Option<String>,
        "timezone" => timezone: Option<String>,
    }
}

/// `tool_choice`.
#[derive(Debug)]
pub(crate) enum ToolChoice {
    Auto,
    None,
    Required,
    Tool(ChosenTool),
}

impl FromValue for ToolChoice {
    fn from_value(value: Value<'_>) -> Result<Self> {
        if value.get("type").is_some() {
            return ChosenTool::from_value(value).map(Self::Tool);
        }
        Ok(match value.as_str() {
            Some("auto") => Self::Auto,
            Some("none") => Self::None,
            Some("required") => Self::Required,
            _ => return Err(Error::shape("expected one of `none`, `auto`, `required` or a tool choice object")),
        })
    }
}

tagged! {
    pub(crate) enum ChosenTool = "ResponsesToolChoice" by "type" {
        "function" => Function(NamedTool),
        "web_search" => WebSearch(Bare),
        "web_search_2025_08_26" => DatedWebSearch(Bare),
        "custom" => Custom(NamedTool),
    }
    also {
        "allowed_tools" => Allowed(AllowedTools),
    }
}

shape! {
    pub(crate) struct NamedTool = tagged "struct ResponsesNamedToolChoice" {
        "name" => name: String,
    }
}

shape! {
    pub(crate) struct AllowedTools = tagged "struct ResponsesAllowedTools" {
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

shape! {
    pub(crate) struct AllowedTool = plain "struct ResponsesAllowedTool" {
        "type" => kind: String,
        "name" => name: String,
    }
}
