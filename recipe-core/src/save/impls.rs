//! How the types of the standard library are saved, the values of JSON, and what is not saved but given again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::{damaged, Reader, Save, Writer};
use crate::error::{Error, Result};
use crate::json::{Number, Object, Value};
use crate::options::ModelVersion;
use crate::seal::ReasoningSealer;
use crate::tokenizer::Tokenizer;

macro_rules! by_number {
    ($($Name:ty),*) => {$(
        impl Save for $Name {
            fn save(&self, out: &mut Writer) {
                out.number(u64::from(*self));
            }

            fn load(from: &mut Reader<'_>) -> Result<Self> {
                from.number()?.try_into().map_err(|_| damaged())
            }
        }
    )*};
}

by_number!(u8, u32, u64);

impl Save for usize {
    fn save(&self, out: &mut Writer) {
        out.number(*self as u64);
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        from.size()
    }
}

impl Save for bool {
    fn save(&self, out: &mut Writer) {
        out.byte(u8::from(*self));
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        match from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(damaged()),
        }
    }
}

impl Save for f32 {
    fn save(&self, out: &mut Writer) {
        self.to_bits().save(out);
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        u32::load(from).map(Self::from_bits)
    }
}

impl Save for char {
    fn save(&self, out: &mut Writer) {
        u32::from(*self).save(out);
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        u32::load(from)?.try_into().map_err(|_| damaged())
    }
}

macro_rules! by_text {
    ($($Name:ty),*) => {$(
        impl Save for $Name {
            fn save(&self, out: &mut Writer) {
                out.text(self);
            }

            fn load(from: &mut Reader<'_>) -> Result<Self> {
                Ok(from.text()?.into())
            }
        }
    )*};
}

by_text!(String, Box<str>, Arc<str>);

impl Save for Cow<'static, str> {
    fn save(&self, out: &mut Writer) {
        out.text(self);
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        String::load(from).map(Cow::Owned)
    }
}

impl<T: Save> Save for Option<T> {
    fn save(&self, out: &mut Writer) {
        self.is_some().save(out);
        if let Some(value) = self {
            value.save(out);
        }
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        bool::load(from)?.then(|| T::load(from)).transpose()
    }
}

fn save_all<'v, T: Save + 'v>(values: impl ExactSizeIterator<Item = &'v T>, out: &mut Writer) {
    values.len().save(out);
    values.for_each(|value| value.save(out));
}

impl<T: Save> Save for Vec<T> {
    fn save(&self, out: &mut Writer) {
        save_all(self.iter(), out);
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        // No room is made before: a length alone must not cost memory.
        let mut values = Self::new();
        for _ in 0..from.size()? {
            values.push(T::load(from)?);
        }
        Ok(values)
    }
}

impl<T: Save> Save for VecDeque<T> {
    fn save(&self, out: &mut Writer) {
        save_all(self.iter(), out);
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        Vec::load(from).map(Self::from)
    }
}

impl<T: Save> Save for Arc<[T]> {
    fn save(&self, out: &mut Writer) {
        save_all(self.iter(), out);
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        Vec::load(from).map(Self::from)
    }
}

impl<T: Save + Ord> Save for BTreeSet<T> {
    fn save(&self, out: &mut Writer) {
        save_all(self.iter(), out);
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        Vec::load(from).map(Self::from_iter)
    }
}

impl<K: Save + Ord, V: Save> Save for BTreeMap<K, V> {
    fn save(&self, out: &mut Writer) {
        self.len().save(out);
        for (key, value) in self {
            key.save(out);
            value.save(out);
        }
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        Vec::load(from).map(Self::from_iter)
    }
}

impl<T: Save, const N: usize> Save for [T; N] {
    fn save(&self, out: &mut Writer) {
        self.iter().for_each(|value| value.save(out));
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        let values: Vec<T> = (0..N).map(|_| T::load(from)).collect::<Result<_>>()?;
        values.try_into().map_err(|_| damaged())
    }
}

macro_rules! through {
    ($($Name:ident),*) => {$(
        impl<T: Save> Save for $Name<T> {
            const NAME: &'static str = T::NAME;

            fn save(&self, out: &mut Writer) {
                T::save(self, out);
            }

            fn load(from: &mut Reader<'_>) -> Result<Self> {
                T::load(from).map(Self::new)
            }
        }
    )*};
}

through!(Arc, Box);

macro_rules! tuple {
    ($($T:ident $t:ident),*) => {
        impl<$($T: Save),*> Save for ($($T,)*) {
            fn save(&self, out: &mut Writer) {
                let ($($t,)*) = self;
                $($t.save(out);)*
            }

            fn load(from: &mut Reader<'_>) -> Result<Self> {
                Ok(($($T::load(from)?,)*))
            }
        }
    };
}

tuple!(A a, B b);
tuple!(A a, B b, C c);

impl Save for Range<usize> {
    fn save(&self, out: &mut Writer) {
        (self.start, self.end).save(out);
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        let (start, end) = Save::load(from)?;
        if start <= end {
            Ok(start..end)
        } else {
            Err(damaged())
        }
    }
}

impl Save for Value<'static> {
    fn save(&self, out: &mut Writer) {
        match self {
            Self::Null => out.byte(0),
            Self::Bool(false) => out.byte(1),
            Self::Bool(true) => out.byte(2),
            Self::Number(Number::Unsigned(number)) => {
                out.byte(3);
                number.save(out);
            }
            Self::Number(Number::Negative(number)) => {
                out.byte(4);
                number.unsigned_abs().save(out);
            }
            Self::Number(Number::Wide(digits)) => {
                out.byte(5);
                digits.save(out);
            }
            Self::Number(Number::Float(number)) => {
                out.byte(6);
                number.to_bits().save(out);
            }
            Self::String(text) => {
                out.byte(7);
                text.save(out);
            }
            Self::Array(items) => {
                out.byte(8);
                items.save(out);
            }
            Self::Object(object) => {
                out.byte(9);
                save_all(object.iter(), out);
            }
        }
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        Ok(match from.byte()? {
            0 => Self::Null,
            1 => Self::Bool(false),
            2 => Self::Bool(true),
            3 => Self::Number(Number::Unsigned(Save::load(from)?)),
            4 => {
                let number = i64::try_from(-i128::from(u64::load(from)?)).map_err(|_| damaged())?;
                Self::Number(Number::Negative(number))
            }
            5 => {
                let digits = from.text()?;
                let is_integer = digits.strip_prefix('-').unwrap_or(digits).bytes().all(|digit| digit.is_ascii_digit());
                if digits.len() < 19 || !is_integer {
                    return Err(damaged());
                }
                Self::Number(Number::Wide(digits.into()))
            }
            6 => {
                let number = f64::from_bits(Save::load(from)?);
                if !number.is_finite() {
                    return Err(damaged());
                }
                Self::Number(Number::Float(number))
            }
            7 => Self::String(Save::load(from)?),
            8 => Self::Array(from.inside(Save::load)?),
            9 => Self::Object(Object::from_members(from.inside(Save::load)?)),
            _ => return Err(damaged()),
        })
    }
}

/// A vocabulary is not saved, only its fingerprint.
impl Save for Tokenizer {
    fn save(&self, out: &mut Writer) {
        self.fingerprint().save(out);
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        let wanted = u64::load(from)?;
        let given = from.needs.tokenizer.clone();
        let is_wanted = |tokenizer: &Self| tokenizer.fingerprint() == wanted;
        match given {
            Some(tokenizer) if is_wanted(&tokenizer) => Ok(tokenizer),
            Some(_) => Err(Error::argument("saved state: the tokenizer has another vocabulary than the saved one")),
            None => ModelVersion::ALL
                .into_iter()
                .map(Self::builtin)
                .find(is_wanted)
                .ok_or_else(|| Error::argument("saved state: needs its tokenizer, which is not a built-in one")),
        }
    }
}

/// Keys are not saved.
impl Save for ReasoningSealer {
    fn save(&self, out: &mut Writer) {
        out.is_sealed = true;
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        from.needs.sealer.clone().ok_or_else(|| Error::argument("saved state: needs the reasoning sealer"))
    }
}

/// A clock.
impl Save for fn() -> u64 {
    fn save(&self, _out: &mut Writer) {}

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        from.needs.clock.ok_or_else(|| Error::argument("saved state: needs a clock"))
    }
}
