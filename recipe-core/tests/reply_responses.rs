//! Replies in Responses, from cases: one JSON object a line with `id`, `body`, `chunks` (of the engine) and `expect`:
//! the `events` of the reply and the complete `response`. Times and the random part of call ids are zero. `parsing`
//! changes a parsing option; `why` says why a case is there, or parts from the reference.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashMap;
use std::path::PathBuf;

use common::reply::{difference, engine_chunk, parsed, parsing_options};
use common::{integer, items, read_lines, root, string};
use recipe_core::json::Value;
use recipe_core::options::ConversionOptions;
use recipe_core::reply::responses::{ResponsesEvent, ResponsesGenerator, ResponsesResponse};
use recipe_core::reply::{Chunk, ReplyStream};
use recipe_core::request::responses::ResponsesRequest;
use recipe_core::tokenizer::Tokenizer;

/// What a case gives.
struct Answer {
    events: Vec<Value<'static>>,
    response: Value<'static>,
    /// What a chunk was refused with.
    refused: Option<String>,
}

fn run(case: &Value<'static>) -> Answer {
    let body = case.get("body").unwrap().to_compact();
    let request = ResponsesRequest::parse(body.as_bytes()).unwrap();
    let model = request.model().to_owned();
    let options = ConversionOptions::default();
    let (echo, map) = (request.echo(), request.namespace_tool_map(&options).unwrap());
    let request = request.convert(&options).unwrap();
    assert_eq!(request.echo.as_deref(), Some(&echo));
    assert!(map.iter().all(|(name, place)| request.namespace_tool_map.get(name) == Some(place)));
    let generator = ResponsesGenerator::new(&request, "id-1", &model, 0, 1);
    // The generator is made from the request as converted.
    let parsing = parsing_options(case, request.parsing_options);
    let has_tokenizer = case.get("tokenizer") != Some(&Value::Bool(false));
    let tokenizer = has_tokenizer.then(|| Tokenizer::builtin(request.model_version));
    let mut response = ResponsesResponse::new("id-1", &model, 0);
    let mut stream = ReplyStream::new(generator, parsing, tokenizer);
    let (mut events, mut refused) = (Vec::new(), None);
    let mut take = |event: ResponsesEvent<'_>| {
        let mut json = String::new();
        event.write_json(&mut json);
        let parsed = parsed(&json);
        assert_eq!(event.sse_event_name(), parsed.get("type").and_then(Value::as_str));
        events.push(parsed);
        response.accumulate(event.into_owned());
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
    Answer { events, response: parsed(&json), refused }
}

/// The texts that hold an item's text, by the item's type.
fn text_of(item: &Value<'static>) -> String {
    let part = |key: &str| items(item, key).first().map_or(String::new(), |part| string(part, "text").to_owned());
    match string(item, "type") {
        "reasoning" => part("content") + &part("summary"),
        "message" => part("content"),
        "custom_tool_call" => string(item, "input").to_owned(),
        _ => string(item, "arguments").to_owned(),
    }
}

/// What holds of every complete list of events: they are numbered, items come one after the other, the deltas of an
/// item add up to its text, and the items to the response, which the last event and the complete response are.
fn check_sum(id: &str, answer: &Answer) {
    let (mut open, mut done, mut text) = (None, Vec::new(), String::new());
    for (number, event) in answer.events.iter().enumerate() {
        assert_eq!(integer(event.get("sequence_number").unwrap()), number, "{id}");
        let kind = string(event, "type");
        if kind == "response.output_item.added" {
            assert_eq!(open.replace(done.len()), None, "{id}: an item starts inside another");
        }
        if let Some(index) = event.get("output_index") {
            assert_eq!(Some(integer(index)), open, "{id}: {kind}");
        }
        if kind.ends_with(".delta") {
            text.push_str(string(event, "delta"));
        }
        if kind.ends_with("_text.done") {
            assert_eq!(string(event, "text"), text, "{id}");
        }
        if kind == "response.output_item.done" {
            let item = event.get("item").unwrap();
            if string(item, "type") != "tool_search_call" {
                assert_eq!(text_of(item), text, "{id}");
            }
            done.push(item.clone());
            text.clear();
            open = None;
        }
    }
    let last = answer.events.last().unwrap().get("response");
    if answer.refused.is_none() {
        assert_eq!(open, None, "{id}");
        assert_eq!(items(last.unwrap(), "output"), done, "{id}");
        assert_eq!(last, Some(&answer.response), "{id}");
    }
}

#[test]
fn cases_give_their_replies() {
    let cases = read_lines(&root().join("tests/cases/reply/responses.jsonl"));
    assert!(!cases.is_empty());
    let one = |case: &Value<'static>| {
        let (id, expect, answer) = (string(case, "id"), case.get("expect").unwrap(), run(case));
        check_sum(id, &answer);
        assert_eq!(answer.refused.as_deref(), expect.get("refused").and_then(Value::as_str), "{id}");
        let response = std::slice::from_ref(expect.get("response").unwrap());
        difference(id, "event", items(expect, "events"), &answer.events)
            .or_else(|| difference(id, "response", response, &[answer.response]))
    };
    let failed: Vec<String> = cases.iter().filter_map(one).collect();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cases.len(), failed.concat());
}

/// Neutral events, texts joined: a kind, the number of a call, and a text.
#[derive(Default)]
struct Said {
    list: Vec<(String, Option<usize>, String)>,
}

impl Said {
    fn add(&mut self, kind: &str, call: Option<usize>, text: &str) {
        match self.list.last_mut() {
            Some((before, same, all)) if before == kind && *same == call && kind != "call_start" => all.push_str(text),
            _ if text.is_empty() => {}
            _ => self.list.push((kind.to_owned(), call, text.to_owned())),
        }
    }

    fn values(self) -> Vec<Value<'static>> {
        let string = |text: String| Value::String(text.into());
        let value = |(kind, call, text): (String, Option<usize>, String)| {
            let call = call.map_or(Value::Null, |call| string(call.to_string()));
            Value::Array(vec![string(kind), call, string(text)])
        };
        self.list.into_iter().map(value).collect()
    }
}

/// What a reply says, and whether each call was finished.
fn said(events: &[Value<'static>]) -> (Vec<Value<'static>>, Vec<bool>) {
    let (mut out, mut calls, mut finished) = (Said::default(), 0, Vec::new());
    for event in events {
        let delta = || string(event, "delta");
        match string(event, "type") {
            "response.output_item.added" => {
                let item = event.get("item").unwrap();
                if let Some(name) = item.get("name").and_then(Value::as_str) {
                    let namespace = item.get("namespace").and_then(Value::as_str);
                    let name = namespace.map_or(name.to_owned(), |namespace| format!("{namespace}::{name}"));
                    out.add("call_start", Some(calls), &name);
                    calls += 1;
                }
            }
            "response.output_item.done" => {
                let item = event.get("item").unwrap();
                if item.get("name").is_some() {
                    finished.push(string(item, "status") == "completed");
                }
            }
            "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => {
                out.add("reasoning", None, delta());
            }
            "response.output_text.delta" => out.add("content", None, delta()),
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                out.add("call_arguments", Some(calls - 1), delta());
            }
            "response.completed" => out.add("finish", None, "stop"),
            "response.incomplete" => {
                let details = event.get("response").unwrap().get("incomplete_details").unwrap();
                let reason = string(details, "reason");
                out.add("finish", None, if reason == "max_output_tokens" { "length" } else { reason });
            }
            "response.failed" => {
                let error = event.get("response").unwrap().get("error").unwrap();
                out.add("error", None, string(error, "message"));
            }
            _ => {}
        }
    }
    (out.values(), finished)
}

/// Neutral events as `said` gives them, and whether each call was finished. Custom tools have their input decoded.
fn projected(events: &[Value<'static>], custom: &[&str]) -> (Vec<Value<'static>>, Vec<bool>) {
    let (mut out, mut finished, mut arguments, mut is_custom) = (Said::default(), Vec::new(), String::new(), false);
    for event in events {
        let parts = event.as_array().unwrap();
        let text = |place: usize| parts[place].as_str().unwrap();
        let kind = text(0);
        if kind != "call_arguments" && !arguments.is_empty() {
            let input = if is_custom { custom_input(&arguments) } else { arguments.clone() };
            out.add("call_arguments", Some(finished.len() - 1), &input);
            arguments.clear();
        }
        match kind {
            "call_start" => {
                out.add(kind, Some(finished.len()), text(2));
                finished.push(false);
                is_custom = custom.contains(&text(2));
            }
            "call_arguments" => arguments.push_str(text(2)),
            "call_end" => *finished.last_mut().unwrap() = true,
            "finish" if text(1) == "tool_calls" => out.add(kind, None, "stop"),
            "refused" => {}
            _ => out.add(kind, None, text(1)),
        }
    }
    (out.values(), finished)
}

/// The input of a custom tool, by another way than the reply's: from the whole arguments.
fn custom_input(arguments: &str) -> String {
    let Some(rest) = arguments.strip_prefix("{\"input\": ") else {
        return arguments.to_owned();
    };
    // A call that was cut off lacks the quote.
    let whole = format!("{rest}\"");
    match serde_json::Deserializer::from_str(&whole).into_iter::<serde_json::Value>().next() {
        Some(Ok(serde_json::Value::String(input))) => input,
        _ => arguments.to_owned(),
    }
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
        if string(&case, "protocol") != "responses" || want.get("error").is_some() {
            continue;
        }
        count += 1;
        let answer = run(&case);
        check_sum(id, &answer);
        if let Some(decided) = decided.get(id) {
            let (got, got_finished) = said(&answer.events);
            let (want, mut want_finished) = projected(items(decided, "events"), &["apply_patch"]);
            failed.extend(difference(id, "said", &want, &got));
            // The last item of a reply that was cut off is incomplete, too.
            let status = answer.response.get("status").and_then(Value::as_str);
            let ends_in_call = got
                .iter()
                .rev()
                .nth(1)
                .is_some_and(|said| said.as_array().unwrap()[0].as_str().unwrap().starts_with("call"));
            if status != Some("completed") && ends_in_call {
                *want_finished.last_mut().unwrap() = false;
            }
            assert_eq!(got_finished, want_finished, "{id}");
            continue;
        }
        let events: Vec<_> = items(want, "events").iter().map(|event| event.as_array().unwrap()[1].clone()).collect();
        let response = std::slice::from_ref(want.get("response").unwrap());
        failed.extend(
            difference(id, "event", &events, &answer.events)
                .or_else(|| difference(id, "response", response, std::slice::from_ref(&answer.response))),
        );
        let refused = want.get("stream_error").map(|error| string(error, "message"));
        assert_eq!(answer.refused.as_deref(), refused, "{id}");
    }
    println!("{} of {count} recorded replies differ", failed.len());
    assert!(failed.is_empty(), "{}", failed.concat());
}
