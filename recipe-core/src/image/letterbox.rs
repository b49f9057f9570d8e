//! Where an image lies in what the model is shown. Knows sizes, no pixels.

use super::tokens::{fitted, PATCH};
use crate::conversation::ImageDetail;

/// The longest side of a WebP file, in pixels.
const WEBP_SIDE: u64 = 16_383;
/// The same in whole patches, in pixels.
const WEBP_PATCHES: u64 = WEBP_SIDE / PATCH * PATCH;

/// A picture in a frame of the size that the model takes, with borders above and below or on the sides. In pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Letterbox {
    /// The size to which the picture is reduced first: its own but for low detail.
    pub(crate) reduced: (usize, usize),
    /// The size of the frame.
    pub(crate) frame: (usize, usize),
    /// The size of the picture in it.
    pub(crate) content: (usize, usize),
    /// The offset of the picture from the left and from the top.
    pub(crate) offset: (usize, usize),
}

impl Letterbox {
    /// The place of an image of this size, which is not zero. `None` if the size comes to no rest, which is not known
    /// to happen.
    pub(crate) fn new(width: u32, height: u32, detail: ImageDetail, low_side: u32) -> Option<Self> {
        let reduced = if detail == ImageDetail::Low { reduce(width, height, low_side) } else { (width, height) };
        let frame = frame(reduced)?;
        let content = content(reduced, frame);
        let offset = |frame: u64, content: u64| round_even((frame - content) as f64 / 2.0);
        let offset = (offset(frame.0, content.0), offset(frame.1, content.1));
        let sides = |(width, height): (u64, u64)| (width as usize, height as usize);
        let reduced = (u64::from(reduced.0), u64::from(reduced.1));
        Some(Self { reduced: sides(reduced), frame: sides(frame), content: sides(content), offset: sides(offset) })
    }
}

/// The size of which the longer side is at most `side`, or one pixel.
fn reduce(width: u32, height: u32, side: u32) -> (u32, u32) {
    let longer = width.max(height);
    let side = side.max(1);
    if longer <= side {
        return (width, height);
    }
    let scale = f64::from(side) / f64::from(longer);
    // `round` takes halves away from zero, as the reference does here.
    let scaled = |side: u32| ((f64::from(side) * scale).round() as u32).max(1);
    (scaled(width), scaled(height))
}

/// The size that the model takes, cut to what WebP can hold.
fn frame((width, height): (u32, u32)) -> Option<(u64, u64)> {
    let (width, height) = fitted(width, height)?;
    let longer = width.max(height);
    if longer <= WEBP_SIDE {
        return Some((width, height));
    }
    let short = (width.min(height) * WEBP_PATCHES).div_ceil(longer * PATCH) * PATCH;
    let short = short.max(2 * PATCH);
    Some(if width > height { (WEBP_PATCHES, short) } else { (short, WEBP_PATCHES) })
}

/// The largest size of the image's ratio in the frame.
fn content((width, height): (u32, u32), frame: (u64, u64)) -> (u64, u64) {
    let (w, h) = (f64::from(width), f64::from(height));
    let (frame_w, frame_h) = (frame.0 as f64, frame.1 as f64);
    let side = |side: f64, most: u64| round_even(side).clamp(1, most);
    if w / h > frame_w / frame_h {
        (frame.0, side(h / w * frame_w, frame.1))
    } else if w / h < frame_w / frame_h {
        (side(w / h * frame_h, frame.0), frame.1)
    } else {
        frame
    }
}

fn round_even(value: f64) -> u64 {
    value.round_ties_even() as u64
}
