//! Saved state: replies that go on from their bytes at every chunk, whatever the protocol; damaged bytes; records.
//! The machine by itself is saved in `stream.rs`.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/forged.rs"]
mod forged;

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use common::reply::{engine_chunk, parsing_options};
use common::{integer, items, read_cases, read_lines, string};
use proptest::prelude::*;
use recipe_core::conversation::{Content, Conversation, ImageData, ImageDetail, ImageSource, Message, ToolDefinition};
use recipe_core::json::Value;
use recipe_core::options::{ConversionOptions, ModelVersion};
use recipe_core::prompt::RenderedPrompt;
use recipe_core::reply::chat::{ChatGenerator, ChatResponse};
use recipe_core::reply::messages::{MessagesGenerator, MessagesResponse};
use recipe_core::reply::responses::{ResponsesGenerator, ResponsesResponse};
use recipe_core::reply::{Chunk, Reply, ReplyStream};
use recipe_core::request::chat::ChatRequest;
use recipe_core::request::messages::MessagesRequest;
use recipe_core::request::responses::ResponsesRequest;
use recipe_core::request::{ConversationRequest, Protocol};
use recipe_core::save::{load, name, save, Needs, Save};
use recipe_core::seal::ReasoningSealer;
use recipe_core::stream::{Events, InferenceChunk, InferenceFinishReason, OutputTools, PromptUsage, StreamProcessor};
use recipe_core::tokenizer::Tokenizer;

/// What is given again to a reply that is loaded.
fn needs() -> Needs {
    Needs { tokenizer: None, sealer: Some(sealer()), clock: Some(clock) }
}

fn sealer() -> ReasoningSealer {
    ReasoningSealer::new(&[[7; 32]]).unwrap()
}

fn clock() -> u64 {
    9
}

fn options() -> ConversionOptions {
    ConversionOptions { max_choices: 8, reasoning_sealer: Some(sealer()), ..ConversionOptions::default() }
}

/// The request of a case, as converted, and its model name.
fn request(protocol: Protocol, case: &Value<'static>) -> (ConversationRequest, String) {
    let body = case.get("body").unwrap().to_compact();
    let (options, body) = (options(), body.as_bytes());
    macro_rules! converted {
        ($Request:ident) => {{
            let request = $Request::parse(body).unwrap();
            let model = request.model().to_owned();
            (request.convert(&options).unwrap(), model)
        }};
    }
    match protocol {
        Protocol::ChatCompletions => converted!(ChatRequest),
        Protocol::Messages => converted!(MessagesRequest),
        Protocol::Responses => converted!(ResponsesRequest),
    }
}

/// A reply of any protocol on its way, and what its chunks add up to.
trait Playing {
    /// The chunks that an engine chunk makes, or the error.
    fn push(&mut self, chunk: &InferenceChunk) -> String;
    /// The bytes of the stream and of the response.
    fn save(&self) -> (Vec<u8>, Vec<u8>);
    /// The same made of the bytes.
    fn restored(&self) -> Box<dyn Playing>;
}

struct Kept<R: Reply, A> {
    stream: ReplyStream<R>,
    response: A,
    accumulate: fn(&mut A, R::Chunk<'_>),
}

impl<R: Reply, A: Save + 'static> Playing for Kept<R, A> {
    fn push(&mut self, chunk: &InferenceChunk) -> String {
        let (mut sent, Self { stream, response, accumulate }) = (String::new(), self);
        let done = stream.push(chunk, &mut |chunk| {
            chunk.write_sse(&mut sent);
            accumulate(response, chunk);
        });
        done.map_or_else(|error| error.to_string(), |()| sent)
    }

    fn save(&self) -> (Vec<u8>, Vec<u8>) {
        (self.stream.save(), save(&self.response))
    }

    fn restored(&self) -> Box<dyn Playing> {
        let (stream, response) = self.save();
        let stream = ReplyStream::<R>::restore(&stream, needs()).unwrap();
        let response: A = load(&response, Needs::default()).unwrap();
        Box::new(Self { stream, response, accumulate: self.accumulate })
    }
}

/// The reply of a case at its start.
fn reply(protocol: Protocol, case: &Value<'static>) -> Box<dyn Playing> {
    let (request, model) = request(protocol, case);
    let parsing = parsing_options(case, request.parsing_options.clone());
    let has_tokenizer = case.get("tokenizer") != Some(&Value::Bool(false));
    let tokenizer = has_tokenizer.then(|| Tokenizer::builtin(request.model_version));
    match protocol {
        Protocol::ChatCompletions => {
            let index = case.get("index").map_or(0, |index| u32::try_from(integer(index)).unwrap());
            let reply = ChatGenerator::new(&request, "id-1", &model, 3, 1 << 77).with_index(index);
            let stream = ReplyStream::new(reply, parsing, tokenizer);
            let response = ChatResponse::new("id-1", &model, 3);
            Box::new(Kept { stream, response, accumulate: |response, chunk| response.accumulate(chunk) })
        }
        Protocol::Messages => {
            let reply = MessagesGenerator::new(&request, "id-1", &model, 1 << 77);
            let stream = ReplyStream::new(reply, parsing, tokenizer);
            let response = MessagesResponse::new("id-1", &model, PromptUsage::default());
            Box::new(Kept { stream, response, accumulate: |response, chunk| response.accumulate(chunk) })
        }
        Protocol::Responses => {
            let reply = ResponsesGenerator::new(&request, "id-1", &model, 3, 1 << 77).with_clock(clock);
            let stream = ReplyStream::new(reply, parsing, tokenizer);
            let response = ResponsesResponse::new("id-1", &model, 3);
            Box::new(Kept { stream, response, accumulate: |response, chunk| response.accumulate(chunk) })
        }
    }
}

/// The chunks with texts cut into characters and ids one by one.
fn token_by_token(chunks: &[InferenceChunk]) -> Vec<InferenceChunk> {
    let mut out = Vec::new();
    for chunk in chunks {
        match chunk {
            InferenceChunk::Text { content, token_count } if !content.is_empty() => {
                let text = |c: char| InferenceChunk::Text { content: c.into(), token_count: *token_count };
                out.extend(content.chars().map(text));
            }
            InferenceChunk::Tokens { token_ids, logprobs: None } if !token_ids.is_empty() => {
                out.extend(token_ids.iter().map(|id| InferenceChunk::Tokens { token_ids: vec![*id], logprobs: None }));
            }
            other => out.push(other.clone()),
        }
    }
    out
}

/// The cases in the project.
fn cases() -> Vec<(Protocol, Value<'static>)> {
    let folder = common::root().join("tests/cases/reply");
    let files = [
        (Protocol::ChatCompletions, "chat.jsonl"),
        (Protocol::Messages, "messages.jsonl"),
        (Protocol::Responses, "responses.jsonl"),
    ];
    let of_file = |(protocol, file)| read_lines(&folder.join(file)).into_iter().map(move |case| (protocol, case));
    files.into_iter().flat_map(of_file).collect()
}

/// Goes on from the bytes before every chunk, and sends what the reply sends that was never saved.
fn check_case(protocol: Protocol, case: &Value<'static>) {
    let id = string(case, "id");
    let chunks: Vec<InferenceChunk> = items(case, "chunks").iter().map(engine_chunk).collect();
    for chunks in [&chunks, &token_by_token(&chunks)] {
        let mut reply = reply(protocol, case);
        for chunk in chunks {
            let mut restored = reply.restored();
            assert!(restored.save() == reply.save(), "{id}: the bytes change");
            assert_eq!(restored.push(chunk), reply.push(chunk), "{id}");
            assert!(restored.save() == reply.save(), "{id}: the states part");
        }
    }
}

/// Also the cases of the folder that `RECIPE_CONFORMANCE` names.
#[test]
fn replies_go_on_from_their_bytes() {
    cases().iter().for_each(|(protocol, case)| check_case(*protocol, case));
    let Some(folder) = std::env::var_os("RECIPE_CONFORMANCE").map(PathBuf::from) else {
        return println!("skipped in part: RECIPE_CONFORMANCE names no folder");
    };
    for case in read_lines(&folder.join("cases/streams.jsonl")) {
        let protocol = Protocol::ALL.into_iter().find(|protocol| protocol.as_str() == string(&case, "protocol"));
        check_case(protocol.unwrap(), &case);
    }
}

/// A reply in the middle of a call, with held text, sealed reasoning and log probabilities.
fn messages_stream() -> ReplyStream<MessagesGenerator> {
    let body = br#"{"model": "DeepSeek-V4.1-Flash", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}],
        "thinking": {"type": "enabled", "budget_tokens": 5, "display": "omitted"}, "stop_sequences": ["never"],
        "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {"a": {"type": "array"}}}}]}"#;
    let request = MessagesRequest::parse(body).unwrap().convert(&options()).unwrap();
    assert!(request.sealer.is_some());
    let tokenizer = Tokenizer::builtin(request.model_version);
    let reply = MessagesGenerator::new(&request, "id-1", "m", 1);
    let mut stream = ReplyStream::new(reply, request.parsing_options.clone(), Some(tokenizer.clone()));
    let text = "Hm.</think>So: \n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\nbetween\
                <｜DSML｜ parameter name=\"a\">[1, {'b': Tr";
    stream.push_tokens(&tokenizer.encode(text), &mut |_| {}).unwrap();
    stream
}

#[test]
fn every_damage_is_refused() {
    let saved = messages_stream().save();
    let restore = |bytes: &[u8]| ReplyStream::<MessagesGenerator>::restore(bytes, needs()).map(|_| ());
    restore(&saved).unwrap();
    for place in 0..saved.len() {
        assert!(restore(&saved[..place]).is_err(), "cut off at {place}");
        for bit in 0..8 {
            let mut damaged = saved.clone();
            damaged[place] ^= 1 << bit;
            assert!(restore(&damaged).is_err(), "byte {place}, bit {bit}");
        }
    }
    let longer = [saved.as_slice(), b"\0"].concat();
    assert!(restore(&longer).unwrap_err().is_argument());
}

#[test]
fn refusals_say_why() {
    let saved = messages_stream().save();
    let message = |result: recipe_core::Result<ReplyStream<MessagesGenerator>>| result.unwrap_err().to_string();
    let restore = |bytes: &[u8], needs| message(ReplyStream::restore(bytes, needs));
    assert_eq!(restore(b"", needs()), "saved state: the bytes are not of this library");
    assert_eq!(restore(&saved[..40], needs()), "saved state: the bytes are damaged");
    let other_version = [&saved[..4], &[2], &saved[5..]].concat();
    assert_eq!(restore(&other_version, needs()), "saved state: version 2, and this library reads 1");
    assert_eq!(restore(&saved, Needs::default()), "saved state: needs the reasoning sealer");
    let tokenizer = Some(Tokenizer::builtin(ModelVersion::DeepseekV4Pro));
    assert_eq!(
        restore(&saved, Needs { tokenizer, ..needs() }),
        "saved state: the tokenizer has another vocabulary than the saved one"
    );
    let other_type = ReplyStream::<ChatGenerator>::restore(&saved, needs()).unwrap_err();
    assert_eq!(other_type.to_string(), "saved state: expected ChatGenerator, found MessagesGenerator");
    assert!(other_type.is_argument() && !other_type.is_client());
    assert_eq!(name(&saved).unwrap(), "MessagesGenerator");
    let key = |bytes: &[u8]| saved.windows(bytes.len()).any(|window| window == bytes);
    assert!(!key(&[7; 32]), "a key is among the bytes");
}

/// What is kept does not grow with what was delivered.
#[test]
fn the_bytes_are_as_many_as_are_held() {
    let mut stream = messages_stream();
    let before = stream.save().len();
    let more = InferenceChunk::Text { content: "1, ".repeat(10), token_count: 1 };
    for _ in 0..1000 {
        stream.push(&more, &mut |_| {}).unwrap();
    }
    let after = stream.save().len();
    assert!(after < before + 200, "{before} bytes became {after}");
}

/// The form may only change together with the version in front of it.
#[test]
fn the_form_is_that_of_its_version() {
    let saved = messages_stream().save();
    let checksum = u64::from_le_bytes(*saved.last_chunk().unwrap());
    assert_eq!(
        (saved[4], saved.len(), checksum),
        (1, 496, 660_782_965_946_928_709),
        "raise the version with the form, and change this"
    );
}

#[test]
fn an_ended_stream_stays_ended() {
    let mut stream = messages_stream();
    stream.push(&InferenceChunk::Finish(InferenceFinishReason::Stop), &mut |_| {}).unwrap();
    let mut restored = ReplyStream::<MessagesGenerator>::restore(&stream.save(), needs()).unwrap();
    assert!(restored.is_finished());
    restored.finish(&mut |_| panic!("a chunk behind the end")).unwrap();
    assert!(restored.push_tokens(&[1], &mut |_| {}).is_err());
}

fn round_trip<T: Save>(value: &T) -> T {
    let saved = save(value);
    let loaded = load(&saved, needs()).unwrap();
    assert_eq!(save(&loaded), saved);
    loaded
}

#[test]
fn records_are_the_same_again() {
    for case in read_cases("request") {
        for protocol in Protocol::ALL {
            let body = case.get("body").map(Value::to_compact).unwrap_or_default();
            let converted = match protocol {
                Protocol::ChatCompletions => ChatRequest::parse(body.as_bytes()).and_then(|r| r.convert(&options())),
                Protocol::Messages => MessagesRequest::parse(body.as_bytes()).and_then(|r| r.convert(&options())),
                Protocol::Responses => ResponsesRequest::parse(body.as_bytes()).and_then(|r| r.convert(&options())),
            };
            if let Ok(request) = converted {
                assert_eq!(round_trip(&request), request);
                let tokens = &request.parsing_options.special_tokens;
                let prompt: RenderedPrompt =
                    recipe_core::prompt::render(&request.conversation, request.model_version, tokens);
                assert_eq!(round_trip(&prompt), prompt);
            }
        }
    }
    assert_eq!(round_trip(&options()), options());
    let source = ImageSource { data: ImageData::Bytes(vec![0, 255]), detail: ImageDetail::Low, path: "p".to_owned() };
    let content = Content::with_images("a <i> b <i>".to_owned(), vec![source], "<i>");
    let schema = br#"{"a": [1, -1, 123456789012345678901234567890, -0, 1e300, null, true, "\u0000"], "b": {}}"#;
    let tool = ToolDefinition {
        name: "t".to_owned(),
        description: None,
        parameters: Some(Value::parse(schema).unwrap().into_owned()),
        strict: Some(false),
        defer_loading: true,
    };
    let conversation = Conversation {
        messages: vec![Message::User { content }, Message::LatestReminder { content: "r".to_owned() }],
        tools: vec![tool],
        ..Conversation::default()
    };
    assert_eq!(round_trip(&conversation), conversation);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), has_head in any::<bool>()) {
        let bytes = if has_head { [b"RCPS\x01", bytes.as_slice()].concat() } else { bytes };
        prop_assert!(StreamProcessor::restore(&bytes, None).is_err());
    }

    /// Changed bytes whose checksum is right: whoever makes them, they cannot make a panic.
    #[test]
    fn forged_bytes_do_not_panic(
        place in 0..STATES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4usize), 1..4),
    ) {
        let saved = &STATES[place];
        let mut bytes = saved[..saved.len() - 8].to_vec();
        for (index, byte, kind) in changes {
            let at = index.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes[at] = bytes[at].wrapping_add(1),
                2 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        forged::go_on(&forged::signed(bytes));
    }
}

/// States of streams at all their tokens.
static STATES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut states = Vec::new();
    for (protocol, case) in cases().iter().step_by(5) {
        let chunks: Vec<InferenceChunk> = items(case, "chunks").iter().map(engine_chunk).collect();
        let (request, _) = request(*protocol, case);
        let tools = OutputTools::new(request.conversation.tools.clone(), request.custom_tools);
        let tokenizer = Some(Tokenizer::builtin(request.model_version));
        let parsing = parsing_options(case, request.parsing_options);
        let mut processor = StreamProcessor::new(parsing, Arc::new(tools), tokenizer);
        let (mut reply, mut events) = (reply(*protocol, case), Events::default());
        for chunk in token_by_token(&chunks) {
            states.extend([processor.save(), reply.save().0]);
            let _ = processor.push(&chunk, &mut events);
            reply.push(&chunk);
        }
    }
    assert!(states.iter().all(|state| forged::go_on(state)));
    states
});

#[test]
#[ignore = "writes the seeds of the fuzz target stream_load, after a change of the form"]
fn write_seeds() {
    let folder = common::root().join("fuzz/seeds/stream_load");
    for state in STATES.iter().step_by((STATES.len() / 15) | 1).chain([&messages_stream().save()]) {
        let body = &state[forged::HEAD.len()..state.len() - 8];
        std::fs::write(folder.join(format!("{}-{}.bin", name(state).unwrap(), body.len())), body).unwrap();
    }
}
