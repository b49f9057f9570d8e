//! The vocabulary and its merges: one piece to ids, one id to bytes. Knows no splitter and no added tokens.

use std::borrow::Cow;
use std::hash::Hasher;
use std::mem::MaybeUninit;
use std::sync::Mutex;

use rustc_hash::FxHasher;

#[cfg(target_arch = "x86_64")]
use super::split::Avx2;
use super::split::BATCH;
use cache::{PieceCache, ShortPieces};
use characters::Characters;
use merge::short::MOST_PLACES;
pub(super) use merge::Merger;
pub(super) use tables::ID_BITS;
use tables::{IdTable, Key, Products, ShortTokens, KEY_BYTES};

mod cache;
mod characters;
mod merge;
mod tables;
mod words;

/// No id: vocabularies are far smaller.
pub(super) const NONE: u32 = u32::MAX;

/// The parts of a token that no merge makes.
pub(super) const NO_PARTS: (u32, u32) = (NONE, NONE);

/// So many new pieces of a batch are better encoded together.
const MANY: usize = 6;

/// More encoders than this are not kept for the next calls. Each has 4 MB, or 12 where pieces are long and new.
const MOST_IDLE: usize = 16;

/// How many tokens before it is written a place of a table is asked for.
const AHEAD: usize = 16;

/// The bytes of all tokens, by id.
pub(super) struct TokenBytes {
    bytes: Cow<'static, [u8]>,
    ends: Vec<u32>,
    longest: usize,
    /// How many have no place in [`ShortTokens`].
    long: usize,
}

impl TokenBytes {
    /// The tokens whose bytes end at `ends`, each where the next one begins. One without bytes is an id that the
    /// vocabulary does not have.
    pub(super) fn new(bytes: impl Into<Cow<'static, [u8]>>, ends: impl Iterator<Item = u32>) -> Self {
        let (mut start, mut longest, mut long) = (0, 0, 0);
        let ends = ends.inspect(|&end| {
            let length = (end - start) as usize;
            longest = length.max(longest);
            long += usize::from(length > ShortTokens::BYTES);
            start = end;
        });
        let ends = ends.collect();
        Self { bytes: bytes.into(), ends, longest, long }
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

/// The two tokens that merge to an id, by id.
pub(super) enum Parts {
    /// Those of the ids from `first` on, of three bytes each. The ids before have none.
    Packed {
        first: u32,
        merges: &'static [u8],
    },
    Listed(Vec<(u32, u32)>),
}

impl Parts {
    pub(super) fn packed(first: u32, merges: &'static [u8]) -> Self {
        Self::Packed { first, merges }
    }

    /// One more than the highest id.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Packed { first, merges } => *first as usize + merges.len() / 6,
            Self::Listed(parts) => parts.len(),
        }
    }

    #[inline]
    fn get(&self, id: u32) -> (u32, u32) {
        match self {
            Self::Packed { first, merges } => match id.checked_sub(*first) {
                Some(merge) => {
                    let at = merge as usize * 6;
                    let part = |at: usize| u32::from_le_bytes([merges[at], merges[at + 1], merges[at + 2], 0]);
                    (part(at), part(at + 3))
                }
                None => NO_PARTS,
            },
            Self::Listed(parts) => parts[id as usize],
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..self.len() as u32).map(|id| self.get(id))
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
    parts: Parts,
    products: Products,
    /// The products of two bytes, by both.
    byte_products: Box<[u32]>,
    /// Bytes to the token that merging makes of them, up to [`ShortTokens::BYTES`] and above.
    short: ShortTokens,
    long: IdTable,
    characters: Characters,
    /// Encoders that no call has just now.
    // Each call takes one out and puts it back: that moves an address, not the encoder.
    #[allow(clippy::vec_box)]
    idle: Mutex<Vec<Box<Encoder>>>,
}

/// What encoding writes to, besides ids.
#[derive(Default)]
pub(super) struct Encoder {
    /// Whether the last pieces had many that were not seen before.
    many_are_new: bool,
    cache: PieceCache,
    merger: Merger,
}

impl Encoder {
    /// Appends the ids of a piece that is long, or lost its place among the short ones, if they are here.
    #[inline]
    fn append_longer(&self, bytes: &[u8], piece: &Prepared, ids: &mut Vec<u32>) -> bool {
        match self.cache.long.get(piece.hash, bytes) {
            Some(kept) => {
                ids.extend_from_slice(kept);
                true
            }
            None => false,
        }
    }
}

impl PieceCache {
    /// Keeps the ids of a piece.
    #[inline]
    fn insert(&mut self, bytes: &[u8], &Prepared { key, hash }: &Prepared, ids: &[u32]) {
        if bytes.len() <= KEY_BYTES {
            self.short.insert(hash, key, ids);
        }
        // One of two ids and more took long to find: should it lose its place, it is still known.
        if bytes.len() > KEY_BYTES || ids.len() > 1 {
            self.long.insert(hash, bytes, ids);
        }
    }
}

impl Vocabulary {
    /// A vocabulary where `parts` says, for each id, which two tokens make it. No token is taken whole yet.
    /// Ids have [`ID_BITS`] bits.
    pub(super) fn new(tokens: TokenBytes, byte_ids: [u32; 256], parts: Parts) -> Self {
        let mut products = Products::new(parts.len());
        let mut byte_products = vec![NONE; 1 << 16].into_boxed_slice();
        let merges = (0..).zip(parts.iter()).filter(|&(_, parts)| parts != NO_PARTS);
        products.insert_all(merges.map(|(id, (left, right))| {
            if let [first, second] = *tokens.get(id) {
                byte_products[usize::from(first) << 8 | usize::from(second)] = id;
            }
            (left, right, id)
        }));
        Self {
            short: ShortTokens::new(tokens.len()),
            long: IdTable::new(tokens.long),
            tokens,
            byte_ids,
            parts,
            products,
            byte_products,
            characters: Characters::none(),
            idle: Mutex::default(),
        }
    }

    /// Says, once, which ids stand for a whole piece: merging must make each of them of its bytes.
    pub(super) fn take_whole(&mut self, ids: impl Iterator<Item = u32> + Clone) {
        let mut ahead = ids.clone().skip(AHEAD);
        for id in ids.clone() {
            if let Some(id) = ahead.next() {
                self.short.prefetch(self.tokens.key(id).hash());
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
        Some(self.parts.get(id)).filter(|&parts| parts != NO_PARTS)
    }

    /// What `work` returns, which has an encoder for itself while it lasts: one that was used before, if one is idle.
    pub(super) fn with_encoder<T>(&self, work: impl FnOnce(&mut Encoder) -> T) -> T {
        // Nobody waits: a process may fork while another thread holds the lock.
        let idle = self.idle.try_lock().ok().and_then(|mut idle| idle.pop());
        let mut encoder = idle.unwrap_or_default();
        let result = work(&mut encoder);
        if let Ok(mut idle) = self.idle.try_lock() {
            if idle.len() < MOST_IDLE {
                idle.push(encoder);
            }
        }
        result
    }

    /// Drops the encoders that are idle, and what they know.
    pub(super) fn forget_pieces(&self) {
        if let Ok(mut idle) = self.idle.try_lock() {
            idle.clear();
        }
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
        encoder: &mut Encoder,
        ids: &mut Vec<u32>,
    ) {
        let mut prepared = [const { MaybeUninit::uninit() }; BATCH];
        let batch = Batch { text, start, ends, prepared: prepare(&encoder.cache, text, start, ends, &mut prepared) };
        if encoder.many_are_new {
            encoder.many_are_new = self.encode_new(&batch, encoder) >= MANY;
        }
        let (mut done, mut missed) = (0, 0);
        loop {
            ids.reserve((ends.len() - done) * ShortPieces::MOST_IDS);
            let (pieces, written) = encoder.cache.short.write_ids(&batch.prepared[done..], ids.spare_capacity_mut());
            // SAFETY: so many ids were written behind the ones before.
            unsafe { ids.set_len(ids.len() + written) };
            done += pieces;
            if done == ends.len() {
                break;
            }
            let (bytes, piece) = batch.piece(done);
            if bytes.len() <= KEY_BYTES || !encoder.append_longer(bytes, piece, ids) {
                missed += 1;
                self.encode_missed(bytes, piece, encoder, ids);
            }
            done += 1;
        }
        encoder.many_are_new |= missed >= MANY;
    }

    /// Fills the cache with the pieces that are not there: all at once, so that one does not wait for another. Returns
    /// how many there were.
    fn encode_new(&self, batch: &Batch<'_>, encoder: &mut Encoder) -> usize {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = Avx2::detect() {
            // SAFETY: the processor has the features that the function needs.
            return unsafe { self.encode_new_with_avx2(avx2, batch, encoder) };
        }
        self.encode_new_pieces(batch, encoder)
    }

    /// # Safety
    ///
    /// The processor must have the named features. A value of [`Avx2`] says that it has.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
    unsafe fn encode_new_with_avx2(&self, _: Avx2, batch: &Batch<'_>, encoder: &mut Encoder) -> usize {
        self.encode_new_pieces(batch, encoder)
    }

    #[inline(always)]
    fn encode_new_pieces(&self, batch: &Batch<'_>, encoder: &mut Encoder) -> usize {
        let Encoder { cache, merger: Merger { short: merges, .. }, .. } = encoder;
        let mut missing = [0; BATCH];
        let missing = cache.short.missing(batch.prepared, &mut missing);
        for &number in missing {
            let hash = batch.prepared[number as usize].hash;
            self.short.prefetch(hash);
            cache.long.prefetch(hash);
        }
        let mut count = 0;
        for &number in missing {
            let (bytes, piece) = batch.piece(number as usize);
            if bytes.len() > 3 * MOST_PLACES {
                continue;
            }
            if let Some(id) = self.token(bytes, piece) {
                cache.insert(bytes, piece, &[id]);
                count += 1;
                continue;
            }
            if cache.long.get(piece.hash, bytes).is_some() {
                continue;
            }
            count += usize::from(merges.start(self, bytes, number as usize));
        }
        merges.finish(&self.products);
        merges.take(|number, ids| {
            let (bytes, piece) = batch.piece(number);
            cache.insert(bytes, piece, ids);
        });
        count
    }

    /// The token that has these bytes.
    #[inline]
    fn token(&self, bytes: &[u8], &Prepared { key, hash }: &Prepared) -> Option<u32> {
        match bytes.len() {
            0..=ShortTokens::BYTES => self.short.get(key, hash),
            14..=KEY_BYTES => self.long_token(hash_bytes(bytes), bytes),
            _ => self.long_token(hash, bytes),
        }
    }

    /// Appends the ids of a piece that is not where it is looked for first.
    #[inline(never)]
    fn encode_missed(&self, bytes: &[u8], piece: &Prepared, encoder: &mut Encoder, ids: &mut Vec<u32>) {
        let before = ids.len();
        if let Some(id) = self.token(bytes, piece) {
            ids.push(id);
        } else if encoder.append_longer(bytes, piece, ids) {
            if bytes.len() <= KEY_BYTES {
                encoder.cache.short.insert(piece.hash, piece.key, &ids[before..]);
            }
            return;
        } else {
            encoder.merger.merge(self, bytes, ids);
        }
        encoder.cache.insert(bytes, piece, &ids[before..]);
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

    /// Whether merging makes just these two tokens of their joined bytes. It must make each of them of its own.
    ///
    /// Undoes the merges at the border, the last one first. The two sides are as they are if no merge over the
    /// border was to be done before one that took its left or right part away. Of equal merges the left one is
    /// done first.
    fn are_neighbours(&self, mut left: u32, mut right: u32) -> bool {
        let (mut left_goes, mut right_goes) = (NONE, NONE);
        loop {
            let product = self.products.get(left, right);
            if product < left_goes && product <= right_goes && product != NONE {
                return false;
            }
            match (self.parts.get(left), self.parts.get(right)) {
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

/// Some pieces of a text, one behind the other.
struct Batch<'a> {
    text: &'a [u8],
    start: usize,
    ends: &'a [usize],
    prepared: &'a [Prepared],
}

impl Batch<'_> {
    #[inline(always)]
    fn piece(&self, number: usize) -> (&[u8], &Prepared) {
        let start = if number == 0 { self.start } else { self.ends[number - 1] };
        (&self.text[start..self.ends[number]], &self.prepared[number])
    }
}

/// The keys and hashes of pieces, whose memory in the caches is asked for.
#[inline(always)]
fn prepare<'p>(
    cache: &PieceCache,
    text: &[u8],
    start: usize,
    ends: &[usize],
    prepared: &'p mut [MaybeUninit<Prepared>; BATCH],
) -> &'p [Prepared] {
    let last = ends.iter().nth_back(1).copied().unwrap_or(start);
    // SAFETY: in the first case there are as many bytes behind the last start, and so behind each, as are read.
    match last + Key::READ <= text.len() {
        true => prepare_each(cache, text, start, ends, prepared, |start, end| unsafe { Key::new(text, start, end) }),
        false => prepare_each(cache, text, start, ends, prepared, |start, end| Key::at_end(text, start, end)),
    }
    // SAFETY: as many were written as there are ends, which are not more than a batch.
    unsafe { &*(&raw const prepared[..ends.len()] as *const [Prepared]) }
}

#[inline(always)]
fn prepare_each(
    cache: &PieceCache,
    text: &[u8],
    mut start: usize,
    ends: &[usize],
    prepared: &mut [MaybeUninit<Prepared>; BATCH],
    key: impl Fn(usize, usize) -> Key,
) {
    let short = cache.short.view();
    for (prepared, &end) in prepared.iter_mut().zip(ends) {
        prepared.write(if end - start <= KEY_BYTES {
            let key = key(start, end);
            let hash = key.hash();
            short.prefetch(hash);
            Prepared { key, hash }
        } else {
            prepare_long(cache, &text[start..end])
        });
        start = end;
    }
}

#[inline(never)]
fn prepare_long(cache: &PieceCache, piece: &[u8]) -> Prepared {
    let hash = hash_bytes(piece);
    cache.long.prefetch(hash);
    Prepared { key: Key::NO_TOKEN, hash }
}

fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    // The tables use the highest bits, which a product mixes best.
    hasher.finish().wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
