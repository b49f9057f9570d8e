//! Merging: the bytes of one piece to ids, lowest rank first, leftmost of equals. Knows no cache.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Vocabulary, NONE};

/// Up to this many bytes are merged by searching for the lowest rank; a longer piece in windows of this size.
pub(super) const WINDOW: usize = 248;

/// The last bytes of a window decide nothing: what follows may change how they merge.
const MARGIN: usize = 32;

/// Borders of one window that are tried before the whole piece is merged at once.
const TRIES: usize = 8;

/// No merge here. A merge is its product, then its place in eight bits: the least one is the next one to do.
const NO_MERGE: i32 = i32::MAX;

/// The end of the list of places, in both directions.
const END: u8 = u8::MAX;

/// Scratch space of merging, reused from piece to piece.
pub(in crate::tokenizer) struct Merger {
    /// The token at each place. Places that were merged away keep a token that nothing refers to.
    tokens: [u32; WINDOW],
    /// The merge of each place with the next one.
    merges: [i32; WINDOW],
    previous: [u8; WINDOW],
    next: [u8; WINDOW],
    window: Vec<u32>,
    next_window: Vec<u32>,
}

impl Default for Merger {
    fn default() -> Self {
        Self {
            tokens: [NONE; WINDOW],
            merges: [NO_MERGE; WINDOW],
            previous: [END; WINDOW],
            next: [END; WINDOW],
            window: Vec::new(),
            next_window: Vec::new(),
        }
    }
}

impl Merger {
    /// Appends the ids of one piece.
    pub(super) fn merge(&mut self, vocabulary: &Vocabulary, piece: &[u8], ids: &mut Vec<u32>) {
        if piece.len() <= WINDOW {
            return self.merge_window(vocabulary, piece, ids);
        }
        let start = ids.len();
        if !self.merge_in_windows(vocabulary, piece, WINDOW, ids) {
            ids.truncate(start);
            merge_by_heap(vocabulary, piece, ids);
        }
    }

    /// Appends the ids of up to `WINDOW` bytes.
    fn merge_window(&mut self, vocabulary: &Vocabulary, piece: &[u8], ids: &mut Vec<u32>) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { self.merge_window_with_avx2(vocabulary, piece, ids) };
        }
        self.merge_window_by(least, vocabulary, piece, ids);
    }

    /// # Safety
    ///
    /// The processor must have AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn merge_window_with_avx2(&mut self, vocabulary: &Vocabulary, piece: &[u8], ids: &mut Vec<u32>) {
        // SAFETY: the caller promises AVX2.
        self.merge_window_by(|merges| unsafe { least_with_avx2(merges) }, vocabulary, piece, ids);
    }

    #[inline(always)]
    fn merge_window_by(
        &mut self,
        least: impl Fn(&[i32]) -> i32,
        vocabulary: &Vocabulary,
        piece: &[u8],
        ids: &mut Vec<u32>,
    ) {
        let places = self.start(vocabulary, piece);
        if places == 0 {
            return;
        }
        let Self { tokens, merges, previous, next, .. } = self;
        let searched = places.next_multiple_of(8).min(WINDOW);
        loop {
            let first = least(&merges[..searched]);
            if first == NO_MERGE {
                break;
            }
            let at = (first & 0xFF) as usize;
            let product = (first >> 8) as u32;
            let gone = next[at] as usize;
            let after = next[gone];
            tokens[at] = product;
            merges[gone] = NO_MERGE;
            next[at] = after;
            merges[at] = NO_MERGE;
            if after != END {
                previous[after as usize] = at as u8;
                merges[at] = merge_at(vocabulary.product(product, tokens[after as usize]), at);
            }
            let before = previous[at];
            if before != END {
                let before = before as usize;
                merges[before] = merge_at(vocabulary.product(tokens[before], product), before);
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
                    _ => vocabulary.product(tokens[places - 1], token),
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
            merges[places - 1..places.next_multiple_of(8).min(WINDOW)].fill(NO_MERGE);
        }
        places
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

#[inline]
fn merge_at(product: u32, place: usize) -> i32 {
    if product == NONE {
        NO_MERGE
    } else {
        (product << 8) as i32 | place as i32
    }
}

/// The least merge.
fn least(merges: &[i32]) -> i32 {
    merges.iter().copied().fold(NO_MERGE, i32::min)
}

/// As [`least`], of a number of whole groups of eight.
///
/// # Safety
///
/// The processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn least_with_avx2(merges: &[i32]) -> i32 {
    use std::arch::x86_64::*;

    let mut least = _mm256_set1_epi32(NO_MERGE);
    for group in merges.chunks_exact(8) {
        // SAFETY: a group is as long as what is read.
        least = _mm256_min_epi32(least, unsafe { _mm256_loadu_si256(group.as_ptr().cast()) });
    }
    let least = _mm_min_epi32(_mm256_castsi256_si128(least), _mm256_extracti128_si256::<1>(least));
    let least = _mm_min_epi32(least, _mm_shuffle_epi32::<0b01_00_11_10>(least));
    _mm_cvtsi128_si32(_mm_min_epi32(least, _mm_shuffle_epi32::<0b10_11_00_01>(least)))
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
    let product = if next == LIST_END { NONE } else { vocabulary.product(nodes[at].token, nodes[next].token) };
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
