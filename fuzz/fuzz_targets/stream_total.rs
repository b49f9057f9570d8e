//! Whatever the engine sends, the events are well formed, and what it may not send is refused without a panic.

#![no_main]

#[path = "../../recipe-core/tests/common/fragments.rs"]
mod fragments;
#[path = "../../recipe-core/tests/common/output.rs"]
mod output;
#[path = "common/script.rs"]
mod script;

use libfuzzer_sys::fuzz_target;
use output::{check_well_formed, run, said};
use recipe_core::stream::{Events, InferenceChunk, StreamProcessor};

fuzz_target!(|bytes: &[u8]| {
    let Some(script) = script::Script::read(bytes, true) else { return };
    let tokenizer = (bytes[2] < 250).then(|| script::TOKENIZER.clone());
    let mut processor = StreamProcessor::new(script.options, script::output_tools(), tokenizer);
    let mut chunks = script.chunks;
    // The rest of the bytes as they are: text and ids without any sense.
    chunks.push(InferenceChunk::Text { content: String::from_utf8_lossy(bytes).into_owned(), token_count: u64::MAX });
    let token_ids = bytes.chunks_exact(3).map(|b| u32::from_be_bytes([0, b[0] & 1, b[1], b[2]])).collect();
    chunks.push(InferenceChunk::Tokens { token_ids, logprobs: (bytes[2] > 240).then(Vec::new) });
    chunks.push(script.end);
    let list = run(&mut processor, &chunks);
    check_well_formed(&list);
    let mut events = Events::default();
    assert!(processor.push_text("x", 1, &mut events).is_err(), "a text behind the end");
    assert!(said(&events).is_empty(), "an event behind the end");
});
