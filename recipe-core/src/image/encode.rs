//! Pixels to the file that the engine gets: WebP. Knows no limit and no source.

use super::decode::Pixels;
use super::error::{ImageError, ImageErrorKind, Result};

/// As the reference: lossy with quality 90, colours at half the resolution, no metadata.
#[cfg(feature = "lossy-webp")]
pub(crate) fn encode(pixels: &Pixels) -> Result<Vec<u8>> {
    const QUALITY: f32 = 90.0;
    let failed = || ImageError::unsupported(ImageErrorKind::Encode);
    let side = |side: usize| std::os::raw::c_int::try_from(side).map_err(|_| failed());
    let (width, height, stride) = (side(pixels.width)?, side(pixels.height)?, side(pixels.width * 3)?);
    assert_eq!(pixels.rgb.len(), pixels.width * pixels.height * 3);
    let mut file = std::ptr::null_mut();
    // SAFETY: `rgb` has `height` rows of `stride` bytes, and `file` is a place for a pointer.
    let length = unsafe { libwebp_sys::WebPEncodeRGB(pixels.rgb.as_ptr(), width, height, stride, QUALITY, &mut file) };
    if length == 0 || file.is_null() {
        return Err(failed());
    }
    // SAFETY: on success the encoder has allocated `length` bytes at `file`, which nobody else has.
    let copy = unsafe { std::slice::from_raw_parts(file, length) }.to_vec();
    // SAFETY: the encoder has allocated `file`, and it is not used again.
    unsafe { libwebp_sys::WebPFree(file.cast()) };
    Ok(copy)
}

/// The same pixels without loss: larger, and without a line of C.
#[cfg(not(feature = "lossy-webp"))]
pub(crate) fn encode(pixels: &Pixels) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    let (width, height) = (pixels.width as u32, pixels.height as u32);
    image::codecs::webp::WebPEncoder::new_lossless(&mut file)
        .encode(&pixels.rgb, width, height, image::ExtendedColorType::Rgb8)
        .map_err(|_| ImageError::unsupported(ImageErrorKind::Encode))?;
    Ok(file)
}
