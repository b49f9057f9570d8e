//! Replies of Messages, from cases: one JSON object a line with `id`, `body`, `chunks`, overrides of `parsing`,
//! `signature`, and `expect`: the events with their names, the complete message, and the error if there is one.
//! `why` says why a case is there, or parts from the reference.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use common::reply::{engine_chunk, parsed, parsing_options};
use common::{items, read_lines, root, string};
use recipe_core::json::{Object, Value};
use recipe_core::options::{ConversionOptions, ModelVersion};
use recipe_core::reply::messages::{MessagesEvent, MessagesGenerator, MessagesResponse};
use recipe_core::reply::{Chunk, ReplyStream};
use recipe_core::request::messages::MessagesRequest;
use recipe_core::stream::PromptUsage;
use recipe_core::tokenizer::Tokenizer;

fn object(members: Vec<(&'static str, Value<'static>)>) -> Value<'static> {
    Value::Object(Object::from_members(members.into_iter().map(|(key, value)| (key.into(), value)).collect()))
}

/// What the case gives: the shape of `expect`.
struct Outcome {
    events: Vec<Value<'static>>,
    response: MessagesResponse,
}

impl Outcome {
    fn add(&mut self, event: MessagesEvent<'_>) {
        let mut json = String::new();
        event.write_json(&mut json);
        let name = event.sse_event_name().unwrap();
        let mut sse = String::new();
        event.write_sse(&mut sse);
        assert_eq!(sse, format!("event: {name}\ndata: {json}\n\n"));
        let owned = event.clone().into_owned();
        let mut again = String::new();
        owned.write_json(&mut again);
        assert_eq!(again, json, "an owned event says the same");
        self.events.push(Value::Array(vec![Value::String(name.into()), parsed(&json)]));
        self.response.accumulate(if self.events.len() % 2 == 0 { owned } else { event });
    }
}

struct Runner {
    tokenizers: HashMap<ModelVersion, Tokenizer>,
}

impl Runner {
    fn new() -> Self {
        let versions = [ModelVersion::DeepseekV4Pro, ModelVersion::DeepseekV41Flash];
        Self { tokenizers: versions.into_iter().map(|version| (version, Tokenizer::builtin(version))).collect() }
    }

    fn run(&self, case: &Value<'static>) -> Value<'static> {
        let body = case.get("body").unwrap().clone();
        let request = MessagesRequest::from_value(body).unwrap();
        let model = request.model().to_owned();
        let request = request.convert(&ConversionOptions::default()).unwrap();
        let mut generator = MessagesGenerator::new(&request, "id-1", &model, 1);
        if let Some(signature) = case.get("signature").and_then(Value::as_str) {
            generator = generator.with_signature(signature);
        }
        let tokenizer = self.tokenizers[&request.model_version].clone();
        let tokenizer = (case.get("tokenizer") != Some(&Value::Bool(false))).then_some(tokenizer);
        let mut stream = ReplyStream::new(generator, parsing_options(case, request.parsing_options), tokenizer);
        let response = MessagesResponse::new("id-1", &model, PromptUsage::default());
        let mut outcome = Outcome { events: Vec::new(), response };
        let mut result = Ok(());
        for chunk in items(case, "chunks") {
            if stream.is_finished() || result.is_err() {
                break;
            }
            // A stream is a value: its copy goes on the same way.
            stream = stream.clone();
            result = stream.push(&engine_chunk(chunk), &mut |event| outcome.add(event));
        }
        if result.is_ok() {
            result = stream.finish(&mut |event| outcome.add(event));
        }
        let mut response = String::new();
        outcome.response.write_json(&mut response);
        let mut members = vec![("events", Value::Array(outcome.events)), ("response", parsed(&response))];
        if let Err(error) = result {
            assert!(!error.is_client());
            members.push(("error", Value::String(error.to_string().into())));
        }
        object(members)
    }

    /// Says how a case parts from what is expected, if it does.
    fn difference(&self, case: &Value<'static>, expected: &Value<'static>) -> Option<String> {
        let found = self.run(case);
        let (id, found, expected) = (string(case, "id"), found.to_compact(), expected.to_compact());
        (found != expected).then(|| format!("{id}\n  found    {found}\n  expected {expected}\n"))
    }
}

#[test]
fn cases_reply_as_expected() {
    let runner = Runner::new();
    let cases = read_lines(&root().join("tests/cases/reply/messages.jsonl"));
    assert!(!cases.is_empty());
    let failed: Vec<String> =
        cases.iter().filter_map(|case| runner.difference(case, case.get("expect").unwrap())).collect();
    assert!(failed.is_empty(), "{} of {} cases:\n{}", failed.len(), cases.len(), failed.concat());
}

/// The answer of the reference, reduced to the shape of `expect`.
fn reduced(answer: &Value<'static>) -> Value<'static> {
    let mut members: Vec<_> = ["events", "response"].map(|key| (key, answer.get(key).unwrap().clone())).into();
    members.extend(answer.get("stream_error").map(|error| ("error", error.get("message").unwrap().clone())));
    object(members)
}

/// Compares with the recorded answers of the reference, in the folder that `RECIPE_CONFORMANCE` names, but for those
/// that are to differ: they stand in a list of their own there, and some among our cases.
#[test]
fn recorded_answers_agree() {
    let Some(folder) = std::env::var_os("RECIPE_CONFORMANCE") else {
        println!("skipped: RECIPE_CONFORMANCE names no folder");
        return;
    };
    let folder = Path::new(&folder);
    let by_id = |path: &str| -> HashMap<String, Value<'static>> {
        read_lines(&folder.join(path)).into_iter().map(|line| (string(&line, "id").to_owned(), line)).collect()
    };
    let answers = by_id("golden/streams.jsonl");
    let on_purpose: HashSet<String> = by_id("golden/decided_events.jsonl").into_keys().collect();
    let runner = Runner::new();
    let (mut differing, mut count) = (Vec::new(), 0);
    for case in read_lines(&folder.join("cases/streams.jsonl")) {
        let id = string(&case, "id");
        if string(&case, "protocol") == "messages" && !on_purpose.contains(id) {
            count += 1;
            differing.extend(runner.difference(&case, &reduced(&answers[id])));
        }
    }
    println!("{} of {count} recorded answers differ", differing.len());
    assert!(differing.is_empty(), "{}", differing.concat());
}
