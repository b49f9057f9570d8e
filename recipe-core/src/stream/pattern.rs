//! Matching a marker or a stop sequence byte by byte, over any cut of the output.

use super::input::Kind;

/// A text to look for. Its first `head` bytes may not come from a special token, the rest must come from
/// special tokens; text chunks, which do not tell, match both. An empty pattern never matches.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pattern {
    bytes: Box<[u8]>,
    head: usize,
    /// After `n + 1` matched bytes: how many are matched by the longest proper suffix.
    fallback: Box<[usize]>,
}

impl Pattern {
    /// `plain` from ordinary tokens, then `special` from special ones.
    pub(super) fn new(plain: &str, special: &str) -> Self {
        let bytes: Box<[u8]> = [plain.as_bytes(), special.as_bytes()].concat().into();
        let head = plain.len();
        let alike = |i: usize, j: usize| bytes[i] == bytes[j] && (i < head) == (j < head);
        let mut fallback = vec![0; bytes.len()];
        let mut matched = 0;
        for i in 1..bytes.len() {
            while matched > 0 && !alike(i, matched) {
                matched = fallback[matched - 1];
            }
            matched += usize::from(alike(i, matched));
            fallback[i] = matched;
        }
        Self { head, fallback: fallback.into(), bytes }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn first(&self) -> Option<u8> {
        self.bytes.first().copied()
    }

    /// Whether a text begins with the pattern.
    pub(super) fn is_beginning_of(&self, text: &[u8]) -> bool {
        !self.bytes.is_empty() && text.starts_with(&self.bytes)
    }

    /// Whether the pattern begins with a text.
    pub(super) fn begins_with(&self, text: &[u8]) -> bool {
        self.bytes.starts_with(text)
    }

    /// Whether these bytes stand at a place of the pattern.
    pub(super) fn has(&self, place: usize, bytes: &[u8]) -> bool {
        self.bytes.get(place..).is_some_and(|rest| rest.starts_with(bytes))
    }

    /// Whether `byte`, from a piece of this kind, can stand at a place of the pattern.
    pub(super) fn accepts(&self, place: usize, byte: u8, kind: Kind) -> bool {
        self.bytes[place] == byte && (kind == Kind::Text || (kind == Kind::Plain) == (place < self.head))
    }

    /// How much of a match is in progress: of a complete one, what the next may share with it.
    pub(super) fn in_progress(&self, matched: usize) -> usize {
        if matched == self.bytes.len() && matched > 0 {
            self.fallback[matched - 1]
        } else {
            matched
        }
    }

    /// How many bytes are matched behind `byte`, if `matched` were before it. `len()` is a match.
    pub(super) fn step(&self, matched: usize, byte: u8, kind: Kind) -> usize {
        if self.bytes.is_empty() {
            return 0;
        }
        let mut matched = self.in_progress(matched);
        loop {
            if self.accepts(matched, byte, kind) {
                return matched + 1;
            }
            if matched == 0 {
                return 0;
            }
            matched = self.fallback[matched - 1];
        }
    }
}
