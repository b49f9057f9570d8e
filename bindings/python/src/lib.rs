//! The Python face of the core: converts arguments and results, decides nothing. It must not know
//! a rule of a protocol, a template or a model; a behaviour that only Python had would be a defect.

mod conversation;
mod error;
mod extend;
mod ids;
mod image;
mod json;
mod lock;
mod options;
mod prompt;
mod recipe;
mod reply;
mod request;
mod save;
mod seal;
mod special;
mod stream;
mod text;
mod tokenizer;

/// The compiled module `deepseek_recipe._native`. Every class is frozen, and the few with a state
/// keep it behind a lock, so no object needs the interpreter lock.
#[pyo3::pymodule(name = "_native", gil_used = false)]
mod native {
    use pyo3::prelude::*;
    use pyo3::types::PySequence;

    #[pymodule_export]
    use crate::conversation::{AssistantMessage, LatestReminderMessage, SystemMessage, ToolMessage, UserMessage};
    #[pymodule_export]
    use crate::conversation::{BytesImageSource, DataUrlImageSource, ImageSource, UrlImageSource};
    #[pymodule_export]
    use crate::conversation::{Conversation, Message, ToolCall, ToolDefinition};
    #[pymodule_export]
    use crate::error::ConversionError;
    #[pymodule_export]
    use crate::extend::extend_prompt;
    #[pymodule_export]
    use crate::image::{image_size, image_tokens, CalcResizeError, ImageError};
    #[pymodule_export]
    use crate::image::{ImageInfo, ImageLimits, ImageQuota, ImageResolver, MultiModalData, OpenCvImagePreprocessor};
    #[pymodule_export]
    use crate::image::{PreprocessOptions, ReqwestImageFetcher};
    #[pymodule_export]
    use crate::options::{ConversionOptions, InferenceOptions, OutputConstraint, ParsingOptions};
    #[pymodule_export]
    use crate::options::{ModelVersion, ReasoningContentBehavior, ThinkingInitialStage, WebSearchBehavior};
    #[pymodule_export]
    use crate::prompt::{parse_start, DeepseekV41Encoding, DeepseekV4Encoding, RenderedPrompt};
    #[pymodule_export]
    use crate::recipe::{Event, OutputParser, ReplyStream};
    #[pymodule_export]
    use crate::reply::{ChatCompletionChunk, ChatCompletionChunkGenerator, ChatCompletionResponse};
    #[pymodule_export]
    use crate::reply::{MessagesChunkGenerator, MessagesResponse, MessagesStreamEvent};
    #[pymodule_export]
    use crate::reply::{ResponsesChunkGenerator, ResponsesResponse, ResponsesStreamEvent};
    #[pymodule_export]
    use crate::request::{read_request, ChatCompletionRequest, ConversationRequest};
    #[pymodule_export]
    use crate::request::{MessagesRequest, ResponsesEcho, ResponsesRequest};
    #[pymodule_export]
    use crate::seal::ReasoningSealer;
    #[pymodule_export]
    use crate::special::{SpecialToken, SpecialTokens};
    #[pymodule_export]
    use crate::stream::{InferenceChunk, InferenceFinishReason, PromptUsage, StreamProcessor};
    #[pymodule_export]
    use crate::tokenizer::Tokenizer;

    /// The id of the image placeholder in both vocabularies.
    #[pymodule_export]
    const IMAGE_SPECIAL_TOKEN_ID: u32 = 129_264;

    #[pymodule_export]
    #[allow(non_upper_case_globals)] // Python's name for it.
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        PySequence::register::<crate::ids::TokenIds>(py)?;
        module.add("TokenIds", crate::ids::class(py)?)
    }
}
