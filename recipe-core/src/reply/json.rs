//! JSON that the replies of several protocols have in common. Knows no protocol's field names but those of log
//! probabilities.

use std::fmt::Write;

use crate::json::{write_float32, write_string};
use crate::stream::{TokenLogprob, TokenProbability};

/// Appends formatted text, which has to be JSON.
pub(super) fn write(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a string cannot fail");
}

/// Appends a string or null.
pub(super) fn write_optional(out: &mut String, text: Option<&str>) {
    match text {
        Some(text) => write_string(out, text),
        None => out.push_str("null"),
    }
}

/// Appends the log probabilities of tokens.
pub(super) fn write_logprobs(out: &mut String, entries: &[TokenLogprob]) {
    out.push('[');
    for (place, entry) in entries.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        write_probability(out, &entry.token);
        out.push_str(",\"top_logprobs\":[");
        for (place, token) in entry.top.iter().enumerate() {
            if place > 0 {
                out.push(',');
            }
            write_probability(out, token);
            out.push('}');
        }
        out.push_str("]}");
    }
    out.push(']');
}

/// An entry without its closing brace. A token that is no UTF-8 text is spelled byte by byte.
fn write_probability(out: &mut String, token: &TokenProbability) {
    out.push_str("{\"token\":");
    match std::str::from_utf8(&token.bytes) {
        Ok(text) => write_string(out, text),
        Err(_) => {
            let spelled: String = token.bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
            write_string(out, &spelled);
        }
    }
    out.push_str(",\"logprob\":");
    write_float32(out, token.logprob);
    out.push_str(",\"bytes\":[");
    for (place, byte) in token.bytes.iter().enumerate() {
        let comma = if place > 0 { "," } else { "" };
        write(out, format_args!("{comma}{byte}"));
    }
    out.push(']');
}
