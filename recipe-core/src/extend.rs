//! Token-exact extension: a prompt that begins with the very ids of an earlier prompt and its output, wherever the
//! conversation tells the same story. Knows no protocol and no wording of a template.
//!
//! The same text has many spellings in ids, and a model does not write its calls quite as a template does. So an earlier
//! turn is compared in two steps: as text, special tokens by id; where that differs, the user's side must still be the
//! same text, and the model's side must parse to what the message says. Then the sampled ids stand for the turn.

use std::collections::HashMap;
use std::sync::Arc;

use crate::conversation::{Message, ToolCall};
use crate::error::Result;
use crate::json::Value;
use crate::options::{ModelVersion, ParsingOptions, ThinkingInitialStage};
use crate::prompt::{declarations, RenderedPrompt, Segment};
use crate::request::ConversationRequest;
use crate::special::SpecialToken;
use crate::stream::{Event, Events, InferenceFinishReason, OutputTools, StreamProcessor};
use crate::tokenizer::{Token, Tokenizer};

/// An earlier prompt and what the model wrote behind it.
#[derive(Clone, Copy, Debug)]
pub struct Previous<'a> {
    /// The ids that the engine was given.
    pub prompt_ids: &'a [u32],
    /// The ids that it sampled, with or without the end-of-sentence token.
    pub output_ids: &'a [u32],
}

/// The ids of a prompt, and how many of them are known from before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extended {
    /// The whole prompt.
    pub ids: Vec<u32>,
    /// Where the new part begins: behind the earlier output and its end-of-sentence token. If there is a `reason`, the
    /// number of leading ids that the plain encoding has in common with the earlier ones.
    pub shared: usize,
    /// Why the prompt is the plain encoding and does not extend the earlier ids.
    pub reason: Option<Reason>,
}

/// Why a prompt does not extend an earlier one. The first difference counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Something before the output is not what it was.
    HistoryChanged,
    /// The declared tools are not what they were.
    ToolsChanged,
    /// The template drops the reasoning of a turn.
    ReasoningDropped,
    /// The message in the place of the output says something else, or no ids but the template's can say it.
    OutputDiffers,
}

impl Reason {
    /// The name in the Python API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HistoryChanged => "history_changed",
            Self::ToolsChanged => "tools_changed",
            Self::ReasoningDropped => "reasoning_dropped",
            Self::OutputDiffers => "output_differs",
        }
    }
}

/// The ids of the prompt that `rendered` is of `request`: those of `previous` and of what is new, if `rendered` goes on
/// from there; otherwise the plain encoding. The ids never tell another story than the plain ones.
///
/// Fails as [`Tokenizer::encode_segments`].
pub fn extend(
    request: &ConversationRequest,
    rendered: &RenderedPrompt,
    tokenizer: &Tokenizer,
    previous: Previous<'_>,
) -> Result<Extended> {
    let known: Vec<u32> = [previous.prompt_ids, previous.output_ids].concat();
    let segments: Vec<Segment<'_>> = rendered.segments().collect();
    let story = Story { request, tokenizer, segments: &segments };
    match story.goes_on_from(known.clone(), previous.prompt_ids.len()) {
        Ok((mut ids, place)) => {
            let shared = ids.len();
            ids.extend(tokenizer.encode_segments(segments[place..].iter().copied())?);
            Ok(Extended { ids, shared, reason: None })
        }
        Err(reason) => {
            let ids = tokenizer.encode_segments(segments)?;
            let shared = ids.iter().zip(&known).take_while(|(id, known)| id == known).count();
            Ok(Extended { ids, shared, reason: Some(reason) })
        }
    }
}

/// A prompt that is compared with earlier ids.
struct Story<'a> {
    request: &'a ConversationRequest,
    tokenizer: &'a Tokenizer,
    segments: &'a [Segment<'a>],
}

impl<'a> Story<'a> {
    fn id(&self, token: SpecialToken) -> Option<u32> {
        self.tokenizer.special_id(self.request.parsing_options.special_tokens.get(token))
    }

    fn is(&self, segment: &Segment<'_>, token: SpecialToken) -> bool {
        matches!(segment, Segment::Special(s) if *s == self.request.parsing_options.special_tokens.get(token))
    }

    /// The earlier ids as the new prompt needs them, and the place of the segment behind them. The output begins at
    /// `output`.
    fn goes_on_from(&self, mut known: Vec<u32>, output: usize) -> std::result::Result<(Vec<u32>, usize), Reason> {
        let messages = &self.request.conversation.messages;
        let said: Vec<&Message> = messages.iter().filter(|m| matches!(m, Message::Assistant { .. })).collect();
        let continues = matches!(messages.last(), Some(Message::Assistant { prefix: true, .. }));
        let ends: Vec<usize> = (0..self.segments.len())
            .filter(|&place| self.is(&self.segments[place], SpecialToken::Eos))
            .map(|place| place + 1)
            .collect();
        let eos = self.id(SpecialToken::Eos).ok_or(Reason::HistoryChanged)?;
        // Only conversations made by hand have a turn that does not end.
        if ends.len() + usize::from(continues) != said.len() {
            return Err(Reason::HistoryChanged);
        }
        if known.last() != Some(&eos) {
            known.push(eos);
        }
        let (mut at, mut place) = (0, 0);
        for (turn, ids) in known.split_inclusive(|id| *id == eos).enumerate() {
            let in_output = at + ids.len() > output;
            if at >= output && at > 0 {
                // The output goes on behind an end-of-sentence token.
                return Err(Reason::OutputDiffers);
            }
            let Some(&end) = ends.get(turn) else {
                let body = &ids[..ids.len() - 1];
                if continues && at + ids.len() == known.len() && self.tells(body, &self.segments[place..]) {
                    known.pop();
                    return Ok((known, self.segments.len()));
                }
                return Err(if in_output && continues { Reason::OutputDiffers } else { Reason::HistoryChanged });
            };
            self.check_turn(ids, &self.segments[place..end], said[turn]).map_err(|reason| match reason {
                Reason::OutputDiffers if !in_output => Reason::HistoryChanged,
                // The system turn is the first; a message may have changed in it as well.
                Reason::HistoryChanged if turn == 0 && self.declares_others(ids, end) => Reason::ToolsChanged,
                reason => reason,
            })?;
            (at, place) = (at + ids.len(), end);
        }
        Ok((known, place))
    }

    /// Whether the ids are exactly this text, special tokens by id.
    fn tells(&self, ids: &[u32], segments: &[Segment<'_>]) -> bool {
        self.read(ids, segments) == Some(ids.len())
    }

    /// How many ids make up this text. `None` if they say something else.
    fn read(&self, ids: &[u32], segments: &[Segment<'_>]) -> Option<usize> {
        let mut at = 0;
        for segment in segments {
            match segment {
                Segment::Special(spelling) | Segment::Image(spelling) => {
                    if self.tokenizer.special_id(spelling) != ids.get(at).copied() {
                        return None;
                    }
                    at += 1;
                }
                Segment::Plain(text) => {
                    let mut rest = text.as_bytes();
                    while !rest.is_empty() {
                        let Token::Plain(bytes) = self.tokenizer.token(*ids.get(at)?)? else {
                            return None;
                        };
                        rest = rest.strip_prefix(bytes)?;
                        at += 1;
                    }
                }
            }
        }
        Some(at)
    }

    /// Compares a turn, end-of-sentence token included, with the segments of the turn and with the message in it.
    fn check_turn(&self, ids: &[u32], segments: &[Segment<'_>], message: &Message) -> std::result::Result<(), Reason> {
        if self.tells(ids, segments) {
            return Ok(());
        }
        let opened = segments.iter().rposition(|segment| self.is(segment, SpecialToken::Assistant));
        let opened = opened.ok_or(Reason::HistoryChanged)? + 1;
        let read = self.read(ids, &segments[..opened]).ok_or(Reason::HistoryChanged)?;
        let [header, body @ .., _eos] = &ids[read..] else {
            return Err(Reason::HistoryChanged);
        };
        let [shown, written @ ..] = &segments[opened..] else {
            return Err(Reason::HistoryChanged);
        };
        let (start, end) = (SpecialToken::ThinkingStart, SpecialToken::ThinkingEnd);
        let thought = self.id(start) == Some(*header);
        match (thought, self.is(shown, start), self.is(shown, end)) {
            (true, true, _) => {}
            (true, false, true) => return Err(Reason::ReasoningDropped),
            (false, _, true) if self.id(end) == Some(*header) => {}
            _ => return Err(Reason::HistoryChanged),
        }
        if self.says(body, thought, message, written) {
            Ok(())
        } else {
            Err(Reason::OutputDiffers)
        }
    }

    /// Whether what the model wrote parses to the message, and its special tokens say nothing beyond that.
    fn says(&self, body: &[u32], thinks: bool, message: &Message, written: &[Segment<'_>]) -> bool {
        let Some(Specials { markers, grounding }) = self.specials(body, thinks) else {
            return false;
        };
        let shown = written.iter().filter_map(|segment| match segment {
            Segment::Special(spelling) => self.grounding(spelling),
            _ => None,
        });
        let Some(said) = self.parse(body, thinks).filter(|_| shown.eq(grounding)) else {
            return false;
        };
        if said.has(&markers) && self.shows_markers(body, thinks, &markers) {
            return false;
        }
        let Message::Assistant { content, reasoning_content, tool_calls, .. } = message else {
            return false;
        };
        let mut calls: Vec<&ToolCall> = tool_calls.iter().flatten().collect();
        if self.request.model_version == ModelVersion::DeepseekV4Pro {
            // The order of the template.
            calls.sort_by_key(|call| call.id.as_str());
        }
        let same_call = |(name, arguments): &(String, String), call: &&ToolCall| {
            *name == call.name && same_arguments(arguments, &call.arguments)
        };
        (!thinks || said.reasoning == reasoning_content.as_deref().unwrap_or_default())
            && said.content == *content
            && said.calls.len() == calls.len()
            && said.calls.iter().zip(&calls).all(|(said, call)| same_call(said, call))
    }

    /// The id of a grounding token with this spelling.
    fn grounding(&self, spelling: &str) -> Option<u32> {
        let tokens = &self.request.parsing_options.special_tokens;
        let is_grounding = SpecialToken::GROUNDING.iter().any(|&token| tokens.get(token) == spelling);
        is_grounding.then(|| self.tokenizer.special_id(spelling)).flatten()
    }

    /// The special tokens of what the model wrote. `None` if there is one that no story has there.
    fn specials(&self, body: &[u32], thinks: bool) -> Option<Specials<'_>> {
        let tokens = &self.request.parsing_options.special_tokens;
        let mut found = Specials::default();
        let mut thinking_ends = 0;
        for &id in body {
            let Token::Added(spelling) = self.tokenizer.token(id)? else {
                continue;
            };
            if self.grounding(spelling).is_some() {
                found.grounding.push(id);
                continue;
            }
            let markers = [SpecialToken::ThinkingStart, SpecialToken::ThinkingEnd, SpecialToken::Dsml];
            let marker = markers.into_iter().find(|&token| tokens.get(token) == spelling)?;
            thinking_ends += usize::from(marker == SpecialToken::ThinkingEnd);
            if !found.markers.contains(&spelling) {
                found.markers.push(spelling);
            }
        }
        (thinking_ends <= usize::from(thinks)).then_some(found)
    }

    /// What the ids say. `None` if they say it in another order than a template does: reasoning, content, calls.
    fn parse(&self, body: &[u32], thinks: bool) -> Option<Said> {
        let options = ParsingOptions {
            thinking_initial_stage: thinks.then_some(ThinkingInitialStage::ReasoningStart),
            special_tokens: self.request.parsing_options.special_tokens.clone(),
            ..ParsingOptions::default()
        };
        let tools = OutputTools::new(self.request.conversation.tools.clone(), self.request.custom_tools.clone());
        let mut processor = StreamProcessor::new(options, Arc::new(tools), Some(self.tokenizer.clone()));
        let mut events = Events::default();
        processor.push_tokens(body, None, &mut events).ok()?;
        processor.push_finish(InferenceFinishReason::Stop, &mut events).ok()?;
        let mut said = Said::default();
        for event in events.iter() {
            match event {
                Event::Reasoning { text, .. } if !text.is_empty() => {
                    if !said.content.is_empty() || !said.calls.is_empty() {
                        return None;
                    }
                    said.reasoning.push_str(text);
                }
                Event::Content { text, .. } if !text.is_empty() => {
                    if !said.calls.is_empty() {
                        return None;
                    }
                    said.content.push_str(text);
                }
                Event::CallStart { name, .. } => said.calls.push((name.to_owned(), String::new())),
                Event::CallArguments { text, .. } => said.calls.last_mut()?.1.push_str(text),
                _ => {}
            }
        }
        Some(said)
    }

    /// Whether the parser took a marker for text. It is special in the ids, but would be plain in the prompt. Text that
    /// only spells a marker is put aside for that.
    fn shows_markers(&self, body: &[u32], thinks: bool, markers: &[&str]) -> bool {
        let mut unspelled = Vec::with_capacity(body.len());
        for run in body.chunk_by(|a, b| self.is_plain(*a) && self.is_plain(*b)) {
            if !self.is_plain(run[0]) {
                unspelled.extend_from_slice(run);
                continue;
            }
            let text = markers.iter().fold(self.text(run), |text, marker| text.replace(marker, "x"));
            self.tokenizer.encode_plain_into(&text, &mut unspelled);
        }
        self.parse(&unspelled, thinks).is_none_or(|said| said.has(markers))
    }

    fn is_plain(&self, id: u32) -> bool {
        matches!(self.tokenizer.token(id), Some(Token::Plain(_)))
    }

    /// The text of ids, special tokens spelled out.
    fn text(&self, ids: &[u32]) -> String {
        let mut bytes = Vec::new();
        for &id in ids {
            match self.tokenizer.token(id) {
                Some(Token::Plain(text)) => bytes.extend_from_slice(text),
                Some(Token::Added(spelling)) => bytes.extend_from_slice(spelling.as_bytes()),
                None => {}
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether the ids of the first turn declare other tools than the prompt does up to the segment `end`.
    fn declares_others(&self, ids: &[u32], end: usize) -> bool {
        let now: String = self.segments[..end]
            .iter()
            .map(|segment| match segment {
                Segment::Special(text) | Segment::Plain(text) | Segment::Image(text) => *text,
            })
            .collect();
        declarations(&self.text(ids)) != declarations(&now)
    }
}

/// The special tokens in what the model wrote.
#[derive(Default)]
struct Specials<'a> {
    /// The spellings of those that the parser looks for, each once.
    markers: Vec<&'a str>,
    /// The ids of grounding tokens in order.
    grounding: Vec<u32>,
}

/// What the model wrote, parsed. Calls are names with arguments.
#[derive(Default)]
struct Said {
    reasoning: String,
    content: String,
    calls: Vec<(String, String)>,
}

impl Said {
    /// Whether one of the spellings is in a text.
    fn has(&self, spellings: &[&str]) -> bool {
        let texts = [&self.reasoning, &self.content].into_iter();
        let calls = self.calls.iter().flat_map(|(name, arguments)| [name, arguments]);
        texts.chain(calls).any(|text| spellings.iter().any(|spelling| text.contains(spelling)))
    }
}

/// Whether two texts are the same JSON object, whatever the order of its members.
fn same_arguments(one: &str, other: &str) -> bool {
    match (Value::parse(one.as_bytes()), Value::parse(other.as_bytes())) {
        (Ok(one @ Value::Object(_)), Ok(other @ Value::Object(_))) => same(&one, &other),
        _ => false,
    }
}

fn same(one: &Value<'_>, other: &Value<'_>) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let others: HashMap<&str, &Value<'_>> = other.iter().map(|(key, value)| (key.as_ref(), value)).collect();
            let found = |key: &str, value| others.get(key).is_some_and(|other| same(value, other));
            one.len() == other.len() && one.iter().all(|(key, value)| found(key, value))
        }
        (one, other) => one == other,
    }
}
