//! Python objects as JSON values, and back. Knows nothing of what a value means.

use std::borrow::Cow;

use pyo3::exceptions::{PyRecursionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use recipe_core::json::{Number, Object, Value};

use crate::text::read;

// One more than JSON text may nest.
const MAX_DEPTH: usize = 128;

/// The JSON value of `None`, `bool`, `int`, `float`, `str`, `list`, `tuple` and `dict` objects.
/// Integers of any size keep their digits. Every other object is a `TypeError`.
pub fn to_value(object: &Bound<'_, PyAny>) -> PyResult<Value<'static>> {
    Reader { open: Vec::new() }.value(object)
}

struct Reader {
    /// The containers around the place that is read, as addresses.
    open: Vec<usize>,
}

impl Reader {
    fn value(&mut self, object: &Bound<'_, PyAny>) -> PyResult<Value<'static>> {
        if let Ok(string) = object.cast::<PyString>() {
            return Ok(Value::String(Cow::Owned(read(string)?.into_owned())));
        }
        if let Ok(dict) = object.cast::<PyDict>() {
            return self.inside(object, |reader| reader.object(dict));
        }
        if let Ok(list) = object.cast::<PyList>() {
            return self.inside(object, |reader| reader.array(list.iter()));
        }
        if let Ok(tuple) = object.cast::<PyTuple>() {
            return self.inside(object, |reader| reader.array(tuple.iter()));
        }
        if let Ok(truth) = object.cast::<PyBool>() {
            return Ok(Value::Bool(truth.is_true()));
        }
        if let Ok(integer) = object.cast::<PyInt>() {
            return Ok(Value::Number(number(integer)?));
        }
        if let Ok(float) = object.cast::<PyFloat>() {
            return match float.value() {
                value if value.is_finite() => Ok(Value::Number(Number::Float(value))),
                value => Err(PyValueError::new_err(format!("{value} is not a finite JSON number"))),
            };
        }
        if object.is_none() {
            return Ok(Value::Null);
        }
        Err(PyTypeError::new_err(format!("{} is not a JSON value", object.get_type().name()?)))
    }

    /// Reads a container, unless it is inside itself or too deep.
    fn inside(
        &mut self,
        container: &Bound<'_, PyAny>,
        read: impl FnOnce(&mut Self) -> PyResult<Value<'static>>,
    ) -> PyResult<Value<'static>> {
        let address = container.as_ptr() as usize;
        if self.open.contains(&address) {
            return Err(PyValueError::new_err("circular reference in JSON input"));
        }
        if self.open.len() == MAX_DEPTH {
            let text = format!("JSON input exceeds the maximum nesting depth of {MAX_DEPTH}");
            return Err(PyRecursionError::new_err(text));
        }
        self.open.push(address);
        let value = read(self)?;
        self.open.pop();
        Ok(value)
    }

    fn array<'py>(&mut self, items: impl Iterator<Item = Bound<'py, PyAny>>) -> PyResult<Value<'static>> {
        items.map(|item| self.value(&item)).collect::<PyResult<_>>().map(Value::Array)
    }

    fn object(&mut self, dict: &Bound<'_, PyDict>) -> PyResult<Value<'static>> {
        // A list of the items: a dict that another thread changes must not be walked.
        let mut members = Vec::with_capacity(dict.len());
        for item in dict.items() {
            let (key, value) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
            let Ok(key) = key.cast::<PyString>() else {
                return Err(PyTypeError::new_err("JSON object keys must be str"));
            };
            members.push((Cow::Owned(read(key)?.into_owned()), self.value(&value)?));
        }
        Ok(Value::Object(Object::from_members(members)))
    }
}

fn number(integer: &Bound<'_, PyInt>) -> PyResult<Number> {
    if let Ok(small) = integer.extract::<i64>() {
        return Ok(match u64::try_from(small) {
            Ok(positive) => Number::Unsigned(positive),
            Err(_) => Number::Negative(small),
        });
    }
    // The method of `int` itself: an enumeration has its own. Python limits how many digits it
    // writes, since its conversion takes quadratic time; past the limit this is a `ValueError`.
    let digits = integer.py().get_type::<PyInt>().call_method1("__repr__", (integer,))?;
    Ok(Number::from_integer_digits(&read(digits.cast::<PyString>()?)?))
}

/// The Python object of a JSON value.
pub fn to_python<'py>(py: Python<'py>, value: &Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(truth) => PyBool::new(py, *truth).to_owned().into_any(),
        Value::Number(Number::Unsigned(integer)) => integer.into_pyobject(py)?.into_any(),
        Value::Number(Number::Negative(integer)) => integer.into_pyobject(py)?.into_any(),
        Value::Number(Number::Wide(digits)) => py.get_type::<PyInt>().call1((&**digits,))?,
        Value::Number(Number::Float(float)) => PyFloat::new(py, *float).into_any(),
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_python(py, item)?)?;
            }
            list.into_any()
        }
        Value::Object(object) => {
            let dict = PyDict::new(py);
            for (key, member) in object.iter() {
                dict.set_item(&**key, to_python(py, member)?)?;
            }
            dict.into_any()
        }
    })
}
