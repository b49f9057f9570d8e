//! Runs a stream processor and writes its events down as plain values. Knows no case format and no protocol.

// Each test file uses a part of this.
#![allow(dead_code, clippy::unwrap_used)]

#[path = "../naive/json.rs"]
pub mod json;

use recipe_core::stream::{Event, Events, FinishReason, IdLogprob, InferenceChunk, StreamProcessor};

/// An event that owns its text, without counts and log probabilities.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    Reasoning(String),
    Content(String),
    CallStart(usize, String),
    CallArguments(usize, String),
    CallEnd(usize),
    Finish(FinishReason, Option<String>),
    Error(String),
    /// The processor refused a chunk.
    Refused,
}

/// What events say; the start says nothing.
pub fn said(events: &Events) -> Vec<Said> {
    let one = |event: Event<'_>| {
        Some(match event {
            Event::Start { .. } => return None,
            Event::Reasoning { text, .. } => Said::Reasoning(text.to_owned()),
            Event::Content { text, .. } => Said::Content(text.to_owned()),
            Event::CallStart { index, name } => Said::CallStart(index, name.to_owned()),
            Event::CallArguments { index, text } => Said::CallArguments(index, text.to_owned()),
            Event::CallEnd { index } => Said::CallEnd(index),
            Event::Finish { reason, stop_sequence, .. } => Said::Finish(reason, stop_sequence.map(str::to_owned)),
            Event::Error { message, .. } => Said::Error(message.to_owned()),
        })
    };
    events.iter().filter_map(one).collect()
}

/// Pushes the chunks up to the end of the output and closes the input. Says what was said.
pub fn run(processor: &mut StreamProcessor, chunks: &[InferenceChunk]) -> Vec<Said> {
    let mut events = Events::default();
    for chunk in chunks {
        if processor.is_finished() {
            break;
        }
        if processor.push(chunk, &mut events).is_err() {
            let mut out = said(&events);
            out.push(Said::Refused);
            return out;
        }
    }
    processor.finish(&mut events).unwrap();
    said(&events)
}

/// Adjacent texts of one kind joined, empty ones dropped: what does not depend on cuts.
pub fn merged(list: &[Said]) -> Vec<Said> {
    let mut out: Vec<Said> = Vec::new();
    for said in list {
        match (out.last_mut(), said) {
            (_, Said::Reasoning(text) | Said::Content(text) | Said::CallArguments(_, text)) if text.is_empty() => {}
            (Some(Said::Reasoning(before)), Said::Reasoning(text)) => before.push_str(text),
            (Some(Said::Content(before)), Said::Content(text)) => before.push_str(text),
            (Some(Said::CallArguments(call, before)), Said::CallArguments(index, text)) if call == index => {
                before.push_str(text);
            }
            _ => out.push(said.clone()),
        }
    }
    out
}

/// The calls: name, arguments, and whether the call was finished.
pub fn calls(list: &[Said]) -> Vec<(String, String, bool)> {
    let mut calls: Vec<(String, String, bool)> = Vec::new();
    for said in list {
        match said {
            Said::CallStart(_, name) => calls.push((name.clone(), String::new(), false)),
            Said::CallArguments(index, text) => calls[*index].1.push_str(text),
            Said::CallEnd(index) => calls[*index].2 = true,
            _ => {}
        }
    }
    calls
}

/// What holds of every output: one end, which comes last; calls one after the other, in the order of their
/// indexes; a finished call's arguments are one JSON object with unique keys at its top; at a normal end no call is open.
pub fn check_well_formed(list: &[Said]) {
    let (last, before) = list.split_last().expect("an output has an end");
    assert!(matches!(last, Said::Finish(..) | Said::Error(_) | Said::Refused), "no end: {list:?}");
    let (mut started, mut open) = (0, None);
    for said in before {
        match said {
            Said::Reasoning(_) | Said::Content(_) => {}
            Said::CallStart(index, _) => {
                assert_eq!(*index, started, "call out of order: {list:?}");
                (started, open) = (started + 1, Some(*index));
            }
            Said::CallArguments(index, _) => assert_eq!(Some(*index), open, "no such call is open: {list:?}"),
            Said::CallEnd(index) => {
                assert_eq!(Some(*index), open.take(), "no such call is open: {list:?}");
            }
            Said::Finish(..) | Said::Error(_) | Said::Refused => panic!("an end in the middle: {list:?}"),
        }
    }
    let calls = calls(list);
    for (_, arguments, finished) in &calls {
        assert!(!finished || is_unique_object(arguments), "not one object: {arguments}");
    }
    if let Said::Finish(reason, stop) = last {
        let normal = matches!(reason, FinishReason::Stop | FinishReason::ToolCalls) && stop.is_none();
        assert!(!normal || calls.iter().all(|(_, _, finished)| *finished), "a call stays open: {list:?}");
        if normal {
            assert_eq!(*reason == FinishReason::ToolCalls, !calls.is_empty(), "wrong reason: {list:?}");
        }
    }
}

/// Whether a text is one JSON object without repeated keys at its top.
fn is_unique_object(text: &str) -> bool {
    let unescaped = |key: &&str| serde_json::from_str::<String>(key).unwrap_or_else(|_| (*key).to_owned());
    json::top_keys(text).is_some_and(|keys| {
        let different: std::collections::HashSet<String> = keys.iter().map(unescaped).collect();
        different.len() == keys.len()
    })
}

/// A small generator of numbers: tests repeat exactly.
pub struct Numbers(pub u64);

impl Numbers {
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// The chunks, cut again: `cut` says, before each character or id but the first of a chunk, whether a cut is there.
///
/// Where a stream has both texts and ids, the ids stay as they are: what is pending of a broken character decides
/// on which side of a text it stands, and that depends on the chunks.
pub fn cut_again(chunks: &[InferenceChunk], mut cut: impl FnMut() -> bool) -> Vec<InferenceChunk> {
    let has_text = chunks.iter().any(|chunk| matches!(chunk, InferenceChunk::Text { .. }));
    let mut out = Vec::new();
    for chunk in chunks {
        match chunk {
            InferenceChunk::Text { content, token_count } => {
                let mut start = 0;
                for (at, _) in content.char_indices().skip(1) {
                    if cut() {
                        out.push(InferenceChunk::Text { content: content[start..at].to_owned(), token_count: 0 });
                        start = at;
                    }
                }
                out.push(InferenceChunk::Text { content: content[start..].to_owned(), token_count: *token_count });
            }
            InferenceChunk::Tokens { token_ids, logprobs } if !has_text && fits(token_ids, logprobs.as_deref()) => {
                let mut start = 0;
                for at in 1..=token_ids.len() {
                    if at == token_ids.len() || cut() {
                        let logprobs = logprobs.as_ref().map(|entries| entries[start..at].to_vec());
                        out.push(InferenceChunk::Tokens { token_ids: token_ids[start..at].to_vec(), logprobs });
                        start = at;
                    }
                }
            }
            other => out.push(other.clone()),
        }
    }
    out
}

fn fits(ids: &[u32], logprobs: Option<&[IdLogprob]>) -> bool {
    logprobs.is_none_or(|logprobs| logprobs.len() == ids.len())
}
