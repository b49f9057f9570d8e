//! The two prompt encodings for Python. Knows no template.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyType};
use recipe_core::options::ModelVersion;
use recipe_core::prompt;
use recipe_core::special;
use recipe_core::tokenizer;

use crate::conversation::{Conversation, ImageSource};
use crate::error::raise;
use crate::ids;
use crate::lock;
use crate::options::ParsingOptions;
use crate::save::{copied, record, reduced, Reduced};
use crate::special::SpecialTokens;
use crate::tokenizer::Tokenizer;

/// A prompt, and which parts of it are special tokens.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct RenderedPrompt(pub prompt::RenderedPrompt);

record!(RenderedPrompt);

#[pymethods]
impl RenderedPrompt {
    /// The whole text.
    #[getter]
    fn prompt(&self) -> &str {
        self.0.prompt()
    }

    /// The ranges of the special tokens as pairs of `str` indices, ascending and disjoint.
    #[getter]
    fn special_ranges(&self) -> Vec<(usize, usize)> {
        let mut index = self.index();
        self.0.special_ranges().iter().map(|range| (index(range.start), index(range.end))).collect()
    }

    /// What made each part of the prompt: `str` indices of its start and end, and the message's place in the
    /// conversation or `None` for the template.
    #[getter]
    fn message_ranges(&self) -> Vec<(usize, usize, Option<usize>)> {
        let mut index = self.index();
        self.0.message_ranges().map(|(range, message)| (index(range.start), index(range.end), message)).collect()
    }

    /// The images in prompt order, as a new list.
    #[getter]
    fn image_sources<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.0.image_sources().iter().map(|source| ImageSource::object(py, source)).collect()
    }

    /// The runs of the prompt as pairs of a kind (`special`, `plain` or `image`) and a text, as a new list.
    #[getter]
    fn segments(&self) -> Vec<(&'static str, &str)> {
        let pair = |segment| match segment {
            prompt::Segment::Special(text) => ("special", text),
            prompt::Segment::Plain(text) => ("plain", text),
            prompt::Segment::Image(text) => ("image", text),
        };
        self.0.segments().map(pair).collect()
    }

    fn __repr__(&self) -> String {
        let (characters, images) = (self.0.prompt().chars().count(), self.0.image_sources().len());
        format!("RenderedPrompt(prompt=<{characters} characters>, image_sources={images})")
    }
}

impl RenderedPrompt {
    /// Turns ascending byte offsets into counts of characters, in one walk.
    fn index(&self) -> impl FnMut(usize) -> usize + '_ {
        let (mut bytes, mut characters) = (0, 0);
        move |offset| {
            characters += self.0.prompt()[bytes..offset].chars().count();
            bytes = offset;
            characters
        }
    }
}

/// Returns how the output behind the prompt of `conversation` is to be read, as a new object.
#[pyfunction]
pub fn parse_start(conversation: &Conversation) -> ParsingOptions {
    ParsingOptions::of(prompt::parse_start(&conversation.0))
}

macro_rules! encoding {
    ($(#[$doc:meta])* $name:ident for $version:ident) => {
        $(#[$doc])*
        #[pyclass(frozen, module = "deepseek_recipe._native")]
        pub struct $name {
            special_tokens: special::SpecialTokens,
            tokenizer: Option<tokenizer::Tokenizer>,
        }

        copied!($name);

        #[pymethods]
        impl $name {
            /// Pickles as its settings.
            fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Reduced<'py, (SpecialTokens, Option<Tokenizer>)> {
                let Self { special_tokens, tokenizer } = slf.get();
                let settings = (SpecialTokens(special_tokens.clone()), tokenizer.clone().map(Tokenizer));
                reduced(slf, "_restore", settings)
            }

            #[classmethod]
            fn _restore(
                _class: &Bound<'_, PyType>,
                special_tokens: &SpecialTokens,
                tokenizer: Option<&Bound<'_, Tokenizer>>,
            ) -> Self {
                let tokenizer = tokenizer.map(|tokenizer| tokenizer.get().0.clone());
                Self { special_tokens: special_tokens.0.clone(), tokenizer }
            }

            #[new]
            fn new() -> Self {
                Self { special_tokens: special::SpecialTokens::default(), tokenizer: None }
            }

            /// Returns the same encoding with a tokenizer for `encode`.
            fn with_tokenizer(&self, tokenizer: &Tokenizer) -> Self {
                Self { special_tokens: self.special_tokens.clone(), tokenizer: Some(tokenizer.0.clone()) }
            }

            /// Returns the same encoding with other spellings of the special tokens.
            fn with_special_tokens(&self, special_tokens: &SpecialTokens) -> Self {
                Self { special_tokens: special_tokens.0.clone(), tokenizer: self.tokenizer.clone() }
            }

            /// Returns the prompt of a conversation.
            fn render_conversation(&self, py: Python<'_>, conversation: &Conversation) -> RenderedPrompt {
                RenderedPrompt(lock::work(py, conversation.0.size(), || self.render(conversation)))
            }

            /// Returns the ids of a conversation's prompt. Needs a tokenizer.
            fn encode<'py>(&self, py: Python<'py>, conversation: &Conversation) -> PyResult<Bound<'py, PyList>> {
                let Some(tokenizer) = &self.tokenizer else {
                    return Err(PyRuntimeError::new_err("no tokenizer is attached to the encoding"));
                };
                ids::with_space(|ids| {
                    let encode = || tokenizer.encode_prompt_into(&self.render(conversation), ids);
                    lock::work(py, conversation.0.size(), encode).map_err(|error| raise(py, error))?;
                    ids::list(py, ids)
                })
            }
        }

        impl $name {
            fn render(&self, conversation: &Conversation) -> prompt::RenderedPrompt {
                prompt::render(&conversation.0, ModelVersion::$version, &self.special_tokens)
            }
        }
    };
}

encoding! {
    /// The prompt encoding of DeepSeek-V4-Pro.
    DeepseekV4Encoding for DeepseekV4Pro
}

encoding! {
    /// The prompt encoding of DeepSeek-V4.1-Flash.
    DeepseekV41Encoding for DeepseekV41Flash
}
