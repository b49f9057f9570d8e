//! Whether a text is JSON, in the simplest way: one character after the other, what is allowed next in a variable.
//! No limit of depth and of numbers, unlike a parser. Knows no values.

/// The keys at the top of a text that is one JSON object, as they are written; `None` for every other text.
pub fn top_keys(text: &str) -> Option<Vec<&str>> {
    let bytes = text.as_bytes();
    let (mut at, mut open, mut keys) = (0, Vec::new(), Vec::new());
    let mut next = "value";
    loop {
        while at < bytes.len() && b" \t\r\n".contains(&bytes[at]) {
            at += 1;
        }
        let Some(&byte) = bytes.get(at) else { break };
        let start = at;
        at += 1;
        let inside = open.last().copied();
        next = match (next, byte) {
            ("value", b'{') => {
                open.push(b'}');
                "first key"
            }
            ("value" | "first value", b'[') => {
                open.push(b']');
                "first value"
            }
            ("first value", b'{') => {
                open.push(b'}');
                "first key"
            }
            ("first key" | "comma", b'}') | ("first value" | "comma", b']') if inside == Some(byte) => {
                open.pop();
                "comma"
            }
            ("first key" | "key", b'"') => {
                at = string_end(bytes, at)?;
                if open.len() == 1 {
                    keys.push(&text[start..at]);
                }
                "colon"
            }
            ("colon", b':') => "value",
            ("comma", b',') if inside == Some(b'}') => "key",
            ("comma", b',') if inside == Some(b']') => "value",
            ("value" | "first value", b'"') => {
                at = string_end(bytes, at)?;
                "comma"
            }
            ("value" | "first value", _) => {
                let length =
                    bytes[start..].iter().take_while(|b| b.is_ascii_alphanumeric() || b"+-.".contains(b)).count();
                at = start + length;
                if !is_scalar(&text[start..at]) {
                    return None;
                }
                "comma"
            }
            _ => return None,
        };
    }
    (next == "comma" && open.is_empty() && text.trim_start().starts_with('{')).then_some(keys)
}

/// Behind the quote that ends the string.
fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            0..=0x1F => return None,
            b'\\' if b"\"\\/bfnrt".contains(bytes.get(at + 1)?) => at += 2,
            b'\\' if bytes[at + 1] == b'u' && bytes.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit) => at += 6,
            b'\\' => return None,
            _ => at += 1,
        }
    }
}

fn is_scalar(word: &str) -> bool {
    if matches!(word, "true" | "false" | "null") {
        return true;
    }
    let word = word.strip_prefix('-').unwrap_or(word);
    let (number, exponent) = word.split_once(['e', 'E']).unwrap_or((word, "0"));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    digits(whole) && (whole == "0" || !whole.starts_with('0')) && digits(fraction) && digits(exponent)
}
