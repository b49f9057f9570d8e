//! Why an image is refused: a kind for programs, a text for the client. Knows no decoder and no network.

use std::fmt;

/// What is wrong with an image. The names are the reference's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageErrorKind {
    /// No bytes, or pixels that cannot be decoded.
    EmptyImage,
    /// No PNG, JPEG, GIF or WebP, by the content or by the type that a data URL declares.
    UnsupportedMediaType,
    /// A data URL that cannot be read.
    InvalidDataUrl,
    /// The header of the file cannot be read.
    Decode,
    /// The image cannot be brought to a size that the model takes.
    Resize,
    /// The resized image cannot be written.
    Encode,
    /// A side is too long.
    ImageDimensionsTooLarge,
    /// The file has too many bytes.
    ImageTooLarge,
    /// The files of a request have too many bytes or pixels together.
    TotalSizeTooLarge,
    /// The request has too many images.
    TooManyImages,
    /// No http URL.
    InvalidUrl,
    /// The URL has too many bytes.
    UrlTooLong,
    /// The server cannot be reached, or does not answer as it should.
    Fetch,
    /// The server answers with a status that is no success.
    FetchStatus,
    /// The server has no address that may be connected to.
    DestinationRejected,
}

impl ImageErrorKind {
    /// The word for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EmptyImage => "EmptyImage",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::InvalidDataUrl => "InvalidDataUrl",
            Self::Decode => "Decode",
            Self::Resize => "Resize",
            Self::Encode => "Encode",
            Self::ImageDimensionsTooLarge => "ImageDimensionsTooLarge",
            Self::ImageTooLarge => "ImageTooLarge",
            Self::TotalSizeTooLarge => "TotalSizeTooLarge",
            Self::TooManyImages => "TooManyImages",
            Self::InvalidUrl => "InvalidUrl",
            Self::UrlTooLong => "UrlTooLong",
            Self::Fetch => "Fetch",
            Self::FetchStatus => "FetchStatus",
            Self::DestinationRejected => "DestinationRejected",
        }
    }

    /// Whether the text speaks of one image, so that it says which.
    fn is_of_one_image(self) -> bool {
        !matches!(self, Self::TotalSizeTooLarge | Self::TooManyImages | Self::InvalidUrl | Self::UrlTooLong)
    }
}

/// An image that cannot be had, read or resized. The text is made for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageError {
    kind: ImageErrorKind,
    message: String,
    is_retryable: bool,
    path: String,
    index: usize,
}

pub(crate) type Result<T> = std::result::Result<T, ImageError>;

impl ImageError {
    pub(crate) fn new(kind: ImageErrorKind, message: String) -> Self {
        Self { kind, message, is_retryable: false, path: String::new(), index: 0 }
    }

    /// A file that the model cannot be shown, for whatever reason.
    pub(crate) fn unsupported(kind: ImageErrorKind) -> Self {
        let text = "You have uploaded an unsupported image. \
                    Please make sure your image is valid and has one of the following formats: webp, png, jpeg, and gif.";
        Self::new(kind, text.to_owned())
    }

    /// A file of more than `limit` bytes.
    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(ImageErrorKind::ImageTooLarge, format!("image file size exceeds limit {} MB", limit >> 20))
    }

    #[cfg(feature = "fetch")]
    pub(crate) fn fetch(kind: ImageErrorKind, url: &str, is_retryable: bool) -> Self {
        Self { is_retryable, ..Self::new(kind, format!("Failed to download image from {url}")) }
    }

    /// Says which image it is: the one at `index` of those with this path.
    pub(crate) fn of(self, path: &str, index: usize) -> Self {
        Self { path: path.to_owned(), index, ..self }
    }

    /// The word for programs.
    pub fn kind(&self) -> ImageErrorKind {
        self.kind
    }

    /// Whether a second try may help.
    pub fn is_retryable(&self) -> bool {
        self.is_retryable
    }

    /// The place in the request; empty where the source has none.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, index, message, .. } = self;
        match (self.kind.is_of_one_image(), path.is_empty()) {
            (true, true) => write!(f, "image[{index}]: {message}"),
            (true, false) => write!(f, "{path}.image[{index}]: {message}"),
            (false, true) => f.write_str(message),
            (false, false) => write!(f, "{path}: {message}"),
        }
    }
}

impl std::error::Error for ImageError {}
