//! Ids for Python: as a sequence that is a buffer, and as a list of shared integers. Knows no tokenizer.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyIterator, PyList, PyMemoryView, PyString, PyTuple, PyType};

use crate::save::copied;

/// Ids as a read-only sequence. What a memoryview of uint32 has, it has too.
///
/// The class that Python sees is [`class`]: this one, and a buffer.
#[pyclass(frozen, subclass, name = "_TokenIds", module = "deepseek_recipe._native")]
pub struct TokenIds {
    data: Py<PyBytes>,
    /// The data as uint32.
    view: Py<PyAny>,
}

copied!(TokenIds);

#[pymethods]
impl TokenIds {
    #[new]
    fn new(data: Bound<'_, PyBytes>) -> PyResult<Self> {
        if data.as_bytes().len() % size_of::<u32>() != 0 {
            return Err(PyValueError::new_err("an id takes four bytes"));
        }
        let view = PyMemoryView::from(&data)?.call_method1("cast", ("I",))?;
        Ok(Self { data: data.unbind(), view: view.unbind() })
    }

    /// Returns the ids as a list of shared integers, several times as fast as a memoryview makes one.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let ids = self.data.as_bytes(py).chunks_exact(size_of::<u32>());
        filled(py, ids.len(), ids.map(|id| u32::from_ne_bytes(id.try_into().expect("an id takes four bytes"))))
    }

    /// Returns the place of the first of these ids.
    #[pyo3(signature = (*arguments))]
    fn index<'py>(&self, arguments: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        self.tolist(arguments.py())?.call_method1("index", arguments)
    }

    /// Returns how often an id is there.
    fn count<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.tolist(value.py())?.call_method1("count", (value,))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.data.as_bytes(py).len() / size_of::<u32>()
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.view.bind(key.py()).get_item(key)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.tolist(py)?.try_iter()
    }

    fn __reversed__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.tolist(py)?.call_method0("__reversed__")
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.view.bind(other.py()).eq(other)
    }

    fn __getattr__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        self.view.bind(name.py()).getattr(name)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("TokenIds(<{} ids>)", self.__len__(py))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (Bound<'py, PyBytes>,)) {
        (slf.get_type(), (slf.get().data.bind(slf.py()).clone(),))
    }
}

extern "C" {
    // In the stable ABI since Python 3.11, and of the same form before.
    fn PyObject_GetBuffer(exporter: *mut PyObject, view: *mut c_void, flags: c_int) -> c_int;
}

/// The buffer of ids is that of their view: it belongs to the view, which lives as long as the buffer.
///
/// # Safety
///
/// As the slot `bf_getbuffer` of [`class`]: the interpreter is attached, and the first argument is an object of it.
unsafe extern "C" fn get_buffer(ids: *mut PyObject, view: *mut c_void, flags: c_int) -> c_int {
    // SAFETY: as the caller says; the class is a subclass of `TokenIds`. The other arguments are passed on.
    unsafe {
        let ids = Borrowed::from_ptr(Python::assume_attached(), ids).cast_unchecked::<TokenIds>();
        PyObject_GetBuffer(ids.get().view.as_ptr(), view, flags)
    }
}

/// The class of ids for Python: [`TokenIds`] and a buffer, which PyO3 cannot say for Python 3.10.
pub fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let made = CLASS.get_or_try_init(py, || {
        let doc: *const c_char = c"Ids as a read-only sequence and buffer of uint32.".as_ptr();
        let mut slots = [
            ffi::PyType_Slot { slot: ffi::Py_bf_getbuffer, pfunc: get_buffer as *mut c_void },
            ffi::PyType_Slot { slot: ffi::Py_tp_doc, pfunc: doc.cast_mut().cast() },
            ffi::PyType_Slot { slot: 0, pfunc: null_mut() },
        ];
        let mut spec = ffi::PyType_Spec {
            name: c"deepseek_recipe._native.TokenIds".as_ptr(),
            // As large as the base.
            basicsize: 0,
            itemsize: 0,
            flags: ffi::Py_TPFLAGS_DEFAULT as c_uint,
            slots: slots.as_mut_ptr(),
        };
        let bases = PyTuple::new(py, [py.get_type::<TokenIds>()])?;
        // SAFETY: the interpreter is attached, and an error is checked for. The name is static, all else is copied. The
        // slot holds a function of its kind.
        let class = unsafe {
            let class = ffi::PyType_FromSpecWithBases(&mut spec, bases.as_ptr());
            Bound::from_owned_ptr_or_err(py, class)?
        };
        Ok::<_, PyErr>(class.cast_into::<PyType>()?.unbind())
    })?;
    Ok(made.bind(py))
}

/// Ids as an object of [`class`].
pub fn buffer<'py>(py: Python<'py>, ids: &[u32]) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: four bytes are an id of whatever value, and lie where bytes may.
    let data = unsafe { std::slice::from_raw_parts(ids.as_ptr().cast::<u8>(), size_of_val(ids)) };
    class(py)?.call1((PyBytes::new(py, data),))
}

thread_local! {
    static SPACE: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
}

/// A thread keeps space for this many ids.
const MOST_KEPT: usize = 1 << 21;

/// What `work` returns, which may write ids to space that the thread keeps for the next call: to touch memory for the first
/// time takes longer than to write ids to it.
pub fn with_space<T>(work: impl FnOnce(&mut Vec<u32>) -> T) -> T {
    let mut ids = SPACE.take();
    ids.clear();
    let result = work(&mut ids);
    if ids.capacity() <= MOST_KEPT {
        SPACE.set(ids);
    }
    result
}

/// The integers below this are made once, when they are first needed: as many as the released vocabularies have ids.
const SHARED: usize = 129_280;

/// The shared integers, or null. The references that this table owns are never given back.
static INTEGERS: [AtomicPtr<PyObject>; SHARED] = [const { AtomicPtr::new(null_mut()) }; SHARED];

/// Ids as a list of `int`. Making an integer costs ten times as much as pointing to one that is there.
pub fn list<'py>(py: Python<'py>, ids: &[u32]) -> PyResult<Bound<'py, PyList>> {
    filled(py, ids.len(), ids.iter().copied())
}

/// A list of this many ids.
fn filled(py: Python<'_>, count: usize, ids: impl Iterator<Item = u32>) -> PyResult<Bound<'_, PyList>> {
    // SAFETY: the interpreter is attached. An error is checked for before the list is used. Until it is filled, no
    // one else knows the list: SetItem refuses a place that it has not, and takes the reference over.
    unsafe {
        let list = Bound::from_owned_ptr_or_err(py, ffi::PyList_New(count as ffi::Py_ssize_t))?;
        for (at, id) in (0..).zip(ids) {
            ffi::PyList_SetItem(list.as_ptr(), at, integer(py, id)?);
        }
        Ok(list.cast_into_unchecked())
    }
}

/// A new reference to an integer.
#[inline(always)]
fn integer(py: Python<'_>, id: u32) -> PyResult<*mut PyObject> {
    let made = INTEGERS.get(id as usize).map_or(null_mut(), |place| place.load(Ordering::Acquire));
    if made.is_null() {
        return make_integer(py, id).map(Bound::into_ptr);
    }
    // SAFETY: what is in the table is an object that the table owns a reference to, for good, and the interpreter is
    // attached. The first is what `Py_INCREF` is in C for the limited API of 3.10: it spares a call for each id.
    unsafe {
        #[cfg(Py_LIMITED_API)]
        {
            (*made).ob_refcnt += 1;
        }
        #[cfg(not(Py_LIMITED_API))]
        ffi::Py_INCREF(made);
    }
    Ok(made)
}

#[cold]
fn make_integer(py: Python<'_>, id: u32) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: the interpreter is attached, and an error is checked for.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyLong_FromUnsignedLongLong(id.into()))? };
    if let Some(place) = INTEGERS.get(id as usize) {
        // Where another thread was first, this integer is one like any other.
        let owned = made.clone().into_ptr();
        if place.compare_exchange(null_mut(), owned, Ordering::Release, Ordering::Relaxed).is_err() {
            // SAFETY: the reference was made just now, and the table has not taken it.
            drop(unsafe { Bound::from_owned_ptr(py, owned) });
        }
    }
    Ok(made)
}
