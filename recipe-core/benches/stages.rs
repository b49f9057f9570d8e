//! One bench a stage, from the bytes of a request to ids and from ids to events.
//!
//! `RECIPE_CORPUS=FOLDER cargo bench -p recipe-core` takes the first 256 KiB of the texts that make_corpus.py made (see
//! docs/performance.md); without it the README is the only text.

#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use recipe_core::options::{ConversionOptions, ModelVersion, ParsingOptions};
use recipe_core::prompt::render;
use recipe_core::request::chat::ChatRequest;
use recipe_core::stream::{Events, InferenceFinishReason, OutputTools, StreamProcessor};
use recipe_core::tokenizer::{Decoder, Token, Tokenizer};

fn tokenizer() -> Tokenizer {
    Tokenizer::builtin(ModelVersion::DeepseekV41Flash).with_segment_cache(0)
}

fn texts() -> Vec<(String, String)> {
    let Ok(folder) = std::env::var("RECIPE_CORPUS") else {
        return vec![("readme".to_owned(), include_str!("../../README.md").to_owned())];
    };
    let text = |name: &str| {
        let text = std::fs::read_to_string(format!("{folder}/{name}.txt")).unwrap();
        let end = (0..=text.len().min(256 << 10)).rev().find(|&end| text.is_char_boundary(end)).unwrap();
        (name.to_owned(), text[..end].to_owned())
    };
    ["en", "code", "agent", "zh"].map(text).to_vec()
}

/// An agent's request of 50 turns: a question, a call with reasoning, and its result.
fn body() -> Vec<u8> {
    let (_, text) = texts().swap_remove(0);
    let part = |n: usize, length: usize| text.chars().skip(n * 37).take(length).collect::<String>();
    let tool = |n: usize| {
        let properties =
            serde_json::json!({"path": {"type": "string", "description": part(n, 60)}, "limit": {"type": "integer"}});
        let parameters = serde_json::json!({"type": "object", "properties": properties, "required": ["path"]});
        serde_json::json!({"type": "function", "function": {"name": format!("tool_{n}"), "description": part(n, 90), "parameters": parameters}})
    };
    let turn = |n: usize| {
        let arguments = serde_json::json!({"path": format!("/repo/src/mod_{n}.py"), "limit": n}).to_string();
        let call = serde_json::json!({"id": format!("call_{n}"), "type": "function", "function": {"name": format!("tool_{}", n % 20), "arguments": arguments}});
        [
            serde_json::json!({"role": "user", "content": part(n, 120)}),
            serde_json::json!({"role": "assistant", "reasoning_content": part(n, 250), "content": part(n, 80), "tool_calls": [call]}),
            serde_json::json!({"role": "tool", "tool_call_id": format!("call_{n}"), "content": part(n, 550)}),
        ]
    };
    let messages: Vec<_> = (0..50).flat_map(turn).collect();
    let tools: Vec<_> = (0..20).map(tool).collect();
    serde_json::json!({"model": "DeepSeek-V4.1-Flash", "messages": messages, "tools": tools}).to_string().into_bytes()
}

fn encode(criterion: &mut Criterion) {
    let tokenizer = tokenizer();
    for (name, text) in texts() {
        let mut group = criterion.benchmark_group(&name);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function("split", |bench| bench.iter(|| black_box(&tokenizer).count_pieces(black_box(&text))));
        let mut ids = Vec::new();
        group.bench_function("ids", |bench| {
            bench.iter(|| {
                ids.clear();
                tokenizer.encode_plain_into(black_box(&text), &mut ids);
            });
        });
        let short: String = text.chars().take(50).collect();
        group.throughput(Throughput::Elements(1));
        group.bench_function("50 characters", |bench| bench.iter(|| tokenizer.encode(black_box(&short))));
    }
}

fn request(criterion: &mut Criterion) {
    let body = body();
    let options = ConversionOptions::default();
    let request = ChatRequest::parse(&body).unwrap().convert(&options).unwrap();
    let tokens = request.parsing_options.special_tokens.clone();
    let prompt = render(&request.conversation, request.model_version, &tokens);
    let mut group = criterion.benchmark_group("request");
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("parse", |bench| bench.iter(|| ChatRequest::parse(black_box(&body)).unwrap()));
    group.bench_function("parse and convert", |bench| {
        bench.iter(|| ChatRequest::parse(black_box(&body)).unwrap().convert(&options).unwrap());
    });
    group.bench_function("render", |bench| {
        bench.iter(|| render(black_box(&request.conversation), request.model_version, &tokens));
    });
    for (name, bytes) in [("encode", 0), ("encode kept segments", 32 << 20)] {
        let tokenizer = tokenizer().with_segment_cache(bytes);
        group.bench_function(name, |bench| bench.iter(|| tokenizer.encode_prompt(&prompt).unwrap()));
    }
}

fn output(criterion: &mut Criterion) {
    let tokenizer = tokenizer();
    let (_, text) = texts().swap_remove(0);
    let mut ids = Vec::new();
    tokenizer.encode_plain_into(&text, &mut ids);
    ids.truncate(10_000);
    // Half of it is reasoning, whose tokens are counted.
    ids.insert(ids.len() / 2, tokenizer.special_id("</think>").unwrap());
    let mut group = criterion.benchmark_group("output");
    group.throughput(Throughput::Elements(ids.len() as u64));
    group.bench_function("stream, a token at once", |bench| {
        let mut events = Events::default();
        bench.iter(|| {
            let tools = Arc::new(OutputTools::new(Vec::new(), Vec::new()));
            let mut processor = StreamProcessor::new(ParsingOptions::default(), tools, Some(tokenizer.clone()));
            for id in &ids {
                events.clear();
                processor.push_tokens(std::slice::from_ref(id), None, &mut events).unwrap();
            }
            processor.push_finish(InferenceFinishReason::Stop, &mut events).unwrap();
        });
    });
    // The first byte of a character, again and again.
    let lead = (0..1000).find(|&id| tokenizer.token(id) == Some(Token::Plain(&[0xE4]))).unwrap();
    group.bench_function("decode what completes no character", |bench| {
        bench.iter(|| {
            let mut decoder = Decoder::new();
            let taken = ids.iter().filter_map(|_| match black_box(&tokenizer).token(lead) {
                Some(Token::Plain(bytes)) => {
                    decoder.push(bytes);
                    decoder.take_complete()
                }
                _ => None,
            });
            taken.count()
        });
    });
}

criterion_group!(stages, encode, request, output);
criterion_main!(stages);
