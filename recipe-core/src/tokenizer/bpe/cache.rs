//! The ids of pieces that were seen before. Bounded; one call has a cache for itself while it lasts. Knows no merging.
//!
//! A piece is found by its bytes, not by a hash alone.

use std::mem::MaybeUninit;

use super::tables::{prefetch, Key};
use super::words::Words;
use super::{Prepared, BATCH};

/// The ids of pieces of all lengths.
#[derive(Default)]
pub(super) struct PieceCache {
    pub(super) short: ShortPieces,
    pub(super) long: LongPieces,
}

/// Pieces of up to 15 bytes with up to four ids, in sets of two places that share a cache line. A new piece takes the
/// first place of its set, and the piece that was there the second one.
///
/// Room for the pieces of a few megabytes of text: 2 MB, of which what is not used is never touched.
pub(super) struct ShortPieces {
    /// A place has the two words of a key, the number of ids in bits 56 to 59 of the second one, and two words of ids.
    /// Zeros are no piece: a piece has bytes.
    words: Words,
}

/// Two places, in words.
type Set = [u64; 8];

impl Default for ShortPieces {
    fn default() -> Self {
        Self { words: Words::zeros(Self::SETS * Self::SET) }
    }
}

impl ShortPieces {
    const SETS: usize = 1 << 16;

    /// Words of a set.
    const SET: usize = 8;

    /// The most ids that are kept of a piece.
    pub(super) const MOST_IDS: usize = 4;

    const COUNT_SHIFT: u32 = 56;
    const COUNT_MASK: u64 = 0xF << Self::COUNT_SHIFT;

    /// What reads the places, in registers.
    #[inline(always)]
    pub(super) fn view(&self) -> ShortPiecesView<'_> {
        ShortPiecesView { words: &self.words }
    }

    /// Writes the ids of pieces up to the first one that is not here. Returns how many pieces and ids these are.
    ///
    /// There must be room for [`MOST_IDS`](Self::MOST_IDS) ids of each piece.
    #[inline(never)]
    pub(super) fn write_ids(&self, pieces: &[Prepared], ids: &mut [MaybeUninit<u32>]) -> (usize, usize) {
        assert!(pieces.len() * Self::MOST_IDS <= ids.len());
        let view = self.view();
        let ids = ids.as_mut_ptr().cast::<u32>();
        let mut written = 0;
        for (number, piece) in pieces.iter().enumerate() {
            let Some((count, kept)) = view.get(piece.hash, piece.key) else {
                return (number, written);
            };
            debug_assert!(count <= Self::MOST_IDS);
            // All four places are written, whatever the number of ids: no branch.
            // SAFETY: there is room for as many ids of each piece, and no piece before this one had more.
            unsafe { ids.add(written).cast::<[u32; Self::MOST_IDS]>().write_unaligned(kept) };
            written += count;
        }
        (pieces.len(), written)
    }

    /// The numbers of the pieces that are not here.
    #[inline(always)]
    pub(super) fn missing<'m>(&self, pieces: &[Prepared], missing: &'m mut [u32; BATCH]) -> &'m [u32] {
        let view = self.view();
        let mut count = 0;
        for (number, piece) in (0..).zip(pieces) {
            // There are not more pieces than places. The remainder says so without a check.
            missing[count % BATCH] = number;
            count += usize::from(view.get(piece.hash, piece.key).is_none());
        }
        &missing[..count]
    }

    fn set(&mut self, hash: u64) -> &mut [u64] {
        let at = set_at(hash);
        &mut self.words[at..at + Self::SET]
    }

    /// Keeps the ids of a piece, if there are not too many.
    #[inline]
    pub(super) fn insert(&mut self, hash: u64, key: Key, ids: &[u32]) {
        if ids.len() > Self::MOST_IDS {
            return;
        }
        let id = |n: usize| ids.get(n).copied().map_or(0, u64::from);
        let set = self.set(hash);
        set.copy_within(..4, 4);
        set[0] = key.low;
        set[1] = key.high | (ids.len() as u64) << Self::COUNT_SHIFT;
        set[2] = id(0) | id(1) << 32;
        set[3] = id(2) | id(3) << 32;
    }
}

/// The places of short pieces.
#[derive(Clone, Copy)]
pub(super) struct ShortPiecesView<'a> {
    words: &'a [u64],
}

/// Where the set of a hash begins, in words.
#[inline(always)]
fn set_at(hash: u64) -> usize {
    (hash >> (u64::BITS - ShortPieces::SETS.trailing_zeros())) as usize * ShortPieces::SET
}

impl ShortPiecesView<'_> {
    /// Asks for the memory that a look-up with this hash reads.
    #[inline(always)]
    pub(super) fn prefetch(self, hash: u64) {
        prefetch(self.words.as_ptr().wrapping_add(set_at(hash)));
    }

    /// The number of ids of the piece with this key, and the ids, if they are here.
    #[inline(always)]
    fn get(self, hash: u64, key: Key) -> Option<(usize, [u32; ShortPieces::MOST_IDS])> {
        debug_assert!(set_at(hash) + ShortPieces::SET <= self.words.len());
        // SAFETY: the hash chooses one of the sets, and there are words for all of them.
        let set = unsafe { &*self.words.as_ptr().add(set_at(hash)).cast::<Set>() };
        // Which of the two it is cannot be foreseen: no branch.
        let is_second = (set[4] == key.low) & (set[5] & !ShortPieces::COUNT_MASK == key.high);
        let place = usize::from(is_second) * 4;
        let high = set[place + 1];
        if ((set[place] ^ key.low) | ((high & !ShortPieces::COUNT_MASK) ^ key.high)) != 0 {
            return None;
        }
        let count = (high & ShortPieces::COUNT_MASK) >> ShortPieces::COUNT_SHIFT;
        let [first, second] = [set[place + 2], set[place + 3]];
        Some((count as usize, [first as u32, (first >> 32) as u32, second as u32, (second >> 32) as u32]))
    }
}

/// Pieces of any length. When there is no room for one more, all are forgotten.
#[derive(Default)]
pub(super) struct LongPieces {
    /// By hash, one more than the number of an entry, in the first of some slots that was free. Zero is free.
    slots: Vec<u32>,
    entries: Vec<Entry>,
    texts: Vec<u8>,
    ids: Vec<u32>,
}

struct Entry {
    hash: u64,
    /// Where its text and its ids end. They begin where those of the entry before end.
    text_end: u32,
    ids_end: u32,
}

impl LongPieces {
    const SLOTS: usize = 1 << 16;
    const MOST_ENTRIES: usize = Self::SLOTS / 2;
    /// Slots of a hash. Texts that are made to have the same hashes do not make look-ups slow.
    const TRIES: usize = 16;
    /// Each has an id at least, so this bounds the ids too.
    const MOST_BYTES: usize = 3 << 19;

    /// The longest piece that is kept: many have room.
    pub(super) const LONGEST: usize = 4096;

    /// Asks for the memory that a look-up with this hash reads first.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch(self.slots.as_ptr().wrapping_add(Self::first_slot(hash)));
    }

    /// The slots where an entry with this hash may be.
    #[inline]
    fn slots(hash: u64) -> impl Iterator<Item = usize> {
        let first = Self::first_slot(hash);
        (first..first + Self::TRIES).map(|slot| slot % Self::SLOTS)
    }

    #[inline]
    fn first_slot(hash: u64) -> usize {
        (hash >> (u64::BITS - Self::SLOTS.trailing_zeros())) as usize
    }

    /// The ids of a piece with this hash, if they are here.
    #[inline]
    pub(super) fn get(&self, hash: u64, piece: &[u8]) -> Option<&[u32]> {
        for slot in Self::slots(hash) {
            let entry = (*self.slots.get(slot)?).checked_sub(1)? as usize;
            if self.entries[entry].hash == hash {
                let (text, ids) = self.entry(entry);
                if text == piece {
                    return Some(ids);
                }
            }
        }
        None
    }

    fn entry(&self, number: usize) -> (&[u8], &[u32]) {
        let (text, ids) = match number.checked_sub(1) {
            Some(before) => (self.entries[before].text_end as usize, self.entries[before].ids_end as usize),
            None => (0, 0),
        };
        let entry = &self.entries[number];
        (&self.texts[text..entry.text_end as usize], &self.ids[ids..entry.ids_end as usize])
    }

    /// Keeps the ids of a piece that is not here, if it is not too long and one of its slots is free.
    pub(super) fn insert(&mut self, hash: u64, piece: &[u8], ids: &[u32]) {
        if piece.len() > Self::LONGEST {
            return;
        }
        if self.entries.len() == Self::MOST_ENTRIES || self.texts.len() + piece.len() > Self::MOST_BYTES {
            self.slots.fill(0);
            self.entries.clear();
            self.texts.clear();
            self.ids.clear();
        }
        self.slots.resize(Self::SLOTS, 0);
        let Some(free) = Self::slots(hash).find(|&slot| self.slots[slot] == 0) else {
            return;
        };
        self.texts.extend_from_slice(piece);
        self.ids.extend_from_slice(ids);
        self.entries.push(Entry { hash, text_end: self.texts.len() as u32, ids_end: self.ids.len() as u32 });
        self.slots[free] = self.entries.len() as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids_of(piece: &[u8], most: usize) -> Vec<u32> {
        piece.iter().take(most).map(|&byte| u32::from(byte) * 7919).collect()
    }

    fn key_of(piece: &[u8]) -> Key {
        Key::at_end(piece, 0, piece.len())
    }

    /// Many times as many pieces as there is room for, with hashes that often are the same ones.
    #[test]
    fn short_pieces_have_their_own_ids_or_none() {
        let mut short = ShortPieces::default();
        let hash = |number: usize| (number as u64 % 300) << 55 | (number as u64 & 1) << 10;
        let piece = |number: usize| format!("{number:x}").repeat(1 + number % 2).into_bytes();
        let mut found = 0;
        for number in 0..3_000 {
            let ids = ids_of(&piece(number), 1 + number % 6);
            short.insert(hash(number), key_of(&piece(number)), &ids);
            let is_kept = short.view().get(hash(number), key_of(&piece(number))).is_some();
            assert_eq!(is_kept, ids.len() <= ShortPieces::MOST_IDS);
            for number in number.saturating_sub(900)..=number {
                let ids = ids_of(&piece(number), 1 + number % 6);
                if let Some((count, kept)) = short.view().get(hash(number), key_of(&piece(number))) {
                    assert_eq!(kept[..count], ids);
                    found += 1;
                }
            }
        }
        assert!(found > 500_000, "{found}");
    }

    #[test]
    fn long_pieces_have_their_own_ids_and_are_bounded() {
        let mut long = LongPieces::default();
        // Few hashes: look-ups go over other entries, and most of the even pieces find no slot.
        let hash = |number: usize| match number as u64 {
            even if even % 2 == 0 => (even % 200 * 300) << 48,
            odd => (odd % 5_000 * 13) << 48,
        };
        let mut found = 0;
        let piece = |number: usize| format!("{number} ").repeat(1 + number % 40).into_bytes();
        for number in 0..60_000 {
            let (bytes, ids) = (piece(number), ids_of(&piece(number), 9));
            assert_eq!(long.get(hash(number), &bytes), None);
            long.insert(hash(number), &bytes, &ids);
            let kept = long.get(hash(number), &bytes);
            assert!(kept.is_none_or(|kept| kept == ids));
            found += usize::from(kept.is_some());
            if number % 97 == 0 && number > 0 {
                let before = piece(number / 2 + number % 13);
                let kept = long.get(hash(number / 2 + number % 13), &before);
                assert!(kept.is_none_or(|kept| kept == ids_of(&before, 9)));
            }
            assert!(long.texts.len() <= LongPieces::MOST_BYTES && long.entries.len() <= LongPieces::MOST_ENTRIES);
        }
        assert!((30_000..50_000).contains(&found), "{found}");
        long.insert(1, &vec![b'a'; LongPieces::LONGEST + 1], &[1]);
        assert_eq!(long.get(1, &vec![b'a'; LongPieces::LONGEST + 1]), None);
    }
}
