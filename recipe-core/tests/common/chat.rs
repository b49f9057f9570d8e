//! Adds up the chunks of a Chat Completions reply, as JSON: the slow twin of the complete response.

// Each test file uses a part of this.
#![allow(dead_code, clippy::unwrap_used)]

use serde_json::{json, Map, Value};

/// The complete response of these chunks. There is at least one.
pub fn accumulated(chunks: &[Value]) -> Value {
    let first = &chunks[0];
    let (mut texts, mut logprobs, mut calls) = (Map::new(), Map::new(), Vec::<Value>::new());
    let mut finish_reason = Value::Null;
    for chunk in chunks {
        let choice = &chunk["choices"][0];
        for channel in ["content", "reasoning_content"] {
            if let Some(text) = choice["delta"][channel].as_str() {
                let before = texts.get(channel).and_then(Value::as_str).unwrap_or_default();
                texts.insert(channel.to_owned(), format!("{before}{text}").into());
            }
            if let Some(entries) = choice["logprobs"][channel].as_array() {
                let before = logprobs.entry(channel).or_insert(json!([]));
                before.as_array_mut().unwrap().extend(entries.iter().cloned());
            }
        }
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            if call.get("id").is_some() {
                calls.push(call.clone());
            } else {
                let custom = call.get("custom").is_some();
                let (kind, field) = if custom { ("custom", "input") } else { ("function", "arguments") };
                let arguments = &mut calls.last_mut().unwrap()[kind][field];
                let more = call[kind][field].as_str().unwrap();
                *arguments = format!("{}{more}", arguments.as_str().unwrap()).into();
            }
        }
        if !choice["finish_reason"].is_null() {
            finish_reason = choice["finish_reason"].clone();
        }
    }
    let mut message = json!({"role": "assistant", "content": texts.get("content")});
    if let Some(reasoning) = texts.get("reasoning_content") {
        message["reasoning_content"] = reasoning.clone();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let logprobs = if logprobs.is_empty() { Value::Null } else { logprobs.into() };
    let mut response = json!({
        "id": first["id"], "object": "chat.completion", "created": first["created"], "model": first["model"],
        "choices": [{"index": first["choices"][0]["index"], "message": message, "logprobs": logprobs, "finish_reason": finish_reason}],
        "system_fingerprint": first["system_fingerprint"],
    });
    for key in ["usage", "error"] {
        if let Some(value) = chunks.last().unwrap().get(key).filter(|value| !value.is_null()) {
            response[key] = value.clone();
        }
    }
    response
}
