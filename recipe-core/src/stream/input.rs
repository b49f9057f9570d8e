//! The output that has come and is not yet dealt with: its text, and the pieces that it came in.
//!
//! Positions are bytes from the start of the output, so they stay valid when the front is released.

use std::collections::VecDeque;
use std::sync::Arc;

use super::event::TokenLogprob;
use super::pattern::Pattern;
use crate::error::Result;
use crate::save::{damaged, saved, Reader, Save, Writer};

/// Where a piece comes from. It decides which markers the piece can be a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A text chunk: it may spell ordinary and special tokens alike.
    Text,
    /// Ordinary tokens.
    Plain,
    /// One added token.
    Special,
}

/// What stays together in a delta: a text chunk, one added token, or the ordinary tokens between two releases.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) start: usize,
    pub(super) kind: Kind,
    pub(super) logprobs: Option<Arc<[TokenLogprob]>>,
}

/// A part of the text from one piece.
pub(super) struct Part<'a> {
    pub(super) piece: &'a Piece,
    pub(super) text: &'a str,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Input {
    /// The text from position `base` on.
    text: String,
    base: usize,
    /// The first position that is not released.
    front: usize,
    pieces: VecDeque<Piece>,
    /// How much of the end-of-sentence spelling the text chunks at the end match: it may have to vanish.
    end_mark: usize,
    /// No more will come.
    pub(super) ended: bool,
}

impl Input {
    pub(super) fn new() -> Self {
        Self { text: String::new(), base: 0, front: 0, pieces: VecDeque::new(), end_mark: 0, ended: false }
    }

    /// Appends a piece. `end_mark` is the spelling that vanishes as the last thing of the output.
    pub(super) fn push(&mut self, text: &str, kind: Kind, logprobs: Option<Arc<[TokenLogprob]>>, end_mark: &Pattern) {
        self.pieces.push_back(Piece { start: self.total(), kind, logprobs });
        self.text.push_str(text);
        if kind != Kind::Text {
            self.end_mark = 0;
        } else {
            self.end_mark = text.bytes().fold(self.end_mark, |matched, b| end_mark.step(matched, b, kind));
        }
    }

    /// Closes the input: the end-of-sentence spelling at the end stays invisible, a beginning of it is text.
    pub(super) fn end(&mut self, end_mark: &Pattern) {
        self.ended = true;
        if self.end_mark < end_mark.len() {
            self.end_mark = 0;
        }
    }

    /// Behind the last byte.
    pub(super) fn total(&self) -> usize {
        self.base + self.text.len()
    }

    /// Behind the last byte that may be dealt with now. Only stop sequences may look further, at the end.
    pub(super) fn limit(&self) -> usize {
        self.total() - self.end_mark
    }

    pub(super) fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes()[at - self.base]
    }

    /// Behind the character that begins at `at`.
    pub(super) fn char_end(&self, at: usize) -> usize {
        at + self.text[at - self.base..].chars().next().map_or(0, char::len_utf8)
    }

    pub(super) fn bytes(&self, from: usize, to: usize) -> &[u8] {
        &self.text.as_bytes()[from - self.base..to - self.base]
    }

    pub(super) fn slice(&self, from: usize, to: usize) -> &str {
        &self.text[from - self.base..to - self.base]
    }

    /// The index of the piece that holds the byte at `at`.
    fn piece_index(&self, at: usize) -> usize {
        self.pieces.partition_point(|piece| piece.start <= at).saturating_sub(1)
    }

    /// The piece that holds the byte at `at`, and where it ends.
    pub(super) fn piece_at(&self, at: usize) -> (&Piece, usize) {
        let index = self.piece_index(at);
        (&self.pieces[index], self.piece_end(index))
    }

    /// Where the piece begins that holds the byte at `at`, which may not have come yet: then after every piece.
    pub(super) fn piece_from(&self, at: usize) -> usize {
        if at < self.total() {
            self.piece_at(at).0.start
        } else {
            usize::MAX
        }
    }

    fn piece_end(&self, index: usize) -> usize {
        self.pieces.get(index + 1).map_or(self.total(), |next| next.start)
    }

    /// The end of the last whole piece that ends at or before `at`; `from` if there is none behind it.
    pub(super) fn whole_pieces(&self, from: usize, at: usize) -> usize {
        if at >= self.total() {
            return at;
        }
        self.piece_at(at).0.start.max(from)
    }

    /// The parts of the text in a range, a part a piece, the empty pieces before its last byte included.
    pub(super) fn parts(&self, from: usize, to: usize) -> impl Iterator<Item = Part<'_>> {
        let first = self.pieces.partition_point(|piece| piece.start < from);
        let first = first - usize::from(first > 0 && self.piece_end(first - 1) > from);
        (first..self.pieces.len()).map_while(move |index| {
            let piece = &self.pieces[index];
            (piece.start < to).then(|| Part {
                piece,
                text: self.slice(piece.start.max(from), self.piece_end(index).min(to).max(piece.start.max(from))),
            })
        })
    }

    /// Removes the empty pieces from `from` up to and at `to`; says how many there were.
    pub(super) fn take_empty(&mut self, from: usize, to: usize) -> usize {
        let first = self.pieces.partition_point(|piece| piece.start < from);
        let behind = self.pieces.partition_point(|piece| piece.start <= to);
        let mut taken = 0;
        for index in (first..behind).rev() {
            if self.pieces[index].start == self.piece_end(index) {
                self.pieces.remove(index);
                taken += 1;
            }
        }
        taken
    }

    /// Whether empty pieces stand at the end of the text, and how many.
    pub(super) fn empty_at_end(&self) -> usize {
        self.pieces.iter().rev().take_while(|piece| piece.start == self.total()).count()
    }

    /// Puts empty pieces before the byte at `at`.
    pub(super) fn put_empty(&mut self, at: usize, count: usize) {
        for _ in 0..count {
            let index = self.piece_index(at);
            // A piece that is cut by `at` keeps its identity: its rest is a piece of the same kind.
            let whole = self.pieces[index].start == at;
            if !whole {
                let rest = Piece { start: at, ..self.pieces[index].clone() };
                self.pieces.insert(index + 1, rest);
            }
            let index = index + usize::from(!whole);
            self.pieces.insert(index, Piece { start: at, kind: Kind::Text, logprobs: None });
        }
    }

    /// Forgets what stands before `to`.
    pub(super) fn release(&mut self, to: usize) {
        self.front = self.front.max(to);
        while self.pieces.len() > 1 && self.pieces[1].start <= self.front && self.pieces[0].start < self.front {
            self.pieces.pop_front();
        }
        // Moving the rest to the front costs as much as it is long: wait until less stays than goes.
        let released = self.front - self.base;
        if released * 2 > self.text.len() {
            self.text.drain(..released);
            self.base = self.front;
        }
    }

    /// Where the text begins that is still there.
    pub(super) fn base(&self) -> usize {
        self.base
    }

    /// Whether a character begins or ends here.
    pub(super) fn is_boundary(&self, at: usize) -> bool {
        at >= self.base && self.text.is_char_boundary(at - self.base)
    }

    /// The same, and what is before may be dealt with.
    pub(super) fn is_place(&self, at: usize) -> bool {
        at <= self.limit() && self.is_boundary(at)
    }

    /// Appends what is not released.
    pub(super) fn save(&self, out: &mut Writer) {
        self.front.save(out);
        out.text(&self.text[self.front - self.base..]);
        self.pieces.len().save(out);
        self.pieces.iter().for_each(|piece| piece.save(out));
    }

    /// Reads what [`Input::save`] wrote of an input that had not ended.
    pub(super) fn load(from: &mut Reader<'_>, end_mark: &Pattern) -> Result<Self> {
        let base = from.size()?;
        let text = String::load(from)?;
        let pieces = VecDeque::from(Vec::<Piece>::load(from)?);
        let mut input = Self { text, base, front: base, pieces, end_mark: 0, ended: false };
        let starts = || input.pieces.iter().map(|piece| piece.start);
        let is_sound = starts().zip(starts().skip(1)).all(|(piece, next)| piece <= next)
            && starts().next().map_or(input.text.is_empty(), |first| input.text.is_empty() || first <= base)
            && starts().all(|start| start <= base || input.is_place(start));
        if !is_sound {
            return Err(damaged());
        }
        // What may have to vanish is always there.
        for index in 0..input.pieces.len() {
            let (start, end, kind) =
                (input.pieces[index].start.max(base), input.piece_end(index), input.pieces[index].kind);
            input.end_mark = match kind {
                Kind::Text => input
                    .bytes(start, end.max(start))
                    .iter()
                    .fold(input.end_mark, |matched, b| end_mark.step(matched, *b, kind)),
                _ => 0,
            };
        }
        Ok(input)
    }
}

saved! { enum Kind { 0 = Text, 1 = Plain, 2 = Special } }
saved! { struct Piece { start, kind, logprobs } }
