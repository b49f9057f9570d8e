//! A file as sent to the file that the engine gets. Knows no source and no request.

use super::decode::{decode, Header, Pixels};
use super::encode::encode;
use super::error::{ImageError, ImageErrorKind, Result};
use super::letterbox::Letterbox;
use super::limits::ImageLimits;
use super::resize::{reduce, resize};
use super::tokens::image_tokens;
use crate::conversation::ImageDetail;

/// What the borders of a picture show, in all channels.
const BORDER: u8 = 127;

/// How to resize an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreprocessOptions {
    /// The level that the request asks for. All but `low` give the same.
    pub detail: ImageDetail,
    /// The longest side that is taken, in pixels.
    pub max_dimension_px: u32,
    /// The longest side that an image of low detail is reduced to, in pixels; 0 is as 1.
    pub low_detail_max_dimension_px: u32,
}

/// An image as the engine gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageInfo {
    /// The bytes of a WebP file; none where the image was only measured.
    pub data: Vec<u8>,
    /// The width in pixels.
    pub width: u32,
    /// The height in pixels.
    pub height: u32,
}

/// Decodes an image, brings it to a size that the model takes, and writes it as WebP.
///
/// # Errors
///
/// A file that is none of the four formats, is broken, or has a side of more than `max_dimension_px`.
pub fn preprocess(file: &[u8], options: &PreprocessOptions) -> Result<ImageInfo> {
    let header = Header::read(file)?;
    let place = place(&header, options)?;
    draw(file, &header, &place)
}

/// Where an image of this header lies in what the model is shown.
pub(crate) fn place(header: &Header, options: &PreprocessOptions) -> Result<Letterbox> {
    let (width, height) = (header.width, header.height);
    if width.max(height) > options.max_dimension_px {
        return Err(ImageError::unsupported(ImageErrorKind::ImageDimensionsTooLarge));
    }
    Letterbox::new(width, height, options.detail, options.low_detail_max_dimension_px)
        .ok_or_else(|| ImageError::unsupported(ImageErrorKind::Resize))
}

/// How many tokens an image of this size in pixels costs at a level of detail, with the default limits. `None` for an
/// image that the model cannot be shown: without an area, or of a size that comes to no rest, which is not known to
/// happen.
pub fn tokens_at_detail(width: u32, height: u32, detail: ImageDetail) -> Option<u64> {
    if width == 0 || height == 0 {
        return None;
    }
    let low_side = ImageLimits::default().low_detail_dimension_px;
    let image = measured(&Letterbox::new(width, height, detail, low_side)?);
    image_tokens(image.width, image.height)
}

/// The image without its pixels.
pub(crate) fn measured(place: &Letterbox) -> ImageInfo {
    ImageInfo { data: Vec::new(), width: place.frame.0 as u32, height: place.frame.1 as u32 }
}

/// The image with its pixels.
pub(crate) fn draw(file: &[u8], header: &Header, place: &Letterbox) -> Result<ImageInfo> {
    let pixels = reduce(decode(file, header)?, place.reduced);
    let framed = frame(resize(pixels, place.content), place);
    Ok(ImageInfo { data: encode(&framed)?, ..measured(place) })
}

/// Puts borders around a picture.
fn frame(content: Pixels, place: &Letterbox) -> Pixels {
    if content.width == place.frame.0 && content.height == place.frame.1 {
        return content;
    }
    let (width, height) = place.frame;
    let mut rgb = vec![BORDER; width * height * 3];
    let rows = rgb.chunks_exact_mut(width * 3).skip(place.offset.1);
    for (row, source) in rows.zip(content.rgb.chunks_exact(content.width * 3)) {
        row[place.offset.0 * 3..][..source.len()].copy_from_slice(source);
    }
    Pixels { width, height, rgb }
}
