//! Text on its way out, with the piece that each part came from: parts of one piece are one delta.

use std::collections::VecDeque;

use crate::error::Result;
use crate::save::{Reader, Save, Writer};

/// A queue of text. A piece is named by its start in the output.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Deltas {
    text: String,
    /// Piece, and the length of its part.
    parts: VecDeque<(usize, usize)>,
}

impl Deltas {
    pub(super) fn push(&mut self, piece: usize, text: &str) {
        if text.is_empty() {
            return;
        }
        self.text.push_str(text);
        match self.parts.back_mut() {
            Some((last, length)) if *last == piece => *length += text.len(),
            _ => self.parts.push_back((piece, text.len())),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The piece of the first part.
    pub(super) fn first_piece(&self) -> Option<usize> {
        self.parts.front().map(|(piece, _)| *piece)
    }

    /// The parts in order.
    pub(super) fn parts(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut at = 0;
        self.parts.iter().map(move |(piece, length)| {
            at += length;
            (*piece, &self.text[at - length..at])
        })
    }

    /// Moves all parts behind those of `other`.
    pub(super) fn move_to(&mut self, other: &mut Deltas) {
        for (piece, text) in self.parts() {
            other.push(piece, text);
        }
        self.clear();
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.parts.clear();
    }

    /// Removes the parts of pieces before `piece`, and hands each to `out`.
    pub(super) fn drain_before(&mut self, piece: usize, mut out: impl FnMut(&str)) {
        let mut at = 0;
        while let Some((first, length)) = self.parts.front().copied() {
            if first >= piece {
                break;
            }
            out(&self.text[at..at + length]);
            at += length;
            self.parts.pop_front();
        }
        self.text.drain(..at);
    }

    /// Drops the first `bytes` and the bytes behind `end`, cuts kept.
    pub(super) fn trimmed(&self, start: usize, end: usize) -> Deltas {
        let mut out = Deltas::default();
        let mut at = 0;
        for (piece, text) in self.parts() {
            let (from, to) = (start.max(at), end.min(at + text.len()));
            if from < to {
                out.push(piece, &text[from - at..to - at]);
            }
            at += text.len();
        }
        out
    }
}

impl Save for Deltas {
    fn save(&self, out: &mut Writer) {
        self.parts.len().save(out);
        for (piece, text) in self.parts() {
            piece.save(out);
            out.text(text);
        }
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        let mut deltas = Self::default();
        for _ in 0..from.size()? {
            deltas.push(from.size()?, from.text()?);
        }
        Ok(deltas)
    }
}
