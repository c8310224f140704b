//! Queries: how they are read, and the query of each operation.

use abide_schema::{ProjectId, Seq, SessionId, WorkspaceId};

use crate::error::{ApiError, InvalidKind};
use crate::route::{Param, ParamKind, Query};
use crate::view::ViewKind;

/// A decoded query string: names and values in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawQuery(Vec<(String, String)>);

/// The most parameters that are read; the others are left out.
const MAX_PARAMS: usize = 64;

impl RawQuery {
    /// Decodes a query string. `+` is a space; what is not UTF-8 becomes U+FFFD.
    pub fn parse(text: &str) -> Self {
        let decode = |part: &str| {
            let spaced = part.replace('+', " ");
            percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
        };
        Self(
            text.split('&')
                .filter(|pair| !pair.is_empty())
                .take(MAX_PARAMS)
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(name), decode(value))
                })
                .collect(),
        )
    }

    /// Returns the first value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    fn nonempty(&self, name: &str) -> Option<String> {
        self.get(name).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    /// Reads a whole number of at least `min`; a larger one than `max` is an error.
    fn whole(&self, name: &str, min: u64, max: Option<u64>) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let fail = |expected: &str| {
            let got = if text.parse::<f64>().is_ok() { text.to_owned() } else { format!("{text:?}") };
            Err(ApiError::expected(InvalidKind::Query, expected, &got, &[name]))
        };
        let Ok(number) = text.parse::<f64>() else { return fail("a number") };
        let Ok(value) = text.parse::<u64>() else {
            return if number < 0.0 {
                fail(if min > 0 { "a value greater than 0" } else { "a value greater than or equal to 0" })
            } else {
                fail("an integer")
            };
        };
        if value < min {
            return fail(&format!("a value greater than {}", min.saturating_sub(1)));
        }
        match max {
            Some(max) if value > max => fail(&format!("a value less than or equal to {max}")),
            Some(_) | None => Ok(Some(value)),
        }
    }

    fn seq(&self, name: &str) -> Result<Option<Seq>, ApiError> {
        Ok(self.whole(name, 0, None)?.map(Seq))
    }

    fn limit(&self, max: Option<u32>) -> Result<Option<u32>, ApiError> {
        let value = self.whole("limit", 1, max.map(u64::from))?;
        Ok(value.map(|value| u32::try_from(value).unwrap_or(u32::MAX)))
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.get(name) {
            None => Ok(None),
            Some("true" | "1" | "") => Ok(Some(true)),
            Some("false" | "0") => Ok(Some(false)),
            Some(other) => Err(ApiError::expected(InvalidKind::Query, "true or false", &format!("{other:?}"), &[name])),
        }
    }

    fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(Some(*value));
        }
        let expected = words.iter().map(|(word, _)| format!("{word:?}")).collect::<Vec<_>>().join(" | ");
        Err(ApiError::expected(InvalidKind::Query, &expected, &format!("{text:?}"), &[name]))
    }
}

/// Reads the location parameters `location[directory]` and `location[workspace]`.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when `location` comes as one value, or the workspace is no id.
pub fn location(raw: &RawQuery) -> Result<(Option<String>, Option<WorkspaceId>), ApiError> {
    if let Some(text) = raw.get("location") {
        return Err(ApiError::expected(
            InvalidKind::Query,
            "an object (location[directory]=…)",
            &format!("{text:?}"),
            &["location"],
        ));
    }
    let workspace = match raw.nonempty("location[workspace]") {
        Some(text) => Some(WorkspaceId::parse(&text).map_err(|error| {
            ApiError::expected(InvalidKind::Query, "a workspace id", &error.value, &["location", "workspace"])
        })?),
        None => None,
    };
    Ok((raw.nonempty("location[directory]"), workspace))
}

/// Order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListOrder {
    /// Oldest first.
    Asc,
    /// Newest first.
    #[default]
    Desc,
}

impl ListOrder {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Asc => "asc",
            Self::Desc => "desc",
        }
    }
}

const ORDERS: &[(&str, ListOrder)] = &[("asc", ListOrder::Asc), ("desc", ListOrder::Desc)];
const VIEWS: &[(&str, ViewKind)] = &[("contract", ViewKind::Contract), ("full", ViewKind::Full)];

const ORDER: Param =
    Param::optional("order", ParamKind::Words(&["asc", "desc"]), "The order; newest first by default.");
const CURSOR: Param = Param::optional("cursor", ParamKind::Text, "Where the page goes on, from an earlier answer.");
const VIEW: Param = Param {
    name: "view",
    kind: ParamKind::Words(&["contract", "full"]),
    required: false,
    extension: true,
    doc: "`full` keeps abide's additions and counts events by log position.",
};
const PARENT: Param = Param {
    name: "parentID",
    kind: ParamKind::Text,
    required: false,
    extension: true,
    doc: "Only children of this session; null: only sessions without parent.",
};
const AFTER: Param = Param::optional("after", ParamKind::NumberText, "Only events after this position.");

fn push<T: ToString>(pairs: &mut Vec<(&'static str, String)>, name: &'static str, value: Option<&T>) {
    if let Some(value) = value {
        pairs.push((name, value.to_string()));
    }
}

fn push_view(pairs: &mut Vec<(&'static str, String)>, view: ViewKind) {
    match view {
        ViewKind::Contract => {}
        ViewKind::Full => pairs.push(("view", "full".to_owned())),
    }
}

/// No query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoQuery;

impl Query for NoQuery {
    const PARAMS: &'static [Param] = &[];
    fn parse(_: &RawQuery) -> Result<Self, ApiError> {
        Ok(Self)
    }
    fn pairs(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// Reads `parentID`: a session, or `null`.
fn parent(raw: &RawQuery) -> Result<Option<String>, ApiError> {
    let Some(text) = raw.nonempty("parentID") else { return Ok(None) };
    if text != NO_PARENT && SessionId::parse(&text).is_err() {
        let expected = "null, or a string starting with \"ses\"";
        return Err(ApiError::expected(InvalidKind::Query, expected, &format!("{text:?}"), &["parentID"]));
    }
    Ok(Some(text))
}

/// Which sessions a list holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionsQuery {
    /// A workspace.
    pub workspace: Option<WorkspaceId>,
    /// The most sessions.
    pub limit: Option<u32>,
    /// The order.
    pub order: Option<ListOrder>,
    /// A part of the title.
    pub search: Option<String>,
    /// An absolute directory.
    pub directory: Option<String>,
    /// A project.
    pub project: Option<ProjectId>,
    /// A path below the project's root.
    pub subpath: Option<String>,
    /// The children of this session, or `null` for sessions without parent.
    pub parent_id: Option<String>,
    /// Where the page goes on; the filters then come from it.
    pub cursor: Option<String>,
}

/// What `parentID` says when only sessions without parent are meant.
pub const NO_PARENT: &str = "null";

impl Query for SessionsQuery {
    const PARAMS: &'static [Param] = &[
        Param::optional("workspace", ParamKind::Id("wrk"), "Only sessions of this workspace."),
        Param::optional("limit", ParamKind::Number, "The most sessions: 50 by default, at most 200."),
        ORDER,
        Param::optional("search", ParamKind::Text, "Only sessions whose title holds this text."),
        Param::optional("directory", ParamKind::Text, "Only sessions of exactly this absolute directory."),
        Param::optional("project", ParamKind::Text, "Only sessions of this project."),
        Param::optional("subpath", ParamKind::Text, "Only sessions at or below this path of the project."),
        PARENT,
        CURSOR,
    ];
    fn parse(raw: &RawQuery) -> Result<Self, ApiError> {
        let workspace = match raw.get("workspace") {
            Some(text) => Some(WorkspaceId::parse(text).map_err(|_| {
                ApiError::expected(
                    InvalidKind::Query,
                    "a string starting with \"wrk\"",
                    &format!("{text:?}"),
                    &["workspace"],
                )
            })?),
            None => None,
        };
        let directory = raw.nonempty("directory");
        if let Some(directory) = directory.as_deref().filter(|path| !std::path::Path::new(path).is_absolute()) {
            return Err(ApiError::expected(
                InvalidKind::Query,
                "an absolute path",
                &format!("{directory:?}"),
                &["directory"],
            ));
        }
        Ok(Self {
            workspace,
            limit: raw.limit(None)?,
            order: raw.word("order", ORDERS)?,
            search: raw.nonempty("search"),
            directory,
            project: raw.nonempty("project").map(ProjectId::new),
            subpath: raw.nonempty("subpath"),
            parent_id: parent(raw)?,
            cursor: raw.text("cursor"),
        })
    }
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        push(&mut pairs, "workspace", self.workspace.as_ref());
        push(&mut pairs, "limit", self.limit.as_ref());
        push(&mut pairs, "order", self.order.map(ListOrder::as_str).as_ref());
        push(&mut pairs, "search", self.search.as_ref());
        push(&mut pairs, "directory", self.directory.as_ref());
        push(&mut pairs, "project", self.project.as_ref());
        push(&mut pairs, "subpath", self.subpath.as_ref());
        push(&mut pairs, "parentID", self.parent_id.as_ref());
        push(&mut pairs, "cursor", self.cursor.as_ref());
        pairs
    }
}

/// The longest page of messages.
pub const MAX_MESSAGES: u32 = 200;
/// The longest page of history.
pub const MAX_HISTORY: u32 = 100;

/// Which messages a page holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessagesQuery {
    /// The most messages.
    pub limit: Option<u32>,
    /// The order.
    pub order: Option<ListOrder>,
    /// Where the page goes on.
    pub cursor: Option<String>,
    /// What is shown.
    pub view: ViewKind,
}

impl Query for MessagesQuery {
    const PARAMS: &'static [Param] = &[
        Param::optional("limit", ParamKind::Number, "The most messages: 50 by default, at most 200."),
        ORDER,
        CURSOR,
        VIEW,
    ];
    fn parse(raw: &RawQuery) -> Result<Self, ApiError> {
        Ok(Self {
            limit: raw.limit(Some(MAX_MESSAGES))?,
            order: raw.word("order", ORDERS)?,
            cursor: raw.text("cursor"),
            view: raw.word("view", VIEWS)?.unwrap_or_default(),
        })
    }
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        push(&mut pairs, "limit", self.limit.as_ref());
        push(&mut pairs, "order", self.order.map(ListOrder::as_str).as_ref());
        push(&mut pairs, "cursor", self.cursor.as_ref());
        push_view(&mut pairs, self.view);
        pairs
    }
}

/// What of a message or session is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewQuery {
    /// What is shown.
    pub view: ViewKind,
}

impl Query for ViewQuery {
    const PARAMS: &'static [Param] = &[VIEW];
    fn parse(raw: &RawQuery) -> Result<Self, ApiError> {
        Ok(Self { view: raw.word("view", VIEWS)?.unwrap_or_default() })
    }
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        push_view(&mut pairs, self.view);
        pairs
    }
}

/// Which part of a history a page holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryQuery {
    /// The most events.
    pub limit: Option<u32>,
    /// Only events after this position.
    pub after: Option<Seq>,
    /// What is shown, and which positions are meant.
    pub view: ViewKind,
}

impl Query for HistoryQuery {
    const PARAMS: &'static [Param] =
        &[Param::optional("limit", ParamKind::NumberText, "The most events: 50 by default, at most 100."), AFTER, VIEW];
    fn parse(raw: &RawQuery) -> Result<Self, ApiError> {
        Ok(Self {
            limit: raw.limit(Some(MAX_HISTORY))?,
            after: raw.seq("after")?,
            view: raw.word("view", VIEWS)?.unwrap_or_default(),
        })
    }
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        push(&mut pairs, "limit", self.limit.as_ref());
        push(&mut pairs, "after", self.after.as_ref());
        push_view(&mut pairs, self.view);
        pairs
    }
}

/// Where an event stream begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventsQuery {
    /// Only events after this position.
    pub after: Option<Seq>,
    /// What is shown, and which positions are meant.
    pub view: ViewKind,
}

impl Query for EventsQuery {
    const PARAMS: &'static [Param] = &[AFTER, VIEW];
    fn parse(raw: &RawQuery) -> Result<Self, ApiError> {
        Ok(Self { after: raw.seq("after")?, view: raw.word("view", VIEWS)?.unwrap_or_default() })
    }
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        push(&mut pairs, "after", self.after.as_ref());
        push_view(&mut pairs, self.view);
        pairs
    }
}

/// Which part of a log a stream holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Only events after this log position.
    pub after: Option<Seq>,
    /// Whether the stream goes on with what is committed later.
    pub follow: bool,
}

impl Query for LogQuery {
    const PARAMS: &'static [Param] = &[
        Param { extension: true, ..AFTER },
        Param {
            name: "follow",
            kind: ParamKind::Flag,
            required: false,
            extension: true,
            doc: "Whether the stream goes on with what is committed later.",
        },
    ];
    fn parse(raw: &RawQuery) -> Result<Self, ApiError> {
        Ok(Self { after: raw.seq("after")?, follow: raw.flag("follow")?.unwrap_or_default() })
    }
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        push(&mut pairs, "after", self.after.as_ref());
        if self.follow {
            pairs.push(("follow", "true".to_owned()));
        }
        pairs
    }
}

/// Whose saved permissions are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedQuery {
    /// A project; absent means that of the location.
    pub project_id: Option<ProjectId>,
}

impl Query for SavedQuery {
    const PARAMS: &'static [Param] =
        &[Param::optional("projectID", ParamKind::Text, "The project; that of the location by default.")];
    fn parse(raw: &RawQuery) -> Result<Self, ApiError> {
        Ok(Self { project_id: raw.nonempty("projectID").map(ProjectId::new) })
    }
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        push(&mut pairs, "projectID", self.project_id.as_ref());
        pairs
    }
}

/// Which directory is listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilesQuery {
    /// A path relative to the location; absent means the location itself.
    pub path: Option<String>,
}

impl Query for ListFilesQuery {
    const PARAMS: &'static [Param] =
        &[Param::optional("path", ParamKind::Text, "A directory relative to the location.")];
    fn parse(raw: &RawQuery) -> Result<Self, ApiError> {
        Ok(Self { path: raw.nonempty("path") })
    }
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        push(&mut pairs, "path", self.path.as_ref());
        pairs
    }
}

/// Which files are found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FindFilesQuery {
    /// Characters of the path, in order.
    pub query: String,
    /// Only entries of this kind.
    pub kind: Option<crate::wire::EntryKind>,
    /// The most entries.
    pub limit: Option<u32>,
}

const ENTRY_KINDS: &[(&str, crate::wire::EntryKind)] =
    &[("file", crate::wire::EntryKind::File), ("directory", crate::wire::EntryKind::Directory)];

impl Query for FindFilesQuery {
    const PARAMS: &'static [Param] = &[
        Param { required: true, ..Param::optional("query", ParamKind::Text, "Characters of the path, in order.") },
        Param::optional("type", ParamKind::Words(&["file", "directory"]), "Only entries of this kind."),
        Param::optional("limit", ParamKind::NumberText, "The most entries."),
    ];
    fn parse(raw: &RawQuery) -> Result<Self, ApiError> {
        let Some(query) = raw.text("query") else {
            return Err(ApiError::expected(InvalidKind::Query, "a string", "undefined", &["query"]));
        };
        Ok(Self { query, kind: raw.word("type", ENTRY_KINDS)?, limit: raw.limit(None)? })
    }
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = vec![("query", self.query.clone())];
        push(&mut pairs, "type", self.kind.map(crate::wire::EntryKind::as_str).as_ref());
        push(&mut pairs, "limit", self.limit.as_ref());
        pairs
    }
}

/// How a terminal is joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectQuery {
    /// Only output after this position; -1 for none.
    pub cursor: Option<i64>,
    /// A ticket instead of credentials.
    pub ticket: Option<String>,
}

impl Query for ConnectQuery {
    const PARAMS: &'static [Param] = &[
        Param::optional("cursor", ParamKind::NumberText, "Only output after this position; -1 for none."),
        Param::optional("ticket", ParamKind::Text, "A ticket instead of credentials."),
    ];
    fn parse(raw: &RawQuery) -> Result<Self, ApiError> {
        let cursor = match raw.nonempty("cursor") {
            Some(text) => Some(text.parse::<i64>().ok().filter(|value| *value >= -1).ok_or_else(|| {
                ApiError::expected(InvalidKind::Query, "an integer of at least -1", &format!("{text:?}"), &["cursor"])
            })?),
            None => None,
        };
        Ok(Self { cursor, ticket: raw.nonempty("ticket") })
    }
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        push(&mut pairs, "cursor", self.cursor.as_ref());
        push(&mut pairs, "ticket", self.ticket.as_ref());
        pairs
    }
}

#[cfg(test)]
mod tests;
