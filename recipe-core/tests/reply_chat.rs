//! Replies in Chat Completions, from cases: one JSON object a line with `id`, `body`, `chunks` (of the engine) and
//! `expect`: the `chunks` of the reply and the complete `response`. Times and the random part of call ids are zero.
//! `parsing` changes a parsing option, `index` is that of the choice; `why` says why a case is there, or parts from the reference.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/chat.rs"]
mod twin;

use std::collections::HashMap;
use std::path::PathBuf;

use common::reply::{difference, engine_chunk, parsed, parsing_options};
use common::{integer, items, read_lines, root, string};
use recipe_core::json::Value;
use recipe_core::options::ConversionOptions;
use recipe_core::reply::chat::{ChatGenerator, ChatResponse};
use recipe_core::reply::{Chunk, ReplyStream};
use recipe_core::request::chat::ChatRequest;
use recipe_core::tokenizer::Tokenizer;

/// What a case gives.
struct Answer {
    chunks: Vec<Value<'static>>,
    response: Value<'static>,
    /// What a chunk was refused with.
    refused: Option<String>,
}

fn run(case: &Value<'static>) -> Answer {
    let body = case.get("body").unwrap().to_compact();
    let request = ChatRequest::parse(body.as_bytes()).unwrap();
    let model = request.model().to_owned();
    let options = ConversionOptions { max_choices: 8, ..ConversionOptions::default() };
    let request = request.convert(&options).unwrap();
    let generator = ChatGenerator::new(&request, "id-1", &model, 0, 1)
        .with_index(case.get("index").map_or(0, |index| u32::try_from(integer(index)).unwrap()));
    // The generator is made from the request as converted.
    let parsing = parsing_options(case, request.parsing_options);
    let has_tokenizer = case.get("tokenizer") != Some(&Value::Bool(false));
    let tokenizer = has_tokenizer.then(|| Tokenizer::builtin(request.model_version));
    let mut response = ChatResponse::new("id-1", &model, 0);
    let mut stream = ReplyStream::new(generator, parsing, tokenizer);
    let (mut chunks, mut refused) = (Vec::new(), None);
    let mut take = |chunk: recipe_core::reply::chat::ChatChunk<'_>| {
        let mut json = String::new();
        chunk.write_json(&mut json);
        assert_eq!(chunk.sse_event_name(), None);
        chunks.push(parsed(&json));
        response.accumulate(chunk);
    };
    for chunk in items(case, "chunks") {
        if stream.is_finished() {
            break;
        }
        if let Err(error) = stream.push(&engine_chunk(chunk), &mut take) {
            refused = Some(error.to_string());
            break;
        }
    }
    if refused.is_none() {
        stream.finish(&mut take).unwrap();
    }
    let mut json = String::new();
    response.write_json(&mut json);
    Answer { chunks, response: parsed(&json), refused }
}

/// The chunks add up to the response, by a slow twin.
fn check_sum(id: &str, answer: &Answer) {
    if answer.chunks.is_empty() {
        return;
    }
    let json = |value: &Value<'_>| serde_json::from_str::<serde_json::Value>(&value.to_compact()).unwrap();
    let chunks: Vec<_> = answer.chunks.iter().map(json).collect();
    assert_eq!(twin::accumulated(&chunks), json(&answer.response), "{id}");
}

#[test]
fn cases_give_their_replies() {
    let cases = read_lines(&root().join("tests/cases/reply/chat.jsonl"));
    assert!(!cases.is_empty());
    let one = |case: &Value<'static>| {
        let (id, expect, answer) = (string(case, "id"), case.get("expect").unwrap(), run(case));
        check_sum(id, &answer);
        assert_eq!(answer.refused.as_deref(), expect.get("refused").and_then(Value::as_str), "{id}");
        let response = std::slice::from_ref(expect.get("response").unwrap());
        difference(id, "chunk", items(expect, "chunks"), &answer.chunks)
            .or_else(|| difference(id, "response", response, &[answer.response]))
    };
    let failed: Vec<String> = cases.iter().filter_map(one).collect();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cases.len(), failed.concat());
}

/// What a reply says, as neutral events: texts joined, without the line breaks that set text behind a call apart.
fn said(chunks: &[Value<'static>]) -> Vec<Value<'static>> {
    let text = |text: &str| Value::String(text.to_owned().into());
    let mut out: Vec<(String, Value<'static>, String)> = Vec::new();
    let mut add = |kind: &str, index: Value<'static>, more: &str| match out.last_mut() {
        Some((before, call, all)) if before == kind && *call == index => all.push_str(more),
        _ if more.is_empty() => {}
        _ => out.push((kind.to_owned(), index, more.to_owned())),
    };
    for chunk in chunks {
        let choice = &items(chunk, "choices")[0];
        let delta = choice.get("delta").unwrap();
        for (key, kind) in [("reasoning_content", "reasoning"), ("content", "content")] {
            add(kind, Value::Null, delta.get(key).and_then(Value::as_str).unwrap_or_default());
        }
        for call in items(delta, "tool_calls") {
            let (index, function) = (call.get("index").unwrap(), call.get("function").unwrap());
            match function.get("name") {
                Some(_) => add("call_start", index.clone(), string(function, "name")),
                None => add("call_arguments", index.clone(), string(function, "arguments")),
            }
        }
        if let Some(error) = chunk.get("error") {
            add("error", Value::Null, string(error, "message"));
        } else if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            add("finish", Value::Null, reason);
        }
    }
    let event = |(kind, index, all): (String, Value<'static>, String)| {
        let parts = [Some(text(&kind)), (index != Value::Null).then_some(index), Some(text(&all))];
        Value::Array(parts.into_iter().flatten().collect())
    };
    out.into_iter().map(event).collect()
}

/// Neutral events as `said` gives them: what Chat cannot say is left out.
fn projected(events: &[Value<'static>]) -> Vec<Value<'static>> {
    let (mut has_text, mut calls): (HashMap<String, usize>, usize) = Default::default();
    let mut out = Vec::new();
    for event in events {
        let parts = event.as_array().unwrap();
        let kind = parts[0].as_str().unwrap();
        match kind {
            "call_end" | "refused" => {}
            "finish" => out.push(Value::Array(parts[..2].to_vec())),
            "reasoning" | "content" => {
                // Text behind a call stands apart from text before it.
                let apart = has_text.insert(kind.to_owned(), calls).is_some_and(|before| before < calls);
                let text = parts[1].as_str().unwrap();
                let text = if apart { format!("\n\n{text}") } else { text.to_owned() };
                out.push(Value::Array(vec![parts[0].clone(), Value::String(text.into())]));
            }
            _ => {
                calls += usize::from(kind == "call_start");
                out.push(event.clone());
            }
        }
    }
    out
}

/// Compares with the recorded replies of the reference, in the folder that `RECIPE_CONFORMANCE` names; where we
/// part from them on purpose, with the recorded events of the decision.
#[test]
fn recorded_replies_agree() {
    let Some(folder) = std::env::var_os("RECIPE_CONFORMANCE").map(PathBuf::from) else {
        println!("skipped: RECIPE_CONFORMANCE names no folder");
        return;
    };
    let by_id = |name: &str| -> HashMap<String, Value<'static>> {
        read_lines(&folder.join(name)).into_iter().map(|line| (string(&line, "id").to_owned(), line)).collect()
    };
    let (recorded, decided) = (by_id("golden/streams.jsonl"), by_id("golden/decided_events.jsonl"));
    let (mut failed, mut count) = (Vec::new(), 0);
    for case in read_lines(&folder.join("cases/streams.jsonl")) {
        let id = string(&case, "id");
        let want = &recorded[id];
        if string(&case, "protocol") != "chat_completions" || want.get("error").is_some() {
            continue;
        }
        count += 1;
        let answer = run(&case);
        check_sum(id, &answer);
        if let Some(decided) = decided.get(id) {
            failed.extend(difference(id, "event", &projected(items(decided, "events")), &said(&answer.chunks)));
            continue;
        }
        let chunks: Vec<_> = items(want, "events").iter().map(|event| event.as_array().unwrap()[1].clone()).collect();
        let response = std::slice::from_ref(want.get("response").unwrap());
        failed.extend(
            difference(id, "chunk", &chunks, &answer.chunks)
                .or_else(|| difference(id, "response", response, std::slice::from_ref(&answer.response))),
        );
        let refused = want.get("stream_error").map(|error| string(error, "message"));
        assert_eq!(answer.refused.as_deref(), refused, "{id}");
    }
    println!("{} of {count} recorded replies differ", failed.len());
    assert!(failed.is_empty(), "{}", failed.concat());
}
