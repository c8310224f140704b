//! `{env:NAME}` and `{file:PATH}` in the raw text of a document, before it is parsed.

use std::path::{Path, PathBuf};

use abide_schema::config::{Diagnostic, DiagnosticKind, Severity};

use super::directories::expand_home;
use super::files::FileSet;
use crate::world::World;

/// A text after substitution, with the way back to places of the original.
pub(crate) struct Substituted {
    pub(crate) text: String,
    /// (start in the new text, length in the new text, start in the old text, length in the old text).
    replaced: Vec<(usize, usize, usize, usize)>,
}

impl Substituted {
    /// Where a byte of the new text comes from.
    pub(crate) fn original_offset(&self, offset: usize) -> usize {
        let mut shift_from = (0, 0);
        for (new_start, new_len, old_start, old_len) in &self.replaced {
            if offset < *new_start {
                break;
            }
            if offset < new_start + new_len {
                return *old_start;
            }
            shift_from = (new_start + new_len, old_start + old_len);
        }
        shift_from.1 + (offset - shift_from.0)
    }
}

/// What substitution reads.
pub(crate) struct Sources<'a> {
    pub(crate) world: &'a World,
    pub(crate) home: &'a Path,
    /// The directory that relative paths start from.
    pub(crate) base: &'a Path,
    pub(crate) files: &'a mut FileSet,
}

/// Fills in the tokens. Inserted text is not looked at again.
///
/// # Errors
/// A finding that rejects the document: a file that cannot be read.
pub(crate) fn substitute(
    text: &str,
    sources: &mut Sources<'_>,
    warnings: &mut Vec<Diagnostic>,
) -> Result<Substituted, Diagnostic> {
    let mut out = Substituted { text: String::with_capacity(text.len()), replaced: Vec::new() };
    let mut rest = text;
    let mut at = 0;
    while let Some((start, kind)) = next_token(rest) {
        let Some(len) = rest.get(start..).and_then(|token| token.find('}')) else { break };
        let token_len = len + 1;
        let (before, token) = (rest.get(..start).unwrap_or(""), rest.get(start..start + token_len).unwrap_or(""));
        let name = token.get(kind.prefix().len()..token_len - 1).unwrap_or("");
        let old_start = at + start;
        out.text.push_str(before);
        let new_start = out.text.len();
        let is_comment = line_before(text, old_start).trim_start().starts_with("//");
        match kind {
            Token::File if is_comment => out.text.push_str(token),
            Token::File => out.text.push_str(&file(name, sources, place(text, old_start))?),
            Token::Env => match sources.world.environment().get(name) {
                Some(value) => out.text.push_str(&escaped(value)),
                None if is_comment => {}
                None => {
                    let mut warning = Diagnostic::new(
                        Severity::Warning,
                        DiagnosticKind::Substitution,
                        format!("the environment variable {name} is not set, so {{env:{name}}} is empty"),
                    )
                    .hint(format!("set {name}, or remove the setting"));
                    (warning.line, warning.column) = place(text, old_start);
                    warnings.push(warning);
                }
            },
        }
        out.replaced.push((new_start, out.text.len() - new_start, old_start, token_len));
        rest = rest.get(start + token_len..).unwrap_or("");
        at = old_start + token_len;
    }
    out.text.push_str(rest);
    Ok(out)
}

#[derive(Clone, Copy)]
enum Token {
    Env,
    File,
}

impl Token {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Env => "{env:",
            Self::File => "{file:",
        }
    }
}

fn next_token(text: &str) -> Option<(usize, Token)> {
    [Token::Env, Token::File]
        .into_iter()
        .filter_map(|token| Some((text.find(token.prefix())?, token)))
        .min_by_key(|(start, _)| *start)
}

fn file(
    name: &str,
    sources: &mut Sources<'_>,
    (line, column): (Option<usize>, Option<usize>),
) -> Result<String, Diagnostic> {
    // The path stands inside a JSON string.
    let name = serde_json::from_str::<String>(&format!("\"{name}\"")).unwrap_or_else(|_| name.to_owned());
    let path = PathBuf::from(expand_home(sources.home, name.trim()));
    let path = if path.is_absolute() { path } else { sources.base.join(path) };
    let fail = |reason: String| {
        let mut diagnostic = Diagnostic::new(
            Severity::Error,
            DiagnosticKind::Substitution,
            format!("the included file {} {reason}", path.display()),
        )
        .hint("create it, or correct the path");
        (diagnostic.line, diagnostic.column) = (line, column);
        diagnostic
    };
    match sources.files.read(&path) {
        Ok(Some(bytes)) => match String::from_utf8(bytes) {
            Ok(text) => Ok(escaped(text.trim())),
            Err(_) => Err(fail("is not UTF-8 text".to_owned())),
        },
        Ok(None) => Err(fail("does not exist".to_owned())),
        Err(error) => Err(fail(format!("cannot be read: {error}"))),
    }
}

/// The text as it stands between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or("").to_owned()
}

fn line_before(text: &str, offset: usize) -> &str {
    let before = text.get(..offset).unwrap_or("");
    before.rsplit_once('\n').map_or(before, |(_, line)| line)
}

fn place(text: &str, offset: usize) -> (Option<usize>, Option<usize>) {
    let (line, column) = line_column(text, offset);
    (Some(line), Some(column))
}

/// Line and column, in characters and from 1, of a byte offset.
pub(crate) fn line_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    (line, line_before(text, before.len()).chars().count() + 1)
}
