//! Ids of a text decode to that text, and any ids to what their bytes say, however they are pushed.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use recipe_core::options::ModelVersion;
use recipe_core::tokenizer::{Decoder, Token, Tokenizer};

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| Tokenizer::builtin(ModelVersion::DeepseekV41Flash));

/// Decodes, taking what is complete after each id whose place is a multiple of `step`.
fn decoded(ids: &[u32], step: usize) -> String {
    let (mut decoder, mut out) = (Decoder::new(), String::new());
    for (place, id) in ids.iter().enumerate() {
        match TOKENIZER.token(*id) {
            Some(Token::Plain(bytes)) => decoder.push(bytes),
            Some(Token::Added(spelling)) => out += &(decoder.take_all().unwrap_or_default() + spelling),
            None => {}
        }
        if place % step == 0 {
            out += &decoder.take_complete().unwrap_or_default();
        }
    }
    out + &decoder.take_all().unwrap_or_default()
}

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let step = bytes.first().map_or(1, |byte| usize::from(byte % 7) + 1);
    assert_eq!(decoded(&TOKENIZER.encode(&text), step), text);
    let mut plain = Vec::new();
    TOKENIZER.encode_plain_into(&text, &mut plain);
    assert_eq!(decoded(&plain, step), text);

    let any: Vec<u32> = bytes.chunks_exact(3).map(|b| u32::from_be_bytes([0, b[0] & 1, b[1], b[2]])).collect();
    assert_eq!(decoded(&any, step), decoded(&any, usize::MAX));
    // The bytes themselves, one ordinary id each.
    let single: Vec<u32> = bytes.iter().map(|byte| BYTE_IDS[usize::from(*byte)]).collect();
    assert_eq!(decoded(&single, step), text);
});

static BYTE_IDS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let id = |byte: u8| (0..).find(|id| TOKENIZER.token(*id) == Some(Token::Plain(&[byte])));
    (0..=255).map(|byte| id(byte).expect("every byte has an id")).collect()
});
