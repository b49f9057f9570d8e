//! Images without a network: what is written, and which of several errors is reported. The cases of files and sources
//! are run by `tests/python/test_image.py`.

#![cfg(feature = "images")]
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use recipe_core::conversation::{ImageData, ImageDetail, ImageSource};
use recipe_core::image::{
    measure, preprocess, resolve, size_from_header, tokens_at_detail, ImageError, ImageErrorKind, ImageInfo,
    ImageLimits, ImageQuota, PreprocessOptions,
};

/// A PNG file of 2 x 2 pixels.
const TINY: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x02\x08\x02\0\0\0\xfd\xd4\x9as\0\0\0\x19IDATx\x01\x01\x0e\0\
    \xf1\xff\0\xff\0\0\0\xff\0\0\0\0\xff\xff\xff\0\x1e\xef\x04\xfc*\xb8\x82\x17\0\0\0\0IEND\xaeB`\x82";

fn source(data: ImageData) -> ImageSource {
    ImageSource { data, detail: ImageDetail::High, path: String::new() }
}

#[test]
fn a_written_file_has_the_size_that_is_told() {
    for detail in [ImageDetail::Low, ImageDetail::High] {
        let options = PreprocessOptions { detail, max_dimension_px: 2, low_detail_max_dimension_px: 1 };
        let image = preprocess(TINY, &options).unwrap();
        assert_eq!((image.width, image.height), (546, 546));
        assert_eq!(size_from_header(&image.data), Ok((546, 546)));
    }
    assert_eq!(size_from_header(TINY), Ok((2, 2)));
    assert_eq!(tokens_at_detail(2, 2, ImageDetail::High), Some(184));
}

#[test]
fn nothing_is_downloaded_but_urls() {
    let nothing = |_: &str| -> Result<Vec<u8>, ImageError> { panic!("a download") };
    let quota = ImageQuota::default();
    let sources = [
        source(ImageData::Bytes(TINY.to_vec())),
        source(ImageData::DataUrl("data:image/png,x".to_owned())),
        source(ImageData::Url("data:image/png,x".to_owned())),
        source(ImageData::DataUrl("http://a/".to_owned())),
    ];
    let kind = |source| {
        let resolved = resolve(&[source], &quota, &ImageLimits::default(), &nothing);
        resolved.map(|images| images.len()).map_err(|error| error.kind())
    };
    assert_eq!(kind(&sources[0]), Ok(1));
    assert_eq!(kind(&sources[1]), Err(ImageErrorKind::UnsupportedMediaType));
    assert_eq!(kind(&sources[2]), Err(ImageErrorKind::InvalidUrl));
    assert_eq!(kind(&sources[3]), Err(ImageErrorKind::InvalidDataUrl));
    assert_eq!((quota.image_count(), quota.byte_size()), (1, TINY.len() as u64));
}

/// What the end of a URL says about its file.
#[derive(Clone, Copy, Debug)]
enum File {
    /// An image in so many bytes.
    Image(usize),
    /// No bytes.
    Empty,
    /// So many bytes that are no image.
    Other(usize),
}

impl File {
    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Image(length) => [TINY, &vec![0; length - TINY.len()]].concat(),
            Self::Empty => Vec::new(),
            Self::Other(length) => vec![b'x'; length],
        }
    }
}

fn file() -> impl Strategy<Value = File> {
    prop_oneof![
        8 => (TINY.len()..400).prop_map(File::Image),
        1 => Just(File::Empty),
        1 => (1..400usize).prop_map(File::Other),
    ]
}

const TOTAL: u64 = 2000;

/// One source after the other: first all are loaded, then all are drawn.
fn one_by_one(files: &[File]) -> Result<usize, (ImageErrorKind, String)> {
    const UNSUPPORTED: &str = "You have uploaded an unsupported image. \
        Please make sure your image is valid and has one of the following formats: webp, png, jpeg, and gif.";
    let mut total = 0;
    for (index, file) in files.iter().enumerate() {
        if matches!(file, File::Empty) {
            return Err((ImageErrorKind::EmptyImage, format!("image[{index}]: {UNSUPPORTED}")));
        }
        total += file.bytes().len() as u64;
        if total > TOTAL {
            let text = "Total image size exceeds the limit: max 0 MB per request, got 0 MB";
            return Err((ImageErrorKind::TotalSizeTooLarge, text.to_owned()));
        }
    }
    match files.iter().position(|file| matches!(file, File::Other(_))) {
        Some(index) => Err((ImageErrorKind::UnsupportedMediaType, format!("image[{index}]: {UNSUPPORTED}"))),
        None => Ok(files.len()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn threads_give_what_one_gives(files in prop::collection::vec(file(), 0..14), at_a_time in 1..9usize) {
        let sources: Vec<ImageSource> =
            (0..files.len()).map(|index| source(ImageData::Url(format!("http://a/{index}")))).collect();
        let sources: Vec<&ImageSource> = sources.iter().collect();
        let download = |url: &str| Ok(files[url["http://a/".len()..].parse::<usize>().unwrap()].bytes());
        let limits = ImageLimits { total_bytes: TOTAL, at_a_time, ..ImageLimits::default() };
        for work in [resolve, measure] {
            let quota = ImageQuota::default();
            let images: Result<Vec<ImageInfo>, ImageError> = work(&sources, &quota, &limits, &download);
            let shown = images.map(|images| images.len()).map_err(|error| (error.kind(), error.to_string()));
            prop_assert_eq!(quota.image_count(), *shown.as_ref().unwrap_or(&0));
            prop_assert_eq!(shown, one_by_one(&files));
        }
    }
}
