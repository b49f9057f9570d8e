//! JSON values that keep key order and the digits of integers. The parser and the writers stand beside.

mod parse;
mod write;

use std::borrow::Cow;
use std::fmt::Write;

use foldhash::{HashMap, HashMapExt};

use crate::error::{Error, Result};

pub use parse::MAX_TEXT_DEPTH;
pub(crate) use parse::{arguments, is_unique_object};
pub use write::{write_escaped, write_float, write_float32, write_float_repr, write_string};

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
        parse::document(text)
    }

    /// The same value without borrowed strings.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(b) => Value::Bool(b),
            Self::Number(n) => Value::Number(n),
            Self::String(s) => Value::String(into_static(s)),
            Self::Array(items) => Value::Array(items.into_iter().map(Value::into_owned).collect()),
            Self::Object(object) => Value::Object(Object {
                members: object.into_iter().map(|(k, v)| (into_static(k), v.into_owned())).collect(),
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

/// How a value is written.
struct Spelling {
    comma: &'static str,
    colon: &'static str,
    float: fn(&mut String, f64),
}

/// How many bytes stand before the first one that a JSON string escapes: a quote, a backslash or a control.
#[inline]
fn plain_length(text: &[u8]) -> usize {
    let words = text.chunks_exact(8);
    let rest = words.remainder();
    for (i, word) in words.enumerate() {
        let word = u64::from_le_bytes(word.try_into().expect("a word has eight bytes"));
        let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & (ONES << 7);
        // In each term the lowest bit is right; a borrow makes wrong ones above it alone.
        let found = below(word, 0x20) | below(word ^ (ONES * 0x22), 1) | below(word ^ (ONES * 0x5c), 1);
        if found != 0 {
            return 8 * i + found.trailing_zeros() as usize / 8;
        }
    }
    let is_plain = |byte: &&u8| !matches!(byte, 0..=0x1f | b'"' | b'\\');
    text.len() - rest.len() + rest.iter().take_while(is_plain).count()
}

/// A one in each byte of a word.
const ONES: u64 = u64::MAX / 0xff;

/// The text without a borrow. The words that JSON Schemas are made of need no copy.
fn into_static(text: Cow<'_, str>) -> Cow<'static, str> {
    const WORDS: [&str; 16] = [
        "type",
        "string",
        "description",
        "properties",
        "object",
        "required",
        "integer",
        "boolean",
        "array",
        "items",
        "number",
        "enum",
        "default",
        "title",
        "additionalProperties",
        "anyOf",
    ];
    match (WORDS.into_iter().find(|word| *word == text), text) {
        (Some(word), _) => Cow::Borrowed(word),
        (None, text) => Cow::Owned(text.into_owned()),
    }
}
