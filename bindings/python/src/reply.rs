//! Replies of the protocols for Python: generators, chunks and complete responses. Knows no markup
//! and no JSON of a protocol.

use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use recipe_core::reply::chat::{ChatChunk, ChatGenerator, ChatResponse, SSE_DONE};
use recipe_core::reply::Chunk;

use crate::lock;
use crate::request::ConversationRequest;
use crate::text::Text;

/// Makes the chunks of a Chat Completions reply. A stream processor uses it up.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ChatCompletionChunkGenerator(Mutex<Option<ChatGenerator>>);

impl ChatCompletionChunkGenerator {
    pub fn of(request: &ConversationRequest, id: &str, model: &str, index: u32) -> Self {
        // A clock before 1970 counts as 1970.
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let generator = ChatGenerator::new(&request.0, id, model, created, random()).with_index(index);
        Self(Mutex::new(Some(generator)))
    }

    /// The generator, once.
    pub fn take(&self, py: Python<'_>) -> PyResult<ChatGenerator> {
        let generator = lock::state(py, &self.0).take();
        generator.ok_or_else(|| PyRuntimeError::new_err("chunk generator has been consumed"))
    }
}

/// A number that no other generator of this process gets, and that nobody guesses: the standard
/// library's hash keys are random.
pub fn random() -> u128 {
    let keys = RandomState::new();
    u128::from(keys.hash_one(0)) << 64 | u128::from(keys.hash_one(1))
}

/// One chunk of a Chat Completions reply, until a response accumulates it.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ChatCompletionChunk(Mutex<Option<ChatChunk<'static>>>);

impl ChatCompletionChunk {
    pub fn of(chunk: ChatChunk<'_>) -> Self {
        Self(Mutex::new(Some(chunk.into_owned())))
    }

    fn read<T>(&self, py: Python<'_>, read: impl FnOnce(&ChatChunk<'static>) -> T) -> PyResult<T> {
        lock::state(py, &self.0).as_ref().map(read).ok_or_else(consumed)
    }
}

#[pymethods]
impl ChatCompletionChunk {
    /// Returns the chunk as JSON text, as the protocol sends it.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        self.read(py, |chunk| {
            let mut json = String::new();
            chunk.write_json(&mut json);
            json
        })
    }
}

/// The complete Chat Completions response: what the chunks so far add up to.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ChatCompletionResponse(Mutex<ChatResponse>);

#[pymethods]
impl ChatCompletionResponse {
    #[new]
    #[allow(unused_variables)] // The usage comes with the chunks; the counts are for protocols that begin with it.
    fn new(id: Text, model: Text, created: u64, prompt_tokens: u64, prompt_cache_hit_tokens: u64) -> Self {
        Self(Mutex::new(ChatResponse::new(&id.0, &model.0, created)))
    }

    /// Adds a chunk, which is used up by that.
    fn accumulate(&self, py: Python<'_>, chunk: &ChatCompletionChunk) -> PyResult<()> {
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

    /// Returns the name of a chunk's server-sent event: `None`, since this protocol has no names.
    #[staticmethod]
    fn sse_event_name(py: Python<'_>, chunk: &ChatCompletionChunk) -> PyResult<Option<&'static str>> {
        chunk.read(py, |chunk| chunk.sse_event_name())
    }

    /// Returns what ends a stream of server-sent events.
    #[staticmethod]
    fn sse_done_data() -> Option<&'static str> {
        Some(SSE_DONE)
    }
}

fn consumed() -> PyErr {
    PyRuntimeError::new_err("protocol chunk has been consumed")
}
