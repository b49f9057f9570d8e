//! Replies of the protocols for Python: generators, chunks, complete responses, and the stream behind
//! them whatever the protocol. Knows no markup and no JSON of a protocol.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use recipe_core::conversation::Conversation;
use recipe_core::options::{ModelVersion, ParsingOptions};
use recipe_core::reply::chat::{self, ChatChunk, ChatGenerator, ChatResponse};
use recipe_core::reply::messages::{MessagesEvent, MessagesGenerator, MessagesResponse as MessagesTotal};
use recipe_core::reply::responses::{ResponsesEvent, ResponsesGenerator, ResponsesResponse as ResponsesTotal};
use recipe_core::reply::{Chunk, Reply, ReplyStream};
use recipe_core::request::ConversationRequest as Converted;
use recipe_core::stream::{InferenceChunk, PromptUsage, StreamProcessor};
use recipe_core::tokenizer::Tokenizer;

use crate::error::raise;
use crate::lock;
use crate::request::ResponsesEcho;
use crate::text::Text;

/// What the bindings have to know of a protocol's reply.
pub trait Protocol: 'static {
    type Generator: Reply + Send;
    type Response: Clone + Send;
    /// What ends a stream of server-sent events, in protocols that have such a mark.
    const DONE: Option<&'static str>;

    fn own(chunk: ChunkOf<'_, Self>) -> ChunkOf<'static, Self>;
    fn sent(chunk: ChunkOf<'static, Self>) -> Sent;
    fn accumulate(response: &mut Self::Response, chunk: ChunkOf<'_, Self>);
    fn write(response: &Self::Response, out: &mut String);
    /// Whether the reply failed: then no mark ends the stream.
    fn is_failed(response: &Self::Response) -> bool;
}

type ChunkOf<'a, P> = <<P as Protocol>::Generator as Reply>::Chunk<'a>;

/// A chunk of some protocol on its way to Python.
pub enum Sent {
    Chat(ChatChunk<'static>),
    Messages(MessagesEvent<'static>),
    Responses(ResponsesEvent<'static>),
}

impl Sent {
    fn object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(match self {
            Self::Chat(chunk) => Bound::new(py, ChatCompletionChunk::of(chunk))?.into_any(),
            Self::Messages(chunk) => Bound::new(py, MessagesStreamEvent::of(chunk))?.into_any(),
            Self::Responses(chunk) => Bound::new(py, ResponsesStreamEvent::of(chunk))?.into_any(),
        })
    }
}

/// The chunks as objects of Python.
pub fn objects(py: Python<'_>, sent: recipe_core::Result<Vec<Sent>>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    sent.map_err(|error| raise(py, error))?.into_iter().map(|chunk| chunk.object(py)).collect()
}

/// What comes from the engine.
#[derive(Clone, Copy)]
pub enum Input<'a> {
    Chunk(&'a InferenceChunk),
    /// The input is closed.
    Close,
}

/// A reply of any protocol on its way.
pub trait Output: Send {
    fn push(&mut self, input: Input<'_>) -> recipe_core::Result<Vec<Sent>>;
    fn push_sse(&mut self, input: Input<'_>) -> recipe_core::Result<String>;
    fn processor(&self) -> &StreamProcessor;
    fn close(&mut self);
    fn copy(&self) -> Box<dyn Output>;
    /// The complete response so far as JSON, if it is kept.
    fn response_json(&self) -> String;
    /// The end mark of a stream that did not fail.
    fn done(&self) -> Option<&'static str>;
}

struct Typed<P: Protocol> {
    stream: ReplyStream<P::Generator>,
    response: Option<P::Response>,
}

impl<P: Protocol> Typed<P> {
    fn drive(&mut self, input: Input<'_>, chunk: &mut dyn FnMut(ChunkOf<'_, P>)) -> recipe_core::Result<()> {
        match input {
            Input::Chunk(input) => self.stream.push(input, chunk),
            Input::Close => self.stream.finish(chunk),
        }
    }
}

impl<P: Protocol> Output for Typed<P>
where
    ChunkOf<'static, P>: Clone,
{
    fn push(&mut self, input: Input<'_>) -> recipe_core::Result<Vec<Sent>> {
        let mut sent = Vec::new();
        let mut response = self.response.take();
        let done = self.drive(input, &mut |chunk| {
            let chunk = P::own(chunk);
            if let Some(response) = &mut response {
                P::accumulate(response, chunk.clone());
            }
            sent.push(P::sent(chunk));
        });
        self.response = response;
        done.map(|()| sent)
    }

    fn push_sse(&mut self, input: Input<'_>) -> recipe_core::Result<String> {
        let mut sent = String::new();
        let mut response = self.response.take();
        let done = self.drive(input, &mut |chunk| {
            chunk.write_sse(&mut sent);
            if let Some(response) = &mut response {
                P::accumulate(response, chunk);
            }
        });
        self.response = response;
        done.map(|()| sent)
    }

    fn processor(&self) -> &StreamProcessor {
        self.stream.output()
    }

    fn close(&mut self) {
        self.stream.close();
    }

    fn copy(&self) -> Box<dyn Output> {
        Box::new(Self { stream: self.stream.clone(), response: self.response.clone() })
    }

    fn response_json(&self) -> String {
        let mut json = String::new();
        if let Some(response) = &self.response {
            P::write(response, &mut json);
        }
        json
    }

    fn done(&self) -> Option<&'static str> {
        P::DONE.filter(|_| !self.response.as_ref().is_some_and(P::is_failed))
    }
}

/// A stream behind a generator of whatever protocol, which is used up. `keeps`: the id and the model name
/// of the complete response, if it is to be kept.
pub fn output(
    generator: &Bound<'_, PyAny>,
    options: ParsingOptions,
    tokenizer: Option<Tokenizer>,
    keeps: Option<(&str, &str)>,
) -> PyResult<Box<dyn Output>> {
    let py = generator.py();
    if let Ok(found) = generator.cast::<ChatCompletionChunkGenerator>() {
        let stream = ReplyStream::new(found.get().take(py)?, options, tokenizer);
        let response = keeps.map(|(id, model)| ChatResponse::new(id, model, now()));
        return Ok(Box::new(Typed::<Chat> { stream, response }));
    }
    if let Ok(found) = generator.cast::<MessagesChunkGenerator>() {
        let stream = ReplyStream::new(found.get().take(py)?, options, tokenizer);
        let response = keeps.map(|(id, model)| MessagesTotal::new(id, model, PromptUsage::default()));
        return Ok(Box::new(Typed::<Messages> { stream, response }));
    }
    if let Ok(found) = generator.cast::<ResponsesChunkGenerator>() {
        let stream = ReplyStream::new(found.get().take(py)?, options, tokenizer);
        let response = keeps.map(|(id, model)| ResponsesTotal::new(id, model, now()));
        return Ok(Box::new(Typed::<Responses> { stream, response }));
    }
    Err(PyTypeError::new_err("expected a protocol chunk generator"))
}

/// A number that no other generator of this process gets, and that nobody guesses: the standard
/// library's hash keys are random.
pub fn random() -> u128 {
    let keys = RandomState::new();
    u128::from(keys.hash_one(0)) << 64 | u128::from(keys.hash_one(1))
}

/// The Unix time in seconds. A clock before 1970 counts as 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn consumed() -> PyErr {
    PyRuntimeError::new_err("protocol chunk has been consumed")
}

fn used_generator() -> PyErr {
    PyRuntimeError::new_err("chunk generator has been consumed")
}

/// The classes of one protocol. A generator and a chunk can be taken once.
macro_rules! protocol {
    (
        $protocol:ident: generator $Generator:ident of $core_generator:ty { $($generator_methods:tt)* }
        chunk $Chunk:ident of $core_chunk:ident
        response $Response:ident of $core_response:ty =
            |$id:ident, $model:ident, $created:ident, $usage:ident| $new:expr, failed $failed:expr, done $done:expr
    ) => {
        pub struct $protocol;

        impl Protocol for $protocol {
            type Generator = $core_generator;
            type Response = $core_response;
            const DONE: Option<&'static str> = $done;

            fn own(chunk: $core_chunk<'_>) -> $core_chunk<'static> {
                chunk.into_owned()
            }

            fn sent(chunk: $core_chunk<'static>) -> Sent {
                Sent::$protocol(chunk)
            }

            fn accumulate(response: &mut $core_response, chunk: $core_chunk<'_>) {
                response.accumulate(chunk);
            }

            fn write(response: &$core_response, out: &mut String) {
                response.write_json(out);
            }

            fn is_failed(response: &$core_response) -> bool {
                let failed: fn(&$core_response) -> bool = $failed;
                failed(response)
            }
        }

        #[doc = concat!("Makes the chunks of a reply of ", stringify!($protocol), ". A stream processor uses it up.")]
        #[pyclass(frozen, module = "deepseek_recipe._native")]
        pub struct $Generator(Mutex<Option<$core_generator>>);

        impl $Generator {
            pub fn of(generator: $core_generator) -> Self {
                Self(Mutex::new(Some(generator)))
            }

            /// The generator, once.
            pub fn take(&self, py: Python<'_>) -> PyResult<$core_generator> {
                lock::state(py, &self.0).take().ok_or_else(used_generator)
            }
        }

        #[pymethods]
        impl $Generator { $($generator_methods)* }

        #[doc = concat!("One chunk of a reply of ", stringify!($protocol), ", until a response accumulates it.")]
        #[pyclass(frozen, module = "deepseek_recipe._native")]
        pub struct $Chunk(Mutex<Option<$core_chunk<'static>>>);

        impl $Chunk {
            fn of(chunk: $core_chunk<'static>) -> Self {
                Self(Mutex::new(Some(chunk)))
            }

            fn read<T>(&self, py: Python<'_>, read: impl FnOnce(&$core_chunk<'static>) -> T) -> PyResult<T> {
                lock::state(py, &self.0).as_ref().map(read).ok_or_else(consumed)
            }
        }

        #[pymethods]
        impl $Chunk {
            /// Returns the chunk as JSON text, as the protocol sends it.
            fn to_json(&self, py: Python<'_>) -> PyResult<String> {
                self.read(py, |chunk| {
                    let mut json = String::new();
                    chunk.write_json(&mut json);
                    json
                })
            }
        }

        #[doc = concat!("The complete response of ", stringify!($protocol), ": what the chunks so far add up to.")]
        #[pyclass(frozen, module = "deepseek_recipe._native")]
        pub struct $Response(Mutex<$core_response>);

        #[pymethods]
        impl $Response {
            #[new]
            fn new(
                id: Text,
                model: Text,
                created: u64,
                prompt_tokens: u64,
                prompt_cache_hit_tokens: u64,
            ) -> Self {
                let usage = PromptUsage { prompt_tokens, prompt_cache_hit_tokens };
                let ($id, $model, $created, $usage) = (&id.0, &model.0, created, usage);
                Self(Mutex::new($new))
            }

            /// Adds a chunk, which is used up by that.
            fn accumulate(&self, py: Python<'_>, chunk: &$Chunk) -> PyResult<()> {
                let chunk = lock::state(py, &chunk.0).take().ok_or_else(consumed)?;
                lock::state(py, &self.0).accumulate(chunk);
                Ok(())
            }

            /// Returns the response as JSON text, also before the reply is complete.
            fn to_json(&self, py: Python<'_>) -> String {
                let mut json = String::new();
                lock::state(py, &self.0).write_json(&mut json);
                json
            }

            /// Returns the name of a chunk's server-sent event, or `None` in a protocol without names.
            #[staticmethod]
            fn sse_event_name(py: Python<'_>, chunk: &$Chunk) -> PyResult<Option<&'static str>> {
                chunk.read(py, |chunk| chunk.sse_event_name())
            }

            /// Returns what ends a stream of server-sent events, or `None` in a protocol without such a mark.
            #[staticmethod]
            fn sse_done_data() -> Option<&'static str> {
                $done
            }
        }
    };
}

protocol! {
    Chat: generator ChatCompletionChunkGenerator of ChatGenerator {}
    chunk ChatCompletionChunk of ChatChunk
    // The usage comes with the chunks.
    response ChatCompletionResponse of ChatResponse = |id, model, created, _usage| ChatResponse::new(id, model, created),
    failed |response| response.is_failed(), done Some(chat::SSE_DONE)
}

impl ChatCompletionChunkGenerator {
    pub fn to(request: &Converted, id: &str, model: &str, index: u32) -> Self {
        Self::of(ChatGenerator::new(request, id, model, now(), random()).with_index(index))
    }
}

protocol! {
    Messages: generator MessagesChunkGenerator of MessagesGenerator {
        #[new]
        fn new(id: Text, model: Text, thinking_mode: bool) -> Self {
            let conversation = Conversation { thinking_mode, ..Conversation::default() };
            Self::to(&Converted::new(conversation, ModelVersion::DeepseekV41Flash), &id.0, &model.0)
        }

        /// Returns a generator with another signature for thinking blocks, and uses this one up.
        fn with_signature(&self, py: Python<'_>, signature: Text) -> PyResult<Self> {
            Ok(Self::of(self.take(py)?.with_signature(&signature.0)))
        }
    }
    chunk MessagesStreamEvent of MessagesEvent
    response MessagesResponse of MessagesTotal = |id, model, _created, usage| MessagesTotal::new(id, model, usage),
    failed |_| false, done None
}

impl MessagesChunkGenerator {
    pub fn to(request: &Converted, id: &str, model: &str) -> Self {
        Self::of(MessagesGenerator::new(request, id, model, random()))
    }
}

protocol! {
    Responses: generator ResponsesChunkGenerator of ResponsesGenerator {
        /// Returns a generator that reports these settings, and uses this one up.
        fn with_echo(&self, py: Python<'_>, echo: &ResponsesEcho) -> PyResult<Self> {
            Ok(Self::of(self.take(py)?.with_echo(echo.0.clone())))
        }

        /// Returns a generator with these names for the functions of namespaces, and uses this one up.
        fn with_namespace_tool_map(
            &self,
            py: Python<'_>,
            namespace_tool_map: BTreeMap<String, (String, String)>,
        ) -> PyResult<Self> {
            Ok(Self::of(self.take(py)?.with_namespace_tool_map(namespace_tool_map)))
        }
    }
    chunk ResponsesStreamEvent of ResponsesEvent
    response ResponsesResponse of ResponsesTotal = |id, model, created, _usage| ResponsesTotal::new(id, model, created),
    failed |_| false, done None
}

impl ResponsesChunkGenerator {
    pub fn to(request: &Converted, id: &str, model: &str) -> Self {
        Self::of(ResponsesGenerator::new(request, id, model, now(), random()).with_clock(now))
    }
}
