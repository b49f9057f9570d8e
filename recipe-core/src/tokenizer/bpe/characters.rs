//! Which characters of three bytes may be merged from their own token on. Knows no merges.

use super::{TokenBytes, NONE};

/// The tokens of the characters from U+3000 to U+9FFF: most of Chinese and Japanese.
pub(super) struct Characters {
    /// By code point. Empty as long as nothing is known.
    tokens: Vec<u32>,
    /// Last bytes of characters that may merge with the first bytes of the next one before their own character is made.
    loose_ends: [bool; 256],
}

const FIRST: usize = 0x3000;
const LEADS: std::ops::RangeInclusive<u8> = 0xE3..=0xE9;

impl Characters {
    /// Starts from bytes everywhere.
    pub(super) fn none() -> Self {
        Self { tokens: Vec::new(), loose_ends: [false; 256] }
    }

    /// The characters whose token, made of their own bytes, stands in every text.
    ///
    /// A merge of a part of a character with something outside it may come first. Its product is a token that
    /// holds such a part: at its beginning the last bytes of a character, or at its end the first bytes of one.
    /// `whole` are the tokens that merging makes of their own bytes.
    pub(super) fn new(tokens: &TokenBytes, whole: impl Iterator<Item = u32>) -> Self {
        let mut characters = Self { tokens: vec![NONE; 0xA000 - FIRST], loose_ends: [false; 256] };
        for id in whole {
            if let [lead, second, third] = *tokens.get(id) {
                if let Some(place) = place(lead, second, third) {
                    characters.tokens[place] = id;
                }
            }
        }
        for id in 0..tokens.len() as u32 {
            characters.leave_out(tokens.get(id));
        }
        characters
    }

    /// Leaves out the characters that this token holds a part of.
    fn leave_out(&mut self, token: &[u8]) {
        let is_inner = |byte: &u8| (0x80..0xC0).contains(byte);
        if !token.first().is_some_and(is_inner) && token.last().is_none_or(u8::is_ascii) {
            return;
        }
        let inner = token.iter().take_while(|byte| is_inner(byte)).count();
        if inner > 0 && token.get(inner).is_some_and(|lead| LEADS.contains(lead)) {
            self.loose_ends[token[inner - 1] as usize] = true;
        }
        let (first, last) = match *token {
            [_, .., lead] if LEADS.contains(&lead) => (place(lead, 0x80, 0x80), place(lead, 0xBF, 0xBF)),
            [_, .., lead, second] if LEADS.contains(&lead) => (place(lead, second, 0x80), place(lead, second, 0xBF)),
            _ => return,
        };
        if let (Some(first), Some(last)) = (first, last) {
            self.tokens[first..=last].fill(NONE);
        }
    }

    /// The token of the character at `at`, if merging may start from it, else `NONE`.
    #[inline]
    pub(super) fn token_at(&self, piece: &[u8], at: usize) -> u32 {
        if !LEADS.contains(&piece[at]) {
            return NONE;
        }
        let Some(&[lead, second, third]) = piece[at..].first_chunk() else {
            return NONE;
        };
        // Only what stands before another such character, or at the end, was looked into.
        match piece.get(at + 3) {
            Some(next) if !LEADS.contains(next) || self.loose_ends[third as usize] => return NONE,
            _ => {}
        }
        place(lead, second, third).and_then(|place| self.tokens.get(place)).copied().unwrap_or(NONE)
    }
}

/// Where the character of these bytes is filed, if they are one.
#[inline]
fn place(lead: u8, second: u8, third: u8) -> Option<usize> {
    let is_character = LEADS.contains(&lead) && second & 0xC0 == 0x80 && third & 0xC0 == 0x80;
    let code = usize::from(lead & 0x0F) << 12 | usize::from(second & 0x3F) << 6 | usize::from(third & 0x3F);
    is_character.then(|| code - FIRST)
}
