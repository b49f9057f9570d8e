//! A number that tells vocabularies apart. It is saved, so it must not change: any difference of ids, bytes, merges or
//! added tokens gives another one, by all chance. It is no defence against vocabularies that are made to collide.

use super::added::AddedTokens;
use super::bpe::{Vocabulary, NO_PARTS};

pub(super) fn of(vocabulary: &Vocabulary, added: &AddedTokens) -> u64 {
    let mut hash = Hash(0);
    for id in 0..vocabulary.len() as u32 {
        let (left, right) = vocabulary.parts(id).unwrap_or(NO_PARTS);
        hash.add(u64::from(left) << 32 | u64::from(right));
        hash.add_bytes(vocabulary.bytes(id));
    }
    for token in added.tokens() {
        hash.add(u64::from(token.id) << 1 | u64::from(token.normalized));
        hash.add_bytes(token.spelling.as_bytes());
    }
    hash.0
}

struct Hash(u64);

impl Hash {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        self.add(bytes.len() as u64);
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.add(u64::from_le_bytes(word));
        }
    }
}
