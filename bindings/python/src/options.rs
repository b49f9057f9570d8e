//! Options of conversion, and what conversion tells the engine and the parser, for Python.
//! Knows no protocol.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};
use recipe_core::options as core;

use crate::lock;
use crate::save::{changing, record};
use crate::seal::ReasoningSealer;
use crate::special::SpecialTokens;
use crate::text::{choose, strings, Text};

/// Mirrors an enum of the core: a Python class with one attribute a variant, and conversions both
/// ways that the compiler keeps complete. Methods of the class follow the variants.
macro_rules! mirror {
    ($core:ident, $(#[$doc:meta])* $name:ident { $($variant:ident),+ $(,)? } $($methods:tt)*) => {
        $(#[$doc])*
        #[pyclass(frozen, eq, hash, from_py_object, module = "deepseek_recipe._native")]
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[allow(missing_docs)] $variant),+
        }

        #[pymethods]
        impl $name {
            $($methods)*

            /// Pickles by name, so that a number may change.
            fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyAny>, &'static str))> {
                let name = match *slf.get() {
                    $(Self::$variant => stringify!($variant)),+
                };
                let getattr = slf.py().import("builtins")?.getattr("getattr")?;
                Ok((getattr, (slf.py().get_type::<Self>().into_any(), name)))
            }
        }

        impl From<$core::$name> for $name {
            fn from(value: $core::$name) -> Self {
                match value {
                    $($core::$name::$variant => Self::$variant),+
                }
            }
        }

        impl From<$name> for $core::$name {
            fn from(value: $name) -> Self {
                match value {
                    $($name::$variant => Self::$variant),+
                }
            }
        }
    };
}
pub(crate) use mirror;

mirror! {
    core,
    /// The model that a conversation is rendered for. Conversion takes it from the table
    /// `ConversionOptions.model_versions_by_name`; it says which encoding to use.
    ModelVersion { DeepseekV4Pro, DeepseekV41Flash }
}

mirror! {
    core,
    /// What to do with a past assistant message that lacks its reasoning, in thinking mode.
    ReasoningContentBehavior { FillEmpty, Reject }
}

mirror! {
    core,
    /// What to do with web-search tools and blocks of a request.
    WebSearchBehavior { Drop, Reject }
}

mirror! {
    core,
    /// Where the output begins, in thinking mode.
    ThinkingInitialStage { ReasoningStart, ReasoningContinuation, ContentContinuation }

    /// Returns whether the output begins with reasoning.
    fn starts_in_reasoning(&self) -> bool {
        core::ThinkingInitialStage::from(*self).starts_in_reasoning()
    }
}

/// What the constructors put where a keyword is left out.
static DEFAULTS: LazyLock<core::ConversionOptions> = LazyLock::new(core::ConversionOptions::default);

/// Options of request conversion. They never change: each `with_` method returns new ones.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ConversionOptions(pub core::ConversionOptions);

record!(ConversionOptions);

impl ConversionOptions {
    fn with(&self, change: impl FnOnce(&mut core::ConversionOptions)) -> Self {
        let mut options = self.0.clone();
        change(&mut options);
        Self(options)
    }
}

#[pymethods]
impl ConversionOptions {
    #[new]
    #[pyo3(signature = (
        *, default_thinking_mode=true,
        reasoning_content_behavior=DEFAULTS.reasoning_content_behavior.into(),
        responses_web_search=DEFAULTS.responses_web_search.into(),
        messages_web_search=DEFAULTS.messages_web_search.into(),
        thinking_max_tokens_upper_bound=DEFAULTS.thinking_max_tokens_upper_bound,
        non_thinking_max_tokens_upper_bound=DEFAULTS.non_thinking_max_tokens_upper_bound,
        tool_pairing=pairing_name(DEFAULTS.tool_pairing),
        forced_tool_choice=forced_name(DEFAULTS.forced_tool_choice),
        messages_continuation=continuation_name(DEFAULTS.messages_continuation),
        unsupported=unsupported_name(DEFAULTS.unsupported),
        max_choices=DEFAULTS.max_choices,
        reasoning_sealer=None,
    ))]
    #[allow(clippy::too_many_arguments)] // One keyword an option.
    fn new(
        default_thinking_mode: bool,
        reasoning_content_behavior: ReasoningContentBehavior,
        responses_web_search: WebSearchBehavior,
        messages_web_search: WebSearchBehavior,
        thinking_max_tokens_upper_bound: u32,
        non_thinking_max_tokens_upper_bound: u32,
        tool_pairing: &str,
        forced_tool_choice: &str,
        messages_continuation: &str,
        unsupported: &str,
        max_choices: u8,
        reasoning_sealer: Option<&Bound<'_, ReasoningSealer>>,
    ) -> PyResult<Self> {
        Ok(Self(core::ConversionOptions {
            default_thinking_mode,
            reasoning_content_behavior: reasoning_content_behavior.into(),
            responses_web_search: responses_web_search.into(),
            messages_web_search: messages_web_search.into(),
            thinking_max_tokens_upper_bound,
            non_thinking_max_tokens_upper_bound,
            tool_pairing: pairing(tool_pairing)?,
            forced_tool_choice: forced(forced_tool_choice)?,
            messages_continuation: continuation(messages_continuation)?,
            unsupported: self::unsupported(unsupported)?,
            max_choices: choices(max_choices)?,
            reasoning_sealer: reasoning_sealer.map(|sealer| sealer.get().0.clone()),
            ..DEFAULTS.clone()
        }))
    }

    /// Whether a request that says nothing about thinking thinks.
    #[getter]
    fn default_thinking_mode(&self) -> bool {
        self.0.default_thinking_mode
    }

    /// What to do with a past assistant message that lacks its reasoning.
    #[getter]
    fn reasoning_content_behavior(&self) -> ReasoningContentBehavior {
        self.0.reasoning_content_behavior.into()
    }

    /// What to do with web search in Responses.
    #[getter]
    fn responses_web_search(&self) -> WebSearchBehavior {
        self.0.responses_web_search.into()
    }

    /// What to do with web search in Messages.
    #[getter]
    fn messages_web_search(&self) -> WebSearchBehavior {
        self.0.messages_web_search.into()
    }

    /// The largest output limit of a request that thinks, in tokens.
    #[getter]
    fn thinking_max_tokens_upper_bound(&self) -> u32 {
        self.0.thinking_max_tokens_upper_bound
    }

    /// The largest output limit of a request that does not think, in tokens.
    #[getter]
    fn non_thinking_max_tokens_upper_bound(&self) -> u32 {
        self.0.non_thinking_max_tokens_upper_bound
    }

    /// What to do with calls and results that do not pair: `repair` or `refuse`.
    #[getter]
    fn tool_pairing(&self) -> &'static str {
        pairing_name(self.0.tool_pairing)
    }

    /// What to do with a forced call in thinking mode: `constrain` or `refuse`.
    #[getter]
    fn forced_tool_choice(&self) -> &'static str {
        forced_name(self.0.forced_tool_choice)
    }

    /// What to do with a last assistant message of Messages that says something: `continue` or `close`.
    #[getter]
    fn messages_continuation(&self) -> &'static str {
        continuation_name(self.0.messages_continuation)
    }

    /// What to do with a part of a request that is not served: `ignore` or `refuse`.
    #[getter]
    fn unsupported(&self) -> &'static str {
        unsupported_name(self.0.unsupported)
    }

    /// The largest `n` of Chat Completions.
    #[getter]
    fn max_choices(&self) -> u8 {
        self.0.max_choices
    }

    /// The accepted model names with their versions, as a new dictionary.
    #[getter]
    fn model_versions_by_name(&self) -> BTreeMap<&str, ModelVersion> {
        self.0.model_versions_by_name.iter().map(|(name, version)| (name.as_str(), (*version).into())).collect()
    }

    /// The spellings that conversion writes and the parser looks for.
    #[getter]
    fn special_tokens(&self) -> SpecialTokens {
        SpecialTokens(self.0.special_tokens.clone())
    }

    /// Returns options with another default of thinking.
    fn with_default_thinking_mode(&self, default_thinking_mode: bool) -> Self {
        self.with(|options| options.default_thinking_mode = default_thinking_mode)
    }

    /// Returns options that treat missing reasoning in another way.
    fn with_reasoning_content_behavior(&self, reasoning_content_behavior: ReasoningContentBehavior) -> Self {
        self.with(|options| options.reasoning_content_behavior = reasoning_content_behavior.into())
    }

    /// Returns options that treat web search in Responses in another way.
    fn with_responses_web_search(&self, responses_web_search: WebSearchBehavior) -> Self {
        self.with(|options| options.responses_web_search = responses_web_search.into())
    }

    /// Returns options that treat web search in Messages in another way.
    fn with_messages_web_search(&self, messages_web_search: WebSearchBehavior) -> Self {
        self.with(|options| options.messages_web_search = messages_web_search.into())
    }

    /// Returns options with another largest output limit of requests that think.
    fn with_thinking_max_tokens_upper_bound(&self, thinking_max_tokens_upper_bound: u32) -> Self {
        self.with(|options| options.thinking_max_tokens_upper_bound = thinking_max_tokens_upper_bound)
    }

    /// Returns options with another largest output limit of requests that do not think.
    fn with_non_thinking_max_tokens_upper_bound(&self, non_thinking_max_tokens_upper_bound: u32) -> Self {
        self.with(|options| options.non_thinking_max_tokens_upper_bound = non_thinking_max_tokens_upper_bound)
    }

    /// Returns options that accept `model` as a name of `model_version`, in place of what the name meant before.
    fn with_model_alias(&self, model: Text, model_version: ModelVersion) -> Self {
        self.with(|options| {
            options.model_versions_by_name.insert(model.0, model_version.into());
        })
    }

    /// Returns options that accept these names and no others.
    fn with_model_versions_by_name(&self, model_versions_by_name: Versions) -> Self {
        self.with(|options| {
            options.model_versions_by_name = model_versions_by_name.0;
            options.hosted_names = false;
        })
    }

    /// Returns options that also accept the names of the hosted API, and those that its Anthropic endpoint maps.
    fn with_hosted_names(&self) -> Self {
        Self(self.0.clone().with_hosted_names())
    }

    /// Returns options that treat calls and results that do not pair in another way.
    fn with_tool_pairing(&self, tool_pairing: &str) -> PyResult<Self> {
        let tool_pairing = pairing(tool_pairing)?;
        Ok(self.with(|options| options.tool_pairing = tool_pairing))
    }

    /// Returns options that treat a forced call in thinking mode in another way.
    fn with_forced_tool_choice(&self, forced_tool_choice: &str) -> PyResult<Self> {
        let forced_tool_choice = forced(forced_tool_choice)?;
        Ok(self.with(|options| options.forced_tool_choice = forced_tool_choice))
    }

    /// Returns options that treat a last assistant message of Messages in another way.
    fn with_messages_continuation(&self, messages_continuation: &str) -> PyResult<Self> {
        let messages_continuation = continuation(messages_continuation)?;
        Ok(self.with(|options| options.messages_continuation = messages_continuation))
    }

    /// Returns options that treat parts of a request that are not served in another way.
    fn with_unsupported(&self, unsupported: &str) -> PyResult<Self> {
        let unsupported = self::unsupported(unsupported)?;
        Ok(self.with(|options| options.unsupported = unsupported))
    }

    /// Returns options with another largest `n` of Chat Completions, 1 to 128.
    fn with_max_choices(&self, max_choices: u8) -> PyResult<Self> {
        let max_choices = choices(max_choices)?;
        Ok(self.with(|options| options.max_choices = max_choices))
    }

    /// Returns options that seal reasoning, and open what was sealed.
    fn with_reasoning_sealer(&self, reasoning_sealer: &ReasoningSealer) -> Self {
        self.with(|options| options.reasoning_sealer = Some(reasoning_sealer.0.clone()))
    }

    /// Returns options with other spellings of the special tokens.
    fn with_special_tokens(&self, special_tokens: &SpecialTokens) -> Self {
        self.with(|options| options.special_tokens = special_tokens.0.clone())
    }
}

/// A dictionary of model names.
struct Versions(BTreeMap<String, core::ModelVersion>);

impl<'a, 'py> FromPyObject<'a, 'py> for Versions {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let mut versions = BTreeMap::new();
        // A list of the items: a dict that another thread changes must not be walked.
        for item in object.cast::<PyDict>()?.items() {
            let (name, version) = item.extract::<(Text, ModelVersion)>()?;
            versions.insert(name.0, version.into());
        }
        Ok(Self(versions))
    }
}

fn pairing(name: &str) -> PyResult<core::ToolPairing> {
    choose("tool_pairing", name, &[core::ToolPairing::Repair, core::ToolPairing::Refuse], pairing_name)
}

fn pairing_name(value: core::ToolPairing) -> &'static str {
    match value {
        core::ToolPairing::Repair => "repair",
        core::ToolPairing::Refuse => "refuse",
    }
}

fn forced(name: &str) -> PyResult<core::ForcedToolChoice> {
    let all = [core::ForcedToolChoice::Constrain, core::ForcedToolChoice::Refuse];
    choose("forced_tool_choice", name, &all, forced_name)
}

fn forced_name(value: core::ForcedToolChoice) -> &'static str {
    match value {
        core::ForcedToolChoice::Constrain => "constrain",
        core::ForcedToolChoice::Refuse => "refuse",
    }
}

fn continuation(name: &str) -> PyResult<core::MessagesContinuation> {
    let all = [core::MessagesContinuation::Continue, core::MessagesContinuation::Close];
    choose("messages_continuation", name, &all, continuation_name)
}

fn continuation_name(value: core::MessagesContinuation) -> &'static str {
    match value {
        core::MessagesContinuation::Continue => "continue",
        core::MessagesContinuation::Close => "close",
    }
}

fn unsupported(name: &str) -> PyResult<core::Unsupported> {
    choose("unsupported", name, &[core::Unsupported::Ignore, core::Unsupported::Refuse], unsupported_name)
}

fn unsupported_name(value: core::Unsupported) -> &'static str {
    match value {
        core::Unsupported::Ignore => "ignore",
        core::Unsupported::Refuse => "refuse",
    }
}

fn choices(most: u8) -> PyResult<u8> {
    match most {
        1..=128 => Ok(most),
        _ => Err(PyValueError::new_err(format!("invalid max_choices {most}; expected 1 to 128"))),
    }
}

/// What a request asks of the engine. Made by conversion; what the request leaves open is `None`.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct InferenceOptions(pub core::InferenceOptions);

record!(InferenceOptions);

#[pymethods]
impl InferenceOptions {
    /// The most output tokens.
    #[getter]
    fn max_tokens(&self) -> Option<u32> {
        self.0.max_tokens
    }

    /// The sampling temperature.
    #[getter]
    fn temperature(&self) -> Option<f32> {
        self.0.temperature
    }

    /// The nucleus mass.
    #[getter]
    fn top_p(&self) -> Option<f32> {
        self.0.top_p
    }

    /// Whether log probabilities are asked for.
    #[getter]
    fn logprobs(&self) -> Option<bool> {
        self.0.logprobs
    }

    /// How many alternatives a token, 0 to 20.
    #[getter]
    fn top_logprobs(&self) -> Option<u8> {
        self.0.top_logprobs
    }

    /// The sampling seed, below 2^63.
    #[getter]
    fn seed(&self) -> Option<u64> {
        self.0.seed
    }

    /// How many answers to sample from the one prompt, at least 1.
    #[getter]
    fn n(&self) -> u8 {
        self.0.n
    }

    /// What constrained decoding would enforce. Whether an engine does is the caller's choice.
    #[getter]
    fn output_constraint(&self) -> Option<OutputConstraint> {
        self.0.output_constraint.clone().map(OutputConstraint)
    }
}

/// A constraint that an engine can enforce while it decodes.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct OutputConstraint(core::OutputConstraint);

record!(OutputConstraint);

#[pymethods]
impl OutputConstraint {
    /// What `schema` holds: `json`, `regex`, `tool_call` or `tool_call_required`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind.as_str()
    }

    /// A schema or a tool list as compact JSON, or an expression; empty where any JSON is allowed.
    #[getter]
    fn schema(&self) -> &str {
        &self.0.schema
    }

    fn __repr__(&self) -> String {
        format!("OutputConstraint(kind={:?}, schema={:?})", self.kind(), self.schema())
    }
}

/// How to parse the output. The fields may be set; a `StreamProcessor` keeps those that it was made with.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ParsingOptions(Mutex<core::ParsingOptions>);

changing!(ParsingOptions);

impl ParsingOptions {
    pub fn of(options: core::ParsingOptions) -> Self {
        Self(Mutex::new(options))
    }

    /// The present settings.
    pub fn get(&self, py: Python<'_>) -> core::ParsingOptions {
        self.fields(py).clone()
    }

    fn fields(&self, py: Python<'_>) -> MutexGuard<'_, core::ParsingOptions> {
        lock::state(py, &self.0)
    }
}

#[pymethods]
impl ParsingOptions {
    #[new]
    #[pyo3(signature = (*, parse_tool_calls=true, starts_in_tool_calls=false, parse_json_output=false,
        thinking_initial_stage=None, stop_sequences=None, special_tokens=None, parallel_tool_calls=true))]
    fn new(
        parse_tool_calls: bool,
        starts_in_tool_calls: bool,
        parse_json_output: bool,
        thinking_initial_stage: Option<ThinkingInitialStage>,
        stop_sequences: Option<Vec<Text>>,
        special_tokens: Option<&Bound<'_, SpecialTokens>>,
        parallel_tool_calls: bool,
    ) -> Self {
        Self::of(core::ParsingOptions {
            parse_tool_calls,
            starts_in_tool_calls,
            parse_json_output,
            thinking_initial_stage: thinking_initial_stage.map(Into::into),
            stop_sequences: strings(stop_sequences.unwrap_or_default()),
            parallel_tool_calls,
            special_tokens: special_tokens.map(|tokens| tokens.get().0.clone()).unwrap_or_default(),
        })
    }

    /// Whether tool-call markup is looked for.
    #[getter]
    fn parse_tool_calls(&self, py: Python<'_>) -> bool {
        self.fields(py).parse_tool_calls
    }

    #[setter]
    fn set_parse_tool_calls(&self, py: Python<'_>, value: bool) {
        self.fields(py).parse_tool_calls = value;
    }

    /// Whether the prompt has opened the calls block already. Wins over the stage.
    #[getter]
    fn starts_in_tool_calls(&self, py: Python<'_>) -> bool {
        self.fields(py).starts_in_tool_calls
    }

    #[setter]
    fn set_starts_in_tool_calls(&self, py: Python<'_>, value: bool) {
        self.fields(py).starts_in_tool_calls = value;
    }

    /// Whether the answer is the one JSON value in it.
    #[getter]
    fn parse_json_output(&self, py: Python<'_>) -> bool {
        self.fields(py).parse_json_output
    }

    #[setter]
    fn set_parse_json_output(&self, py: Python<'_>, value: bool) {
        self.fields(py).parse_json_output = value;
    }

    /// Where the output begins; `None` without thinking.
    #[getter]
    fn thinking_initial_stage(&self, py: Python<'_>) -> Option<ThinkingInitialStage> {
        self.fields(py).thinking_initial_stage.map(Into::into)
    }

    #[setter]
    fn set_thinking_initial_stage(&self, py: Python<'_>, value: Option<ThinkingInitialStage>) {
        self.fields(py).thinking_initial_stage = value.map(Into::into);
    }

    /// Texts that end the answer, as a new list.
    #[getter]
    fn stop_sequences(&self, py: Python<'_>) -> Vec<String> {
        self.fields(py).stop_sequences.clone()
    }

    #[setter]
    fn set_stop_sequences(&self, py: Python<'_>, value: Vec<Text>) {
        self.fields(py).stop_sequences = strings(value);
    }

    /// Whether more than one call is wanted; if not, the output ends with the first.
    #[getter]
    fn parallel_tool_calls(&self, py: Python<'_>) -> bool {
        self.fields(py).parallel_tool_calls
    }

    #[setter]
    fn set_parallel_tool_calls(&self, py: Python<'_>, value: bool) {
        self.fields(py).parallel_tool_calls = value;
    }

    /// The spellings to look for.
    #[getter]
    fn special_tokens(&self, py: Python<'_>) -> SpecialTokens {
        SpecialTokens(self.fields(py).special_tokens.clone())
    }

    #[setter]
    fn set_special_tokens(&self, py: Python<'_>, value: &SpecialTokens) {
        self.fields(py).special_tokens = value.0.clone();
    }
}
