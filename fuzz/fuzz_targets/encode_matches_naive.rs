//! The tokenizer and its slow twin give the same ids.

#![no_main]

#[path = "../../recipe-core/tests/naive/bpe.rs"]
#[allow(dead_code)]
mod naive;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use recipe_core::options::ModelVersion;
use recipe_core::tokenizer::Tokenizer;

static OURS: LazyLock<Tokenizer> = LazyLock::new(|| Tokenizer::builtin(ModelVersion::DeepseekV41Flash));
static TWIN: LazyLock<naive::Twin> = LazyLock::new(naive::Twin::v41);

fuzz_target!(|bytes: &[u8]| {
    // The twin takes quadratic time.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]);
    assert_eq!(OURS.encode(&text), TWIN.encode(&text));
    let mut plain = Vec::new();
    OURS.encode_plain_into(&text, &mut plain);
    assert_eq!(plain, TWIN.encode_plain(&text));
});
