//! The ids of pieces that were merged before. Bounded, shared by threads, and never waited for. Knows no merging.
//!
//! Each place holds one piece; a new one takes the place of an old one. A place is guarded by the count of its
//! writes: a reader who sees the count change, or a write going on, has found nothing; a writer who meets another
//! one leaves. All words are atomic, so a race can lose an entry but not mix two.

use std::sync::atomic::{fence, AtomicU64, Ordering};

/// Words of a cache line.
const LINE: usize = 8;

/// Pieces of up to `KEY` words with up to `2 * IDS` ids. `1 + KEY + IDS` must be a number of whole cache lines.
pub(super) struct PieceCache<const KEY: usize, const IDS: usize> {
    words: Box<[AtomicU64]>,
    /// Where the first cache line of `words` begins.
    first: usize,
    shift: u32,
}

impl<const KEY: usize, const IDS: usize> PieceCache<KEY, IDS> {
    const WORDS: usize = 1 + KEY + IDS;

    /// A cache with this many places, a power of two. The highest bits of a hash choose one.
    pub(super) fn new(places: usize) -> Self {
        assert!(places.is_power_of_two() && Self::WORDS % LINE == 0);
        let words = zeroed(places * Self::WORDS + LINE - 1);
        let first = words.as_ptr().align_offset(LINE * size_of::<AtomicU64>()).min(LINE - 1);
        Self { words, first, shift: u64::BITS - places.trailing_zeros() }
    }

    #[inline]
    fn place(&self, hash: u64) -> (&AtomicU64, &[AtomicU64], &[AtomicU64]) {
        let at = self.first + (hash >> self.shift) as usize * Self::WORDS;
        let words = &self.words[at..at + Self::WORDS];
        let (header, words) = words.split_first().expect("a place has words");
        let (key, ids) = words.split_at(KEY);
        (header, key, ids)
    }

    /// Appends the ids of the piece with this key and says so, if they are here.
    #[inline]
    pub(super) fn get(&self, hash: u64, key: &[u64; KEY], ids: &mut Vec<u32>) -> bool {
        let (header, kept_key, kept_ids) = self.place(hash);
        let before = header.load(Ordering::Acquire);
        let count = (before & 0xFF) as usize;
        // The lowest bit of the count of writes is set while one goes on.
        let is_wanted = kept_key.iter().zip(key).all(|(kept, word)| kept.load(Ordering::Relaxed) == *word);
        if !is_wanted || before & WRITING != 0 || count == 0 || count > 2 * IDS {
            return false;
        }
        let length = ids.len();
        for word in &kept_ids[..count.div_ceil(2)] {
            let word = word.load(Ordering::Relaxed);
            ids.extend([word as u32, (word >> 32) as u32]);
        }
        ids.truncate(length + count);
        fence(Ordering::Acquire);
        if header.load(Ordering::Relaxed) != before {
            ids.truncate(length);
            return false;
        }
        true
    }

    /// Keeps the ids of a piece, if there are not too many.
    pub(super) fn insert(&self, hash: u64, key: &[u64; KEY], ids: &[u32]) {
        if ids.len() > 2 * IDS {
            return;
        }
        let (header, kept_key, kept_ids) = self.place(hash);
        let before = header.load(Ordering::Relaxed);
        let writing = (before & !0xFF) + WRITING;
        if before & WRITING != 0
            || header.compare_exchange(before, writing, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return;
        }
        fence(Ordering::Release);
        for (kept, word) in kept_key.iter().zip(key) {
            kept.store(*word, Ordering::Relaxed);
        }
        for (kept, pair) in kept_ids.iter().zip(ids.chunks(2)) {
            let second = pair.get(1).copied().unwrap_or_default();
            kept.store(u64::from(pair[0]) | u64::from(second) << 32, Ordering::Relaxed);
        }
        header.store((writing + WRITING) | ids.len() as u64, Ordering::Release);
    }
}

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
