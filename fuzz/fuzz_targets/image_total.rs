//! Any bytes are an image or are refused, without a panic, and a decoded image has the size that its header tells.

#![no_main]

use libfuzzer_sys::fuzz_target;
use recipe_core::conversation::ImageDetail;
use recipe_core::image::{preprocess, size_from_header, tokens_at_detail, PreprocessOptions};

/// Larger images cost the fuzzer time and show nothing new.
const LONGEST_SIDE: u32 = 256;

fuzz_target!(|input: (bool, &[u8])| {
    let (low, file) = input;
    let detail = if low { ImageDetail::Low } else { ImageDetail::High };
    let options =
        PreprocessOptions { detail, max_dimension_px: LONGEST_SIDE, low_detail_max_dimension_px: 64 };
    let size = size_from_header(file);
    let Ok(image) = preprocess(file, &options) else {
        return;
    };
    let (width, height) = size.expect("a header that was read once is read again");
    assert!(width <= LONGEST_SIDE && height <= LONGEST_SIDE);
    assert_eq!(size_from_header(&image.data).ok(), Some((image.width, image.height)));
    if !low {
        let tokens = tokens_at_detail(width, height, detail);
        assert_eq!(tokens, tokens_at_detail(image.width, image.height, detail), "the size is a fixed point");
    }
});
