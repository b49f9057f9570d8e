//! Pixels in another size, to the last bit as the reference makes them: its bicubic filter looks at four pixels a side
//! even where it shrinks, and the model was trained on that. Knows no layout.

use super::decode::Pixels;

/// The samples of a pixel.
const CHANNELS: usize = 3;
/// Weights of the bicubic filter are counted in units of 1/2048.
const UNIT: f32 = 2048.0;

/// Resizes by the bicubic filter with a = -0.75 and edges repeated: first the rows, in integers, then the columns.
pub(crate) fn resize(pixels: Pixels, (width, height): (usize, usize)) -> Pixels {
    if (pixels.width, pixels.height) == (width, height) {
        return pixels;
    }
    let columns = taps(pixels.width, width);
    let mut rows = Rows::new(&pixels, &columns);
    let mut rgb = vec![0; width * height * CHANNELS];
    for (out, taps) in rgb.chunks_exact_mut(width * CHANNELS).zip(taps(pixels.height, height)) {
        let places = [0, 1, 2, 3].map(|tap| (taps.first + tap).clamp(MARGIN, pixels.height + MARGIN - 1) - MARGIN);
        rows.load(places);
        let [a, b, c, d] = places.map(|row| rows.get(row));
        // The factor is a power of two, so this is exact.
        let [wa, wb, wc, wd] = taps.weights.map(|weight| weight as f32 / (UNIT * UNIT));
        for (((out, a), b), (c, d)) in out.iter_mut().zip(a).zip(b).zip(c.iter().zip(d)) {
            // The order of the sums is the reference's: another one rounds otherwise.
            *out = round(a * wa + (b * wb + (c * wc + d * wd)));
        }
    }
    Pixels { width, height, rgb }
}

/// Rounds to the nearest level, halves to even. Between 2^23 and 2^24 a float has no fraction, so the sum does it, and
/// faster than a call of `round_ties_even`.
fn round(value: f32) -> u8 {
    const WHOLE: f32 = 12_582_912.0;
    ((value + WHOLE) - WHOLE) as u8
}

/// How many pixels a filter looks beyond an edge.
const MARGIN: usize = 2;

/// What one place of the output is made of along one side: four neighbours, the first counted from the margin's start.
struct Taps {
    first: usize,
    weights: [i32; 4],
}

fn taps(from: usize, to: usize) -> Vec<Taps> {
    let scale = 1.0 / (to as f64 / from as f64);
    let tap = |place: usize| {
        let center = ((place as f64 + 0.5) * scale - 0.5) as f32;
        let second = center.floor();
        let weights = cubic(center - second).map(|weight| (weight * UNIT).round_ties_even() as i32);
        let first = (second as isize - 1 + MARGIN as isize).clamp(0, from as isize) as usize;
        Taps { first, weights }
    };
    (0..to).map(tap).collect()
}

/// The weights of the four pixels around a place that is `x` behind the second, in steps of 32-bit arithmetic.
fn cubic(x: f32) -> [f32; 4] {
    const A: f32 = -0.75;
    let y = 1.0 - x;
    let first = ((A * (x + 1.0) - 5.0 * A) * (x + 1.0) + 8.0 * A) * (x + 1.0) - 4.0 * A;
    let second = ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let third = ((A + 2.0) * y - (A + 3.0)) * y * y + 1.0;
    [first, second, third, 1.0 - first - second - third]
}

/// Rows of the source that are resized to the new width. The last four are kept: what a row of the output needs.
struct Rows<'a> {
    pixels: &'a Pixels,
    columns: &'a [Taps],
    /// A row with its margins.
    padded: Vec<u8>,
    kept: [(usize, Vec<f32>); 4],
}

impl<'a> Rows<'a> {
    fn new(pixels: &'a Pixels, columns: &'a [Taps]) -> Self {
        let none = || (usize::MAX, vec![0.0; columns.len() * CHANNELS]);
        let padded = vec![0; (pixels.width + 2 * MARGIN) * CHANNELS];
        Self { pixels, columns, padded, kept: [none(), none(), none(), none()] }
    }

    /// Rows that are needed at a time are neighbours, so each has a place of its own.
    fn load(&mut self, rows: [usize; 4]) {
        let length = self.pixels.width * CHANNELS;
        for row in rows {
            let (kept, samples) = &mut self.kept[row % 4];
            if *kept != row {
                *kept = row;
                pad(&self.pixels.rgb[row * length..][..length], &mut self.padded);
                resize_row(&self.padded, self.columns, samples);
            }
        }
    }

    fn get(&self, row: usize) -> &[f32] {
        &self.kept[row % 4].1
    }
}

/// Repeats the first and the last pixel of a row in its margins.
fn pad(row: &[u8], padded: &mut [u8]) {
    let (left, rest) = padded.split_at_mut(MARGIN * CHANNELS);
    let (middle, right) = rest.split_at_mut(row.len());
    middle.copy_from_slice(row);
    left.chunks_exact_mut(CHANNELS).for_each(|pixel| pixel.copy_from_slice(&row[..CHANNELS]));
    right.chunks_exact_mut(CHANNELS).for_each(|pixel| pixel.copy_from_slice(&row[row.len() - CHANNELS..]));
}

/// The sums have at most 20 bits, so that they are exact as floats.
fn resize_row(padded: &[u8], columns: &[Taps], out: &mut [f32]) {
    for (out, taps) in out.chunks_exact_mut(CHANNELS).zip(columns) {
        let samples = &padded[taps.first * CHANNELS..][..4 * CHANNELS];
        let [wa, wb, wc, wd] = taps.weights;
        for (channel, out) in out.iter_mut().enumerate() {
            let [a, b, c, d] = [0, 1, 2, 3].map(|tap| i32::from(samples[tap * CHANNELS + channel]));
            *out = (a * wa + b * wb + c * wc + d * wd) as f32;
        }
    }
}

/// Shrinks by averages over areas. Neither side grows.
pub(crate) fn reduce(pixels: Pixels, (width, height): (usize, usize)) -> Pixels {
    if (pixels.width, pixels.height) == (width, height) {
        return pixels;
    }
    let whole = pixels.width % width == 0 && pixels.height % height == 0;
    let rgb = if whole { average_blocks(&pixels, width, height) } else { average_areas(&pixels, width, height) };
    Pixels { width, height, rgb }
}

/// Averages over blocks of whole pixels.
fn average_blocks(pixels: &Pixels, width: usize, height: usize) -> Vec<u8> {
    let (block_width, block_height) = (pixels.width / width, pixels.height / height);
    let stride = pixels.width * CHANNELS;
    let scale = 1.0 / (block_width * block_height) as f32;
    let mut rgb = Vec::with_capacity(width * height * CHANNELS);
    let mut sums = vec![0u32; width * CHANNELS];
    for rows in pixels.rgb.chunks_exact(stride * block_height) {
        sums.fill(0);
        for row in rows.chunks_exact(stride) {
            for (sums, block) in sums.chunks_exact_mut(CHANNELS).zip(row.chunks_exact(block_width * CHANNELS)) {
                for pixel in block.chunks_exact(CHANNELS) {
                    sums.iter_mut().zip(pixel).for_each(|(sum, &sample)| *sum += u32::from(sample));
                }
            }
        }
        let four = block_width == 2 && block_height == 2;
        // The reference rounds halves up where it averages four pixels, otherwise to even.
        let mean = |&sum: &u32| if four { ((sum + 2) >> 2) as u8 } else { round(sum as f32 * scale) };
        rgb.extend(sums.iter().map(mean));
    }
    rgb
}

/// The share of a pixel of the source in one of the output.
struct Share {
    to: usize,
    from: usize,
    weight: f32,
}

/// Averages over areas with broken edges: over each row, then over the rows, summed up as 32-bit floats.
fn average_areas(pixels: &Pixels, width: usize, height: usize) -> Vec<u8> {
    let columns = shares(pixels.width, width);
    let stride = pixels.width * CHANNELS;
    let mut rgb = vec![0; width * height * CHANNELS];
    let (mut row, mut sums) = (vec![0f32; width * CHANNELS], vec![0f32; width * CHANNELS]);
    let mut rows = shares(pixels.height, height).into_iter().peekable();
    while let Some(share) = rows.next() {
        average_row(&pixels.rgb[share.from * stride..][..stride], &columns, &mut row);
        sums.iter_mut().zip(&row).for_each(|(sum, sample)| *sum += share.weight * sample);
        if rows.peek().is_none_or(|next| next.to != share.to) {
            let out = &mut rgb[share.to * width * CHANNELS..][..width * CHANNELS];
            out.iter_mut().zip(&sums).for_each(|(out, sum)| *out = round(*sum));
            sums.fill(0.0);
        }
    }
    rgb
}

fn average_row(row: &[u8], columns: &[Share], out: &mut [f32]) {
    out.fill(0.0);
    for Share { to, from, weight } in columns {
        let (out, pixel) = (&mut out[to * CHANNELS..][..CHANNELS], &row[from * CHANNELS..][..CHANNELS]);
        out.iter_mut().zip(pixel).for_each(|(out, &sample)| *out += f32::from(sample) * weight);
    }
}

/// Shares of less than a thousandth of a pixel are left out, as in the reference.
fn shares(from: usize, to: usize) -> Vec<Share> {
    const LEAST: f64 = 1e-3;
    let scale = 1.0 / (to as f64 / from as f64);
    let mut shares = Vec::with_capacity(from + 2 * to);
    for place in 0..to {
        let start = place as f64 * scale;
        let end = start + scale;
        let length = scale.min(from as f64 - start);
        let last = (end.floor() as usize).min(from - 1);
        let first = (start.ceil() as usize).min(last);
        let mut add = |from: usize, part: f64| shares.push(Share { to: place, from, weight: (part / length) as f32 });
        if first as f64 - start > LEAST {
            add(first - 1, first as f64 - start);
        }
        (first..last).for_each(|from| add(from, 1.0));
        if end - last as f64 > LEAST {
            add(last, (end - last as f64).min(1.0).min(length));
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The bicubic filter by its definition, in 64 bits, one sample at a time.
    fn naive_cubic(pixels: &Pixels, (width, height): (usize, usize)) -> Vec<f64> {
        let kernel = |x: f64| {
            let (a, x) = (-0.75, x.abs());
            match x {
                _ if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
                _ if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
                _ => 0.0,
            }
        };
        let center = |place: usize, from: usize, to: usize| (place as f64 + 0.5) * from as f64 / to as f64 - 0.5;
        let sample = |x: isize, y: isize, channel: usize| {
            let at = |place: isize, side: usize| place.clamp(0, side as isize - 1) as usize;
            f64::from(pixels.rgb[(at(y, pixels.height) * pixels.width + at(x, pixels.width)) * 3 + channel])
        };
        let mut out = Vec::new();
        for (row, column, channel) in places(width, height) {
            let (x, y) = (center(column, pixels.width, width), center(row, pixels.height, height));
            let (left, top) = (x.floor() as isize - 1, y.floor() as isize - 1);
            let cells = (0..4).flat_map(|i| (0..4).map(move |j| (left + i, top + j)));
            out.push(cells.map(|(i, j)| kernel(x - i as f64) * kernel(y - j as f64) * sample(i, j, channel)).sum());
        }
        out
    }

    /// The mean over the area that a pixel of the output covers, in 64 bits.
    fn naive_mean(pixels: &Pixels, (width, height): (usize, usize)) -> Vec<f64> {
        let overlap = |place: usize, scale: f64, at: usize| {
            let (start, end) = (place as f64 * scale, (place + 1) as f64 * scale);
            ((at + 1) as f64).min(end) - (at as f64).max(start)
        };
        let (x, y) = (pixels.width as f64 / width as f64, pixels.height as f64 / height as f64);
        let mean = |(row, column, channel): (usize, usize, usize)| {
            let cells = (0..pixels.height).flat_map(|j| (0..pixels.width).map(move |i| (i, j)));
            let weigh = |(i, j)| overlap(column, x, i).max(0.0) * overlap(row, y, j).max(0.0);
            cells.map(|(i, j)| weigh((i, j)) * f64::from(pixels.rgb[(j * pixels.width + i) * 3 + channel])).sum::<f64>()
                / (x * y)
        };
        places(width, height).map(mean).collect()
    }

    fn places(width: usize, height: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        (0..height)
            .flat_map(move |row| (0..width).flat_map(move |column| (0..3).map(move |channel| (row, column, channel))))
    }

    fn near(fast: &Pixels, slow: &[f64]) -> bool {
        fast.rgb.iter().zip(slow).all(|(&fast, slow)| (f64::from(fast) - slow.clamp(0.0, 255.0)).abs() < 1.0)
    }

    fn picture() -> impl Strategy<Value = Pixels> {
        (1..24usize, 1..24usize).prop_flat_map(|(width, height)| {
            let rgb = prop::collection::vec(any::<u8>(), width * height * 3);
            rgb.prop_map(move |rgb| Pixels { width, height, rgb })
        })
    }

    proptest! {
        #[test]
        fn bicubic_as_its_definition(pixels in picture(), width in 1..40usize, height in 1..40usize) {
            let slow = naive_cubic(&pixels, (width, height));
            prop_assert!(near(&resize(pixels, (width, height)), &slow));
        }

        #[test]
        fn means_as_their_definition(pixels in picture(), width in 1..24usize, height in 1..24usize) {
            let size = (width.min(pixels.width), height.min(pixels.height));
            let slow = naive_mean(&pixels, size);
            prop_assert!(near(&reduce(pixels, size), &slow));
        }
    }
}
