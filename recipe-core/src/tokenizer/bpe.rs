//! The vocabulary and its merges: one piece to ids, one id to bytes. Knows no splitter and no added tokens.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use cache::PieceCache;
use characters::Characters;
pub(super) use merge::Merger;
pub(super) use tables::ID_BITS;
use tables::{IdTable, Key, Products, ShortTokens, KEY_BYTES};

mod cache;
mod characters;
mod merge;
mod tables;

/// No id: vocabularies are far smaller.
pub(super) const NONE: u32 = u32::MAX;

/// The parts of a token that no merge makes.
pub(super) const NO_PARTS: (u32, u32) = (NONE, NONE);

/// The longest piece whose ids are kept: nine words, but for a byte that says how long it is. Of Chinese pieces, two
/// in a hundred are longer.
const CACHED_BYTES: usize = 71;

/// The bytes of all tokens, by id.
#[derive(Default)]
pub(super) struct TokenBytes {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    longest: usize,
    /// How many have no place in [`ShortTokens`].
    long: usize,
}

impl TokenBytes {
    /// Room for this many tokens.
    pub(super) fn with_capacity(tokens: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(tokens), ..Self::default() }
    }

    /// Adds the token with the next id. One without bytes is an id that the vocabulary does not have.
    pub(super) fn push(&mut self, token: &[u8]) {
        self.bytes.extend_from_slice(token);
        self.end_token(token.len());
    }

    /// Adds the token that is `left` and `right` joined.
    fn push_joined(&mut self, left: u32, right: u32) {
        let before = self.bytes.len();
        self.bytes.extend_from_within(self.range(left));
        self.bytes.extend_from_within(self.range(right));
        self.end_token(self.bytes.len() - before);
    }

    fn end_token(&mut self, length: usize) {
        self.longest = self.longest.max(length);
        self.long += usize::from(length > ShortTokens::BYTES);
        let end = u32::try_from(self.bytes.len()).expect("callers check that a vocabulary has less than 4 GiB");
        self.ends.push(end);
    }

    fn range(&self, id: u32) -> std::ops::Range<usize> {
        let id = id as usize;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        start as usize..self.ends[id] as usize
    }

    /// The bytes of `id`, empty for an id that the vocabulary does not have.
    pub(super) fn get(&self, id: u32) -> &[u8] {
        if (id as usize) < self.ends.len() {
            &self.bytes[self.range(id)]
        } else {
            &[]
        }
    }

    /// One more than the highest id.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// A piece of up to [`ShortTokens::BYTES`] on its way through a table.
#[derive(Clone, Copy, Default)]
pub(super) struct Prepared {
    key: Key,
    hash: u64,
}

/// A byte-level BPE vocabulary. Ids of merge products rise with the rank of the merge, and a product has a higher id
/// than a product that it is made of.
pub(super) struct Vocabulary {
    tokens: TokenBytes,
    byte_ids: [u32; 256],
    /// The two tokens that merge to an id, by id.
    parts: Vec<(u32, u32)>,
    products: Products,
    /// The products of two bytes, by both.
    byte_products: Box<[u32]>,
    /// Bytes to the token that merging makes of them, up to [`ShortTokens::BYTES`] and above.
    short: ShortTokens,
    long: IdTable,
    characters: Characters,
    /// Room for the pieces of a few megabytes of text: 2 and 3 MB.
    short_pieces: PieceCache<2, 5>,
    long_pieces: PieceCache<9, 14>,
}

impl Vocabulary {
    /// A vocabulary where ids go on from `first`: 256 single bytes, then the products of `merges` in rank order.
    /// Merging must make each token of its bytes.
    pub(super) fn consecutive(first: u32, bytes: &[u8], merges: impl ExactSizeIterator<Item = (u32, u32)>) -> Self {
        let size = first as usize + bytes.len() + merges.len();
        // A token of a released vocabulary has under 8 bytes on average.
        let mut tokens = TokenBytes::with_capacity(size, size * 8);
        let mut byte_ids = [NONE; 256];
        (0..first).for_each(|_| tokens.push(&[]));
        for &byte in bytes {
            byte_ids[byte as usize] = tokens.len() as u32;
            tokens.push(&[byte]);
        }
        let mut parts = Vec::with_capacity(size);
        parts.resize(tokens.len(), NO_PARTS);
        for (left, right) in merges {
            parts.push((left, right));
            tokens.push_joined(left, right);
        }
        let mut vocabulary = Self::new(tokens, byte_ids, parts);
        vocabulary.take_whole(first..size as u32);
        vocabulary
    }

    /// A vocabulary where `parts` says, for each id, which two tokens make it. No token is taken whole yet.
    /// Ids have [`ID_BITS`] bits.
    pub(super) fn new(tokens: TokenBytes, byte_ids: [u32; 256], parts: Vec<(u32, u32)>) -> Self {
        let mut products = Products::new(parts.len());
        let mut byte_products = vec![NONE; 1 << 16].into_boxed_slice();
        for (id, &(left, right)) in (0..).zip(&parts) {
            if left != NONE {
                products.insert(left, right, id);
                if let [first, second] = *tokens.get(id) {
                    byte_products[usize::from(first) << 8 | usize::from(second)] = id;
                }
            }
        }
        Self {
            short: ShortTokens::new(tokens.len()),
            long: IdTable::new(tokens.long),
            tokens,
            byte_ids,
            parts,
            products,
            byte_products,
            characters: Characters::none(),
            short_pieces: PieceCache::new(1 << 15),
            long_pieces: PieceCache::new(1 << 14),
        }
    }

    /// Says, once, which ids stand for a whole piece: merging must make each of them of its bytes.
    pub(super) fn take_whole(&mut self, ids: impl Iterator<Item = u32> + Clone) {
        for id in ids.clone() {
            let token = self.tokens.get(id);
            if token.len() <= ShortTokens::BYTES {
                self.short.insert(Key::new(token, 0, token.len()), id);
            } else {
                self.long.insert(hash_bytes(token), id);
            }
        }
        self.characters = Characters::new(&self.tokens, ids);
    }

    /// The bytes of `id`, empty for an id that the vocabulary does not have.
    pub(super) fn bytes(&self, id: u32) -> &[u8] {
        self.tokens.get(id)
    }

    /// One more than the highest id.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The two tokens that merge to `id`.
    pub(super) fn parts(&self, id: u32) -> Option<(u32, u32)> {
        Some(self.parts[id as usize]).filter(|&parts| parts != NO_PARTS)
    }

    /// Appends the ids of the piece `text[start..end]`, which is not empty.
    pub(super) fn encode_piece(&self, text: &[u8], start: usize, end: usize, merger: &mut Merger, ids: &mut Vec<u32>) {
        self.encode_prepared(text, start, end, self.prepare_piece(text, start, end), merger, ids);
    }

    /// The first step of [`encode_piece`](Self::encode_piece): asks for the memory that the second one reads.
    #[inline(always)]
    pub(super) fn prepare_piece(&self, text: &[u8], start: usize, end: usize) -> Prepared {
        if end - start > ShortTokens::BYTES {
            return Prepared::default();
        }
        let key = Key::new(text, start, end);
        let hash = key.hash();
        self.short.prefetch(hash);
        Prepared { key, hash }
    }

    /// The second step of [`encode_piece`](Self::encode_piece).
    #[inline(always)]
    pub(super) fn encode_prepared(
        &self,
        text: &[u8],
        start: usize,
        end: usize,
        Prepared { key, hash }: Prepared,
        merger: &mut Merger,
        ids: &mut Vec<u32>,
    ) {
        if end - start > ShortTokens::BYTES {
            return self.encode_long(text, start, end, merger, ids);
        }
        match self.short.get(key, hash) {
            Some(id) => ids.push(id),
            None => self.encode_short(key, hash, &text[start..end], merger, ids),
        }
    }

    /// A piece that has a key and is no short token.
    #[inline(never)]
    fn encode_short(&self, key: Key, hash: u64, piece: &[u8], merger: &mut Merger, ids: &mut Vec<u32>) {
        let words = [key.low, key.high];
        if !self.short_pieces.get(hash, &words, ids) {
            let before = ids.len();
            merger.merge(self, piece, ids);
            self.short_pieces.insert(hash, &words, &ids[before..]);
        }
    }

    #[inline(never)]
    fn encode_long(&self, text: &[u8], start: usize, end: usize, merger: &mut Merger, ids: &mut Vec<u32>) {
        let piece = &text[start..end];
        if piece.len() > self.tokens.longest.max(CACHED_BYTES) {
            return merger.merge(self, piece, ids);
        }
        let hash = hash_bytes(piece);
        if let Some(id) = self.long.get(hash, |id| self.tokens.get(id) == piece) {
            return ids.push(id);
        }
        if piece.len() <= KEY_BYTES {
            let key = Key::new(text, start, end);
            return self.encode_short(key, key.hash(), piece, merger, ids);
        }
        if piece.len() > CACHED_BYTES {
            return merger.merge(self, piece, ids);
        }
        let words = padded(piece);
        if !self.long_pieces.get(hash, &words, ids) {
            let before = ids.len();
            merger.merge(self, piece, ids);
            self.long_pieces.insert(hash, &words, &ids[before..]);
        }
    }

    /// Appends the ids that merging makes of one piece: the lowest rank first, leftmost of equals.
    pub(super) fn merge_piece(&self, piece: &[u8], merger: &mut Merger, ids: &mut Vec<u32>) {
        merger.merge(self, piece, ids);
    }

    /// The product of two tokens that stand side by side, or `NONE`.
    #[inline]
    fn product(&self, left: u32, right: u32) -> u32 {
        self.products.get(left, right)
    }

    /// Whether merging makes just these two tokens of their joined bytes. It must make each of them of its own.
    ///
    /// Undoes the merges at the border, the last one first. The two sides are as they are if no merge over the
    /// border was to be done before one that took its left or right part away. Of equal merges the left one is
    /// done first.
    fn are_neighbours(&self, mut left: u32, mut right: u32) -> bool {
        let (mut left_goes, mut right_goes) = (NONE, NONE);
        loop {
            let product = self.product(left, right);
            if product < left_goes && product <= right_goes && product != NONE {
                return false;
            }
            match (self.parts[left as usize], self.parts[right as usize]) {
                (NO_PARTS, NO_PARTS) => return true,
                ((_, end), right_parts) if right_parts == NO_PARTS || (end != NONE && left > right) => {
                    left_goes = left;
                    left = end;
                }
                (_, (start, _)) => {
                    right_goes = right;
                    right = start;
                }
            }
        }
    }
}

/// A piece of up to [`CACHED_BYTES`] as words: its bytes, zeros, and its length in the last byte.
fn padded(piece: &[u8]) -> [u64; 9] {
    let mut bytes = [0; 72];
    bytes[..piece.len()].copy_from_slice(piece);
    bytes[71] = piece.len() as u8;
    let mut words = [0; 9];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("chunks have eight bytes"));
    }
    words
}

fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    // The tables use the highest bits, which a product mixes best.
    hasher.finish().wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
