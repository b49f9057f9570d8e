//! Requests of AI APIs to DeepSeek token ids, and model output back to replies.

pub mod conversation;
pub mod error;
pub mod json;
pub mod options;
pub mod prompt;
pub mod special;
pub mod stream;
pub mod tokenizer;

pub use error::{Error, Result};
