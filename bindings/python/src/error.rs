//! Errors of the core as Python exceptions. Knows no texts: they come from the core.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use recipe_core::Error;

create_exception!(
    deepseek_recipe._native,
    ConversionError,
    PyException,
    "A request that is well formed, but cannot be served.\n\n`status_code` is the HTTP status, `body` the JSON text \
     of the error reply, and `path` where in the request the fault is, or `None`. They are set on errors that \
     conversion raises."
);

/// The exception of an error. Where the request is at fault it carries `status_code`, `body` and `path`.
pub fn raise(py: Python<'_>, error: Error) -> PyErr {
    let message = error.to_string();
    if !error.is_client() {
        return if error.is_argument() { PyValueError::new_err(message) } else { PyRuntimeError::new_err(message) };
    }
    let raised = if error.is_unreadable() { PyValueError::new_err(message) } else { ConversionError::new_err(message) };
    let value = raised.value(py);
    let set = value.setattr("status_code", error.status()).and_then(|()| value.setattr("body", error.body()));
    match set.and_then(|()| value.setattr("path", error.path())) {
        Ok(()) => raised,
        Err(failed) => failed,
    }
}
