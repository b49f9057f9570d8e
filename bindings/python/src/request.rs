//! Requests of the protocols for Python. Knows no shape and no rule of a protocol.

use std::sync::Mutex;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use recipe_core::request::chat::ChatRequest;
use recipe_core::request::ConversationRequest as Converted;

use crate::conversation::Conversation;
use crate::error::raise;
use crate::json::to_value;
use crate::lock;
use crate::options::{ConversionOptions, InferenceOptions, ModelVersion, ParsingOptions};
use crate::reply::ChatCompletionChunkGenerator;
use crate::text::{read, Text};

/// What every protocol's request becomes, or a request made by hand with the default options.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ConversationRequest(pub Converted);

#[pymethods]
impl ConversationRequest {
    #[new]
    fn new(conversation: &Conversation, model_version: ModelVersion) -> Self {
        Self(Converted::new((*conversation.0).clone(), model_version.into()))
    }

    /// What the prompt says.
    #[getter]
    fn conversation(&self) -> Conversation {
        Conversation(self.0.conversation.clone().into())
    }

    /// What the engine is told.
    #[getter]
    fn inference_options(&self) -> InferenceOptions {
        InferenceOptions(self.0.inference_options.clone())
    }

    /// How the output is to be read, as a new object.
    #[getter]
    fn parsing_options(&self) -> ParsingOptions {
        ParsingOptions::of(self.0.parsing_options.clone())
    }

    /// The model that the requested name stands for.
    #[getter]
    fn model_version(&self) -> ModelVersion {
        self.0.model_version.into()
    }

    /// Whether the reply is sent in chunks; `False` for a request made by hand.
    #[getter]
    fn stream(&self) -> bool {
        self.0.stream
    }

    /// Whether a Chat Completions reply in chunks mentions the usage in every chunk.
    #[getter]
    fn include_usage(&self) -> bool {
        self.0.include_usage
    }

    /// Returns the output limit in tokens, for a prompt of this length in a context of this size.
    fn resolve_max_tokens(&self, py: Python<'_>, prompt_tokens: u32, context_limit: u32) -> PyResult<u32> {
        self.0.resolve_max_tokens(prompt_tokens, context_limit).map_err(|error| raise(py, error))
    }
}

/// A Chat Completions request from JSON text (`str` or `bytes`) or from Python objects.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ChatCompletionRequest(Mutex<Option<ChatRequest>>);

#[pymethods]
impl ChatCompletionRequest {
    #[new]
    fn new(body: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = body.py();
        let request = if let Ok(text) = body.cast::<PyString>() {
            let text = read(text)?;
            lock::work(py, text.len(), || ChatRequest::parse(text.as_bytes()))
        } else if let Ok(bytes) = body.cast::<PyBytes>() {
            let bytes = bytes.as_bytes();
            lock::work(py, bytes.len(), || ChatRequest::parse(bytes))
        } else {
            ChatRequest::from_value(to_value(body)?)
        };
        Ok(Self(Mutex::new(Some(request.map_err(|error| raise(py, error))?))))
    }

    /// The requested model name, until the request is converted.
    #[getter]
    fn model(&self, py: Python<'_>) -> PyResult<String> {
        let request = lock::state(py, &self.0);
        request.as_ref().map(|request| request.model().to_owned()).ok_or_else(consumed)
    }

    /// Converts the request, which is used up by that, also when it fails.
    fn convert(&self, py: Python<'_>, options: &ConversionOptions) -> PyResult<ConversationRequest> {
        let request = lock::state(py, &self.0).take().ok_or_else(consumed)?;
        let converted = py.detach(|| request.convert(&options.0));
        converted.map(ConversationRequest).map_err(|error| raise(py, error))
    }

    /// Returns a generator of the reply's chunks, for the choice `index`.
    #[staticmethod]
    #[pyo3(signature = (request, id, model, *, index=0))]
    fn chunk_generator(
        request: &ConversationRequest,
        id: Text,
        model: Text,
        index: u32,
    ) -> ChatCompletionChunkGenerator {
        ChatCompletionChunkGenerator::of(request, &id.0, &model.0, index)
    }
}

fn consumed() -> PyErr {
    PyRuntimeError::new_err("protocol request has been consumed")
}
