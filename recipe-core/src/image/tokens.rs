//! How many tokens an image of some size stands for. Knows no pixels and no file.

/// The side of a patch, in pixels. The sides of a fitted image are multiples of it.
pub(crate) const PATCH: u64 = 14;
/// The side of what one token covers, in pixels: 3 patches.
const CELL: u64 = 3 * PATCH;
/// The most tokens of an image.
const BUDGET: u64 = 1024;
/// The least area that the model is shown, in pixels.
const LEAST_AREA: f64 = (544 * 544) as f64;
/// 13 million sizes needed at most 9 steps.
const MOST_STEPS: usize = 32;

/// The number of tokens of a V4.1 image of this size in pixels: one for each cell, one for the end of each row of
/// cells, and two around them. The size is first fitted to the model: `None` if that never comes to rest, which is
/// not known to happen.
///
/// ```
/// use recipe_core::image::tokens::image_tokens;
///
/// assert_eq!(image_tokens(1, 1), Some(184));
/// assert_eq!(image_tokens(1920, 1080), Some(968));
/// assert_eq!(image_tokens(u32::MAX, 1), Some(1024));
/// ```
pub fn image_tokens(width: u32, height: u32) -> Option<u64> {
    fitted(width, height).map(tokens)
}

/// The size in pixels to which the model fits an image: the fixed point of `fit`.
pub(crate) fn fitted(width: u32, height: u32) -> Option<(u64, u64)> {
    let mut size = (u64::from(width), u64::from(height));
    for _ in 0..MOST_STEPS {
        let fitted = fit(size);
        if fitted == size {
            return Some(size);
        }
        size = fitted;
    }
    None
}

fn tokens((width, height): (u64, u64)) -> u64 {
    let (columns, rows) = (width.div_ceil(CELL), height.div_ceil(CELL));
    rows * (columns + 1) + 2
}

/// One step towards a size that the model takes. The order of the operations is part of the rule: another one rounds
/// otherwise.
fn fit((width, height): (u64, u64)) -> (u64, u64) {
    let (mut width, mut height) = (width as f64, height as f64);
    let area = width * height;
    if 0.0 < area && area < LEAST_AREA {
        let scale = (LEAST_AREA / area).sqrt();
        (width, height) = ((width * scale).floor(), (height * scale).floor());
    }
    let whole = |side: f64| PATCH * (side as u64).div_ceil(PATCH);
    let size = (whole(width), whole(height));
    if tokens(size) <= BUDGET {
        return size;
    }
    // The largest grid of this ratio: `columns * ratio * (columns + 1)` is what the two tokens around it leave.
    let ratio = height / width;
    let cells = BUDGET - 2;
    let columns = (cells as f64 / ratio + 0.25).sqrt() - 0.5;
    let rows = columns * ratio;
    if columns < 1.0 {
        return (CELL, CELL * (cells / 2));
    }
    if rows < 1.0 {
        return (CELL * (cells - 1), CELL);
    }
    let cell = CELL as f64;
    let scale = (cell * columns.floor() / width).min(cell * rows.floor() / height);
    let patches = |side: f64| PATCH * (side * scale / PATCH as f64) as u64;
    (patches(width), patches(height))
}
