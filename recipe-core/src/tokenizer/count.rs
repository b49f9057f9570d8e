//! Counts the tokens of a text that arrives bit by bit. Knows no stream.

use super::{split, Tokenizer};
use crate::save::saved;

/// How many tokens [`Tokenizer::encode`] makes of a text, as the text arrives.
///
/// Keeps only the text behind the last place where nothing that follows can change what is before. A plain value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenCounter {
    counted: usize,
    pending: String,
    /// How long the pending text may get before a place to cut it is looked for.
    limit: usize,
}

/// Counting a few kilobytes at once costs less than a microsecond for each text that arrives.
const LIMIT: usize = 4096;

impl TokenCounter {
    /// Adds text. All calls must be given the same tokenizer.
    pub fn push(&mut self, tokenizer: &Tokenizer, text: &str) {
        self.pending.push_str(text);
        if self.pending.len() < self.limit.max(LIMIT) {
            return;
        }
        // An added token reaches over no white space, so neither does its match reach over this place.
        let place = (!tokenizer.added.has_white_space()).then(|| split::last_cut_before_white_space(&self.pending));
        if let Some(place) = place.flatten() {
            self.counted += tokenizer.encode(&self.pending[..place]).len();
            self.pending.drain(..place);
        }
        // A text without such a place is searched again when it has doubled: in all, that is linear.
        self.limit = 2 * self.pending.len();
    }

    /// The number of tokens of the whole text.
    pub fn total(&self, tokenizer: &Tokenizer) -> usize {
        self.counted + tokenizer.encode(&self.pending).len()
    }
}

saved! { struct TokenCounter { counted, pending, limit } }
