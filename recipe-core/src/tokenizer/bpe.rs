//! The vocabulary and its merges: one piece to ids, one id to bytes. Knows no splitter and no added tokens.

use std::hash::Hasher;
use std::mem::MaybeUninit;

use rustc_hash::FxHasher;

use super::split::BATCH;
use cache::PieceCache;
use characters::Characters;
pub(super) use merge::Merger;
pub(super) use tables::ID_BITS;
use tables::{IdTable, Key, Products, RecentPairs, ShortTokens, KEY_BYTES};

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

/// How many tokens before it is written a place of a table is asked for.
const AHEAD: usize = 16;

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

    /// The key of `id`; of no use where that has more than [`KEY_BYTES`].
    fn key(&self, id: u32) -> Key {
        let range = self.range(id);
        let end = range.end.min(range.start + KEY_BYTES);
        match range.start + Key::READ <= self.bytes.len() {
            // SAFETY: there are as many bytes as are read.
            true => unsafe { Key::new(&self.bytes, range.start, end) },
            false => Key::at_end(&self.bytes, range.start, end),
        }
    }

    /// One more than the highest id.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// A piece on its way through the tables. One of over [`KEY_BYTES`] has the hash of its bytes.
struct Prepared {
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
    recent_pairs: RecentPairs,
    /// The products of two bytes, by both.
    byte_products: Box<[u32]>,
    /// Bytes to the token that merging makes of them, up to [`ShortTokens::BYTES`] and above.
    short: ShortTokens,
    long: IdTable,
    characters: Characters,
    /// Room for the pieces of a few megabytes of text: 2 and 4 MB, of which what is not used is never touched.
    short_pieces: PieceCache<2, 1>,
    long_pieces: PieceCache<9, 6>,
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
            if let Some(&(left, right)) = parts.get(id as usize + AHEAD) {
                products.prefetch(left, right);
            }
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
            recent_pairs: RecentPairs::new(),
            byte_products,
            characters: Characters::none(),
            short_pieces: PieceCache::new(1 << 15),
            long_pieces: PieceCache::new(1 << 14),
        }
    }

    /// Says, once, which ids stand for a whole piece: merging must make each of them of its bytes.
    pub(super) fn take_whole(&mut self, ids: impl Iterator<Item = u32> + Clone) {
        let mut ahead = ids.clone().skip(AHEAD);
        for id in ids.clone() {
            if let Some(id) = ahead.next() {
                self.short.view().prefetch(self.tokens.key(id).hash());
            }
            let token = self.tokens.get(id);
            if token.len() <= ShortTokens::BYTES {
                self.short.insert(self.tokens.key(id), id);
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

    /// Appends the ids of the pieces of `text` from `start` on that end at `ends`: up to [`BATCH`], none of them empty, so
    /// that the ends ascend.
    ///
    /// Asks for the memory that is read for all pieces before it reads it for the first one.
    #[inline(always)]
    pub(super) fn encode_batch(
        &self,
        text: &[u8],
        start: usize,
        ends: &[usize],
        merger: &mut Merger,
        ids: &mut Vec<u32>,
    ) {
        let mut prepared = [const { MaybeUninit::uninit() }; BATCH];
        let last = ends.iter().nth_back(1).copied().unwrap_or(start);
        // SAFETY: in the first case there are as many bytes behind the last start, and so behind each, as are read.
        match last + Key::READ <= text.len() {
            true => self.prepare(text, start, ends, &mut prepared, |start, end| unsafe { Key::new(text, start, end) }),
            false => self.prepare(text, start, ends, &mut prepared, |start, end| Key::at_end(text, start, end)),
        }
        let short = self.short.view();
        let mut at = start;
        let mut length = ids.len();
        ids.reserve(ends.len());
        for (prepared, &end) in prepared.iter().zip(ends) {
            // SAFETY: `prepare` walks the same places and ends, and writes each of them.
            let prepared = unsafe { prepared.assume_init_ref() };
            if let Some(id) = short.get_first(prepared.key, prepared.hash) {
                // SAFETY: there is room for one id for each piece that is left.
                unsafe { ids.as_mut_ptr().add(length).write(id) };
                length += 1;
            } else {
                // SAFETY: the ids up to this length were written.
                unsafe { ids.set_len(length) };
                self.encode_missed(&text[at..end], prepared, merger, ids);
                length = ids.len();
                ids.reserve(ends.len());
            }
            at = end;
        }
        // SAFETY: the ids up to this length were written.
        unsafe { ids.set_len(length) };
    }

    #[inline(always)]
    fn prepare(
        &self,
        text: &[u8],
        mut start: usize,
        ends: &[usize],
        prepared: &mut [MaybeUninit<Prepared>; BATCH],
        key: impl Fn(usize, usize) -> Key,
    ) {
        let short = self.short.view();
        for (prepared, &end) in prepared.iter_mut().zip(ends) {
            if end - start <= KEY_BYTES {
                let key = key(start, end);
                let hash = key.hash();
                short.prefetch(hash);
                prepared.write(Prepared { key, hash });
            } else {
                prepared.write(self.prepare_long(&text[start..end]));
            }
            start = end;
        }
    }

    #[inline(never)]
    fn prepare_long(&self, piece: &[u8]) -> Prepared {
        let hash = hash_bytes(piece);
        self.long_pieces.prefetch(hash);
        Prepared { key: Key::NO_TOKEN, hash }
    }

    /// Appends the ids of a piece that is not where a short token is looked for first.
    #[inline(never)]
    fn encode_missed(&self, piece: &[u8], &Prepared { key, hash }: &Prepared, merger: &mut Merger, ids: &mut Vec<u32>) {
        let is_short = piece.len() <= KEY_BYTES;
        let token = match piece.len() {
            0..=ShortTokens::BYTES => self.short.get(key, hash),
            _ if is_short => self.long_token(hash_bytes(piece), piece),
            _ => self.long_token(hash, piece),
        };
        if let Some(id) = token {
            return ids.push(id);
        }
        let before = ids.len();
        if is_short {
            let words = [key.low, key.high];
            if !self.short_pieces.get(hash, &words, ids) {
                merger.merge(self, piece, ids);
                self.short_pieces.insert(hash, &words, &ids[before..]);
            }
        } else if piece.len() <= CACHED_BYTES {
            let words = padded(piece);
            if !self.long_pieces.get(hash, &words, ids) {
                merger.merge(self, piece, ids);
                self.long_pieces.insert(hash, &words, &ids[before..]);
            }
        } else {
            merger.merge(self, piece, ids);
        }
    }

    /// The token of over [`ShortTokens::BYTES`] that has these bytes.
    #[inline]
    fn long_token(&self, hash: u64, piece: &[u8]) -> Option<u32> {
        match piece.len() > self.tokens.longest {
            true => None,
            false => self.long.get(hash, |id| self.tokens.get(id) == piece),
        }
    }

    /// Appends the ids that merging makes of one piece: the lowest rank first, leftmost of equals.
    pub(super) fn merge_piece(&self, piece: &[u8], merger: &mut Merger, ids: &mut Vec<u32>) {
        merger.merge(self, piece, ids);
    }

    /// The product of two tokens that stand side by side, or `NONE`.
    #[inline(always)]
    fn product(&self, left: u32, right: u32) -> u32 {
        self.recent_pairs.get(&self.products, left, right)
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
