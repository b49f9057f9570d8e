//! A JSON value as the model writes it, made valid while it streams. Knows no markup and no events.
//!
//! The identity on valid JSON, and on every beginning of it. From the first fault on: other quotes
//! become double ones, raw control characters and bad escapes are escaped, Python's words become JSON's,
//! other bare words and bad numbers become strings, what is missing is put in, what is superfluous is
//! dropped, and what is open at the end is closed.

use super::deltas::Deltas;
use super::tag::{is_space, SPACE};
use crate::json::write_escaped;
use crate::save::saved;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    Value,
    Key,
    Colon,
    /// A comma or a closer.
    Next,
    /// The value is complete.
    Done,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    None,
    /// Inside a string; `escape` holds what came since a backslash whose end is open.
    String {
        quote: char,
        escape: Option<Deltas>,
    },
    /// A bare word, held until its end is known.
    Word(Deltas),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Repair {
    stack: Vec<char>,
    /// How many of them are objects.
    objects: usize,
    expect: Expect,
    token: Token,
    /// Whether the token is a key.
    key: bool,
    /// A comma that nothing has followed yet, and the white space behind it.
    comma: Deltas,
    /// What is ready.
    out: Deltas,
    /// Text behind the complete value and the white space after it.
    rest: Deltas,
    last_piece: usize,
}

impl Repair {
    pub(super) fn new() -> Self {
        Self {
            stack: Vec::new(),
            objects: 0,
            expect: Expect::Value,
            token: Token::None,
            key: false,
            comma: Deltas::default(),
            out: Deltas::default(),
            rest: Deltas::default(),
            last_piece: 0,
        }
    }

    /// Takes the next part of the value, from one piece. The first character that is no white space
    /// opens an object, an array or a string.
    pub(super) fn feed(&mut self, piece: usize, text: &str) {
        self.last_piece = piece;
        for c in text.chars() {
            self.step(piece, c);
        }
    }

    /// Whether the value is complete. A string at the top counts as complete from its quote on.
    pub(super) fn is_complete(&self) -> bool {
        self.expect == Expect::Done || (self.stack.is_empty() && matches!(self.token, Token::String { .. }))
    }

    /// Whether only text behind the value can follow.
    pub(super) fn is_done(&self) -> bool {
        self.expect == Expect::Done
    }

    /// The value ends. `closed`: what is open is closed; otherwise it is left as it was written.
    pub(super) fn end(&mut self, closed: bool) {
        let piece = self.last_piece;
        match std::mem::replace(&mut self.token, Token::None) {
            Token::None => {}
            Token::Word(word) => self.finish_word(word, closed),
            Token::String { quote, escape } => {
                if let Some(escape) = escape {
                    if closed {
                        self.bad_escape(piece, quote, escape);
                        self.token = Token::None;
                    } else {
                        self.put_all(escape);
                    }
                }
                if closed {
                    self.put(piece, "\"");
                    self.token_done();
                }
            }
        }
        if closed {
            self.close(piece, 0);
        } else {
            self.keep_comma();
        }
    }

    /// Takes what is ready of the pieces before `piece`.
    pub(super) fn drain_before(&mut self, piece: usize, out: impl FnMut(&str)) {
        let word = match &self.token {
            Token::Word(held) => held.first_piece(),
            Token::String { escape, .. } => escape.as_ref().and_then(Deltas::first_piece),
            Token::None => None,
        };
        let held = self.comma.first_piece().or(word).unwrap_or(usize::MAX);
        self.out.drain_before(piece.min(held), out);
    }

    /// What stood behind the value.
    pub(super) fn rest(&self) -> &Deltas {
        &self.rest
    }

    fn put(&mut self, piece: usize, text: &str) {
        if self.comma.is_empty() {
            self.out.push(piece, text);
        } else {
            self.comma.push(piece, text);
        }
    }

    fn put_char(&mut self, piece: usize, c: char) {
        self.put(piece, c.encode_utf8(&mut [0; 4]));
    }

    fn put_escaped(&mut self, piece: usize, c: char) {
        let mut text = String::new();
        write_escaped(&mut text, c.encode_utf8(&mut [0; 4]));
        self.put(piece, &text);
    }

    fn put_all(&mut self, held: Deltas) {
        for (piece, text) in held.parts() {
            self.put(piece, text);
        }
    }

    /// Something follows the comma.
    fn keep_comma(&mut self) {
        self.comma.move_to(&mut self.out);
    }

    /// A closer follows the comma: the white space alone stays.
    fn drop_comma(&mut self) {
        let spaces = self.comma.trimmed(1, usize::MAX);
        self.comma.clear();
        self.put_all(spaces);
    }

    fn valued(&mut self) {
        self.expect = if self.stack.is_empty() { Expect::Done } else { Expect::Next };
    }

    fn token_done(&mut self) {
        if self.key {
            self.expect = Expect::Colon;
        } else {
            self.valued();
        }
    }

    fn in_object(&self) -> bool {
        self.stack.last() == Some(&'{')
    }

    fn expect_member(&mut self) {
        self.expect = if self.in_object() { Expect::Key } else { Expect::Value };
    }

    /// A member's value that is missing before a comma, a closer or the end.
    fn fill_value(&mut self, piece: usize) {
        if self.expect == Expect::Colon {
            self.put(piece, ":");
        }
        if self.expect == Expect::Colon || (self.expect == Expect::Value && self.in_object()) {
            self.put(piece, "null");
            self.expect = Expect::Next;
        }
    }

    /// Closes the open brackets down to `depth`.
    fn close(&mut self, piece: usize, depth: usize) {
        while self.stack.len() > depth {
            self.drop_comma();
            self.fill_value(piece);
            let is_object = self.stack.pop() == Some('{');
            self.objects -= usize::from(is_object);
            self.put(piece, if is_object { "}" } else { "]" });
            self.valued();
        }
    }

    fn step(&mut self, piece: usize, c: char) {
        match std::mem::replace(&mut self.token, Token::None) {
            Token::String { quote, escape } => return self.in_string(piece, c, quote, escape),
            Token::Word(mut word) => {
                let ends = matches!(c, ',' | '[' | ']' | '{' | '}' | '"' | '\n') || (self.key && c == ':');
                if !ends {
                    word.push(piece, c.encode_utf8(&mut [0; 4]));
                    self.token = Token::Word(word);
                    return;
                }
                self.finish_word(word, true);
            }
            Token::None => {}
        }
        if self.expect == Expect::Done {
            if self.rest.is_empty() && SPACE.contains(&c) {
                self.put_char(piece, c);
            } else {
                self.rest.push(piece, c.encode_utf8(&mut [0; 4]));
            }
            return;
        }
        match c {
            ' ' | '\t' | '\r' | '\n' => self.put_char(piece, c),
            ',' => {
                self.fill_value(piece);
                if self.expect == Expect::Next {
                    self.comma.push(piece, ",");
                    self.expect_member();
                }
            }
            '}' | ']' => {
                let (opener, open) =
                    if c == '}' { ('{', self.objects) } else { ('[', self.stack.len() - self.objects) };
                // Looking for a bracket that is not there, again and again, would be quadratic.
                if open > 0 {
                    let depth = self.stack.iter().rposition(|bracket| *bracket == opener);
                    self.close(piece, depth.unwrap_or(self.stack.len()));
                }
            }
            ':' => {
                if self.expect == Expect::Key {
                    self.keep_comma();
                    self.put(piece, "\"\"");
                    self.expect = Expect::Colon;
                }
                if self.expect == Expect::Colon {
                    self.put(piece, ":");
                    self.expect = Expect::Value;
                }
            }
            _ => self.begin(piece, c),
        }
    }

    /// A value or a key begins.
    fn begin(&mut self, piece: usize, c: char) {
        self.keep_comma();
        if self.expect == Expect::Next {
            self.put(piece, ",");
            self.expect_member();
        } else if self.expect == Expect::Colon {
            self.put(piece, ":");
            self.expect = Expect::Value;
        }
        self.key = self.expect == Expect::Key;
        match c {
            '{' | '[' => {
                if self.key {
                    self.put(piece, "\"\":");
                }
                self.put_char(piece, c);
                self.stack.push(c);
                self.objects += usize::from(c == '{');
                self.expect_member();
            }
            '"' | '\'' => {
                self.put(piece, "\"");
                self.token = Token::String { quote: c, escape: None };
            }
            _ => {
                let mut word = Deltas::default();
                word.push(piece, c.encode_utf8(&mut [0; 4]));
                self.token = Token::Word(word);
            }
        }
    }

    fn in_string(&mut self, piece: usize, c: char, quote: char, escape: Option<Deltas>) {
        self.token = Token::String { quote, escape: None };
        let Some(mut held) = escape else {
            if c == '\\' {
                let mut held = Deltas::default();
                held.push(piece, "\\");
                self.token = Token::String { quote, escape: Some(held) };
            } else if c == quote {
                self.token = Token::None;
                self.put(piece, "\"");
                self.token_done();
            } else {
                self.put_escaped(piece, c);
            }
            return;
        };
        let so_far = held.text().len();
        if so_far == 1 && quote == '\'' && c == '\'' {
            self.put(piece, "'");
        } else if so_far == 1 && matches!(c, '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') {
            held.push(piece, c.encode_utf8(&mut [0; 4]));
            self.put_all(held);
        } else if (so_far == 1 && c == 'u') || (so_far > 1 && c.is_ascii_hexdigit()) {
            held.push(piece, c.encode_utf8(&mut [0; 4]));
            if so_far == 5 {
                self.put_all(held);
            } else {
                self.token = Token::String { quote, escape: Some(held) };
            }
        } else {
            self.bad_escape(piece, quote, held);
            self.step(piece, c);
        }
    }

    /// A backslash that begins no escape is text, and so is what follows it.
    fn bad_escape(&mut self, piece: usize, quote: char, held: Deltas) {
        self.put(held.first_piece().unwrap_or(piece), "\\\\");
        self.token = Token::String { quote, escape: None };
        self.put_all(held.trimmed(1, usize::MAX));
    }

    /// A bare word has ended; the white space at its end stays outside. `closed`: make it JSON.
    fn finish_word(&mut self, word: Deltas, closed: bool) {
        let text = word.text().trim_end_matches(SPACE);
        let (length, all) = (text.len(), word.text().len());
        let good = if self.key { None } else { literal(text) };
        let spaces = word.trimmed(length, all);
        let word = word.trimmed(0, length);
        if good == Some(word.text()) || !closed {
            self.put_all(word);
        } else {
            let piece = word.first_piece().unwrap_or(self.last_piece);
            match good {
                Some(good) => self.put(piece, good),
                None => {
                    self.put(piece, "\"");
                    let mut last = piece;
                    for (piece, text) in word.parts() {
                        let mut escaped = String::new();
                        write_escaped(&mut escaped, text);
                        self.put(piece, &escaped);
                        last = piece;
                    }
                    self.put(last, "\"");
                }
            }
        }
        self.token_done();
        self.put_all(spaces);
    }
}

/// A bare word that is JSON, as it is; one of Python, as JSON.
pub(super) fn literal(word: &str) -> Option<&str> {
    match word {
        "True" => Some("true"),
        "False" => Some("false"),
        "None" => Some("null"),
        "true" | "false" | "null" => Some(word),
        _ => is_number(word.as_bytes()).then_some(word),
    }
}

/// Whether a text is a JSON number.
fn is_number(text: &[u8]) -> bool {
    let digits = |from: usize| from + text[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let start = usize::from(text.first() == Some(&b'-'));
    let mut at = digits(start);
    if at == start || (text[start] == b'0' && at > start + 1) {
        return false;
    }
    if text.get(at) == Some(&b'.') {
        let end = digits(at + 1);
        if end == at + 1 {
            return false;
        }
        at = end;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        at += usize::from(matches!(text.get(at), Some(b'+' | b'-')));
        let end = digits(at);
        if end == at {
            return false;
        }
        at = end;
    }
    at == text.len()
}

/// Whether a value that begins so is repaired as JSON; `None`: only white space came so far.
pub(super) fn begins_json(text: &str) -> Option<bool> {
    let first = text.bytes().find(|byte| !is_space(*byte))?;
    Some(matches!(first, b'{' | b'[' | b'"'))
}

saved! { enum Expect { 0 = Value, 1 = Key, 2 = Colon, 3 = Next, 4 = Done } }
saved! { enum Token { 0 = None, 1 = String { quote, escape }, 2 = Word(word) } }
saved! {
    struct Repair { stack, objects, expect, token, key, comma, out, rest, last_piece }
    check |repair| repair.is_sound()
}

impl Repair {
    /// Whether the fields fit together.
    fn is_sound(&self) -> bool {
        let starts = |held: &Deltas, first| held.is_empty() || held.text().starts_with(first);
        let escape = match &self.token {
            Token::String { escape, .. } => escape.as_ref(),
            _ => None,
        };
        self.stack.iter().all(|bracket| matches!(bracket, '{' | '['))
            && self.objects == self.stack.iter().filter(|bracket| **bracket == '{').count()
            && starts(&self.comma, ',')
            && escape.is_none_or(|held| starts(held, '\\'))
    }
}
