//! JSON values that keep key order and the digits of integers, their parser and their writers.
//!
//! The parser is strict RFC 8259 with the texts and positions of `serde_json` 1, which are wire
//! strings of the reference. It parts from it in two places: an integer of any size keeps its
//! digits, and half a surrogate pair in an escape becomes U+FFFD instead of an error.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::{LowerExp, Write};
use std::str::FromStr;

use crate::error::{Error, Result};

/// A JSON value. Strings borrow from the parsed text where they hold no escape.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string, unescaped.
    String(Cow<'a, str>),
    /// An array.
    Array(Vec<Value<'a>>),
    /// An object.
    Object(Object<'a>),
}

/// A number. `-0`, and everything with a point or an exponent, is a float.
#[derive(Clone, Debug, PartialEq)]
pub enum Number {
    /// An integer from 0 to 2^64 - 1.
    Unsigned(u64),
    /// An integer from -2^63 to -1.
    Negative(i64),
    /// An integer beyond those, as its digits, with a sign if negative.
    Wide(Box<str>),
    /// A finite float.
    Float(f64),
}

/// An object: members in source order. Of a repeated key the last value stands in the first place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, Value<'a>)>,
}

/// Containers may be nested this deep in a text, the outermost counted.
pub const MAX_TEXT_DEPTH: usize = 127;

// Up to this size a scan is cheaper than a hash map.
const SMALL_OBJECT: usize = 12;

impl<'a> Object<'a> {
    /// An object of these members, repeated keys merged.
    pub fn from_members(mut members: Vec<(Cow<'a, str>, Value<'a>)>) -> Self {
        if members.len() > SMALL_OBJECT {
            let mut seen: HashMap<Cow<'a, str>, usize> = HashMap::with_capacity(members.len());
            let mut kept: Vec<(Cow<'a, str>, Value<'a>)> = Vec::with_capacity(members.len());
            for (key, value) in members {
                match seen.get(&key) {
                    Some(&place) => kept[place].1 = value,
                    None => {
                        seen.insert(key.clone(), kept.len());
                        kept.push((key, value));
                    }
                }
            }
            return Self { members: kept };
        }
        let mut next = 1;
        while next < members.len() {
            match members[..next].iter().position(|(key, _)| *key == members[next].0) {
                Some(place) => {
                    let (_, value) = members.remove(next);
                    members[place].1 = value;
                }
                None => next += 1,
            }
        }
        Self { members }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.members.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// The members in order.
    pub fn iter(&self) -> std::slice::Iter<'_, (Cow<'a, str>, Value<'a>)> {
        self.members.iter()
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

impl<'a> IntoIterator for Object<'a> {
    type Item = (Cow<'a, str>, Value<'a>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.members.into_iter()
    }
}

impl<'a> Value<'a> {
    /// Parses a text. The error is `invalid JSON request: …` with line and column.
    pub fn parse(text: &'a [u8]) -> Result<Self> {
        let mut parser = Parser { text, at: 0, depth: 0, repeated: false };
        parser.document().map_err(|fault| fault.into_error(text))
    }

    /// The same value without borrowed strings.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(b) => Value::Bool(b),
            Self::Number(n) => Value::Number(n),
            Self::String(s) => Value::String(Cow::Owned(s.into_owned())),
            Self::Array(items) => Value::Array(items.into_iter().map(Value::into_owned).collect()),
            Self::Object(object) => Value::Object(Object {
                members: object.into_iter().map(|(k, v)| (Cow::Owned(k.into_owned()), v.into_owned())).collect(),
            }),
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(s) => Some(s),
            _ => None,
        }
    }

    /// The members of an object.
    pub fn as_object(&self) -> Option<&Object<'a>> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The items of an array.
    pub fn as_array(&self) -> Option<&[Value<'a>]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The member of an object.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.as_object().and_then(|object| object.get(key))
    }

    /// What the value is, in the words of a shape error: ``integer `1` ``, `map`, `string "x"`.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(b) => format!("boolean `{b}`"),
            Self::Number(n) => n.describe(),
            Self::String(s) => format!("string {s:?}"),
            Self::Array(_) => "sequence".to_owned(),
            Self::Object(_) => "map".to_owned(),
        }
    }

    /// The shape error of a value that should be something else.
    pub(crate) fn mismatch(&self, expected: &str) -> Error {
        Error::shape(format!("invalid type: {}, expected {expected}", self.describe()))
    }

    /// Appends the value without spaces: `{"a":[1,2.0]}`.
    pub fn write_compact(&self, out: &mut String) {
        self.write(out, &Spelling { comma: ",", colon: ":", float: write_float });
    }

    /// Appends the value with a space after commas and colons, floats as `float` writes them.
    pub fn write_spaced(&self, out: &mut String, float: fn(&mut String, f64)) {
        self.write(out, &Spelling { comma: ", ", colon: ": ", float });
    }

    /// The value without spaces.
    pub fn to_compact(&self) -> String {
        let mut out = String::new();
        self.write_compact(&mut out);
        out
    }

    fn write(&self, out: &mut String, spelling: &Spelling) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Self::Number(Number::Float(f)) => (spelling.float)(out, *f),
            Self::Number(n) => n.write_integer(out),
            Self::String(s) => write_string(out, s),
            Self::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push_str(spelling.comma);
                    }
                    item.write(out, spelling);
                }
                out.push(']');
            }
            Self::Object(object) => {
                out.push('{');
                for (i, (key, value)) in object.iter().enumerate() {
                    if i > 0 {
                        out.push_str(spelling.comma);
                    }
                    write_string(out, key);
                    out.push_str(spelling.colon);
                    value.write(out, spelling);
                }
                out.push('}');
            }
        }
    }

    /// The value for the JSON Schema validator. Wide integers become floats there.
    pub(crate) fn to_serde(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(b) => (*b).into(),
            Self::Number(Number::Unsigned(n)) => (*n).into(),
            Self::Number(Number::Negative(n)) => (*n).into(),
            Self::Number(n) => n.to_f64().into(),
            Self::String(s) => s.as_ref().into(),
            Self::Array(items) => items.iter().map(Value::to_serde).collect(),
            Self::Object(object) => object.iter().map(|(k, v)| (k.to_string(), v.to_serde())).collect(),
        }
    }
}

impl Number {
    /// The value as a finite float; wide integers are rounded, and capped at the largest one.
    pub fn to_f64(&self) -> f64 {
        match self {
            Self::Unsigned(n) => *n as f64,
            Self::Negative(n) => *n as f64,
            Self::Float(f) => *f,
            Self::Wide(digits) => digits.parse::<f64>().unwrap_or(f64::MAX).clamp(f64::MIN, f64::MAX),
        }
    }

    /// An integer from its digits, `-` in front if negative.
    pub fn from_integer_digits(digits: &str) -> Self {
        match (digits.parse::<u64>(), digits.parse::<i64>()) {
            (Ok(n), _) => Self::Unsigned(n),
            (_, Ok(n)) => Self::Negative(n),
            _ => Self::Wide(digits.into()),
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Unsigned(n) => format!("integer `{n}`"),
            Self::Negative(n) => format!("integer `{n}`"),
            // A wide integer counts as a float where a number is wanted.
            Self::Wide(_) | Self::Float(_) => {
                let mut out = "floating point `".to_owned();
                write_float(&mut out, self.to_f64());
                out.push('`');
                out
            }
        }
    }

    fn write_integer(&self, out: &mut String) {
        match self {
            Self::Unsigned(n) => write!(out, "{n}").expect("writing to a string cannot fail"),
            Self::Negative(n) => write!(out, "{n}").expect("writing to a string cannot fail"),
            Self::Wide(digits) => out.push_str(digits),
            Self::Float(f) => write_float(out, *f),
        }
    }
}

struct Spelling {
    comma: &'static str,
    colon: &'static str,
    float: fn(&mut String, f64),
}

/// Appends a float in shortest form: `1.0`, `0.00001`, `1e-6`, `1e+16`. Not finite: `null`.
pub fn write_float(out: &mut String, value: f64) {
    write_float_with(out, &shortest_digits(value), -5, 1);
}

/// Appends a float of 32 bits in shortest form. Not finite: `null`.
pub fn write_float32(out: &mut String, value: f32) {
    write_float_with(out, &shortest_digits(value), -5, 1);
}

/// Appends a float as Python's `repr` does: `1.0`, `0.0001`, `1e-05`, `1e+16`. Not finite: `null`.
pub fn write_float_repr(out: &mut String, value: f64) {
    write_float_with(out, &shortest_digits(value), -4, 2);
}

/// Decimal notation from `10^lowest` up to `10^15`, else scientific with this many exponent digits or more.
fn write_float_with(out: &mut String, shortest: &str, lowest: i32, exponent_digits: usize) {
    // Infinities and NaN have no exponent.
    let Some((mantissa, exponent)) = shortest.split_once('e') else {
        out.push_str("null");
        return;
    };
    let exponent: i32 = exponent.parse().expect("an exponent is a small integer");
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    out.push_str(sign);
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if !(lowest..=15).contains(&exponent) {
        out.push_str(mantissa);
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "e{sign}{:0exponent_digits$}", exponent.abs()).expect("writing to a string cannot fail");
    } else if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        out.push_str(&digits);
    } else {
        let whole = exponent as usize + 1;
        if digits.len() <= whole {
            out.push_str(&digits);
            out.extend(std::iter::repeat_n('0', whole - digits.len()));
            out.push_str(".0");
        } else {
            out.push_str(&digits[..whole]);
            out.push('.');
            out.push_str(&digits[whole..]);
        }
    }
}

/// The fewest digits that read back as the same float, and of those the closest, even on a tie: `-1.25e-7`.
fn shortest_digits<F: LowerExp + FromStr + PartialEq>(value: F) -> String {
    // `{:e}` gives the fewest digits, but rounds a tie up (655462686014074.25 ends in 3).
    let shortest = format!("{value:e}");
    let mantissa = shortest.split('e').next().unwrap_or_default();
    let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    // Precision rounds ties to even. Next to a power of two the closest may read back as a neighbour.
    let closest = format!("{value:.decimals$e}");
    match closest.parse().is_ok_and(|read: F| read == value) {
        true => closest,
        false => shortest,
    }
}

/// Appends `text` as a JSON string, quotes included.
pub fn write_string(out: &mut String, text: &str) {
    out.push('"');
    write_escaped(out, text);
    out.push('"');
}

/// Appends `text` as the inside of a JSON string: `\"`, `\\`, the short escapes and `\u00xx` for controls.
pub fn write_escaped(out: &mut String, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut done = 0;
    for (i, byte) in text.bytes().enumerate() {
        let short = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0c => "\\f",
            0..=0x1f => "",
            _ => continue,
        };
        out.push_str(&text[done..i]);
        done = i + 1;
        out.push_str(short);
        if short.is_empty() {
            out.push_str("\\u00");
            out.push(HEX[usize::from(byte >> 4)].into());
            out.push(HEX[usize::from(byte & 15)].into());
        }
    }
    out.push_str(&text[done..]);
}

/// Whether a text is one JSON object whose keys are unique at the top.
pub(crate) fn is_unique_object(text: &str) -> bool {
    let mut parser = Parser { text: text.as_bytes(), at: 0, depth: 0, repeated: false };
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
    at: usize,
    depth: usize,
    /// Whether the outermost object had a repeated key.
    repeated: bool,
}

impl<'a> Parser<'a> {
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
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
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
                // The fault stands behind the digit with which the exponent leaves 32 bits, if it does.
                let exponent = spelled.find(['e', 'E']).map_or(self.at, |e| start + e + 1);
                let mut value = 0_i64;
                for (place, byte) in (exponent..self.at).zip(&self.text[exponent..self.at]) {
                    value = value * 10 + i64::from(byte.saturating_sub(b'0'));
                    if value > i64::from(i32::MAX) {
                        self.at = place + 1;
                        break;
                    }
                }
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
        let mut run = self.at;
        let mut unescaped: Option<Vec<u8>> = None;
        loop {
            match self.peek() {
                None => return self.fault("EOF while parsing a string"),
                Some(b'"') => break,
                Some(b'\\') => {
                    let out = unescaped.get_or_insert_with(Vec::new);
                    out.extend_from_slice(&self.text[run..self.at]);
                    self.at += 1;
                    let mut buffer = [0; 4];
                    let found = escape(self)?;
                    out.extend_from_slice(found.encode_utf8(&mut buffer).as_bytes());
                    run = self.at;
                }
                Some(0..=0x1f) => {
                    self.at += 1;
                    return self.fault("control character (\\u0000-\\u001F) found while parsing a string");
                }
                Some(_) => self.at += 1,
            }
        }
        let last = &self.text[run..self.at];
        self.at += 1;
        let text = match unescaped {
            None => std::str::from_utf8(last).map(Cow::Borrowed).ok(),
            Some(mut out) => {
                out.extend_from_slice(last);
                String::from_utf8(out).map(Cow::Owned).ok()
            }
        };
        text.map_or_else(|| self.fault("invalid unicode code point"), Ok)
    }
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
            char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER)
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
