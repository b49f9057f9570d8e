//! Reading a JSON value into typed records, with the texts that `serde` gives: they are wire strings.
//! Knows no protocol: which fields there are stands with each protocol's records.
//!
//! The value is consumed, so strings are moved. An error carries the path to its place.

use crate::error::{Error, Result};
use crate::json::{Number, Value};

/// A type that can be read from a JSON value.
pub(crate) trait FromValue: Sized {
    /// Reads the value, or says what was expected instead.
    fn from_value(value: Value<'_>) -> Result<Self>;

    /// What stands for a field that is not there.
    fn absent(field: &str) -> Result<Self> {
        Err(Error::shape(format!("missing field `{field}`")).at(field))
    }

    /// What stands for a field that a record's array form leaves out at its end, if something does.
    fn left_out() -> Option<Self> {
        None
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Value<'_>) -> Result<Self> {
        match value {
            Value::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }

    fn absent(_field: &str) -> Result<Self> {
        Ok(None)
    }
}

impl<T: FromValue> FromValue for Box<T> {
    fn from_value(value: Value<'_>) -> Result<Self> {
        T::from_value(value).map(Box::new)
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(value: Value<'_>) -> Result<Self> {
        let Value::Array(items) = value else {
            return Err(value.mismatch("a sequence"));
        };
        let read = |(i, item)| T::from_value(item).map_err(|error| error.within(&format!("[{i}]")));
        items.into_iter().enumerate().map(read).collect()
    }
}

impl FromValue for Value<'static> {
    fn from_value(value: Value<'_>) -> Result<Self> {
        Ok(value.into_owned())
    }
}

impl FromValue for String {
    fn from_value(value: Value<'_>) -> Result<Self> {
        match value {
            Value::String(text) => Ok(text.into_owned()),
            value => Err(value.mismatch("a string")),
        }
    }
}

impl FromValue for bool {
    fn from_value(value: Value<'_>) -> Result<Self> {
        match value {
            Value::Bool(b) => Ok(b),
            value => Err(value.mismatch("a boolean")),
        }
    }
}

/// Reads an unsigned integer of at most `max`; `name` is its type in texts.
fn unsigned(value: Value<'_>, name: &str, max: u64) -> Result<u64> {
    match value {
        Value::Number(Number::Unsigned(n)) if n <= max => Ok(n),
        Value::Number(Number::Unsigned(_) | Number::Negative(_)) => {
            Err(Error::shape(format!("invalid value: {}, expected {name}", value.describe())))
        }
        value => Err(value.mismatch(name)),
    }
}

impl FromValue for u8 {
    fn from_value(value: Value<'_>) -> Result<Self> {
        unsigned(value, "u8", Self::MAX.into()).map(|n| n as Self)
    }
}

impl FromValue for u32 {
    fn from_value(value: Value<'_>) -> Result<Self> {
        unsigned(value, "u32", Self::MAX.into()).map(|n| n as Self)
    }
}

impl FromValue for u64 {
    fn from_value(value: Value<'_>) -> Result<Self> {
        unsigned(value, "u64", Self::MAX)
    }
}

impl FromValue for f32 {
    fn from_value(value: Value<'_>) -> Result<Self> {
        match value {
            // One rounding, not two over f64.
            Value::Number(Number::Unsigned(n)) => Ok(n as f32),
            Value::Number(Number::Negative(n)) => Ok(n as f32),
            Value::Number(n) => Ok(n.to_f64() as f32),
            value => Err(value.mismatch("f32")),
        }
    }
}

/// An optional field that may be left out in an array form, too.
#[derive(Debug)]
pub(crate) struct Defaulted<T>(pub(crate) Option<T>);

impl<T: FromValue> FromValue for Defaulted<T> {
    fn from_value(value: Value<'_>) -> Result<Self> {
        Option::from_value(value).map(Self)
    }

    fn absent(_field: &str) -> Result<Self> {
        Ok(Self(None))
    }

    fn left_out() -> Option<Self> {
        Some(Self(None))
    }
}

/// A field that the reference ignores, so a value of another type is no error: it does not count.
#[derive(Debug)]
pub(crate) struct Lenient<T>(pub(crate) Option<T>);

impl<T: FromValue> FromValue for Lenient<T> {
    fn from_value(value: Value<'_>) -> Result<Self> {
        Ok(Self(T::from_value(value).ok()))
    }

    fn absent(_field: &str) -> Result<Self> {
        Ok(Self(None))
    }
}

/// Whether a field that is not served says something. Null, false, and what is empty say nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Says(pub(crate) bool);

impl FromValue for Says {
    fn from_value(value: Value<'_>) -> Result<Self> {
        Ok(Self(match value {
            Value::Null => false,
            Value::Bool(set) => set,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(object) => !object.is_empty(),
            Value::Number(_) => true,
        }))
    }

    fn absent(_field: &str) -> Result<Self> {
        Ok(Self(false))
    }
}

/// A field that the reference ignores and we honour: its fault waits until the reference would have refused.
#[derive(Debug)]
pub(crate) struct Late<T>(Result<Option<T>>);

impl<T: FromValue> FromValue for Late<T> {
    fn from_value(value: Value<'_>) -> Result<Self> {
        Ok(Self(Option::from_value(value)))
    }

    fn absent(_field: &str) -> Result<Self> {
        Ok(Self(Ok(None)))
    }
}

impl<T> Late<T> {
    /// The value of the field at `path`, or its fault: by now one of conversion, with the text of a wrong shape.
    pub(crate) fn read(self, path: &str) -> Result<Option<T>> {
        self.0.map_err(|error| {
            let text = error.to_string();
            Error::conversion(text).at(error.within(path).path().unwrap_or_default())
        })
    }
}

/// A string, or a list of `P`.
#[derive(Debug)]
pub(crate) enum StringOrList<P> {
    /// The string.
    String(String),
    /// The list.
    List(Vec<P>),
}

impl<P: FromValue> StringOrList<P> {
    /// Reads either; `expected` is the whole text of the error.
    pub(crate) fn read(value: Value<'_>, expected: &str) -> Result<Self> {
        match value {
            Value::String(text) => Ok(Self::String(text.into_owned())),
            Value::Array(_) => Vec::from_value(value).map(Self::List),
            _ => Err(Error::shape(expected)),
        }
    }
}

/// Reads a field by hand, in a record that `shape!` does not read: the text of an error names the field.
pub(crate) fn read_field<T: FromValue>(field: &str, value: Value<'_>) -> Result<T> {
    T::from_value(value).map_err(|error| {
        let text = format!("field `{field}`: {}", error.message());
        Error::shape(text).at(error.within(field).path().unwrap_or_default())
    })
}

/// The place of a name in `names`. A plain enum may also stand as an object of one name and null.
pub(crate) fn read_name(value: &Value<'_>, names: &[&str]) -> Result<usize> {
    let find = |name: &str| names.iter().position(|n| *n == name).ok_or_else(|| Error::unknown_variant(name, names));
    match value {
        Value::String(name) => find(name),
        Value::Object(object) => match object.iter().as_slice() {
            [(name, Value::Null)] => find(name),
            [(name, value)] => Err(find(name).err().unwrap_or_else(|| value.mismatch("unit"))),
            _ => Err(Error::shape("invalid value: map, expected map with a single key")),
        },
        value => Err(value.mismatch("string or map")),
    }
}

/// The variant that the field `tag` names, and the value that holds the variant's fields.
/// The tag itself may stay in there: no variant has a field of that name. Texts list the first `listed` names.
/// `read_place` reads the variant's place from the tag's value.
pub(crate) fn read_tag<'a>(
    value: Value<'a>,
    enum_name: &str,
    tag: &str,
    names: &[&str],
    listed: usize,
    read_place: fn(&Value<'_>, &[&str], usize) -> Result<usize>,
) -> Result<(usize, Value<'a>)> {
    let found = match &value {
        Value::Object(object) => object.get(tag),
        Value::Array(items) => items.first(),
        value => return Err(value.mismatch(&format!("internally tagged enum {enum_name}"))),
    };
    let found = found.ok_or_else(|| Error::shape(format!("missing field `{tag}`")).at(tag))?;
    let variant = read_place(found, names, listed).map_err(|error| error.at(tag))?;
    Ok(match value {
        Value::Array(mut items) => {
            items.remove(0);
            (variant, Value::Array(items))
        }
        value => (variant, value),
    })
}

/// The place of the variant that a tag names.
pub(crate) fn place_by_name(tag: &Value<'_>, names: &[&str], listed: usize) -> Result<usize> {
    let name = tag.as_str().ok_or_else(|| tag.mismatch("variant identifier"))?;
    names.iter().position(|n| *n == name).ok_or_else(|| Error::unknown_variant(name, &names[..listed]))
}

/// The same where a tag may also be the place itself: `serde` takes it in enums that stand inside tagged ones.
pub(crate) fn place_by_name_or_index(tag: &Value<'_>, names: &[&str], listed: usize) -> Result<usize> {
    let Value::Number(Number::Unsigned(index)) = tag else {
        return place_by_name(tag, names, listed);
    };
    let place = usize::try_from(*index).ok().filter(|place| *place < listed);
    place.ok_or_else(|| {
        Error::shape(format!("invalid value: {}, expected variant index 0 <= i < {listed}", tag.describe()))
    })
}

/// The elements of a record that is written as an array of its fields in order.
pub(crate) struct Elements<'a> {
    items: std::vec::IntoIter<Value<'a>>,
    read: usize,
    expected: usize,
    expecting: &'static str,
}

impl<'a> Elements<'a> {
    /// `expecting` names the record, which has `expected` fields.
    pub(crate) fn new(items: Vec<Value<'a>>, expected: usize, expecting: &'static str) -> Self {
        Self { items: items.into_iter(), read: 0, expected, expecting }
    }

    /// The next field.
    pub(crate) fn next<T: FromValue>(&mut self) -> Result<T> {
        let Some(item) = self.items.next() else {
            if let Some(value) = T::left_out() {
                self.read += 1;
                return Ok(value);
            }
            let Self { read, expected, expecting, .. } = self;
            let plural = if *expected == 1 { "" } else { "s" };
            return Err(Error::shape(format!(
                "invalid length {read}, expected {expecting} with {expected} element{plural}"
            )));
        };
        self.read += 1;
        T::from_value(item).map_err(|error| error.within(&format!("[{}]", self.read - 1)))
    }

    /// Nothing may follow the fields. The text tells records inside a tagged enum from others.
    pub(crate) fn end(self, tagged: bool) -> Result<()> {
        if self.items.len() == 0 {
            return Ok(());
        }
        let total = self.read + self.items.len();
        let expected = match (tagged, self.expected) {
            (false, _) => "fewer elements in array".to_owned(),
            (true, 1) => "1 element in sequence".to_owned(),
            (true, n) => format!("{n} elements in sequence"),
        };
        Err(Error::shape(format!("invalid length {total}, expected {expected}")))
    }
}

/// Declares a record: `struct Name = plain "struct WireName" { "key" => field: Type, }`.
///
/// Fields are read in the order of the body's keys, the first bad one is the error; missing ones
/// come after all of them, in declaration order. Unknown keys are ignored. `plain` or `tagged` says
/// whether the record stands inside a tagged enum, which shows in one text. Fields under `also` are
/// those that the reference does not know: they have no place in the array form.
macro_rules! shape {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident = $place:ident $expecting:literal {
            $($key:literal => $field:ident: $type:ty,)*
        }
        $(also { $($also_key:literal => $also_field:ident: $also_type:ty,)* })?
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        $vis struct $name {
            $(pub(crate) $field: $type,)*
            $($(pub(crate) $also_field: $also_type,)*)?
        }

        impl $crate::request::shape::FromValue for $name {
            fn from_value(value: $crate::json::Value<'_>) -> $crate::error::Result<Self> {
                use $crate::request::shape::Elements;
                const FIELDS: &[&str] = &[$($key),*];
                $(let mut $field: Option<$type> = None;)*
                $($(let mut $also_field: Option<$also_type> = None;)*)?
                match value {
                    $crate::json::Value::Object(object) => {
                        for (key, value) in object {
                            match key.as_ref() {
                                $($key => {
                                    $field = Some($crate::request::shape::FromValue::from_value(value).map_err(|error| error.within($key))?);
                                })*
                                $($($also_key => {
                                    $also_field = Some($crate::request::shape::FromValue::from_value(value).map_err(|error| error.within($also_key))?);
                                })*)?
                                _ => drop(value),
                            }
                        }
                    }
                    $crate::json::Value::Array(items) => {
                        #[allow(unused_mut, reason = "a record may have no fields")]
                        let mut elements = Elements::new(items, FIELDS.len(), $expecting);
                        $($field = Some(elements.next()?);)*
                        elements.end($crate::request::shape::shape!(@tagged $place))?;
                    }
                    other => return Err(other.mismatch($expecting)),
                }
                Ok(Self {
                    $($field: match $field {
                        Some(value) => value,
                        None => $crate::request::shape::FromValue::absent($key)?,
                    },)*
                    $($($also_field: match $also_field {
                        Some(value) => value,
                        None => $crate::request::shape::FromValue::absent($also_key)?,
                    },)*)?
                })
            }
        }
    };
    (@tagged plain) => { false };
    (@tagged tagged) => { true };
}

/// Declares an enum of names: `enum Name { Variant = "name", }`.
macro_rules! names {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident { $($variant:ident = $text:literal,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name { $($variant,)* }

        impl $crate::request::shape::FromValue for $name {
            fn from_value(value: $crate::json::Value<'_>) -> $crate::error::Result<Self> {
                const ALL: &[$name] = &[$($name::$variant),*];
                $crate::request::shape::read_name(&value, &[$($text),*]).map(|place| ALL[place])
            }
        }
    };
}

/// Declares an internally tagged enum: `enum Name = "WireName" by "tag" { "name" => Variant(Record), }`.
/// Variants under `also` are those that the reference does not know, so texts do not list them.
/// `or index` behind the tag says that a variant's place may stand for its name.
macro_rules! tagged {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident = $wire:literal by $tag:literal $(or $index:ident)? {
            $($text:literal => $variant:ident($record:ty),)*
        }
        $(also { $($also_text:literal => $also_variant:ident($also_record:ty),)* })?
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        $vis enum $name { $($variant($record),)* $($($also_variant($also_record),)*)? }

        impl $crate::request::shape::FromValue for $name {
            fn from_value(value: $crate::json::Value<'_>) -> $crate::error::Result<Self> {
                const LISTED: &[&str] = &[$($text),*];
                const NAMES: &[&str] = &[$($text,)* $($($also_text,)*)?];
                let read_place = $crate::request::shape::tagged!(@place $($index)?);
                let (variant, fields) =
                    $crate::request::shape::read_tag(value, $wire, $tag, NAMES, LISTED.len(), read_place)?;
                match NAMES[variant] {
                    $($text => $crate::request::shape::FromValue::from_value(fields).map(Self::$variant),)*
                    $($($also_text => $crate::request::shape::FromValue::from_value(fields).map(Self::$also_variant),)*)?
                    _ => unreachable!("the names are those of the variants"),
                }
            }
        }
    };
    (@place) => { $crate::request::shape::place_by_name };
    (@place index) => { $crate::request::shape::place_by_name_or_index };
}

pub(crate) use {names, shape, tagged};
