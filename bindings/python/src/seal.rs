//! Sealed reasoning for Python. Knows no format.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use recipe_core::seal as core;

use crate::error::raise;
use crate::options::ModelVersion;
use crate::reply::random;
use crate::save::copied;
use crate::text::Text;

/// Seals reasoning for clients that carry it without reading it, and opens it when it comes back.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ReasoningSealer(pub core::ReasoningSealer);

// Keys are not pickled.
copied!(ReasoningSealer);

#[pymethods]
impl ReasoningSealer {
    #[new]
    #[pyo3(signature = (key, *older_keys))]
    fn new(py: Python<'_>, key: Vec<u8>, older_keys: Vec<Vec<u8>>) -> PyResult<Self> {
        let keys: Result<Vec<[u8; 32]>, _> = std::iter::once(key).chain(older_keys).map(TryInto::try_into).collect();
        let keys = keys.map_err(|_| PyValueError::new_err("a key has 32 bytes"))?;
        core::ReasoningSealer::new(&keys).map(Self).map_err(|error| raise(py, error))
    }

    /// Seals the reasoning of a model.
    fn seal(&self, reasoning: Text, version: ModelVersion) -> String {
        let mut nonce = [0; 12];
        nonce.copy_from_slice(&random().to_le_bytes()[..12]);
        self.0.seal(&reasoning.0, version.into(), nonce)
    }

    /// Opens what `seal` returned, for a model of the same family; `None` for everything else.
    fn open(&self, sealed: Text, version: ModelVersion) -> Option<String> {
        self.0.open(&sealed.0, version.into())
    }
}
