//! The tokenizer against its twins: the naive one, and the library and regex engine that the reference uses.

#![allow(clippy::unwrap_used)]

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::select;
use recipe_core::options::ModelVersion;
use recipe_core::prompt::Segment;
use recipe_core::tokenizer::{Source, Token, TokenCounter, Tokenizer};
use serde_json::json;

#[path = "naive/bpe.rs"]
mod naive;

static OURS: LazyLock<Tokenizer> = LazyLock::new(|| Tokenizer::builtin(ModelVersion::DeepseekV41Flash));
static NAIVE: LazyLock<naive::Twin> = LazyLock::new(naive::Twin::v41);
static PEER: LazyLock<tokenizers::Tokenizer> = LazyLock::new(|| tokenizer_json(true).parse().unwrap());
static PEER_PLAIN: LazyLock<tokenizers::Tokenizer> = LazyLock::new(|| tokenizer_json(false).parse().unwrap());

/// The tokenizer.json of the built-in V4.1 vocabulary.
fn tokenizer_json(with_added: bool) -> String {
    let split = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let punctuation = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##;
    let words = "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
    // The usual stand-in of a byte: itself if it is printable in Latin-1, else the next free one from U+0100 on.
    let printable = |b: &u8| matches!(b, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let others: Vec<u8> = (0..=255).filter(|b| !printable(b)).collect();
    let stand_in = |b: &u8| match others.iter().position(|other| other == b) {
        Some(n) => char::from_u32(0x100 + n as u32).unwrap(),
        None => char::from(*b),
    };
    let spelling = |id: u32| NAIVE.tokens[id as usize].iter().map(stand_in).collect::<String>();
    let added = NAIVE.added.iter().filter(|_| with_added).map(|(id, normalized, spelling)| {
        json!({"id": id, "content": spelling, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": normalized, "special": !normalized})
    });
    let added: Vec<_> = added.collect();
    let vocab: serde_json::Map<_, _> = (0..NAIVE.tokens.len() as u32)
        .map(|id| match NAIVE.added.iter().find(|token| token.0 == id && token.0 < 3) {
            Some((_, _, spelling)) => (spelling.clone(), json!(id)),
            None => (spelling(id), json!(id)),
        })
        .collect();
    let merges = NAIVE.merges.iter().map(|&(left, right)| format!("{} {}", spelling(left), spelling(right)));
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": []},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            split(r"\p{N}{1,3}"), split("[一-龥\u{3040}-ゟ゠-ヿ]+"), split(&format!("{punctuation}|{words}")), byte_level]},
        "post_processor": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                  "vocab": vocab, "merges": merges.collect::<Vec<_>>()},
    })
    .to_string()
}

fn ours_plain(text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    OURS.encode_plain_into(text, &mut ids);
    ids
}

fn peer(tokenizer: &tokenizers::Tokenizer, text: &str) -> Vec<u32> {
    tokenizer.encode_fast(text, false).unwrap().get_ids().to_vec()
}

/// The bytes of the ids, joined.
fn bytes_of(ids: &[u32]) -> Vec<u8> {
    let bytes = |&id: &u32| match OURS.token(id).unwrap() {
        Token::Plain(bytes) => bytes.to_vec(),
        Token::Added(spelling) => spelling.as_bytes().to_vec(),
    };
    ids.iter().flat_map(bytes).collect()
}

/// Characters that break splitters: of every class, at the edges of ranges, newly assigned, not assigned.
fn odd_char() -> impl Strategy<Value = char> {
    let chars = |text: &str| select(text.chars().collect::<Vec<char>>());
    prop_oneof![
        4 => chars("  \t\n\r\u{a0}\u{3000}\u{2028}\u{2029}\u{200b}\u{feff}\u{b}\u{c}\u{85}\u{1680}\u{2003}\u{202f}\u{1c}"),
        1 => chars("\0\u{1}\u{1b}\u{7f}\u{ad}\u{200d}\u{200e}\u{2060}\u{fe0f}\u{fffd}\u{e000}\u{10ffff}\u{ffff}\u{fdd0}\u{378}\u{1f1e6}\u{e0100}"),
        1 => chars("\u{300}\u{301}\u{36f}\u{3099}\u{309a}\u{93f}\u{940}\u{e31}\u{20dd}\u{488}\u{20c1}\u{1c89}\u{1acf}"),
        2 => chars("0123456789٠०１²½Ⅷ〇𝟘②㊿"),
        2 => chars("䷿一中龥龦〿\u{3040}ぁゟ゠・ーヿ㄀㐀𠀀豈가ᄀ"),
        3 => chars("aAbZzéßñøŁπЖжשعกあ한ǅʰªﬁ𝒜𐐀İſ"),
        3 => chars("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~«»—…、。「」¿¡§©®°±×÷€£¥₿←→∑√😀👩🏳"),
        1 => any::<char>(),
    ]
}

fn odd_text() -> impl Strategy<Value = String> {
    let words = [
        "don't",
        "I'LL",
        "x=1;//",
        "https://a.b/c?d=e&f=1234567",
        "３．１４",
        "e\u{301}",
        "👨‍👩‍👧‍👦",
        "ｈｅｌｌｏ",
        "\u{e01}\u{e33}",
        "क्षि",
        "ﷺ",
        "\r\n\r\n\t\t",
        " \n \n  x",
        "the quick brown fox",
        "人工智能的发展",
        "<|tool|>",
        "fn main() {",
    ];
    let run = prop_oneof![
        8 => prop::collection::vec(odd_char(), 1..12).prop_map(String::from_iter),
        2 => (odd_char(), 1usize..300).prop_map(|(c, n)| c.to_string().repeat(n)),
        2 => prop::collection::vec(prop::char::range(' ', '~'), 1..60).prop_map(String::from_iter),
        1 => prop::collection::vec(prop::char::range('一', '龥'), 1..60).prop_map(String::from_iter),
        3 => select(words.to_vec()).prop_map(str::to_owned),
    ];
    prop::collection::vec(run, 1..8).prop_map(|runs| runs.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plain_text_encodes_as_both_twins_say(text in odd_text()) {
        let ids = ours_plain(&text);
        prop_assert_eq!(&ids, &NAIVE.encode_plain(&text));
        prop_assert_eq!(&ids, &peer(&PEER_PLAIN, &text));
        prop_assert_eq!(bytes_of(&ids), text.as_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn added_tokens_are_found_as_both_twins_say(
        runs in prop::collection::vec((odd_text(), 0usize..NAIVE.added.len(), 0usize..40), 1..4)
    ) {
        // Whole spellings and beginnings of them, between other text.
        let mut text = String::new();
        for (plain, token, cut) in runs {
            let spelling = &NAIVE.added[token].2;
            text.push_str(&plain);
            text.push_str(if spelling.is_char_boundary(cut) { &spelling[..cut] } else { spelling });
        }
        let ids = OURS.encode(&text);
        prop_assert_eq!(&ids, &NAIVE.encode(&text));
        prop_assert_eq!(&ids, &peer(&PEER, &text));
        prop_assert_eq!(bytes_of(&ids), text.as_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Prompts that share segments, with the segment cache off, on, and so small that most is driven out.
    #[test]
    fn kept_segments_have_the_ids_of_encoded_ones(
        texts in prop::collection::vec(odd_text(), 1..30),
        prompts in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 1..12), 1..30),
    ) {
        let prompts: Vec<Vec<Segment>> = prompts
            .iter()
            .map(|places| {
                let segments = places.iter().map(|place| Segment::Plain(texts[place.index(texts.len())].as_str()));
                segments.chain([Segment::Special("<think>")]).collect()
            })
            .collect();
        let plain = |segment: &Segment| match segment {
            Segment::Plain(text) => ours_plain(text),
            Segment::Special(_) | Segment::Image(_) => vec![128_821],
        };
        let expected: Vec<Vec<u32>> = prompts.iter().map(|prompt| prompt.iter().flat_map(plain).collect()).collect();
        for bytes in [0, 1 << 14, 1 << 16, 1 << 25] {
            let tokenizer = OURS.with_segment_cache(bytes);
            let all = || for (prompt, expected) in prompts.iter().zip(&expected) {
                assert_eq!(&tokenizer.encode_segments(prompt.iter().copied()).unwrap(), expected);
            };
            std::thread::scope(|scope| {
                (0..3).for_each(|_| { scope.spawn(all); });
                all();
            });
            all();
        }
    }
}

#[test]
fn every_code_point_encodes_as_both_twins_say() {
    let code_points: Vec<char> = ('\0'..=char::MAX).collect();
    let contexts = |c: &char| format!("a{c} b\n {c}1\n中{c}  x\n");
    for block in code_points.chunks(1024) {
        let text: String = block.iter().map(contexts).collect();
        let ids = ours_plain(&text);
        if ids == NAIVE.encode_plain(&text) && ids == peer(&PEER_PLAIN, &text) {
            continue;
        }
        for c in block {
            let text = contexts(c);
            assert_eq!(ours_plain(&text), NAIVE.encode_plain(&text), "{c:?}, naive");
            assert_eq!(ours_plain(&text), peer(&PEER_PLAIN, &text), "{c:?}, peer");
        }
        panic!("the block from {:?} on differs", block[0]);
    }
}

/// Short strings against the naive twin alone, which is quick enough for many: `RECIPE_STRINGS` says how many. Each
/// string is encoded twice, so that the second pass finds in the piece cache what the first one merged.
#[test]
fn random_strings_encode_as_the_naive_twin_says() {
    let strings: u64 = std::env::var("RECIPE_STRINGS").map_or(20_000, |count| count.parse().unwrap());
    let pools = [
        "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJ",
        "the of and ing tion er 's Word 12,.",
        " \t\n\r\u{a0}\u{3000}a!1中",
        "0123456789٣².-x ",
        "一中文的人工智能。，ーカあ1a ",
        "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ a\n",
        "éßñøŁπЖжשعकกあ한\u{301}\u{93f} '",
        "\u{1}\u{200d}\u{fe0f}😀👩𝒜\u{e000}\u{10ffff}a \n",
    ]
    .map(|pool| pool.chars().collect::<Vec<char>>());
    let check = &|thread: u64, count: u64| {
        let mut state = thread + 1;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        for _ in 0..count {
            let mut text = String::new();
            for _ in 0..1 + random(3) {
                let pool = &pools[random(pools.len())];
                text.extend((0..random(12)).map(|_| pool[random(pool.len())]));
                if random(8) == 0 {
                    // Tokens of all lengths, side by side.
                    let bytes: Vec<u8> = (0..2).flat_map(|_| NAIVE.tokens[3 + random(127_997)].clone()).collect();
                    text.push_str(&String::from_utf8_lossy(&bytes));
                }
            }
            let expected = NAIVE.encode_plain(&text);
            for pass in ["first", "second"] {
                assert_eq!(ours_plain(&text), expected, "{text:?}, {pass} pass");
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    std::thread::scope(|scope| {
        (0..threads).for_each(|thread| {
            scope.spawn(move || check(thread, strings / threads + u64::from(thread < strings % threads)));
        });
    });
}

/// Taking a whole piece that is an entry is exact only since merging makes each entry of its bytes.
#[test]
fn merging_reaches_every_entry() {
    assert_eq!(NAIVE.tokens.len(), 128_000);
    for (id, bytes) in (0u32..).zip(&NAIVE.tokens).skip(3) {
        assert_eq!(OURS.token(id), Some(Token::Plain(bytes)));
        assert_eq!(NAIVE.merge(bytes), [id]);
    }
}

/// One long piece, or many: 1 MB each must not take quadratic time.
#[test]
fn long_inputs_encode_in_linear_time() {
    let mut state = 1u64;
    let mut random = |below: u32| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u32 % below
    };
    let han: String = (0..333_000).map(|_| char::from_u32(0x4E00 + random(0x51A6)).unwrap()).collect();
    let mixed: String = (0..1_000_000).map(|_| char::from(b"abcdefghijKLMNOPQRST"[random(20) as usize])).collect();
    let marks: String = (0..1_000_000).map(|_| char::from(b"!?#$%&*=+-<>/|~^"[random(16) as usize])).collect();
    let texts = ["a", " ", "\n", "7", "\u{1}", "😀", "\u{2028}", "\u{301}", "\n  ", ".a"]
        .map(|unit| unit.repeat(1_000_000 / unit.len()));
    for text in
        texts.into_iter().chain([han, mixed, marks, format!("{}x", " ".repeat(1_000_000)), "｜DS".repeat(200_000)])
    {
        assert_eq!(bytes_of(&OURS.encode(&text)), text.as_bytes());
        let short: String = text.chars().take(20_000).collect();
        assert_eq!(ours_plain(&short), peer(&PEER_PLAIN, &short), "{:?}", &short[..12]);
    }
}

/// Long enough for several threads, and cut where characters of all kinds meet.
#[test]
fn a_long_text_gives_the_ids_of_the_peer() {
    let pools = ["ab é\n", "中文の 1\n", "a1! \t中", " \n\r\u{3000}a!", "\u{1}a \u{301}é1٣中!", "word Word \n 中ー。"];
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let mut text = String::new();
    while text.len() < 600_000 {
        let pool: Vec<char> = pools[random(pools.len())].chars().collect();
        (0..random(60)).for_each(|_| text.push(pool[random(pool.len())]));
        text.push_str(["", "<think>", "｜DSML｜", "<｜User", "<"][random(5)]);
    }
    assert!(ours_plain(&text) == peer(&PEER_PLAIN, &text));
    let mut counter = TokenCounter::default();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let end = (1 + random(30)).min(rest.len());
        let (part, after) = rest.split_at((end..).find(|&end| rest.is_char_boundary(end)).unwrap());
        counter.push(&OURS, part);
        rest = after;
        if random(1000) == 0 {
            let so_far = &text[..text.len() - rest.len()];
            assert_eq!(counter.total(&OURS), OURS.encode(so_far).len(), "after {} bytes", so_far.len());
        }
    }
    assert_eq!(counter.total(&OURS), OURS.encode(&text).len());
}

#[test]
fn a_file_of_the_same_vocabulary_gives_the_same_ids() {
    let loaded = Tokenizer::from_json(&tokenizer_json(true)).unwrap();
    compare_with_builtin(&loaded, ModelVersion::DeepseekV41Flash);
}

/// The released files are not part of the source tree; where they lie beside it, they are read.
#[test]
fn the_released_files_give_the_same_ids() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/tokenizers");
    for (name, version) in [("v4", ModelVersion::DeepseekV4Pro), ("v41", ModelVersion::DeepseekV41Flash)] {
        let path = folder.join(name).join("tokenizer.json");
        if path.exists() {
            // Known as a whole; and with another text, read entry by entry.
            let text = std::fs::read_to_string(path).unwrap();
            for text in [&text, &(text.clone() + "\n")] {
                let loaded = Tokenizer::from_json(text).unwrap();
                assert_eq!(loaded.source(), &Source::Builtin(version));
                compare_with_builtin(&loaded, version);
            }
        } else {
            println!("skipped: there is no {}", path.display());
        }
    }
}

fn compare_with_builtin(loaded: &Tokenizer, version: ModelVersion) {
    let builtin = Tokenizer::builtin(version);
    for id in 0..129_300 {
        assert_eq!(loaded.token(id), builtin.token(id));
    }
    let everything: String = ('\0'..=char::MAX).step_by(7).collect();
    let text = include_str!("tokenizer_twins.rs").to_owned() + "<｜System｜>a<｜image2｜><think>" + &everything;
    assert_eq!(loaded.encode(&text), builtin.encode(&text));
}
