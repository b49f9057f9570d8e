//! What the images of a request may cost, and what they have cost. Knows no file.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::error::{ImageError, ImageErrorKind, Result};

/// The limits of a request's images. The defaults are the reference's where it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageLimits {
    /// The most images.
    pub images: usize,
    /// The most bytes of one file.
    pub image_bytes: usize,
    /// The most bytes of all files.
    pub total_bytes: u64,
    /// The most pixels of all images, as their headers say: it bounds the work. The reference has no such limit; ours
    /// leaves room for 600 pictures of a screen.
    pub total_pixels: u64,
    /// The longest side in pixels.
    pub dimension_px: u32,
    /// From how many images on the longest side is `dimension_px_of_many`.
    pub many_images: usize,
    /// The longest side in pixels where there are many images.
    pub dimension_px_of_many: u32,
    /// The longest side in pixels that an image of low detail is reduced to.
    pub low_detail_dimension_px: u32,
    /// The most bytes of a URL.
    pub url_bytes: usize,
    /// The most images that are fetched or decoded at a time.
    pub at_a_time: usize,
    /// The time for all downloads of one call, tries again included.
    pub download_time: Duration,
}

impl Default for ImageLimits {
    fn default() -> Self {
        Self {
            images: 600,
            image_bytes: 32 << 20,
            total_bytes: 64 << 20,
            total_pixels: 1 << 31,
            dimension_px: 8192,
            many_images: 15,
            dimension_px_of_many: 4096,
            low_detail_dimension_px: 512,
            url_bytes: 8192,
            at_a_time: 8,
            download_time: Duration::from_secs(90),
        }
    }
}

impl ImageLimits {
    pub(crate) fn check_images(&self, count: usize) -> Result<()> {
        if count <= self.images {
            return Ok(());
        }
        let text = format!("Too many images: max {} images per request, got {count}", self.images);
        Err(ImageError::new(ImageErrorKind::TooManyImages, text))
    }

    pub(crate) fn check_total_bytes(&self, total: u64) -> Result<()> {
        check_total(total, self.total_bytes, "MB")
    }

    pub(crate) fn check_total_pixels(&self, total: u64) -> Result<()> {
        check_total(total, self.total_pixels, "megapixels")
    }

    /// The longest side where a request has `count` images.
    pub(crate) fn dimension_px_of(&self, count: usize) -> u32 {
        if count < self.many_images {
            self.dimension_px
        } else {
            self.dimension_px_of_many
        }
    }
}

/// Both numbers are shown in units of 2^20.
fn check_total(total: u64, limit: u64, unit: &str) -> Result<()> {
    if total <= limit {
        return Ok(());
    }
    let (most, got) = (limit >> 20, total >> 20);
    let text = format!("Total image size exceeds the limit: max {most} {unit} per request, got {got} {unit}");
    Err(ImageError::new(ImageErrorKind::TotalSizeTooLarge, text))
}

/// What the images of one request have used of its limits so far, over any number of calls.
#[derive(Debug, Default)]
pub struct ImageQuota(Mutex<Used>);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub(crate) images: usize,
    pub(crate) bytes: u64,
    pub(crate) pixels: u64,
}

impl ImageQuota {
    fn lock(&self) -> MutexGuard<'_, Used> {
        // Three numbers are whole after any panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many images were resolved.
    pub fn image_count(&self) -> usize {
        self.lock().images
    }

    /// How many bytes their files had.
    pub fn byte_size(&self) -> u64 {
        self.lock().bytes
    }

    pub(crate) fn used(&self) -> Used {
        *self.lock()
    }

    /// Counts what a call has used. Fails, and counts nothing, where another call has meanwhile used what was left.
    pub(crate) fn add(&self, more: Used, limits: &ImageLimits) -> Result<()> {
        let mut used = self.lock();
        let sum = Used {
            images: used.images + more.images,
            bytes: used.bytes + more.bytes,
            pixels: used.pixels + more.pixels,
        };
        limits.check_images(sum.images)?;
        limits.check_total_bytes(sum.bytes)?;
        limits.check_total_pixels(sum.pixels)?;
        *used = sum;
        Ok(())
    }
}
