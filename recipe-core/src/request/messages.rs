//! Anthropic Messages: a body becomes a conversation. The order of the checks is that of the reference.
//! Knows nothing of the other protocols.

mod body;
mod history;
mod source;

use std::collections::{HashMap, HashSet};

use super::content::Parts;
use super::shape::{shape, FromValue, Late, Says, StringOrList};
use super::tools::{self, Choice};
use super::{
    check_fields, check_max_tokens, check_stop_sequences, max_tokens_bound, model_version, settle_reasoning, thinking,
    AnswerFormat, Checked, ConversationRequest, Sampling, ThinkingType,
};
use crate::conversation::{Content, Message, ResponseFormat, ToolDefinition};
use crate::error::{Error, Result};
use crate::json::Value;
use crate::options::{ConversionOptions, InferenceOptions, ModelVersion, WebSearchBehavior};
use body::{
    JsonSchemaFormat, Metadata, OutputConfig, OutputFormat, System, SystemBlock, Thinking, Tool, ToolChoice, Turn,
};

shape! {
    /// A request of Messages: a body whose shape is right.
    pub struct MessagesRequest = plain "struct MessagesRequest" {
        "model" => model: String,
        "messages" => messages: Vec<Turn>,
        "system" => system: Option<System>,
        "max_tokens" => max_tokens: Option<u32>,
        "temperature" => temperature: Option<f32>,
        "top_p" => top_p: Option<f32>,
        "stop_sequences" => stop_sequences: Option<Vec<String>>,
        "stream" => stream: Option<bool>,
        "tools" => tools: Option<Vec<Tool>>,
        "tool_choice" => tool_choice: Option<ToolChoice>,
        "thinking" => thinking: Option<Thinking>,
        "output_config" => output_config: Option<OutputConfig>,
        "metadata" => _metadata: Option<Metadata>,
    }
    also {
        "output_format" => output_format: Late<OutputFormat>,
        "mcp_servers" => mcp_servers: Says,
        "container" => container: Says,
        "context_management" => context_management: Says,
    }
}

impl MessagesRequest {
    /// Reads a body. Fails if it is no JSON, or has not the shape of a request.
    pub fn parse(body: &[u8]) -> Result<Self> {
        Self::from_value(Value::parse(body)?)
    }

    /// Reads a body that is parsed already. Fails if it has not the shape of a request.
    pub fn from_value(body: Value<'_>) -> Result<Self> {
        FromValue::from_value(body)
    }

    /// The requested model's name, as sent.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Checks what the body means, and turns it into a conversation. Errors have status 400.
    pub fn convert(self, options: &ConversionOptions) -> Result<ConversationRequest> {
        let version = match model_version(options, &self.model) {
            // The hosted endpoint of this protocol takes any name.
            Err(_) if options.hosted_names => ModelVersion::DeepseekV41Flash,
            version => version?,
        };
        check_fields(
            options,
            &[
                ("mcp_servers", self.mcp_servers),
                ("container", self.container),
                ("context_management", self.context_management),
            ],
        )?;
        let Declared { tools, strict_by_name, dropped } =
            Declared::read(self.tools.unwrap_or_default(), version, options)?;
        let declares_tools = !tools.is_empty() || !dropped.is_empty();

        let (effort, format) = match self.output_config {
            Some(OutputConfig { effort, format }) => (effort, format.read("output_config.format")),
            None => (None, Ok(None)),
        };
        let switch = self.thinking.map(|thinking| thinking.kind != ThinkingType::Disabled);
        let (thinking, effort) = thinking(switch, effort, options);

        let known: HashSet<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let mut messages = history::read(self.messages, &known, version, options)?;
        if let Some(system) = self.system {
            messages.insert(0, Message::System { content: system_content(system), tools: None });
        }
        settle_reasoning(&mut messages, thinking, declares_tools, options, "content[].thinking")?;

        let (choice, parallel_tool_calls) = choice(self.tool_choice);
        let choice = match choice {
            // Who asks for a search that was dropped gets what the model makes of it.
            Choice::Named(name) if dropped.contains(&Some(name.clone())) => Choice::Auto,
            Choice::Named(name) if tools.is_empty() && declares_tools => return Err(tools::unknown_tool(&name)),
            choice => choice,
        };
        let mut chosen = tools::choose(tools, Vec::new(), choice, thinking, options)?;
        // Strictness is passed on, but unlike in Chat it changes no schema.
        for tool in &mut chosen.tools {
            tool.strict = strict_by_name.get(&tool.name).copied();
        }
        chosen.load(&mut messages);

        let stop_sequences = self.stop_sequences.unwrap_or_default();
        check_stop_sequences(&stop_sequences, true)?;
        let sampling = Sampling { temperature: self.temperature, top_p: self.top_p };
        sampling.check()?;
        let bound = max_tokens_bound(thinking, options);
        let max_tokens = self.max_tokens.map(|limit| limit.min(bound));
        check_max_tokens(max_tokens, bound)?;
        // The reference ignores these two, so they come last.
        let answer = match format?.or(self.output_format.read("output_format")?) {
            None => AnswerFormat::new(ResponseFormat::Text),
            Some(OutputFormat::JsonSchema(JsonSchemaFormat { schema })) => AnswerFormat::json_schema(schema, false)?,
        };

        let inference = InferenceOptions { max_tokens, ..InferenceOptions::default() };
        let checked = Checked {
            messages,
            thinking,
            effort,
            chosen,
            answer,
            sampling,
            stop_sequences,
            parallel_tool_calls,
            model_version: version,
            stream: self.stream.unwrap_or(false),
            include_usage: false,
        };
        Ok(checked.into_request(inference, options))
    }
}

/// The declared tools, sorted out.
struct Declared {
    /// Those of the client, not strict.
    tools: Vec<ToolDefinition>,
    /// The settings of strictness.
    strict_by_name: HashMap<String, bool>,
    /// The names, if any, of web searches that were left out.
    dropped: HashSet<Option<String>>,
}

impl Declared {
    fn read(declared: Vec<Tool>, version: ModelVersion, options: &ConversionOptions) -> Result<Self> {
        let mut tools = Vec::with_capacity(declared.len());
        let (mut strict_by_name, mut dropped) = (HashMap::new(), HashSet::new());
        for (i, tool) in declared.into_iter().enumerate() {
            let mut tool = match tool {
                Tool::Client(tool) => tool,
                Tool::Server { kind, name } => {
                    let drops = options.messages_web_search == WebSearchBehavior::Drop;
                    if !(drops && kind.starts_with("web_search")) {
                        let text = format!("tools[{i}]: server tools are not supported");
                        return Err(Error::conversion(text).at(format!("tools[{i}]")));
                    }
                    dropped.insert(name);
                    continue;
                }
            };
            tools::check_name(&tool.name, || format!("tools[{i}].name"))?;
            if let Some(strict) = tool.strict.take() {
                strict_by_name.insert(tool.name.clone(), strict);
            }
            // V4 cannot load tools later.
            tool.defer_loading &= version == ModelVersion::DeepseekV41Flash;
            tools.push(tool);
        }
        if !tools.is_empty() && tools.iter().all(|tool| tool.defer_loading) {
            return Err(Error::conversion(
                "tools: at least one tool must have defer_loading=false. All tools cannot be deferred.",
            )
            .at("tools"));
        }
        Ok(Self { tools, strict_by_name, dropped })
    }
}

/// The choice, and whether more than one call is wanted.
fn choice(requested: Option<ToolChoice>) -> (Choice, bool) {
    let (choice, disable_parallel) = match requested {
        None => (Choice::Auto, None),
        Some(ToolChoice::Auto(auto)) => (Choice::Auto, auto.disable_parallel_tool_use),
        Some(ToolChoice::Any(any)) => (Choice::Required, any.disable_parallel_tool_use),
        Some(ToolChoice::Tool(tool)) => (Choice::Named(tool.name), tool.disable_parallel_tool_use),
        Some(ToolChoice::None(_)) => (Choice::None, None),
    };
    (choice, disable_parallel != Some(true))
}

/// Claude Code's first block is for billing and changes with every request, which would spoil prompt caches.
const BILLING_HEADER: &str = "x-anthropic-billing-header";

fn system_content(system: System) -> Content {
    let blocks = match system.0 {
        StringOrList::String(text) => return Content::from(text),
        StringOrList::List(blocks) => blocks,
    };
    let mut joined = Parts::default();
    for (i, SystemBlock::Text(block)) in blocks.iter().enumerate() {
        let head = block.text.get(..BILLING_HEADER.len());
        if i > 0 || !head.is_some_and(|head| head.eq_ignore_ascii_case(BILLING_HEADER)) {
            joined.text(&block.text);
        }
    }
    joined.finish()
}
