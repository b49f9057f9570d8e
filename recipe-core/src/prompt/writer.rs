//! The prompt while it is written, and when it is done. Knows no order and no wording of a template.
//!
//! Special ranges are made here only. What a message says becomes special in two places: image
//! placeholders, and grounding tokens in what the model itself said.

use std::mem::size_of;
use std::ops::Range;

use crate::conversation::{are_ranges_of, Conversation, ImageSource, Message};
use crate::save::saved;
use crate::special::{SpecialToken, SpecialTokens};

/// A prompt, and which parts of it are special tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderedPrompt {
    prompt: String,
    special_ranges: Vec<Range<usize>>,
    image_ranges: Vec<Range<usize>>,
    image_sources: Vec<ImageSource>,
    /// Where the text of each message or of the template begins: ascending, the first at 0.
    origins: Vec<(usize, Option<usize>)>,
}

/// A run of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// One special token, spelled out.
    Special(&'a str),
    /// Text that never becomes a special token, whatever it spells.
    Plain(&'a str),
    /// The placeholder of one image: a special token, too.
    Image(&'a str),
}

impl RenderedPrompt {
    /// The whole text.
    pub fn prompt(&self) -> &str {
        &self.prompt
    }

    /// The byte ranges of the special tokens, image placeholders included: ascending, disjoint, not empty.
    pub fn special_ranges(&self) -> &[Range<usize>] {
        &self.special_ranges
    }

    /// Those of the special ranges that are image placeholders.
    pub fn image_ranges(&self) -> &[Range<usize>] {
        &self.image_ranges
    }

    /// The images in prompt order. More than there are placeholders where a message's text has too few.
    pub fn image_sources(&self) -> &[ImageSource] {
        &self.image_sources
    }

    /// The prompt cut where another message made the text, with the message's place in the conversation; `None` is the
    /// template: declarations, effort, and the opening of the answer. Joined, the ranges are the prompt; none is empty.
    /// A plain segment may hold several of them.
    pub fn message_ranges(&self) -> impl Iterator<Item = (Range<usize>, Option<usize>)> + '_ {
        let ends = self.origins.iter().skip(1).map(|&(start, _)| start).chain([self.prompt.len()]);
        let ranges = self.origins.iter().zip(ends).map(|(&(start, message), end)| (start..end, message));
        ranges.filter(|(range, _)| !range.is_empty())
    }

    /// The prompt cut at the special ranges. Joined, the segments are the prompt; none is empty.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        let mut at = 0;
        let mut ranges = self.special_ranges.iter().peekable();
        let mut images = self.image_ranges.iter().peekable();
        std::iter::from_fn(move || {
            let start = ranges.peek().map_or(self.prompt.len(), |range| range.start);
            if at < start {
                let plain = &self.prompt[at..start];
                at = start;
                return Some(Segment::Plain(plain));
            }
            let range = ranges.next()?;
            at = range.end;
            let token = &self.prompt[range.clone()];
            match images.next_if_eq(&range) {
                Some(_) => Some(Segment::Image(token)),
                None => Some(Segment::Special(token)),
            }
        })
    }
}

/// Appends to a prompt. The methods say what becomes special.
pub(super) struct Writer<'a> {
    tokens: &'a SpecialTokens,
    messages: &'a [Message],
    /// Made when the model's text comes.
    grounding: Option<Grounding<'a>>,
    rendered: RenderedPrompt,
    is_in_reasoning: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(tokens: &'a SpecialTokens, conversation: &'a Conversation) -> Self {
        let prompt = String::with_capacity(conversation.size() + 64);
        let mut origins = Vec::with_capacity(conversation.messages.len() + 4);
        origins.push((0, None));
        let rendered = RenderedPrompt { prompt, origins, ..RenderedPrompt::default() };
        Self { tokens, messages: &conversation.messages, grounding: None, rendered, is_in_reasoning: false }
    }

    pub(super) fn finish(self) -> RenderedPrompt {
        self.rendered
    }

    /// Whether the prompt so far ends inside the reasoning of the last turn.
    pub(super) fn is_in_reasoning(&self) -> bool {
        self.is_in_reasoning
    }

    /// Says what makes the text that follows: one of the conversation's messages, or the template.
    pub(super) fn begin(&mut self, message: Option<&Message>) {
        let start = self.rendered.prompt.len();
        let message = message.map(|message| place(self.messages, message));
        let origins = &mut self.rendered.origins;
        if origins.last().is_some_and(|&(empty, _)| empty == start) {
            origins.pop();
        }
        if origins.last().is_none_or(|&(_, last)| last != message) {
            origins.push((start, message));
        }
    }

    /// Appends a special token of the template.
    pub(super) fn special(&mut self, token: SpecialToken) {
        match token {
            SpecialToken::ThinkingStart => self.is_in_reasoning = true,
            SpecialToken::ThinkingEnd | SpecialToken::Assistant => self.is_in_reasoning = false,
            _ => {}
        }
        self.special_spelling(self.tokens.get(token));
    }

    /// Appends text of which nothing is special.
    pub(super) fn plain(&mut self, text: &str) {
        self.rendered.prompt.push_str(text);
    }

    /// Where text is appended of which nothing is special.
    pub(super) fn plain_text(&mut self) -> &mut String {
        &mut self.rendered.prompt
    }

    /// Appends the text of a message that the model did not write: its image placeholders are special.
    pub(super) fn message(&mut self, message: &Message) {
        let text = message.text();
        let mut done = 0;
        if let Some(content) = message.content() {
            for placeholder in content.placeholders() {
                self.plain(&text[done..placeholder.start]);
                let start = self.rendered.prompt.len();
                self.special_spelling(&text[placeholder.clone()]);
                if !placeholder.is_empty() {
                    self.rendered.image_ranges.push(start..self.rendered.prompt.len());
                }
                done = placeholder.end;
            }
            self.rendered.image_sources.extend_from_slice(content.image_sources());
        }
        self.plain(&text[done..]);
    }

    /// Appends what the model said or thought: the grounding tokens in it are special.
    pub(super) fn model_text(&mut self, text: &str) {
        let grounding = self.grounding.take().unwrap_or_else(|| Grounding::new(self.tokens));
        let mut done = 0;
        while let Some(found) = grounding.find(text, done) {
            self.plain(&text[done..found.start]);
            self.special_spelling(&text[found.clone()]);
            done = found.end;
        }
        self.plain(&text[done..]);
        self.grounding = Some(grounding);
    }

    fn special_spelling(&mut self, spelling: &str) {
        if spelling.is_empty() {
            return;
        }
        let start = self.rendered.prompt.len();
        self.rendered.prompt.push_str(spelling);
        self.rendered.special_ranges.push(start..self.rendered.prompt.len());
    }
}

/// Where `message`, which is one of `messages`, stands. Templates reorder references: their addresses say it.
fn place(messages: &[Message], message: &Message) -> usize {
    (std::ptr::from_ref(message).addr() - messages.as_ptr().addr()) / size_of::<Message>()
}

/// Looks for the spellings of the grounding tokens.
struct Grounding<'a> {
    /// Longest first, none empty.
    spellings: Vec<&'a str>,
    /// What they end with: one byte, unless someone spells them otherwise.
    last_bytes: Vec<u8>,
}

impl<'a> Grounding<'a> {
    fn new(tokens: &'a SpecialTokens) -> Self {
        let mut spellings: Vec<&str> = SpecialToken::GROUNDING.iter().map(|&token| tokens.get(token)).collect();
        spellings.retain(|spelling| !spelling.is_empty());
        spellings.sort_by_key(|spelling| std::cmp::Reverse(spelling.len()));
        let mut last_bytes: Vec<u8> = spellings.iter().filter_map(|spelling| spelling.bytes().last()).collect();
        last_bytes.sort_unstable();
        last_bytes.dedup();
        Self { spellings, last_bytes }
    }

    /// The first spelling to end behind `from`. Where several end there, the longest (as the reference).
    fn find(&self, text: &str, from: usize) -> Option<Range<usize>> {
        let bytes = text.as_bytes();
        let mut end = from;
        loop {
            end += 1 + match *self.last_bytes {
                [last] => memchr::memchr(last, &bytes[end..])?,
                _ => bytes[end..].iter().position(|byte| self.last_bytes.contains(byte))?,
            };
            let ending = self.spellings.iter().find(|spelling| bytes[from..end].ends_with(spelling.as_bytes()));
            if let Some(spelling) = ending {
                return Some(end - spelling.len()..end);
            }
        }
    }
}

saved! {
    struct RenderedPrompt { prompt, special_ranges, image_ranges, image_sources, origins }
    check |rendered| {
        let told: Vec<Range<usize>> = rendered.message_ranges().map(|(range, _)| range).collect();
        rendered.origins.is_sorted_by_key(|&(start, _)| start)
            && [&rendered.special_ranges, &rendered.image_ranges, &told]
                .into_iter()
                .all(|ranges| are_ranges_of(ranges, &rendered.prompt))
    }
}
