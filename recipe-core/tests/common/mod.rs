//! Reads cases: one JSON object a line, and the conversations in them. Knows no expectation of a test.

// Each test file uses a part of this.
#![allow(dead_code, clippy::unwrap_used)]

pub mod reply;

use std::fs;
use std::path::{Path, PathBuf};

use recipe_core::conversation::{
    Content, Conversation, Effort, ImageData, ImageDetail, ImageSource, Message, ResponseFormat, ToolCall, ToolChoice,
    ToolDefinition,
};
use recipe_core::json::Value;
use recipe_core::options::ModelVersion;
use recipe_core::special::{SpecialToken, SpecialTokens};

/// The root of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The objects of a file, one a line.
pub fn read_lines(path: &Path) -> Vec<Value<'static>> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| Value::parse(line.as_bytes()).expect(line).into_owned()).collect()
}

/// The objects of every `.jsonl` file in a folder of `tests/cases`, files in the order of their names.
pub fn read_cases(folder: &str) -> Vec<Value<'static>> {
    let folder = root().join("tests/cases").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().filter(|file| file.extension().is_some_and(|e| e == "jsonl")).flat_map(|f| read_lines(f)).collect()
}

/// A string that has to be there.
pub fn string<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_else(|| panic!("no string {key:?} in {}", value.to_compact()))
}

/// The items of an array; an absent or null one has none.
pub fn items<'a>(value: &'a Value<'static>, key: &str) -> &'a [Value<'static>] {
    value.get(key).and_then(Value::as_array).unwrap_or_default()
}

/// The integer that a value is.
pub fn integer(value: &Value) -> usize {
    value.to_compact().parse().unwrap()
}

/// `v4` or `v41`.
pub fn version(name: &str) -> ModelVersion {
    match name {
        "v4" => ModelVersion::DeepseekV4Pro,
        "v41" => ModelVersion::DeepseekV41Flash,
        _ => panic!("unknown version {name:?}"),
    }
}

/// The default spellings, and those that an object of keyword and spelling changes.
pub fn special_tokens(changes: Option<&Value>) -> SpecialTokens {
    const NAMES: [&str; 18] = [
        "bos",
        "eos",
        "thinking_start",
        "thinking_end",
        "system",
        "user",
        "assistant",
        "latest_reminder",
        "dsml",
        "image",
        "ref",
        "ref_end",
        "box",
        "box_end",
        "point",
        "point_end",
        "polygon",
        "polygon_end",
    ];
    let changes = changes.and_then(Value::as_object).into_iter().flat_map(|object| object.iter());
    changes.fold(SpecialTokens::default(), |tokens, (name, spelling)| {
        let token = NAMES.iter().position(|n| n == name).unwrap_or_else(|| panic!("unknown token {name:?}"));
        tokens.with(SpecialToken::ALL[token], spelling.as_str().unwrap())
    })
}

/// A conversation as a case spells it. Absent fields have the defaults of the Python API.
/// `image_token` is the spelling of placeholders in messages with images.
pub fn conversation(value: &Value<'static>, image_token: &str) -> Conversation {
    let default = Conversation::default();
    let given = |key: &str| value.get(key).filter(|v| **v != Value::Null);
    let response_format = match (given("response_schema"), given("response_regex"), given("response_format")) {
        (Some(schema), None, _) => ResponseFormat::JsonSchema(schema.clone()),
        (None, Some(regex), _) => ResponseFormat::Regex(regex.as_str().unwrap().to_owned()),
        (None, None, Some(name)) if name.as_str() == Some("json_object") => ResponseFormat::JsonObject,
        (None, None, name) => {
            assert!(name.is_none_or(|name| name.as_str() == Some("text")), "format without its schema");
            ResponseFormat::Text
        }
        _ => panic!("schema and regex"),
    };
    Conversation {
        messages: items(value, "messages").iter().map(|m| message(m, image_token)).collect(),
        thinking_mode: value.get("thinking_mode").map_or(default.thinking_mode, |v| *v == Value::Bool(true)),
        tools: items(value, "tools").iter().map(tool).collect(),
        tool_choice: match given("tool_choice").and_then(Value::as_str) {
            None | Some("auto") => ToolChoice::Auto,
            Some("none") => ToolChoice::None,
            Some("required") => ToolChoice::Required,
            Some(other) => panic!("unknown tool choice {other:?}"),
        },
        reasoning_effort: given("reasoning_effort").and_then(Value::as_str).map(|name| match name {
            "low" => Effort::Low,
            "high" => Effort::High,
            "xhigh" => Effort::XHigh,
            "max" => Effort::Max,
            other => panic!("unknown effort {other:?}"),
        }),
        response_format,
    }
}

fn message(value: &Value<'static>, image_token: &str) -> Message {
    let text = optional_string(value, "content").unwrap_or_default();
    let content = |text: String| Content::with_images(text, image_sources(value), image_token);
    match string(value, "role") {
        "system" => Message::System {
            content: content(text),
            tools: value.get("tools").and_then(Value::as_array).map(|tools| tools.iter().map(tool).collect()),
        },
        "user" => Message::User { content: content(text) },
        "tool" => Message::Tool { content: content(text), tool_call_id: optional_string(value, "tool_call_id") },
        "latest_reminder" => Message::LatestReminder { content: text },
        "assistant" => Message::Assistant {
            content: text,
            reasoning_content: optional_string(value, "reasoning_content"),
            tool_calls: value.get("tool_calls").and_then(Value::as_array).map(|calls| {
                let call = |call: &Value| ToolCall {
                    id: string(call, "id").to_owned(),
                    name: string(call, "name").to_owned(),
                    arguments: string(call, "arguments").to_owned(),
                };
                calls.iter().map(call).collect()
            }),
            prefix: value.get("prefix") == Some(&Value::Bool(true)),
        },
        other => panic!("unknown role {other:?}"),
    }
}

/// `images` is a count of stand-in sources, `image_sources` lists real ones.
fn image_sources(value: &Value<'static>) -> Vec<ImageSource> {
    if let Some(count) = value.get("images") {
        let source = ImageSource {
            data: ImageData::Url("http://example.com/image.png".to_owned()),
            detail: ImageDetail::High,
            path: String::new(),
        };
        return vec![source; integer(count)];
    }
    items(value, "image_sources").iter().map(image_source).collect()
}

/// An image source as a case spells it.
pub fn image_source(value: &Value<'static>) -> ImageSource {
    ImageSource {
        data: match (optional_string(value, "url"), optional_string(value, "data_url")) {
            (Some(url), None) => ImageData::Url(url),
            (None, Some(url)) => ImageData::DataUrl(url),
            _ => panic!("no one place in {}", value.to_compact()),
        },
        detail: match optional_string(value, "detail").as_deref() {
            Some("auto") => ImageDetail::Auto,
            Some("low") => ImageDetail::Low,
            None | Some("high") => ImageDetail::High,
            Some("original") => ImageDetail::Original,
            Some(other) => panic!("unknown detail {other:?}"),
        },
        path: optional_string(value, "path").unwrap_or_default(),
    }
}

fn tool(value: &Value<'static>) -> ToolDefinition {
    ToolDefinition {
        name: string(value, "name").to_owned(),
        description: optional_string(value, "description"),
        parameters: value.get("parameters").filter(|v| **v != Value::Null).cloned(),
        strict: match value.get("strict") {
            Some(Value::Bool(strict)) => Some(*strict),
            _ => None,
        },
        defer_loading: value.get("defer_loading") == Some(&Value::Bool(true)),
    }
}

fn optional_string(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}
