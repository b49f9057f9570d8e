//! Reasoning that a client carries but cannot read: sealed into one word, and opened when it comes back. Knows no
//! protocol's field names.
//!
//! A sealed text is base64url without padding of: a version byte, four bytes that name the key, a nonce of twelve bytes,
//! and AES-256-GCM-SIV (RFC 8452) of the text, with the model's family as associated data. That cipher stays safe where a
//! nonce comes twice, as it does when a copied stream goes on in two ways.

use std::fmt;
use std::sync::Arc;

use aes_gcm_siv::aead::{Aead, Payload};
use aes_gcm_siv::{Aes256GcmSiv, Key as CipherKey, KeyInit, Nonce};

use crate::error::{Error, Result};
use crate::options::ModelVersion;
use crate::save::saved;

const FORMAT: u8 = 1;
const KEY_NAME: usize = 4;
const NONCE: usize = 12;
const HEAD: usize = 1 + KEY_NAME + NONCE;

/// Seals and opens reasoning. Immutable, and cheap to clone; its keys are never shown.
///
/// ```
/// use recipe_core::options::ModelVersion::{DeepseekV41Flash, DeepseekV4Pro};
/// use recipe_core::seal::ReasoningSealer;
///
/// # fn main() -> recipe_core::Result<()> {
/// let old = ReasoningSealer::new(&[[1; 32]])?;
/// let sealed = old.seal("Hm.", DeepseekV41Flash, [0; 12]);
/// // After a change of keys: the new one seals, the old one still opens.
/// let new = ReasoningSealer::new(&[[2; 32], [1; 32]])?;
/// assert_eq!(new.open(&sealed, DeepseekV41Flash).as_deref(), Some("Hm."));
/// assert_eq!(new.open(&sealed, DeepseekV4Pro), None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ReasoningSealer {
    /// The first one seals, all of them open.
    keys: Arc<[Key]>,
}

struct Key {
    name: [u8; KEY_NAME],
    cipher: Aes256GcmSiv,
}

impl Key {
    fn new(bytes: &[u8; 32]) -> Self {
        let cipher = Aes256GcmSiv::new(CipherKey::<Aes256GcmSiv>::from_slice(bytes));
        // A part of the tag of nothing: it tells keys apart and says nothing about them.
        let payload = Payload { msg: b"", aad: b"key name" };
        let tag = cipher.encrypt(&Nonce::default(), payload).expect("an empty text can be encrypted");
        let mut name = [0; KEY_NAME];
        name.copy_from_slice(&tag[..KEY_NAME]);
        Self { name, cipher }
    }
}

fn family(version: ModelVersion) -> &'static [u8] {
    match version {
        ModelVersion::DeepseekV4Pro => b"deepseek-v4",
        ModelVersion::DeepseekV41Flash => b"deepseek-v4.1",
    }
}

impl ReasoningSealer {
    /// A sealer with these keys, 32 random bytes each: the first seals, all open. Fails without any.
    pub fn new(keys: &[[u8; 32]]) -> Result<Self> {
        if keys.is_empty() {
            return Err(Error::argument("a sealer needs at least one key"));
        }
        Ok(Self { keys: keys.iter().map(Key::new).collect() })
    }

    /// Seals the reasoning of a model. The nonce should be a new one each time.
    pub fn seal(&self, reasoning: &str, version: ModelVersion, nonce: [u8; NONCE]) -> String {
        let key = &self.keys[0];
        let payload = Payload { msg: reasoning.as_bytes(), aad: family(version) };
        // The cipher's limit is 64 GiB.
        let text = key.cipher.encrypt(&Nonce::from(nonce), payload).expect("the reasoning fits into memory");
        let mut sealed = Vec::with_capacity(HEAD + text.len());
        sealed.push(FORMAT);
        sealed.extend_from_slice(&key.name);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&text);
        to_base64url(&sealed)
    }

    /// The reasoning, if it was sealed with one of the keys for a model of the same family and is whole.
    pub fn open(&self, sealed: &str, version: ModelVersion) -> Option<String> {
        let sealed = from_base64url(sealed)?;
        let (head, text) = sealed.split_at_checked(HEAD)?;
        let (name, nonce) = head.strip_prefix(&[FORMAT])?.split_at(KEY_NAME);
        let open = |key: &Key| {
            let payload = Payload { msg: text, aad: family(version) };
            key.cipher.decrypt(Nonce::from_slice(nonce), payload).ok()
        };
        let opened = self.keys.iter().filter(|key| key.name == name).find_map(open)?;
        String::from_utf8(opened).ok()
    }
}

impl fmt::Debug for ReasoningSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReasoningSealer").field("keys", &self.keys.len()).finish()
    }
}

/// By the names of the keys.
impl PartialEq for ReasoningSealer {
    fn eq(&self, other: &Self) -> bool {
        self.keys.iter().map(|key| key.name).eq(other.keys.iter().map(|key| key.name))
    }
}

/// Seals the pieces of reasoning of one reply.
#[derive(Clone, Debug)]
pub(crate) struct ReplySealer {
    sealer: ReasoningSealer,
    version: ModelVersion,
    seed: u64,
}

impl ReplySealer {
    /// `seed` is the random one of the reply.
    pub(crate) fn new(sealer: ReasoningSealer, version: ModelVersion, seed: u128) -> Self {
        Self { sealer, version, seed: (seed >> 64) as u64 ^ seed as u64 }
    }

    /// Seals the reasoning that stands at this place of the reply.
    pub(crate) fn seal(&self, reasoning: &str, place: usize) -> String {
        let mut nonce = [0; NONCE];
        nonce[..8].copy_from_slice(&self.seed.to_le_bytes());
        nonce[8..].copy_from_slice(&(place as u32).to_le_bytes());
        self.sealer.seal(reasoning, self.version, nonce)
    }
}

saved! { struct ReplySealer { sealer, version, seed } }

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn to_base64url(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for place in 0..=group.len() {
            text.push(LETTERS[(bits >> (18 - 6 * place) & 63) as usize].into());
        }
    }
    text
}

/// The bytes of a text that [`to_base64url`] made; no other text has some.
fn from_base64url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.as_bytes().chunks(4) {
        let mut bits = 0u32;
        for &letter in group {
            bits = bits << 6 | LETTERS.iter().position(|known| *known == letter)? as u32;
        }
        bits <<= 6 * (4 - group.len());
        let whole = group.len() * 6 / 8;
        let group_bytes = bits.to_be_bytes();
        let (kept, rest) = group_bytes[1..].split_at(whole);
        if whole == 0 || rest.iter().any(|&byte| byte != 0) {
            return None;
        }
        bytes.extend_from_slice(kept);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ModelVersion::{DeepseekV41Flash, DeepseekV4Pro};

    #[test]
    fn what_is_sealed_opens_and_nothing_else_does() {
        let sealer = ReasoningSealer::new(&[[7; 32]]).expect("one key is enough");
        for reasoning in ["", "a", "ab", "abc", "é中😀\n"] {
            let sealed = sealer.seal(reasoning, DeepseekV41Flash, [3; 12]);
            assert_eq!(sealer.open(&sealed, DeepseekV41Flash).as_deref(), Some(reasoning));
            assert_eq!(sealer.open(&sealed, DeepseekV4Pro), None);
            for place in 0..sealed.len() {
                let mut damaged = sealed.clone().into_bytes();
                damaged[place] = if damaged[place] == b'A' { b'B' } else { b'A' };
                let damaged = String::from_utf8(damaged).expect("letters are text");
                assert_eq!(sealer.open(&damaged, DeepseekV41Flash), None, "{place}");
                assert_eq!(sealer.open(&sealed[..place], DeepseekV41Flash), None, "{place}");
            }
        }
        for foreign in ["", "resp_1-0", "=", "AQ", "é", "AAAA AAAA"] {
            assert_eq!(sealer.open(foreign, DeepseekV41Flash), None, "{foreign}");
        }
    }

    #[test]
    fn keys_change() {
        let sealer = |keys: &[[u8; 32]]| ReasoningSealer::new(keys).expect("there are keys");
        let sealed = sealer(&[[1; 32]]).seal("r", DeepseekV4Pro, [0; 12]);
        assert_eq!(sealer(&[[2; 32], [1; 32]]).open(&sealed, DeepseekV4Pro).as_deref(), Some("r"));
        assert_eq!(sealer(&[[2; 32]]).open(&sealed, DeepseekV4Pro), None);
        assert!(ReasoningSealer::new(&[]).is_err());
        assert_eq!(format!("{:?}", sealer(&[[1; 32]])), "ReasoningSealer { keys: 1 }");
        assert_ne!(sealer(&[[1; 32]]), sealer(&[[2; 32]]));
    }
}
