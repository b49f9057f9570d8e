//! Merging of many short pieces in turns: while one waits for memory, the others go on. Knows no cache.

use super::super::tables::{Products, RecentPairs, NO_TOKEN};
use super::super::Vocabulary;
use super::NO_MERGE;

/// The most places of a short piece: its bytes, or characters where merging may start from these.
pub(in crate::tokenizer::bpe) const MOST_PLACES: usize = 31;

/// A short piece while it is merged.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct ShortMerge {
    /// The merge of each place with the next one. Places begin with 1.
    merges: [i32; MOST_PLACES + 1],
    tokens: [u32; MOST_PLACES + 2],
    /// One bit for each place that is left, and for the two ends, which have [`NO_TOKEN`]: that merges with nothing.
    places: u64,
    /// Which piece of its batch this is.
    number: usize,
}

impl ShortMerge {
    /// Nothing to merge.
    const NONE: Self =
        Self { merges: [NO_MERGE; MOST_PLACES + 1], tokens: [NO_TOKEN; MOST_PLACES + 2], places: 1, number: 0 };

    /// Sets up the places of a piece; says whether there are few enough.
    #[inline(always)]
    fn start(
        &mut self,
        vocabulary: &Vocabulary,
        recent: &mut RecentPairs,
        piece: &[u8],
        number: usize,
    ) -> bool {
        self.number = number;
        self.merges = [NO_MERGE; MOST_PLACES + 1];
        let (mut at, mut place) = (0, 0);
        // The byte that the place before stands for.
        let mut byte_before = None;
        while let Some(&byte) = piece.get(at) {
            if place == MOST_PLACES {
                return false;
            }
            let (token, byte, length) = match vocabulary.characters.token_at(piece, at) {
                super::NONE => (vocabulary.byte_ids[byte as usize], Some(byte), 1),
                token => (token, None, 3),
            };
            if place > 0 {
                let product = match (byte_before, byte) {
                    (Some(first), Some(second)) => {
                        vocabulary.byte_products[usize::from(first) << 8 | usize::from(second)]
                    }
                    _ => recent.get(&vocabulary.products, self.tokens[place], token),
                };
                self.merges[place] = merge_at(product, place);
            }
            place += 1;
            self.tokens[place] = token;
            byte_before = byte;
            at += length;
        }
        self.tokens[place + 1] = NO_TOKEN;
        self.places = (4 << place) - 1;
        true
    }

    /// Does the next merge, if there is one.
    #[inline(always)]
    fn step(&mut self, products: &Products, recent: &mut RecentPairs) -> bool {
        let first = self.merges.iter().copied().fold(NO_MERGE, i32::min);
        if first == NO_MERGE {
            return false;
        }
        let at = first as usize % (MOST_PLACES + 1);
        let product = (first >> 8) as u32;
        let behind = !1 << at;
        let gone = (self.places & behind).trailing_zeros() as usize;
        self.places &= !(1 << gone);
        // Both ends are places too, so each place has one before and one after it.
        let after = (self.places & behind).trailing_zeros() as usize;
        let before = (self.places & !(behind >> 1 | 1 << at)).ilog2() as usize;
        self.tokens[at] = product;
        self.merges[gone] = NO_MERGE;
        self.merges[at] = merge_at(recent.get(products, product, self.tokens[after]), at);
        self.merges[before] = merge_at(recent.get(products, self.tokens[before], product), before);
        true
    }

    /// The tokens that are left.
    #[inline]
    fn copy_ids<'i>(&self, ids: &'i mut [u32; MOST_PLACES]) -> &'i [u32] {
        let mut places = self.places & !1;
        let mut count = 0;
        while places & (places - 1) != 0 {
            ids[count] = self.tokens[places.trailing_zeros() as usize];
            count += 1;
            places &= places - 1;
        }
        &ids[..count]
    }
}

/// Some short pieces that are merged together. The space is used again and again.
#[derive(Default)]
pub(in crate::tokenizer::bpe) struct ShortMerges {
    pieces: Vec<ShortMerge>,
    started: usize,
    recent: RecentPairs,
}

impl ShortMerges {
    /// Adds a piece and says so, or says that it has too many places.
    #[inline(always)]
    pub(in crate::tokenizer::bpe) fn start(&mut self, vocabulary: &Vocabulary, bytes: &[u8], number: usize) -> bool {
        if self.started == self.pieces.len() {
            self.pieces.push(ShortMerge::NONE);
        }
        let is_short = self.pieces[self.started].start(vocabulary, &mut self.recent, bytes, number);
        self.started += usize::from(is_short);
        is_short
    }

    /// Does all merges of all pieces, each of which does one in turn.
    #[inline(always)]
    pub(in crate::tokenizer::bpe) fn finish(&mut self, products: &Products) {
        let mut open = self.started;
        while open > 0 {
            let mut at = 0;
            while at < open {
                if self.pieces[at].step(products, &mut self.recent) {
                    at += 1;
                } else {
                    open -= 1;
                    self.pieces.swap(at, open);
                }
            }
        }
    }

    /// Takes the pieces out, in no order: calls `merged` with the number of each and with its ids.
    pub(in crate::tokenizer::bpe) fn take(&mut self, mut merged: impl FnMut(usize, &[u32])) {
        let mut ids = [0; MOST_PLACES];
        for piece in &self.pieces[..std::mem::take(&mut self.started)] {
            merged(piece.number, piece.copy_ids(&mut ids));
        }
    }
}

/// A merge of a place, or `NO_MERGE`.
#[inline(always)]
fn merge_at(product: u32, place: usize) -> i32 {
    if product >= NO_TOKEN {
        NO_MERGE
    } else {
        (product << 8) as i32 | place as i32
    }
}
