//! Bytes of generated tokens to text. Holds back what may still become a character; knows no ids.

use crate::save::saved;

/// Collects the bytes of ordinary tokens until they can be released as text.
///
/// Plain data: it may be cloned, and compared. What is released does not depend on how the bytes were pushed,
/// only on when it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoder {
    pending: Vec<u8>,
}

impl Decoder {
    /// A decoder that waits for nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the bytes of a token.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// All that is pending, unless there is nothing or it ends inside a character that may still be completed.
    ///
    /// Ill-formed bytes come out as U+FFFD, one for each maximal subpart (Unicode, section 3.9). This looks at
    /// the last three bytes only, so a stream that never completes a character stays linear.
    pub fn take_complete(&mut self) -> Option<String> {
        if ends_inside_character(&self.pending) {
            return None;
        }
        self.take_all()
    }

    /// All that is pending, an incomplete character at its end as one U+FFFD. `None` if there is nothing.
    pub fn take_all(&mut self) -> Option<String> {
        if self.pending.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.pending);
        Some(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
    }
}

/// Whether the bytes end with the first bytes of a character, but not all of it.
fn ends_inside_character(bytes: &[u8]) -> bool {
    let Some(back) = bytes.iter().rev().take(3).position(|byte| !(0x80..=0xBF).contains(byte)) else {
        return false;
    };
    let tail = &bytes[bytes.len() - 1 - back..];
    // Of the bytes after the lead byte, only the first has limits of its own (Unicode, table 3-7).
    let (length, second) = match tail[0] {
        0xC2..=0xDF => (2, 0x80..=0xBF),
        0xE0 => (3, 0xA0..=0xBF),
        0xED => (3, 0x80..=0x9F),
        0xE1..=0xEF => (3, 0x80..=0xBF),
        0xF0 => (4, 0x90..=0xBF),
        0xF1..=0xF3 => (4, 0x80..=0xBF),
        0xF4 => (4, 0x80..=0x8F),
        _ => return false,
    };
    tail.len() < length && tail.get(1).is_none_or(|byte| second.contains(byte))
}

saved! { struct Decoder { pending } }
