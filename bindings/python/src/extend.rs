//! Token-exact extension for Python. Knows no rule of it.

use pyo3::prelude::*;
use recipe_core::extend::{extend, Previous};

use crate::error::raise;
use crate::ids;
use crate::prompt::RenderedPrompt;
use crate::request::ConversationRequest;
use crate::tokenizer::Tokenizer;

/// Returns the ids of the prompt that `prompt` is of `request`, going on from earlier ids where it tells the same story:
/// a read-only buffer of uint32, where the new part begins, and why they do not go on (or `None`).
#[pyfunction]
pub fn extend_prompt<'py>(
    py: Python<'py>,
    request: &ConversationRequest,
    prompt: &RenderedPrompt,
    tokenizer: &Tokenizer,
    prompt_ids: Vec<u32>,
    output_ids: Vec<u32>,
) -> PyResult<(Bound<'py, PyAny>, usize, Option<&'static str>)> {
    let previous = Previous { prompt_ids: &prompt_ids, output_ids: &output_ids };
    let extended =
        py.detach(|| extend(&request.0, &prompt.0, &tokenizer.0, previous)).map_err(|error| raise(py, error))?;
    Ok((ids::buffer(py, &extended.ids)?, extended.shared, extended.reason.map(|reason| reason.as_str())))
}
