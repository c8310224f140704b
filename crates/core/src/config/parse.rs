//! From the bytes of a document to its value: text, substitution, JSON with comments.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use abide_schema::JsonObject;
use abide_schema::config::{Diagnostic, DiagnosticKind, Severity};
use jsonc_parser::ast::{Object, Value as Node};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::Value;

use super::files::FileSet;
use super::report::{Positions, Report, join};
use super::substitute::{Sources, Substituted, line_column, substitute};
use crate::world::World;

/// What is needed to read documents.
pub(crate) struct Reader<'a> {
    pub(crate) world: &'a World,
    pub(crate) home: &'a Path,
    pub(crate) files: &'a mut FileSet,
}

/// Reads the document in a text. `path` names it in findings, relative includes start at `base`.
///
/// The value is `None` when the document is rejected; the report says why.
pub(crate) fn parse_document(
    bytes: &[u8],
    path: Option<PathBuf>,
    base: &Path,
    reader: &mut Reader<'_>,
) -> (Option<JsonObject>, Report) {
    let mut report = Report::new(path);
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else {
        report.push(Diagnostic::new(Severity::Error, DiagnosticKind::Syntax, "the file is not UTF-8 text"));
        return (None, report);
    };
    let mut warnings = Vec::new();
    let mut sources = Sources { world: reader.world, home: reader.home, base, files: reader.files };
    let substituted = match substitute(text, &mut sources, &mut warnings) {
        Ok(substituted) => substituted,
        Err(diagnostic) => {
            report.push(diagnostic);
            return (None, report);
        }
    };
    for warning in warnings {
        report.push(warning);
    }
    (parse_text(text, &substituted, &mut report), report)
}

fn parse_text(original: &str, substituted: &Substituted, report: &mut Report) -> Option<JsonObject> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let lines = Lines::new(original);
    let place = |offset: usize| lines.place(original, substituted.original_offset(offset));
    let node = match parse_to_ast(&substituted.text, &CollectOptions::default(), &options) {
        Ok(parsed) => parsed.value,
        Err(error) => {
            let (line, column) = place(error.range().start);
            let excerpt = original.lines().nth(line - 1).unwrap_or("").trim();
            let mut diagnostic = Diagnostic::new(
                Severity::Error,
                DiagnosticKind::Syntax,
                format!("the file is not JSON: {} in {:?}", lower_first(&error.kind().to_string()), cut(excerpt, 120)),
            )
            .hint("mend this line; until then nothing of the file is used");
            diagnostic.line = Some(line);
            diagnostic.column = Some(column);
            report.push(diagnostic);
            return None;
        }
    };
    let object = match node {
        None => return Some(JsonObject::new()),
        Some(Node::Object(object)) => object,
        Some(other) => {
            let mut diagnostic = Diagnostic::new(
                Severity::Error,
                DiagnosticKind::Syntax,
                "the file must hold a JSON object, for example { \"model\": \"provider/model\" }",
            );
            let (line, column) = place(other.range().start);
            diagnostic.line = Some(line);
            diagnostic.column = Some(column);
            report.push(diagnostic);
            return None;
        }
    };
    let mut walk = Walk { positions: Positions::default(), duplicates: Vec::new(), place: &place };
    let value = walk.object(object, "");
    report.set_positions(walk.positions);
    for diagnostic in walk.duplicates {
        report.push(diagnostic);
    }
    Some(value)
}

struct Walk<'a> {
    positions: Positions,
    duplicates: Vec<Diagnostic>,
    place: &'a dyn Fn(usize) -> (usize, usize),
}

impl Walk<'_> {
    fn object(&mut self, object: Object<'_>, pointer: &str) -> JsonObject {
        let mut map = JsonObject::new();
        let mut seen: HashMap<String, usize> = HashMap::new();
        for property in object.properties {
            let place = (self.place)(property.range.start);
            let key = property.name.into_string();
            let child = join(pointer, &key);
            if let Some(first) = seen.insert(key.clone(), place.0) {
                let mut diagnostic = Diagnostic::new(
                    Severity::Warning,
                    DiagnosticKind::Duplicate,
                    format!("the key {key:?} is set twice, in line {first} and in line {}; the second counts", place.0),
                )
                .at(child.clone())
                .hint("remove one of them");
                (diagnostic.line, diagnostic.column) = (Some(place.0), Some(place.1));
                self.duplicates.push(diagnostic);
                // The order of rules follows the last mention.
                map.shift_remove(&key);
            }
            self.positions.insert(child.clone(), place);
            let value = self.value(property.value, &child);
            map.insert(key, value);
        }
        map
    }

    fn value(&mut self, node: Node<'_>, pointer: &str) -> Value {
        match node {
            Node::Object(object) => Value::Object(self.object(object, pointer)),
            Node::Array(array) => Value::Array(
                array
                    .elements
                    .into_iter()
                    .enumerate()
                    .map(|(index, element)| {
                        let child = format!("{pointer}/{index}");
                        self.positions.insert(child.clone(), (self.place)(element.range().start));
                        self.value(element, &child)
                    })
                    .collect(),
            ),
            Node::StringLit(text) => Value::String(text.value.into_owned()),
            // The parser only lets through what JSON allows.
            Node::NumberLit(number) => number.value.parse().map_or(Value::Null, Value::Number),
            Node::BooleanLit(literal) => Value::Bool(literal.value),
            Node::NullKeyword(_) => Value::Null,
        }
    }
}

/// The starts of the lines of a text.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        Self(std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect())
    }

    fn place(&self, text: &str, offset: usize) -> (usize, usize) {
        let line = self.0.partition_point(|start| *start <= offset).max(1);
        let Some(start) = self.0.get(line - 1) else { return line_column(text, offset) };
        (line, text.get(*start..offset.min(text.len())).unwrap_or("").chars().count() + 1)
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

fn cut(text: &str, max: usize) -> String {
    let mut out: String = text.chars().take(max).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    out
}
