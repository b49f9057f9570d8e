//! From bytes to the options and the chunks of an output. Small changes of the bytes are small changes of the output.

// Each target uses a part of this.
#![allow(dead_code)]

use std::sync::{Arc, LazyLock};

use recipe_core::conversation::ToolDefinition;
use recipe_core::json::Value;
use recipe_core::options::{ModelVersion, ParsingOptions, ThinkingInitialStage};
use recipe_core::stream::{InferenceChunk, InferenceFinishReason, OutputTools};
use recipe_core::tokenizer::Tokenizer;

use crate::fragments::{FRAGMENTS, STOPS, TAGS};

pub static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| Tokenizer::builtin(ModelVersion::DeepseekV41Flash));

/// Ids that mean something to the parser, and some that mean nothing.
const ODD_IDS: [u32; 12] = [0, 1, 2, 163, 165, 67, 128_799, 128_803, 128_821, 128_822, 128_825, 200_000];

/// The tools that an output may call.
pub fn tools() -> Vec<ToolDefinition> {
    let tool = |name: &str, schema: &'static str| ToolDefinition {
        name: name.to_owned(),
        description: None,
        parameters: Some(Value::parse(schema.as_bytes()).expect("the schema is JSON")),
        strict: None,
        defer_loading: false,
    };
    vec![
        tool(
            "f",
            r#"{"properties": {"a": {"type": "string"}, "b": {"type": "number"}, "n": {"type": ["null", "string"]}}}"#,
        ),
        tool("g", r#"{"properties": {"a": {"type": "object"}, "n": {"type": "integer"}}}"#),
        tool("c", r#"{"properties": {"input": {"type": "string"}}}"#),
    ]
}

pub fn output_tools() -> Arc<OutputTools> {
    Arc::new(OutputTools::new(tools(), vec!["c".to_owned()]))
}

/// What the bytes say.
pub struct Script {
    pub options: ParsingOptions,
    /// One piece of text or some ids each.
    pub chunks: Vec<InferenceChunk>,
    pub end: InferenceChunk,
    /// Says where to cut again.
    pub cuts: Vec<bool>,
}

enum Item {
    Text(String),
    Id(u32),
    Border,
}

impl Script {
    /// `None`: too few bytes. A script whose third byte is odd has ids, others have texts; with `mixed`, both.
    pub fn read(bytes: &[u8], mixed: bool) -> Option<Self> {
        let (&[flags, choice, kind], rest) = bytes.split_first_chunk::<3>()?;
        let (cuts, body) = rest.split_at(rest.len() / 5);
        let rarely = |bit: u8| flags >> bit & 3 == 3;
        let stages = [
            None,
            Some(ThinkingInitialStage::ReasoningStart),
            Some(ThinkingInitialStage::ReasoningContinuation),
            Some(ThinkingInitialStage::ContentContinuation),
        ];
        let options = ParsingOptions {
            parse_tool_calls: !rarely(0),
            starts_in_tool_calls: rarely(1),
            parse_json_output: rarely(3),
            parallel_tool_calls: !rarely(5),
            thinking_initial_stage: stages[usize::from(choice) % stages.len()],
            stop_sequences: STOPS[usize::from(choice / 4) % STOPS.len()].iter().map(|s| (*s).to_owned()).collect(),
            ..ParsingOptions::default()
        };
        let end = match kind / 2 % 4 {
            0 | 1 => InferenceChunk::Finish(InferenceFinishReason::Stop),
            2 => InferenceChunk::Finish(InferenceFinishReason::Length),
            _ => InferenceChunk::Error { message: "broken".to_owned(), code: "server_error".to_owned() },
        };
        let as_ids = |number: usize| if mixed { number % 3 == 1 } else { kind % 2 == 1 };
        let cuts: Vec<bool> = cuts.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1)).collect();
        let cuts = if cuts.is_empty() { vec![true] } else { cuts };
        Some(Self { options, chunks: chunks(body, as_ids), end, cuts })
    }
}

fn item(byte: u8) -> Item {
    let index = usize::from(byte);
    match byte {
        255 => Item::Border,
        128..=235 => match FRAGMENTS.iter().chain(&TAGS).nth(index - 128) {
            Some(fragment) => Item::Text((*fragment).to_owned()),
            None => Item::Border,
        },
        236..=247 => Item::Id(ODD_IDS[index - 236]),
        248..=254 => Item::Text(char::from_u32(0x7F << (index - 248)).unwrap_or('x').to_string()),
        _ => Item::Text(char::from(byte).to_string()),
    }
}

/// The chunks between borders. In a chunk of text, odd ids are left out.
fn chunks(body: &[u8], as_ids: impl Fn(usize) -> bool) -> Vec<InferenceChunk> {
    let (mut chunks, mut text, mut ids) = (Vec::new(), String::new(), Vec::new());
    for item in body.iter().map(|byte| item(*byte)).chain([Item::Border]) {
        let is_ids = as_ids(chunks.len());
        match item {
            Item::Text(more) => text.push_str(&more),
            Item::Id(id) if is_ids => {
                ids.extend(TOKENIZER.encode(&std::mem::take(&mut text)));
                ids.push(id);
            }
            Item::Id(_) => {}
            Item::Border if is_ids => {
                ids.extend(TOKENIZER.encode(&std::mem::take(&mut text)));
                chunks.push(InferenceChunk::Tokens { token_ids: std::mem::take(&mut ids), logprobs: None });
            }
            Item::Border => chunks.push(InferenceChunk::Text { content: std::mem::take(&mut text), token_count: 1 }),
        }
    }
    chunks
}
