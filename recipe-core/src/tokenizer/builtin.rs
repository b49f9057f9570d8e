//! The built-in vocabularies: reads the data files that scripts/build_vocabulary.py writes and describes.

use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

use super::added::{AddedToken, AddedTokens};
use super::bpe::{Parts, TokenBytes, Vocabulary};
use super::{Source, Tokenizer};
use crate::options::ModelVersion;

const BASE: &[u8] = include_bytes!("../../data/base.bin");
const TOKENS: &[u8] = include_bytes!("../../data/tokens.bin");
const ADDED: &str = include_str!("../../data/added.tsv");
const ADDED_V4: &str = include_str!("../../data/added_v4.tsv");
const ADDED_V41: &str = include_str!("../../data/added_v41.tsv");

/// The SHA-256 of the released files.
const RELEASED: [(ModelVersion, [u8; 32]); 2] = [
    (
        ModelVersion::DeepseekV4Pro,
        [
            0x97, 0xd2, 0xf3, 0x1b, 0x02, 0x0d, 0x18, 0xb5, 0xae, 0xe5, 0xc9, 0xb3, 0xd5, 0xb4, 0xef, 0xb1, 0x0e, 0xa2,
            0x10, 0xf3, 0xfe, 0x3f, 0x7d, 0xff, 0xe3, 0xf1, 0xcd, 0x90, 0x54, 0x2d, 0x6b, 0x19,
        ],
    ),
    (
        ModelVersion::DeepseekV41Flash,
        [
            0x81, 0xf6, 0x4d, 0x12, 0x48, 0xa6, 0x8c, 0xe3, 0x66, 0x3e, 0x07, 0xab, 0x3e, 0xe4, 0x8b, 0x85, 0x1e, 0x5d,
            0xf0, 0xe3, 0x2d, 0x27, 0xcb, 0x98, 0xe4, 0xc9, 0xa2, 0x68, 0x15, 0x1e, 0x8d, 0x99,
        ],
    ),
];

/// Why reading the data cannot fail.
const WELL_FORMED: &str = "the built-in data is well formed";

/// The tokenizer of `version`, loaded at the first call. Both share one base.
pub(super) fn tokenizer(version: ModelVersion) -> Tokenizer {
    static V4: OnceLock<Tokenizer> = OnceLock::new();
    static V41: OnceLock<Tokenizer> = OnceLock::new();
    let (loaded, own_tokens) = match version {
        ModelVersion::DeepseekV4Pro => (&V4, ADDED_V4),
        ModelVersion::DeepseekV41Flash => (&V41, ADDED_V41),
    };
    loaded.get_or_init(|| Tokenizer::new(vocabulary(), added(own_tokens), Source::Builtin(version))).clone()
}

/// The vocabulary of both versions.
pub(super) fn vocabulary() -> Arc<Vocabulary> {
    static LOADED: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    LOADED.get_or_init(|| Arc::new(read_base(BASE))).clone()
}

fn read_base(data: &'static [u8]) -> Vocabulary {
    let (header, data) = data.split_at(16);
    assert_eq!(&header[..8], b"RCPVOC01", "{WELL_FORMED}");
    let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("the slice has four bytes"));
    let (first, merges) = (number(8), number(12));
    let size = first as usize + 256 + merges as usize;
    let (ends, bytes) = TOKENS.split_at(4 * size);
    let (byte_tokens, merges) = data.split_at(256);
    let ends = ends.chunks_exact(4).map(|end| u32::from_le_bytes(end.try_into().expect("chunks have four bytes")));
    let tokens = TokenBytes::new(bytes, ends);
    let parts = Parts::packed(first + 256, merges);
    assert!(parts.len() == size && tokens.len() == size, "{WELL_FORMED}");
    let mut byte_ids = [0; 256];
    for (id, &byte) in (first..).zip(byte_tokens) {
        byte_ids[byte as usize] = id;
    }
    let mut vocabulary = Vocabulary::new(tokens, byte_ids, parts);
    vocabulary.take_whole(first..size as u32);
    vocabulary
}

/// The version whose released file has this text.
pub(super) fn released(text: &str) -> Option<ModelVersion> {
    let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    RELEASED.into_iter().find(|&(_, released)| released == digest).map(|(version, _)| version)
}

/// The version whose added tokens these are.
pub(super) fn version_of(tokens: &AddedTokens) -> Option<ModelVersion> {
    ModelVersion::ALL.into_iter().find(|&version| tokenizer(version).added.tokens() == tokens.tokens())
}

fn added(own_tokens: &str) -> AddedTokens {
    let tokens = ADDED.lines().chain(own_tokens.lines()).map(|line| {
        let mut columns = line.split('\t');
        let mut column = || columns.next().expect(WELL_FORMED);
        let id = column().parse().expect(WELL_FORMED);
        let normalized = column() == "n";
        AddedToken { id, spelling: column().into(), normalized }
    });
    AddedTokens::new(tokens.collect()).expect(WELL_FORMED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_tokens_are_those_of_their_parts() {
        let vocabulary = vocabulary();
        let mut merges = 0;
        for id in 0..vocabulary.len() as u32 {
            if let Some((left, right)) = vocabulary.parts(id) {
                assert_eq!(vocabulary.bytes(id), [vocabulary.bytes(left), vocabulary.bytes(right)].concat(), "{id}");
                merges += 1;
            }
        }
        assert_eq!(merges, 127_741);
        let (first, byte_tokens) = (u32::from_le_bytes([BASE[8], BASE[9], BASE[10], BASE[11]]), &BASE[16..16 + 256]);
        for (id, byte) in (first..).zip(byte_tokens) {
            assert_eq!(vocabulary.bytes(id), [*byte]);
        }
        assert!((0..first).all(|id| vocabulary.bytes(id).is_empty()));
    }
}
