//! The tokenizer for Python. Knows no prompt.

use std::path::PathBuf;

use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyType};
use recipe_core::tokenizer as core;

use crate::error::raise;
use crate::ids;
use crate::lock;
use crate::options::ModelVersion;
use crate::prompt::RenderedPrompt;
use crate::save::{copied, reduced, Reduced};
use crate::text::{read, Text};

/// A byte-level BPE tokenizer with an added vocabulary. It never changes.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct Tokenizer(pub core::Tokenizer);

copied!(Tokenizer);

#[pymethods]
impl Tokenizer {
    /// Returns the tokenizer of a model version. Its vocabulary is part of the package.
    #[staticmethod]
    fn builtin(py: Python<'_>, version: ModelVersion) -> Self {
        Self(py.detach(|| core::Tokenizer::builtin(version.into())))
    }

    /// Reads a tokenizer.json file.
    #[staticmethod]
    fn from_file(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| core::Tokenizer::from_file(path)).map(Self).map_err(|error| raise(py, error))
    }

    /// Reads the text of a tokenizer.json file.
    #[staticmethod]
    fn from_str(py: Python<'_>, text: Text) -> PyResult<Self> {
        py.detach(|| core::Tokenizer::from_json(&text.0)).map(Self).map_err(|error| raise(py, error))
    }

    /// Pickles a built-in vocabulary by its name, any other as the text that it was read from.
    fn __reduce__<'a, 'py>(slf: &'a Bound<'py, Self>) -> Reduced<'py, (Option<ModelVersion>, Option<&'a str>)> {
        let source = match slf.get().0.source() {
            core::Source::Builtin(version) => (Some((*version).into()), None),
            core::Source::Json(text) => (None, Some(&**text)),
        };
        reduced(slf, "_restore", source)
    }

    #[classmethod]
    fn _restore(class: &Bound<'_, PyType>, version: Option<ModelVersion>, text: Option<Text>) -> PyResult<Self> {
        match version {
            Some(version) => Ok(Self::builtin(class.py(), version)),
            None => Self::from_str(class.py(), text.unwrap_or_default()),
        }
    }

    /// Would download a tokenizer.json file.
    #[staticmethod]
    #[pyo3(signature = (identifier, revision=None, token=None))]
    #[allow(unused_variables)] // The names are the signature.
    fn from_pretrained(identifier: Text, revision: Option<Text>, token: Option<Text>) -> PyResult<Self> {
        Err(PyNotImplementedError::new_err(
            "this package downloads nothing: use Tokenizer.builtin(version) or Tokenizer.from_file(path)",
        ))
    }

    /// Returns the same tokenizer with a cache of segments of its own, which keeps at most `bytes`.
    fn with_segment_cache(&self, bytes: usize) -> Self {
        Self(self.0.with_segment_cache(bytes))
    }

    /// Returns the ids of a text with the full vocabulary: the spelling of an added token becomes its id.
    fn encode<'py>(&self, text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyList>> {
        let (py, text) = (text.py(), read(text)?);
        ids::with_space(|ids| {
            lock::work(py, text.len(), || self.0.encode_into(&text, ids));
            ids::list(py, ids)
        })
    }

    /// Returns the ids of a prompt, as a read-only sequence and buffer of uint32.
    fn encode_prompt<'py>(&self, prompt: &Bound<'py, RenderedPrompt>) -> PyResult<Bound<'py, PyAny>> {
        let (py, prompt) = (prompt.py(), &prompt.get().0);
        ids::with_space(|ids| {
            let encoded = lock::work(py, prompt.prompt().len(), || self.0.encode_prompt_into(prompt, ids));
            encoded.map_err(|error| raise(py, error))?;
            ids::buffer(py, ids)
        })
    }

    /// Returns the id of an added token, or `None`.
    fn special_id(&self, spelling: Text) -> Option<u32> {
        self.0.special_id(&spelling.0)
    }

    /// Returns what `id` stands for: bytes of an ordinary token, the spelling of an added one, or `None`.
    fn token<'py>(&self, py: Python<'py>, id: u32) -> Option<Bound<'py, PyAny>> {
        Some(match self.0.token(id)? {
            core::Token::Plain(bytes) => PyBytes::new(py, bytes).into_any(),
            core::Token::Added(spelling) => PyString::new(py, spelling).into_any(),
        })
    }
}
