//! The Python face of the core: converts arguments and results, decides nothing. It must not know
//! a rule of a protocol, a template or a model; a behaviour that only Python had would be a defect.

mod conversation;
mod error;
mod json;
mod lock;
mod options;
mod prompt;
mod special;
mod stream;
mod text;
mod tokenizer;

/// The compiled module `deepseek_recipe._native`. Every class is frozen, and the few with a state
/// keep it behind a lock, so no object needs the interpreter lock.
#[pyo3::pymodule(name = "_native", gil_used = false)]
mod native {
    #[pymodule_export]
    use crate::conversation::{AssistantMessage, LatestReminderMessage, SystemMessage, ToolMessage, UserMessage};
    #[pymodule_export]
    use crate::conversation::{BytesImageSource, DataUrlImageSource, ImageSource, UrlImageSource};
    #[pymodule_export]
    use crate::conversation::{Conversation, Message, ToolCall, ToolDefinition};
    #[pymodule_export]
    use crate::error::ConversionError;
    #[pymodule_export]
    use crate::options::{ConversionOptions, InferenceOptions, OutputConstraint, ParsingOptions};
    #[pymodule_export]
    use crate::options::{ModelVersion, ReasoningContentBehavior, ThinkingInitialStage, WebSearchBehavior};
    #[pymodule_export]
    use crate::prompt::{DeepseekV41Encoding, DeepseekV4Encoding, RenderedPrompt};
    #[pymodule_export]
    use crate::special::{SpecialToken, SpecialTokens};
    #[pymodule_export]
    use crate::stream::{InferenceChunk, InferenceFinishReason, PromptUsage};
    #[pymodule_export]
    use crate::tokenizer::Tokenizer;

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
