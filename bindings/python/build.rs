//! Passes on what PyO3 knows of the Python that is built for, for `cfg(Py_LIMITED_API)`.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
