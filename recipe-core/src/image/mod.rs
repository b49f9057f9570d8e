//! Images: so far what they cost. Knows no protocol and no template.

pub mod tokens;
