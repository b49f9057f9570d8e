//! Merging: the bytes of one piece to ids, lowest rank first, leftmost of equals. Knows no cache.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Vocabulary, NONE};
#[cfg(target_arch = "x86_64")]
use crate::tokenizer::split::Avx2;
#[cfg(target_arch = "x86_64")]
use avx2::VectorSlice;
use short::{ShortMerges, MOST_PLACES};

#[cfg(target_arch = "x86_64")]
mod avx2;
pub(super) mod short;

/// Up to this many bytes are merged by searching for the lowest rank; a longer piece in windows of this size.
pub(super) const WINDOW: usize = 248;

/// The last bytes of a window decide nothing: what follows may change how they merge.
const MARGIN: usize = 32;

/// Places of the scratch space: an index of one byte needs no check.
const PLACES: usize = 256;

/// Borders of one window that are tried before the whole piece is merged at once.
const TRIES: usize = 8;

/// No merge here. A merge is its product, then its place in eight bits: the least one is the next one to do.
const NO_MERGE: i32 = i32::MAX;

/// The end of the list of places, in both directions.
const END: u8 = u8::MAX;

/// The merges of all places while they are done.
trait Merges<'m> {
    /// Takes over the merges of a number of whole groups of eight places.
    fn new(merges: &'m mut [i32]) -> Self;

    /// The least one.
    fn least(&self) -> i32;

    /// Changes the one of a place.
    fn set(&mut self, place: usize, merge: i32);
}

/// The portable way.
struct Slice<'m>(&'m mut [i32]);

impl<'m> Merges<'m> for Slice<'m> {
    #[inline(always)]
    fn new(merges: &'m mut [i32]) -> Self {
        Self(merges)
    }

    #[inline(always)]
    fn least(&self) -> i32 {
        self.0.iter().copied().fold(NO_MERGE, i32::min)
    }

    #[inline(always)]
    fn set(&mut self, place: usize, merge: i32) {
        self.0[place] = merge;
    }
}

/// Scratch space of merging, reused from piece to piece. Made when the first piece is merged: most texts that are
/// short have none.
#[derive(Default)]
pub(in crate::tokenizer) struct Merger {
    places: Option<Places>,
    window: Vec<u32>,
    next_window: Vec<u32>,
    pub(super) short: ShortMerges,
}

/// What is known of each place of a window.
struct Places {
    /// The token. Places that were merged away keep one that nothing refers to.
    tokens: [u32; PLACES],
    /// The merge with the next place.
    merges: [i32; PLACES],
    previous: [u8; PLACES],
    next: [u8; PLACES],
}

impl Default for Places {
    fn default() -> Self {
        Self { tokens: [NONE; PLACES], merges: [NO_MERGE; PLACES], previous: [END; PLACES], next: [END; PLACES] }
    }
}

impl Merger {
    /// Appends the ids of one piece.
    pub(super) fn merge(&mut self, vocabulary: &Vocabulary, piece: &[u8], ids: &mut Vec<u32>) {
        if piece.len() <= 3 * MOST_PLACES && self.merge_short(vocabulary, piece, ids) {
            return;
        }
        if piece.len() <= WINDOW {
            return self.merge_window(vocabulary, piece, ids);
        }
        let start = ids.len();
        if !self.merge_in_windows(vocabulary, piece, WINDOW, ids) {
            ids.truncate(start);
            merge_by_heap(vocabulary, piece, ids);
        }
    }

    /// Appends the ids of a piece with few places and says so, or says that it has too many.
    fn merge_short(&mut self, vocabulary: &Vocabulary, piece: &[u8], ids: &mut Vec<u32>) -> bool {
        let is_short = self.short.start(vocabulary, piece, 0);
        self.short.finish(&vocabulary.products);
        self.short.take(|_, merged| ids.extend_from_slice(merged));
        is_short
    }

    /// Appends the ids of up to `WINDOW` bytes.
    fn merge_window(&mut self, vocabulary: &Vocabulary, piece: &[u8], ids: &mut Vec<u32>) {
        self.places.get_or_insert_default().merge(vocabulary, piece, ids);
    }

    /// Appends the ids of a long piece, or says that it could not.
    ///
    /// Tokens are the ones that merging makes if, and only if, each two neighbours are what merging makes of their
    /// own bytes. So two windows can be put together at a border of the first one, if the tokens at both sides
    /// of it are such neighbours. Which they nearly always are: what lies far behind seldom matters.
    fn merge_in_windows(&mut self, vocabulary: &Vocabulary, piece: &[u8], size: usize, ids: &mut Vec<u32>) -> bool {
        let (mut window, mut next_window) = (std::mem::take(&mut self.window), std::mem::take(&mut self.next_window));
        let mut at = 0;
        window.clear();
        self.merge_window(vocabulary, &piece[..size], &mut window);
        let fits = loop {
            if at + size >= piece.len() {
                ids.extend_from_slice(&window);
                break true;
            }
            let mut end = at;
            let mut taken = 0usize;
            for token in &window {
                let token_end = end + vocabulary.bytes(*token).len();
                if token_end + MARGIN.min(size / 2) > at + size {
                    break;
                }
                end = token_end;
                taken += 1;
            }
            let lowest = taken.saturating_sub(TRIES);
            while taken > lowest {
                let bytes = &piece[end..(end + size).min(piece.len())];
                // Long runs of one character, or of a few, are the same window again and again.
                if *bytes == piece[at..at + size] {
                    next_window.clone_from(&window);
                } else {
                    next_window.clear();
                    self.merge_window(vocabulary, bytes, &mut next_window);
                }
                if vocabulary.are_neighbours(window[taken - 1], next_window[0]) {
                    break;
                }
                taken -= 1;
                end -= vocabulary.bytes(window[taken]).len();
            }
            if taken == lowest {
                break false;
            }
            ids.extend_from_slice(&window[..taken]);
            std::mem::swap(&mut window, &mut next_window);
            at = end;
        };
        (self.window, self.next_window) = (window, next_window);
        fits
    }
}

impl Places {
    /// Appends the ids of up to `WINDOW` bytes.
    fn merge(&mut self, vocabulary: &Vocabulary, piece: &[u8], ids: &mut Vec<u32>) {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = Avx2::detect() {
            // SAFETY: the processor has the features that the function needs.
            return unsafe { self.merge_with_avx2(avx2, vocabulary, piece, ids) };
        }
        let places = self.start(vocabulary, piece);
        self.merge_places::<Slice<'_>>(places, vocabulary, ids);
    }

    /// # Safety
    ///
    /// The processor must have the named features. A value of [`Avx2`] says that it has.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
    unsafe fn merge_with_avx2(&mut self, _: Avx2, vocabulary: &Vocabulary, piece: &[u8], ids: &mut Vec<u32>) {
        let places = self.start(vocabulary, piece);
        self.merge_places::<VectorSlice<'_>>(places, vocabulary, ids);
    }

    #[inline(always)]
    fn merge_places<'m, M: Merges<'m>>(&'m mut self, places: usize, vocabulary: &Vocabulary, ids: &mut Vec<u32>) {
        if places == 0 {
            return;
        }
        let Self { tokens, merges, previous, next, .. } = self;
        let mut merges = M::new(&mut merges[..places.next_multiple_of(8)]);
        loop {
            let first = merges.least();
            if first == NO_MERGE {
                break;
            }
            let at = (first & 0xFF) as usize;
            let product = (first >> 8) as u32;
            let gone = next[at] as usize;
            let after = next[gone];
            tokens[at] = product;
            merges.set(gone, NO_MERGE);
            next[at] = after;
            let mut with_next = NO_MERGE;
            if after != END {
                previous[after as usize] = at as u8;
                with_next = merge_at(vocabulary.products.get(product, tokens[after as usize]), at);
            }
            merges.set(at, with_next);
            let before = previous[at];
            if before != END {
                let before = before as usize;
                merges.set(before, merge_at(vocabulary.products.get(tokens[before], product), before));
            }
        }
        let mut at = 0;
        while at != END {
            ids.push(tokens[at as usize]);
            at = next[at as usize];
        }
    }

    /// Sets up the places of a piece and says how many there are: one a byte, or one a character where that is exact.
    #[inline(always)]
    fn start(&mut self, vocabulary: &Vocabulary, piece: &[u8]) -> usize {
        let Self { tokens, merges, previous, next, .. } = self;
        let mut places = 0;
        let mut at = 0;
        // The byte that the place before stands for.
        let mut byte_before = None;
        while at < piece.len() {
            let byte = piece[at];
            let character = vocabulary.characters.token_at(piece, at);
            let (token, byte, length) = match character {
                NONE => (vocabulary.byte_ids[byte as usize], Some(byte), 1),
                token => (token, None, 3),
            };
            if places > 0 {
                let product = match (byte_before, byte) {
                    (Some(first), Some(second)) => {
                        vocabulary.byte_products[usize::from(first) << 8 | usize::from(second)]
                    }
                    _ => vocabulary.products.get(tokens[places - 1], token),
                };
                merges[places - 1] = merge_at(product, places - 1);
            }
            tokens[places] = token;
            previous[places] = (places as u8).wrapping_sub(1);
            next[places] = places as u8 + 1;
            byte_before = byte;
            at += length;
            places += 1;
        }
        if places > 0 {
            next[places - 1] = END;
            merges[places - 1..places.next_multiple_of(8)].fill(NO_MERGE);
        }
        places
    }
}

#[inline]
fn merge_at(product: u32, place: usize) -> i32 {
    if product == NONE {
        NO_MERGE
    } else {
        (product << 8) as i32 | place as i32
    }
}

/// A token of a long piece: a linked list in place, so that a merge moves nothing.
struct Node {
    token: u32,
    /// The product of this token and the next one; `NONE` too for a node that was merged away.
    product: u32,
    previous: usize,
    next: usize,
}

/// The end of the list of nodes, in both directions.
const LIST_END: usize = usize::MAX;

/// Appends the ids of a piece of any length, in `n log n` time. What is left for pieces that windows cannot do.
fn merge_by_heap(vocabulary: &Vocabulary, piece: &[u8], ids: &mut Vec<u32>) {
    let mut nodes: Vec<Node> = piece
        .iter()
        .enumerate()
        .map(|(at, &byte)| Node {
            token: vocabulary.byte_ids[byte as usize],
            product: NONE,
            previous: at.wrapping_sub(1),
            next: at + 1,
        })
        .collect();
    if let Some(last) = nodes.last_mut() {
        last.next = LIST_END;
    }
    let mut heap = BinaryHeap::new();
    for at in 0..nodes.len() {
        pair_with_next(vocabulary, &mut nodes, &mut heap, at);
    }
    while let Some(Reverse((product, at))) = heap.pop() {
        // Tokens only grow, so a node that still makes this product is the one that was meant.
        if nodes[at].product != product {
            continue;
        }
        let gone = nodes[at].next;
        let (previous, next) = (nodes[at].previous, nodes[gone].next);
        nodes[gone].product = NONE;
        nodes[at].token = product;
        nodes[at].next = next;
        if next != LIST_END {
            nodes[next].previous = at;
        }
        pair_with_next(vocabulary, &mut nodes, &mut heap, at);
        if previous != LIST_END {
            pair_with_next(vocabulary, &mut nodes, &mut heap, previous);
        }
    }
    let mut at = if nodes.is_empty() { LIST_END } else { 0 };
    while at != LIST_END {
        ids.push(nodes[at].token);
        at = nodes[at].next;
    }
}

fn pair_with_next(
    vocabulary: &Vocabulary,
    nodes: &mut [Node],
    heap: &mut BinaryHeap<Reverse<(u32, usize)>>,
    at: usize,
) {
    let next = nodes[at].next;
    let product = if next == LIST_END { NONE } else { vocabulary.products.get(nodes[at].token, nodes[next].token) };
    nodes[at].product = product;
    if product != NONE {
        heap.push(Reverse((product, at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::builtin;

    fn random(state: &mut u64, below: usize) -> usize {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*state >> 33) as usize % below
    }

    /// Pieces made of tokens, so that there is much to merge and many borders are wrong ones.
    fn piece(vocabulary: &Vocabulary, state: &mut u64) -> Vec<u8> {
        let bits = 9 + random(state, 8);
        let few: Vec<u32> = (0..1 + random(state, 6)).map(|_| 3 + random(state, 1 << bits) as u32).collect();
        let length = 1 + random(state, 700);
        let mut piece = Vec::new();
        while piece.len() < length {
            let token = few[random(state, few.len())];
            piece.extend_from_slice(vocabulary.bytes(token.min(127_999)));
        }
        piece
    }

    #[test]
    fn windows_and_heap_merge_alike() {
        let vocabulary = builtin::vocabulary();
        let mut merger = Merger::default();
        let mut state = 1;
        let mut fitted = 0;
        for n in 0..20_000 {
            let piece = piece(&vocabulary, &mut state);
            let mut expected = Vec::new();
            merge_by_heap(&vocabulary, &piece, &mut expected);
            let mut ids = Vec::new();
            merger.merge(&vocabulary, &piece, &mut ids);
            assert_eq!(ids, expected, "{piece:x?}");
            let size = [8, 24, 60, WINDOW][n % 4].min(piece.len());
            ids.clear();
            if merger.merge_in_windows(&vocabulary, &piece, size, &mut ids) {
                assert_eq!(ids, expected, "{size} {piece:x?}");
                fitted += 1;
            }
        }
        // Windows are worth it only if they nearly always fit: these are far smaller than the real ones.
        assert!(fitted > 10_000, "{fitted}");
    }

    #[test]
    fn neighbours_are_what_their_bytes_merge_to() {
        let vocabulary = builtin::vocabulary();
        let mut state = 1;
        let mut neighbours = 0;
        for _ in 0..300_000 {
            let bits = 9 + random(&mut state, 9);
            let [left, right] = [0; 2].map(|_| (3 + random(&mut state, 1 << bits) as u32).min(127_999));
            let mut ids = Vec::new();
            merge_by_heap(&vocabulary, &[vocabulary.bytes(left), vocabulary.bytes(right)].concat(), &mut ids);
            assert_eq!(vocabulary.are_neighbours(left, right), ids == [left, right], "{left} {right}");
            neighbours += usize::from(ids == [left, right]);
        }
        assert!((1000..299_000).contains(&neighbours), "{neighbours}");
    }
}
