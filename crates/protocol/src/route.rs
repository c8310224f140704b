//! What an operation is: its place in HTTP, and the types that go in and out.

use serde_json::Value;

use crate::error::{ApiError, ErrorTag};
use crate::openapi::Components;
use crate::query::RawQuery;
use crate::routes::Op;

/// An HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Reads.
    GET,
    /// Acts.
    POST,
    /// Replaces.
    PUT,
    /// Changes.
    PATCH,
    /// Removes.
    DELETE,
}

impl Method {
    /// Returns the word of the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GET => "GET",
            Self::POST => "POST",
            Self::PUT => "PUT",
            Self::PATCH => "PATCH",
            Self::DELETE => "DELETE",
        }
    }
}

/// Where an operation comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The published contract.
    Contract,
    /// An addition of abide.
    Abide,
}

/// Whether this version does what the operation promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It does.
    Yes,
    /// It checks the request and answers 503 `ServiceUnavailableError`.
    NotYet,
}

/// What a query parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// Any text.
    Text,
    /// A number, in text.
    Number,
    /// A number, which the published document declares as text.
    NumberText,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Words(&'static [&'static str]),
    /// An id with this prefix.
    Id(&'static str),
}

/// A query parameter.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub kind: ParamKind,
    /// Whether it must be there.
    pub required: bool,
    /// Whether abide added it.
    pub extension: bool,
    /// What it means.
    pub doc: &'static str,
}

impl Param {
    /// An optional parameter of the published contract.
    pub const fn optional(name: &'static str, kind: ParamKind, doc: &'static str) -> Self {
        Self { name, kind, required: false, extension: false, doc }
    }
}

/// The query of an operation.
pub trait Query: Sized + Send {
    /// The parameters.
    const PARAMS: &'static [Param];
    /// Reads the query.
    ///
    /// # Errors
    /// [`ApiError::InvalidRequest`] of kind `Query`, or [`ApiError::InvalidCursor`].
    fn parse(raw: &RawQuery) -> Result<Self, ApiError>;
    /// Writes the query.
    fn pairs(&self) -> Vec<(&'static str, String)>;
}

/// The body of a request.
pub trait Body: Send {
    /// Whether there is one, and whether an absent one is an error.
    const USE: BodyUse;
    /// Describes it.
    fn schema(components: &mut Components) -> Value;
}

/// Whether an operation takes a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyUse {
    /// None; one that comes is ignored.
    None,
    /// An absent one means `{}`.
    Optional,
    /// It must be there.
    Required,
}

/// What an operation answers.
pub trait Reply: Send {
    /// The status of success.
    const STATUS: u16 = 200;
    /// The media type; `None` for no body.
    const MEDIA: Option<&'static str> = Some("application/json");
    /// Describes the body.
    fn schema(components: &mut Components) -> Value;
}

/// An operation as a type.
pub trait Endpoint {
    /// Its query.
    type Query: Query;
    /// Its body.
    type Body: Body;
    /// What it answers.
    type Reply: Reply;
    /// Its entry in the table.
    const OP: Op;
}

/// How a route makes its parts of the document.
#[derive(Clone, Copy, Debug)]
pub struct Schemas {
    /// The body.
    pub body: fn(&mut Components) -> Value,
    /// The answer.
    pub reply: fn(&mut Components) -> Value,
}

/// An operation as a value: one row of the route table.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The operation.
    pub op: Op,
    /// Its method.
    pub method: Method,
    /// Its path; `{name}` are parameters, a last `*` takes the rest.
    pub path: &'static str,
    /// Its operation id.
    pub id: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether this version does it.
    pub served: Served,
    /// Whether the location parameters select a location.
    pub located: bool,
    /// The query parameters, those of the location not among them.
    pub query: &'static [Param],
    /// Whether it takes a body.
    pub body: BodyUse,
    /// The status of success.
    pub status: u16,
    /// The media type of success.
    pub media: Option<&'static str>,
    /// The errors beyond those that the path and the server always have.
    pub errors: &'static [ErrorTag],
    /// How it describes itself.
    pub schemas: Schemas,
}

impl Route {
    /// Says whether the path names a session.
    pub fn has_session(&self) -> bool {
        self.path.contains("{sessionID}")
    }

    /// Returns the names of the path parameters, in order.
    pub fn params(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Returns all errors: those that every route has, those of a session path, and its own.
    pub fn all_errors(&self) -> Vec<ErrorTag> {
        let mut errors = vec![ErrorTag::InvalidRequest, ErrorTag::Unauthorized];
        if self.has_session() {
            errors.push(ErrorTag::SessionNotFound);
        }
        errors.extend_from_slice(self.errors);
        errors.sort_unstable();
        errors.dedup();
        errors
    }

    /// Returns the path with its parameters filled in, in order; a last `*` takes the remaining one, slashes kept.
    pub fn path_with(&self, params: &[&str]) -> String {
        let mut values = params.iter();
        let mut out = String::with_capacity(self.path.len() + 32);
        for part in self.path.split('/').skip(1) {
            out.push('/');
            if part.starts_with('{') {
                out.push_str(&encode(values.next().copied().unwrap_or_default()));
            } else if part == "*" {
                let rest = values.next().copied().unwrap_or_default();
                out.push_str(&rest.split('/').map(encode).collect::<Vec<_>>().join("/"));
            } else {
                out.push_str(part);
            }
        }
        out
    }
}

/// Percent-encodes one path segment or query value.
pub(crate) fn encode(text: &str) -> String {
    const KEPT: &percent_encoding::AsciiSet =
        &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    percent_encoding::utf8_percent_encode(text, KEPT).to_string()
}
