//! Prompts against the cases of `tests/cases/prompt`, the readable ones of `tests/golden`, and the rule that text
//! never becomes a special token.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::ops::Range;

use common::{conversation, integer, items, read_cases, read_lines, root, special_tokens, string, version};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use recipe_core::conversation::{
    Content, Conversation, ImageData, ImageDetail, ImageSource, Message, ResponseFormat, ToolCall, ToolChoice,
    ToolDefinition,
};
use recipe_core::json::{Number, Object, Value};
use recipe_core::options::ModelVersion;
use recipe_core::prompt::{render, RenderedPrompt, Segment};
use recipe_core::special::{SpecialToken, SpecialTokens};

const VERSIONS: [(&str, ModelVersion); 2] =
    [("v4", ModelVersion::DeepseekV4Pro), ("v41", ModelVersion::DeepseekV41Flash)];

/// The special ranges in code points, as cases have them.
fn code_points(rendered: &RenderedPrompt) -> Vec<Range<usize>> {
    let (mut byte, mut point) = (0, 0);
    let mut points_up_to = |end: usize| {
        point += rendered.prompt()[byte..end].chars().count();
        byte = end;
        point
    };
    rendered.special_ranges().iter().map(|range| points_up_to(range.start)..points_up_to(range.end)).collect()
}

fn expected_ranges(value: &Value<'static>) -> Vec<Range<usize>> {
    let ends = |range: &Value| range.as_array().map(|ends| integer(&ends[0])..integer(&ends[1])).unwrap();
    items(value, "special_ranges").iter().map(ends).collect()
}

fn spelling<'a>(segment: &Segment<'a>) -> &'a str {
    match segment {
        Segment::Special(text) | Segment::Plain(text) | Segment::Image(text) => text,
    }
}

#[test]
fn cases() {
    for case in read_cases("prompt") {
        let tokens = special_tokens(case.get("special_tokens"));
        let conversation = conversation(case.get("conversation").unwrap(), tokens.get(SpecialToken::Image));
        let rendered = render(&conversation, version(string(&case, "version")), &tokens);
        let (id, expect) = (string(&case, "id"), case.get("expect").unwrap());
        assert_eq!(rendered.prompt(), string(expect, "prompt"), "{id}");
        assert_eq!(code_points(&rendered), expected_ranges(expect), "{id}");
        if let Some(count) = expect.get("images") {
            assert_eq!(rendered.image_sources().len(), integer(count), "{id}");
        }
    }
}

/// Each `tests/golden/NAME.json` is a conversation, and `NAME.VERSION.txt` is its prompt. After a wanted change write
/// them anew with `UPDATE_GOLDEN=1 cargo test -p recipe-core --test prompt golden`, then read `git diff tests/golden`.
#[test]
fn golden() {
    let folder = root().join("tests/golden");
    let mut names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    assert!(!names.is_empty());
    for path in names {
        let text = fs::read(&path).unwrap();
        let tokens = SpecialTokens::default();
        let conversation = conversation(&Value::parse(&text).unwrap().into_owned(), tokens.get(SpecialToken::Image));
        for (name, version) in VERSIONS {
            let golden = path.with_extension(format!("{name}.txt"));
            let prompt = render(&conversation, version, &tokens).prompt().to_owned();
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                fs::write(&golden, &prompt).unwrap();
            }
            assert_eq!(prompt, fs::read_to_string(&golden).unwrap(), "{}", golden.display());
        }
    }
}

/// The conversation as the reference reads it: integers beyond 64 bits in arguments are floats there. Says whether
/// there were any.
fn round_wide_integers(conversation: &mut Conversation) -> bool {
    fn round(value: &Value<'static>) -> Value<'static> {
        match value {
            Value::Number(Number::Wide(digits)) => Value::Number(Number::Float(Number::Wide(digits.clone()).to_f64())),
            Value::Array(items) => Value::Array(items.iter().map(round).collect()),
            Value::Object(object) => Value::Object(Object::from_members(
                object.iter().map(|(key, value)| (key.clone(), round(value))).collect(),
            )),
            other => other.clone(),
        }
    }
    let mut found = false;
    for message in &mut conversation.messages {
        let Message::Assistant { tool_calls: Some(calls), .. } = message else { continue };
        for call in calls {
            let Ok(arguments) = Value::parse(call.arguments.as_bytes()) else { continue };
            let arguments = arguments.into_owned();
            let rounded = round(&arguments);
            if rounded != arguments {
                call.arguments = rounded.to_compact();
                found = true;
            }
        }
    }
    found
}

/// Whether the text says which placeholder is an image's: a converted request knows, even if a user spells one.
fn images_are_placed(conversation: &Conversation) -> bool {
    conversation.messages.iter().filter_map(Message::content).all(|content| {
        let spelled = content.text().matches(SpecialToken::Image.default_str()).count();
        content.image_sources().is_empty() || spelled == content.image_sources().len()
    })
}

/// The conversations that requests became in the reference, where its answers lie beside the project.
#[test]
fn converted_requests_of_the_reference() {
    let folder = root().join("../shared/conformance/golden");
    if !folder.exists() {
        println!("skipped: no {}", folder.display());
        return;
    }
    let tokens = SpecialTokens::default();
    let (mut count, mut rounded, mut unplaced) = (0, 0, 0);
    for file in ["encoding.jsonl", "requests.jsonl"] {
        for answer in read_lines(&folder.join(file)) {
            let Some(spelled) = answer.get("conversation") else { continue };
            let mut conversation = conversation(spelled, tokens.get(SpecialToken::Image));
            rounded += usize::from(round_wide_integers(&mut conversation));
            let rendered = render(&conversation, version(string(&answer, "model_version")), &tokens);
            let id = string(&answer, "id");
            assert_eq!(rendered.prompt(), string(&answer, "prompt"), "{id}");
            if images_are_placed(&conversation) {
                assert_eq!(code_points(&rendered), expected_ranges(&answer), "{id}");
            } else {
                unplaced += 1;
            }
            let sources: Vec<ImageSource> = items(&answer, "image_sources").iter().map(common::image_source).collect();
            assert_eq!(rendered.image_sources(), sources, "{id}");
            count += 1;
        }
    }
    println!("{count} prompts agree: {rounded} with wide integers rounded, {unplaced} without their image ranges");
}

/// A piece of text that nothing but a special token's spelling makes special.
#[derive(Clone, Debug)]
enum Piece {
    Word(&'static str),
    Spelling(SpecialToken),
}

type Text = Vec<Piece>;

/// A message without the spelling of its pieces.
#[derive(Clone, Debug)]
enum Plan {
    System(Text, usize, Option<Vec<(Text, Text)>>),
    User(Text, usize),
    Tool(Text, usize, Option<u8>),
    Reminder(Text),
    Assistant { content: Text, reasoning: Option<Text>, calls: Option<Vec<(u8, Text, Text, Text)>>, prefix: bool },
}

#[derive(Clone, Debug)]
struct ConversationPlan {
    messages: Vec<Plan>,
    tools: Vec<(Text, Text)>,
    tool_choice: ToolChoice,
    thinking_mode: bool,
    schema: Option<Text>,
}

/// Writes pieces: as they are, or with a word in the place of each spelling that `keeps` refuses.
fn spell(text: &Text, keeps: impl Fn(SpecialToken) -> bool) -> String {
    text.iter()
        .map(|piece| match piece {
            Piece::Word(word) => word,
            Piece::Spelling(token) if keeps(*token) => token.default_str(),
            Piece::Spelling(_) => "neutral",
        })
        .collect()
}

/// The conversation of a plan. Neutral: only what the template may make special is spelled.
fn build(plan: &ConversationPlan, neutral: bool) -> Conversation {
    let plain = |text: &Text| spell(text, |_| !neutral);
    let model_text = |text: &Text| spell(text, |token| !neutral || SpecialToken::GROUNDING.contains(&token));
    let content = |text: &Text, images: usize| {
        let text = spell(text, |token| !neutral || (token == SpecialToken::Image && images > 0));
        let data = ImageData::Url("http://example.com/image.png".to_owned());
        let source = ImageSource { data, detail: ImageDetail::Auto, path: String::new() };
        Content::with_images(text, vec![source; images], SpecialToken::Image.default_str())
    };
    let json_string = |text: &Text| Value::String(plain(text).into());
    let tool = |(name, description): &(Text, Text)| ToolDefinition {
        name: plain(name),
        description: Some(plain(description)),
        parameters: Some(Value::Array(vec![json_string(description)])),
        strict: None,
        defer_loading: name.is_empty(),
    };
    let message = |plan: &Plan| match plan {
        Plan::System(text, images, tools) => Message::System {
            content: content(text, *images),
            tools: tools.as_ref().map(|tools| tools.iter().map(tool).collect()),
        },
        Plan::User(text, images) => Message::User { content: content(text, *images) },
        Plan::Tool(text, images, id) => {
            Message::Tool { content: content(text, *images), tool_call_id: id.map(|id| id.to_string()) }
        }
        Plan::Reminder(text) => Message::LatestReminder { content: plain(text) },
        Plan::Assistant { content, reasoning, calls, prefix } => Message::Assistant {
            content: model_text(content),
            reasoning_content: reasoning.as_ref().map(model_text),
            tool_calls: calls.as_ref().map(|calls| {
                let call = |(id, name, key, value): &(u8, Text, Text, Text)| {
                    let (key, value) = (json_string(key).to_compact(), json_string(value).to_compact());
                    let arguments = format!("{{{key}:{value},\"list\":[{value}]}}");
                    ToolCall { id: id.to_string(), name: plain(name), arguments }
                };
                calls.iter().map(call).collect()
            }),
            prefix: *prefix,
        },
    };
    Conversation {
        messages: plan.messages.iter().map(message).collect(),
        thinking_mode: plan.thinking_mode,
        tools: plan.tools.iter().map(tool).collect(),
        tool_choice: plan.tool_choice,
        reasoning_effort: None,
        response_format: plan
            .schema
            .as_ref()
            .map_or(ResponseFormat::Text, |text| ResponseFormat::JsonSchema(json_string(text))),
    }
}

fn text() -> impl Strategy<Value = Text> {
    let word = prop::sample::select(vec!["a ", "\n\n", "é", "<", "｜", ">", "</", "中", "\"", "tool_calls"]);
    let piece =
        prop_oneof![word.prop_map(Piece::Word), prop::sample::select(&SpecialToken::ALL[..]).prop_map(Piece::Spelling)];
    vec(piece, 0..5)
}

fn tools() -> impl Strategy<Value = Vec<(Text, Text)>> {
    vec((text(), text()), 0..3)
}

fn message() -> impl Strategy<Value = Plan> {
    let images = || prop_oneof![3 => Just(0usize), 1 => 1..3usize];
    let calls = vec((0..4u8, text(), text(), text()), 0..4);
    prop_oneof![
        (text(), images(), option::of(tools())).prop_map(|(text, images, tools)| Plan::System(text, images, tools)),
        (text(), images()).prop_map(|(text, images)| Plan::User(text, images)),
        (text(), images(), option::of(0..4u8)).prop_map(|(text, images, id)| Plan::Tool(text, images, id)),
        text().prop_map(Plan::Reminder),
        (text(), option::of(text()), option::of(calls), any::<bool>())
            .prop_map(|(content, reasoning, calls, prefix)| Plan::Assistant { content, reasoning, calls, prefix }),
    ]
}

fn plan() -> impl Strategy<Value = ConversationPlan> {
    let tool_choice = prop::sample::select(vec![ToolChoice::Auto, ToolChoice::None, ToolChoice::Required]);
    (vec(message(), 0..8), tools(), tool_choice, any::<bool>(), option::of(text())).prop_map(
        |(messages, tools, tool_choice, thinking_mode, schema)| ConversationPlan {
            messages,
            tools,
            tool_choice,
            thinking_mode,
            schema,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The special segments are the same ones when the text holds no spelling of a special token.
    #[test]
    fn text_never_becomes_special(plan in plan()) {
        for (_, version) in VERSIONS {
            let tokens = SpecialTokens::default();
            let spelled = render(&build(&plan, false), version, &tokens);
            let neutral = render(&build(&plan, true), version, &tokens);
            fn special(rendered: &RenderedPrompt) -> Vec<Segment<'_>> {
                rendered.segments().filter(|segment| !matches!(segment, Segment::Plain(_))).collect()
            }
            prop_assert_eq!(special(&spelled), special(&neutral));
            prop_assert_eq!(special(&spelled).len(), spelled.special_ranges().len());
            prop_assert!(spelled.segments().all(|segment| !spelling(&segment).is_empty()));
            prop_assert_eq!(spelled.segments().map(|segment| spelling(&segment)).collect::<String>(), spelled.prompt());
        }
    }

    /// A mark in a message's text stands in a range of that message, and the ranges are the whole prompt.
    #[test]
    fn ranges_name_the_message_that_made_them(plan in plan()) {
        let mut conversation = build(&plan, true);
        let marks: Vec<String> = (0..conversation.messages.len()).map(|i| format!("[mark {i}]")).collect();
        for (message, mark) in conversation.messages.iter_mut().zip(&marks) {
            match message {
                Message::System { content, .. } | Message::User { content } | Message::Tool { content, .. } => {
                    *content = Content::from(mark.clone());
                }
                Message::Assistant { content, .. } | Message::LatestReminder { content } => content.clone_from(mark),
            }
        }
        for (_, version) in VERSIONS {
            let rendered = render(&conversation, version, &SpecialTokens::default());
            let prompt = rendered.prompt();
            let ranges: Vec<_> = rendered.message_ranges().collect();
            prop_assert!(ranges.iter().all(|(range, _)| !range.is_empty()));
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 != pair[1].1));
            prop_assert_eq!(ranges.iter().map(|(range, _)| &prompt[range.clone()]).collect::<String>(), prompt);
            for (i, mark) in marks.iter().enumerate() {
                let holder = ranges.iter().find(|(range, _)| prompt[range.clone()].contains(mark.as_str()));
                let dropped = holder.is_none() && matches!(conversation.messages[i], Message::LatestReminder { .. });
                prop_assert!(dropped || holder.is_some_and(|(_, message)| *message == Some(i)), "{mark} in {prompt}");
            }
        }
    }
}
