//! The sources of images and documents in a Messages body. Knows no order of blocks.

use super::body::{Base64Source, Document, ImageType, Source, UrlSource};
use crate::conversation::{ImageData, ImageDetail, ImageSource};
use crate::data_url::{base64_bytes, base64_digit, is_readable, starts_with_http};
use crate::error::{Error, Result};
use crate::options::ConversionOptions;
use crate::request::check_served;
use crate::request::content::file_text;

/// The image at a place: `path` names it in the conversation, `fault_path` in errors.
pub(crate) fn image(source: Source, path: String, fault_path: &str) -> Result<ImageSource> {
    let fault = |text: &str| Err(Error::conversion(format!("{fault_path}: {text}")));
    let data = match source {
        Source::Base64(Base64Source { media_type, data }) => {
            let Some(data) = canonical_base64(data) else {
                return fault("base64 decode error");
            };
            let subtype = match media_type {
                ImageType::Jpeg | ImageType::Jpg => "jpeg",
                ImageType::Png => "png",
                ImageType::Gif => "gif",
                ImageType::Webp => "webp",
            };
            ImageData::DataUrl(format!("data:image/{subtype};base64,{data}"))
        }
        Source::Url(UrlSource { url }) => {
            if !starts_with_http(&url) {
                return fault(&format!("invalid url: {url:?}"));
            }
            ImageData::Url(url)
        }
        Source::File(_) => {
            return fault("file_id is not supported. Pass the image as a base64 data url instead.");
        }
    };
    Ok(ImageSource { data, detail: ImageDetail::High, path })
}

/// A base64 text with the padding that it needs. `None` where the reference does not take it: there may be no
/// white space, unused bits are zero, and where padding is needed, at least one `=` is there; how many does not matter.
fn canonical_base64(mut data: String) -> Option<String> {
    let given = data.len();
    data.truncate(data.trim_end_matches('=').len());
    let mut last = 0;
    for letter in data.bytes() {
        last = base64_digit(letter)?;
    }
    let (padding, unused_bits) = match data.len() % 4 {
        0 => return Some(data),
        1 => return None,
        2 => ("==", 0b1111),
        _ => ("=", 0b11),
    };
    if given == data.len() || last & unused_bits != 0 {
        return None;
    }
    data.push_str(padding);
    Some(data)
}

/// A document as text: the text itself where it can be read, otherwise a note, or the error of the one at `path`.
pub(crate) fn document(
    document: Document,
    options: &ConversionOptions,
    path: impl FnOnce() -> String,
) -> Result<String> {
    let source = document.source;
    let media_type = source.media_type.as_deref();
    let readable = media_type.is_some_and(|full| is_readable(full.split(';').next().unwrap_or_default().trim()));
    let bytes = match source.kind.0.as_deref() {
        Some("text") if readable || media_type.is_none() => source.data.0.map(String::into_bytes),
        Some("base64") if readable => source.data.0.and_then(|data| base64_bytes(&data)),
        Some("content") => source.content.0.map(|content| content.0.into_bytes()),
        _ => None,
    };
    if let Some(bytes) = bytes {
        let title = document.title.0.as_deref().unwrap_or("document");
        return Ok(file_text(document.context.0.as_deref(), title, &bytes));
    }
    check_served(options, "document", path)?;
    Ok(format!("[Unsupported document type: {}]", media_type.unwrap_or("unknown")))
}
