//! The added vocabulary: tokens that are found by their spelling, not made by merging. Knows no BPE.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use rustc_hash::FxHashMap;

use crate::error::{Error, Result};

/// One added token.
pub(super) struct AddedToken {
    pub(super) id: u32,
    pub(super) spelling: Box<str>,
    /// Tokens without this are looked for first, in the whole text; tokens with it in what is left. Where
    /// spellings overlap this matters, though the text itself is never normalised.
    pub(super) normalized: bool,
}

/// The added tokens of one vocabulary.
pub(super) struct AddedTokens {
    /// Sorted by id.
    by_id: Vec<AddedToken>,
    by_spelling: FxHashMap<Box<str>, u32>,
    verbatim: Matcher,
    normalized: Matcher,
    /// The bytes that spellings begin with, if they are few. One may be there twice.
    first_bytes: Option<[u8; 2]>,
    has_white_space: bool,
}

/// A run of a text that is cut at added tokens.
pub(super) enum Run<'a> {
    /// Text between added tokens; not empty.
    Plain(&'a str),
    /// The id of an added token.
    Added(u32),
}

impl AddedTokens {
    /// Fails if a spelling is empty, or if a spelling or an id occurs twice.
    pub(super) fn new(mut tokens: Vec<AddedToken>) -> Result<Self> {
        tokens.sort_by_key(|token| token.id);
        if let Some(pair) = tokens.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(Error::tokenizer(format!("two added tokens have the id {}", pair[0].id)));
        }
        let mut by_spelling = FxHashMap::default();
        for token in &tokens {
            if token.spelling.is_empty() {
                return Err(Error::tokenizer(format!("the added token {} has no spelling", token.id)));
            }
            if by_spelling.insert(token.spelling.clone(), token.id).is_some() {
                return Err(Error::tokenizer(format!("two added tokens are spelled {:?}", token.spelling)));
            }
        }
        let verbatim = Matcher::new(tokens.iter().filter(|token| !token.normalized))?;
        let normalized = Matcher::new(tokens.iter().filter(|token| token.normalized))?;
        let first = tokens.first().map_or(0, |token| token.spelling.as_bytes()[0]);
        let mut others = tokens.iter().map(|token| token.spelling.as_bytes()[0]).filter(|byte| *byte != first);
        let second = others.next().unwrap_or(first);
        let first_bytes = others.all(|byte| byte == second).then_some([first, second]);
        let has_white_space = tokens.iter().any(|token| token.spelling.contains([' ', '\n']));
        Ok(Self { by_id: tokens, by_spelling, verbatim, normalized, first_bytes, has_white_space })
    }

    /// The id of a spelling.
    pub(super) fn id(&self, spelling: &str) -> Option<u32> {
        self.by_spelling.get(spelling).copied()
    }

    /// The spelling of an id.
    pub(super) fn spelling(&self, id: u32) -> Option<&str> {
        let place = self.by_id.binary_search_by_key(&id, |token| token.id).ok()?;
        Some(&self.by_id[place].spelling)
    }

    /// The tokens by id.
    pub(super) fn tokens(&self) -> &[AddedToken] {
        &self.by_id
    }

    /// Whether a spelling holds a space or a line break.
    pub(super) fn has_white_space(&self) -> bool {
        self.has_white_space
    }

    /// Calls `run` for the runs of a text that is cut at every spelling: leftmost, and the longest one there.
    pub(super) fn for_each_run<'a>(&self, text: &'a str, mut run: impl FnMut(Run<'a>)) {
        if let Some([first, second]) = self.first_bytes {
            if !text.is_empty() && memchr::memchr2(first, second, text.as_bytes()).is_none() {
                return run(Run::Plain(text));
            }
        }
        self.verbatim.cut(text, |found| match found {
            Run::Plain(text) => self.normalized.cut(text, &mut run),
            Run::Added(_) => run(found),
        });
    }
}

/// Finds the tokens of one kind.
struct Matcher {
    automaton: AhoCorasick,
    /// The token of each pattern.
    ids: Vec<u32>,
}

impl Matcher {
    fn new<'a>(tokens: impl Iterator<Item = &'a AddedToken>) -> Result<Self> {
        let (ids, spellings): (Vec<u32>, Vec<&str>) = tokens.map(|token| (token.id, &*token.spelling)).unzip();
        // Not a DFA: building the automaton is part of loading, and has to be quick.
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(spellings)
            .map_err(|e| Error::tokenizer(format!("too many added tokens: {e}")))?;
        Ok(Self { automaton, ids })
    }

    fn cut<'a>(&self, text: &'a str, mut run: impl FnMut(Run<'a>)) {
        let mut at = 0;
        for found in self.automaton.find_iter(text) {
            if at < found.start() {
                run(Run::Plain(&text[at..found.start()]));
            }
            run(Run::Added(self.ids[found.pattern()]));
            at = found.end();
        }
        if at < text.len() {
            run(Run::Plain(&text[at..]));
        }
    }
}
