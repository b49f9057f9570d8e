//! Images: from a source in a conversation to the file that the engine gets, and what it costs. Knows no protocol and
//! no template. The network is an argument.
//!
//! ```text
//! source -> bytes -> format and size -> pixels -> fitted pixels -> WebP
//! ```

pub mod tokens;

#[cfg(feature = "images")]
mod decode;
#[cfg(feature = "images")]
mod encode;
#[cfg(feature = "images")]
mod error;
#[cfg(feature = "fetch")]
pub mod fetch;
#[cfg(feature = "images")]
mod letterbox;
#[cfg(feature = "images")]
mod limits;
#[cfg(feature = "images")]
mod preprocess;
#[cfg(feature = "images")]
mod resize;
#[cfg(feature = "images")]
mod resolve;

#[cfg(feature = "images")]
pub use decode::size_from_header;
#[cfg(feature = "images")]
pub use error::{ImageError, ImageErrorKind};
#[cfg(feature = "images")]
pub use limits::{ImageLimits, ImageQuota};
#[cfg(feature = "images")]
pub use preprocess::{preprocess, tokens_at_detail, ImageInfo, PreprocessOptions};
#[cfg(feature = "images")]
pub use resolve::{measure, resolve, Download};
