//! Properties of the output side that hold whatever the model writes, with shrinking.

#![allow(clippy::unwrap_used)]

#[path = "common/fragments.rs"]
mod fragments;
#[path = "common/output.rs"]
mod output;

use std::sync::{Arc, LazyLock};

use fragments::{FRAGMENTS, STOPS, TAGS};
use output::{calls, check_well_formed, cut_again, merged, run, said, Said};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use recipe_core::conversation::{Content, Conversation, Message, ToolCall, ToolDefinition};
use recipe_core::json::Value;
use recipe_core::options::{ModelVersion, ParsingOptions, ThinkingInitialStage};
use recipe_core::prompt::render;
use recipe_core::special::SpecialTokens;
use recipe_core::stream::{Events, FinishReason, InferenceChunk, InferenceFinishReason, OutputTools, StreamProcessor};
use recipe_core::tokenizer::{Token, Tokenizer};

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| Tokenizer::builtin(ModelVersion::DeepseekV41Flash));

static TOOLS: LazyLock<Arc<OutputTools>> = LazyLock::new(|| {
    let tool = |name: &str, schema: &'static str| ToolDefinition {
        name: name.to_owned(),
        description: None,
        parameters: Some(Value::parse(schema.as_bytes()).unwrap()),
        strict: None,
        defer_loading: false,
    };
    let f = tool(
        "f",
        r#"{"properties": {"a": {"type": "string"}, "b": {"type": "number"}, "n": {"type": ["integer", "string"]}}}"#,
    );
    let g = tool("g", r#"{"properties": {"a": {"type": "object"}, "n": {"type": "integer"}}}"#);
    let c = tool("c", r#"{"properties": {"input": {"type": "string"}}}"#);
    Arc::new(OutputTools::new(vec![f, g, c], vec!["c".to_owned()]))
});

fn processor(options: ParsingOptions) -> StreamProcessor {
    StreamProcessor::new(options, TOOLS.clone(), Some(TOKENIZER.clone()))
}

fn stages() -> impl Strategy<Value = Option<ThinkingInitialStage>> {
    select(vec![
        None,
        Some(ThinkingInitialStage::ReasoningStart),
        Some(ThinkingInitialStage::ReasoningContinuation),
        Some(ThinkingInitialStage::ContentContinuation),
    ])
}

prop_compose! {
    fn options()(
        stage in stages(),
        stops in select(&STOPS[..]),
        flags in any::<u8>(),
    ) -> ParsingOptions {
        let rarely = |bit: u8| flags >> bit & 3 == 3;
        ParsingOptions {
            parse_tool_calls: !rarely(0),
            starts_in_tool_calls: rarely(1),
            parse_json_output: rarely(3),
            parallel_tool_calls: !rarely(5),
            thinking_initial_stage: stage,
            stop_sequences: if flags & 4 == 0 { Vec::new() } else { stops.iter().map(|s| (*s).to_owned()).collect() },
            ..ParsingOptions::default()
        }
    }
}

fn outputs() -> impl Strategy<Value = String> {
    prop_oneof![
        vec(select(&FRAGMENTS[..]), 0..30).prop_map(|fragments| fragments.concat()),
        vec(prop_oneof![3 => select(&TAGS[..]), 1 => select(&FRAGMENTS[..])], 0..30).prop_map(|parts| parts.concat()),
    ]
}

fn ends() -> impl Strategy<Value = InferenceChunk> {
    let error = InferenceChunk::Error { message: "broken".to_owned(), code: "server_error".to_owned() };
    let finish = InferenceChunk::Finish;
    select(vec![
        finish(InferenceFinishReason::Stop),
        finish(InferenceFinishReason::Stop),
        finish(InferenceFinishReason::Length),
        finish(InferenceFinishReason::ContentFilter),
        error,
    ])
}

fn text(content: String) -> InferenceChunk {
    InferenceChunk::Text { content, token_count: 1 }
}

fn ids(token_ids: Vec<u32>) -> InferenceChunk {
    InferenceChunk::Tokens { token_ids, logprobs: None }
}

/// The whole output and its cut again give the same.
fn check_cut(options: ParsingOptions, chunks: &[InferenceChunk], cuts: &[bool]) -> Result<(), TestCaseError> {
    let whole = run(&mut processor(options.clone()), chunks);
    check_well_formed(&whole);
    let mut cuts = cuts.iter().cycle();
    let cut = cut_again(chunks, || *cuts.next().unwrap());
    let got = run(&mut processor(options), &cut);
    check_well_formed(&got);
    prop_assert_eq!(merged(&whole), merged(&got));
    Ok(())
}

/// Text that shows up somewhere: reasoning, answer, names and arguments, in the order of the events.
fn shown(list: &[Said]) -> String {
    let text = |said: &Said| match said {
        Said::Reasoning(text) | Said::Content(text) | Said::CallStart(_, text) | Said::CallArguments(_, text) => {
            text.clone()
        }
        _ => String::new(),
    };
    list.iter().map(text).collect()
}

/// The text of ids by the definition: special tokens spelled out but for the end of the sentence, ill-formed bytes as U+FFFD.
fn text_of(ids: &[u32]) -> String {
    let mut text = String::new();
    for run in ids.chunk_by(|a, b| !is_added(*a) && !is_added(*b)) {
        let bytes: Vec<u8> = run.iter().flat_map(|id| spelling(*id)).collect();
        text += &String::from_utf8_lossy(&bytes);
    }
    text
}

fn is_added(id: u32) -> bool {
    matches!(TOKENIZER.token(id), Some(Token::Added(_)))
}

fn spelling(id: u32) -> Vec<u8> {
    match TOKENIZER.token(id) {
        Some(Token::Plain(bytes)) => bytes.to_vec(),
        Some(Token::Added(spelling)) if id != 1 => spelling.as_bytes().to_vec(),
        _ => Vec::new(),
    }
}

fn bytes_of(id: u32) -> usize {
    spelling(id).len()
}

/// JSON values without an empty key: those are for other tests.
fn json_values() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<i32>().prop_map(|n| serde_json::Value::from(f64::from(n) / 8.0)),
        words().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            vec((words(), inner), 0..4).prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Texts with everything in them that ids can tell from markup.
fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => vec(select(&FRAGMENTS[..]), 0..5).prop_map(|fragments| fragments.concat()),
        1 => any::<String>(),
    ]
}

/// A key must not look as if it ended its own attribute, or began a tag.
fn keys() -> impl Strategy<Value = String> {
    words().prop_filter("ends its own attribute", |key| {
        let ends = |after: char| key.contains(&format!("\"{after}"));
        ![' ', '\t', '\n', '\r', '>', '/'].into_iter().any(ends) && !key.contains("｜DSML｜")
    })
}

fn past_calls() -> impl Strategy<Value = Vec<(String, serde_json::Map<String, serde_json::Value>)>> {
    let arguments = vec((keys(), json_values()), 0..5).prop_map(|members| members.into_iter().collect());
    vec(("[A-Za-z0-9_.:/-]{1,12}", arguments), 1..4)
}

proptest! {
    // More with PROPTEST_CASES.
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(1000),
        max_local_rejects: u32::MAX,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_cut_of_a_text_gives_the_same(
        options in options(), output in outputs(), end in ends(), cuts in vec(any::<bool>(), 1..40),
    ) {
        check_cut(options, &[text(output), end], &cuts)?;
    }

    #[test]
    fn any_cut_of_ids_gives_the_same(
        options in options(), output in outputs(), end in ends(), cuts in vec(any::<bool>(), 1..40),
        odd in vec((any::<usize>(), select(vec![0u32, 1, 163, 165, 67, 128_803, 128_825, 128_822, 128_821, 200_000])), 0..4),
    ) {
        let mut list = TOKENIZER.encode(&output);
        for (place, id) in odd {
            list.insert(place % (list.len() + 1), id);
        }
        check_cut(options, &[ids(list), end], &cuts)?;
    }

    /// The text behind the end of the output is the end of all that came, and its ids are the last ones that came.
    #[test]
    fn what_remains_is_behind_the_end(
        options in options(), stops in select(&STOPS[..]), output in outputs(), cuts in vec(any::<bool>(), 1..40),
        odd in vec((any::<usize>(), select(vec![0u32, 1, 163, 165, 67, 128_803, 128_825, 200_000])), 0..4),
    ) {
        let stop_sequences = stops.iter().map(|stop| (*stop).to_owned()).collect();
        let mut processor = processor(ParsingOptions { stop_sequences, ..options });
        let mut list = TOKENIZER.encode(&output);
        for (place, id) in odd {
            list.insert(place % (list.len() + 1), id);
        }
        let (mut events, mut came) = (Events::default(), Vec::new());
        let mut cuts = cuts.iter().cycle();
        for part in list.chunk_by(|_, _| *cuts.next().unwrap()) {
            if !processor.is_finished() {
                prop_assert_eq!((processor.remaining_text(), processor.remaining_ids()), ("", Vec::new()));
                processor.push_tokens(part, None, &mut events).unwrap();
                came.extend_from_slice(part);
            }
        }
        let (rest, rest_ids) = (processor.remaining_text(), processor.remaining_ids());
        if !processor.is_finished() {
            prop_assert_eq!((rest, rest_ids), ("", Vec::new()));
            return Ok(());
        }
        let whole = text_of(&came);
        prop_assert!(whole.ends_with(rest), "{:?} is not the end of {:?}", rest, whole);
        prop_assert!(came.ends_with(&rest_ids));
        let before = came.len() - rest_ids.len();
        // A character may be cut by the ids' start: then it counts as theirs.
        let ends_at = |count: usize| came[..count].iter().map(|id| bytes_of(*id)).sum::<usize>();
        if came.iter().map(|id| bytes_of(*id)).sum::<usize>() == whole.len() {
            let end = whole.len() - rest.len();
            prop_assert!(ends_at(before) >= end && (before == 0 || ends_at(before - 1) < end));
        }
    }

    /// The output could end at every place: what was said before is then the beginning of a proper whole.
    #[test]
    fn an_end_at_any_place_keeps_what_was_said(
        options in options(), output in outputs(), end in ends(),
    ) {
        let mut processor = processor(options);
        let mut events = Events::default();
        for c in output.chars() {
            if processor.is_finished() {
                break;
            }
            processor.push_text(c.encode_utf8(&mut [0; 4]), 1, &mut events).unwrap();
            let so_far = said(&events);
            let rest = run(&mut processor.clone(), std::slice::from_ref(&end));
            if !rest.is_empty() {
                check_well_formed(&[so_far, rest].concat());
            }
        }
    }

    /// No words are lost or said twice where tags are whole.
    #[test]
    fn words_outside_tags_are_delivered_once(
        stage in stages(), starts_in_tool_calls in any::<bool>(),
        tags in vec(prop_oneof![4 => select(&TAGS[..]).prop_map(Some), 3 => Just(None)], 0..30),
        cuts in vec(any::<bool>(), 1..40),
    ) {
        let options = ParsingOptions { thinking_initial_stage: stage, starts_in_tool_calls, ..ParsingOptions::default() };
        let mut number = 0..;
        let parts = tags.iter().map(|tag| tag.map_or_else(|| format!(" w{:03} ", number.next().unwrap()), str::to_owned));
        let output: String = parts.collect();
        let chunks = [text(output), InferenceChunk::Finish(InferenceFinishReason::Stop)];
        check_cut(options.clone(), &chunks, &cuts)?;
        let shown = shown(&run(&mut processor(options), &chunks));
        for number in 0..number.next().unwrap() {
            let word = format!("w{number:03}");
            prop_assert_eq!(shown.matches(&word).count(), 1, "{} in {:?}", word, shown);
        }
    }

    #[test]
    fn text_never_panics(options in options(), texts in vec(any::<String>(), 0..10), end in ends()) {
        let mut chunks: Vec<InferenceChunk> = texts.into_iter().map(text).collect();
        chunks.push(end);
        check_well_formed(&run(&mut processor(options), &chunks));
    }

    #[test]
    fn ids_never_panic(
        options in options(), lists in vec(vec(prop_oneof![0..130_000u32, 128_799..128_830u32, any::<u32>()], 0..10), 0..10),
        end in ends(),
    ) {
        let mut chunks: Vec<InferenceChunk> = lists.into_iter().map(ids).collect();
        chunks.push(end);
        check_well_formed(&run(&mut processor(options), &chunks));
    }

    /// What the template writes for past calls reads back as those calls.
    #[test]
    fn rendered_calls_read_back(
        past in past_calls(), thinking in any::<bool>(), is_v4 in any::<bool>(), cuts in vec(any::<bool>(), 1..40),
    ) {
        let version = if is_v4 { ModelVersion::DeepseekV4Pro } else { ModelVersion::DeepseekV41Flash };
        let tool_calls = past.iter().enumerate().map(|(number, (name, arguments))| ToolCall {
            id: number.to_string(),
            name: name.clone(),
            arguments: serde_json::Value::Object(arguments.clone()).to_string(),
        });
        let assistant = Message::Assistant {
            content: "answer".to_owned(),
            reasoning_content: thinking.then(|| "thought".to_owned()),
            tool_calls: Some(tool_calls.collect()),
            prefix: false,
        };
        let user = Message::User { content: Content::from("q".to_owned()) };
        // A past turn keeps its reasoning where tools are declared.
        let tool = ToolDefinition {
            name: "t".to_owned(),
            description: None,
            parameters: None,
            strict: None,
            defer_loading: false,
        };
        let conversation = Conversation {
            messages: vec![user, assistant],
            thinking_mode: thinking,
            tools: vec![tool],
            ..Conversation::default()
        };
        let tokenizer = Tokenizer::builtin(version);
        let prompt = render(&conversation, version, &SpecialTokens::default());
        let all = tokenizer.encode_segments(prompt.segments()).unwrap();
        let id = |spelling: &str| tokenizer.special_id(spelling).unwrap();
        let turn = all.iter().rposition(|&i| i == id("<｜User｜>")).unwrap();
        let behind = |from: usize, spelling: &str| from + all[from..].iter().position(|&i| i == id(spelling)).unwrap() + 1;
        let start = behind(turn, if thinking { "<think>" } else { "</think>" });
        let output = all[start..behind(start, "<｜end▁of▁sentence｜>")].to_vec();

        let stage = thinking.then_some(ThinkingInitialStage::ReasoningStart);
        let options = ParsingOptions { thinking_initial_stage: stage, ..ParsingOptions::default() };
        let mut processor = StreamProcessor::new(options, Arc::default(), Some(tokenizer));
        let mut cuts = cuts.iter().cycle();
        let chunks = cut_again(&[ids(output)], || *cuts.next().unwrap());
        let mut got = run(&mut processor, &[&chunks[..], &[InferenceChunk::Finish(InferenceFinishReason::Stop)]].concat());
        prop_assert_eq!(got.pop(), Some(Said::Finish(FinishReason::ToolCalls, None)));
        let read: Vec<_> = calls(&got)
            .into_iter()
            .map(|(name, arguments, finished)| {
                assert!(finished);
                (name, serde_json::from_str(&arguments).unwrap())
            })
            .collect();
        prop_assert_eq!(read, past);
        let texts: Vec<Said> = merged(&got).into_iter().filter(|s| matches!(s, Said::Reasoning(_) | Said::Content(_))).collect();
        let reasoning = thinking.then(|| Said::Reasoning("thought".to_owned()));
        prop_assert_eq!(texts, reasoning.into_iter().chain([Said::Content("answer".to_owned())]).collect::<Vec<_>>());
    }
}
