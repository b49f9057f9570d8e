//! Hash tables that are filled once, when a vocabulary is loaded. Know no merging.
//!
//! All are open addressing, at most half full, and searched from one place on to the first free one. So a look-up
//! is bounded by the longest row of filled places in the table, whatever it looks for. The highest bits of a hash
//! choose the place: in a product they depend on all bits.

use super::words::Words;
use super::NONE;

/// Ids have this many bits, so that an id and what it is filed under fit into one slot.
pub(in crate::tokenizer) const ID_BITS: u32 = 20;

/// A piece of up to 15 bytes as two words: its bytes, zeros, and its length in the last four bits.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) low: u64,
    pub(super) high: u64,
}

/// The longest piece that has a [`Key`].
pub(super) const KEY_BYTES: usize = 15;

impl Key {
    /// The key of no piece, with a length that no short token has.
    pub(super) const NO_TOKEN: Self = Self { low: 0, high: u64::MAX };

    /// This many bytes are read for a key.
    pub(super) const READ: usize = 16;

    /// The key of `text[start..end]`, which has 1 to 15 bytes.
    ///
    /// # Safety
    ///
    /// There must be [`Key::READ`] bytes from `start` on.
    #[inline(always)]
    pub(super) unsafe fn new(text: &[u8], start: usize, end: usize) -> Self {
        debug_assert!(start + Self::READ <= text.len() && end - start <= KEY_BYTES);
        // SAFETY: the caller promises that these bytes are there.
        let bytes = unsafe { text.as_ptr().add(start).cast::<[u8; Self::READ]>().read_unaligned() };
        Self::from_bytes(bytes, end - start)
    }

    /// As [`Key::new`], anywhere in a text.
    #[inline]
    pub(super) fn at_end(text: &[u8], start: usize, end: usize) -> Self {
        let rest = &text[start..];
        if let Some(&bytes) = rest.first_chunk() {
            return Self::from_bytes(bytes, end - start);
        }
        // The last bytes of the text, moved: a copy of part of them would have to be waited for.
        if let Some(&bytes) = text.last_chunk::<{ Self::READ }>() {
            let word = u128::from_le_bytes(bytes) >> (8 * (Self::READ - rest.len()));
            return Self::from_bytes(word.to_le_bytes(), end - start);
        }
        let mut bytes = [0; Self::READ];
        bytes[..rest.len()].copy_from_slice(rest);
        Self::from_bytes(bytes, end - start)
    }

    #[inline(always)]
    fn from_bytes(bytes: [u8; Self::READ], length: usize) -> Self {
        let word = u128::from_le_bytes(bytes) & MASKS[length & 15];
        Self { low: word as u64, high: (word >> 64) as u64 | (length as u64) << 60 }
    }

    /// The highest bits are the ones to use.
    #[inline(always)]
    pub(super) fn hash(self) -> u64 {
        self.low.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(self.high.wrapping_mul(0xD1B5_4A32_D192_ED03))
    }
}

/// The first bytes of 16, by how many.
static MASKS: [u128; 16] = {
    let mut masks = [0; 16];
    let mut length = 1;
    while length < 16 {
        masks[length] = (1 << (8 * length)) - 1;
        length += 1;
    }
    masks
};

/// Tokens of up to 13 bytes by their bytes. The id stands in the slot, so a look-up reads one cache line.
pub(super) struct ShortTokens {
    /// The words of a key, the id in bits 40 to 59 of the second one. Free if that is zero: no token is empty.
    words: Words,
    shift: u32,
}

impl ShortTokens {
    /// The longest token that fits into a slot beside its id.
    pub(super) const BYTES: usize = 13;

    const ID_SHIFT: u32 = 40;
    const ID_MASK: u64 = ((1 << ID_BITS) - 1) << Self::ID_SHIFT;

    /// Room for this many tokens.
    pub(super) fn new(capacity: usize) -> Self {
        let (slots, shift) = slots_for(capacity);
        Self { words: Words::zeros(2 * slots), shift }
    }

    /// Files a token. It must not be there yet.
    pub(super) fn insert(&mut self, key: Key, id: u32) {
        let mask = self.words.len() - 1;
        let mut slot = (key.hash() >> self.shift) as usize * 2;
        while self.words[slot + 1] != 0 {
            slot = (slot + 2) & mask;
        }
        self.words[slot] = key.low;
        self.words[slot + 1] = key.high | u64::from(id) << Self::ID_SHIFT;
    }

    /// Asks for the memory that a look-up with this hash reads.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch(self.words.as_ptr().wrapping_add((hash >> self.shift) as usize * 2));
    }

    /// The token with this key, whose hash the caller knows.
    #[inline]
    pub(super) fn get(&self, key: Key, hash: u64) -> Option<u32> {
        let mask = self.words.len() - 1;
        let mut slot = (hash >> self.shift) as usize * 2;
        loop {
            let (low, high) = (self.words[slot], self.words[slot + 1]);
            if low == key.low && high & !Self::ID_MASK == key.high {
                return Some(((high & Self::ID_MASK) >> Self::ID_SHIFT) as u32);
            }
            if high == 0 {
                return None;
            }
            slot = (slot + 2) & mask;
        }
    }
}

/// The product of each pair of tokens that merge.
///
/// In buckets that are one cache line each and are read as a whole: whether a pair has a product cannot be foreseen, so
/// a look-up has no branch on it.
pub(super) struct Products {
    /// Left, right and product, 20 bits each, or zero: a product is not its own part. Buckets fill from the front.
    words: Words,
    /// For each bucket, bits that are set by the pairs that belong there: most pairs that have no product are told by
    /// these, which stay in a cache near the core.
    bits: Vec<u32>,
    shift: u32,
}

/// Places of a bucket.
type Bucket = [u64; 8];

impl Products {
    /// Half of the places stay free, so that few buckets are full.
    pub(super) fn new(capacity: usize) -> Self {
        let buckets = (capacity / 4).max(2).next_power_of_two();
        let words = Words::zeros((buckets + 1) * Self::BUCKET);
        Self { words, bits: vec![0; buckets], shift: u64::BITS - buckets.trailing_zeros() }
    }

    const BUCKET: usize = size_of::<Bucket>() / size_of::<u64>();

    /// The bucket where a pair belongs, and its bit.
    #[inline(always)]
    fn home(&self, pair: u64) -> (usize, u32) {
        let hash = hash_word(pair);
        ((hash >> self.shift) as usize, 1 << (hash >> (self.shift - 5) & 31))
    }

    /// Files pairs, which must not be there yet: left, right and product.
    pub(super) fn insert_all(&mut self, pairs: impl Iterator<Item = (u32, u32, u32)>) {
        // To look for a free place would be most of the work.
        let mut taken = vec![0u8; self.bits.len()];
        for (left, right, product) in pairs {
            let pair = pair(left, right);
            let (mut bucket, bit) = self.home(pair);
            self.bits[bucket] |= bit;
            while usize::from(taken[bucket]) == Self::BUCKET {
                bucket = (bucket + 1) % self.bits.len();
            }
            let place = bucket * Self::BUCKET + usize::from(taken[bucket]);
            self.words[place] = pair << ID_BITS | u64::from(product);
            taken[bucket] += 1;
        }
    }

    /// The product of two tokens, or `NONE`.
    #[inline(always)]
    pub(super) fn get(&self, left: u32, right: u32) -> u32 {
        let pair = pair(left, right);
        let (home, bit) = self.home(pair);
        // SAFETY: there is a word of bits for each bucket, as many as the bits that the shift leaves can say.
        let bits = unsafe { *self.bits.get_unchecked(home) };
        // The last bucket is empty. To read that one takes no branch, and no time.
        let bucket = if bits & bit == 0 { self.bits.len() } else { home };
        let (mut found, is_full) = self.get_from(bucket, pair);
        if (found == 0) & is_full {
            found = self.get_behind(home, pair);
        }
        // Zero is no product.
        if found == 0 {
            NONE
        } else {
            found as u32 & ((1 << ID_BITS) - 1)
        }
    }

    /// The place of a pair in a bucket, or zero, and whether the bucket is full: then the pair may be in the next one.
    #[inline(always)]
    fn get_from(&self, bucket: usize, pair: u64) -> (u64, bool) {
        let first = bucket * Self::BUCKET;
        debug_assert!(first + Self::BUCKET <= self.words.len());
        // SAFETY: callers name one of the buckets, or the empty one.
        let places = unsafe { &*self.words.as_ptr().add(first).cast::<Bucket>() };
        let found = places.iter().fold(0, |found, &place| found | if place >> ID_BITS == pair { place } else { 0 });
        (found, places[Self::BUCKET - 1] != 0)
    }

    /// As `get_from`, in the buckets behind this one.
    #[cold]
    fn get_behind(&self, mut bucket: usize, pair: u64) -> u64 {
        loop {
            bucket = (bucket + 1) % self.bits.len();
            let (found, is_full) = self.get_from(bucket, pair);
            if found != 0 || !is_full {
                return found;
            }
        }
    }
}

/// An id that no token has.
pub(super) const NO_TOKEN: u32 = (1 << ID_BITS) - 1;

#[inline]
fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << ID_BITS | u64::from(right)
}

#[inline]
fn hash_word(word: u64) -> u64 {
    word.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Ids that are filed under something known elsewhere.
pub(super) struct IdTable {
    slots: Vec<u32>,
    shift: u32,
}

impl IdTable {
    /// Room for this many ids.
    pub(super) fn new(capacity: usize) -> Self {
        let (slots, shift) = slots_for(capacity);
        Self { slots: vec![NONE; slots], shift }
    }

    /// Files `id`, which must not be there yet.
    pub(super) fn insert(&mut self, hash: u64, id: u32) {
        let mask = self.slots.len() - 1;
        let mut slot = (hash >> self.shift) as usize;
        while self.slots[slot] != NONE {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = id;
    }

    pub(super) fn get(&self, hash: u64, is_wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut slot = (hash >> self.shift) as usize;
        while self.slots[slot] != NONE {
            if is_wanted(self.slots[slot]) {
                return Some(self.slots[slot]);
            }
            slot = (slot + 1) & mask;
        }
        None
    }
}

/// Asks for memory that is soon to be read.
#[inline(always)]
pub(super) fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: asking for memory has no effect that a program can see, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// The number of slots, and how far to shift a hash for one of them.
fn slots_for(capacity: usize) -> (usize, u32) {
    let slots = (capacity * 2).max(2).next_power_of_two();
    (slots, u64::BITS - slots.trailing_zeros())
}
