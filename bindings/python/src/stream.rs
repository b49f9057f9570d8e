//! What an engine says, and the parsing of it, for Python. Knows no markup and no protocol.

use std::sync::Mutex;

use pyo3::prelude::*;
use recipe_core::stream as core;

use crate::lock;
use crate::options::{mirror, ParsingOptions};
use crate::reply::{objects, output, Input, Output};
use crate::text::Text;
use crate::tokenizer::Tokenizer;

mirror! {
    core,
    /// Why an engine ended.
    InferenceFinishReason { Stop, Length, ContentFilter }
}

/// What a prompt cost, in tokens, as the engine reports it.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct PromptUsage(core::PromptUsage);

#[pymethods]
impl PromptUsage {
    #[new]
    #[pyo3(signature = (*, prompt_tokens=0, prompt_cache_hit_tokens=0))]
    fn new(prompt_tokens: u64, prompt_cache_hit_tokens: u64) -> Self {
        Self(core::PromptUsage { prompt_tokens, prompt_cache_hit_tokens })
    }

    /// All of the prompt.
    #[getter]
    fn prompt_tokens(&self) -> u64 {
        self.0.prompt_tokens
    }

    /// The part that came from the prompt cache.
    #[getter]
    fn prompt_cache_hit_tokens(&self) -> u64 {
        self.0.prompt_cache_hit_tokens
    }
}

/// One message of an engine, made with `ready`, `text`, `tokens`, `finish` or `error`.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct InferenceChunk(pub core::InferenceChunk);

type Logprob = (f32, Vec<(u32, f32)>);

impl InferenceChunk {
    /// How much work it is, in bytes.
    pub fn size(&self) -> usize {
        match &self.0 {
            core::InferenceChunk::Text { content, .. } => content.len(),
            core::InferenceChunk::Tokens { token_ids, logprobs } => {
                let entry = |entry: &core::IdLogprob| size_of_val(entry) + size_of_val(entry.top.as_slice());
                size_of_val(token_ids.as_slice()) + logprobs.iter().flatten().map(entry).sum::<usize>()
            }
            _ => 0,
        }
    }
}

#[pymethods]
impl InferenceChunk {
    /// The engine has taken the request. Only the first chunk of a stream counts as one.
    #[staticmethod]
    #[pyo3(signature = (*, prompt_usage=None, system_fingerprint=None))]
    fn ready(prompt_usage: Option<&Bound<'_, PromptUsage>>, system_fingerprint: Option<Text>) -> Self {
        Self(core::InferenceChunk::Ready {
            prompt_usage: prompt_usage.map(|usage| usage.get().0),
            system_fingerprint: system_fingerprint.map(|text| text.0),
        })
    }

    /// Text, and how many tokens it accounts for.
    #[staticmethod]
    #[pyo3(signature = (content, token_count=0))]
    fn text(content: Text, token_count: u64) -> Self {
        Self(core::InferenceChunk::Text { content: content.0, token_count })
    }

    /// Token ids, with a pair for each or no log probabilities.
    #[staticmethod]
    #[pyo3(signature = (token_ids, logprobs=None))]
    fn tokens(token_ids: Vec<u32>, logprobs: Option<Vec<Logprob>>) -> Self {
        let logprobs = logprobs.map(|entries| {
            entries.into_iter().map(|(logprob, top)| core::IdLogprob { logprob, top }).collect::<Vec<_>>()
        });
        Self(core::InferenceChunk::Tokens { token_ids, logprobs })
    }

    /// The engine has ended.
    #[staticmethod]
    fn finish(finish_reason: InferenceFinishReason) -> Self {
        Self(core::InferenceChunk::Finish(finish_reason.into()))
    }

    /// The engine has failed: what happened, and a word for programs.
    #[staticmethod]
    #[pyo3(signature = (message, code=Text("server_error".to_owned())), text_signature = "(message, code='server_error')")]
    fn error(message: Text, code: Text) -> Self {
        Self(core::InferenceChunk::Error { message: message.0, code: code.0 })
    }

    /// `ready`, `text`, `tokens`, `finish` or `error`.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0 {
            core::InferenceChunk::Ready { .. } => "ready",
            core::InferenceChunk::Text { .. } => "text",
            core::InferenceChunk::Tokens { .. } => "tokens",
            core::InferenceChunk::Finish(_) => "finish",
            core::InferenceChunk::Error { .. } => "error",
        }
    }

    /// What the prompt cost: zeros in a `ready` chunk that does not say it.
    #[getter]
    fn prompt_usage(&self) -> Option<PromptUsage> {
        match &self.0 {
            core::InferenceChunk::Ready { prompt_usage, .. } => Some(PromptUsage(prompt_usage.unwrap_or_default())),
            _ => None,
        }
    }

    /// The engine's fingerprint, of a `ready` chunk.
    #[getter]
    fn system_fingerprint(&self) -> Option<&str> {
        match &self.0 {
            core::InferenceChunk::Ready { system_fingerprint, .. } => system_fingerprint.as_deref(),
            _ => None,
        }
    }

    /// The text of a `text` chunk.
    #[getter]
    fn content(&self) -> Option<&str> {
        match &self.0 {
            core::InferenceChunk::Text { content, .. } => Some(content),
            _ => None,
        }
    }

    /// How many tokens a `text` chunk accounts for.
    #[getter]
    fn token_count(&self) -> Option<u64> {
        match self.0 {
            core::InferenceChunk::Text { token_count, .. } => Some(token_count),
            _ => None,
        }
    }

    /// The ids of a `tokens` chunk, as a new list.
    #[getter]
    fn token_ids(&self) -> Option<Vec<u32>> {
        match &self.0 {
            core::InferenceChunk::Tokens { token_ids, .. } => Some(token_ids.clone()),
            _ => None,
        }
    }

    /// Why the engine ended, of a `finish` chunk.
    #[getter]
    fn finish_reason(&self) -> Option<InferenceFinishReason> {
        match self.0 {
            core::InferenceChunk::Finish(reason) => Some(reason.into()),
            _ => None,
        }
    }
}

/// Parses an output: engine chunks in, protocol chunks out.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct StreamProcessor(Mutex<Box<dyn Output>>);

#[pymethods]
impl StreamProcessor {
    #[new]
    #[pyo3(signature = (generator, options, tokenizer=None))]
    fn new(
        generator: &Bound<'_, PyAny>,
        options: &ParsingOptions,
        tokenizer: Option<&Bound<'_, Tokenizer>>,
    ) -> PyResult<Self> {
        let tokenizer = tokenizer.map(|tokenizer| tokenizer.get().0.clone());
        let output = output(generator, options.get(generator.py()), tokenizer, None)?;
        Ok(Self(Mutex::new(output)))
    }

    /// Whether the output has ended and the processor has not been closed.
    #[getter]
    fn finished(&self, py: Python<'_>) -> bool {
        lock::state(py, &self.0).processor().is_finished()
    }

    /// The stop sequence that ended the output, if one did.
    #[getter]
    fn stop_sequence(&self, py: Python<'_>) -> Option<String> {
        lock::state(py, &self.0).processor().stop_sequence().map(str::to_owned)
    }

    /// The text behind the place where the output ended by itself, `""` if it did not.
    #[getter]
    fn remaining_text(&self, py: Python<'_>) -> String {
        lock::state(py, &self.0).processor().remaining_text().to_owned()
    }

    /// The ids of the remaining text, as a new list. One with text on both sides of the end is not among them.
    #[getter]
    fn remaining_ids(&self, py: Python<'_>) -> Vec<u32> {
        lock::state(py, &self.0).processor().remaining_ids()
    }

    /// Takes an engine chunk and returns the protocol chunks that it makes.
    fn push<'py>(&self, py: Python<'py>, chunk: &InferenceChunk) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let output = &mut *lock::state(py, &self.0);
        objects(py, lock::work(py, chunk.size(), || output.push(Input::Chunk(&chunk.0))))
    }

    /// Closes the input and returns the last chunks. Without a `finish` chunk before it, the reply says that it failed.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        objects(py, lock::state(py, &self.0).push(Input::Close))
    }

    /// Ends without any chunk. May be called at any time.
    fn close(&self, py: Python<'_>) {
        lock::state(py, &self.0).close();
    }

    /// Returns a processor that goes on from here by itself.
    fn __copy__(&self, py: Python<'_>) -> Self {
        Self(Mutex::new(lock::state(py, &self.0).copy()))
    }
}
