//! Looking for what ends a run of text: markers and stop sequences, each byte looked at once.
//!
//! Every trigger has a matcher of its own; the one that completes first fires. On the same byte stop
//! sequences come first, in the order of the request.

use super::input::{Input, Kind};
use super::pattern::Pattern;
use super::tag::Spelled;
use crate::options::ParsingOptions;
use crate::save::saved;
use crate::special::SpecialToken;

/// What the parser looks for. Made once a stream.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Markers {
    pub(super) thinking_start: Pattern,
    pub(super) thinking_end: Pattern,
    /// `<｜DSML｜`
    pub(super) open: Pattern,
    /// `</｜DSML｜`
    pub(super) close: Pattern,
    /// The end-of-sentence spelling.
    pub(super) end: Pattern,
    pub(super) stops: Vec<Pattern>,
    /// The bytes that a match, a run of line breaks or a JSON value can begin with.
    starts: [bool; 256],
}

impl Markers {
    pub(super) fn new(options: &ParsingOptions) -> Self {
        let spelling = |token| options.special_tokens.get(token);
        let dsml = spelling(SpecialToken::Dsml);
        let tag = |bracket| if dsml.is_empty() { Pattern::new("", "") } else { Pattern::new(bracket, dsml) };
        let mut markers = Self {
            thinking_start: Pattern::new("", spelling(SpecialToken::ThinkingStart)),
            thinking_end: Pattern::new("", spelling(SpecialToken::ThinkingEnd)),
            open: tag("<"),
            close: tag("</"),
            end: Pattern::new("", spelling(SpecialToken::Eos)),
            stops: options.stop_sequences.iter().map(|stop| Pattern::new(stop, "")).collect(),
            starts: [false; 256],
        };
        let firsts =
            [&markers.thinking_end, &markers.open].into_iter().chain(&markers.stops).filter_map(Pattern::first);
        for byte in firsts.chain([b'\n', b'{', b'[']).collect::<Vec<_>>() {
            markers.starts[usize::from(byte)] = true;
        }
        markers
    }

    /// Whether `pattern` is spelled at a place, by pieces that may spell it.
    pub(super) fn spelled_at(&self, input: &Input, pattern: &Pattern, at: usize) -> Spelled {
        let limit = input.limit();
        let mut place = 0;
        while place < pattern.len() {
            if at + place >= limit {
                return Spelled::Wait;
            }
            let (piece, end) = input.piece_at(at + place);
            let kind = piece.kind;
            let until = end.min(limit).min(at + pattern.len());
            for p in at + place..until {
                if !pattern.accepts(place, input.byte(p), kind) {
                    return Spelled::No;
                }
                place += 1;
            }
        }
        if pattern.len() == 0 {
            Spelled::No
        } else {
            Spelled::Yes
        }
    }

    /// Whether the text of a tag's beginning stands at a place, whatever pieces spell it.
    pub(super) fn tag_text_at(&self, input: &Input, at: usize) -> Spelled {
        let rest = input.bytes(at, input.limit());
        let mut found = Spelled::No;
        for pattern in [&self.open, &self.close] {
            if pattern.is_beginning_of(rest) {
                return Spelled::Yes;
            }
            if !input.ended && pattern.begins_with(rest) {
                found = Spelled::Wait;
            }
        }
        found
    }
}

/// A trigger in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Partial {
    matched: usize,
    /// Where the line breaks directly before it begin. One that breaks a partial match does not count.
    newlines: Option<usize>,
}

impl Partial {
    fn step(&mut self, pattern: &Pattern, byte: u8, kind: Kind, at: usize) -> bool {
        if self.matched == pattern.len() {
            // A match that turned out to be text: its line breaks are not those of the next one.
            *self = Self { matched: pattern.in_progress(self.matched), newlines: None };
        }
        let before = self.matched;
        self.matched = pattern.step(before, byte, kind);
        if self.matched != before + 1 {
            if byte == b'\n' && before == 0 {
                self.newlines.get_or_insert(at);
            } else {
                self.newlines = None;
            }
        }
        self.matched == pattern.len() && self.matched > 0
    }

    /// Where the match that ends before `at` begins, and where with its line breaks.
    fn start(&self, at: usize) -> (usize, usize) {
        let start = at - self.matched;
        (start, self.newlines.unwrap_or(start))
    }

    fn is_idle(&self) -> bool {
        self.matched == 0 && self.newlines.is_none()
    }
}

/// A run of text that is being looked through.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scan {
    /// What comes next.
    pub(super) at: usize,
    think: Partial,
    open: Partial,
    stops: Vec<usize>,
    looks: Looks,
}

/// What a run of text is looked through for, besides the end of the reasoning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Looks {
    pub(super) tags: bool,
    pub(super) stops: bool,
    pub(super) brackets: bool,
}

/// What ends the run. `start` is where it begins, `trimmed` where the line breaks before it begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fired {
    Stop { index: usize, start: usize },
    Think { start: usize, trimmed: usize },
    Bracket { start: usize },
    Open { start: usize, trimmed: usize },
}

impl Scan {
    pub(super) fn new(at: usize, looks: Looks, markers: &Markers) -> Self {
        let stops = if looks.stops { markers.stops.len() } else { 0 };
        Self { at, think: Partial::default(), open: Partial::default(), stops: vec![0; stops], looks }
    }

    /// Looks on until something fires or the input is used up.
    pub(super) fn advance(&mut self, input: &Input, markers: &Markers) -> Option<Fired> {
        let limit = input.limit();
        while self.at < limit {
            let (piece, end) = input.piece_at(self.at);
            let kind = piece.kind;
            let end = end.min(limit);
            while self.at < end {
                if self.is_idle() {
                    let rest = input.bytes(self.at, end);
                    self.at += rest.iter().position(|b| markers.starts[usize::from(*b)]).unwrap_or(rest.len());
                    if self.at == end {
                        break;
                    }
                }
                let fired = self.step(markers, input.byte(self.at), kind);
                if fired.is_some() {
                    return fired;
                }
            }
        }
        // A stop sequence may reach into an end-of-sentence spelling that ends the output.
        while input.ended && self.looks.stops && self.at < input.total() {
            let fired = self.step_stops(markers, input.byte(self.at), Kind::Text);
            if fired.is_some() {
                return fired;
            }
        }
        None
    }

    fn is_idle(&self) -> bool {
        self.think.is_idle() && self.open.is_idle() && self.stops.iter().all(|matched| *matched == 0)
    }

    fn step(&mut self, markers: &Markers, byte: u8, kind: Kind) -> Option<Fired> {
        let at = self.at;
        // All matchers have to see the byte, whichever fires.
        let stop = self.step_stops(markers, byte, kind);
        let think = self.think.step(&markers.thinking_end, byte, kind, at);
        let open = self.looks.tags && self.open.step(&markers.open, byte, kind, at);
        if stop.is_some() {
            return stop;
        }
        if think {
            let (start, trimmed) = self.think.start(self.at);
            return Some(Fired::Think { start, trimmed });
        }
        if self.looks.brackets && matches!(byte, b'{' | b'[') && kind != Kind::Special {
            return Some(Fired::Bracket { start: at });
        }
        if open {
            let (start, trimmed) = self.open.start(self.at);
            return Some(Fired::Open { start, trimmed });
        }
        None
    }

    /// Takes the next byte for the stop sequences alone.
    pub(super) fn step_stops(&mut self, markers: &Markers, byte: u8, kind: Kind) -> Option<Fired> {
        self.at += 1;
        let mut fired = None;
        for (index, matched) in self.stops.iter_mut().enumerate() {
            let stop = &markers.stops[index];
            *matched = stop.step(*matched, byte, kind);
            if *matched == stop.len() && *matched > 0 && fired.is_none() {
                fired = Some(Fired::Stop { index, start: self.at - *matched });
            }
        }
        fired
    }

    /// Where the first match in progress begins: what stands before may be delivered.
    pub(super) fn hold(&self, trims_think: bool) -> usize {
        let (think, think_trimmed) = self.think.start(self.at);
        let think = if trims_think { think_trimmed } else { think };
        let open = self.open.start(self.at).1;
        let stop = self.at - self.stops.iter().max().copied().unwrap_or(0);
        think.min(open).min(stop)
    }
}

saved! { struct Partial { matched, newlines } }
saved! { struct Scan { at, think, open, stops, looks } }
saved! { struct Looks { tags, stops, brackets } }

impl Scan {
    /// Whether no marker is in progress.
    pub(super) fn sees_no_marker(&self) -> bool {
        self.think.is_idle() && self.open.is_idle()
    }

    /// Whether it looks for this, behind `pos`, and has matched what the input says.
    pub(super) fn is_sound(&self, looks: Looks, pos: usize, input: &Input, markers: &Markers) -> bool {
        let is_match = |matched: usize, pattern: &Pattern| {
            let start = self.at.checked_sub(matched);
            start.is_some_and(|start| {
                let known = start.max(input.base());
                matched <= pattern.len() && pattern.has(known - start, input.bytes(known, self.at))
            })
        };
        let is_break = |at: usize, start| at < pos || (at < start && input.byte(at) == b'\n');
        let is_partial = |partial: &Partial, pattern| {
            is_match(partial.matched, pattern)
                && partial.newlines.is_none_or(|at| is_break(at, self.at - partial.matched))
        };
        let stops = if looks.stops { markers.stops.as_slice() } else { &[] };
        self.looks == looks
            && pos <= self.at
            && self.at <= input.limit()
            && is_partial(&self.think, &markers.thinking_end)
            && is_partial(&self.open, &markers.open)
            && (looks.tags || self.open.is_idle())
            && self.stops.len() == stops.len()
            && self.stops.iter().zip(stops).all(|(matched, stop)| is_match(*matched, stop))
    }
}
