use recipe_core::conversation::ToolDefinition;
use recipe_core::json::Value;
use recipe_core::options::*;
use recipe_core::stream::*;
use recipe_core::tokenizer::Tokenizer;
use serde_json::{json, Value as J};
use std::io::BufRead;
use std::sync::Arc;
fn main() {
    let merged = std::env::args().any(|a| a == "--resplit");
    let tokenizer = Tokenizer::builtin(ModelVersion::DeepseekV41Flash);
    let mut seed = 12345u64;
    for line in std::io::stdin().lock().lines() {
        let case: J = serde_json::from_str(&line.unwrap()).unwrap();
        let p = &case["parsing"];
        let b = |k: &str, d: bool| p[k].as_bool().unwrap_or(d);
        let options = ParsingOptions {
            parse_tool_calls: b("parse_tool_calls", false),
            starts_in_tool_calls: b("starts_in_tool_calls", false),
            parse_json_output: b("parse_json_output", false),
            parallel_tool_calls: b("parallel_tool_calls", true),
            thinking_initial_stage: match p["thinking_initial_stage"].as_str() {
                Some("ReasoningStart") => Some(ThinkingInitialStage::ReasoningStart),
                Some("ReasoningContinuation") => Some(ThinkingInitialStage::ReasoningContinuation),
                Some("ContentContinuation") => Some(ThinkingInitialStage::ContentContinuation),
                _ => None,
            },
            stop_sequences: p["stop_sequences"]
                .as_array()
                .map(|a| a.iter().map(|s| s.as_str().unwrap().to_owned()).collect())
                .unwrap_or_default(),
            ..Default::default()
        };
        let tools = case["tools"]
            .as_object()
            .map(|o| {
                o.iter()
                    .map(|(n, params)| ToolDefinition {
                        name: n.clone(),
                        description: None,
                        strict: None,
                        defer_loading: false,
                        parameters: if params.is_null() {
                            None
                        } else {
                            Some(Value::parse(params.to_string().as_bytes()).unwrap().into_owned())
                        },
                    })
                    .collect()
            })
            .unwrap_or_default();
        let custom = case["custom"]
            .as_array()
            .map(|a| a.iter().map(|s| s.as_str().unwrap().to_owned()).collect())
            .unwrap_or_default();
        let tok = if case["tokenizer"].as_bool() == Some(false) { None } else { Some(tokenizer.clone()) };
        let mut proc = StreamProcessor::new(options, Arc::new(OutputTools::new(tools, custom)), tok);
        let mut out: Vec<J> = vec![];
        let mut rnd = |n: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % n as u64) as usize
        };
        let mut chunks: Vec<InferenceChunk> = vec![];
        for c in case["chunks"].as_array().unwrap() {
            match c[0].as_str().unwrap() {
                "ready" => chunks.push(InferenceChunk::Ready { prompt_usage: None, system_fingerprint: None }),
                "text" => {
                    let t = c[1].as_str().unwrap();
                    if merged {
                        let mut cur = String::new();
                        for ch in t.chars() {
                            cur.push(ch);
                            if rnd(3) == 0 {
                                chunks.push(InferenceChunk::Text { content: std::mem::take(&mut cur), token_count: 1 });
                            }
                        }
                        if !cur.is_empty() || t.is_empty() {
                            chunks.push(InferenceChunk::Text { content: cur, token_count: 1 });
                        }
                    } else {
                        chunks.push(InferenceChunk::Text {
                            content: t.to_owned(),
                            token_count: c[2].as_u64().unwrap_or(0) as u32,
                        });
                    }
                }
                "tokens" => {
                    let ids: Vec<u32> = c[1].as_array().unwrap().iter().map(|i| i.as_u64().unwrap() as u32).collect();
                    let lp = c[2].as_array().map(|a| {
                        a.iter()
                            .map(|e| IdLogprob { logprob: e[0].as_f64().unwrap_or(0.0), top: vec![] })
                            .collect::<Vec<_>>()
                    });
                    if merged && lp.is_none() {
                        for id in ids {
                            chunks.push(InferenceChunk::Tokens { token_ids: vec![id], logprobs: None });
                        }
                    } else {
                        chunks.push(InferenceChunk::Tokens { token_ids: ids, logprobs: lp })
                    }
                }
                "finish" => chunks.push(InferenceChunk::Finish(match c[1].as_str().unwrap() {
                    "Stop" => InferenceFinishReason::Stop,
                    "Length" => InferenceFinishReason::Length,
                    _ => InferenceFinishReason::ContentFilter,
                })),
                "error" => {
                    chunks.push(InferenceChunk::Error { message: c[1].as_str().unwrap().into(), code: "x".into() })
                }
                _ => panic!(),
            }
        }
        let mut refused = false;
        let mut events = Events::default();
        for c in &chunks {
            if proc.is_finished() {
                break;
            }
            if proc.push(c, &mut events).is_err() {
                refused = true;
                break;
            }
        }
        if !proc.is_finished() && !refused {
            proc.finish(&mut events).unwrap();
        }
        for e in events.iter() {
            out.push(match e {
                Event::Start { .. } => continue,
                Event::Reasoning { text, .. } => json!(["reasoning", text]),
                Event::Content { text, .. } => json!(["content", text]),
                Event::CallStart { index, name } => json!(["call_start", index, name]),
                Event::CallArguments { index, text } => json!(["call_arguments", index, text]),
                Event::CallEnd { index } => json!(["call_end", index]),
                Event::Finish { reason, stop_sequence, .. } => json!([
                    "finish",
                    match reason {
                        FinishReason::Stop => "stop",
                        FinishReason::ToolCalls => "tool_calls",
                        FinishReason::Length => "length",
                        FinishReason::ContentFilter => "content_filter",
                    },
                    stop_sequence
                ]),
                Event::Error { message, .. } => json!(["error", message]),
            });
        }
        if refused {
            out.push(json!(["refused"]));
        }
        println!("{}", json!({"id": case["id"], "events": out}));
    }
}
