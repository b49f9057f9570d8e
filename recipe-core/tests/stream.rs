//! The stream machine, from cases: one JSON object a line with `id`, `parsing`, `tools`, `custom`, `chunks` and
//! `expect`, the events. What `parsing` does not say has its default; `why` says why a case parts from the reference.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/output.rs"]
mod output;

use std::sync::Arc;

use common::{integer, items, read_cases, string};
use output::{check_well_formed, cut_again, merged, run, Numbers, Said};
use recipe_core::conversation::ToolDefinition;
use recipe_core::json::Value;
use recipe_core::options::{ModelVersion, ParsingOptions, ThinkingInitialStage};
use recipe_core::stream::{
    Events, FinishReason, IdLogprob, InferenceChunk, InferenceFinishReason, OutputTools, StreamProcessor,
};
use recipe_core::tokenizer::Tokenizer;

fn processor(case: &Value<'static>) -> StreamProcessor {
    let parsing = case.get("parsing").expect("a case says how it is parsed");
    let default = ParsingOptions::default();
    let flag = |key: &str, default: bool| parsing.get(key).map_or(default, |value| *value == Value::Bool(true));
    let options = ParsingOptions {
        parse_tool_calls: flag("parse_tool_calls", default.parse_tool_calls),
        starts_in_tool_calls: flag("starts_in_tool_calls", default.starts_in_tool_calls),
        parse_json_output: flag("parse_json_output", default.parse_json_output),
        parallel_tool_calls: flag("parallel_tool_calls", default.parallel_tool_calls),
        thinking_initial_stage: parsing.get("thinking_initial_stage").and_then(Value::as_str).map(
            |stage| match stage {
                "ReasoningStart" => ThinkingInitialStage::ReasoningStart,
                "ReasoningContinuation" => ThinkingInitialStage::ReasoningContinuation,
                "ContentContinuation" => ThinkingInitialStage::ContentContinuation,
                other => panic!("unknown stage {other:?}"),
            },
        ),
        stop_sequences: items(parsing, "stop_sequences").iter().map(|stop| stop.as_str().unwrap().to_owned()).collect(),
        ..default
    };
    let tools = case.get("tools").and_then(Value::as_object).into_iter().flat_map(|tools| tools.iter());
    let tools = tools.map(|(name, parameters)| ToolDefinition {
        name: name.to_string(),
        description: None,
        parameters: (*parameters != Value::Null).then(|| parameters.clone()),
        strict: None,
        defer_loading: false,
    });
    let custom = items(case, "custom").iter().map(|name| name.as_str().unwrap().to_owned());
    let tools = Arc::new(OutputTools::new(tools.collect(), custom.collect()));
    let has_tokenizer = case.get("tokenizer") != Some(&Value::Bool(false));
    StreamProcessor::new(options, tools, has_tokenizer.then(|| Tokenizer::builtin(ModelVersion::DeepseekV41Flash)))
}

/// A chunk: `["ready"]`, `["text", text]`, `["tokens", ids, log probabilities or null]`, `["finish", reason]`
/// or `["error", message]`.
fn chunk(value: &Value<'static>) -> InferenceChunk {
    let parts = value.as_array().unwrap();
    let text = || parts[1].as_str().unwrap().to_owned();
    match parts[0].as_str().unwrap() {
        "ready" => InferenceChunk::Ready { prompt_usage: None, system_fingerprint: None },
        "text" => InferenceChunk::Text { content: text(), token_count: 1 },
        "tokens" => {
            let entry = |_: &Value<'static>| IdLogprob { logprob: -1.0, top: vec![(1, -1.0)] };
            let logprobs = parts.get(2).and_then(Value::as_array).map(|list| list.iter().map(entry).collect());
            let id = |id: &Value<'static>| u32::try_from(integer(id)).unwrap();
            InferenceChunk::Tokens { token_ids: parts[1].as_array().unwrap().iter().map(id).collect(), logprobs }
        }
        "finish" => InferenceChunk::Finish(match text().as_str() {
            "Stop" => InferenceFinishReason::Stop,
            "Length" => InferenceFinishReason::Length,
            "ContentFilter" => InferenceFinishReason::ContentFilter,
            other => panic!("unknown reason {other:?}"),
        }),
        "error" => InferenceChunk::Error { message: text(), code: "server_error".to_owned() },
        other => panic!("unknown chunk {other:?}"),
    }
}

fn expected(value: &Value<'static>) -> Said {
    let parts = value.as_array().unwrap();
    let text = |place: usize| parts[place].as_str().unwrap().to_owned();
    match parts[0].as_str().unwrap() {
        "reasoning" => Said::Reasoning(text(1)),
        "content" => Said::Content(text(1)),
        "call_start" => Said::CallStart(integer(&parts[1]), text(2)),
        "call_arguments" => Said::CallArguments(integer(&parts[1]), text(2)),
        "call_end" => Said::CallEnd(integer(&parts[1])),
        "finish" => {
            let reason = match parts[1].as_str().unwrap() {
                "stop" => FinishReason::Stop,
                "tool_calls" => FinishReason::ToolCalls,
                "length" => FinishReason::Length,
                "content_filter" => FinishReason::ContentFilter,
                other => panic!("unknown reason {other:?}"),
            };
            Said::Finish(reason, parts[2].as_str().map(str::to_owned))
        }
        "error" => Said::Error(text(1)),
        "refused" => Said::Refused,
        other => panic!("unknown event {other:?}"),
    }
}

struct Case {
    id: String,
    processor: StreamProcessor,
    chunks: Vec<InferenceChunk>,
    expect: Vec<Said>,
    /// Whether the deltas are cut as those of the reference.
    cuts: bool,
}

fn cases() -> Vec<Case> {
    let cases = read_cases("stream");
    assert!(!cases.is_empty());
    let one = |case: &Value<'static>| Case {
        id: string(case, "id").to_owned(),
        processor: processor(case),
        chunks: items(case, "chunks").iter().map(chunk).collect(),
        expect: items(case, "expect").iter().map(expected).collect(),
        cuts: case.get("why").is_none(),
    };
    cases.iter().map(one).collect()
}

/// Fails with all cases that give something else than they expect.
fn check(difference: impl Fn(&Case) -> Option<Vec<Said>>) {
    let failed: Vec<String> = cases()
        .iter()
        .filter_map(|case| Some(format!("{}\n want {:?}\n got  {:?}\n", case.id, case.expect, difference(case)?)))
        .collect();
    assert!(failed.is_empty(), "{} cases:\n{}", failed.len(), failed.concat());
}

#[test]
fn cases_give_their_events() {
    check(|case| {
        let got = run(&mut case.processor.clone(), &case.chunks);
        check_well_formed(&got);
        let same = if case.cuts { got == case.expect } else { merged(&got) == merged(&case.expect) };
        (!same).then_some(got)
    });
}

#[test]
fn a_character_or_an_id_at_a_time() {
    check(|case| {
        let got = run(&mut case.processor.clone(), &cut_again(&case.chunks, || true));
        (merged(&got) != merged(&case.expect)).then_some(got)
    });
}

#[test]
fn any_cut() {
    let numbers = std::cell::RefCell::new(Numbers(1));
    check(|case| {
        (0..10).find_map(|round| {
            let chunks = cut_again(&case.chunks, || numbers.borrow_mut().below(2 + round) == 0);
            let got = run(&mut case.processor.clone(), &chunks);
            (merged(&got) != merged(&case.expect)).then_some(got)
        })
    });
}

/// At every character or id, a processor that goes on from its bytes says the same, and has the same bytes again.
#[test]
fn saved_at_every_token() {
    for case in cases() {
        for chunks in [case.chunks.clone(), cut_again(&case.chunks, || true)] {
            let (mut processor, mut copy) = (case.processor.clone(), case.processor.clone());
            for chunk in &chunks {
                let saved = processor.save();
                let mut restored = StreamProcessor::restore(&saved, None).unwrap();
                assert!(restored.save() == saved, "{}: the bytes change", case.id);
                let mut events: [Events; 3] = Default::default();
                let done = processor.push(chunk, &mut events[0]);
                assert_eq!(restored.push(chunk, &mut events[1]), done, "{}", case.id);
                // A copy goes its own way.
                assert_eq!(copy.clone().push(chunk, &mut events[2]), done, "{}", case.id);
                assert!(events[0] == events[1] && events[0] == events[2], "{}: {events:?}", case.id);
                copy = restored;
            }
            assert!(copy.save() == processor.save(), "{}: the states part", case.id);
        }
    }
}
