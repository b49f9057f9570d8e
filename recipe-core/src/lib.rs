//! Requests of AI APIs to DeepSeek token ids, and model output back to replies.
//!
//! ```text
//! bytes -> request -> Conversation -> prompt (segments) -> ids -> ENGINE -> ids -> stream (events) -> reply -> bytes
//! ```
//!
//! One direction, one module for each arrow; nothing on the left knows anything on the right.
//!
//! ```
//! use recipe_core::options::ConversionOptions;
//! use recipe_core::prompt::render;
//! use recipe_core::reply::{chat::ChatGenerator, Chunk, ReplyStream};
//! use recipe_core::request::chat::ChatRequest;
//! use recipe_core::stream::{InferenceChunk, InferenceFinishReason};
//! use recipe_core::tokenizer::Tokenizer;
//!
//! # fn main() -> recipe_core::Result<()> {
//! let body = br#"{"model": "DeepSeek-V4.1-Flash", "messages": [{"role": "user", "content": "Hi"}]}"#;
//! let request = ChatRequest::parse(body)?.convert(&ConversionOptions::default())?;
//! let tokenizer = Tokenizer::builtin(request.model_version);
//! let prompt = render(&request.conversation, request.model_version, &request.parsing_options.special_tokens);
//! let ids = tokenizer.encode_prompt(&prompt)?;
//! assert_eq!(ids.first(), Some(&0));
//!
//! let generator = ChatGenerator::new(&request, "id-1", "DeepSeek-V4.1-Flash", 0, 7);
//! let mut stream = ReplyStream::new(generator, request.parsing_options.clone(), Some(tokenizer));
//! let mut sent = String::new();
//! stream.push_tokens(&[43, 2118, 128822, 19923], &mut |chunk| chunk.write_sse(&mut sent))?;
//! let finish = InferenceChunk::Finish(InferenceFinishReason::Stop);
//! stream.push(&finish, &mut |chunk| chunk.write_sse(&mut sent))?;
//! assert!(sent.contains(r#""delta":{"content":"Hello","reasoning_content":null}"#));
//! # Ok(())
//! # }
//! ```

pub mod conversation;
mod data_url;
pub mod error;
pub mod extend;
pub mod image;
pub mod json;
pub mod options;
pub mod prompt;
pub mod reply;
pub mod request;
pub mod save;
pub mod schema;
pub mod seal;
pub mod special;
pub mod stream;
pub mod tokenizer;

pub use error::{Error, Result};
