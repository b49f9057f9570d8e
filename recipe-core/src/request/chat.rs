//! Chat Completions: a body becomes a conversation. The order of the checks is that of the reference.
//! Knows nothing of the other protocols.

mod body;
mod history;

use super::shape::{shape, FromValue, Late, Lenient, Says, StringOrList};
use super::tools::{self, Choice};
use super::{
    check_fields, check_max_tokens, check_stop_sequences, check_top_logprobs, max_tokens_bound, model_version,
    says_json, settle_reasoning, thinking, AnswerFormat, Checked, ConversationRequest, RequestedEffort, Sampling,
    ThinkingType,
};
use crate::conversation::{ResponseFormat, ToolDefinition};
use crate::error::{Error, Result};
use crate::json::Value;
use crate::options::{ConversionOptions, InferenceOptions};
use body::{
    ChatChoice, ChatMessage, Format, JsonSchemaFormat, Modalities, RegexFormat, Stop, StreamOptions, TemplateArguments,
    Thinking, Tool,
};
use history::History;

shape! {
    /// A request of Chat Completions: a body whose shape is right.
    pub struct ChatRequest = plain "struct ChatCompletionRequest" {
        "messages" => messages: Vec<ChatMessage>,
        "model" => model: String,
        "frequency_penalty" => frequency_penalty: Option<f32>,
        "logprobs" => logprobs: Option<bool>,
        "top_logprobs" => top_logprobs: Option<u8>,
        "max_tokens" => max_tokens: Option<u32>,
        "n" => n: Option<u8>,
        "presence_penalty" => presence_penalty: Option<f32>,
        "seed" => seed: Option<u64>,
        "stop" => stop: Option<Stop>,
        "stream" => stream: Option<bool>,
        "stream_options" => stream_options: Option<StreamOptions>,
        "temperature" => temperature: Option<f32>,
        "top_p" => top_p: Option<f32>,
        "response_format" => response_format: Option<Format>,
        "tools" => tools: Option<Vec<Tool>>,
        "tool_choice" => tool_choice: Option<ChatChoice>,
        "reasoning_effort" => reasoning_effort: Option<RequestedEffort>,
        "thinking" => thinking: Option<Thinking>,
        "parallel_tool_calls" => parallel_tool_calls: Option<bool>,
    }
    also {
        "max_completion_tokens" => max_completion_tokens: Late<u32>,
        "continue_final_message" => continue_final_message: Lenient<bool>,
        "enable_thinking" => enable_thinking: Lenient<bool>,
        "chat_template_kwargs" => template_arguments: Lenient<TemplateArguments>,
        "logit_bias" => logit_bias: Says,
        "modalities" => modalities: Modalities,
        "audio" => audio: Says,
        "web_search_options" => web_search_options: Says,
        "functions" => functions: Says,
        "function_call" => function_call: Says,
    }
}

impl ChatRequest {
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

    /// Checks what the body means, and turns it into a conversation. Errors have status 400.
    pub fn convert(self, options: &ConversionOptions) -> Result<ConversationRequest> {
        let version = model_version(options, &self.model)?;
        check_fields(
            options,
            &[
                ("logit_bias", self.logit_bias),
                ("modalities", self.modalities.0),
                ("audio", self.audio),
                ("web_search_options", self.web_search_options),
                ("functions", self.functions),
                ("function_call", self.function_call),
            ],
        )?;
        let declared = self.tools.unwrap_or_default();
        for (i, tool) in declared.iter().enumerate() {
            let (name, field) = tool.name();
            tools::check_name(name, || format!("tools[{i}].{field}"))?;
        }
        let mut custom = Vec::new();
        let declared: Vec<ToolDefinition> = declared.into_iter().map(|tool| tool.define(&mut custom)).collect();
        let declares_tools = !declared.is_empty();

        let template = self.template_arguments.0.as_ref();
        let switch = self.thinking.map(|thinking| thinking.kind != ThinkingType::Disabled);
        let switch = switch.or(self.enable_thinking.0);
        let switch = switch.or(template.and_then(|t| t.enable_thinking.0));
        let switch = switch.or(template.and_then(|t| t.thinking.0));
        let (thinking, effort) = thinking(switch, self.reasoning_effort, options);

        let mut turns = self.messages;
        if self.continue_final_message.0 == Some(true) {
            if let Some(ChatMessage::Assistant(last)) = turns.last_mut() {
                last.prefix = Some(true);
            }
        }
        let History { mut messages, prefixed, uses_tools } = History::read(turns, version, options)?;
        settle_reasoning(&mut messages, thinking, declares_tools, options, "reasoning_content")?;

        let json_object = matches!(self.response_format, Some(Format::JsonObject(_)));
        if json_object && !says_json(&messages) {
            return Err(Error::conversion(
                "Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'.",
            ));
        }

        let choice = self.tool_choice.map_or(Choice::Auto, |choice| choice.0);
        let chosen = tools::choose(declared, custom, choice, thinking, options)?;
        if json_object && prefixed {
            return Err(Error::conversion("response_format json_object should not be used with prefix"));
        }
        if prefixed && (declares_tools || uses_tools) {
            return Err(Error::conversion("Function call should not be used with prefix"));
        }

        let (stop_sequences, listed) = match self.stop {
            None => (Vec::new(), true),
            Some(Stop(StringOrList::String(stop))) => (vec![stop], false),
            Some(Stop(StringOrList::List(stops))) => (stops, true),
        };
        check_stop_sequences(&stop_sequences, listed)?;
        let stream = self.stream.unwrap_or(false);
        if self.stream_options.is_some() && !stream {
            let text = "stream_options should be set along with stream = true";
            return Err(Error::conversion(text).at("stream_options"));
        }
        let sets_format = self.response_format.is_some();
        let answer = match self.response_format {
            None | Some(Format::Text(_)) => AnswerFormat::new(ResponseFormat::Text),
            Some(Format::JsonObject(_)) => AnswerFormat::new(ResponseFormat::JsonObject),
            Some(Format::Regex(RegexFormat { regex })) => AnswerFormat::new(ResponseFormat::Regex(regex)),
            Some(Format::JsonSchema(JsonSchemaFormat { json_schema })) => {
                AnswerFormat::json_schema(json_schema.schema, json_schema.strict == Some(true))?
            }
        };
        chosen.check_strict(sets_format)?;

        let n = self.n.unwrap_or(1);
        let most = options.max_choices;
        if n == 0 || n > most {
            return Err(Error::conversion(match most {
                1 => "Invalid n value (currently only n = 1 is supported)".to_owned(),
                most => format!("Invalid n value, the valid range of n is [1, {most}]"),
            })
            .at("n"));
        }
        check_penalty("presence_penalty", self.presence_penalty)?;
        check_penalty("frequency_penalty", self.frequency_penalty)?;
        let sampling = Sampling { temperature: self.temperature, top_p: self.top_p };
        sampling.check()?;
        let logprobs = self.logprobs.unwrap_or(false);
        if self.top_logprobs.is_some() && !logprobs {
            return Err(Error::conversion(
                "Invalid top_logprobs and logprobs value, logprobs must be set to true if top_logprobs is used.",
            )
            .at("top_logprobs"));
        }
        check_top_logprobs(self.top_logprobs)?;
        let bound = max_tokens_bound(thinking, options);
        check_max_tokens(self.max_tokens, bound)?;
        if self.seed.is_some_and(|seed| seed >= 1 << 63) {
            return Err(Error::conversion("Invalid seed value, the valid range of seed is [0, 2^63)").at("seed"));
        }
        let max_tokens = match self.max_tokens {
            Some(limit) => Some(limit),
            // The reference ignores this field, so it comes last.
            None => {
                let limit = self.max_completion_tokens.read("max_completion_tokens")?;
                check_max_tokens(limit, bound)?;
                limit
            }
        };

        let inference = InferenceOptions {
            max_tokens,
            logprobs: Some(logprobs),
            top_logprobs: self.top_logprobs,
            seed: self.seed,
            n,
            ..InferenceOptions::default()
        };
        let checked = Checked {
            messages,
            thinking,
            effort,
            chosen,
            answer,
            sampling,
            stop_sequences,
            parallel_tool_calls: self.parallel_tool_calls.unwrap_or(true),
            model_version: version,
            stream,
            include_usage: self.stream_options.and_then(|options| options.include_usage).unwrap_or(false),
        };
        Ok(checked.into_request(inference, options))
    }
}

/// Penalties are checked, but the models do without them.
fn check_penalty(field: &str, value: Option<f32>) -> Result<()> {
    if value.is_some_and(|value| !(-2.0..=2.0).contains(&value)) {
        let text = format!("Invalid {field} value, the valid range of {field} is [-2, 2]");
        return Err(Error::conversion(text).at(field));
    }
    Ok(())
}
