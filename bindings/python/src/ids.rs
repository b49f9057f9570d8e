//! Ids for Python: as a buffer, and as a list of shared integers. Knows no tokenizer.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView};

/// Ids as a read-only buffer of uint32. A memoryview is one that the stable ABI can make from any bytes.
pub fn buffer<'py>(py: Python<'py>, ids: &[u32]) -> PyResult<Bound<'py, PyAny>> {
    let bytes = PyBytes::new_with(py, size_of_val(ids), |bytes| {
        for (place, id) in bytes.chunks_exact_mut(4).zip(ids) {
            place.copy_from_slice(&id.to_ne_bytes());
        }
        Ok(())
    })?;
    PyMemoryView::from(&bytes)?.call_method1("cast", ("I",))
}

/// The integers below this are made once, when they are first needed: as many as the released vocabularies have ids.
const SHARED: usize = 129_280;

/// The shared integers, or null. The references that this table owns are never given back.
static INTEGERS: [AtomicPtr<PyObject>; SHARED] = [const { AtomicPtr::new(null_mut()) }; SHARED];

/// Ids as a list of `int`. Making an integer costs ten times as much as pointing to one that is there.
pub fn list<'py>(py: Python<'py>, ids: &[u32]) -> PyResult<Bound<'py, PyList>> {
    // SAFETY: the interpreter is attached. An error is checked for before the list is used. Until it is filled, no
    // one else knows the list: SetItem gets a place that it has, and a reference that it takes over.
    unsafe {
        let list = Bound::from_owned_ptr_or_err(py, ffi::PyList_New(ids.len() as ffi::Py_ssize_t))?;
        for (at, &id) in (0..).zip(ids) {
            ffi::PyList_SetItem(list.as_ptr(), at, integer(py, id)?.into_ptr());
        }
        Ok(list.cast_into_unchecked())
    }
}

#[inline(always)]
fn integer(py: Python<'_>, id: u32) -> PyResult<Bound<'_, PyAny>> {
    let made = INTEGERS.get(id as usize).map_or(null_mut(), |place| place.load(Ordering::Acquire));
    if made.is_null() {
        return make_integer(py, id);
    }
    // SAFETY: what is in the table is an object that the table owns a reference to, for good.
    Ok(unsafe { Bound::from_borrowed_ptr(py, made) })
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
