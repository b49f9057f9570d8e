//! The ids of pieces that were merged before. Bounded, shared by threads, and never waited for. Knows no merging.
//!
//! Each place holds one piece; a new one takes the place of one of two old ones. A place is guarded by the count of its
//! writes: a reader who sees the count change, or a write going on, has found nothing; a writer who meets another
//! one leaves. All words are atomic, so a race can lose an entry but not mix two.

use std::sync::atomic::{fence, AtomicU64, Ordering};

use super::tables::{prefetch, ID_BITS};

/// Words of a cache line.
const LINE: usize = 8;

/// Ids of 21 bits that fit into a word.
const IDS_PER_WORD: usize = 3;

/// Pieces of up to `KEY` words with up to `3 * IDS` ids, in sets of two places each.
/// `2 * (1 + KEY + IDS)` must be a number of whole cache lines.
pub(super) struct PieceCache<const KEY: usize, const IDS: usize> {
    words: Box<[AtomicU64]>,
    /// Where the first cache line of `words` begins.
    first: usize,
    shift: u32,
}

impl<const KEY: usize, const IDS: usize> PieceCache<KEY, IDS> {
    const PLACE: usize = 1 + KEY + IDS;

    /// The most ids that are kept of a piece.
    pub(super) const MOST_IDS: usize = IDS_PER_WORD * IDS;

    /// A cache with this many sets, a power of two. The highest bits of a hash choose one.
    pub(super) fn new(sets: usize) -> Self {
        assert!(sets.is_power_of_two() && 2 * Self::PLACE % LINE == 0);
        let words = zeroed(sets * 2 * Self::PLACE + LINE - 1);
        let first = words.as_ptr().align_offset(LINE * size_of::<AtomicU64>()).min(LINE - 1);
        Self { words, first, shift: u64::BITS - sets.trailing_zeros() }
    }

    #[inline(always)]
    fn places(&self, hash: u64) -> (&[AtomicU64], &[AtomicU64]) {
        let at = self.first + (hash >> self.shift) as usize * 2 * Self::PLACE;
        self.words[at..at + 2 * Self::PLACE].split_at(Self::PLACE)
    }

    /// Asks for the memory that a look-up with this hash reads first.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        let (one, other) = self.places(hash);
        prefetch(one.as_ptr());
        prefetch(other.as_ptr());
    }

    /// Appends the ids of the piece with this key and says so, if they are here.
    #[inline]
    pub(super) fn get(&self, hash: u64, key: &[u64; KEY], ids: &mut Vec<u32>) -> bool {
        let (one, other) = self.places(hash);
        Self::read(one, key, ids) || Self::read(other, key, ids)
    }

    #[inline(always)]
    fn read(place: &[AtomicU64], key: &[u64; KEY], ids: &mut Vec<u32>) -> bool {
        let (kept_key, kept_ids) = place[1..].split_at(KEY);
        let before = place[0].load(Ordering::Acquire);
        let count = (before & 0xFF) as usize;
        // The lowest bit of the count of writes is set while one goes on.
        let is_wanted = kept_key.iter().zip(key).all(|(kept, word)| kept.load(Ordering::Relaxed) == *word);
        if !is_wanted || before & WRITING != 0 || count == 0 || count > Self::MOST_IDS {
            return false;
        }
        let length = ids.len();
        for word in &kept_ids[..count.div_ceil(IDS_PER_WORD)] {
            let word = word.load(Ordering::Relaxed);
            ids.extend([word, word >> ID_WIDTH, word >> (2 * ID_WIDTH)].map(|id| id as u32 & ID_MASK));
        }
        ids.truncate(length + count);
        fence(Ordering::Acquire);
        if place[0].load(Ordering::Relaxed) != before {
            ids.truncate(length);
            return false;
        }
        true
    }

    /// Keeps the ids of a piece, if there are not too many.
    pub(super) fn insert(&self, hash: u64, key: &[u64; KEY], ids: &[u32]) {
        if ids.len() > Self::MOST_IDS {
            return;
        }
        let (one, other) = self.places(hash);
        let headers = [one, other].map(|place| place[0].load(Ordering::Relaxed));
        // The first one is free, or the second one, or they take turns.
        let place = match headers {
            [0, _] => one,
            [_, 0] => other,
            [first, second] if (first ^ second) & (2 * WRITING) == 0 => one,
            _ => other,
        };
        let before = place[0].load(Ordering::Relaxed);
        let writing = (before & !0xFF) + WRITING;
        if before & WRITING != 0
            || place[0].compare_exchange(before, writing, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return;
        }
        fence(Ordering::Release);
        let (kept_key, kept_ids) = place[1..].split_at(KEY);
        for (kept, word) in kept_key.iter().zip(key) {
            kept.store(*word, Ordering::Relaxed);
        }
        for (kept, ids) in kept_ids.iter().zip(ids.chunks(IDS_PER_WORD)) {
            let word = ids.iter().rev().fold(0, |word, &id| word << ID_WIDTH | u64::from(id));
            kept.store(word, Ordering::Relaxed);
        }
        place[0].store((writing + WRITING) | ids.len() as u64, Ordering::Release);
    }
}

/// Bits of an id in a word.
const ID_WIDTH: u32 = 21;
const ID_MASK: u32 = (1 << ID_WIDTH) - 1;
const _: () = assert!(ID_BITS <= ID_WIDTH && ID_WIDTH as usize * IDS_PER_WORD <= 64);

/// The lowest bit of the count of writes; below it is the number of ids.
const WRITING: u64 = 0x100;

/// Words that cost no memory before they are first written.
fn zeroed(words: usize) -> Box<[AtomicU64]> {
    let layout = std::alloc::Layout::array::<AtomicU64>(words).expect("a cache is far smaller than the address space");
    // SAFETY: the layout is not empty, since a cache has places.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    if start.is_null() {
        std::alloc::handle_alloc_error(layout);
    }
    let slice = std::ptr::slice_from_raw_parts_mut(start.cast::<AtomicU64>(), words);
    // SAFETY: `start` was allocated just now with the layout of this slice, and zero is a value of AtomicU64.
    unsafe { Box::from_raw(slice) }
}
