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

/// What the classes have whose state is behind a lock and can be cloned: a copy goes on by itself.
macro_rules! forked {
    ($Class:ident) => {
        #[pymethods]
        impl $Class {
            fn __copy__(&self, py: Python<'_>) -> Self {
                Self(Mutex::new(lock::state(py, &self.0).clone()))
            }

            fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Self {
                self.__copy__(py)
            }
        }
    };
}

/// Such a class that is pickled as what it is now.
macro_rules! changing {
    ($Class:ident) => {
        $crate::save::forked!($Class);

        #[pymethods]
        impl $Class {
            fn __reduce__<'py>(slf: &Bound<'py, Self>) -> $crate::save::Reduced<'py, (Bound<'py, PyBytes>,)> {
                let value = lock::state(slf.py(), &slf.get().0).clone();
                $crate::save::reduced(slf, "_restore", ($crate::save::bytes(slf, &value)?,))
            }

            #[classmethod]
            fn _restore(class: &Bound<'_, PyType>, data: &[u8]) -> PyResult<Self> {
                $crate::save::value(class.py(), data).map(|value| Self(Mutex::new(value)))
            }
        }
    };
}

/// Such a class whose state is an [`Output`](crate::reply::Output): it is also saved and restored. `keeps`: the output
/// has the complete response.
macro_rules! stream {
    ($Class:ident, keeps: $keeps:literal) => {
        $crate::save::forked!($Class);

        #[pymethods]
        impl $Class {
            /// Returns the state as bytes.
            fn save<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
                let data = lock::state(py, &self.0).save();
                PyBytes::new(py, &data)
            }

            /// Returns the stream that `save` made these bytes of.
            #[classmethod]
            #[pyo3(signature = (data, tokenizer=None, *, reasoning_sealer=None))]
            fn restore(
                class: &Bound<'_, PyType>,
                data: &[u8],
                tokenizer: Option<&Bound<'_, Tokenizer>>,
                reasoning_sealer: Option<&Bound<'_, $crate::seal::ReasoningSealer>>,
            ) -> PyResult<Self> {
                let needs = $crate::save::needs(tokenizer, reasoning_sealer);
                let output = $crate::reply::restore(data, needs, $keeps);
                output.map(|output| Self(Mutex::new(output))).map_err(|error| $crate::error::raise(class.py(), error))
            }

            fn __reduce__<'py>(
                slf: &Bound<'py, Self>,
            ) -> $crate::save::Reduced<'py, (Bound<'py, PyBytes>, Option<Tokenizer>)> {
                let output = lock::state(slf.py(), &slf.get().0).clone();
                if output.is_sealed() {
                    return Err($crate::save::sealed(slf));
                }
                let data = PyBytes::new(slf.py(), &output.save());
                $crate::save::reduced(slf, "restore", (data, output.processor().tokenizer().cloned().map(Tokenizer)))
            }
        }
    };
}
pub(crate) use {changing, copied, forked, record, stream};
