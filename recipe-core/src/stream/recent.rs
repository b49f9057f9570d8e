//! The ids whose text is not dealt with yet, and where in the output it ends. Knows no markup.

use std::collections::VecDeque;

use crate::tokenizer::{Token, Tokenizer};

/// An id, and the position behind its text: bytes from the start of the output. While its bytes wait for the rest of a
/// character, `end` is their number.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Placed {
    id: u32,
    end: usize,
}

/// Ids that may still turn out to stand behind the end of the output.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RecentIds {
    ids: VecDeque<Placed>,
    /// How many of the ids, at the end, have no position yet.
    waiting: usize,
    /// Behind the text of the ids that are forgotten.
    from: usize,
}

impl RecentIds {
    /// An id whose bytes wait: there are `length` of them.
    pub(super) fn wait(&mut self, id: u32, length: usize) {
        self.ids.push_back(Placed { id, end: length });
        self.waiting += 1;
    }

    /// An id whose text ends at `end`.
    pub(super) fn place(&mut self, id: u32, end: usize) {
        self.ids.push_back(Placed { id, end });
    }

    /// What waited has become `length` bytes of text that begin at `start`.
    pub(super) fn place_waiting(&mut self, start: usize, length: usize, tokenizer: &Tokenizer) {
        let first = self.ids.len() - std::mem::take(&mut self.waiting);
        let waited = self.ids.range(first..);
        let raw: usize = waited.clone().map(|placed| placed.end).sum();
        // Bytes that are no character became U+FFFD, which is three bytes for one to three.
        let replaced = if raw == length { Vec::new() } else { replacements(waited.map(|placed| placed.id), tokenizer) };
        let mut replaced = replaced.into_iter().peekable();
        let (mut at, mut grown) = (start, 0);
        for placed in self.ids.range_mut(first..) {
            at += placed.end;
            while let Some((_, by)) = replaced.next_if(|(behind, _)| start + behind <= at) {
                grown = by;
            }
            placed.end = at + grown;
        }
    }

    /// Forgets the ids whose text is dealt with: it ends at or before `to`.
    pub(super) fn release(&mut self, to: usize) {
        while self.ids.len() > self.waiting && self.ids[0].end <= to {
            if let Some(placed) = self.ids.pop_front() {
                self.from = placed.end;
            }
        }
    }

    /// The ids whose text begins at or behind `end`, the place where the output ended.
    pub(super) fn behind(&self, end: usize) -> Vec<u32> {
        let mut start = self.from;
        let starts = self.ids.iter().map(|placed| std::mem::replace(&mut start, placed.end));
        starts.zip(&self.ids).skip_while(|(start, _)| *start < end).map(|(_, placed)| placed.id).collect()
    }
}

/// For each ill-formed sequence in the bytes of the ids: the position behind it, and by how much the text is longer than
/// the bytes up to there.
fn replacements(ids: impl Iterator<Item = u32>, tokenizer: &Tokenizer) -> Vec<(usize, usize)> {
    let mut bytes = Vec::new();
    for id in ids {
        if let Some(Token::Plain(more)) = tokenizer.token(id) {
            bytes.extend_from_slice(more);
        }
    }
    let (mut at, mut grown) = (0, 0);
    let mut found = Vec::new();
    for chunk in bytes.utf8_chunks() {
        at += chunk.valid().len() + chunk.invalid().len();
        if !chunk.invalid().is_empty() {
            grown += char::REPLACEMENT_CHARACTER.len_utf8() - chunk.invalid().len();
            found.push((at, grown));
        }
    }
    found
}
