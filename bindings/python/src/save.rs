//! Pickling and copying, and streams as bytes. Knows no form: the core has it.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use recipe_core::save::{self, Needs, Save};

use crate::error::raise;
use crate::reply::now;
use crate::seal::ReasoningSealer;
use crate::tokenizer::Tokenizer;

/// What pickle wants: the class method that makes an object again, and its arguments.
pub type Reduced<'py, A> = PyResult<(Bound<'py, PyAny>, A)>;

pub fn reduced<'py, A>(object: &Bound<'py, PyAny>, method: &str, arguments: A) -> Reduced<'py, A> {
    Ok((object.get_type().getattr(method)?, arguments))
}

/// The bytes of a value that needs nothing to be loaded.
pub fn bytes<'py, T: Save>(object: &Bound<'py, PyAny>, value: &T) -> PyResult<Bound<'py, PyBytes>> {
    if save::is_sealed(value) {
        return Err(sealed(object));
    }
    Ok(PyBytes::new(object.py(), &save::save(value)))
}

/// What an object with a sealer cannot be pickled with.
pub fn sealed(object: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("cannot pickle {}: keys of a ReasoningSealer are not pickled", object.get_type()))
}

/// The value of bytes that need nothing.
pub fn value<T: Save>(py: Python<'_>, bytes: &[u8]) -> PyResult<T> {
    save::load(bytes, Needs::default()).map_err(|error| raise(py, error))
}

/// What is given to a stream that is restored.
pub fn needs(tokenizer: Option<&Bound<'_, Tokenizer>>, sealer: Option<&Bound<'_, ReasoningSealer>>) -> Needs {
    Needs {
        tokenizer: tokenizer.map(|tokenizer| tokenizer.get().0.clone()),
        sealer: sealer.map(|sealer| sealer.get().0.clone()),
        clock: Some(now),
    }
}

/// A class that never changes is its own copy.
macro_rules! copied {
    ($Class:ident) => {
        #[pymethods]
        impl $Class {
            fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
                slf
            }

            fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
                slf
            }
        }
    };
}

/// Such a class that is pickled as its value. `make` makes the object of another class than that of the value.
macro_rules! record {
    ($Class:ident) => {
        $crate::save::record!($Class, |_py, value| Ok(Self(value)), Self);
    };
    ($Class:ident, |$py:ident, $value:ident| $make:expr, $Made:ty) => {
        $crate::save::copied!($Class);

        #[pymethods]
        impl $Class {
            fn __reduce__<'py>(slf: &Bound<'py, Self>) -> $crate::save::Reduced<'py, (Bound<'py, PyBytes>,)> {
                let bytes = $crate::save::bytes(slf, &slf.get().0)?;
                $crate::save::reduced(slf, "_restore", (bytes,))
            }

            #[classmethod]
            fn _restore<'py>(class: &Bound<'py, PyType>, data: &[u8]) -> PyResult<$Made> {
                let $py = class.py();
                let $value = $crate::save::value($py, data)?;
                $make
            }
        }
    };
}

/// A class whose state is behind a lock, pickled and copied as what it is now.
macro_rules! changing {
    ($Class:ident) => {
        #[pymethods]
        impl $Class {
            fn __copy__(&self, py: Python<'_>) -> Self {
                Self(Mutex::new(lock::state(py, &self.0).clone()))
            }

            fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Self {
                self.__copy__(py)
            }

            fn __reduce__<'py>(slf: &Bound<'py, Self>) -> $crate::save::Reduced<'py, (Bound<'py, PyBytes>,)> {
                let bytes = $crate::save::bytes(slf, &*lock::state(slf.py(), &slf.get().0))?;
                $crate::save::reduced(slf, "_restore", (bytes,))
            }

            #[classmethod]
            fn _restore(class: &Bound<'_, PyType>, data: &[u8]) -> PyResult<Self> {
                $crate::save::value(class.py(), data).map(|value| Self(Mutex::new(value)))
            }
        }
    };
}
pub(crate) use {changing, copied, record};
