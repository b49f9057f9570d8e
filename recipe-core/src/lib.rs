//! Requests of AI APIs to DeepSeek token ids, and model output back to replies.

pub mod conversation;
pub mod error;
pub mod json;
pub mod options;
pub mod request;
pub mod schema;
pub mod special;

pub use error::{Error, Result};
