//! The built-in vocabularies: reads the data files that scripts/build_vocabulary.py writes and describes.

use std::sync::{Arc, OnceLock};

use super::added::{AddedToken, AddedTokens};
use super::bpe::Vocabulary;
use super::Tokenizer;
use crate::options::ModelVersion;

const BASE: &[u8] = include_bytes!("../../data/base.bin");
const ADDED: &str = include_str!("../../data/added.tsv");
const ADDED_V4: &str = include_str!("../../data/added_v4.tsv");
const ADDED_V41: &str = include_str!("../../data/added_v41.tsv");

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
    loaded.get_or_init(|| Tokenizer::new(vocabulary(), added(own_tokens))).clone()
}

/// The vocabulary of both versions.
pub(super) fn vocabulary() -> Arc<Vocabulary> {
    static LOADED: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    LOADED.get_or_init(|| Arc::new(read_base(BASE))).clone()
}

fn read_base(data: &[u8]) -> Vocabulary {
    let (header, data) = data.split_at(16);
    assert_eq!(&header[..8], b"RCPVOC01", "{WELL_FORMED}");
    let first = u32::from_le_bytes(header[8..12].try_into().expect("the slice has four bytes"));
    let (bytes, merges) = data.split_at(256);
    let merges = merges.chunks_exact(6).map(|merge| {
        let id = |at: usize| u32::from_le_bytes([merge[at], merge[at + 1], merge[at + 2], 0]);
        (id(0), id(3))
    });
    assert_eq!(&header[12..], (merges.len() as u32).to_le_bytes(), "{WELL_FORMED}");
    Vocabulary::consecutive(first, bytes, merges)
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
