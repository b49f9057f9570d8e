//! Token-exact extension: it goes on from the sampled ids wherever it may, and never tells another story than the
//! plain prompt. Sessions grow from the conversations of the request cases by made-up outputs; some are mutated.
//! More with `PROPTEST_CASES`.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/output.rs"]
mod output;

use std::sync::{Arc, LazyLock};

use common::{read_cases, string};
use output::{said, Numbers, Said};
use proptest::prelude::*;
use recipe_core::conversation::{Content, Message, ToolCall, ToolChoice, ToolDefinition};
use recipe_core::extend::{extend, Extended, Previous, Reason};
use recipe_core::json::Value;
use recipe_core::options::{ConversionOptions, ModelVersion, ParsingOptions, ThinkingInitialStage};
use recipe_core::prompt::{render, Segment};
use recipe_core::request::chat::ChatRequest;
use recipe_core::request::messages::MessagesRequest;
use recipe_core::request::responses::ResponsesRequest;
use recipe_core::request::ConversationRequest;
use recipe_core::special::SpecialToken;
use recipe_core::stream::{Events, InferenceFinishReason, OutputTools, StreamProcessor};
use recipe_core::tokenizer::{Token, Tokenizer};

const EOS: u32 = 1;

/// Every request of the cases that converts.
static BASES: LazyLock<Vec<ConversationRequest>> = LazyLock::new(|| {
    let convert = |case: &Value<'static>| {
        let body = case.get("body")?.to_compact();
        let options = ConversionOptions::default();
        match case.get("protocol").map_or("chat_completions", |_| string(case, "protocol")) {
            "messages" => MessagesRequest::parse(body.as_bytes()).ok()?.convert(&options).ok(),
            "responses" => ResponsesRequest::parse(body.as_bytes()).ok()?.convert(&options).ok(),
            _ => ChatRequest::parse(body.as_bytes()).ok()?.convert(&options).ok(),
        }
    };
    read_cases("request").iter().filter_map(convert).collect()
});

fn tokenizer(request: &ConversationRequest) -> Tokenizer {
    Tokenizer::builtin(request.model_version)
}

fn rendered(request: &ConversationRequest) -> recipe_core::prompt::RenderedPrompt {
    render(&request.conversation, request.model_version, &request.parsing_options.special_tokens)
}

fn extended(request: &ConversationRequest, prompt_ids: &[u32], output_ids: &[u32]) -> Extended {
    extend(request, &rendered(request), &tokenizer(request), Previous { prompt_ids, output_ids }).unwrap()
}

// ---- what ids say

/// A run of ids: text, or one special token.
#[derive(Clone, Debug, PartialEq)]
enum Run {
    Text(String),
    Special(u32),
}

/// The turns of a prompt: ids up to each end-of-sentence token.
fn turns(ids: &[u32]) -> impl Iterator<Item = &[u32]> {
    ids.split_inclusive(|id| *id == EOS)
}

fn story(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<Run> {
    let (mut runs, mut bytes) = (Vec::new(), Vec::new());
    let flush = |bytes: &mut Vec<u8>, runs: &mut Vec<Run>| {
        if !bytes.is_empty() {
            runs.push(Run::Text(String::from_utf8_lossy(bytes).into_owned()));
            bytes.clear();
        }
    };
    for &id in ids {
        match tokenizer.token(id) {
            Some(Token::Plain(text)) => bytes.extend_from_slice(text),
            _ => {
                flush(&mut bytes, &mut runs);
                runs.push(Run::Special(id));
            }
        }
    }
    flush(&mut bytes, &mut runs);
    runs
}

/// What a client gets of an output: reasoning, content, finished calls.
type Parsed = (String, String, Vec<(String, String)>);

fn parsed(request: &ConversationRequest, options: ParsingOptions, ids: &[u32]) -> Parsed {
    let tools = OutputTools::new(request.conversation.tools.clone(), request.custom_tools.clone());
    let mut processor = StreamProcessor::new(options, Arc::new(tools), Some(tokenizer(request)));
    let mut events = Events::default();
    processor.push_tokens(ids, None, &mut events).unwrap();
    if !processor.is_finished() {
        processor.push_finish(InferenceFinishReason::Stop, &mut events).unwrap();
    }
    let (mut reasoning, mut content, mut called) = (String::new(), String::new(), false);
    let events = said(&events);
    for event in &events {
        match event {
            Said::Reasoning(text) => reasoning.push_str(text),
            // As a Chat reply has it.
            Said::Content(text) => {
                if std::mem::take(&mut called) && !content.is_empty() && !text.is_empty() {
                    content.push_str("\n\n");
                }
                content.push_str(text);
            }
            Said::CallStart(..) => called = true,
            _ => {}
        }
    }
    let calls = output::calls(&events);
    (reasoning, content, calls.into_iter().map(|(name, arguments, _)| (name, arguments)).collect())
}

/// Panics unless the ids tell the story of the plain prompt. Within the first `shared` ids, what the model said may be
/// written in another way.
fn check_story(request: &ConversationRequest, ids: &[u32], plain: &[u32], shared: usize) {
    let tokenizer = tokenizer(request);
    let id = |token| tokenizer.special_id(request.parsing_options.special_tokens.get(token)).unwrap();
    assert_eq!(turns(ids).count(), turns(plain).count());
    let mut at = 0;
    for (turn, plain_turn) in turns(ids).zip(turns(plain)) {
        at += turn.len();
        let (told, wanted) = (story(&tokenizer, turn), story(&tokenizer, plain_turn));
        if told == wanted {
            continue;
        }
        assert!(at <= shared, "new text differs");
        let split = |turn: &[u32]| {
            let place = turn.iter().position(|found| *found == id(SpecialToken::Assistant)).unwrap();
            let last = turn.iter().rposition(|found| *found == id(SpecialToken::Assistant)).unwrap();
            assert_eq!(place, last, "a turn in a turn");
            (story(&tokenizer, &turn[..place + 2]), turn[place + 2..turn.len() - 1].to_vec())
        };
        let ((user, told), (wanted_user, wanted)) = (split(turn), split(plain_turn));
        assert_eq!(user, wanted_user);
        let thinks = user.last() == Some(&Run::Special(id(SpecialToken::ThinkingStart)));
        let options = || ParsingOptions {
            thinking_initial_stage: thinks.then_some(ThinkingInitialStage::ReasoningStart),
            ..ParsingOptions::default()
        };
        let read = |ids: &[u32]| {
            let (reasoning, content, calls) = parsed(request, options(), ids);
            let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            let calls: Vec<_> = calls.into_iter().map(|(name, arguments)| (name, json(&arguments))).collect();
            // Line breaks before the end of the reasoning are not read, and an output may stop before that end.
            (reasoning.trim_end_matches('\n').to_owned(), content, calls)
        };
        assert_eq!(read(&told), read(&wanted));
        let allowed = [SpecialToken::ThinkingStart, SpecialToken::ThinkingEnd, SpecialToken::Dsml].map(id);
        let grounding = SpecialToken::GROUNDING.map(id);
        for found in &told {
            let plain = matches!(tokenizer.token(*found), Some(Token::Plain(_)));
            assert!(plain || allowed.contains(found) || grounding.contains(found), "{found} in what the model said");
        }
    }
}

/// Panics unless an extension is one, or the plain encoding with the right length in common.
fn check(request: &ConversationRequest, given: &Extended, prompt_ids: &[u32], output_ids: &[u32]) {
    let plain = tokenizer(request).encode_segments(rendered(request).segments()).unwrap();
    let known = [prompt_ids, output_ids].concat();
    let Extended { ids, shared, reason } = given;
    if reason.is_some() {
        assert_eq!(*ids, plain);
        assert_eq!(*shared, ids.iter().zip(&known).take_while(|(a, b)| a == b).count());
        return;
    }
    let bare = known.strip_suffix(&[EOS]).unwrap_or(&known);
    let continues = matches!(request.conversation.messages.last(), Some(Message::Assistant { prefix: true, .. }));
    if continues && *shared == ids.len() && ids.last() != Some(&EOS) {
        assert_eq!(ids[..], *bare);
    } else {
        assert_eq!(ids[..*shared], [bare, &[EOS]].concat());
    }
    check_story(request, ids, &plain, *shared);
}

// ---- outputs

const TEXTS: [&str; 16] = [
    "Hello",
    " world",
    "\n",
    "\n\n",
    "é中😀",
    "<think>",
    "</think>",
    "｜DSML｜",
    "<｜User｜>",
    "<｜DSML｜ calls>",
    "1.50",
    "{\"a\":1}",
    "  ",
    "don't",
    "<｜ref｜>",
    "\\",
];
const VALUES: [(&str, bool); 9] = [
    ("plain", true),
    ("two\nlines \"quoted\"", true),
    ("", true),
    ("1.50", false),
    ("[1,2, {\"b\":null}]", false),
    ("{\"b\":1,\"a\":\"x\"}", false),
    (" true ", false),
    ("12345678901234567890123", false),
    ("<b> & </b>", true),
];

struct Writer<'a> {
    request: &'a ConversationRequest,
    tokenizer: Tokenizer,
    numbers: &'a mut Numbers,
    ids: Vec<u32>,
}

impl Writer<'_> {
    /// Text in ids, not always as the tokenizer would have them. Grounding tokens are special, as in a prompt.
    fn text(&mut self, text: &str) {
        if let Some((before, after)) = text.split_once("<｜ref｜>") {
            self.text(before);
            self.special(SpecialToken::Ref);
            self.text(after);
            return;
        }
        let mut start = 0;
        for (at, _) in text.char_indices().skip(1) {
            if self.numbers.below(6) == 0 {
                self.tokenizer.encode_plain_into(&text[start..at], &mut self.ids);
                start = at;
            }
        }
        self.tokenizer.encode_plain_into(&text[start..], &mut self.ids);
    }

    fn special(&mut self, token: SpecialToken) {
        let spelling = self.request.parsing_options.special_tokens.get(token);
        self.ids.push(self.tokenizer.special_id(spelling).unwrap());
    }

    fn words(&mut self, most: usize) -> String {
        let count = self.numbers.below(most);
        (0..count).map(|_| TEXTS[self.numbers.below(TEXTS.len())]).collect()
    }

    fn tag(&mut self, closes: bool, text: &str) {
        self.text(if closes { "</" } else { "<" });
        self.special(SpecialToken::Dsml);
        self.text(text);
    }

    fn calls(&mut self, opened: bool, wild: bool) {
        let v4 = self.request.model_version == ModelVersion::DeepseekV4Pro;
        let (gap, name) = if v4 { ("", "tool_calls") } else { (" ", "calls") };
        let names: Vec<String> = self.request.conversation.tools.iter().map(|tool| tool.name.clone()).collect();
        if !opened {
            self.text("\n\n");
            self.tag(false, &format!("{gap}{name}>\n"));
        }
        for _ in 0..1 + self.numbers.below(2) {
            let tool = names[self.numbers.below(names.len())].clone();
            let quote = if wild && self.numbers.below(3) == 0 { '\'' } else { '"' };
            self.tag(false, &format!("{gap}invoke name={quote}{tool}{quote}>\n"));
            for place in 0..self.numbers.below(3) {
                let (value, is_string) = VALUES[self.numbers.below(VALUES.len())];
                self.tag(false, &format!("{gap}parameter name=\"p{place}\" string=\"{is_string}\">{value}"));
                self.tag(true, &format!("{gap}parameter>\n"));
            }
            if !(wild && self.numbers.below(4) == 0) {
                self.tag(true, &format!("{gap}invoke>\n"));
            }
        }
        if !(wild && self.numbers.below(4) == 0) {
            self.tag(true, &format!("{gap}{name}>"));
        }
    }
}

/// An output, and whether it is one that a message can say.
fn write_output(request: &ConversationRequest, prompt: &[u32], numbers: &mut Numbers) -> (Vec<u32>, bool) {
    let (wild, broken) = (numbers.below(2) == 0, numbers.below(4) == 0);
    let tokenizer = tokenizer(request);
    let id = |token| tokenizer.special_id(request.parsing_options.special_tokens.get(token));
    let thinks = prompt.last().copied() == id(SpecialToken::ThinkingStart);
    let opened = request.parsing_options.starts_in_tool_calls;
    let has_tools = request.parsing_options.parse_tool_calls;
    let mut writer = Writer { request, tokenizer, numbers, ids: Vec::new() };
    if thinks {
        let reasoning = writer.words(5);
        writer.text(&reasoning);
        writer.special(SpecialToken::ThinkingEnd);
    }
    if !opened {
        let content = writer.words(6);
        writer.text(&content);
    }
    if opened || (has_tools && writer.numbers.below(2) == 0) {
        writer.calls(opened, wild);
    }
    if broken {
        let tokens = [
            SpecialToken::User,
            SpecialToken::Assistant,
            SpecialToken::Eos,
            SpecialToken::ThinkingStart,
            SpecialToken::ThinkingEnd,
            SpecialToken::Dsml,
            SpecialToken::Ref,
        ];
        let token = tokens[writer.numbers.below(tokens.len())];
        writer.special(token);
        let place = writer.numbers.below(writer.ids.len());
        let last = writer.ids.pop().unwrap();
        writer.ids.insert(place, last);
        let text = writer.words(3);
        writer.text(&text);
    }
    if writer.numbers.below(2) == 0 {
        writer.special(SpecialToken::Eos);
    }
    (writer.ids, !broken)
}

// ---- sessions

/// The request that a client sends next: the output as a message, results of its calls, perhaps more.
fn next_request(request: &ConversationRequest, output: &[u32], numbers: &mut Numbers) -> ConversationRequest {
    let (reasoning, content, calls) = parsed(request, request.parsing_options.clone(), output);
    let mut next = request.clone();
    let conversation = Arc::make_mut(&mut next.conversation);
    let messages = &mut conversation.messages;
    let (mut said_before, mut thought_before) = (String::new(), String::new());
    if let Some(Message::Assistant { prefix: true, content, reasoning_content, .. }) = messages.last() {
        said_before.clone_from(content);
        thought_before = reasoning_content.clone().unwrap_or_default();
        messages.pop();
    }
    let mut compact = |arguments: String| match Value::parse(arguments.as_bytes()) {
        Ok(value) if numbers.below(2) == 0 => value.to_compact(),
        _ => arguments,
    };
    let calls: Vec<ToolCall> = calls
        .into_iter()
        .enumerate()
        .map(|(place, (name, arguments))| ToolCall {
            id: format!("call_{place:02}_{}", messages.len()),
            name,
            arguments: compact(arguments),
        })
        .collect();
    let ids: Vec<String> = calls.iter().map(|call| call.id.clone()).collect();
    messages.push(Message::Assistant {
        content: said_before + &content,
        reasoning_content: conversation.thinking_mode.then(|| thought_before + &reasoning),
        tool_calls: (!calls.is_empty()).then_some(calls),
        prefix: false,
    });
    let asks = ids.is_empty() || numbers.below(3) == 0;
    for id in ids {
        messages.push(Message::Tool { content: Content::from(format!("result of {id}")), tool_call_id: Some(id) });
    }
    if asks {
        messages.push(Message::User { content: Content::from("And then? <｜User｜>".to_owned()) });
    }
    settle(&mut next);
    next
}

/// Makes the parsing options fit the conversation, as conversion does.
fn settle(request: &mut ConversationRequest) {
    let conversation = &request.conversation;
    let last = conversation.messages.last();
    let stage = match last {
        Some(Message::Assistant { prefix: true, content, .. }) if !content.is_empty() => {
            ThinkingInitialStage::ContentContinuation
        }
        _ => ThinkingInitialStage::ReasoningStart,
    };
    let has_tools = conversation.has_active_tools();
    request.parsing_options.thinking_initial_stage = conversation.thinking_mode.then_some(stage);
    request.parsing_options.parse_tool_calls = has_tools;
    request.parsing_options.starts_in_tool_calls =
        has_tools && conversation.tool_choice == ToolChoice::Required && !conversation.thinking_mode;
}

fn mutate(request: &mut ConversationRequest, numbers: &mut Numbers) {
    let conversation = Arc::make_mut(&mut request.conversation);
    let place = numbers.below(conversation.messages.len().max(1));
    let said = conversation.messages.iter().rposition(|message| matches!(message, Message::Assistant { .. })).unwrap();
    match numbers.below(13) {
        0 => conversation.messages.insert(place, Message::User { content: Content::from("more".to_owned()) }),
        1 => conversation.messages.truncate(place + 1),
        2 => drop(conversation.messages.remove(place)),
        3 => {
            let message = Message::System { content: Content::from("Be brief.".to_owned()), tools: None };
            conversation.messages.insert(place, message);
        }
        4 => drop(conversation.tools.pop()),
        5 => conversation.tools.push(ToolDefinition {
            name: "another".to_owned(),
            description: None,
            parameters: None,
            strict: None,
            defer_loading: false,
        }),
        6 => conversation.thinking_mode = !conversation.thinking_mode,
        7 => {
            let choices = [ToolChoice::Auto, ToolChoice::None, ToolChoice::Required];
            conversation.tool_choice = choices[numbers.below(3)];
        }
        8 => {
            conversation.messages.truncate(said + 1);
            if let Some(Message::Assistant { prefix, tool_calls: None, .. }) = conversation.messages.last_mut() {
                *prefix = true;
            }
        }
        kind => {
            let Message::Assistant { content, reasoning_content, tool_calls, .. } = &mut conversation.messages[said]
            else {
                unreachable!("the place of an assistant message");
            };
            match (kind, tool_calls) {
                (9, _) => content.push('.'),
                (10, _) => *reasoning_content = Some("Other thoughts.".to_owned()),
                (11, Some(calls)) => calls.reverse(),
                (_, Some(calls)) => calls[0].arguments = r#"{"p0": "else"}"#.to_owned(),
                _ => content.insert(0, '\n'),
            }
        }
    }
    settle(request);
}

/// Whether the new prompt is the old one up to where the output began.
fn goes_on(before: &ConversationRequest, after: &ConversationRequest) -> bool {
    let before = rendered(before);
    let assistant = after.parsing_options.special_tokens.get(SpecialToken::Assistant);
    let opened = before.special_ranges().iter().rfind(|range| &before.prompt()[(*range).clone()] == assistant).unwrap();
    rendered(after).prompt().starts_with(&before.prompt()[..opened.end])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sessions_keep_their_ids_and_their_story(seed in 1..u64::MAX) {
        let numbers = &mut Numbers(seed);
        numbers.below(2);
        let mut request = BASES[numbers.below(BASES.len())].clone();
        let mut prompt = tokenizer(&request).encode_segments(rendered(&request).segments()).unwrap();
        for _ in 0..1 + numbers.below(4) {
            let (output, sayable) = write_output(&request, &prompt, numbers);
            let mut next = next_request(&request, &output, numbers);
            let mutated = numbers.below(3) == 0;
            if mutated {
                mutate(&mut next, numbers);
            }
            let given = extended(&next, &prompt, &output);
            check(&next, &given, &prompt, &output);
            let options = &request.parsing_options;
            let plain_options = options.stop_sequences.is_empty()
                && !options.parse_json_output
                && options.parallel_tool_calls
                && matches!(options.thinking_initial_stage, None | Some(ThinkingInitialStage::ReasoningStart))
                && !matches!(request.conversation.messages.last(), Some(Message::Assistant { prefix: true, .. }));
            if sayable && !mutated && plain_options && goes_on(&request, &next) {
                let keeps = !next.conversation.thinking_mode || next.conversation.has_active_tools();
                let expected = if keeps { None } else { Some(Reason::ReasoningDropped) };
                prop_assert_eq!(given.reason, expected, "{:?}", next.conversation);
            }
            (request, prompt) = (next, given.ids);
        }
    }
}

// ---- single cases

fn chat(body: &str) -> ConversationRequest {
    ChatRequest::parse(body.as_bytes()).unwrap().convert(&ConversionOptions::default()).unwrap()
}

fn encoded(request: &ConversationRequest) -> Vec<u32> {
    tokenizer(request).encode_segments(rendered(request).segments()).unwrap()
}

/// A turn of plain chat without thinking, and the next one with `later` in it.
fn pair(later: &str, more: &str) -> (ConversationRequest, ConversationRequest) {
    let head = r#"{"model":"DeepSeek-V4.1-Flash","thinking":{"type":"disabled"},"#;
    let first = r#""messages":[{"role":"system","content":"s"},{"role":"user","content":"q"}"#;
    (chat(&format!("{head}{first}]{more}}}")), chat(&format!("{head}{first},{later}]{more}}}")))
}

#[test]
fn sampled_ids_stay_where_the_text_is_the_same() {
    let (first, next) = pair(r#"{"role":"assistant","content":"Hello"},{"role":"user","content":"q"}"#, "");
    let (prompt, tokenizer) = (encoded(&first), tokenizer(&first));
    let mut output = Vec::new();
    tokenizer.encode_plain_into("Hel", &mut output);
    tokenizer.encode_plain_into("lo", &mut output);
    for ends in [false, true] {
        let sampled = [&output[..], if ends { &[EOS] } else { &[] }].concat();
        let given = extended(&next, &prompt, &sampled);
        let known = [&prompt[..], &output, &[EOS]].concat();
        assert_eq!(given.reason, None);
        assert_eq!(given.shared, known.len());
        assert_eq!(given.ids[..given.shared], known);
        assert_eq!(
            given.ids[given.shared..],
            encoded(&next)[encoded(&next).len() - (given.ids.len() - given.shared)..]
        );
    }
}

#[test]
fn what_changed_is_named() {
    let answer = r#"{"role":"assistant","content":"Hello"}"#;
    let user = r#"{"role":"user","content":"q"}"#;
    let (first, _) = pair(answer, "");
    let (prompt, tokenizer) = (encoded(&first), tokenizer(&first));
    let output = tokenizer.encode("Hello");
    let reason = |next: &ConversationRequest| extended(next, &prompt, &output).reason;
    let after = |later: &str| pair(later, "").1;
    assert_eq!(reason(&after(&format!("{answer},{user}"))), None);
    assert_eq!(reason(&after(answer)), None);
    assert_eq!(reason(&after(&answer.replace("Hello", "Hallo"))), Some(Reason::OutputDiffers));
    assert_eq!(reason(&first), Some(Reason::HistoryChanged));
    assert_eq!(reason(&after(&format!("{user},{answer}"))), Some(Reason::HistoryChanged));
    let tools = r#","tools":[{"type":"function","function":{"name":"f"}}]"#;
    assert_eq!(reason(&pair(answer, tools).1), Some(Reason::ToolsChanged));
    // The reasoning of a turn without tools is not shown again.
    let think = |later: &str| {
        chat(&format!(r#"{{"model":"DeepSeek-V4-Pro","messages":[{{"role":"user","content":"q"}}{later}]}}"#))
    };
    let output = tokenizer.encode("r</think>Hello");
    let given = extended(&think(&format!(",{answer},{user}")), &encoded(&think("")), &output);
    assert_eq!(given.reason, Some(Reason::ReasoningDropped));
    assert_eq!(given.shared, encoded(&think("")).len() - 1);
}

#[test]
fn a_cut_output_is_gone_on_with() {
    let (first, next) = pair(r#"{"role":"assistant","content":"Hello","prefix":true}"#, "");
    let prompt = encoded(&first);
    let output = tokenizer(&first).encode("Hello");
    let given = extended(&next, &prompt, &output);
    assert_eq!((given.reason, given.shared), (None, prompt.len() + output.len()));
    assert_eq!(given.ids, [&prompt[..], &output].concat());
    // Its end-of-sentence token would say that it had ended.
    let ended = [&output[..], &[EOS]].concat();
    assert_eq!(extended(&next, &prompt, &ended).ids, given.ids);
    let (_, other) = pair(r#"{"role":"assistant","content":"Hell","prefix":true}"#, "");
    assert_eq!(extended(&other, &prompt, &output).reason, Some(Reason::OutputDiffers));
}

#[test]
fn a_call_may_be_written_in_another_way() {
    let tools = r#","tools":[{"type":"function","function":{"name":"f"}}]"#;
    let call = |arguments: &str| {
        let arguments = Value::String(arguments.to_owned().into()).to_compact();
        format!(
            r#"{{"role":"assistant","content":"Now","tool_calls":[{{"id":"c","type":"function","function":{{"name":"f","arguments":{arguments}}}}}]}},{{"role":"tool","tool_call_id":"c","content":"r"}}"#
        )
    };
    let (first, next) = pair(&call(r#"{"a":[1,2],"b":"x"}"#), tools);
    let (prompt, tokenizer) = (encoded(&first), tokenizer(&first));
    let output = |b: &str| {
        tokenizer.encode(&format!(
            "Now\n\n\n<｜DSML｜ calls><｜DSML｜ invoke name='f'><｜DSML｜ parameter name=\"b\" string=\"true\">{b}\
             </｜DSML｜ parameter><｜DSML｜ parameter name=\"a\" string=\"false\">[1, 2]</｜DSML｜ parameter>"
        ))
    };
    let given = extended(&next, &prompt, &output("x"));
    assert_eq!(given.reason, None);
    check(&next, &given, &prompt, &output("x"));
    assert_eq!(extended(&next, &prompt, &output("y")).reason, Some(Reason::OutputDiffers));
    // A special token that only spells text in what the client got back.
    let (_, spelled) = pair(r#"{"role":"assistant","content":"<｜User｜>"},{"role":"user","content":"q"}"#, tools);
    assert_eq!(extended(&spelled, &prompt, &tokenizer.encode("<｜User｜>")).reason, Some(Reason::OutputDiffers));
    let mut plain = Vec::new();
    tokenizer.encode_plain_into("<｜User｜>", &mut plain);
    assert_eq!(extended(&spelled, &prompt, &plain).reason, None);
}

#[test]
fn a_forced_call_is_a_part_of_the_next_turn() {
    let forced = r#","tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required""#;
    let call = r#"{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}"#;
    let (first, _) = pair(call, forced);
    let (_, next) = pair(call, forced.trim_end_matches(r#","tool_choice":"required""#));
    let (prompt, tokenizer) = (encoded(&first), tokenizer(&first));
    let output = tokenizer.encode("<｜DSML｜ invoke name=\"f\">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>");
    let given = extended(&next, &prompt, &output);
    assert_eq!((given.reason, given.shared), (None, prompt.len() + output.len() + 1));
}

#[test]
fn the_sessions_start_from_many_requests() {
    assert!(BASES.len() > 500, "{}", BASES.len());
    assert!(BASES.iter().any(|request| rendered(request).segments().any(|s| matches!(s, Segment::Image(_)))));
}
