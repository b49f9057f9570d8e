//! Request conversion, from cases: one JSON object a line with `id`, `protocol` (Chat Completions if absent), `body` or
//! `body_text`, `options`, and `expect`: what the conversion gives. `why` says why a case is there, or parts from the
//! reference.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use recipe_core::conversation::{Conversation, Effort, ImageData, ImageSource, Message, ResponseFormat};
use recipe_core::conversation::{ToolCall, ToolDefinition};
use recipe_core::json::{Number, Object, Value};
use recipe_core::options::{
    ConversionOptions, ForcedToolChoice, InferenceOptions, MessagesContinuation, ModelVersion, ParsingOptions,
    ReasoningContentBehavior, ThinkingInitialStage, ToolPairing, Unsupported, WebSearchBehavior,
};
use recipe_core::request::chat::ChatRequest;
use recipe_core::request::messages::MessagesRequest;
use recipe_core::request::responses::ResponsesRequest;
use recipe_core::request::ConversationRequest;
use recipe_core::Result;

fn string(text: impl Into<String>) -> Value<'static> {
    Value::String(text.into().into())
}

fn or_null<T>(value: Option<T>, to_value: impl Fn(T) -> Value<'static>) -> Value<'static> {
    value.map_or(Value::Null, to_value)
}

fn integer(n: impl Into<u64>) -> Value<'static> {
    Value::Number(Number::Unsigned(n.into()))
}

fn float(value: f32) -> Value<'static> {
    Value::Number(Number::Float(value.into()))
}

fn list<T>(items: &[T], to_value: impl Fn(&T) -> Value<'static>) -> Value<'static> {
    Value::Array(items.iter().map(to_value).collect())
}

fn object<const N: usize>(members: [(&'static str, Value<'static>); N]) -> Value<'static> {
    object_of(members.into())
}

fn object_of(members: Vec<(&'static str, Value<'static>)>) -> Value<'static> {
    Value::Object(Object::from_members(members.into_iter().map(|(key, value)| (key.into(), value)).collect()))
}

fn version(version: ModelVersion) -> Value<'static> {
    string(match version {
        ModelVersion::DeepseekV4Pro => "v4",
        ModelVersion::DeepseekV41Flash => "v41",
    })
}

fn tool(tool: &ToolDefinition) -> Value<'static> {
    object([
        ("name", string(&tool.name)),
        ("description", or_null(tool.description.clone(), string)),
        ("parameters", tool.parameters.clone().unwrap_or(Value::Null)),
        ("strict", or_null(tool.strict, Value::Bool)),
        ("defer_loading", Value::Bool(tool.defer_loading)),
    ])
}

fn call(call: &ToolCall) -> Value<'static> {
    object([("id", string(&call.id)), ("name", string(&call.name)), ("arguments", string(&call.arguments))])
}

fn image(source: &ImageSource) -> Value<'static> {
    let (kind, data_url, url) = match &source.data {
        ImageData::Url(url) => ("url", Value::Null, string(url)),
        ImageData::DataUrl(url) => ("data_url", string(url), Value::Null),
        ImageData::Bytes(_) => ("bytes", Value::Null, Value::Null),
    };
    object([
        ("kind", string(kind)),
        ("detail", string(source.detail.as_str())),
        ("data_url", data_url),
        ("url", url),
        ("path", string(&source.path)),
    ])
}

fn message(message: &Message) -> Value<'static> {
    let mut out = vec![("role", string(message.role())), ("content", string(message.text()))];
    match message {
        Message::Assistant { reasoning_content, tool_calls, prefix, .. } => {
            out.extend(reasoning_content.as_ref().map(|text| ("reasoning_content", string(text))));
            out.extend(tool_calls.as_ref().map(|calls| ("tool_calls", list(calls, call))));
            out.extend(prefix.then_some(("prefix", Value::Bool(true))));
        }
        Message::Tool { tool_call_id: Some(id), .. } => out.push(("tool_call_id", string(id))),
        _ => {}
    }
    let sources = message.content().map_or(&[][..], |content| content.image_sources());
    if !sources.is_empty() {
        out.push(("image_sources", list(sources, image)));
    }
    if let Message::System { tools: Some(tools), .. } = message {
        out.push(("tools", list(tools, tool)));
    }
    object_of(out)
}

fn conversation(conversation: &Conversation) -> Value<'static> {
    let effort = conversation.reasoning_effort.map(|effort| match effort {
        Effort::Number(n) => integer(n),
        named => or_null(named.as_str(), string),
    });
    let (schema, regex) = match &conversation.response_format {
        ResponseFormat::JsonSchema(schema) => (schema.clone(), Value::Null),
        ResponseFormat::Regex(regex) => (Value::Null, string(regex)),
        _ => (Value::Null, Value::Null),
    };
    object([
        ("messages", list(&conversation.messages, message)),
        ("thinking_mode", Value::Bool(conversation.thinking_mode)),
        ("tools", list(&conversation.tools, tool)),
        ("tool_choice", string(conversation.tool_choice.as_str())),
        ("reasoning_effort", effort.unwrap_or(Value::Null)),
        ("response_format", string(conversation.response_format.as_str())),
        ("response_schema", schema),
        ("response_regex", regex),
    ])
}

/// `n` is written only where it is not 1: the reference has no such field.
fn inference(options: &InferenceOptions) -> Value<'static> {
    let constraint = options
        .output_constraint
        .as_ref()
        .map(|constraint| object([("kind", string(constraint.kind.as_str())), ("schema", string(&constraint.schema))]));
    let mut members = vec![
        ("max_tokens", or_null(options.max_tokens, integer)),
        ("temperature", or_null(options.temperature, float)),
        ("top_p", or_null(options.top_p, float)),
        ("logprobs", or_null(options.logprobs, Value::Bool)),
        ("top_logprobs", or_null(options.top_logprobs, integer)),
        ("seed", or_null(options.seed, integer)),
        ("output_constraint", constraint.unwrap_or(Value::Null)),
    ];
    members.extend((options.n != 1).then(|| ("n", integer(options.n))));
    object_of(members)
}

/// `parallel_tool_calls` is written only where it is false, like `n` above.
fn parsing(options: &ParsingOptions) -> Value<'static> {
    let stage = options.thinking_initial_stage.map(|stage| match stage {
        ThinkingInitialStage::ReasoningStart => "ReasoningStart",
        ThinkingInitialStage::ReasoningContinuation => "ReasoningContinuation",
        ThinkingInitialStage::ContentContinuation => "ContentContinuation",
    });
    object([
        ("parse_tool_calls", Value::Bool(options.parse_tool_calls)),
        ("starts_in_tool_calls", Value::Bool(options.starts_in_tool_calls)),
        ("parse_json_output", Value::Bool(options.parse_json_output)),
        ("thinking_initial_stage", or_null(stage, string)),
        ("stop_sequences", list(&options.stop_sequences, |stop| string(stop))),
    ])
}

fn options_of(case: &Value<'_>) -> ConversionOptions {
    let mut options = ConversionOptions::default();
    for (key, value) in case.get("options").and_then(Value::as_object).into_iter().flat_map(Object::iter) {
        let number = || value.to_compact().parse::<u32>().expect("an option is a number");
        match (key.as_ref(), value.as_str()) {
            ("default_thinking_mode", _) => options.default_thinking_mode = *value == Value::Bool(true),
            ("reasoning_content_behavior", Some("Reject")) => {
                options.reasoning_content_behavior = ReasoningContentBehavior::Reject;
            }
            ("messages_web_search", Some("Drop")) => options.messages_web_search = WebSearchBehavior::Drop,
            ("messages_continuation", Some("close")) => options.messages_continuation = MessagesContinuation::Close,
            ("responses_web_search", Some("Reject")) => options.responses_web_search = WebSearchBehavior::Reject,
            ("thinking_max_tokens_upper_bound", _) => options.thinking_max_tokens_upper_bound = number(),
            ("non_thinking_max_tokens_upper_bound", _) => options.non_thinking_max_tokens_upper_bound = number(),
            ("max_choices", _) => options.max_choices = u8::try_from(number()).expect("a small number"),
            ("tool_pairing", Some("refuse")) => options.tool_pairing = ToolPairing::Refuse,
            ("forced_tool_choice", Some("refuse")) => options.forced_tool_choice = ForcedToolChoice::Refuse,
            ("unsupported", Some("refuse")) => options.unsupported = Unsupported::Refuse,
            ("hosted_names", _) => options = options.with_hosted_names(),
            ("model_aliases", _) => {
                for (name, version) in value.as_object().into_iter().flat_map(Object::iter) {
                    let version = match version.as_str() {
                        Some("v4") => ModelVersion::DeepseekV4Pro,
                        _ => ModelVersion::DeepseekV41Flash,
                    };
                    options.model_versions_by_name.insert(name.to_string(), version);
                }
            }
            other => panic!("unknown option {other:?}"),
        }
    }
    options
}

/// The protocol of a case; most are of Chat Completions and do not say so.
fn protocol<'a>(case: &'a Value<'_>) -> &'a str {
    case.get("protocol").and_then(Value::as_str).unwrap_or("chat_completions")
}

fn convert(case: &Value<'_>) -> Result<ConversationRequest> {
    match protocol(case) {
        "chat_completions" => convert_as(case, ChatRequest::parse, ChatRequest::from_value, ChatRequest::convert),
        "messages" => convert_as(case, MessagesRequest::parse, MessagesRequest::from_value, MessagesRequest::convert),
        "responses" => {
            convert_as(case, ResponsesRequest::parse, ResponsesRequest::from_value, ResponsesRequest::convert)
        }
        other => panic!("unknown protocol {other:?}"),
    }
}

fn convert_as<R>(
    case: &Value<'_>,
    parse: fn(&[u8]) -> Result<R>,
    from_value: fn(Value<'_>) -> Result<R>,
    convert: fn(R, &ConversionOptions) -> Result<ConversationRequest>,
) -> Result<ConversationRequest> {
    let options = options_of(case);
    if let Some(text) = case.get("body_text").and_then(Value::as_str) {
        return convert(parse(text.as_bytes())?, &options);
    }
    let body = case.get("body").expect("a case has a body");
    let from_value = from_value(body.clone()).and_then(|request| convert(request, &options));
    let from_text = parse(body.to_compact().as_bytes()).and_then(|request| convert(request, &options));
    assert_eq!(from_value, from_text, "the text and the value of a body differ");
    from_value
}

fn refusal(text: impl Into<String>) -> Value<'static> {
    object([("error", string(text))])
}

/// What the case gives: the shape of `expect`.
fn run(case: &Value<'_>) -> Value<'static> {
    let converted = match convert(case) {
        Ok(converted) => converted,
        Err(error) => {
            assert!(error.is_client() && error.status() == 400, "{error:?}");
            return refusal(error.to_string());
        }
    };
    let number = |key: &str| Some(case.get(key)?.to_compact().parse::<u32>());
    match (number("prompt_tokens"), number("context_limit")) {
        (Some(Ok(prompt)), Some(Ok(limit))) => match converted.resolve_max_tokens(prompt, limit) {
            Ok(limit) => object([("max_tokens", integer(limit))]),
            Err(error) => refusal(error.to_string()),
        },
        (None, None) => object([
            ("model_version", version(converted.model_version)),
            ("stream", Value::Bool(converted.stream)),
            ("conversation", conversation(&converted.conversation)),
            ("inference", inference(&converted.inference_options)),
            ("parsing", parsing(&converted.parsing_options)),
        ]),
        // A number that is no u32 cannot reach the core.
        _ => refusal("out of range integral type conversion attempted"),
    }
}

fn lines(path: &Path) -> Vec<Value<'static>> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| Value::parse(line.as_bytes()).expect("a case is JSON").into_owned()).collect()
}

fn id(case: &Value<'_>) -> String {
    case.get("id").and_then(Value::as_str).expect("a case has an id").to_owned()
}

fn own_cases() -> Vec<Value<'static>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases/request");
    let entries = fs::read_dir(&folder).expect("the cases are there");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    files.iter().flat_map(|path| lines(path)).collect()
}

/// Says how `run` parts from `expected`, if it does.
fn difference(case: &Value<'_>, expected: &Value<'_>) -> Option<String> {
    let found = run(case);
    (found != *expected)
        .then(|| format!("{}\n  found    {}\n  expected {}\n", id(case), found.to_compact(), expected.to_compact()))
}

#[test]
fn cases_convert_as_expected() {
    let cases = own_cases();
    assert!(!cases.is_empty());
    let failed: Vec<String> = cases
        .iter()
        .filter_map(|case| difference(case, case.get("expect").expect("a case expects something")))
        .collect();
    assert!(failed.is_empty(), "{} of {} cases:\n{}", failed.len(), cases.len(), failed.concat());
}

/// The answer of the reference, reduced to the shape of `expect`.
fn reduced(answer: &Value<'static>) -> Value<'static> {
    if let Some(error) = answer.get("error") {
        let error = error.get("body").and_then(|body| body.get("error")).unwrap_or(error);
        return refusal(error.get("message").and_then(Value::as_str).expect("an error has a message"));
    }
    let kept = ["model_version", "stream", "conversation", "inference", "parsing", "max_tokens"];
    object_of(kept.into_iter().filter_map(|key| Some((key, answer.get(key)?.clone()))).collect())
}

/// Compares with the recorded answers of the reference, in the folder that `RECIPE_CONFORMANCE` names.
/// A case that parts from them on purpose stands under the same id among our own cases, with its reason.
#[test]
fn recorded_answers_agree() {
    let Some(folder) = std::env::var_os("RECIPE_CONFORMANCE") else {
        println!("skipped: RECIPE_CONFORMANCE names no folder");
        return;
    };
    let own = own_cases();
    let on_purpose: Vec<String> = own.iter().filter(|case| case.get("why").is_some()).map(id).collect();
    let (mut differing, mut count) = (Vec::new(), 0);
    for name in ["requests.jsonl", "encoding.jsonl"] {
        let answers = lines(&Path::new(&folder).join("golden").join(name));
        let answers: HashMap<String, Value<'_>> = answers.into_iter().map(|answer| (id(&answer), answer)).collect();
        for case in lines(&Path::new(&folder).join("cases").join(name)) {
            let of_protocol = case.get("protocol").and_then(Value::as_str);
            if of_protocol.is_some_and(|protocol| ["chat_completions", "messages", "responses"].contains(&protocol)) {
                count += 1;
                if !on_purpose.contains(&id(&case)) {
                    differing.extend(difference(&case, &reduced(&answers[&id(&case)])));
                }
            }
        }
    }
    println!("{} of {count} recorded answers differ", differing.len());
    assert!(differing.is_empty(), "{}", differing.concat());
}

#[test]
fn errors_name_their_place() {
    for (body, path) in [
        (r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text"}]}]}"#, "messages[0].content[0].text"),
        (r#"{"model":"m","messages":[{"role":"user","content":"x"},{"role":"x"}]}"#, "messages[1].role"),
        (r#"{"model":"m","messages":[],"tool_choice":{"type":"function","function":{}}}"#, "tool_choice.function.name"),
        (r#"{"messages":[]}"#, "model"),
        (r#"{"model":"DeepSeek-V4-Pro","messages":[{"role":"assistant"}]}"#, "messages[0]"),
        (
            r#"{"model":"m","messages":[],"tools":[{"type":"function","function":{"name":1}}]}"#,
            "tools[0].function.name",
        ),
    ] {
        let converted = ChatRequest::parse(body.as_bytes()).and_then(|r| r.convert(&ConversionOptions::default()));
        assert_eq!(converted.expect_err(body).path(), Some(path), "{body}");
    }
}
