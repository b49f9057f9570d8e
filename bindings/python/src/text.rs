//! Strings that come in from Python: texts, and names among a few. Knows nothing of what they mean.

use std::borrow::Cow;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// A string argument. Half a surrogate pair, which a Python string can hold and UTF-8 cannot,
/// becomes U+FFFD.
#[derive(Clone, Default)]
pub struct Text(pub String);

impl<'a, 'py> FromPyObject<'a, 'py> for Text {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(read(&*object.cast::<PyString>()?)?.into_owned()))
    }
}

/// The strings of a list of arguments.
pub fn strings(texts: Vec<Text>) -> Vec<String> {
    texts.into_iter().map(|text| text.0).collect()
}

/// The text of a Python string, borrowed unless it holds half a surrogate pair.
pub fn read<'a>(string: &'a Bound<'_, PyString>) -> PyResult<Cow<'a, str>> {
    // The common case costs no call into the interpreter: the UTF-8 form is kept in the object.
    match string.to_str() {
        Ok(text) => Ok(Cow::Borrowed(text)),
        Err(_) => replace_halves(string).map(Cow::Owned),
    }
}

fn replace_halves(string: &Bound<'_, PyString>) -> PyResult<String> {
    // The method of `str` itself: a subclass may have its own.
    let encoded = string.py().get_type::<PyString>().call_method1("encode", (string, "utf-8", "surrogatepass"))?;
    let mut bytes = encoded.cast::<PyBytes>()?.as_bytes().to_vec();
    // Each half is written as ED A0..BF xx, which is as long as U+FFFD.
    for at in 0..bytes.len().saturating_sub(2) {
        if bytes[at] == 0xED && bytes[at + 1] >= 0xA0 {
            bytes[at..at + 3].copy_from_slice("\u{FFFD}".as_bytes());
        }
    }
    String::from_utf8(bytes).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The value of a name among `choices`, or `invalid ARGUMENT "NAME"; expected "A", "B", or "C"`.
pub fn choose<T: Copy>(argument: &str, name: &str, choices: &[T], name_of: fn(T) -> &'static str) -> PyResult<T> {
    if let Some(choice) = choices.iter().find(|choice| name_of(**choice) == name) {
        return Ok(*choice);
    }
    let names: Vec<String> = choices.iter().map(|choice| format!("{:?}", name_of(*choice))).collect();
    let expected = match names.as_slice() {
        [first, second] => format!("{first} or {second}"),
        [first @ .., last] => format!("{}, or {last}", first.join(", ")),
        [] => String::new(),
    };
    Err(PyValueError::new_err(format!("invalid {argument} {name:?}; expected {expected}")))
}
