//! Responses: a body becomes a conversation. The order of the checks is that of the reference.
//! Knows nothing of the other protocols.

mod body;
mod declared;
mod echo;
mod history;
mod parts;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use declared::TOOL_SEARCH;
pub use echo::ResponsesEcho;

use super::shape::{shape, FromValue, Lenient, Says, StringOrList};
use super::tools::{self, Choice};
use super::{
    check_fields, check_max_tokens, check_top_logprobs, max_tokens_bound, model_version, says_json, settle_reasoning,
    thinking, AnswerFormat, Checked, ConversationRequest, Sampling,
};
use crate::conversation::{Content, Message, ResponseFormat};
use crate::error::{Error, Result};
use crate::json::Value;
use crate::options::{ConversionOptions, InferenceOptions, WebSearchBehavior};
use body::{AllowedMode, AllowedTools, ChosenTool, Input, JsonSchemaFormat, NamedTool, TextFormat, Tool, ToolChoice};
use declared::ToolNames;
use history::History;

/// The namespace and the local name of each function that a namespace's tool became, by the function's name.
pub type NamespaceToolMap = BTreeMap<String, (String, String)>;

shape! {
    /// A request of Responses: a body whose shape is right.
    pub struct ResponsesRequest = plain "struct ResponsesRequest" {
        "model" => model: String,
        "input" => input: Option<Input>,
        "instructions" => instructions: Option<String>,
        "max_output_tokens" => max_output_tokens: Option<u32>,
        "reasoning" => reasoning: Option<body::Reasoning>,
        "stream" => stream: Option<bool>,
        "temperature" => temperature: Option<f32>,
        "text" => text: Option<body::TextConfig>,
        "tool_choice" => tool_choice: Option<ToolChoice>,
        "tools" => tools: Option<Vec<Tool>>,
        "top_logprobs" => top_logprobs: Option<u8>,
        "top_p" => top_p: Option<f32>,
        "user" => user: Option<String>,
    }
    also {
        "parallel_tool_calls" => parallel_tool_calls: Lenient<bool>,
        "previous_response_id" => previous_response_id: Says,
        "conversation" => conversation: Says,
        "background" => background: Says,
        "prompt" => prompt: Says,
    }
}

impl ResponsesRequest {
    /// Reads a body. Fails if it is no JSON, or has not the shape of a request.
    pub fn parse(body: &[u8]) -> Result<Self> {
        Self::from_value(Value::parse(body)?)
    }

    /// Reads a body that is parsed already. Fails if it has not the shape of a request.
    pub fn from_value(body: Value<'_>) -> Result<Self> {
        <Self as FromValue>::from_value(body)
    }

    /// The requested model's name, as sent.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The settings that response objects report. [`convert`](Self::convert) hands them on.
    pub fn echo(&self) -> ResponsesEcho {
        ResponsesEcho::of(self)
    }

    /// The functions that the tools of declared namespaces become. [`convert`](Self::convert) hands them on, with
    /// those of namespaces that items declare.
    /// Fails, with status 400, for an unknown model or a bad declaration.
    pub fn namespace_tool_map(&self, options: &ConversionOptions) -> Result<NamespaceToolMap> {
        let mut names = ToolNames::new(model_version(options, &self.model)?, options);
        names.name(self.tools.as_deref().unwrap_or_default(), "tools")?;
        Ok(names.map)
    }

    /// Checks what the body means, and turns it into a conversation. Errors have status 400.
    pub fn convert(self, options: &ConversionOptions) -> Result<ConversationRequest> {
        let version = model_version(options, &self.model)?;
        check_fields(
            options,
            &[
                ("previous_response_id", self.previous_response_id),
                ("conversation", self.conversation),
                ("background", self.background),
                ("prompt", self.prompt),
            ],
        )?;
        let echo = Arc::new(self.echo());
        let mut names = ToolNames::new(version, options);
        let declared = self.tools.unwrap_or_default();
        let declared_names = names.name(&declared, "tools")?;
        // A search that only a result of another one declares is a plain function for the reference.
        let tool_search = names.tool_search;
        let mut custom = Vec::new();
        let mut declared = names.define(declared, declared_names, &mut custom);

        let effort = self.reasoning.and_then(|reasoning| reasoning.effort).map(|named| named.effort);
        let (thinking, effort) = thinking(None, effort, options);
        let system = |text: String| Message::System { content: Content::from(text), tools: None };
        let mut messages: Vec<Message> =
            self.instructions.filter(|text| !text.is_empty()).map(system).into_iter().collect();
        let items = match self.input {
            None if messages.is_empty() => {
                return Err(Error::conversion("Either input or instructions must be provided"));
            }
            None => Vec::new(),
            Some(Input(StringOrList::String(text))) => {
                messages.push(Message::User { content: Content::from(text) });
                Vec::new()
            }
            Some(Input(StringOrList::List(items))) if items.is_empty() => {
                return Err(Error::conversion("Input items array must not be empty").at("input"));
            }
            Some(Input(StringOrList::List(items))) => items,
        };
        let history = History::read(messages, items, &mut names, version, options)?;
        let mut messages = history.messages;
        declared.extend(history.tools);
        custom.extend(history.custom);
        settle_reasoning(&mut messages, thinking, !declared.is_empty(), options, "reasoning_text")?;

        let chosen = tools::choose(declared, custom, choice(self.tool_choice, options)?, thinking, options)?;
        chosen.load(&mut messages);

        let answer = match self.text.map(|text| text.format.0) {
            None | Some(TextFormat::Text(_)) => AnswerFormat::new(ResponseFormat::Text),
            Some(TextFormat::JsonObject(_)) if !says_json(&messages) => {
                return Err(Error::conversion(
                    "Response input messages must contain the word 'json' in some form to use 'text.format' \
                     of type 'json_object'.",
                ));
            }
            Some(TextFormat::JsonObject(_)) => AnswerFormat::new(ResponseFormat::JsonObject),
            Some(TextFormat::JsonSchema(JsonSchemaFormat { schema, strict, .. })) => {
                AnswerFormat::json_schema(schema, strict == Some(true))?
            }
        };
        chosen.check_strict(!matches!(answer.format, ResponseFormat::Text))?;
        let sampling = Sampling { temperature: self.temperature, top_p: self.top_p };
        sampling.check()?;
        check_top_logprobs(self.top_logprobs)?;
        check_max_tokens(self.max_output_tokens, max_tokens_bound(thinking, options))?;

        let inference = InferenceOptions {
            max_tokens: self.max_output_tokens,
            logprobs: Some(self.top_logprobs.is_some()),
            top_logprobs: self.top_logprobs,
            ..InferenceOptions::default()
        };
        let checked = Checked {
            messages,
            thinking,
            effort,
            chosen,
            answer,
            sampling,
            stop_sequences: Vec::new(),
            parallel_tool_calls: self.parallel_tool_calls.0.unwrap_or(true),
            model_version: version,
            stream: self.stream.unwrap_or(false),
            include_usage: false,
        };
        let request = checked.into_request(inference, options);
        Ok(ConversationRequest { namespace_tool_map: names.map, tool_search, echo: Some(echo), ..request })
    }
}

/// The choice as all protocols know it. The model cannot search the web, so that choice is none.
fn choice(choice: Option<ToolChoice>, options: &ConversionOptions) -> Result<Choice> {
    Ok(match choice {
        None | Some(ToolChoice::Auto) => Choice::Auto,
        Some(ToolChoice::None) => Choice::None,
        Some(ToolChoice::Required) => Choice::Required,
        Some(ToolChoice::Tool(ChosenTool::Function(NamedTool { name }) | ChosenTool::Custom(NamedTool { name }))) => {
            Choice::Named(name)
        }
        Some(ToolChoice::Tool(ChosenTool::Allowed(AllowedTools { mode, tools }))) => Choice::Allowed {
            required: mode == AllowedMode::Required,
            names: tools.into_iter().map(|tool| tool.name).collect(),
        },
        Some(ToolChoice::Tool(ChosenTool::WebSearch(_) | ChosenTool::DatedWebSearch(_))) => {
            if options.responses_web_search == WebSearchBehavior::Reject {
                return Err(declared::web_search_refused().at("tool_choice"));
            }
            Choice::Auto
        }
    })
}
