//! From a protocol's body to a [`ConversationRequest`]: the record, and the checks that the protocols share.
//! Each protocol's shape, and the order of its checks, stand in its own file. Knows no template and no ids.

pub mod chat;
mod content;
mod custom;
pub mod messages;
mod pairing;
mod protocol;
pub mod responses;
mod shape;
mod tools;

use std::sync::Arc;

pub use protocol::Protocol;

use crate::conversation::{Conversation, Effort, Message, ResponseFormat};
use crate::error::{Error, Result};
use crate::json::{Number, Value};
use crate::options::{
    ConstraintKind, ConversionOptions, InferenceOptions, ModelVersion, OutputConstraint, ParsingOptions,
    ReasoningContentBehavior, Unsupported,
};
use crate::prompt::parse_start;
use crate::save::saved;
use crate::schema;
use crate::seal::ReasoningSealer;
use responses::{NamespaceToolMap, ResponsesEcho};
use shape::{names, FromValue, Says};
use tools::Chosen;

/// What every protocol's request becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationRequest {
    /// What the prompt says.
    pub conversation: Arc<Conversation>,
    /// What the engine is told.
    pub inference_options: InferenceOptions,
    /// How the output is to be read.
    pub parsing_options: ParsingOptions,
    /// The model that the requested name stands for.
    pub model_version: ModelVersion,
    /// Whether the reply is sent in chunks.
    pub stream: bool,
    /// Whether a Chat reply in chunks mentions the usage in every chunk.
    pub include_usage: bool,
    /// The names of tools whose input is free text.
    pub custom_tools: Vec<String>,
    /// The namespaces that a Responses reply tells function names apart by.
    pub namespace_tool_map: NamespaceToolMap,
    /// Whether a Responses reply asks the client for more tools where the model calls `tool_search`.
    pub tool_search: bool,
    /// What seals the reasoning of the reply, if the request asks for that: in Messages in place of showing it.
    pub sealer: Option<ReasoningSealer>,
    /// What a Responses reply repeats of its request.
    pub echo: Option<Arc<ResponsesEcho>>,
}

impl ConversationRequest {
    /// A request made by hand, with the default options whatever the conversation says.
    pub fn new(conversation: impl Into<Arc<Conversation>>, model_version: ModelVersion) -> Self {
        Self {
            conversation: conversation.into(),
            inference_options: InferenceOptions::default(),
            parsing_options: ParsingOptions::default(),
            model_version,
            stream: false,
            include_usage: false,
            custom_tools: Vec::new(),
            namespace_tool_map: NamespaceToolMap::new(),
            tool_search: false,
            sealer: None,
            echo: None,
        }
    }

    /// The output limit in tokens, for a prompt of this length in a model's context of this size.
    ///
    /// Fails if the prompt and the requested limit do not fit.
    pub fn resolve_max_tokens(&self, prompt_tokens: u32, context_limit: u32) -> Result<u32> {
        let requested = self.inference_options.max_tokens;
        let completion = requested.unwrap_or(0);
        let total = prompt_tokens.saturating_add(completion);
        if total > context_limit {
            return Err(Error::conversion(format!(
                "This model's maximum context length is {context_limit} tokens. However, you requested {total} tokens \
                 ({prompt_tokens} in the messages, {completion} in the completion). \
                 Please reduce the length of the messages or completion."
            )));
        }
        let limit = requested.unwrap_or(match (self.conversation.thinking_mode, self.conversation.reasoning_effort) {
            (false, _) => 8_192,
            (true, Some(Effort::Max | Effort::Number(100))) => 131_072,
            (true, _) => 65_536,
        });
        Ok(limit.min(context_limit - prompt_tokens).max(1))
    }
}

/// The model that a name stands for.
fn model_version(options: &ConversionOptions, name: &str) -> Result<ModelVersion> {
    options.model_version(name).ok_or_else(|| {
        let names: Vec<&str> = options.model_versions_by_name.keys().map(String::as_str).collect();
        let names = names.join(", ");
        Error::conversion(format!("The supported API model names are {names}, but you passed {name}.")).at("model")
    })
}

/// Where the options refuse what is not served, the error of `name`, a field or a type, that stands at `path`.
fn check_served(options: &ConversionOptions, name: &str, path: impl FnOnce() -> String) -> Result<()> {
    match options.unsupported {
        Unsupported::Ignore => Ok(()),
        Unsupported::Refuse => {
            let path = path();
            Err(Error::conversion(format!("{path}: '{name}' is not supported")).at(path))
        }
    }
}

/// The same for the first of these fields of the body that says something.
fn check_fields(options: &ConversionOptions, fields: &[(&str, Says)]) -> Result<()> {
    match fields.iter().find(|(_, says)| says.0) {
        Some((field, _)) => check_served(options, field, || (*field).to_owned()),
        None => Ok(()),
    }
}

names! {
    /// The effort names of requests.
    pub(crate) enum EffortName {
        None = "none",
        Minimal = "minimal",
        Low = "low",
        Medium = "medium",
        High = "high",
        XHigh = "xhigh",
        Ultra = "ultra",
        Max = "max",
    }
}

names! {
    /// The `type` of `thinking`.
    pub(crate) enum ThinkingType {
        Adaptive = "adaptive",
        Enabled = "enabled",
        Disabled = "disabled",
    }
}

/// A requested effort; `None` is the name `none`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestedEffort(Option<Effort>);

impl FromValue for RequestedEffort {
    fn from_value(value: Value<'_>) -> Result<Self> {
        if let Value::Number(Number::Unsigned(n @ 1..=100)) = value {
            return Ok(Self(Some(Effort::Number(n as u8))));
        }
        Ok(Self(match EffortName::from_value(value)? {
            EffortName::None => None,
            EffortName::Minimal | EffortName::Low => Some(Effort::Low),
            EffortName::Medium | EffortName::High => Some(Effort::High),
            EffortName::XHigh => Some(Effort::XHigh),
            EffortName::Ultra | EffortName::Max => Some(Effort::Max),
        }))
    }
}

/// Whether to think, and how much: the switch, else the effort, else the default says.
fn thinking(
    switch: Option<bool>,
    effort: Option<RequestedEffort>,
    options: &ConversionOptions,
) -> (bool, Option<Effort>) {
    let by_effort = effort.map(|effort| effort.0.is_some());
    if !switch.or(by_effort).unwrap_or(options.default_thinking_mode) {
        return (false, None);
    }
    (true, Some(effort.and_then(|effort| effort.0).unwrap_or(Effort::High)))
}

/// Drops the reasoning of the history, or completes it: while thinking every assistant message has one.
/// `field` is the protocol's name of it, `declares_tools` whether the request does, whatever the choice.
fn settle_reasoning(
    messages: &mut [Message],
    thinking: bool,
    declares_tools: bool,
    options: &ConversionOptions,
    field: &str,
) -> Result<()> {
    if thinking && options.reasoning_content_behavior == ReasoningContentBehavior::Reject {
        let start = messages.iter().rposition(|m| matches!(m, Message::User { .. })).map_or(0, |last| last + 1);
        let lacks = |message: &Message| match message {
            Message::Assistant { reasoning_content: None, tool_calls, .. } => declares_tools || tool_calls.is_some(),
            _ => false,
        };
        if messages[start..].iter().any(lacks) {
            return Err(Error::conversion(format!(
                "The `{field}` in the thinking mode must be passed back to the API."
            )));
        }
    }
    for message in messages {
        if let Message::Assistant { reasoning_content, .. } = message {
            if thinking {
                reasoning_content.get_or_insert_default();
            } else {
                *reasoning_content = None;
            }
        }
    }
    Ok(())
}

/// Whether some message holds the word `json`, in any case.
fn says_json(messages: &[Message]) -> bool {
    messages.iter().any(|message| {
        let text = message.text().as_bytes();
        memchr::memchr2_iter(b'j', b'J', text)
            .any(|start| text.get(start..start + 4).is_some_and(|word| word.eq_ignore_ascii_case(b"json")))
    })
}

/// The answer's form as asked for, and its schema as the constraint has it.
#[derive(Debug)]
struct AnswerFormat {
    format: ResponseFormat,
    constraint: Option<OutputConstraint>,
}

impl AnswerFormat {
    fn new(format: ResponseFormat) -> Self {
        let constraint = match &format {
            ResponseFormat::Text => None,
            ResponseFormat::JsonObject => Some((ConstraintKind::Json, String::new())),
            ResponseFormat::JsonSchema(schema) => Some((ConstraintKind::Json, schema.to_compact())),
            ResponseFormat::Regex(regex) => Some((ConstraintKind::Regex, regex.clone())),
        };
        Self { format, constraint: constraint.map(|(kind, schema)| OutputConstraint { kind, schema }) }
    }

    /// JSON after a schema. A strict one is checked and normalised for the constraint.
    fn json_schema(schema: Value<'static>, strict: bool) -> Result<Self> {
        if !strict {
            if let Some(text) = schema::fault(&schema)? {
                return Err(Error::conversion(format!("Invalid json schema: {text}")));
            }
            return Ok(Self::new(ResponseFormat::JsonSchema(schema)));
        }
        let normalised = schema::strict_answer(&schema)?.to_compact();
        let constraint = Some(OutputConstraint { kind: ConstraintKind::Json, schema: normalised });
        Ok(Self { format: ResponseFormat::JsonSchema(schema), constraint })
    }
}

/// Checks stop sequences. Texts name the place in a list if they are `listed`.
fn check_stop_sequences(sequences: &[String], listed: bool) -> Result<()> {
    if sequences.len() > 16 {
        return Err(Error::conversion(format!("Stop string array too long: {}", sequences.len())));
    }
    let Some(empty) = sequences.iter().position(String::is_empty) else {
        return Ok(());
    };
    let path = if listed { format!("stop[{empty}]") } else { "stop".to_owned() };
    Err(Error::conversion(format!(
        "Invalid '{path}': empty string. Expected a string with minimum length 1, but got an empty string instead."
    ))
    .at(path))
}

/// Requested sampling parameters.
#[derive(Clone, Copy, Debug)]
struct Sampling {
    temperature: Option<f32>,
    top_p: Option<f32>,
}

impl Sampling {
    fn check(self) -> Result<()> {
        if self.temperature.is_some_and(|value| !(0.0..=2.0).contains(&value)) {
            let text = "Invalid temperature value, the valid range of temperature is [0, 2]";
            return Err(Error::conversion(text).at("temperature"));
        }
        if self.top_p.is_some_and(|value| value <= 0.0 || value > 1.0) {
            return Err(Error::conversion("Invalid top_p value, the valid range of top_p is (0, 1.0]").at("top_p"));
        }
        Ok(())
    }

    /// Temperature and top_p that the engine is told. The models think at fixed values.
    fn resolve(self, version: ModelVersion, thinking: bool, has_tools: bool) -> (f32, f32) {
        let temperature = if thinking { 1.0 } else { self.temperature.unwrap_or(1.0) };
        let top_p = match (version, thinking) {
            (ModelVersion::DeepseekV4Pro, true) if has_tools => 0.95,
            (ModelVersion::DeepseekV4Pro, true) => 1.0,
            (ModelVersion::DeepseekV4Pro, false) => self.top_p.unwrap_or(1.0),
            (ModelVersion::DeepseekV41Flash, true) => self.top_p.map_or(1.0, |value| value.max(0.95)),
            (ModelVersion::DeepseekV41Flash, false) => 1.0,
        };
        (temperature, top_p)
    }
}

/// Checks the number of alternatives a token.
fn check_top_logprobs(top_logprobs: Option<u8>) -> Result<()> {
    if top_logprobs.is_some_and(|count| count > 20) {
        let text = "Invalid top_logprobs value, the valid range of top_logprobs is [0, 20].";
        return Err(Error::conversion(text).at("top_logprobs"));
    }
    Ok(())
}

/// The largest output limit of a request.
fn max_tokens_bound(thinking: bool, options: &ConversionOptions) -> u32 {
    if thinking {
        options.thinking_max_tokens_upper_bound
    } else {
        options.non_thinking_max_tokens_upper_bound
    }
}

/// Checks an output limit against the bound.
fn check_max_tokens(max_tokens: Option<u32>, bound: u32) -> Result<()> {
    if max_tokens.is_some_and(|limit| limit == 0 || limit > bound) {
        return Err(Error::conversion(format!(
            "Invalid max_tokens value, the valid range of max_tokens is [1, {bound}]"
        )));
    }
    Ok(())
}

/// The parts of a request that the protocols check one by one, ready to be put together.
#[derive(Debug)]
struct Checked {
    messages: Vec<Message>,
    thinking: bool,
    effort: Option<Effort>,
    chosen: Chosen,
    answer: AnswerFormat,
    sampling: Sampling,
    stop_sequences: Vec<String>,
    parallel_tool_calls: bool,
    model_version: ModelVersion,
    stream: bool,
    include_usage: bool,
}

impl Checked {
    /// The request. `inference` holds what is passed on to the engine as it is.
    fn into_request(self, inference: InferenceOptions, options: &ConversionOptions) -> ConversationRequest {
        let Self { messages, thinking, chosen, answer, .. } = self;
        let (temperature, top_p) = self.sampling.resolve(self.model_version, thinking, !chosen.tools.is_empty());
        let output_constraint = chosen.constraint().or(answer.constraint);
        let conversation = Conversation {
            messages,
            thinking_mode: thinking,
            tools: chosen.tools,
            tool_choice: chosen.choice,
            reasoning_effort: self.effort,
            response_format: answer.format,
        };
        let parsing_options = ParsingOptions {
            stop_sequences: self.stop_sequences,
            parallel_tool_calls: self.parallel_tool_calls,
            special_tokens: options.special_tokens.clone(),
            ..parse_start(&conversation)
        };
        ConversationRequest {
            conversation: conversation.into(),
            inference_options: InferenceOptions {
                temperature: Some(temperature),
                top_p: Some(top_p),
                output_constraint,
                ..inference
            },
            parsing_options,
            model_version: self.model_version,
            stream: self.stream,
            include_usage: self.include_usage,
            custom_tools: chosen.custom.into_iter().map(|tool| tool.name).collect(),
            namespace_tool_map: NamespaceToolMap::new(),
            tool_search: false,
            sealer: None,
            echo: None,
        }
    }
}

saved! {
    struct ConversationRequest {
        conversation, inference_options, parsing_options, model_version, stream, include_usage, custom_tools,
        namespace_tool_map, tool_search, sealer, echo,
    }
}
