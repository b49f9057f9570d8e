//! The splitter: plain text to pieces. A scanner for one fixed chain of split steps; knows no vocabulary.
//!
//! The steps of the released files, each applied to the results of the one before, matches and gaps alike:
//!
//! 1. `\p{N}{1,3}`
//! 2. `[一-龥぀-ゟ゠-ヿ]+`
//! 3. `[ASCII punctuation][A-Za-z]+` or `[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+` or ` ?[\p{P}\p{S}]+[\r\n]*`
//!    or `\s*[\r\n]+` or `\s+(?!\S)` or `\s+`
//!
//! Numbers and the CJK range never reach step 3, so each code point has just one [`Class`], and one pass does
//! all three. What ends at a number or at the CJK range ends like the text itself.

use super::unicode_tables::{class, Class};

/// The split patterns, as a tokenizer.json spells them.
pub(super) const PATTERNS: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥\u{3040}-ゟ゠-ヿ]+",
    concat!(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^"##,
        "\r\n",
        r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[",
        "\r\n",
        r"]*|\s*[",
        "\r\n",
        r"]+|\s+(?!\S)|\s+"
    ),
];

/// The pieces of a text, in order. Joined they are the text; none is empty.
pub(super) struct Pieces<'a> {
    rest: &'a str,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let end = first_piece_end(self.rest)?;
        let (piece, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(piece)
    }
}

/// Where the first piece of `text` ends, in bytes. `None` for an empty text.
fn first_piece_end(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    let after = first.len_utf8();
    let next = class_at(text, after);
    Some(match (class(first), next) {
        (Class::Number, _) => text.chars().take(3).take_while(|&c| class(c) == Class::Number).map(char::len_utf8).sum(),
        (Class::Cjk, _) => run_end(text, after, Class::Cjk),
        // All ASCII symbols are punctuation in the sense of step 3.
        (Class::Symbol, Some(Class::Letter)) if first.is_ascii() && text.as_bytes()[after].is_ascii_alphabetic() => {
            let letters = text[after..].bytes().take_while(u8::is_ascii_alphabetic).count();
            after + letters
        }
        (Class::Symbol, _) => symbols_end(text, after),
        (Class::Letter | Class::Blank | Class::Other, Some(Class::Letter)) => run_end(text, after, Class::Letter),
        (Class::Letter, _) => after,
        (Class::Blank, Some(Class::Symbol)) if first == ' ' => symbols_end(text, after),
        (Class::Blank | Class::Newline, _) => white_space_end(text),
        (Class::Other, _) => gap_end(text),
    })
}

fn class_at(text: &str, at: usize) -> Option<Class> {
    text[at..].chars().next().map(class)
}

/// The end of the run of `wanted` at `at`.
fn run_end(text: &str, at: usize, wanted: Class) -> usize {
    text[at..].char_indices().find(|&(_, c)| class(c) != wanted).map_or(text.len(), |(offset, _)| at + offset)
}

/// The end of `[\p{P}\p{S}]*[\r\n]*` at `at`.
fn symbols_end(text: &str, at: usize) -> usize {
    run_end(text, run_end(text, at, Class::Symbol), Class::Newline)
}

/// The end of the piece of white space that `text` begins with.
///
/// It reaches to the last line break of the white space. Without one it is all of it at the end of the text
/// that step 3 sees, else all but the last character, which may belong to what follows.
fn white_space_end(text: &str) -> usize {
    let mut after_newline = None;
    let mut last = 0;
    for (at, c) in text.char_indices() {
        match class(c) {
            Class::Blank => last = at,
            Class::Newline => {
                last = at;
                after_newline = Some(at + 1);
            }
            Class::Number | Class::Cjk => return after_newline.unwrap_or(at),
            Class::Letter | Class::Symbol | Class::Other if last == 0 => return after_newline.unwrap_or(at),
            Class::Letter | Class::Symbol | Class::Other => return after_newline.unwrap_or(last),
        }
    }
    after_newline.unwrap_or(text.len())
}

/// The end of the run that nothing matches: it stops before a character that goes with the letters after it.
fn gap_end(text: &str) -> usize {
    let mut last = 0;
    for (at, c) in text.char_indices() {
        match class(c) {
            Class::Other => last = at,
            // The caller has seen that the first character is not followed by a letter.
            Class::Letter => return last,
            _ => return at,
        }
    }
    text.len()
}
