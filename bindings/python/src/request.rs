//! Requests of the protocols for Python. Knows no shape and no rule of a protocol.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Mutex;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString, PyType};
use recipe_core::json::Value;
use recipe_core::request::chat::ChatRequest;
use recipe_core::request::messages::MessagesRequest as MessagesBody;
use recipe_core::request::responses::{ResponsesEcho as Echo, ResponsesRequest as ResponsesBody};
use recipe_core::request::{ConversationRequest as Converted, Protocol};

use crate::conversation::Conversation;
use crate::error::raise;
use crate::json::to_value;
use crate::lock;
use crate::options::{ConversionOptions, InferenceOptions, ModelVersion, ParsingOptions};
use crate::reply::{ChatCompletionChunkGenerator, MessagesChunkGenerator, ResponsesChunkGenerator};
use crate::save::record;
use crate::text::{choose, read, Text};

/// What every protocol's request becomes, or a request made by hand with the default options.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ConversationRequest(pub Converted);

record!(ConversationRequest);

#[pymethods]
impl ConversationRequest {
    #[new]
    fn new(conversation: &Conversation, model_version: ModelVersion) -> Self {
        Self(Converted::new(conversation.0.clone(), model_version.into()))
    }

    /// What the prompt says.
    #[getter]
    fn conversation(&self) -> Conversation {
        Conversation(self.0.conversation.clone())
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

/// The text or the objects of a body, and how much work they are in bytes.
enum Body<'a> {
    Text(Cow<'a, [u8]>),
    Objects(Value<'static>),
}

impl<'a> Body<'a> {
    fn of(body: &'a Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(text) = body.cast::<PyString>() {
            return Ok(Self::Text(match read(text)? {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            }));
        }
        if let Ok(bytes) = body.cast::<PyBytes>() {
            return Ok(Self::Text(Cow::Borrowed(bytes.as_bytes())));
        }
        to_value(body).map(Self::Objects)
    }

    /// The value, which is not there any more after that.
    fn take(&mut self) -> recipe_core::Result<Value<'_>> {
        match self {
            Self::Text(text) => Value::parse(text),
            Self::Objects(value) => Ok(std::mem::replace(value, Value::Null)),
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Objects(_) => 0,
        }
    }
}

fn consumed() -> PyErr {
    PyRuntimeError::new_err("protocol request has been consumed")
}

macro_rules! request {
    ($(#[$doc:meta])* $Request:ident of $core:ident { $($methods:tt)* }) => {
        $(#[$doc])*
        #[pyclass(frozen, module = "deepseek_recipe._native")]
        pub struct $Request(Mutex<Option<$core>>);

        impl $Request {
            fn read<T>(&self, py: Python<'_>, read: impl FnOnce(&$core) -> T) -> PyResult<T> {
                lock::state(py, &self.0).as_ref().map(read).ok_or_else(consumed)
            }
        }

        #[pymethods]
        impl $Request {
            #[new]
            fn new(body: &Bound<'_, PyAny>) -> PyResult<Self> {
                let py = body.py();
                let body = Body::of(body)?;
                let request = match body {
                    Body::Text(text) => lock::work(py, text.len(), || $core::parse(&text)),
                    Body::Objects(value) => $core::from_value(value),
                };
                Ok(Self(Mutex::new(Some(request.map_err(|error| raise(py, error))?))))
            }

            /// The requested model name, until the request is converted.
            #[getter]
            fn model(&self, py: Python<'_>) -> PyResult<String> {
                self.read(py, |request| request.model().to_owned())
            }

            /// Converts the request, which is used up by that, also when it fails.
            fn convert(&self, py: Python<'_>, options: &ConversionOptions) -> PyResult<ConversationRequest> {
                let request = lock::state(py, &self.0).take().ok_or_else(consumed)?;
                let converted = py.detach(|| request.convert(&options.0));
                converted.map(ConversationRequest).map_err(|error| raise(py, error))
            }

            $($methods)*
        }
    };
}

request! {
    /// A Chat Completions request from JSON text (`str` or `bytes`) or from Python objects.
    ChatCompletionRequest of ChatRequest {
        /// Returns a generator of the reply's chunks, for the choice `index`.
        #[staticmethod]
        #[pyo3(signature = (request, id, model, *, index=0))]
        fn chunk_generator(
            request: &ConversationRequest,
            id: Text,
            model: Text,
            index: u32,
        ) -> ChatCompletionChunkGenerator {
            ChatCompletionChunkGenerator::to(&request.0, &id.0, &model.0, index)
        }
    }
}

request! {
    /// A Messages request from JSON text (`str` or `bytes`) or from Python objects.
    MessagesRequest of MessagesBody {
        /// Returns a generator of the reply's events.
        #[staticmethod]
        fn chunk_generator(request: &ConversationRequest, id: Text, model: Text) -> MessagesChunkGenerator {
            MessagesChunkGenerator::to(&request.0, &id.0, &model.0)
        }
    }
}

request! {
    /// A Responses request from JSON text (`str` or `bytes`) or from Python objects.
    ResponsesRequest of ResponsesBody {
        /// Returns the settings that a response object reports, until the request is converted.
        fn echo(&self, py: Python<'_>) -> PyResult<ResponsesEcho> {
            self.read(py, |request| ResponsesEcho(request.echo()))
        }

        /// Returns the function names of declared namespaces with their namespace and local name, until the
        /// request is converted.
        fn namespace_tool_map(
            &self,
            py: Python<'_>,
            options: &ConversionOptions,
        ) -> PyResult<BTreeMap<String, (String, String)>> {
            self.read(py, |request| request.namespace_tool_map(&options.0))?.map_err(|error| raise(py, error))
        }

        /// Returns a generator of the reply's events.
        #[staticmethod]
        fn chunk_generator(request: &ConversationRequest, id: Text, model: Text) -> ResponsesChunkGenerator {
            ResponsesChunkGenerator::to(&request.0, &id.0, &model.0)
        }
    }
}

/// The settings of a Responses request that response objects report, or those of a request without any.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ResponsesEcho(pub Echo);

record!(ResponsesEcho);

#[pymethods]
impl ResponsesEcho {
    #[new]
    fn new() -> Self {
        Self(Echo::default())
    }

    /// The instructions.
    #[getter]
    fn instructions(&self) -> Option<&str> {
        self.0.instructions.as_deref()
    }

    /// The output limit in tokens.
    #[getter]
    fn max_output_tokens(&self) -> Option<u32> {
        self.0.max_output_tokens
    }

    /// The temperature, or 1.0; not the one that is sampled with.
    #[getter]
    fn temperature(&self) -> f32 {
        self.0.temperature
    }

    /// The number of alternatives a token, or 0.
    #[getter]
    fn top_logprobs(&self) -> u8 {
        self.0.top_logprobs
    }

    /// The nucleus mass, or 1.0; not the one that is sampled with.
    #[getter]
    fn top_p(&self) -> f32 {
        self.0.top_p
    }

    /// The user.
    #[getter]
    fn user(&self) -> Option<&str> {
        self.0.user.as_deref()
    }
}

/// Reads a body of the named protocol (`chat_completions`, `messages` or `responses`), or of the one that its shape
/// shows. The body is JSON text (`str` or any bytes) or Python objects.
#[pyfunction]
#[pyo3(signature = (body, protocol=None))]
pub fn read_request<'py>(body: &Bound<'py, PyAny>, protocol: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    let py = body.py();
    let fail = |error| raise(py, error);
    // What can change while it is read is copied.
    let changes = body.is_instance_of::<PyByteArray>() || body.is_instance_of::<PyMemoryView>();
    let body = if changes { &py.get_type::<PyBytes>().call1((body,))? } else { body };
    let mut body = Body::of(body)?;
    let named = protocol.map(|name| choose("protocol", name, &Protocol::ALL, Protocol::as_str)).transpose()?;
    lock::work(py, body.size(), || {
        let value = body.take()?;
        let protocol = named.map_or_else(|| Protocol::of(&value), Ok)?;
        Ok(match protocol {
            Protocol::ChatCompletions => AnyRequest::Chat(ChatRequest::from_value(value)?),
            Protocol::Messages => AnyRequest::Messages(MessagesBody::from_value(value)?),
            Protocol::Responses => AnyRequest::Responses(ResponsesBody::from_value(value)?),
        })
    })
    .map_err(fail)?
    .object(py)
}

enum AnyRequest {
    Chat(ChatRequest),
    Messages(MessagesBody),
    Responses(ResponsesBody),
}

impl AnyRequest {
    fn object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(match self {
            Self::Chat(request) => Bound::new(py, ChatCompletionRequest(Mutex::new(Some(request))))?.into_any(),
            Self::Messages(request) => Bound::new(py, MessagesRequest(Mutex::new(Some(request))))?.into_any(),
            Self::Responses(request) => Bound::new(py, ResponsesRequest(Mutex::new(Some(request))))?.into_any(),
        })
    }
}
