//! Text to ids and ids to text, with the vocabulary of a model version or of a tokenizer.json file.
//!
//! Knows no protocol and no template. Plain text never becomes an added token unless [`Tokenizer::encode`] is
//! asked for it.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::options::ModelVersion;
use crate::prompt::{RenderedPrompt, Segment};

mod added;
mod bpe;
mod builtin;
mod count;
mod decode;
mod fingerprint;
mod load;
mod parallel;
mod segments;
mod split;
mod unicode_tables;

pub use count::TokenCounter;
pub use decode::Decoder;

/// A byte-level BPE tokenizer with an added vocabulary. Immutable, and cheap to clone.
///
/// ```
/// use recipe_core::options::ModelVersion;
/// use recipe_core::tokenizer::{Token, Tokenizer};
///
/// let tokenizer = Tokenizer::builtin(ModelVersion::DeepseekV41Flash);
/// let mut plain = Vec::new();
/// tokenizer.encode_plain_into("<think>", &mut plain);
/// assert_eq!(plain, [30, 37947, 32]);
/// assert_eq!(tokenizer.encode("<think>"), [128821]);
/// assert_eq!(tokenizer.special_id("<think>"), Some(128821));
/// assert_eq!(tokenizer.token(37947), Some(Token::Plain(b"think")));
/// ```
#[derive(Clone)]
pub struct Tokenizer {
    vocabulary: Arc<bpe::Vocabulary>,
    added: Arc<added::AddedTokens>,
    segments: Arc<segments::SegmentCache>,
    identity: Arc<Identity>,
}

struct Identity {
    source: Source,
    fingerprint: OnceLock<u64>,
}

/// What a tokenizer can be made of again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A built-in vocabulary, also where it was read from a file that holds the same.
    Builtin(ModelVersion),
    /// The text of a tokenizer.json.
    Json(Box<str>),
}

/// What an id stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// An ordinary token: bytes, which need not be whole characters.
    Plain(&'a [u8]),
    /// A token of the added vocabulary: its spelling.
    Added(&'a str),
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// The tokenizer of a model version. Loaded once a process, in a few milliseconds.
    pub fn builtin(version: ModelVersion) -> Self {
        builtin::tokenizer(version)
    }

    /// A tokenizer from the text of a tokenizer.json of the same family: byte-level BPE and the same split steps.
    ///
    /// The error says what is not supported.
    pub fn from_json(text: &str) -> Result<Self> {
        if let Some(version) = builtin::released(text) {
            return Ok(Self::builtin(version));
        }
        let (vocabulary, added) = load::tokenizer(text)?;
        let is_builtin = Arc::ptr_eq(&vocabulary, &builtin::vocabulary());
        let same = builtin::version_of(&added).filter(|_| is_builtin);
        let source = same.map_or_else(|| Source::Json(text.into()), Source::Builtin);
        Ok(Self::new(vocabulary, added, source))
    }

    fn new(vocabulary: Arc<bpe::Vocabulary>, added: added::AddedTokens, source: Source) -> Self {
        let identity = Identity { source, fingerprint: OnceLock::new() };
        let segments = segments::SegmentCache::new(segments::DEFAULT_BOUND);
        Self { vocabulary, added: Arc::new(added), segments: Arc::new(segments), identity: Arc::new(identity) }
    }

    /// What the tokenizer can be made of again, in another process too.
    pub fn source(&self) -> &Source {
        &self.identity.source
    }

    /// Tells vocabularies apart: two with the same ids, tokens and merges have the same one.
    pub fn fingerprint(&self) -> u64 {
        *self.identity.fingerprint.get_or_init(|| fingerprint::of(&self.vocabulary, &self.added))
    }

    /// As [`Tokenizer::from_json`], from a file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::tokenizer(e.to_string()))?;
        Self::from_json(&text)
    }

    /// The same tokenizer with a segment cache of its own, which keeps at most `bytes`; none keeps nothing.
    ///
    /// [`encode_prompt`](Self::encode_prompt) keeps the ids of segments for the next prompt that has them. Clones
    /// share a cache, and so do all tokenizers of [`builtin`](Self::builtin) of one version. Without this its bound is
    /// 32 MiB: of the texts of segments, of their ids at four bytes each, and of 112 bytes for each segment.
    pub fn with_segment_cache(&self, bytes: usize) -> Self {
        Self { segments: Arc::new(segments::SegmentCache::new(bytes)), ..self.clone() }
    }

    /// Appends the ids of a text, taken by itself, without the added vocabulary.
    ///
    /// A text of over 128 KiB is encoded by several threads, which end with the call.
    pub fn encode_plain_into(&self, text: &str, ids: &mut Vec<u32>) {
        if text.len() < parallel::SHORTEST {
            self.encode_part_into(text, ids);
        } else {
            parallel::encode(text, ids, |part, ids| self.encode_part_into(part, ids));
        }
    }

    fn encode_part_into(&self, text: &str, ids: &mut Vec<u32>) {
        // Most texts have more bytes a token.
        ids.reserve(text.len() / 3);
        self.vocabulary.with_encoder(|encoder| {
            split::for_each_batch(text, |start, ends| {
                self.vocabulary.encode_batch(text.as_bytes(), start, ends, encoder, ids);
            });
        });
    }

    /// Forgets the pieces that were seen: what a first pass costs, for the benches.
    #[doc(hidden)]
    pub fn forget_pieces(&self) {
        self.vocabulary.forget_pieces();
    }

    /// The number of pieces of a text: what splitting costs by itself, for the benches.
    #[doc(hidden)]
    pub fn count_pieces(&self, text: &str) -> usize {
        let mut pieces = 0;
        split::for_each_batch(text, |_, ends| pieces += ends.len());
        pieces
    }

    /// The ids of a prompt. Fails if a special segment is no added token of this vocabulary.
    pub fn encode_prompt(&self, prompt: &RenderedPrompt) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        self.encode_prompt_into(prompt, &mut ids).map(|()| ids)
    }

    /// Appends the ids of a prompt. Fails as [`encode_prompt`](Self::encode_prompt).
    pub fn encode_prompt_into(&self, prompt: &RenderedPrompt, ids: &mut Vec<u32>) -> Result<()> {
        // Most texts have more bytes a token.
        ids.reserve(prompt.prompt().len() / 3);
        self.encode_segments_into(prompt.segments(), ids)
    }

    /// The ids of a prompt, segment by segment: special ones from the added vocabulary, plain ones each by itself.
    ///
    /// Fails if a special segment is no added token of this vocabulary.
    pub fn encode_segments<'a>(&self, segments: impl IntoIterator<Item = Segment<'a>>) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        self.encode_segments_into(segments, &mut ids).map(|()| ids)
    }

    fn encode_segments_into<'a>(
        &self,
        segments: impl IntoIterator<Item = Segment<'a>>,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        for segment in segments {
            match segment {
                Segment::Plain(text) => {
                    self.segments.get_or_encode(text, ids, |text, ids| self.encode_plain_into(text, ids));
                }
                Segment::Special(spelling) | Segment::Image(spelling) => {
                    ids.push(self.special_id(spelling).ok_or_else(|| {
                        Error::tokenizer(format!(
                            "failed to encode conversation: special token {spelling:?} is not in the added vocabulary"
                        ))
                    })?);
                }
            }
        }
        Ok(())
    }

    /// The ids of a text with the full vocabulary: the spelling of an added token becomes that token.
    ///
    /// Only for text that no user wrote, or for counting.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.encode_into(text, &mut ids);
        ids
    }

    /// Appends the ids that [`encode`](Self::encode) gives.
    pub fn encode_into(&self, text: &str, ids: &mut Vec<u32>) {
        self.added.for_each_run(text, |run| match run {
            added::Run::Plain(text) => self.encode_plain_into(text, ids),
            added::Run::Added(id) => ids.push(id),
        });
    }

    /// The id of an added token. Ordinary tokens have no spelling here.
    pub fn special_id(&self, spelling: &str) -> Option<u32> {
        self.added.id(spelling)
    }

    /// What `id` stands for; `None` for an id that is in neither vocabulary.
    pub fn token(&self, id: u32) -> Option<Token<'_>> {
        match self.vocabulary.bytes(id) {
            [] => self.added.spelling(id).map(Token::Added),
            bytes => Some(Token::Plain(bytes)),
        }
    }
}
