//! Special tokens and their spellings, for Python. Knows no tokenizer.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use recipe_core::special as core;

use crate::options::mirror;
use crate::save::record;
use crate::text::Text;

mirror! {
    core,
    /// A kind of special token.
    SpecialToken {
        Bos, Eos, ThinkingStart, ThinkingEnd, System, User, Assistant, LatestReminder, Dsml, Image,
        Ref, RefEnd, Box, BoxEnd, Point, PointEnd, Polygon, PolygonEnd,
    }

    /// Returns the spelling in the released vocabularies.
    fn default_str(&self) -> &'static str {
        core::SpecialToken::from(*self).default_str()
    }
}

/// A spelling for each kind of special token. A keyword that is left out or `None` keeps the
/// default spelling; an empty one renders nothing.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct SpecialTokens(pub core::SpecialTokens);

record!(SpecialTokens);

#[pymethods]
impl SpecialTokens {
    #[new]
    #[pyo3(signature = (*, bos=None, eos=None, thinking_start=None, thinking_end=None, system=None, user=None,
        assistant=None, latest_reminder=None, dsml=None, image=None, r#ref=None, ref_end=None, r#box=None,
        box_end=None, point=None, point_end=None, polygon=None, polygon_end=None))]
    #[allow(clippy::too_many_arguments)] // One keyword for each kind.
    fn new(
        bos: Option<Text>,
        eos: Option<Text>,
        thinking_start: Option<Text>,
        thinking_end: Option<Text>,
        system: Option<Text>,
        user: Option<Text>,
        assistant: Option<Text>,
        latest_reminder: Option<Text>,
        dsml: Option<Text>,
        image: Option<Text>,
        r#ref: Option<Text>,
        ref_end: Option<Text>,
        r#box: Option<Text>,
        box_end: Option<Text>,
        point: Option<Text>,
        point_end: Option<Text>,
        polygon: Option<Text>,
        polygon_end: Option<Text>,
    ) -> Self {
        // In the order of `SpecialToken::ALL`.
        let spellings = [
            bos,
            eos,
            thinking_start,
            thinking_end,
            system,
            user,
            assistant,
            latest_reminder,
            dsml,
            image,
            r#ref,
            ref_end,
            r#box,
            box_end,
            point,
            point_end,
            polygon,
            polygon_end,
        ];
        let given = core::SpecialToken::ALL.into_iter().zip(spellings);
        Self(given.fold(core::SpecialTokens::default(), |tokens, (kind, spelling)| match spelling {
            Some(spelling) => tokens.with(kind, &spelling.0),
            None => tokens,
        }))
    }

    /// Returns the spelling of `token` in this mapping.
    fn token(&self, token: SpecialToken) -> &str {
        self.0.get(token.into())
    }
}
