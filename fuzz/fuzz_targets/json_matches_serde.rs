//! Our JSON parser and serde_json read the same, and refuse with the same words. They part where an escape is half a
//! surrogate pair, and in integers beyond 64 bits, whose digits we keep.

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
    match (Value::parse(text), serde_json::from_slice::<serde_json::Value>(text)) {
        (Ok(ours), Ok(theirs)) => {
            assert!(same(&ours, &theirs), "{ours:?}\n{theirs:?}");
            let again = ours.to_compact();
            assert_eq!(Value::parse(again.as_bytes()).expect("what we write is JSON"), ours);
        }
        (Err(ours), Err(theirs)) if !has_surrogate(text) => assert_eq!(ours.message(), theirs.to_string()),
        (Err(_), Err(_)) => {}
        (Ok(_), Err(error)) => {
            let wide = error.to_string().starts_with("number out of range");
            assert!(wide || has_surrogate(text), "only serde_json refuses: {error}");
        }
        (Err(error), Ok(_)) => panic!("only we refuse: {error:?}"),
    }
});

fn has_surrogate(text: &[u8]) -> bool {
    text.windows(3).any(|w| w.eq_ignore_ascii_case(b"\\ud"))
}
