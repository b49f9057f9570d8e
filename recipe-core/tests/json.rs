//! Faults of the JSON parser, with the texts and places of the reference.

#![allow(clippy::unwrap_used)]

use recipe_core::json::Value;

#[test]
fn faults_have_their_place() {
    for (text, fault) in [
        (&b"{\"a\xff\xff\xff\"]"[..], "invalid unicode code point at line 1 column 7"),
        (b"{\"a\": \"x\\n\xc3(\" }", "invalid unicode code point at line 1 column 13"),
        // What ends the string too early is found before the bytes in it.
        (b"{\"a\xff", "EOF while parsing a string at line 1 column 4"),
        (b"{\"a\xff\\q\"}", "invalid escape at line 1 column 6"),
        // An exponent is read up to the digit with which it leaves 32 bits.
        (b"[1e99999999999 ,", "number out of range at line 1 column 13"),
        (b"[0.5e307370955161 6]", "number out of range at line 1 column 15"),
        (b"[1e999999999, 2]", "number out of range at line 1 column 12"),
        (b"[1e+00000000000000999 ]", "number out of range at line 1 column 21"),
    ] {
        assert_eq!(Value::parse(text).unwrap_err().message(), fault, "{}", String::from_utf8_lossy(text));
    }
    assert!(Value::parse(b"[0e99999999999, 1e-99999999999]").is_ok());
}
