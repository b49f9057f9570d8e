//! Python objects as JSON values, and back. Knows nothing of what a value means.

use std::borrow::Cow;
use std::fmt::Write;

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
    Ok(Number::from_integer_digits(&digits(integer)?))
}

// Python refuses to read or write more than some thousand digits at once, a limit that can be set
// but not below 640. Longer integers are put together from parts of this many digits.
const PART: usize = 512;

/// The decimal digits of an integer, however many. Takes quadratic time, as any division of
/// Python's: no text from outside makes such an integer unless the caller lifts Python's limit.
fn digits(integer: &Bound<'_, PyInt>) -> PyResult<String> {
    let kind = integer.py().get_type::<PyInt>();
    // The method of `int` itself: an enumeration has its own ones.
    let integer = kind.call_method1("__int__", (integer,))?;
    let negative = integer.lt(0)?;
    let size = if negative { integer.neg()? } else { integer };
    let mut power = kind.call1((10,))?.pow(PART, None::<i32>)?;
    let mut powers = Vec::new();
    while power.le(&size)? {
        let next = power.mul(&power)?;
        powers.push(power);
        power = next;
    }
    let mut parts = vec![size];
    for power in powers.iter().rev() {
        let mut halves = Vec::with_capacity(2 * parts.len());
        for part in parts {
            let (high, low) = part.divmod(power)?.extract()?;
            halves.extend([high, low]);
        }
        parts = halves;
    }
    let mut digits = String::with_capacity(PART * parts.len());
    for part in parts {
        let part = part.str()?;
        let _ = write!(digits, "{:0>PART$}", read(&part)?);
    }
    let digits = digits.trim_start_matches('0');
    Ok(if negative { format!("-{digits}") } else { digits.to_owned() })
}

/// The integer of decimal digits, however many, with a sign if negative. Neighbouring parts are
/// joined pair by pair, so that the time is that of a few large products.
fn integer<'py>(py: Python<'py>, digits: &str) -> PyResult<Bound<'py, PyAny>> {
    let kind = py.get_type::<PyInt>();
    let (negative, digits) = match digits.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, digits),
    };
    // The last digits come first.
    let parts = digits.as_bytes().rchunks(PART).map(|part| kind.call1((part,)));
    let mut parts: Vec<Bound<'_, PyAny>> = parts.collect::<PyResult<_>>()?;
    let mut power = kind.call1((10,))?.pow(PART, None::<i32>)?;
    while parts.len() > 1 {
        let join = |pair: &[Bound<'py, PyAny>]| match pair {
            [low, high] => high.mul(&power)?.add(low),
            rest => Ok(rest[0].clone()),
        };
        parts = parts.chunks(2).map(join).collect::<PyResult<_>>()?;
        if parts.len() > 1 {
            power = power.mul(&power)?;
        }
    }
    let size = parts.swap_remove(0);
    if negative {
        size.neg()
    } else {
        Ok(size)
    }
}

/// The Python object of a JSON value.
pub fn to_python<'py>(py: Python<'py>, value: &Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(truth) => PyBool::new(py, *truth).to_owned().into_any(),
        Value::Number(Number::Unsigned(integer)) => integer.into_pyobject(py)?.into_any(),
        Value::Number(Number::Negative(integer)) => integer.into_pyobject(py)?.into_any(),
        Value::Number(Number::Wide(digits)) => integer(py, digits)?,
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
