//! Special tokens by kind, and their spellings. Knows no tokenizer: ids are looked up there.

use std::sync::{Arc, LazyLock};

use crate::save::saved;

/// A kind of special token that templates write and parsers look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SpecialToken {
    /// Begin of sentence.
    Bos,
    /// End of sentence.
    Eos,
    /// Opens the reasoning.
    ThinkingStart,
    /// Closes the reasoning.
    ThinkingEnd,
    /// Opens a system turn (V4.1).
    System,
    /// Opens a user turn.
    User,
    /// Opens an assistant turn.
    Assistant,
    /// Opens a reminder.
    LatestReminder,
    /// Marks tool-call markup.
    Dsml,
    /// Stands for one image.
    Image,
    /// Opens a grounding reference.
    Ref,
    /// Closes a grounding reference.
    RefEnd,
    /// Opens a box.
    Box,
    /// Closes a box.
    BoxEnd,
    /// Opens a point.
    Point,
    /// Closes a point.
    PointEnd,
    /// Opens a polygon.
    Polygon,
    /// Closes a polygon.
    PolygonEnd,
}

impl SpecialToken {
    /// Every kind, in the order of their numbers.
    pub const ALL: [SpecialToken; 18] = [
        Self::Bos,
        Self::Eos,
        Self::ThinkingStart,
        Self::ThinkingEnd,
        Self::System,
        Self::User,
        Self::Assistant,
        Self::LatestReminder,
        Self::Dsml,
        Self::Image,
        Self::Ref,
        Self::RefEnd,
        Self::Box,
        Self::BoxEnd,
        Self::Point,
        Self::PointEnd,
        Self::Polygon,
        Self::PolygonEnd,
    ];

    /// The kinds that stay special in an assistant's content and reasoning.
    pub const GROUNDING: [SpecialToken; 8] = [
        Self::Ref,
        Self::RefEnd,
        Self::Box,
        Self::BoxEnd,
        Self::Point,
        Self::PointEnd,
        Self::Polygon,
        Self::PolygonEnd,
    ];

    /// The spelling in the released vocabularies.
    pub fn default_str(self) -> &'static str {
        match self {
            Self::Bos => "<｜begin▁of▁sentence｜>",
            Self::Eos => "<｜end▁of▁sentence｜>",
            Self::ThinkingStart => "<think>",
            Self::ThinkingEnd => "</think>",
            Self::System => "<｜System｜>",
            Self::User => "<｜User｜>",
            Self::Assistant => "<｜Assistant｜>",
            Self::LatestReminder => "<｜latest_reminder｜>",
            Self::Dsml => "｜DSML｜",
            Self::Image => "<｜image｜>",
            Self::Ref => "<｜ref｜>",
            Self::RefEnd => "<｜/ref｜>",
            Self::Box => "<｜box｜>",
            Self::BoxEnd => "<｜/box｜>",
            Self::Point => "<｜point｜>",
            Self::PointEnd => "<｜/point｜>",
            Self::Polygon => "<｜polygon｜>",
            Self::PolygonEnd => "<｜/polygon｜>",
        }
    }
}

/// A spelling for each kind of special token. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecialTokens {
    spellings: Arc<[Box<str>; 18]>,
}

impl Default for SpecialTokens {
    fn default() -> Self {
        static RELEASED: LazyLock<SpecialTokens> = LazyLock::new(|| SpecialTokens {
            spellings: Arc::new(SpecialToken::ALL.map(|token| token.default_str().into())),
        });
        RELEASED.clone()
    }
}

impl SpecialTokens {
    /// The spelling of `token`.
    pub fn get(&self, token: SpecialToken) -> &str {
        &self.spellings[token as usize]
    }

    /// The same mapping with `token` spelled `spelling`. An empty spelling renders nothing.
    #[must_use]
    pub fn with(mut self, token: SpecialToken, spelling: &str) -> Self {
        Arc::make_mut(&mut self.spellings)[token as usize] = spelling.into();
        self
    }
}

saved! { struct SpecialTokens { spellings } }
