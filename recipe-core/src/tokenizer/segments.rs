//! The ids of segments that were encoded before: a growing conversation then costs what is new. Knows no encoding.
//!
//! Bounded in bytes, shared by threads, and never waited for: who finds a shard in use encodes. A text is found by
//! itself, not by its hash alone.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::{Mutex, TryLockError};

use foldhash::fast::RandomState;

/// The bound of a tokenizer's cache, unless another one is chosen: some sixty agent chats of 150 KB.
pub(super) const DEFAULT_BOUND: usize = 32 << 20;

/// Shorter segments are encoded as fast as they are found. The markup of calls is longer, and comes again and again.
const SHORTEST: usize = 6;

/// Two threads seldom want the same one of these.
const SHARDS: usize = 16;

/// What an entry costs besides its text and its ids: its place in the map, and two allocations.
const OVERHEAD: usize = 112;

/// A cache of segments, of at most the bytes that it is made with.
pub(super) struct SegmentCache {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    /// The most bytes of one generation of a shard.
    bound: usize,
}

/// New entries and those that were found lately are young. When the young ones reach their bound they become the old
/// ones, and the old ones before them go.
#[derive(Default)]
struct Shard {
    young: Entries,
    old: Entries,
    young_bytes: usize,
}

/// Entries by the hash of their text. Of two texts with the same hash the later one stays.
type Entries = HashMap<u64, Entry, BuildHasherDefault<IsHash>>;

struct Entry {
    text: Box<str>,
    ids: Box<[u32]>,
}

/// The hash of a number that is a hash.
#[derive(Default)]
struct IsHash(u64);

impl Hasher for IsHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("the keys are of 64 bits");
    }
}

impl SegmentCache {
    /// A cache that keeps at most `bytes`: of texts, of ids, and [`OVERHEAD`] for each segment.
    pub(super) fn new(bytes: usize) -> Self {
        Self { shards: Default::default(), hasher: RandomState::default(), bound: bytes / SHARDS / 2 }
    }

    /// Appends the ids of a segment: those that are kept, else what `encode` appends.
    ///
    /// A segment that costs over half of a generation is not kept: it would drive out too much.
    pub(super) fn get_or_encode(&self, text: &str, ids: &mut Vec<u32>, encode: impl FnOnce(&str, &mut Vec<u32>)) {
        // An id takes four bytes and stands for a byte at least.
        if text.len() < SHORTEST || cost(text, &[]) > self.bound / 2 {
            return encode(text, ids);
        }
        let hash = self.hasher.hash_one(text);
        // Other bits than those that a map finds the place by.
        let shard = &self.shards[(hash >> 40) as usize % SHARDS];
        if with(shard, |shard| shard.append(hash, text, ids, self.bound)) == Some(true) {
            return;
        }
        let before = ids.len();
        encode(text, ids);
        if cost(text, &ids[before..]) <= self.bound / 2 {
            let entry = Entry { text: text.into(), ids: ids[before..].into() };
            with(shard, |shard| shard.keep(hash, entry, self.bound));
        }
    }
}

impl Shard {
    /// Appends the ids of a text and says so, if they are here.
    fn append(&mut self, hash: u64, text: &str, ids: &mut Vec<u32>, bound: usize) -> bool {
        if let Some(kept) = self.young.get(&hash).filter(|entry| *entry.text == *text) {
            ids.extend_from_slice(&kept.ids);
            return true;
        }
        if self.old.get(&hash).is_none_or(|entry| *entry.text != *text) {
            return false;
        }
        if let Some(entry) = self.old.remove(&hash) {
            ids.extend_from_slice(&entry.ids);
            self.keep(hash, entry, bound);
        }
        true
    }

    fn keep(&mut self, hash: u64, entry: Entry, bound: usize) {
        let cost = cost(&entry.text, &entry.ids);
        if self.young_bytes + cost > bound {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += cost;
        // Another thread may have kept it too.
        if let Some(replaced) = self.young.insert(hash, entry) {
            self.young_bytes -= self::cost(&replaced.text, &replaced.ids);
        }
    }
}

fn cost(text: &str, ids: &[u32]) -> usize {
    text.len() + size_of_val(ids) + OVERHEAD
}

/// What `work` does with a shard, unless another thread uses it.
fn with<T>(shard: &Mutex<Shard>, work: impl FnOnce(&mut Shard) -> T) -> Option<T> {
    match shard.try_lock() {
        Ok(mut shard) => Some(work(&mut shard)),
        Err(TryLockError::Poisoned(poisoned)) => Some(work(&mut poisoned.into_inner())),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Shard {
        fn bytes(&self) -> usize {
            [&self.young, &self.old]
                .iter()
                .flat_map(|map| map.values())
                .map(|entry| cost(&entry.text, &entry.ids))
                .sum()
        }
    }

    #[test]
    fn the_bound_holds_and_what_is_used_stays() {
        let cache = SegmentCache::new(1 << 20);
        let encode = |text: &str, ids: &mut Vec<u32>| ids.extend(text.bytes().map(u32::from));
        let often = "a segment that every request has".repeat(3);
        let (mut encoded, mut found) = (0, 0);
        for n in 0..20_000 {
            let text = format!("segment {n} {}", "x".repeat(n % 300));
            for (text, count) in [(&text, &mut encoded), (&often, &mut found)] {
                let mut ids = vec![7];
                cache.get_or_encode(text, &mut ids, |text, ids| {
                    *count += 1;
                    encode(text, ids);
                });
                assert!(ids[0] == 7 && ids[1..].iter().copied().eq(text.bytes().map(u32::from)));
            }
        }
        assert_eq!((encoded, found), (20_000, 1));
        let bytes: usize = cache.shards.iter().map(|shard| shard.lock().map_or(0, |shard| shard.bytes())).sum();
        assert!((300_000..=1 << 20).contains(&bytes), "{bytes}");
    }
    #[test]
    fn a_text_is_not_found_by_its_hash_alone() {
        let mut shard = Shard::default();
        let entry = |text: &str, id| Entry { text: text.into(), ids: [id].into() };
        let found = |shard: &mut Shard, text| {
            let mut ids = Vec::new();
            shard.append(7, text, &mut ids, 1000).then_some(ids)
        };
        shard.keep(7, entry("one", 1), 1000);
        assert_eq!((found(&mut shard, "one"), found(&mut shard, "two")), (Some(vec![1]), None));
        shard.keep(7, entry("two", 2), 1000);
        assert_eq!((found(&mut shard, "one"), found(&mut shard, "two")), (None, Some(vec![2])));
        assert_eq!(shard.young_bytes, shard.bytes());
        shard.old = std::mem::take(&mut shard.young);
        assert_eq!((found(&mut shard, "one"), found(&mut shard, "two")), (None, Some(vec![2])));
        assert_eq!((shard.young.len(), shard.old.len()), (1, 0));
    }
}
