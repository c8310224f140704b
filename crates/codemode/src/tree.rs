//! The tree of tools: namespaces, paths and call expressions.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;

/// Segments that a path may have; more is a mistake of the one who named the tool.
pub const MAX_SEGMENTS: usize = 16;

/// A tool that programs may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// The path: `namespace.name`, or a name alone. Every dot separates two segments.
    pub path: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON Schema of the input.
    pub input: Value,
    /// The JSON Schema of the output; absent means that a call gives joined text or `null`.
    pub output: Option<Value>,
    /// Whether the catalogue lists it whatever its size.
    pub pinned: bool,
}

/// Why a tool cannot be in a tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The path has an empty segment.
    #[error("tool path {path:?} has an empty segment: name each part between the dots")]
    EmptySegment {
        /// The path.
        path: String,
    },
    /// The path has too many segments.
    #[error("tool path {path:?} has {count} segments, at most {MAX_SEGMENTS} are allowed")]
    TooDeep {
        /// The path.
        path: String,
        /// Its segments.
        count: usize,
    },
    /// Two tools have one path.
    #[error("tool path {path:?} is used twice: give one of the tools another name or namespace")]
    Duplicate {
        /// The path.
        path: String,
    },
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Found<'a> {
    /// A tool; others may stand below it.
    Tool(&'a Tool),
    /// A namespace.
    Namespace,
    /// Nothing.
    Nothing,
}

/// Tools by path. A path may name a tool and have others below it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    /// In the order of [`compare_paths`].
    tools: Vec<Tool>,
    namespaces: BTreeMap<String, String>,
}

impl Tree {
    /// Makes a tree of `tools`.
    ///
    /// # Errors
    /// [`TreeError`] for the first path that is malformed or used twice.
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Result<Self, TreeError> {
        let mut tools: Vec<Tool> = tools.into_iter().collect();
        for tool in &tools {
            let count = tool.path.split('.').count();
            if count > MAX_SEGMENTS {
                return Err(TreeError::TooDeep { path: tool.path.clone(), count });
            }
            if tool.path.split('.').any(str::is_empty) {
                return Err(TreeError::EmptySegment { path: tool.path.clone() });
            }
        }
        tools.sort_by(|left, right| compare_paths(&left.path, &right.path));
        for (left, right) in tools.iter().zip(tools.iter().skip(1)) {
            if left.path == right.path {
                return Err(TreeError::Duplicate { path: left.path.clone() });
            }
        }
        Ok(Self { tools, namespaces: BTreeMap::new() })
    }

    /// Says what a namespace is for.
    pub fn with_namespace(mut self, namespace: impl Into<String>, description: impl Into<String>) -> Self {
        self.namespaces.insert(namespace.into(), description.into());
        self
    }

    /// Returns what was said of a namespace.
    pub fn namespace_description(&self, namespace: &str) -> Option<&str> {
        self.namespaces.get(namespace).map(String::as_str)
    }

    /// Lists the tools in code-unit order of their paths.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Returns what `path` names; the empty path is the root namespace.
    pub fn find(&self, path: &str) -> Found<'_> {
        if let Some(tool) = self.tools.iter().find(|tool| tool.path == path) {
            Found::Tool(tool)
        } else if path.is_empty() || self.tools.iter().any(|tool| below(&tool.path, path).is_some()) {
            Found::Namespace
        } else {
            Found::Nothing
        }
    }

    /// Lists the names directly below `path` (the empty path is the root), each once, in code-unit order.
    pub fn children(&self, path: &str) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .tools
            .iter()
            .filter_map(|tool| if path.is_empty() { Some(tool.path.as_str()) } else { below(&tool.path, path) })
            .filter_map(|rest| rest.split('.').next())
            .collect();
        names.sort_by(|left, right| compare_paths(left, right));
        names.dedup();
        names
    }
}

/// Returns the namespace of a path: all segments but the last; empty for a tool of the top level.
pub fn namespace(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(namespace, _)| namespace)
}

/// Returns the expression that names a path in a program: `tools.files["read-all"]`.
pub fn expression(path: &str) -> String {
    let mut out = "tools".to_owned();
    for segment in path.split('.') {
        if is_identifier(segment) {
            out.push('.');
            out.push_str(segment);
        } else {
            out.push('[');
            out.push_str(&Value::from(segment).to_string());
            out.push(']');
        }
    }
    out
}

/// Orders paths by UTF-16 code units, as a script engine does.
pub fn compare_paths(left: &str, right: &str) -> Ordering {
    left.encode_utf16().cmp(right.encode_utf16())
}

/// Tells whether a word can stand after a dot and as an unquoted key.
pub(crate) fn is_identifier(word: &str) -> bool {
    let start = |letter: char| letter.is_ascii_alphabetic() || letter == '_' || letter == '$';
    word.chars().next().is_some_and(start) && word.chars().all(|letter| start(letter) || letter.is_ascii_digit())
}

fn below<'a>(path: &'a str, namespace: &str) -> Option<&'a str> {
    path.strip_prefix(namespace)?.strip_prefix('.')
}

#[cfg(test)]
mod tests;
