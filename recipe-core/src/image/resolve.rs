//! The images of a request: loaded, checked against its limits, and drawn. Knows no network: what loads a URL is an
//! argument.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use super::decode::Header;
use super::error::{ImageError, ImageErrorKind, Result};
use super::letterbox::Letterbox;
use super::limits::{ImageLimits, ImageQuota, Used};
use super::preprocess::{draw, measured, place, ImageInfo, PreprocessOptions};
use crate::conversation::{ImageData, ImageSource};
use crate::data_url::{starts_with_http, DataUrl};

/// Pixels that may be decoded at a time: those of the largest image that a request may have.
const PIXELS_AT_A_TIME: u64 = 8192 * 8192;
/// Error texts show no more characters of a URL that is none: it may be a whole file.
const SHOWN_URL_CHARS: usize = 256;

/// Loads a URL.
pub type Download<'a> = &'a (dyn Fn(&str) -> Result<Vec<u8>> + Sync);

/// The images of the sources, in their order, as the engine gets them.
///
/// First all are loaded, then all are drawn, each with several threads. Adds to `quota` only if there is no error.
///
/// # Errors
///
/// That of the first source that fails: of those that cannot be loaded, otherwise of those that cannot be drawn.
pub fn resolve(
    sources: &[&ImageSource],
    quota: &ImageQuota,
    limits: &ImageLimits,
    download: Download<'_>,
) -> Result<Vec<ImageInfo>> {
    let images = Loaded::new(sources, quota, limits, download)?;
    let heads = images.heads()?;
    let gate = Gate::new();
    let drawn = in_order(
        &heads,
        limits.decoders(),
        || true,
        |index, head| {
            let (header, place) = head.as_ref().map_err(Clone::clone)?;
            let _pass = gate.pass(header.pixels());
            draw(&images.files[index], header, place)
        },
    );
    images.finish(drawn, &heads)
}

/// The same without pixels: the sizes alone, from the headers, for counting tokens. The limits are the same, and so is
/// what is counted, so that a request is measured with a quota of its own.
///
/// # Errors
///
/// As `resolve`, but for files of which only the pixels are broken.
pub fn measure(
    sources: &[&ImageSource],
    quota: &ImageQuota,
    limits: &ImageLimits,
    download: Download<'_>,
) -> Result<Vec<ImageInfo>> {
    let images = Loaded::new(sources, quota, limits, download)?;
    let heads = images.heads()?;
    let sizes = heads.iter().map(|head| head.as_ref().map(|(_, place)| measured(place)).map_err(Clone::clone));
    images.finish(sizes.collect(), &heads)
}

type Head = (Header, Letterbox);

/// Sources whose files are in memory.
struct Loaded<'a> {
    sources: &'a [&'a ImageSource],
    quota: &'a ImageQuota,
    limits: &'a ImageLimits,
    files: Vec<Cow<'a, [u8]>>,
}

impl<'a> Loaded<'a> {
    fn new(
        sources: &'a [&'a ImageSource],
        quota: &'a ImageQuota,
        limits: &'a ImageLimits,
        download: Download<'_>,
    ) -> Result<Self> {
        let used = quota.used();
        if let Err(error) = limits.check_images(used.images + sources.len()) {
            // The reference names the last source.
            let path = sources.last().map_or("", |source| &source.path);
            return Err(error.of(path, 0));
        }
        let bytes = AtomicU64::new(used.bytes);
        // What is not begun comes after the source that passes the limit, and that one has the error.
        let is_within = || bytes.load(Ordering::Relaxed) <= limits.total_bytes;
        let loaded = in_order(sources, limits.at_a_time, is_within, |_, source| {
            let file = load(source, limits, download)?;
            bytes.fetch_add(file.len() as u64, Ordering::Relaxed);
            Ok(file)
        });
        let mut total = used.bytes;
        let mut files = Vec::with_capacity(sources.len());
        for (index, file) in loaded.into_iter().enumerate() {
            let within = file.and_then(|file| {
                total += file.len() as u64;
                limits.check_total_bytes(total).map(|()| file)
            });
            files.push(within.map_err(|error| name(error, sources, index))?);
        }
        Ok(Self { sources, quota, limits, files })
    }

    /// The headers, each with its place or its error. The error of all is that there are too many pixels.
    fn heads(&self) -> Result<Vec<Result<Head>>> {
        let count = self.quota.used().images + self.sources.len();
        let mut pixels = self.quota.used().pixels;
        let mut heads = Vec::with_capacity(self.files.len());
        for (index, (source, file)) in self.sources.iter().zip(&self.files).enumerate() {
            let options = PreprocessOptions {
                detail: source.detail,
                max_dimension_px: self.limits.dimension_px_of(count),
                low_detail_max_dimension_px: self.limits.low_detail_dimension_px,
            };
            let head = Header::read(file).and_then(|header| place(&header, &options).map(|place| (header, place)));
            pixels += head.as_ref().map_or(0, |(header, _)| header.pixels());
            self.limits.check_total_pixels(pixels).map_err(|error| name(error, self.sources, index))?;
            heads.push(head);
        }
        Ok(heads)
    }

    /// Counts what was used, if nothing failed.
    fn finish(&self, images: Vec<Result<ImageInfo>>, heads: &[Result<Head>]) -> Result<Vec<ImageInfo>> {
        let named = images.into_iter().enumerate();
        let images: Vec<ImageInfo> = named
            .map(|(index, image)| image.map_err(|error| name(error, self.sources, index)))
            .collect::<Result<_>>()?;
        let used = Used {
            images: images.len(),
            bytes: self.files.iter().map(|file| file.len() as u64).sum(),
            pixels: heads.iter().flatten().map(|(header, _)| header.pixels()).sum(),
        };
        self.quota.add(used, self.limits)?;
        Ok(images)
    }
}

/// Says in an error which source it is about: the path, and the place among those that have it.
fn name(error: ImageError, sources: &[&ImageSource], index: usize) -> ImageError {
    let path = &sources[index].path;
    let before = sources[..index].iter().filter(|source| source.path == *path).count();
    error.of(path, before)
}

/// The bytes of a source's file.
fn load<'a>(source: &'a ImageSource, limits: &ImageLimits, download: Download<'_>) -> Result<Cow<'a, [u8]>> {
    let file = match &source.data {
        ImageData::Url(url) => {
            check_url(url, limits)?;
            Cow::Owned(download(url)?)
        }
        ImageData::DataUrl(url) => Cow::Owned(data_url_bytes(url)?),
        ImageData::Bytes(bytes) => Cow::Borrowed(bytes.as_slice()),
    };
    if file.is_empty() {
        return Err(ImageError::unsupported(ImageErrorKind::EmptyImage));
    }
    if file.len() > limits.image_bytes {
        return Err(ImageError::too_large(limits.image_bytes));
    }
    Ok(file)
}

fn check_url(url: &str, limits: &ImageLimits) -> Result<()> {
    if !starts_with_http(url) {
        let shown: String = url.chars().take(SHOWN_URL_CHARS).collect();
        return Err(ImageError::new(ImageErrorKind::InvalidUrl, format!("invalid url: {shown:?}")));
    }
    let (length, most) = (url.len(), limits.url_bytes);
    if length > most {
        let text = format!("external link length {length} too long, max link length {most}");
        return Err(ImageError::new(ImageErrorKind::UrlTooLong, text));
    }
    Ok(())
}

fn data_url_bytes(url: &str) -> Result<Vec<u8>> {
    let invalid = || ImageError::unsupported(ImageErrorKind::InvalidDataUrl);
    let data = DataUrl::parse(url).ok_or_else(invalid)?;
    if !data.is_image() {
        return Err(ImageError::unsupported(ImageErrorKind::UnsupportedMediaType));
    }
    data.decode().ok_or_else(invalid)
}

impl ImageLimits {
    /// How many images are decoded at a time: no more than there are processors.
    fn decoders(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from).min(self.at_a_time)
    }
}

/// Does work on the items with up to `threads` threads, which begin them in order while `goes_on`, until one fails. The
/// results are those of the items that were begun.
fn in_order<'a, T: Sync, R: Send>(
    items: &'a [T],
    threads: usize,
    goes_on: impl Fn() -> bool + Sync,
    work: impl Fn(usize, &'a T) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let results: Vec<Mutex<Option<Result<R>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let next = Mutex::new((0..items.len()).peekable());
    let begin = || next.lock().unwrap_or_else(PoisonError::into_inner).next_if(|_| goes_on());
    let worker = || {
        while let Some(index) = begin() {
            let result = work(index, &items[index]);
            if result.is_err() {
                *next.lock().unwrap_or_else(PoisonError::into_inner) = (0..0).peekable();
            }
            *results[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    };
    let further = threads.min(items.len()).saturating_sub(1);
    std::thread::scope(|scope| {
        (0..further).for_each(|_| drop(scope.spawn(worker)));
        worker();
    });
    results.into_iter().map_while(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

/// Bounds how many pixels are worked on at a time.
struct Gate {
    free: Mutex<u64>,
    freed: Condvar,
}

impl Gate {
    fn new() -> Self {
        Self { free: Mutex::new(PIXELS_AT_A_TIME), freed: Condvar::new() }
    }

    /// Waits until so many pixels are free, and takes them until the pass is dropped. One image may always work alone.
    fn pass(&self, pixels: u64) -> Pass<'_> {
        let pixels = pixels.min(PIXELS_AT_A_TIME);
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let enough = self.freed.wait_while(free, |free| *free < pixels);
        *enough.unwrap_or_else(PoisonError::into_inner) -= pixels;
        Pass { gate: self, pixels }
    }
}

struct Pass<'a> {
    gate: &'a Gate,
    pixels: u64,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        *self.gate.free.lock().unwrap_or_else(PoisonError::into_inner) += self.pixels;
        self.gate.freed.notify_all();
    }
}
