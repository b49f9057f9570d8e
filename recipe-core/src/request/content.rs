//! Text, images and files of a message, as the three protocols share them. Knows no protocol's field names.

use crate::conversation::{Content, ImageData, ImageDetail, ImageSource};
use crate::data_url::{starts_with_http, DataUrl};
use crate::error::{Error, Result};
use crate::request::shape::names;

/// What V4, which has no images, puts in the place of one.
pub(crate) const UNSUPPORTED_IMAGE: &str = "[Unsupported Image]";

names! {
    /// The `detail` of an image in a request.
    pub(crate) enum Detail {
        Low = "low",
        High = "high",
        Original = "original",
        Auto = "auto",
    }
}

impl From<Detail> for ImageDetail {
    fn from(detail: Detail) -> Self {
        match detail {
            Detail::Low => Self::Low,
            Detail::High => Self::High,
            Detail::Original => Self::Original,
            Detail::Auto => Self::Auto,
        }
    }
}

/// The parts of one message, joined by an empty line; empty texts are joined too.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    content: Content,
    started: bool,
}

impl Parts {
    fn separate(&mut self) {
        if self.started {
            self.content.push_str("\n\n");
        }
        self.started = true;
    }

    /// Appends a text.
    pub(crate) fn text(&mut self, text: &str) {
        self.separate();
        self.content.push_str(text);
    }

    /// Appends an image, spelled `image_token`.
    pub(crate) fn image(&mut self, source: ImageSource, image_token: &str) {
        self.separate();
        self.content.push_image(source, image_token);
    }

    /// The joined content.
    pub(crate) fn finish(self) -> Content {
        self.content
    }
}

/// The source of an image at `path`, from a URL or a data URL.
pub(crate) fn image_source(url: String, detail: ImageDetail, path: String) -> Result<ImageSource> {
    if starts_with_http(&url) {
        return Ok(ImageSource { data: ImageData::Url(url), detail, path });
    }
    let fault = |text: &str| Err(Error::conversion(format!("{path}: {text}")).at(path.trim_start_matches('.')));
    // The reference looks for these letters anywhere, so a URL that only ends in them passes.
    let Some(data) = DataUrl::parse(&url).filter(|_| url.contains("base64,")) else {
        return fault("Unsupported image_url format");
    };
    if !data.is_image() {
        return fault(
            "You have uploaded an unsupported image. \
             Please make sure your image is valid and has one of the following formats: webp, png, jpeg, and gif.",
        );
    }
    if !data.is_decodable() {
        return fault("Invalid base64 data");
    }
    Ok(ImageSource { data: ImageData::DataUrl(url), detail, path })
}

/// A file that can be shown as text, wrapped as the model knows it.
pub(crate) fn file_text(context: Option<&str>, name: &str, bytes: &[u8]) -> String {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = String::from_utf8_lossy(bytes);
    let context = context.map(|context| format!("{context}\n")).unwrap_or_default();
    format!("{context}[file name]: {name}\n[file content begin]\n{text}\n[file content end]")
}
