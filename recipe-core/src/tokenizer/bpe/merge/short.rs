//! Merging of many short pieces in turns: while one waits for memory, the others go on. Knows no cache.

use super::super::tables::{Products, NO_TOKEN};
use super::super::Vocabulary;
use super::{merge_at, NO_MERGE};

/// The most places of a short piece: its bytes, or characters where merging may start from these.
pub(in crate::tokenizer::bpe) const MOST_PLACES: usize = PLACES - 2;

/// A place is a bit of 32.
const PLACES: usize = 32;

/// A short piece while it is merged.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct ShortMerge {
    /// The merge of each place with the next one. Places begin with 1.
    merges: [i32; PLACES],
    tokens: [u32; PLACES],
    /// One bit for each place that is left, and for the two ends, which have [`NO_TOKEN`]: that merges with nothing.
    places: u32,
    /// Which piece of its batch this is.
    number: usize,
}

impl ShortMerge {
    /// Nothing to merge.
    const NONE: Self = Self { merges: [NO_MERGE; PLACES], tokens: [NO_TOKEN; PLACES], places: 1, number: 0 };

    /// Sets up the places of a piece; says whether there are few enough.
    #[inline(always)]
    fn start(&mut self, vocabulary: &Vocabulary, piece: &[u8], number: usize) -> bool {
        self.number = number;
        self.merges = [NO_MERGE; PLACES];
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
                    _ => vocabulary.products.get(self.tokens[place], token),
                };
                self.merges[place] = merge_at(product, place);
            }
            place += 1;
            self.tokens[place] = token;
            byte_before = byte;
            at += length;
        }
        self.tokens[place + 1] = NO_TOKEN;
        self.places = u32::MAX >> (PLACES - 2 - place);
        true
    }

    /// Does the next merge, if there is one.
    #[inline(always)]
    fn step(&mut self, products: &Products) -> bool {
        let first = self.merges.iter().copied().fold(NO_MERGE, i32::min);
        if first == NO_MERGE {
            return false;
        }
        // Both ends are places too, so each place has one before and one after it. The remainders say so without a check.
        let at = first as usize % PLACES;
        let product = (first >> 8) as u32;
        let behind = (!1 << at) & self.places;
        let gone = behind.trailing_zeros() as usize % PLACES;
        let after = (behind & (behind - 1)).trailing_zeros() as usize % PLACES;
        let before = (self.places << (PLACES - 1 - at) << 1).leading_zeros() as usize;
        let before = at.wrapping_sub(before + 1) % PLACES;
        self.places &= !(1 << gone);
        self.tokens[at] = product;
        self.merges[gone] = NO_MERGE;
        self.merges[at] = merge_at(products.get(product, self.tokens[after]), at);
        self.merges[before] = merge_at(products.get(self.tokens[before], product), before);
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
}

impl ShortMerges {
    /// Adds a piece and says so, or says that it has too many places.
    #[inline(always)]
    pub(in crate::tokenizer::bpe) fn start(&mut self, vocabulary: &Vocabulary, bytes: &[u8], number: usize) -> bool {
        if self.started == self.pieces.len() {
            self.pieces.push(ShortMerge::NONE);
        }
        let is_short = self.pieces[self.started].start(vocabulary, bytes, number);
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
                if self.pieces[at].step(products) {
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

#[cfg(test)]
mod tests {
    use super::super::merge_by_heap;
    use super::*;
    use crate::tokenizer::builtin;

    /// Pieces made of parts of tokens, many of them Chinese, several at once.
    #[test]
    fn short_pieces_merge_as_the_heap_says() {
        let vocabulary = builtin::vocabulary();
        let mut merges = ShortMerges::default();
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let (mut started, mut refused) = (0, 0);
        for _ in 0..2_000 {
            let mut pieces = Vec::new();
            for number in 0..1 + random(20) {
                let mut piece = Vec::new();
                for _ in 0..1 + random(12) {
                    let token = vocabulary.bytes(3 + random(127_000) as u32);
                    piece.extend_from_slice(&token[..1 + random(token.len())]);
                }
                let is_short = merges.start(&vocabulary, &piece, number);
                assert!(is_short || piece.len() > MOST_PLACES);
                (started, refused) = (started + usize::from(is_short), refused + usize::from(!is_short));
                pieces.push((piece, is_short));
            }
            merges.finish(&vocabulary.products);
            merges.take(|number, ids| {
                let (piece, is_short) = &mut pieces[number];
                let mut expected = Vec::new();
                merge_by_heap(&vocabulary, piece, &mut expected);
                assert_eq!(ids, expected, "{piece:x?}");
                assert!(std::mem::take(is_short));
            });
            assert!(pieces.iter().all(|(_, is_left)| !is_left));
        }
        assert!(started > 10_000 && refused > 1_000, "{started} {refused}");
    }
}
