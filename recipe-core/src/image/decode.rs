//! The pixels of a file. Knows no limit of a request, but bounds what a decoder may allocate.

use std::io::Cursor;

use image::{DynamicImage, GenericImageView, ImageDecoder, ImageFormat, ImageReader, Limits};

use super::error::{ImageError, ImageErrorKind, Result};

/// What transparent pixels show, in all channels: the light grey of the reference.
const BACKGROUND: u16 = 253;
/// What a decoder may allocate beside the pixels, for example for a colour profile.
const SPARE_BYTES: u64 = 64 << 20;
/// The most pixels of one image, whatever the limits say: four times what they let through by default.
const MOST_PIXELS: u64 = 1 << 28;

/// Pictures of fewer columns are narrow: the last ones count.
const NARROW: u32 = 64;

/// A format and the size in pixels that the header tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    format: ImageFormat,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl Header {
    /// Reads a header. The content tells the format.
    pub(crate) fn read(file: &[u8]) -> Result<Self> {
        if file.is_empty() {
            return Err(ImageError::unsupported(ImageErrorKind::EmptyImage));
        }
        let format = match image::guess_format(file) {
            Ok(format @ (ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::Gif | ImageFormat::WebP)) => format,
            _ => return Err(ImageError::unsupported(ImageErrorKind::UnsupportedMediaType)),
        };
        let unreadable = || ImageError::unsupported(ImageErrorKind::Decode);
        let (width, height) = decoder(file, format, SPARE_BYTES).map_err(|_| unreadable())?.dimensions();
        if width == 0 || height == 0 {
            return Err(unreadable());
        }
        Ok(Self { format, width, height })
    }

    /// How many pixels there are.
    pub(crate) fn pixels(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }
}

/// The width and height of an image in pixels, as its header tells them; nothing is decoded.
///
/// # Errors
///
/// Kind `EmptyImage` for no bytes, `UnsupportedMediaType` for what is no PNG, JPEG, GIF or WebP, `Decode` where the
/// header cannot be read.
pub fn size_from_header(file: &[u8]) -> std::result::Result<(u32, u32), ImageError> {
    Header::read(file).map(|header| (header.width, header.height))
}

/// Rows of pixels, three bytes each: red, green, blue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pixels {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) rgb: Vec<u8>,
}

/// The first frame of the file that `header` is the header of. Colour profiles and orientation are not applied.
pub(crate) fn decode(file: &[u8], header: &Header) -> Result<Pixels> {
    if header.pixels() > MOST_PIXELS {
        return Err(ImageError::unsupported(ImageErrorKind::ImageDimensionsTooLarge));
    }
    // The kinds of the reference, which tells a broken GIF apart from other broken files.
    let broken = || {
        let is_gif = header.format == ImageFormat::Gif;
        ImageError::unsupported(if is_gif { ImageErrorKind::Decode } else { ImageErrorKind::EmptyImage })
    };
    if !is_whole(file, header.format) {
        return Err(broken());
    }
    if header.format == ImageFormat::Jpeg && header.width < NARROW {
        if let Some(pixels) = decode_narrow_jpeg(file) {
            return Ok(pixels);
        }
    }
    // Four channels of 16 bits, and a second time what a decoder holds beside its output.
    let most_bytes = header.pixels() * 16 + SPARE_BYTES;
    let decoder = decoder(file, header.format, most_bytes).map_err(|_| broken())?;
    let image = DynamicImage::from_decoder(decoder).map_err(|_| broken())?;
    Ok(flatten(image))
}

/// A JPEG of few columns: the decoder of the `image` crate takes the colours of the last columns from behind the edge,
/// where they have half the resolution. `None` for files that this decoder does not take.
fn decode_narrow_jpeg(file: &[u8]) -> Option<Pixels> {
    let mut decoder = jpeg_decoder::Decoder::new(file);
    let samples = decoder.decode().ok()?;
    let info = decoder.info()?;
    let rgb = match info.pixel_format {
        jpeg_decoder::PixelFormat::RGB24 => samples,
        jpeg_decoder::PixelFormat::L8 => map(&samples, |&[grey]: &[u8; 1]| [grey; 3]),
        _ => return None,
    };
    Some(Pixels { width: info.width.into(), height: info.height.into(), rgb })
}

fn decoder(file: &[u8], format: ImageFormat, most_bytes: u64) -> image::ImageResult<impl ImageDecoder + '_> {
    let mut reader = ImageReader::with_format(Cursor::new(file), format);
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(most_bytes);
    reader.limits(limits);
    reader.into_decoder()
}

/// Whether the file has its end. The decoders fill up what is missing before it; the reference refuses it.
fn is_whole(file: &[u8], format: ImageFormat) -> bool {
    match format {
        ImageFormat::Jpeg => jpeg_has_end(file),
        ImageFormat::Png => png_has_end(file),
        ImageFormat::WebP => webp_has_end(file),
        _ => true,
    }
}

/// Walks the segments of a JPEG file up to its end marker.
fn jpeg_has_end(file: &[u8]) -> bool {
    const END: u8 = 0xD9;
    let mut rest = file;
    while let Some(at) = memchr::memchr(0xFF, rest) {
        rest = &rest[at + 1..];
        match rest {
            [END, ..] => return true,
            // Escaped bytes of a scan, restarts and the start have no length.
            [0x00..=0x01 | 0xD0..=0xD8 | 0xFF, ..] => {}
            // A length that leads out of the file is none, as in a damaged scan.
            [_, high, low, ..] => {
                let length = usize::from(*high) << 8 | usize::from(*low);
                rest = rest.get(1 + length..).unwrap_or(rest);
            }
            _ => return false,
        }
    }
    false
}

/// Walks the chunks of a PNG file up to its last one.
fn png_has_end(file: &[u8]) -> bool {
    let mut rest = file.get(8..).unwrap_or_default();
    while let Some(([a, b, c, d], kind)) = rest.split_first_chunk::<4>().map(|(length, kind)| (*length, kind)) {
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        // Behind the length: the kind, the content and a checksum.
        let Some(behind) = length.checked_add(8).and_then(|chunk| kind.get(chunk..)) else {
            return false;
        };
        if kind.starts_with(b"IEND") {
            return true;
        }
        rest = behind;
    }
    false
}

/// A WebP file tells its length, less the eight bytes up to there.
fn webp_has_end(file: &[u8]) -> bool {
    let length = file.get(4..8).map(|length| u32::from_le_bytes([length[0], length[1], length[2], length[3]]));
    length.is_some_and(|length| file.len() as u64 >= u64::from(length) + 8)
}

/// Brings every kind of pixels to three channels of 8 bits.
fn flatten(image: DynamicImage) -> Pixels {
    let (width, height) = image.dimensions();
    let rgb = match image {
        DynamicImage::ImageRgb8(image) => image.into_raw(),
        DynamicImage::ImageLuma8(image) => map(&image.into_raw(), |&[grey]: &[u8; 1]| [grey; 3]),
        DynamicImage::ImageLumaA8(image) => map(&image.into_raw(), |&[grey, alpha]| [blend(grey, alpha); 3]),
        DynamicImage::ImageRgba8(image) => {
            map(&image.into_raw(), |&[r, g, b, alpha]| [r, g, b].map(|c| blend(c, alpha)))
        }
        DynamicImage::ImageLuma16(image) => map(&image.into_raw(), |&[grey]: &[u16; 1]| [narrow(grey); 3]),
        DynamicImage::ImageLumaA16(image) => {
            map(&image.into_raw(), |&[grey, alpha]| [blend(narrow(grey), narrow(alpha)); 3])
        }
        DynamicImage::ImageRgb16(image) => map(&image.into_raw(), |rgb: &[u16; 3]| rgb.map(narrow)),
        DynamicImage::ImageRgba16(image) => {
            map(&image.into_raw(), |&[r, g, b, alpha]| [r, g, b].map(|c| blend(narrow(c), narrow(alpha))))
        }
        other => other.into_rgb8().into_raw(),
    };
    Pixels { width: width as usize, height: height as usize, rgb }
}

fn map<T, const CHANNELS: usize>(samples: &[T], rgb: impl Fn(&[T; CHANNELS]) -> [u8; 3]) -> Vec<u8> {
    let pixels = samples.chunks_exact(CHANNELS);
    let mut out = Vec::with_capacity(pixels.len() * 3);
    for pixel in pixels {
        let pixel = pixel.try_into().expect("a chunk has the length that it was asked for");
        out.extend_from_slice(&rgb(pixel));
    }
    out
}

/// `value` of 16 bits, rounded to 8.
fn narrow(value: u16) -> u8 {
    ((u32::from(value) + 128) / 257) as u8
}

/// A channel over the background, rounded.
fn blend(channel: u8, alpha: u8) -> u8 {
    let alpha = u16::from(alpha);
    ((u16::from(channel) * alpha + BACKGROUND * (255 - alpha) + 127) / 255) as u8
}
