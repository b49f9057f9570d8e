//! Names that users of the package import already, for parts that the core does not have yet.
//! Each class says so when it is called; nothing else is here.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyNotImplementedError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

create_exception!(
    deepseek_recipe._native,
    ImageError,
    PyException,
    "An image that cannot be had, read or resized.\n\n`kind` is a word for programs, and `is_retryable` says whether a \
     second try may help."
);

create_exception!(
    deepseek_recipe._native,
    CalcResizeError,
    PyValueError,
    "The size of an image does not converge to an allowed count of tokens."
);

macro_rules! later {
    ($what:literal: $($name:ident),+ $(,)?) => {
        $(
            #[doc = concat!("Waits for ", $what, ".")]
            #[pyclass(frozen, module = "deepseek_recipe._native")]
            pub struct $name;

            #[pymethods]
            impl $name {
                #[new]
                #[pyo3(signature = (*args, **kwargs))]
                #[allow(unused_variables)] // Whatever the arguments are.
                fn new(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
                    let text = concat!(stringify!($name), " waits for ", $what, ", which this version does not have");
                    Err(PyNotImplementedError::new_err(text))
                }
            }
        )+
    };
}

later! { "the Messages protocol": MessagesChunkGenerator, MessagesRequest, MessagesResponse, MessagesStreamEvent }

later! {
    "the Responses protocol": ResponsesChunkGenerator, ResponsesEcho, ResponsesRequest, ResponsesResponse,
    ResponsesStreamEvent
}

later! {
    "fetching and resizing of images": ImageInfo, ImageQuota, ImageResolver, MultiModalData, OpenCvImagePreprocessor,
    PreprocessOptions, ReqwestImageFetcher
}
