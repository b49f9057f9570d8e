//! Saved state that no stream was ever in, under a right checksum: it is refused, or goes on without a panic.

// Each test file uses a part of this.
#![allow(dead_code, clippy::unwrap_used)]

use recipe_core::reply::chat::ChatGenerator;
use recipe_core::reply::messages::MessagesGenerator;
use recipe_core::reply::responses::ResponsesGenerator;
use recipe_core::reply::{Chunk, Reply, ReplyStream};
use recipe_core::save::{name, Needs};
use recipe_core::seal::ReasoningSealer;
use recipe_core::stream::{Events, InferenceChunk, InferenceFinishReason, StreamProcessor};

/// What stands before the name of the type.
pub const HEAD: &[u8] = b"RCPS\x01";

/// The bytes with their checksum behind them, FNV-1a of 64 bits.
pub fn signed(mut bytes: Vec<u8>) -> Vec<u8> {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let checksum = bytes.iter().fold(0xcbf2_9ce4_8422_2325, step);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

/// Loads signed bytes and, if they are taken, goes on with some output. Says whether they were taken.
pub fn go_on(bytes: &[u8]) -> bool {
    match name(bytes) {
        Ok("StreamProcessor") => go_on_with_events(bytes),
        Ok("ChatGenerator") => go_on_with_reply::<ChatGenerator>(bytes),
        Ok("MessagesGenerator") => go_on_with_reply::<MessagesGenerator>(bytes),
        Ok("ResponsesGenerator") => go_on_with_reply::<ResponsesGenerator>(bytes),
        _ => false,
    }
}

fn output() -> Vec<InferenceChunk> {
    let text = |text: &str| InferenceChunk::Text { content: text.to_owned(), token_count: 1 };
    vec![
        text(""),
        InferenceChunk::Tokens { token_ids: vec![43, 163, 128_822, 128_825, 1, 67], logprobs: None },
        text("\n\" 'é\\\n, x: True]}"),
        text("</｜DSML｜ parameter>\n<｜DSML｜ invoke name=\"f\"><｜DSML｜ parameter name=\"arguments\">{\"a\": {}}"),
        text("</｜DSML｜ parameter>é</｜DSML｜ invoke></｜DSML｜ calls>{\"a\": [1, \"x\\n\"]}</think>\n\nend <"),
        InferenceChunk::Finish(InferenceFinishReason::Stop),
    ]
}

fn go_on_with_events(bytes: &[u8]) -> bool {
    let Ok(mut processor) = StreamProcessor::restore(bytes, None) else { return false };
    let mut events = Events::default();
    let saved = processor.save();
    let again = StreamProcessor::restore(&saved, None).expect("saved bytes are taken");
    assert!(again.save() == saved, "the bytes change");
    for chunk in output() {
        if processor.push(&chunk, &mut events).is_err() {
            break;
        }
    }
    true
}

fn go_on_with_reply<R: Reply>(bytes: &[u8]) -> bool {
    let sealer = Some(ReasoningSealer::new(&[[7; 32]]).unwrap());
    let Ok(mut stream) = ReplyStream::<R>::restore(bytes, Needs { sealer, clock: Some(|| 1), ..Needs::default() })
    else {
        return false;
    };
    let mut json = String::new();
    for chunk in output() {
        if stream.push(&chunk, &mut |chunk| chunk.write_json(&mut json)).is_err() {
            break;
        }
    }
    true
}
