//! The chunks of a Chat Completions reply are JSON, and add up to the complete response.

#![no_main]

#[path = "../../recipe-core/tests/common/fragments.rs"]
mod fragments;
#[path = "common/script.rs"]
mod script;
#[path = "../../recipe-core/tests/common/chat.rs"]
mod twin;

use libfuzzer_sys::fuzz_target;
use recipe_core::conversation::Conversation;
use recipe_core::options::ModelVersion;
use recipe_core::reply::chat::{ChatChunk, ChatGenerator, ChatResponse};
use recipe_core::reply::{Chunk, ReplyStream};
use recipe_core::request::ConversationRequest;
use recipe_core::stream::{IdLogprob, InferenceChunk};

fuzz_target!(|bytes: &[u8]| {
    let Some(script) = script::Script::read(bytes, true) else { return };
    let thinking = script.options.thinking_initial_stage.is_some();
    let conversation = Conversation { thinking_mode: thinking, tools: script::tools(), ..Conversation::default() };
    let mut request = ConversationRequest::new(conversation, ModelVersion::DeepseekV41Flash);
    request.parsing_options = script.options.clone();
    request.stream = bytes[2] & 64 == 0;
    let generator = ChatGenerator::new(&request, "id\"1", "m\n", 3, 1);
    let mut response = ChatResponse::new("id\"1", "m\n", 3);
    let mut stream = ReplyStream::new(generator, script.options, Some(script::TOKENIZER.clone()));
    let mut chunks = Vec::new();
    let mut take = |chunk: ChatChunk<'_>| {
        let mut json = String::new();
        chunk.write_json(&mut json);
        let mut sse = String::new();
        chunk.write_sse(&mut sse);
        assert_eq!(sse, format!("data: {json}\n\n"));
        assert!(!json.contains('\n'));
        chunks.push(serde_json::from_str(&json).expect("a chunk is JSON"));
        response.accumulate(chunk.into_owned());
    };
    for mut chunk in script.chunks.into_iter().chain([script.end]) {
        if stream.is_finished() {
            break;
        }
        if let InferenceChunk::Tokens { token_ids, logprobs } = &mut chunk {
            let entry =
                |id: &u32| IdLogprob { logprob: -(*id as f32) / 7.0, top: vec![(*id, f32::NEG_INFINITY), (1, 0.0)] };
            *logprobs = script.cuts[0].then(|| token_ids.iter().map(entry).collect());
        }
        stream.push(&chunk, &mut take).expect("the stream is open");
    }
    let mut json = String::new();
    response.write_json(&mut json);
    let response: serde_json::Value = serde_json::from_str(&json).expect("the response is JSON");
    assert_eq!(twin::accumulated(&chunks), response);
});
