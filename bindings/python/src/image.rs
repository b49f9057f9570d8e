//! Images for Python: what fetches and resizes them, the records around that, and what they cost.

use std::net::IpAddr;
use std::time::Duration;

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBool;
use recipe_core::conversation;
use recipe_core::image as core;
use recipe_core::image::fetch::ImageFetcher;
use recipe_core::image::tokens;

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

/// The exception of an error of the core.
fn raise(py: Python<'_>, error: core::ImageError) -> PyErr {
    let raised = ImageError::new_err(error.to_string());
    let value = raised.value(py);
    let kind = value.setattr("kind", error.kind().as_str());
    match kind.and_then(|()| value.setattr("is_retryable", error.is_retryable())) {
        Ok(()) => raised,
        Err(failed) => failed,
    }
}

fn no_size() -> PyErr {
    CalcResizeError::new_err("image resize does not converge")
}

/// An image as the engine gets it: the bytes of its file and its size in pixels.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ImageInfo(core::ImageInfo);

#[pymethods]
impl ImageInfo {
    #[new]
    fn new(data: Vec<u8>, width: u32, height: u32) -> Self {
        Self(core::ImageInfo { data, width, height })
    }

    /// The bytes of the file.
    #[getter]
    fn data(&self) -> &[u8] {
        &self.0.data
    }

    /// The width in pixels.
    #[getter]
    fn width(&self) -> u32 {
        self.0.width
    }

    /// The height in pixels.
    #[getter]
    fn height(&self) -> u32 {
        self.0.height
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
            let image = &image.get().0;
            tokens::image_tokens(image.width, image.height).map(|tokens| tokens - 1).ok_or_else(no_size)
        };
        self.0.iter().map(more).sum()
    }
}

/// What the images of one request have used of its limits.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ImageQuota(core::ImageQuota);

#[pymethods]
impl ImageQuota {
    #[new]
    fn new() -> Self {
        Self(core::ImageQuota::default())
    }

    /// Returns how many bytes the files of the resolved images had.
    fn byte_size(&self) -> u64 {
        self.0.byte_size()
    }

    /// Returns how many images were resolved.
    fn image_count(&self) -> usize {
        self.0.image_count()
    }
}

/// How to resize an image.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct PreprocessOptions(core::PreprocessOptions);

#[pymethods]
impl PreprocessOptions {
    #[new]
    fn new(detail: &str, max_dimension_px: u32, low_detail_max_dimension_px: u32) -> PyResult<Self> {
        let detail = image_detail(detail)?;
        Ok(Self(core::PreprocessOptions { detail, max_dimension_px, low_detail_max_dimension_px }))
    }

    /// The level that the request asks for.
    #[getter]
    fn detail(&self) -> &'static str {
        self.0.detail.as_str()
    }

    /// The longest side that is taken, in pixels.
    #[getter]
    fn max_dimension_px(&self) -> u32 {
        self.0.max_dimension_px
    }

    /// The longest side at low detail, in pixels.
    #[getter]
    fn low_detail_max_dimension_px(&self) -> u32 {
        self.0.low_detail_max_dimension_px
    }
}

/// The limits of a request's images.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ImageLimits(core::ImageLimits);

#[pymethods]
impl ImageLimits {
    #[new]
    #[pyo3(signature = (*, images=None, image_bytes=None, total_bytes=None, total_pixels=None, dimension_px=None,
        many_images=None, dimension_px_of_many=None, low_detail_dimension_px=None, url_bytes=None, at_a_time=None,
        download_seconds=None))]
    #[allow(clippy::too_many_arguments)] // One for each limit, by keyword.
    fn new(
        images: Option<usize>,
        image_bytes: Option<usize>,
        total_bytes: Option<u64>,
        total_pixels: Option<u64>,
        dimension_px: Option<u32>,
        many_images: Option<usize>,
        dimension_px_of_many: Option<u32>,
        low_detail_dimension_px: Option<u32>,
        url_bytes: Option<usize>,
        at_a_time: Option<usize>,
        download_seconds: Option<f64>,
    ) -> PyResult<Self> {
        let default = core::ImageLimits::default();
        let download_time = download_seconds.map_or(Ok(default.download_time), Duration::try_from_secs_f64);
        Ok(Self(core::ImageLimits {
            images: images.unwrap_or(default.images),
            image_bytes: image_bytes.unwrap_or(default.image_bytes),
            total_bytes: total_bytes.unwrap_or(default.total_bytes),
            total_pixels: total_pixels.unwrap_or(default.total_pixels),
            dimension_px: dimension_px.unwrap_or(default.dimension_px),
            many_images: many_images.unwrap_or(default.many_images),
            dimension_px_of_many: dimension_px_of_many.unwrap_or(default.dimension_px_of_many),
            low_detail_dimension_px: low_detail_dimension_px.unwrap_or(default.low_detail_dimension_px),
            url_bytes: url_bytes.unwrap_or(default.url_bytes),
            at_a_time: at_a_time.unwrap_or(default.at_a_time),
            download_time: download_time.map_err(|error| PyValueError::new_err(error.to_string()))?,
        }))
    }
}

/// Downloads images from public addresses.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ReqwestImageFetcher(ImageFetcher);

#[pymethods]
impl ReqwestImageFetcher {
    #[new]
    fn new() -> Self {
        Self(ImageFetcher::default())
    }

    /// Returns a fetcher with a limit of one image.
    #[staticmethod]
    fn with_max_bytes(max_bytes: usize) -> Self {
        Self(ImageFetcher::default().with_max_bytes(max_bytes))
    }

    /// Returns a fetcher that connects to addresses that are not public, too.
    fn with_internal_addresses(&self) -> Self {
        Self(self.0.clone().with_internal_addresses())
    }

    /// Returns a fetcher that asks before it connects.
    fn with_destination_filter(&self, destination_filter: Bound<'_, PyAny>) -> PyResult<Self> {
        if !destination_filter.is_callable() {
            return Err(PyTypeError::new_err("destination_filter must be callable"));
        }
        let filter = destination_filter.unbind();
        let allows = move |host: &str, address| Python::attach(|py| allows(filter.bind(py), host, address));
        Ok(Self(self.0.clone().with_destination_filter(allows)))
    }

    /// Downloads an image.
    fn fetch(&self, py: Python<'_>, url: Text) -> PyResult<Vec<u8>> {
        py.detach(|| self.0.fetch(&url.0)).map_err(|error| raise(py, error))
    }
}

/// What a filter says. One that raises, or says neither `True` nor `False`, refuses.
fn allows(filter: &Bound<'_, PyAny>, host: &str, address: IpAddr) -> bool {
    match filter.call1((host, address.to_string())) {
        Ok(answer) => answer.cast::<PyBool>().is_ok_and(|answer| answer.is_true()),
        Err(error) => {
            error.write_unraisable(filter.py(), Some(filter));
            false
        }
    }
}

/// Resizes images.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct OpenCvImagePreprocessor;

#[pymethods]
impl OpenCvImagePreprocessor {
    #[new]
    fn new() -> Self {
        Self
    }

    /// Brings an image to a size that the model takes.
    fn preprocess(&self, py: Python<'_>, data: Vec<u8>, options: &PreprocessOptions) -> PyResult<ImageInfo> {
        py.detach(|| core::preprocess(&data, &options.0)).map(ImageInfo).map_err(|error| raise(py, error))
    }
}

/// Fetches and resizes the images of a request.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ImageResolver {
    fetcher: ImageFetcher,
    limits: core::ImageLimits,
}

#[pymethods]
impl ImageResolver {
    #[new]
    #[pyo3(signature = (fetcher, preprocessor, *, limits=None))]
    fn new(
        fetcher: &ReqwestImageFetcher,
        #[allow(unused_variables)] preprocessor: &OpenCvImagePreprocessor, // There is but one way.
        limits: Option<&ImageLimits>,
    ) -> Self {
        let limits = limits.map(|limits| limits.0.clone()).unwrap_or_default();
        Self { fetcher: fetcher.0.clone(), limits }
    }

    /// Returns the images of the sources.
    fn resolve(
        &self,
        py: Python<'_>,
        sources: Vec<Bound<'_, ImageSource>>,
        quota: &ImageQuota,
    ) -> PyResult<MultiModalData> {
        self.call(py, &sources, quota, core::resolve)
    }

    /// Returns the images of the sources without their pixels.
    fn measure(
        &self,
        py: Python<'_>,
        sources: Vec<Bound<'_, ImageSource>>,
        quota: &ImageQuota,
    ) -> PyResult<MultiModalData> {
        self.call(py, &sources, quota, core::measure)
    }
}

/// `resolve` or `measure`.
type Work = fn(
    &[&conversation::ImageSource],
    &core::ImageQuota,
    &core::ImageLimits,
    core::Download<'_>,
) -> Result<Vec<core::ImageInfo>, core::ImageError>;

impl ImageResolver {
    fn call(
        &self,
        py: Python<'_>,
        sources: &[Bound<'_, ImageSource>],
        quota: &ImageQuota,
        work: Work,
    ) -> PyResult<MultiModalData> {
        let sources: Vec<_> = sources.iter().map(|source| source.get().source()).collect();
        let download = self.fetcher.downloads(&self.limits);
        let images = py.detach(|| work(&sources, &quota.0, &self.limits, &download));
        let images = images.map_err(|error| raise(py, error))?;
        images.into_iter().map(|image| Py::new(py, ImageInfo(image))).collect::<PyResult<_>>().map(MultiModalData)
    }
}

/// Returns the width and height of an image in pixels.
#[pyfunction]
pub fn image_size(py: Python<'_>, data: Vec<u8>) -> PyResult<(u32, u32)> {
    core::size_from_header(&data).map_err(|error| raise(py, error))
}

/// Returns how many tokens an image of this size costs.
#[pyfunction]
#[pyo3(signature = (width, height, detail="high"))]
pub fn image_tokens(width: u32, height: u32, detail: &str) -> PyResult<u64> {
    core::tokens_at_detail(width, height, image_detail(detail)?).ok_or_else(no_size)
}
