//! What the cases of all replies have in common: chunks of an engine, parsing options, call ids. Knows no protocol.

use recipe_core::json::{Object, Value};
use recipe_core::options::{ParsingOptions, ThinkingInitialStage};
use recipe_core::stream::{IdLogprob, InferenceChunk, InferenceFinishReason, PromptUsage};

use super::integer;

/// A chunk of the engine: `["ready", usage]`, `["text", text, count]`, `["tokens", ids, log probabilities]`,
/// `["finish", reason]`, `["error", message, code]`.
pub fn engine_chunk(value: &Value<'static>) -> InferenceChunk {
    let parts = value.as_array().unwrap();
    let text = |place: usize| parts[place].as_str().unwrap().to_owned();
    let number = |value: &Value<'_>| u32::try_from(integer(value)).unwrap();
    let tokens = |value: &Value<'_>| u64::try_from(integer(value)).unwrap();
    let logprob = |value: &Value<'_>| value.to_compact().parse::<f32>().unwrap();
    match parts[0].as_str().unwrap() {
        "ready" => {
            let given = |key: &str| parts.get(1)?.get(key);
            let count = |key: &str| given(key).map_or(0, tokens);
            let usage = PromptUsage {
                prompt_tokens: count("prompt_tokens"),
                prompt_cache_hit_tokens: count("prompt_cache_hit_tokens"),
            };
            let system_fingerprint = given("system_fingerprint").and_then(Value::as_str).map(str::to_owned);
            InferenceChunk::Ready { prompt_usage: given("prompt_tokens").map(|_| usage), system_fingerprint }
        }
        "text" => InferenceChunk::Text { content: text(1), token_count: parts.get(2).map_or(0, tokens) },
        "tokens" => {
            let pair = |pair: &Value<'static>| {
                let pair = pair.as_array().unwrap();
                (number(&pair[0]), logprob(&pair[1]))
            };
            let entry = |entry: &Value<'static>| {
                let entry = entry.as_array().unwrap();
                let top = entry[1].as_array().unwrap().iter().map(pair).collect();
                IdLogprob { logprob: logprob(&entry[0]), top }
            };
            InferenceChunk::Tokens {
                token_ids: parts[1].as_array().unwrap().iter().map(number).collect(),
                logprobs: parts.get(2).and_then(Value::as_array).map(|list| list.iter().map(entry).collect()),
            }
        }
        "finish" => InferenceChunk::Finish(match text(1).as_str() {
            "Stop" => InferenceFinishReason::Stop,
            "Length" => InferenceFinishReason::Length,
            "ContentFilter" => InferenceFinishReason::ContentFilter,
            other => panic!("unknown reason {other:?}"),
        }),
        "error" => InferenceChunk::Error { message: text(1), code: text(2) },
        other => panic!("unknown chunk {other:?}"),
    }
}

/// The options, with what the case changes.
pub fn parsing_options(case: &Value<'static>, mut options: ParsingOptions) -> ParsingOptions {
    for (key, value) in case.get("parsing").and_then(Value::as_object).into_iter().flat_map(Object::iter) {
        let set = *value == Value::Bool(true);
        match key.as_ref() {
            "parse_tool_calls" => options.parse_tool_calls = set,
            "starts_in_tool_calls" => options.starts_in_tool_calls = set,
            "parse_json_output" => options.parse_json_output = set,
            "thinking_initial_stage" => {
                options.thinking_initial_stage = value.as_str().map(|stage| match stage {
                    "ReasoningStart" => ThinkingInitialStage::ReasoningStart,
                    "ReasoningContinuation" => ThinkingInitialStage::ReasoningContinuation,
                    "ContentContinuation" => ThinkingInitialStage::ContentContinuation,
                    other => panic!("unknown stage {other:?}"),
                });
            }
            "stop_sequences" => {
                let stops = value.as_array().unwrap().iter();
                options.stop_sequences = stops.map(|stop| stop.as_str().unwrap().to_owned()).collect();
            }
            other => panic!("unknown option {other:?}"),
        }
    }
    options
}

/// JSON with the random part of call ids zeroed.
pub fn parsed(json: &str) -> Value<'static> {
    let mut text = String::new();
    let mut rest = json;
    while let Some(at) = rest.find("id\":\"call_") {
        let digits = rest[at + 10..].find('_').unwrap();
        let start = at + 10 + digits + 1;
        let random = &rest[start..start + 24];
        assert!(random[..20].bytes().all(|b| b.is_ascii_alphanumeric()), "{random}");
        assert!(random[20..].bytes().all(|b| b.is_ascii_digit()), "{random}");
        text.push_str(&rest[..start]);
        text.push_str(&"0".repeat(24));
        rest = &rest[start + 24..];
    }
    text.push_str(rest);
    Value::parse(text.as_bytes()).unwrap().into_owned()
}

/// Says where two lists part, if they do; `what` is an item of theirs.
pub fn difference(id: &str, what: &str, want: &[Value<'_>], got: &[Value<'_>]) -> Option<String> {
    if want == got {
        return None;
    }
    let place = want.iter().zip(got).take_while(|(want, got)| want == got).count();
    let shown = |list: &[Value<'_>]| list.get(place).map_or("nothing".to_owned(), Value::to_compact);
    Some(format!("{id}: {what} {place}\n want {}\n got  {}\n", shown(want), shown(got)))
}
