//! Images for Python: the records around them and what they cost. What would fetch and resize them says
//! that it does not; nothing here opens a connection or reads a pixel.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyNotImplementedError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use recipe_core::conversation::ImageDetail;
use recipe_core::image::tokens::image_tokens;

use crate::conversation::{image_detail, ImageSource};
use crate::text::Text;

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

/// An image as the engine gets it: the bytes of its file and its size in pixels.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ImageInfo {
    data: Vec<u8>,
    width: u32,
    height: u32,
}

#[pymethods]
impl ImageInfo {
    #[new]
    fn new(data: Vec<u8>, width: u32, height: u32) -> Self {
        Self { data, width, height }
    }

    /// The bytes of the file.
    #[getter]
    fn data(&self) -> &[u8] {
        &self.data
    }

    /// The width in pixels.
    #[getter]
    fn width(&self) -> u32 {
        self.width
    }

    /// The height in pixels.
    #[getter]
    fn height(&self) -> u32 {
        self.height
    }
}

/// Images in the order of their placeholders.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct MultiModalData(Vec<Py<ImageInfo>>);

#[pymethods]
impl MultiModalData {
    #[new]
    #[pyo3(signature = (images=None))]
    fn new(images: Option<Vec<Py<ImageInfo>>>) -> Self {
        Self(images.unwrap_or_default())
    }

    /// The images, as a new list.
    #[getter]
    fn images(&self, py: Python<'_>) -> Vec<Py<ImageInfo>> {
        self.0.iter().map(|image| image.clone_ref(py)).collect()
    }

    /// Returns whether there is no image.
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many more tokens the prompt has when every placeholder is expanded.
    fn image_token_adjustment(&self) -> PyResult<u64> {
        let more = |image: &Py<ImageInfo>| {
            let image = image.get();
            let tokens = image_tokens(image.width, image.height).map(|tokens| tokens - 1);
            tokens.ok_or_else(|| CalcResizeError::new_err("image resize does not converge"))
        };
        self.0.iter().map(more).sum()
    }
}

/// What the images of one request have used of its limits.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ImageQuota;

#[pymethods]
impl ImageQuota {
    #[new]
    fn new() -> Self {
        Self
    }

    /// Returns how many bytes were recorded: none, since no image is resolved.
    fn byte_size(&self) -> u64 {
        0
    }

    /// Returns how many images were recorded: none, since no image is resolved.
    fn image_count(&self) -> u64 {
        0
    }
}

/// How to resize an image.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct PreprocessOptions {
    detail: ImageDetail,
    max_dimension_px: u32,
    low_detail_max_dimension_px: u32,
}

#[pymethods]
impl PreprocessOptions {
    #[new]
    fn new(detail: &str, max_dimension_px: u32, low_detail_max_dimension_px: u32) -> PyResult<Self> {
        Ok(Self { detail: image_detail(detail)?, max_dimension_px, low_detail_max_dimension_px })
    }

    /// The level that the request asks for.
    #[getter]
    fn detail(&self) -> &'static str {
        self.detail.as_str()
    }

    /// The longest side that is taken, in pixels.
    #[getter]
    fn max_dimension_px(&self) -> u32 {
        self.max_dimension_px
    }

    /// The longest side at low detail, in pixels.
    #[getter]
    fn low_detail_max_dimension_px(&self) -> u32 {
        self.low_detail_max_dimension_px
    }
}

/// Would download images. What it is told is checked and not kept.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ReqwestImageFetcher;

#[pymethods]
#[allow(unused_variables)] // The names are the signatures.
impl ReqwestImageFetcher {
    #[new]
    fn new() -> Self {
        Self
    }

    /// Returns a fetcher with a limit of one image.
    #[staticmethod]
    fn with_max_bytes(max_bytes: usize) -> Self {
        Self
    }

    /// Returns a fetcher that asks before it connects.
    fn with_destination_filter(&self, destination_filter: &Bound<'_, PyAny>) -> PyResult<Self> {
        if !destination_filter.is_callable() {
            return Err(PyTypeError::new_err("destination_filter must be callable"));
        }
        Ok(Self)
    }

    /// Would download an image.
    fn fetch(&self, url: Text) -> PyResult<Vec<u8>> {
        Err(PyNotImplementedError::new_err("this package downloads nothing: fetch the image by other means"))
    }
}

/// Would resize images.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct OpenCvImagePreprocessor;

#[pymethods]
#[allow(unused_variables)] // The names are the signatures.
impl OpenCvImagePreprocessor {
    #[new]
    fn new() -> Self {
        Self
    }

    /// Would resize an image.
    fn preprocess(&self, data: Vec<u8>, options: &PreprocessOptions) -> PyResult<ImageInfo> {
        Err(PyNotImplementedError::new_err("this version resizes no images: make the ImageInfo by other means"))
    }
}

/// Would fetch and resize images.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ImageResolver;

#[pymethods]
#[allow(unused_variables)] // The names are the signatures.
impl ImageResolver {
    #[new]
    fn new(fetcher: &ReqwestImageFetcher, preprocessor: &OpenCvImagePreprocessor) -> Self {
        Self
    }

    /// Returns the images of the sources: there must be none.
    fn resolve(&self, sources: Vec<Bound<'_, ImageSource>>, quota: &ImageQuota) -> PyResult<MultiModalData> {
        if !sources.is_empty() {
            let text = "this version resolves no images: fetch and resize them by other means, and pass MultiModalData";
            return Err(PyNotImplementedError::new_err(text));
        }
        Ok(MultiModalData(Vec::new()))
    }
}
