//! The input of a custom tool, out of the arguments that the model writes. Knows no protocol.

use crate::json::Value;
use crate::save::saved;

/// How arguments begin whose only parameter is the string `input`.
const PREFIX: &str = "{\"input\": \"";

/// Decodes the arguments of one call: if they begin with a string `input`, that is the input, and what
/// follows it is dropped; otherwise the input is the arguments as they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct CustomInput {
    state: State,
    /// What may still be the prefix, or the begin of an escape.
    held: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum State {
    #[default]
    Prefix,
    String,
    Raw,
    Done,
}

impl CustomInput {
    /// Takes more of the arguments and gives what is known of the input.
    pub(crate) fn feed(&mut self, arguments: &str) -> String {
        self.held.push_str(arguments);
        if self.state == State::Prefix {
            if PREFIX.len() > self.held.len() && PREFIX.starts_with(&self.held) {
                return String::new();
            }
            self.state = State::Raw;
            if self.held.starts_with(PREFIX) {
                self.state = State::String;
                self.held.drain(..PREFIX.len());
            }
        }
        match self.state {
            State::Prefix | State::Raw => std::mem::take(&mut self.held),
            State::String => self.decode(),
            State::Done => {
                self.held.clear();
                String::new()
            }
        }
    }

    /// What was held when the call ended.
    pub(crate) fn rest(&mut self) -> String {
        match self.state {
            State::Prefix => std::mem::take(&mut self.held),
            _ => String::new(),
        }
    }

    /// Decodes up to the closing quote; an escape that is not complete stays held.
    fn decode(&mut self) -> String {
        let text = std::mem::take(&mut self.held);
        let bytes = text.as_bytes();
        let mut input = String::with_capacity(text.len());
        let mut done = 0;
        while let Some(next) = memchr::memchr2(b'"', b'\\', &bytes[done..]) {
            let start = done + next;
            input.push_str(&text[done..start]);
            if bytes[start] == b'"' {
                self.state = State::Done;
                return input;
            }
            let Some(length) = escape_length(&bytes[start..]) else {
                self.held.push_str(&text[start..]);
                return input;
            };
            // Arguments are JSON, so only a call that was cut off has an escape that cannot be read.
            let Some(escape) = text.get(start..start + length) else {
                input.push('\\');
                done = start + 1;
                continue;
            };
            done = start + length;
            match Value::parse(format!("\"{escape}\"").as_bytes()) {
                Ok(Value::String(decoded)) => input.push_str(&decoded),
                _ => input.push_str(escape),
            }
        }
        input.push_str(&text[done..]);
        input
    }
}

/// The length of an escape, or of two that spell one character. `None` if more has to come.
fn escape_length(bytes: &[u8]) -> Option<usize> {
    if *bytes.get(1)? != b'u' {
        return Some(2);
    }
    if bytes.len() < 6 {
        return None;
    }
    let spells = |digits: &[u8], second: &[u8]| digits[0].eq_ignore_ascii_case(&b'd') && second.contains(&digits[1]);
    if !spells(&bytes[2..], b"89abAB") {
        return Some(6);
    }
    // Half a pair: the other half may follow.
    match (bytes.get(6), bytes.get(7)) {
        (None, _) | (Some(b'\\'), None) => None,
        (Some(b'\\'), Some(b'u')) if bytes.len() < 12 => None,
        (Some(b'\\'), Some(b'u')) if spells(&bytes[8..], b"cdefCDEF") => Some(12),
        _ => Some(6),
    }
}

saved! { struct CustomInput { state, held } }
saved! { enum State { 0 = Prefix, 1 = String, 2 = Raw, 3 = Done } }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_gives_the_same_input() {
        for text in [
            r#"{"input": "a\"\\\n\u00e9\u0041\ud83d\ude00é😀"}"#,
            r#"{"input": "\ud83d\ud83d\ude00\ud83dx\ud83d\n\ude00"}"#,
            r#"{"input": "", "more": "\"x"}"#,
            r#"{"input": 5}"#,
            r#"{"inp"#,
            "{}",
        ] {
            let wanted = match Value::parse(text.as_bytes()) {
                Ok(value) => value.get("input").and_then(Value::as_str).unwrap_or(text).to_owned(),
                Err(_) => text.to_owned(),
            };
            let boundaries: Vec<usize> = (0..=text.len()).filter(|&at| text.is_char_boundary(at)).collect();
            for &first in &boundaries {
                for &second in boundaries.iter().filter(|&&at| at >= first) {
                    let mut input = CustomInput::default();
                    let pieces = [&text[..first], &text[first..second], &text[second..]];
                    let mut found: String = pieces.iter().map(|piece| input.feed(piece)).collect();
                    found.push_str(&input.rest());
                    assert_eq!(found, wanted, "{pieces:?}");
                }
            }
        }
    }
}
