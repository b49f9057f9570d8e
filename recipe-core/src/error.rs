//! The one error type of the crate: a kind, a text, and for requests a status and a path.
//!
//! Kinds are private, so they may change; callers ask questions instead (`status`, `is_client`).

use std::fmt;

use crate::json::write_string;

/// Why a call failed. Model output never makes one; a request, a file or a misuse of the API does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    message: String,
    path: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The body is no JSON text.
    Syntax,
    /// The body is JSON, but a field has a wrong type or is missing.
    Shape,
    /// The body has the right shape, but its values cannot be served.
    Conversion,
    /// An argument of the API, for example an unknown effort name.
    Argument,
    /// A tokenizer file cannot be used, or a prompt cannot be encoded with it.
    Tokenizer,
    /// A call that the state does not allow, for example a push after the end.
    Misuse,
    /// The machine lacks what the work needs, or a part of ours failed.
    Server,
}

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), path: None }
    }

    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        Self::new(Kind::Syntax, message)
    }

    pub(crate) fn shape(message: impl Into<String>) -> Self {
        Self::new(Kind::Shape, message)
    }

    pub(crate) fn conversion(message: impl Into<String>) -> Self {
        Self::new(Kind::Conversion, message)
    }

    /// A wrong argument of a constructor or an option.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(Kind::Argument, message)
    }

    pub(crate) fn tokenizer(message: impl Into<String>) -> Self {
        Self::new(Kind::Tokenizer, message)
    }

    /// A call that the object's state does not allow.
    pub fn misuse(message: impl Into<String>) -> Self {
        Self::new(Kind::Misuse, message)
    }

    pub(crate) fn server(message: impl Into<String>) -> Self {
        Self::new(Kind::Server, message)
    }

    /// Names the place in the request, for example `messages[2].content`, unless one is set already.
    pub(crate) fn at(mut self, path: impl Into<String>) -> Self {
        self.path.get_or_insert_with(|| path.into());
        self
    }

    /// Puts the step that leads to the place, a key or `[index]`, in front of the path.
    pub(crate) fn within(mut self, step: &str) -> Self {
        self.path = Some(match self.path {
            Some(path) if path.starts_with('[') => format!("{step}{path}"),
            Some(path) => format!("{step}.{path}"),
            None => step.to_owned(),
        });
        self
    }

    /// A name that is none of `names`.
    pub(crate) fn unknown_variant(found: &str, names: &[&str]) -> Self {
        let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let expected = match quoted.as_slice() {
            [one] => one.clone(),
            [one, other] => format!("{one} or {other}"),
            all => format!("one of {}", all.join(", ")),
        };
        Self::shape(format!("unknown variant `{found}`, expected {expected}"))
    }

    /// The text, without the prefix that names the stage.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where in the request the fault is, if it has one place.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// The HTTP status for a server: 400 where the client is at fault, otherwise 500.
    pub fn status(&self) -> u16 {
        if self.is_client() {
            400
        } else {
            500
        }
    }

    /// Whether the request is at fault.
    pub fn is_client(&self) -> bool {
        matches!(self.kind, Kind::Syntax | Kind::Shape | Kind::Conversion)
    }

    /// Whether the body could not be read as a request at all (no JSON, or a wrong shape).
    pub fn is_unreadable(&self) -> bool {
        matches!(self.kind, Kind::Syntax | Kind::Shape)
    }

    /// Whether an argument of the API is at fault.
    pub fn is_argument(&self) -> bool {
        self.kind == Kind::Argument
    }

    /// The error body that all three protocols of the reference send, as compact JSON.
    pub fn body(&self) -> String {
        let mut out = String::from(r#"{"error":{"message":"#);
        write_string(&mut out, &self.to_string());
        out.push_str(r#","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#);
        out
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Syntax => write!(f, "invalid JSON request: {}", self.message),
            Kind::Shape => write!(f, "invalid request body: {}", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}
