//! One tag of call markup, from its `<｜DSML｜` or `</｜DSML｜` on: name, attributes and end, over any cut.
//!
//! Attributes may stand in any order. An attribute value ends at the first matching quote that white
//! space, `>` or `/` follows. A quote whose value does not end before the next tag, or before the end of
//! the output with a line break in between, opens no value.

use std::ops::Range;

use super::input::Input;
use super::scan::Markers;
use crate::save::saved;

/// White space in markup and values, as in JSON.
pub(super) const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagName {
    /// `calls`, `tool_calls` or `function_calls`.
    Block,
    Invoke,
    Parameter,
}

const NAMES: [(&str, TagName); 5] = [
    ("calls", TagName::Block),
    ("tool_calls", TagName::Block),
    ("function_calls", TagName::Block),
    ("invoke", TagName::Invoke),
    ("parameter", TagName::Parameter),
];

/// A tag. Ranges are positions in the input.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tag {
    /// `None`: a closer with another name, or an opener that the end of the output cut off in its name.
    pub(super) name: Option<TagName>,
    pub(super) closer: bool,
    /// The value of the attribute `name`.
    pub(super) name_value: Option<Range<usize>>,
    /// The value of the attribute `string`.
    pub(super) string_value: Option<Range<usize>>,
    /// Behind the tag.
    pub(super) end: usize,
    /// It ended with its `>`.
    pub(super) complete: bool,
    /// The end of the output cut it off.
    pub(super) cut: bool,
}

impl Tag {
    /// Whether this opener starts a parameter of a call.
    pub(super) fn opens_parameter(&self) -> bool {
        !self.closer && self.name == Some(TagName::Parameter) && self.name_value.is_some()
    }
}

/// What is known of a possible tag.
pub(super) enum Reading {
    /// More output decides.
    Wait,
    /// It is text.
    Text,
    Tag(Tag),
}

/// Reads one tag, resumably: no byte is looked at more than a few times, however the output is cut.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TagReader {
    /// Where the `<` stands.
    pub(super) start: usize,
    closer: bool,
    name: Option<TagName>,
    at: At,
    name_value: Option<Range<usize>>,
    string_value: Option<Range<usize>>,
    /// For `"` and `'`: no value that begins before this position ends with that quote.
    unclosed: [usize; 2],
}

#[derive(Clone, Debug, PartialEq)]
enum At {
    /// In the name; behind the `｜DSML｜`.
    Name(usize),
    /// Between attributes.
    Gap(usize),
    /// In an attribute's name.
    Word { start: usize, at: usize },
    /// Behind an attribute's name, before its `=`.
    Equals { word: Range<usize>, at: usize },
    /// Behind the `=`, before the quote.
    Quote { word: Range<usize>, at: usize },
    /// In an attribute's value.
    Value { word: Range<usize>, quote: u8, start: usize, at: usize },
}

impl TagReader {
    /// A reader for the tag whose `<` stands at `start`; `at` is the position behind its `｜DSML｜`.
    pub(super) fn new(start: usize, at: usize, closer: bool) -> Self {
        Self { start, closer, name: None, at: At::Name(at), name_value: None, string_value: None, unclosed: [0; 2] }
    }

    /// Reads on as far as the input goes.
    pub(super) fn read(&mut self, input: &Input, markers: &Markers) -> Reading {
        let limit = input.limit();
        if let At::Name(from) = self.at {
            match read_name(input, from, limit) {
                NameRead::Wait => return Reading::Wait,
                NameRead::Cut if self.closer => self.at = At::Gap(from),
                NameRead::Cut => return Reading::Tag(self.tag(limit, false, true)),
                NameRead::Other if self.closer => self.at = At::Gap(from),
                NameRead::Other => return Reading::Text,
                NameRead::Name(name, behind) => {
                    self.name = Some(name);
                    self.at = At::Gap(behind);
                }
            }
        }
        loop {
            let at = self.position();
            if at >= limit {
                if !input.ended {
                    return Reading::Wait;
                }
                if let At::Value { word, quote, start, .. } = self.at.clone() {
                    // Only values that begin before the last line break run into it.
                    if let Some(line_break) = memchr::memrchr(b'\n', input.bytes(start, limit)) {
                        self.no_value(quote, start, start + line_break);
                        continue;
                    }
                    self.attribute(input, word, start..limit);
                }
                return Reading::Tag(self.tag(limit, false, true));
            }
            let byte = input.byte(at);
            match &mut self.at {
                At::Name(_) => unreachable!("the name is read above"),
                At::Gap(at) => match byte {
                    b'>' => return Reading::Tag(self.tag(self.position() + 1, true, false)),
                    b'\n' | b'<' => return Reading::Tag(self.tag(self.position(), false, false)),
                    _ if is_word(byte) => self.at = At::Word { start: *at, at: *at + 1 },
                    _ => *at += 1,
                },
                At::Word { start, at } => match byte {
                    _ if is_word(byte) => *at += 1,
                    b' ' | b'\t' | b'=' => self.at = At::Equals { word: *start..*at, at: *at },
                    _ => self.at = At::Gap(*at),
                },
                At::Equals { word, at } => match byte {
                    b' ' | b'\t' => *at += 1,
                    b'=' => self.at = At::Quote { word: word.clone(), at: *at + 1 },
                    _ => self.at = At::Gap(*at),
                },
                At::Quote { word, at } => match byte {
                    b' ' | b'\t' => *at += 1,
                    b'"' | b'\'' if *at + 1 > self.unclosed[usize::from(byte == b'\'')] => {
                        self.at = At::Value { word: word.clone(), quote: byte, start: *at + 1, at: *at + 1 };
                    }
                    b'"' | b'\'' => self.at = At::Gap(*at + 1),
                    _ => self.at = At::Gap(*at),
                },
                At::Value { word, quote, start, at } => {
                    if byte == b'<' {
                        match markers.tag_text_at(input, *at) {
                            Spelled::Wait => return Reading::Wait,
                            Spelled::Yes => {
                                let (quote, start, at) = (*quote, *start, *at);
                                self.no_value(quote, start, at);
                                continue;
                            }
                            Spelled::No => {}
                        }
                    }
                    if byte == *quote {
                        if *at + 1 >= limit && !input.ended {
                            return Reading::Wait;
                        }
                        if *at + 1 < limit
                            && (is_space(input.byte(*at + 1)) || matches!(input.byte(*at + 1), b'>' | b'/'))
                        {
                            let (word, value) = (word.clone(), *start..*at);
                            self.at = At::Gap(*at + 1);
                            self.attribute(input, word, value);
                            continue;
                        }
                    }
                    *at += 1;
                }
            }
        }
    }

    fn position(&self) -> usize {
        match self.at {
            At::Name(at) | At::Gap(at) => at,
            At::Word { at, .. } | At::Equals { at, .. } | At::Quote { at, .. } | At::Value { at, .. } => at,
        }
    }

    /// The quote before `start` opens no value: nothing closes it before `until`.
    fn no_value(&mut self, quote: u8, start: usize, until: usize) {
        self.unclosed[usize::from(quote == b'\'')] = until;
        self.at = At::Gap(start);
    }

    fn attribute(&mut self, input: &Input, word: Range<usize>, value: Range<usize>) {
        let slot = match input.slice(word.start, word.end) {
            "name" => &mut self.name_value,
            "string" => &mut self.string_value,
            _ => return,
        };
        slot.get_or_insert(value);
    }

    fn tag(&self, end: usize, complete: bool, cut: bool) -> Tag {
        Tag {
            name: self.name,
            closer: self.closer,
            name_value: self.name_value.clone(),
            string_value: self.string_value.clone(),
            end,
            complete,
            cut,
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Whether a marker is spelled at a place.
pub(super) enum Spelled {
    Yes,
    No,
    /// It may be, with more output.
    Wait,
}

enum NameRead {
    Wait,
    Name(TagName, usize),
    /// The end of the output cut it off where it could still become one.
    Cut,
    Other,
}

/// At most one space, then one of the names, then no letter.
fn read_name(input: &Input, from: usize, limit: usize) -> NameRead {
    let space = usize::from(from < limit && input.byte(from) == b' ');
    let rest = input.bytes(from + space, limit);
    for (name, kind) in NAMES {
        if rest.starts_with(name.as_bytes()) {
            return match rest.get(name.len()) {
                None if !input.ended => NameRead::Wait,
                Some(byte) if byte.is_ascii_alphabetic() => NameRead::Other,
                _ => NameRead::Name(kind, from + space + name.len()),
            };
        }
        if name.as_bytes().starts_with(rest) {
            return if input.ended { NameRead::Cut } else { NameRead::Wait };
        }
    }
    NameRead::Other
}

saved! { enum TagName { 0 = Block, 1 = Invoke, 2 = Parameter } }
saved! { struct TagReader { start, closer, name, at, name_value, string_value, unclosed } }
saved! {
    enum At {
        0 = Name(at), 1 = Gap(at), 2 = Word { start, at }, 3 = Equals { word, at }, 4 = Quote { word, at },
        5 = Value { word, quote, start, at },
    }
}

impl TagReader {
    /// Whether all that it points to is text of the input.
    pub(super) fn is_sound(&self, input: &Input) -> bool {
        let is_text = |start, end| self.start < start && start <= end && input.is_place(start) && input.is_place(end);
        let is_range = |range: &Range<usize>| is_text(range.start, range.end);
        let at = match &self.at {
            At::Name(at) | At::Gap(at) => is_text(*at, *at),
            At::Word { start, at } => is_text(*start, *at),
            At::Equals { word, at } | At::Quote { word, at } => is_range(word) && is_text(word.end, *at),
            At::Value { word, start, at, .. } => is_range(word) && is_text(*start, *at),
        };
        at && input.is_place(self.start) && self.name_value.iter().chain(&self.string_value).all(is_range)
    }
}
