//! Takes a Chat Completions body as far as a stage, some times, for profilers and for scripts/count_instructions.sh.
//!
//! `encode_request FILE STAGE PASSES`, with a stage of `parse`, `convert`, `render` or `ids`, prints the seconds of the
//! first pass and of the fastest. From the second pass on, the segments of the body are kept ones.

use std::time::Instant;

use recipe_core::options::{ConversionOptions, ModelVersion};
use recipe_core::prompt::render;
use recipe_core::request::chat::ChatRequest;
use recipe_core::tokenizer::Tokenizer;

/// The number of ids, 0 before the stage that has some.
fn encode(body: &[u8], stage: &str, options: &ConversionOptions, tokenizer: &Tokenizer) -> recipe_core::Result<usize> {
    let request = ChatRequest::parse(body)?;
    if stage == "parse" {
        return Ok(0);
    }
    let request = request.convert(options)?;
    if stage == "convert" {
        return Ok(0);
    }
    let prompt = render(&request.conversation, request.model_version, &options.special_tokens);
    if stage == "render" {
        return Ok(0);
    }
    tokenizer.encode_prompt(&prompt).map(|ids| ids.len())
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut argument = || arguments.next().expect("usage: encode_request FILE STAGE PASSES");
    let body = std::fs::read(argument()).expect("the file can be read");
    let stage = argument();
    let passes: usize = argument().parse().expect("PASSES is a number");
    let options = ConversionOptions::default();
    let tokenizer = Tokenizer::builtin(ModelVersion::DeepseekV41Flash);
    let mut seconds = Vec::new();
    let mut ids = 0;
    for _ in 0..passes {
        let start = Instant::now();
        ids = encode(&body, &stage, &options, &tokenizer).expect("the body is a request");
        seconds.push(start.elapsed().as_secs_f64());
    }
    let fastest = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    println!("{ids} ids, {:?} s, {fastest} s", seconds.first());
}
