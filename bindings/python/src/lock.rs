//! When work gives up the interpreter lock, and how objects with a state are locked. Knows no work.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::marker::Ungil;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

// Shorter texts take less time than the lock costs when others want it.
const LONG: usize = 4096;

/// Does work on a text of this many bytes, without the interpreter lock if that is long.
pub fn work<T: Ungil>(py: Python<'_>, bytes: usize, work: impl Ungil + FnOnce() -> T) -> T {
    if bytes < LONG {
        work()
    } else {
        py.detach(work)
    }
}

/// The state of an object. Another thread may hold it without the interpreter lock.
pub fn state<'a, T>(py: Python<'_>, state: &'a Mutex<T>) -> MutexGuard<'a, T> {
    // A panic is a bug that was reported already; the state is no worse for it than for any other.
    state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
}
