//! The slow twin of the tokenizer: each split step over all pieces by its pattern, and merges by search.
//!
//! It reads the vocabulary and the Unicode classes from the data files itself, and shares no code with the crate.

use std::collections::HashMap;

pub struct Twin {
    classes: Vec<u8>,
    pub tokens: Vec<Vec<u8>>,
    pub byte_ids: HashMap<u8, u32>,
    /// In rank order.
    pub merges: Vec<(u32, u32)>,
    ranks: HashMap<(u32, u32), u32>,
    /// Id, whether it is looked for in a second pass, spelling.
    pub added: Vec<(u32, bool, String)>,
}

impl Twin {
    /// The twin of the built-in tokenizer of V4.1.
    pub fn v41() -> Self {
        let base = include_bytes!("../../data/base.bin");
        let first = u32::from_le_bytes(base[8..12].try_into().unwrap());
        let mut tokens = vec![Vec::new(); first as usize];
        let mut byte_ids = HashMap::new();
        for &byte in &base[16..272] {
            byte_ids.insert(byte, tokens.len() as u32);
            tokens.push(vec![byte]);
        }
        let three = |at: &[u8]| u32::from(at[0]) | u32::from(at[1]) << 8 | u32::from(at[2]) << 16;
        let merges: Vec<(u32, u32)> = base[272..].chunks(6).map(|m| (three(m), three(&m[3..]))).collect();
        for &(left, right) in &merges {
            tokens.push([&tokens[left as usize][..], &tokens[right as usize]].concat());
        }
        let mut added: Vec<(u32, bool, String)> =
            [include_str!("../../data/added.tsv"), include_str!("../../data/added_v41.tsv")]
                .iter()
                .flat_map(|table| table.lines())
                .map(|line| line.split('\t').collect::<Vec<_>>())
                .map(|columns| (columns[0].parse().unwrap(), columns[1] == "n", columns[2].to_owned()))
                .collect();
        added.sort();
        let ranks = (0..).zip(&merges).map(|(rank, &pair)| (pair, rank)).collect();
        Self { classes: classes(), tokens, byte_ids, merges, ranks, added }
    }

    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.cut(text, false)
    }

    /// Two passes: tokens of the first kind, then in what is left those of the second.
    fn cut(&self, text: &str, second: bool) -> Vec<u32> {
        let plain = |text: &str| if second { self.encode_plain(text) } else { self.cut(text, true) };
        for (at, _) in text.char_indices() {
            let here = |(_, kind, spelling): &&(u32, bool, String)| *kind == second && text[at..].starts_with(spelling);
            if let Some((id, _, spelling)) = self.added.iter().filter(here).max_by_key(|token| token.2.len()) {
                return [plain(&text[..at]), vec![*id], self.cut(&text[at + spelling.len()..], second)].concat();
            }
        }
        plain(text)
    }

    pub fn encode_plain(&self, text: &str) -> Vec<u32> {
        let mut pieces = vec![text.chars().collect::<Vec<char>>()];
        let is = |c: char, wanted: &str| wanted.as_bytes().contains(&self.classes[c as usize]);
        let cjk = |c: char| matches!(c, '一'..='龥' | '\u{3040}'..='ゟ' | '゠'..='ヿ');
        pieces = isolate(pieces, |t| run(t, |c| is(c, "N")).min(3));
        pieces = isolate(pieces, |t| run(t, cjk));
        pieces = isolate(pieces, |t| step_three(t, is));
        pieces.iter().flat_map(|piece| self.merge(piece.iter().collect::<String>().as_bytes())).collect()
    }

    /// The lowest rank first, leftmost of equals, until none applies.
    pub fn merge(&self, piece: &[u8]) -> Vec<u32> {
        let mut ids: Vec<u32> = piece.iter().map(|byte| self.byte_ids[byte]).collect();
        let first_product = (self.tokens.len() - self.merges.len()) as u32;
        let rank_at = |ids: &[u32], at: usize| self.ranks.get(&(ids[at], ids[at + 1])).copied();
        while let Some((rank, at)) = (1..ids.len()).filter_map(|at| Some((rank_at(&ids, at - 1)?, at - 1))).min() {
            ids.splice(at..at + 2, [first_product + rank]);
        }
        ids
    }
}

/// N, L, M, P, S, or a blank for white space, for each code point.
fn classes() -> Vec<u8> {
    let json: serde_json::Value = serde_json::from_str(include_str!("../../data/unicode_classes.json")).unwrap();
    let mut classes = vec![b'-'; 0x110000];
    for (name, class) in [("N", b'N'), ("L", b'L'), ("M", b'M'), ("P", b'P'), ("S", b'S'), ("space", b' ')] {
        for range in json[name].as_array().unwrap() {
            let bound = |n: usize| range[n].as_u64().unwrap() as usize;
            classes[bound(0)..=bound(1)].fill(class);
        }
    }
    classes
}

/// Matches and the gaps between them, of each piece. `matches` says how long the match at the start of a text is.
fn isolate(pieces: Vec<Vec<char>>, matches: impl Fn(&[char]) -> usize) -> Vec<Vec<char>> {
    let mut out = Vec::new();
    for piece in pieces {
        let (mut gap, mut at) = (0, 0);
        while at < piece.len() {
            let length = matches(&piece[at..]);
            if length == 0 {
                at += 1;
                continue;
            }
            out.push(piece[gap..at].to_vec());
            out.push(piece[at..at + length].to_vec());
            at += length;
            gap = at;
        }
        out.push(piece[gap..].to_vec());
    }
    out.retain(|piece| !piece.is_empty());
    out
}

fn run(text: &[char], wanted: impl Fn(char) -> bool) -> usize {
    text.iter().take_while(|&&c| wanted(c)).count()
}

/// The alternatives of step 3, in order, each with its ways to match, in order.
fn step_three(t: &[char], is: impl Fn(char, &str) -> bool) -> usize {
    let newline = |c| c == '\r' || c == '\n';
    let letters = run(&t[1..], |c| c.is_ascii_alphabetic());
    if t[0].is_ascii_punctuation() && letters > 0 {
        return 1 + letters;
    }
    for prefix in [usize::from(!newline(t[0]) && !is(t[0], "LPS")), 0] {
        let letters = run(&t[prefix..], |c| is(c, "LM"));
        if letters > 0 {
            return prefix + letters;
        }
    }
    for prefix in [usize::from(t[0] == ' '), 0] {
        let symbols = run(&t[prefix..], |c| is(c, "PS"));
        if symbols > 0 {
            return prefix + symbols + run(&t[prefix + symbols..], newline);
        }
    }
    let white = run(t, |c| is(c, " "));
    for spaces in (0..=white).rev() {
        let newlines = run(&t[spaces..], newline);
        if newlines > 0 {
            return spaces + newlines;
        }
    }
    (1..=white).rev().find(|&spaces| t.get(spaces).is_none_or(|&c| is(c, " "))).unwrap_or(white)
}
