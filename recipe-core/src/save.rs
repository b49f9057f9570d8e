//! Values as bytes, to go on with in another process: streams, replies, requests. Knows no stream and no protocol;
//! each type says beside its definition which of its fields are kept.
//!
//! The form: `RCPS`, a version byte, the name of the type, its fields in order, and a checksum. It is exact and
//! compact, and only the same version reads it. What is read is checked: damaged bytes are an error, and bytes made
//! with intent, whose checksum is right, cannot make a stream that panics or an allocation much larger than they are.
//! They can make one that says what its maker likes, so bytes that leave your hands should be signed.

mod impls;

use crate::error::{Error, Result};
use crate::seal::ReasoningSealer;
use crate::stream::OutputTools;
use crate::tokenizer::Tokenizer;
use std::sync::Arc;

const MAGIC: &[u8] = b"RCPS";
/// The version of the form. Any change to what a type saves is another version.
const VERSION: u8 = 1;
const CHECKSUM: usize = 8;
/// How deep values may stand in each other: more than a JSON value of a request can.
const MAX_DEPTH: usize = 200;
/// Positions and counts stay below this, so that sums of them do not overflow.
const MAX_SIZE: u64 = 1 << 48;

/// A type whose values can be saved.
pub trait Save: Sized {
    /// The name that stands in front of the bytes, for types that [`save`] is called with.
    const NAME: &'static str = "";

    /// Appends the value.
    fn save(&self, out: &mut Writer);

    /// Reads what `save` wrote.
    fn load(from: &mut Reader<'_>) -> Result<Self>;
}

/// What is never part of the bytes, and has to be there when they are loaded.
#[derive(Clone, Default)]
pub struct Needs {
    /// The tokenizer of a stream; it has to be the same vocabulary. Without one a built-in vocabulary is found by itself.
    pub tokenizer: Option<Tokenizer>,
    /// What seals the reasoning of a reply that is sealed.
    pub sealer: Option<ReasoningSealer>,
    /// The clock of a reply that has one; gives the Unix time in seconds.
    pub clock: Option<fn() -> u64>,
}

/// A value as bytes. Keys of a sealer and vocabularies are not among them; held text is.
pub fn save<T: Save>(value: &T) -> Vec<u8> {
    let mut out = Writer { bytes: [MAGIC, &[VERSION]].concat(), tools: None, is_sealed: false };
    out.text(T::NAME);
    value.save(&mut out);
    let checksum = fingerprint(&out.bytes);
    out.bytes.extend_from_slice(&checksum.to_le_bytes());
    out.bytes
}

/// Whether loading the value will need a sealer.
pub fn is_sealed<T: Save>(value: &T) -> bool {
    let mut out = Writer { bytes: Vec::new(), tools: None, is_sealed: false };
    value.save(&mut out);
    out.is_sealed
}

/// The value that [`save`] made these bytes of. Fails, as a wrong argument, if they are damaged, cut off, of another
/// version or of another type, or if something is missing in `needs`.
pub fn load<T: Save>(bytes: &[u8], needs: Needs) -> Result<T> {
    let mut from = Reader::open(bytes)?;
    from.needs = needs;
    let name = from.text()?;
    if name != T::NAME {
        return Err(Error::argument(format!("saved state: expected {}, found {name}", T::NAME)));
    }
    let value = T::load(&mut from)?;
    if !from.rest.is_empty() {
        return Err(damaged());
    }
    Ok(value)
}

/// The name of the type whose value these bytes are. Fails as [`load`] does.
pub fn name(bytes: &[u8]) -> Result<&str> {
    Reader::open(bytes)?.text()
}

/// FNV-1a, 64 bits: any change of one byte changes it.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// The error of bytes that no `save` wrote.
pub(crate) fn damaged() -> Error {
    Error::argument("saved state: the bytes are damaged")
}

/// Takes the bytes of values.
pub struct Writer {
    bytes: Vec<u8>,
    /// The tools written last: a stream and its reply share theirs.
    pub(crate) tools: Option<Arc<OutputTools>>,
    is_sealed: bool,
}

impl Writer {
    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Seven bits a byte, the lowest first; the highest bit says that more follow.
    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }
}

/// Gives the bytes of values back.
pub struct Reader<'a> {
    rest: &'a [u8],
    needs: Needs,
    /// The tools read last.
    pub(crate) tools: Option<Arc<OutputTools>>,
    depth: usize,
}

impl<'a> Reader<'a> {
    /// Checks what stands around the value.
    fn open(bytes: &'a [u8]) -> Result<Self> {
        let Some((&version, body)) = bytes.strip_prefix(MAGIC).and_then(|rest| rest.split_first()) else {
            return Err(Error::argument("saved state: the bytes are not of this library"));
        };
        if version != VERSION {
            return Err(Error::argument(format!("saved state: version {version}, and this library reads {VERSION}")));
        }
        let (rest, checksum) =
            body.len().checked_sub(CHECKSUM).map(|length| body.split_at(length)).ok_or_else(damaged)?;
        if checksum != fingerprint(&bytes[..bytes.len() - CHECKSUM]).to_le_bytes() {
            return Err(damaged());
        }
        Ok(Self { rest, needs: Needs::default(), tools: None, depth: 0 })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(damaged)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            number |= bits << shift;
            if byte < 0x80 {
                // The shortest spelling, and no bit beyond the highest.
                let is_canonical = (bits != 0 || shift == 0) && bits << shift >> shift == bits;
                return if is_canonical { Ok(number) } else { Err(damaged()) };
            }
        }
        Err(damaged())
    }

    /// A position or a count.
    pub(crate) fn size(&mut self) -> Result<usize> {
        let number = self.number()?;
        usize::try_from(number).ok().filter(|_| number < MAX_SIZE).ok_or_else(damaged)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.size()?;
        self.take(length)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| damaged())
    }

    /// Reads a value that may hold values of its own type.
    fn inside<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(damaged());
        }
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }
}

/// Saves a struct by its fields, or an enum by a number for each variant and its fields. All of them have to be
/// named: one that is forgotten does not compile. `check` says whether what was read can be.
macro_rules! saved {
    (struct $Name:ident { $($field:ident),* $(,)? }
        $(check |$value:ident| $sound:expr)?) => {
        impl $crate::save::Save for $Name {
            const NAME: &'static str = stringify!($Name);

            fn save(&self, out: &mut $crate::save::Writer) {
                let Self { $($field),* } = self;
                $($crate::save::Save::save($field, out);)*
            }

            fn load(from: &mut $crate::save::Reader<'_>) -> $crate::error::Result<Self> {
                let loaded = Self { $($field: $crate::save::Save::load(from)?),* };
                $(let $value = &loaded;
                if !$sound {
                    return Err($crate::save::damaged());
                })?
                Ok(loaded)
            }
        }
    };
    (enum $Name:ident { $($tag:literal = $Variant:ident $(($($item:ident),*))? $({$($field:ident),*})?),* $(,)? }) => {
        impl $crate::save::Save for $Name {
            const NAME: &'static str = stringify!($Name);

            fn save(&self, out: &mut $crate::save::Writer) {
                match self {
                    $(Self::$Variant $(($($item),*))? $({$($field),*})? => {
                        out.byte($tag);
                        $($($crate::save::Save::save($item, out);)*)?
                        $($($crate::save::Save::save($field, out);)*)?
                    })*
                }
            }

            fn load(from: &mut $crate::save::Reader<'_>) -> $crate::error::Result<Self> {
                Ok(match from.byte()? {
                    $($tag => {
                        $($(let $item = $crate::save::Save::load(from)?;)*)?
                        $($(let $field = $crate::save::Save::load(from)?;)*)?
                        Self::$Variant $(($($item),*))? $({$($field),*})?
                    })*
                    _ => return Err($crate::save::damaged()),
                })
            }
        }
    };
}
pub(crate) use saved;
