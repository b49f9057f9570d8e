//! The JSON parser: strict RFC 8259 with the texts and positions of `serde_json` 1, which are wire
//! strings of the reference.
//!
//! It parts from it in two places: an integer of any size keeps its digits, and half a surrogate pair in
//! an escape becomes U+FFFD instead of an error.

use std::borrow::Cow;

use super::{plain_length, Number, Object, Value};
use crate::error::{Error, Result};

/// Containers may be nested this deep in a text, the outermost counted.
pub const MAX_TEXT_DEPTH: usize = 127;

/// Parses a whole text.
pub(super) fn document(text: &[u8]) -> Result<Value<'_>> {
    Parser::new(text).document().map_err(|fault| fault.into_error(text))
}

/// The object that a call's arguments are, if they are one. Half a surrogate pair in an escape makes them none: the
/// prompt shows such arguments as they were sent.
pub(crate) fn arguments(text: &str) -> Option<Object<'_>> {
    let mut parser = Parser::new(text.as_bytes());
    match parser.document() {
        Ok(Value::Object(object)) if !parser.half_pair => Some(object),
        _ => None,
    }
}

/// Whether a text is one JSON object whose keys are unique at the top.
pub(crate) fn is_unique_object(text: &str) -> bool {
    let mut parser = Parser::new(text.as_bytes());
    matches!(parser.document(), Ok(Value::Object(_))) && !parser.repeated
}

/// A syntax fault: its text, and how many bytes had been read.
struct Fault {
    text: &'static str,
    at: usize,
}

impl Fault {
    /// Line and column count as in `serde_json`: the column is the number of bytes read of the line.
    fn into_error(self, text: &[u8]) -> Error {
        let read = &text[..self.at.min(text.len())];
        let line_start = memchr::memrchr(b'\n', read).map_or(0, |p| p + 1);
        let line = 1 + memchr::memchr_iter(b'\n', &read[..line_start]).count();
        Error::syntax(format!("{} at line {line} column {}", self.text, read.len() - line_start))
    }
}

type Parsed<T> = std::result::Result<T, Fault>;

struct Parser<'a> {
    text: &'a [u8],
    /// The same where all of it is UTF-8: then each string is, without a look at it. Else the string with the fault is
    /// found when its turn comes.
    utf8: Option<&'a str>,
    /// Room for what a string with escapes says.
    unescaped: Vec<u8>,
    at: usize,
    depth: usize,
    /// Whether the outermost object had a repeated key.
    repeated: bool,
    /// Whether an escape held half a surrogate pair.
    half_pair: bool,
}

impl<'a> Parser<'a> {
    fn new(text: &'a [u8]) -> Self {
        let utf8 = std::str::from_utf8(text).ok();
        Self { text, utf8, unescaped: Vec::new(), at: 0, depth: 0, repeated: false, half_pair: false }
    }

    /// A fault at the byte that was read last.
    fn fault<T>(&self, text: &'static str) -> Parsed<T> {
        Err(Fault { text, at: self.at })
    }

    /// A fault at the byte that comes next.
    fn fault_next<T>(&self, text: &'static str) -> Parsed<T> {
        Err(Fault { text, at: self.at + 1 })
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.at += usize::from(byte.is_some());
        byte
    }

    fn skip_space(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
        self.peek()
    }

    fn document(&mut self) -> Parsed<Value<'a>> {
        let value = self.value()?;
        match self.skip_space() {
            None => Ok(value),
            Some(_) => self.fault_next("trailing characters"),
        }
    }

    fn value(&mut self) -> Parsed<Value<'a>> {
        let Some(first) = self.skip_space() else {
            return self.fault_next("EOF while parsing a value");
        };
        match first {
            b'n' => self.word("null", Value::Null),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'-' | b'0'..=b'9' => self.number().map(Value::Number),
            b'"' => self.string().map(Value::String),
            b'[' | b'{' => {
                if self.depth == MAX_TEXT_DEPTH {
                    return self.fault_next("recursion limit exceeded");
                }
                self.depth += 1;
                self.at += 1;
                let value = if first == b'[' { self.array()? } else { self.object()? };
                self.depth -= 1;
                Ok(value)
            }
            _ => self.fault_next("expected value"),
        }
    }

    fn word(&mut self, word: &'static str, value: Value<'a>) -> Parsed<Value<'a>> {
        self.at += 1;
        for expected in word.bytes().skip(1) {
            match self.next() {
                None => return self.fault("EOF while parsing a value"),
                Some(byte) if byte != expected => return self.fault("expected ident"),
                Some(_) => {}
            }
        }
        Ok(value)
    }

    fn array(&mut self) -> Parsed<Value<'a>> {
        let mut items = Vec::new();
        loop {
            match self.skip_space() {
                None => return self.fault_next("EOF while parsing a list"),
                Some(b']') => break,
                Some(b',') if !items.is_empty() => {
                    self.at += 1;
                    match self.skip_space() {
                        Some(b']') => return self.fault_next("trailing comma"),
                        None => return self.fault_next("EOF while parsing a value"),
                        Some(_) => {}
                    }
                }
                Some(_) if !items.is_empty() => return self.fault_next("expected `,` or `]`"),
                Some(_) => {}
            }
            items.push(self.value()?);
        }
        self.at += 1;
        Ok(Value::Array(items))
    }

    fn object(&mut self) -> Parsed<Value<'a>> {
        let mut members: Vec<(Cow<'a, str>, Value<'a>)> = Vec::new();
        loop {
            let mut next = self.skip_space();
            match next {
                None => return self.fault_next("EOF while parsing an object"),
                Some(b'}') => break,
                Some(b',') if !members.is_empty() => {
                    self.at += 1;
                    next = self.skip_space();
                }
                Some(_) if !members.is_empty() => return self.fault_next("expected `,` or `}`"),
                Some(_) => {}
            }
            match next {
                Some(b'"') => {}
                Some(b'}') => return self.fault_next("trailing comma"),
                Some(_) => return self.fault_next("key must be a string"),
                None => return self.fault_next("EOF while parsing a value"),
            }
            let key = self.string()?;
            match self.skip_space() {
                Some(b':') => self.at += 1,
                Some(_) => return self.fault_next("expected `:`"),
                None => return self.fault_next("EOF while parsing an object"),
            }
            members.push((key, self.value()?));
        }
        self.at += 1;
        let count = members.len();
        let object = Object::from_members(members);
        self.repeated |= self.depth == 1 && object.len() < count;
        Ok(Value::Object(object))
    }

    fn number(&mut self) -> Parsed<Number> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        match self.next() {
            Some(b'0') => {
                if let Some(b'0'..=b'9') = self.peek() {
                    return self.fault_next("invalid number");
                }
            }
            Some(b'1'..=b'9') => self.skip_digits(),
            Some(_) => return self.fault("invalid number"),
            None => return self.fault("EOF while parsing a value"),
        }
        let integer_end = self.at;
        if self.peek() == Some(b'.') {
            self.at += 1;
            match self.peek() {
                Some(b'0'..=b'9') => self.skip_digits(),
                Some(_) => return self.fault_next("invalid number"),
                None => return self.fault_next("EOF while parsing a value"),
            }
        }
        let mut exponent_start = self.at;
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            exponent_start = self.at;
            match self.next() {
                Some(b'0'..=b'9') => self.skip_digits(),
                Some(_) => return self.fault("invalid number"),
                None => return self.fault("EOF while parsing a value"),
            }
        }
        let spelled = std::str::from_utf8(&self.text[start..self.at]).expect("digits are ASCII");
        if self.at == integer_end && spelled != "-0" {
            return Ok(Number::from_integer_digits(spelled));
        }
        match spelled.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Number::Float(value)),
            _ => {
                self.at = overflow_place(self.text, exponent_start, self.at);
                self.fault("number out of range")
            }
        }
    }

    fn skip_digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
    }

    fn string(&mut self) -> Parsed<Cow<'a, str>> {
        self.at += 1;
        let start = self.at;
        self.at += plain_length(&self.text[start..]);
        if self.peek() != Some(b'"') {
            return self.string_with_escapes(start);
        }
        let found = start..self.at;
        self.at += 1;
        let text = match self.utf8 {
            Some(text) => Ok(&text[found]),
            None => std::str::from_utf8(&self.text[found]),
        };
        text.map_or_else(|_| self.fault("invalid unicode code point"), |text| Ok(Cow::Borrowed(text)))
    }

    /// The string that begins at `start`, and is plain up to here.
    fn string_with_escapes(&mut self, start: usize) -> Parsed<Cow<'a, str>> {
        let mut unescaped = std::mem::take(&mut self.unescaped);
        unescaped.clear();
        let mut run = start;
        loop {
            match self.next() {
                None => return self.fault("EOF while parsing a string"),
                Some(b'"') => break,
                Some(b'\\') => {
                    unescaped.extend_from_slice(&self.text[run..self.at - 1]);
                    let found = escape(self)?;
                    match u8::try_from(found) {
                        Ok(byte) if byte.is_ascii() => unescaped.push(byte),
                        _ => unescaped.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes()),
                    }
                    run = self.at;
                }
                Some(_) => return self.fault("control character (\\u0000-\\u001F) found while parsing a string"),
            }
            self.at += plain_length(&self.text[run..]);
        }
        unescaped.extend_from_slice(&self.text[run..self.at - 1]);
        let text = std::str::from_utf8(&unescaped).map(str::to_owned);
        self.unescaped = unescaped;
        text.map_or_else(|_| self.fault("invalid unicode code point"), |text| Ok(Cow::Owned(text)))
    }
}

/// Where `serde_json` stops to read an exponent: behind the digit that makes it larger than an `i32`.
fn overflow_place(text: &[u8], start: usize, end: usize) -> usize {
    let mut exponent = 0;
    for (i, digit) in text[start..end].iter().enumerate() {
        exponent = exponent * 10 + i64::from(digit.wrapping_sub(b'0'));
        if exponent > i64::from(i32::MAX) {
            return start + i + 1;
        }
    }
    end
}

/// The character of the escape whose backslash has been read. Half a surrogate pair is U+FFFD.
fn escape(parser: &mut Parser<'_>) -> Parsed<char> {
    let Some(letter) = parser.next() else {
        return parser.fault("EOF while parsing a string");
    };
    Ok(match letter {
        b'"' | b'\\' | b'/' => letter.into(),
        b'b' => '\x08',
        b'f' => '\x0c',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let first = hex(parser)?;
            let after = parser.at;
            if (0xd800..0xdc00).contains(&first) && parser.text[after..].starts_with(b"\\u") {
                parser.at += 2;
                let second = hex(parser)?;
                if (0xdc00..0xe000).contains(&second) {
                    let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                    return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                parser.at = after;
            }
            char::from_u32(first).unwrap_or_else(|| {
                parser.half_pair = true;
                char::REPLACEMENT_CHARACTER
            })
        }
        _ => return parser.fault("invalid escape"),
    })
}

fn hex(parser: &mut Parser<'_>) -> Parsed<u32> {
    let Some(digits) = parser.text.get(parser.at..parser.at + 4) else {
        parser.at = parser.text.len();
        return parser.fault("EOF while parsing a string");
    };
    parser.at += 4;
    digits.iter().try_fold(0, |value, &digit| match char::from(digit).to_digit(16) {
        Some(d) => Ok(value * 16 + d),
        None => parser.fault("invalid escape"),
    })
}
