//! What the tokenizer promises: known ids, the added vocabulary, files that it refuses, and decoding.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use recipe_core::options::ModelVersion;
use recipe_core::special::SpecialToken;
use recipe_core::tokenizer::{Decoder, Source, Token, Tokenizer};
use serde_json::{json, Value};

fn v4() -> Tokenizer {
    Tokenizer::builtin(ModelVersion::DeepseekV4Pro)
}

fn v41() -> Tokenizer {
    Tokenizer::builtin(ModelVersion::DeepseekV41Flash)
}

fn plain(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    tokenizer.encode_plain_into(text, &mut ids);
    ids
}

#[test]
fn vocabularies_are_told_apart() {
    // Saved streams hold these numbers.
    let known = [10_625_772_336_741_619_571, 13_750_158_347_356_932_882];
    assert_eq!([v4().fingerprint(), v41().fingerprint()], known);
    assert_eq!(v41().source(), &Source::Builtin(ModelVersion::DeepseekV41Flash));
}

#[test]
fn plain_text_never_becomes_an_added_token() {
    assert_eq!(plain(&v41(), "<think>"), [30, 37947, 32]);
    assert_eq!(v41().encode("<think>"), [128821]);
    assert!(plain(&v41(), "").is_empty());
    assert!(v41().encode("").is_empty());
}

#[test]
fn overlapping_spellings_go_to_the_leftmost() {
    assert_eq!(v4().encode("<｜/table>｜DSML｜"), [&[129265][..], &plain(&v4(), "DSML｜")].concat());
    assert_eq!(v41().encode("a<｜User｜>b｜DSML｜ <think>"), [67, 128803, 68, 128825, 223, 128821]);
}

#[test]
fn each_special_token_has_the_id_of_the_model() {
    let ids: Vec<u32> = SpecialToken::ALL.iter().filter_map(|token| v41().special_id(token.default_str())).collect();
    let rest = [128828, 128825, 129264, 129278, 129277, 129276, 129275, 129274, 129273, 129272, 129271];
    assert_eq!(ids, [&[0, 1, 128821, 128822, 128799, 128803, 128804][..], &rest].concat());
    // The V4 vocabulary has all but the system token.
    let missing: Vec<_> =
        SpecialToken::ALL.into_iter().filter(|token| v4().special_id(token.default_str()).is_none()).collect();
    assert_eq!(missing, [SpecialToken::System]);
    assert_eq!(v41().special_id("a"), None);
}

#[test]
fn an_id_is_ordinary_or_added_or_unknown() {
    assert_eq!(v41().token(0), Some(Token::Added("<｜begin▁of▁sentence｜>")));
    assert_eq!(v41().token(3), Some(Token::Plain(b"!")));
    assert_eq!(v41().token(127_999).map(|token| matches!(token, Token::Plain(_))), Some(true));
    assert_eq!(v41().token(128_000).map(|token| matches!(token, Token::Added(_))), Some(true));
    assert_eq!(v41().token(129_279), Some(Token::Added("<|place_holder_mm_span_0442|>")));
    assert_eq!(v4().token(129_279), Some(Token::Added("<｜image2｜>")));
    assert_eq!(v41().token(129_280), None);
    assert_eq!(v41().token(u32::MAX), None);
}

/// A file with a token for each byte at ids 0 to 255, these further tokens, and these merges.
fn file(further: &[&str], merges: Value, added: Value) -> Value {
    let printable = |b: &u8| matches!(b, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let others = (0..=255u8).filter(|b| !printable(b)).count() as u32;
    let latin = (0..=255u8).filter(printable).map(char::from);
    let stand_ins = latin.chain((0x100..0x100 + others).filter_map(char::from_u32)).map(String::from);
    let spellings = stand_ins.chain(further.iter().map(|&spelling| spelling.to_owned()));
    let vocab: serde_json::Map<_, _> = spellings.enumerate().map(|(id, spelling)| (spelling, json!(id))).collect();
    let words = "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
    let last = format!("{}|{words}", r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##);
    let steps = [r"\p{N}{1,3}", "[一-龥\u{3040}-ゟ゠-ヿ]+", &last].map(
        |pattern| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false}),
    );
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false});
    json!({
        "added_tokens": added,
        "normalizer": null,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [steps[0], steps[1], steps[2], byte_level]},
        "post_processor": null,
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocab, "merges": merges},
    })
}

fn load(file: &Value) -> recipe_core::Result<Tokenizer> {
    Tokenizer::from_json(&file.to_string())
}

/// `abc` is an entry, but merging `bc` first leaves nothing to make it of.
#[test]
fn an_entry_that_merging_cannot_reach_is_not_taken_whole() {
    for merges in [json!(["b c", "a b", "ab c"]), json!([["b", "c"], ["a", "b"], ["ab", "c"]])] {
        let tokenizer = load(&file(&["bc", "ab", "abc", "unused"], merges, json!([]))).unwrap();
        let a = plain(&tokenizer, "a")[0];
        assert_eq!(plain(&tokenizer, "abc ab"), [a, 256, plain(&tokenizer, " ")[0], 257]);
        assert_eq!(tokenizer.token(258), Some(Token::Plain(b"abc")));
        assert_eq!(tokenizer.token(259), Some(Token::Plain(b"unused")));
        assert_eq!(plain(&tokenizer, "unused").len(), 6);
    }
}

/// The verbatim token is looked for first, though the other one stands before it.
#[test]
fn normalized_added_tokens_come_second() {
    let added = json!([
        {"id": 300, "content": "<ab", "normalized": true},
        {"id": 301, "content": "b>", "normalized": false},
        {"id": 302, "content": "b>>", "normalized": false},
    ]);
    let tokenizer = load(&file(&[], json!([]), added)).unwrap();
    assert_eq!(tokenizer.encode("<ab>").last(), Some(&301));
    assert_eq!(tokenizer.encode("<ab>>").last(), Some(&302));
    assert_eq!(tokenizer.encode("<abc")[0], 300);
}

/// Few first bytes are looked for before the spellings are, many are not.
#[test]
fn added_tokens_are_found_whatever_they_begin_with() {
    for spellings in [&[][..], &["«a"], &["«a", "<b", "<c"], &["«a", "<b", "|c"]] {
        let added = (300..).zip(spellings).map(|(id, spelling)| json!({"id": id, "content": spelling}));
        let tokenizer = load(&file(&[], json!([]), added.collect())).unwrap();
        for (id, spelling) in (300..).zip(spellings) {
            let expected = [plain(&tokenizer, "xy"), vec![id], plain(&tokenizer, "z")].concat();
            assert_eq!(tokenizer.encode(&format!("xy{spelling}z")), expected);
        }
        for text in ["", "\0", "xyz", "a < b | c » d"] {
            assert_eq!(tokenizer.encode(text), plain(&tokenizer, text));
        }
    }
}

#[test]
fn files_that_are_not_supported_are_refused_with_the_reason() {
    let set = |pointer: &str, value: Value| {
        let mut changed = file(&["bc", "ab"], json!(["b c", "a b"]), json!([]));
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        match changed.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
            parent => parent[key] = value,
        }
        load(&changed).err().map(|e| e.to_string()).unwrap_or_default()
    };
    let added = |value: Value| set("/added_tokens", json!([value]));
    let steps = "a pre-tokenizer other than the three split steps of DeepSeek V4 and byte level";
    let cases = [
        (set("/normalizer", json!({"type": "NFC"})), "a normalizer"),
        (set("/truncation", json!({})), "truncation"),
        (set("/pre_tokenizer", json!({"type": "ByteLevel"})), steps),
        (set("/pre_tokenizer/pretokenizers/0/pattern", json!({"Regex": "\\p{N}"})), steps),
        (set("/pre_tokenizer/pretokenizers/2/behavior", json!("Removed")), steps),
        (set("/pre_tokenizer/pretokenizers/3/use_regex", json!(true)), steps),
        (set("/post_processor", json!({"type": "TemplateProcessing"})), "a post_processor other than byte level"),
        (set("/model/type", json!("Unigram")), "a model other than BPE"),
        (set("/model/dropout", json!(0.1)), "dropout"),
        (set("/model/unk_token", json!("x")), "unk_token"),
        (set("/model/end_of_word_suffix", json!("x")), "end_of_word_suffix"),
        (set("/model/byte_fallback", json!(true)), "byte_fallback"),
        (set("/model/ignore_merges", json!(true)), "ignore_merges"),
        (set("/model/vocab/中", json!(258)), "a vocabulary that is not byte level"),
        (set("/model/vocab/far", json!(9999)), "a vocabulary with wide gaps between ids"),
        (set("/model/vocab", json!({"a": 0})), "a vocabulary without a token for each byte"),
        (set("/model/merges", json!(["a b", "b c"])), "merges whose products' ids do not rise with the rank"),
        (added(json!({"id": 300, "content": "x", "lstrip": true})), "added token \"x\" with lstrip"),
    ];
    for (found, reason) in cases {
        assert_eq!(found, format!("unsupported tokenizer: {reason}"));
    }
    assert_eq!(set("/model/merges", json!(["c d"])), r#"merge of "c" and "d": "cd" is no entry"#);
    assert_eq!(set("/model/vocab", json!([])), "tokenizer file: `model.vocab` is missing or has the wrong type");
    assert_eq!(added(json!({"id": 7, "content": "<x>"})), r#"added token "<x>" has the id 7 of an ordinary token"#);
    assert_eq!(added(json!({"id": 300, "content": "ab"})), r#""ab" has the id 257 and, as added token, 300"#);
    assert_eq!(added(json!({"id": 300, "content": ""})), "the added token 300 has no spelling");
    let error = Tokenizer::from_json("# no JSON").err().unwrap();
    assert_eq!((error.to_string().as_str(), error.status()), ("expected value at line 1 column 1", 500));
    assert_eq!(
        Tokenizer::from_file("/no/such/file").err().unwrap().to_string(),
        "No such file or directory (os error 2)"
    );
}

/// What the decoder should wait for: the first bytes of a character at the end, by the standard library.
fn waits(mut bytes: &[u8]) -> bool {
    while let Err(e) = std::str::from_utf8(bytes) {
        match e.error_len() {
            Some(length) => bytes = &bytes[e.valid_up_to() + length..],
            None => return true,
        }
    }
    false
}

#[test]
fn the_decoder_waits_for_characters_that_can_still_be_completed() {
    let edges = [
        0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE,
        0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF,
    ];
    let mut bytes = [0; 4];
    for n in 0..edges.len().pow(4) {
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = edges[n / edges.len().pow(at as u32) % edges.len()];
        }
        let mut decoder = Decoder::new();
        decoder.push(&bytes);
        let whole = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(decoder.take_complete(), (!waits(&bytes)).then(|| whole.clone()), "{bytes:x?}");
        assert_eq!(decoder.take_all(), waits(&bytes).then_some(whole), "{bytes:x?}");
    }
}

#[test]
fn the_decoder_keeps_the_whole_run_while_its_end_is_incomplete() {
    let mut decoder = Decoder::new();
    assert_eq!(decoder.take_complete(), None);
    assert_eq!(decoder.take_all(), None);
    decoder.push(b"ab\xE4\xB8");
    assert_eq!(decoder.take_complete(), None);
    let saved = decoder.clone();
    decoder.push(b"\xAD");
    assert_ne!(decoder, saved);
    assert_eq!(decoder.take_complete().as_deref(), Some("ab中"));
    assert_eq!(decoder, Decoder::new());
    decoder.push(b"\xFFx\xF0\x9F\x98");
    assert_eq!(decoder.take_all().as_deref(), Some("\u{FFFD}x\u{FFFD}"));
}

/// A stream that never completes a character: the check at the end of each chunk must not read it all again.
#[test]
fn the_decoder_is_linear_over_a_stream_that_never_completes() {
    let mut decoder = Decoder::new();
    for _ in 0..1_000_000 {
        decoder.push(b"\xE4\xB8");
        assert_eq!(decoder.take_complete(), None);
    }
    assert_eq!(decoder.take_all(), Some("\u{FFFD}".repeat(1_000_000)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chunks_do_not_change_the_decoded_text(chunks in prop::collection::vec(prop::collection::vec(0u32..128_000, 0..4), 0..12)) {
        let tokenizer = v41();
        let bytes = |id: &u32| match tokenizer.token(*id) {
            Some(Token::Plain(bytes)) => bytes.to_vec(),
            _ => Vec::new(),
        };
        let whole: Vec<u8> = chunks.iter().flatten().flat_map(bytes).collect();
        let mut decoder = Decoder::new();
        let mut text = String::new();
        for chunk in &chunks {
            chunk.iter().for_each(|id| decoder.push(&bytes(id)));
            text.extend(decoder.take_complete());
        }
        text.extend(decoder.take_all());
        prop_assert_eq!(text, String::from_utf8_lossy(&whole));
    }

    #[test]
    fn text_survives_ids_at_any_cut(text in any::<String>(), cuts in prop::collection::vec(any::<bool>(), 64)) {
        let tokenizer = v41();
        let mut decoder = Decoder::new();
        let mut decoded = String::new();
        for (n, id) in plain(&tokenizer, &text).into_iter().enumerate() {
            if let Some(Token::Plain(bytes)) = tokenizer.token(id) {
                decoder.push(bytes);
            }
            if cuts[n % cuts.len()] {
                decoded.extend(decoder.take_complete());
            }
        }
        decoded.extend(decoder.take_all());
        prop_assert_eq!(decoded, text);
    }
}
