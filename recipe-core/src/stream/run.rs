//! Text between two tags of call markup. It belongs to the state before the block: line breaks around
//! it are dropped, and white space alone is dropped.

use std::sync::Arc;

use super::deltas::Deltas;
use super::event::{Channel, Events, TokenLogprob};
use super::input::Part;
use super::tag::SPACE;
use crate::save::saved;

#[derive(Clone, Debug, PartialEq)]
struct RunPart {
    piece: usize,
    text: String,
    logprobs: Option<Arc<[TokenLogprob]>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Run {
    parts: Vec<RunPart>,
    /// How many of the parts, from the first on, are known to be line breaks alone.
    breaks: usize,
    /// Something else than line breaks has come.
    begun: bool,
    /// Something else than white space has come.
    seen: bool,
}

impl Run {
    pub(super) fn add(&mut self, part: &Part<'_>) {
        self.add_text(part.piece.start, part.text, part.piece.logprobs.as_ref());
    }

    pub(super) fn add_deltas(&mut self, deltas: &Deltas) {
        for (piece, text) in deltas.parts() {
            self.add_text(piece, text, None);
        }
    }

    fn add_text(&mut self, piece: usize, text: &str, logprobs: Option<&Arc<[TokenLogprob]>>) {
        let text = if self.begun { text } else { text.trim_start_matches('\n') };
        if text.is_empty() {
            return;
        }
        self.begun = true;
        self.seen |= !text.trim_matches(SPACE).is_empty();
        match self.parts.last_mut() {
            Some(last) if last.piece == piece => last.text.push_str(text),
            _ => self.parts.push(RunPart { piece, text: text.to_owned(), logprobs: logprobs.cloned() }),
        }
    }

    /// Delivers what no later text can take back: all but the line breaks at the end.
    pub(super) fn release(&mut self, channel: Option<Channel>, events: &mut Events) {
        if !self.seen {
            return;
        }
        let holds_text = |part: &RunPart| part.text.bytes().any(|b| b != b'\n');
        let Some(last) = self.parts[self.breaks..].iter().rposition(holds_text) else {
            // The last part may still grow.
            self.breaks = self.parts.len().saturating_sub(1);
            return;
        };
        let last = self.breaks + last;
        let mut tail = self.parts.split_off(last + 1);
        let mut ready = std::mem::take(&mut self.parts);
        if let Some(part) = ready.last_mut() {
            let end = part.text.trim_end_matches('\n').len();
            if end < part.text.len() {
                let rest = part.text.split_off(end);
                tail.insert(0, RunPart { piece: part.piece, text: rest, logprobs: part.logprobs.clone() });
            }
        }
        self.parts = tail;
        self.breaks = 0;
        let Some(channel) = channel else { return };
        for part in ready {
            events.text(channel, &part.text, part.logprobs.as_ref());
        }
    }

    /// The run has ended.
    pub(super) fn finish(&mut self, channel: Option<Channel>, events: &mut Events) {
        self.release(channel, events);
        *self = Self::default();
    }
}

saved! { struct RunPart { piece, text, logprobs } }
saved! {
    struct Run { parts, breaks, begun, seen }
    check |run| run.breaks <= run.parts.len()
}
