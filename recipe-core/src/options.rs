//! What conversion is told, and what it tells the engine and the parser. Plain records.

use std::collections::BTreeMap;

use crate::save::saved;
use crate::seal::ReasoningSealer;
use crate::special::SpecialTokens;

/// The model that a conversation is rendered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModelVersion {
    /// DeepSeek-V4-Pro: the V4 template and vocabulary.
    DeepseekV4Pro,
    /// DeepSeek-V4.1-Flash: the V4.1 template and vocabulary.
    DeepseekV41Flash,
}

impl ModelVersion {
    /// Every version.
    pub const ALL: [Self; 2] = [Self::DeepseekV4Pro, Self::DeepseekV41Flash];
}

/// What to do with a past assistant message that lacks its reasoning, in thinking mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningContentBehavior {
    /// An empty reasoning takes its place.
    FillEmpty,
    /// The request is refused where the reasoning would matter.
    Reject,
}

/// What to do with web-search tools and blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebSearchBehavior {
    /// They are left out.
    Drop,
    /// The request is refused.
    Reject,
}

/// What to do with calls and results that do not pair as the protocol wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolPairing {
    /// Results move to their calls, and a missing one is stood in for.
    Repair,
    /// The request is refused.
    Refuse,
}

/// What to do with a tool choice that forces a call, in thinking mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForcedToolChoice {
    /// The output constraint enforces it once the reasoning has ended.
    Constrain,
    /// The request is refused.
    Refuse,
}

/// What to do with a last assistant message of Messages that has text or thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessagesContinuation {
    /// The model goes on with it.
    Continue,
    /// It is a turn of its own, and a new one begins.
    Close,
}

/// What to do with a part of a request that is not served, though it changes what the answer should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// It is as if it were not there.
    Ignore,
    /// The request is refused.
    Refuse,
}

/// Options of request conversion.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversionOptions {
    /// Whether a request that says nothing about thinking thinks.
    pub default_thinking_mode: bool,
    /// See [`ReasoningContentBehavior`].
    pub reasoning_content_behavior: ReasoningContentBehavior,
    /// Web search in Responses.
    pub responses_web_search: WebSearchBehavior,
    /// Web search in Messages.
    pub messages_web_search: WebSearchBehavior,
    /// The largest output limit of a request that thinks, in tokens.
    pub thinking_max_tokens_upper_bound: u32,
    /// The largest output limit of a request that does not think, in tokens.
    pub non_thinking_max_tokens_upper_bound: u32,
    /// The accepted model names, sorted by bytes as error texts list them.
    pub model_versions_by_name: BTreeMap<String, ModelVersion>,
    /// The spellings that conversion writes and the parser looks for.
    pub special_tokens: SpecialTokens,
    /// See [`ToolPairing`].
    pub tool_pairing: ToolPairing,
    /// See [`ForcedToolChoice`].
    pub forced_tool_choice: ForcedToolChoice,
    /// See [`MessagesContinuation`].
    pub messages_continuation: MessagesContinuation,
    /// See [`Unsupported`].
    pub unsupported: Unsupported,
    /// The largest `n` of Chat Completions, 1 to 128. One is what the reference takes.
    pub max_choices: u8,
    /// Whether names are also taken as the hosted API does; [`Self::with_hosted_names`] sets it.
    pub hosted_names: bool,
    /// What seals reasoning for clients that ask for it, and opens it in their next request.
    pub reasoning_sealer: Option<ReasoningSealer>,
}

impl Default for ConversionOptions {
    fn default() -> Self {
        Self {
            default_thinking_mode: true,
            reasoning_content_behavior: ReasoningContentBehavior::FillEmpty,
            responses_web_search: WebSearchBehavior::Drop,
            messages_web_search: WebSearchBehavior::Reject,
            thinking_max_tokens_upper_bound: 393_216,
            non_thinking_max_tokens_upper_bound: 393_216,
            model_versions_by_name: BTreeMap::from([
                ("DeepSeek-V4-Pro".to_owned(), ModelVersion::DeepseekV4Pro),
                ("DeepSeek-V4.1-Flash".to_owned(), ModelVersion::DeepseekV41Flash),
            ]),
            special_tokens: SpecialTokens::default(),
            tool_pairing: ToolPairing::Repair,
            forced_tool_choice: ForcedToolChoice::Constrain,
            messages_continuation: MessagesContinuation::Continue,
            unsupported: Unsupported::Ignore,
            max_choices: 1,
            hosted_names: false,
            reasoning_sealer: None,
        }
    }
}

/// The model names of DeepSeek's hosted API, retired ones too.
const HOSTED_NAMES: [(&str, ModelVersion); 4] = [
    ("deepseek-flash", ModelVersion::DeepseekV41Flash),
    ("deepseek-v4-flash", ModelVersion::DeepseekV41Flash),
    ("deepseek-v4-flash-vision-exp", ModelVersion::DeepseekV41Flash),
    ("deepseek-v4-pro", ModelVersion::DeepseekV4Pro),
];

/// How the names begin that the hosted Anthropic endpoint maps to models of its own.
const HOSTED_PREFIXES: [(&str, ModelVersion); 3] = [
    ("claude-opus", ModelVersion::DeepseekV4Pro),
    ("claude-haiku", ModelVersion::DeepseekV41Flash),
    ("claude-sonnet", ModelVersion::DeepseekV41Flash),
];

impl ConversionOptions {
    /// The same options with the names of the hosted API: its models, what clients of Anthropic send, and a suffix in
    /// brackets (`deepseek-v4-pro[1m]`), which is dropped. In Messages any other name is V4.1 Flash.
    #[must_use]
    pub fn with_hosted_names(mut self) -> Self {
        for (name, version) in HOSTED_NAMES {
            self.model_versions_by_name.entry(name.to_owned()).or_insert(version);
        }
        self.hosted_names = true;
        self
    }

    /// The model that a name stands for.
    pub fn model_version(&self, name: &str) -> Option<ModelVersion> {
        let known = |name: &str| self.model_versions_by_name.get(name).copied();
        if !self.hosted_names {
            return known(name);
        }
        let bare = name.strip_suffix(']').and_then(|name| name.rsplit_once('[')).map_or(name, |(bare, _)| bare);
        let by_prefix = || HOSTED_PREFIXES.iter().find(|(prefix, _)| bare.starts_with(prefix));
        known(name).or_else(|| known(bare)).or_else(|| by_prefix().map(|(_, version)| *version))
    }
}

/// Parameters for the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct InferenceOptions {
    /// The most output tokens; `None` where the request sets no limit.
    pub max_tokens: Option<u32>,
    /// The sampling temperature.
    pub temperature: Option<f32>,
    /// The nucleus mass.
    pub top_p: Option<f32>,
    /// Whether log probabilities are asked for.
    pub logprobs: Option<bool>,
    /// How many alternatives a token, 0 to 20.
    pub top_logprobs: Option<u8>,
    /// The sampling seed, below 2^63.
    pub seed: Option<u64>,
    /// What constrained decoding would enforce.
    pub output_constraint: Option<OutputConstraint>,
    /// How many answers to sample from the one prompt, at least 1.
    pub n: u8,
}

impl Default for InferenceOptions {
    fn default() -> Self {
        Self {
            max_tokens: None,
            temperature: None,
            top_p: None,
            logprobs: Some(false),
            top_logprobs: None,
            seed: None,
            output_constraint: None,
            n: 1,
        }
    }
}

/// A constraint that an engine can enforce while it decodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputConstraint {
    /// What `schema` holds.
    pub kind: ConstraintKind,
    /// A schema or a tool list as compact JSON, or an expression; empty for `Json`.
    pub schema: String,
}

/// The kind of an [`OutputConstraint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintKind {
    /// JSON, after the schema if it is not empty.
    Json,
    /// Text that the expression matches.
    Regex,
    /// Any calls are of the listed tools.
    ToolCall,
    /// At least one call, of the listed tools.
    ToolCallRequired,
}

impl ConstraintKind {
    /// The name in the Python API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Regex => "regex",
            Self::ToolCall => "tool_call",
            Self::ToolCallRequired => "tool_call_required",
        }
    }
}

/// Where the output begins, in thinking mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingInitialStage {
    /// At the start of the reasoning.
    ReasoningStart,
    /// In the middle of the reasoning.
    ReasoningContinuation,
    /// In the middle of the answer.
    ContentContinuation,
}

impl ThinkingInitialStage {
    /// Whether the output begins with reasoning.
    pub fn starts_in_reasoning(self) -> bool {
        self != Self::ContentContinuation
    }
}

/// How to parse the output.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsingOptions {
    /// Whether tool-call markup is looked for.
    pub parse_tool_calls: bool,
    /// Whether the prompt has opened the calls block already. Wins over the stage.
    pub starts_in_tool_calls: bool,
    /// Whether the answer is the one JSON value in it.
    pub parse_json_output: bool,
    /// Where the output begins; `None` without thinking.
    pub thinking_initial_stage: Option<ThinkingInitialStage>,
    /// Texts that end the answer.
    pub stop_sequences: Vec<String>,
    /// Whether more than one call is wanted; if not, the output ends with the first.
    pub parallel_tool_calls: bool,
    /// The spellings to look for.
    pub special_tokens: SpecialTokens,
}

impl Default for ParsingOptions {
    fn default() -> Self {
        Self {
            parse_tool_calls: true,
            starts_in_tool_calls: false,
            parse_json_output: false,
            thinking_initial_stage: None,
            stop_sequences: Vec::new(),
            parallel_tool_calls: true,
            special_tokens: SpecialTokens::default(),
        }
    }
}

saved! { enum ModelVersion { 0 = DeepseekV4Pro, 1 = DeepseekV41Flash } }
saved! { enum ReasoningContentBehavior { 0 = FillEmpty, 1 = Reject } }
saved! { enum WebSearchBehavior { 0 = Drop, 1 = Reject } }
saved! { enum ToolPairing { 0 = Repair, 1 = Refuse } }
saved! { enum ForcedToolChoice { 0 = Constrain, 1 = Refuse } }
saved! { enum MessagesContinuation { 0 = Continue, 1 = Close } }
saved! { enum Unsupported { 0 = Ignore, 1 = Refuse } }
saved! {
    struct ConversionOptions {
        default_thinking_mode, reasoning_content_behavior, responses_web_search, messages_web_search,
        thinking_max_tokens_upper_bound, non_thinking_max_tokens_upper_bound, model_versions_by_name, special_tokens,
        tool_pairing, forced_tool_choice, messages_continuation, unsupported, max_choices, hosted_names,
        reasoning_sealer,
    }
}
saved! {
    struct InferenceOptions { max_tokens, temperature, top_p, logprobs, top_logprobs, seed, output_constraint, n }
}
saved! { struct OutputConstraint { kind, schema } }
saved! { enum ConstraintKind { 0 = Json, 1 = Regex, 2 = ToolCall, 3 = ToolCallRequired } }
saved! { enum ThinkingInitialStage { 0 = ReasoningStart, 1 = ReasoningContinuation, 2 = ContentContinuation } }
saved! {
    struct ParsingOptions {
        parse_tool_calls, starts_in_tool_calls, parse_json_output, thinking_initial_stage, stop_sequences,
        parallel_tool_calls, special_tokens,
    }
}
