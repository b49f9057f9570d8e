//! Our JSON parser and serde_json read the same, and refuse with the same words. They part where an escape is half a
//! surrogate pair, in integers beyond 64 bits, whose digits we keep, and in text that is no UTF-8, where we say what
//! the serde_json of the reference says: bad bytes are found at the end of their string.

#![no_main]

use libfuzzer_sys::fuzz_target;
use recipe_core::json::{Number, Value};

fn same(ours: &Value<'_>, theirs: &serde_json::Value) -> bool {
    match (ours, theirs) {
        (Value::Null, serde_json::Value::Null) => true,
        (Value::Bool(ours), serde_json::Value::Bool(theirs)) => ours == theirs,
        (Value::String(ours), serde_json::Value::String(theirs)) => ours == theirs,
        (Value::Number(ours), serde_json::Value::Number(theirs)) => match ours {
            Number::Unsigned(n) => theirs.as_u64() == Some(*n),
            Number::Negative(n) => theirs.as_i64() == Some(*n),
            Number::Wide(_) => theirs.is_f64() && theirs.as_f64() == Some(ours.to_f64()),
            Number::Float(n) => theirs.is_f64() && theirs.as_f64().map(f64::to_bits) == Some(n.to_bits()),
        },
        (Value::Array(ours), serde_json::Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs))
        }
        (Value::Object(ours), serde_json::Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().zip(theirs).all(|((key, ours), (name, theirs))| key == name && same(ours, theirs))
        }
        _ => false,
    }
}

fuzz_target!(|text: &[u8]| {
    let parts_on_purpose = has_surrogate(text) || has_huge_integer(text);
    match (Value::parse(text), serde_json::from_slice::<serde_json::Value>(text)) {
        (Ok(ours), Ok(theirs)) => {
            assert!(same(&ours, &theirs), "{ours:?}\n{theirs:?}");
            let again = ours.to_compact();
            assert_eq!(Value::parse(again.as_bytes()).expect("what we write is JSON"), ours);
        }
        (Err(ours), Err(theirs)) => {
            let alike = ours.message() == theirs.to_string();
            assert!(alike || parts_on_purpose || std::str::from_utf8(text).is_err(), "{ours:?}\n{theirs}");
        }
        (Ok(_), Err(error)) => assert!(parts_on_purpose, "only serde_json refuses: {error}"),
        (Err(error), Ok(_)) => panic!("only we refuse: {error:?}"),
    }
});

fn has_surrogate(text: &[u8]) -> bool {
    text.windows(3).any(|w| w.eq_ignore_ascii_case(b"\\ud"))
}

/// An integer that is no finite double.
fn has_huge_integer(text: &[u8]) -> bool {
    text.split(|byte| !byte.is_ascii_digit()).any(|digits| digits.len() > 308)
}
