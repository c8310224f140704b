//! The JSON Schema validator, behind our types.

use abide_schema::JsonObject;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Draft, PatternOptions, ValidationError};
use serde_json::Value;

use super::issue::Issue;

/// The largest compiled regular expression, so that a hostile schema cannot exhaust memory.
const MAX_REGEX_BYTES: usize = 1 << 20;
/// The most backtracking steps of one match, so that a hostile pattern cannot stop the runtime.
const MAX_BACKTRACKS: usize = 100_000;
/// How often surplus properties are removed: each round reaches one level deeper at least.
const MAX_ROUNDS: usize = 16;

/// A compiled schema.
pub(crate) struct Validator(jsonschema::Validator);

impl Validator {
    /// Compiles a schema; `None` when that is impossible, also because it refers to another document.
    pub(crate) fn compile(document: &JsonObject) -> Option<Self> {
        let draft = if is_draft_07(document) { Draft::Draft7 } else { Draft::Draft202012 };
        let compiled = jsonschema::options()
            .with_draft(draft)
            .offline()
            .should_validate_formats(false)
            .with_pattern_options(
                PatternOptions::fancy_regex().size_limit(MAX_REGEX_BYTES).backtrack_limit(MAX_BACKTRACKS),
            )
            .build(&Value::Object(document.clone()));
        match compiled {
            Ok(validator) => Some(Self(validator)),
            Err(error) => {
                tracing::debug!(%error, "a schema cannot be compiled: values are not validated");
                None
            }
        }
    }

    /// Returns all issues, in the order of the schema.
    pub(crate) fn check(&self, value: &Value, document: &JsonObject) -> Vec<Issue> {
        let mut ranked: Vec<(Vec<usize>, Issue)> =
            self.0.iter_errors(value).flat_map(|error| issues(&error, value, document)).collect();
        ranked.sort_by(|one, other| one.0.cmp(&other.0));
        ranked.into_iter().map(|(_, issue)| issue).collect()
    }

    /// Removes properties that a closed object does not have, then checks.
    pub(crate) fn strip_and_check(&self, mut value: Value, document: &JsonObject) -> Result<Value, Vec<Issue>> {
        for _ in 0..MAX_ROUNDS {
            let surplus: Vec<(String, Vec<String>)> = self.0.iter_errors(&value).flat_map(|e| surplus(&e)).collect();
            if surplus.is_empty() {
                break;
            }
            for (pointer, keys) in surplus {
                if let Some(Value::Object(object)) = value.pointer_mut(&pointer) {
                    object.retain(|key, _| !keys.contains(key));
                }
            }
        }
        let issues = self.check(&value, document);
        if issues.is_empty() { Ok(value) } else { Err(issues) }
    }
}

fn is_draft_07(document: &JsonObject) -> bool {
    document.get("$schema").and_then(Value::as_str).is_some_and(|schema| schema.contains("draft-07"))
        || document.contains_key("definitions")
}

/// Returns what to remove: from where, which keys. Of a union the first form that fits but for surplus.
fn surplus(error: &ValidationError<'_>) -> Vec<(String, Vec<String>)> {
    if let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() {
        return vec![(error.instance_path().as_str().to_owned(), unexpected.clone())];
    }
    let surplus_only = |branch: &Vec<ValidationError<'static>>| {
        let removals: Vec<_> = branch.iter().map(surplus).collect();
        let fits = !removals.iter().any(Vec::is_empty);
        fits.then(|| removals.into_iter().flatten().collect())
    };
    forms(error).and_then(|forms| forms.iter().find_map(surplus_only)).unwrap_or_default()
}

/// Returns the issues of each form, when the error is about a union of which none fits.
fn forms<'e>(error: &'e ValidationError<'_>) -> Option<&'e [Vec<ValidationError<'static>>]> {
    if let ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } = error.kind() {
        Some(context)
    } else {
        None
    }
}

/// Returns the word for what is expected, when the error is about the whole value at `at`.
fn plain(error: &ValidationError<'_>, at: &str) -> Option<String> {
    if error.instance_path().as_str() != at {
        return None;
    }
    if let ValidationErrorKind::Type { kind } = error.kind() {
        Some(types(kind))
    } else if let ValidationErrorKind::Constant { expected_value } = error.kind() {
        Some(word(expected_value))
    } else {
        None
    }
}

/// Returns the issues of an error with their rank: one, except when all but one form of a union are plainly not meant.
fn issues(error: &ValidationError<'_>, value: &Value, document: &JsonObject) -> Vec<(Vec<usize>, Issue)> {
    let at = error.instance_path().as_str();
    let ranked = |issue: Issue| vec![(rank(document, error.evaluation_path().as_str()), issue)];
    let Some(forms) = forms(error) else { return ranked(issue(error, value)) };
    let words = |form: &Vec<ValidationError<'static>>| match form.as_slice() {
        [only] => plain(only, at),
        [] | [_, _, ..] => None,
    };
    let meant: Vec<_> = forms.iter().filter(|form| words(form).is_none()).collect();
    match meant.as_slice() {
        [] => {
            let expected: Vec<String> = forms.iter().filter_map(words).collect();
            ranked(Issue::new(path(at, value), format!("expected {}", expected.join(" or "))))
        }
        [form] => form.iter().flat_map(|error| issues(error, value, document)).collect(),
        [_, _, ..] => ranked(issue(error, value)),
    }
}

fn issue(error: &ValidationError<'_>, value: &Value) -> Issue {
    let mut path = path(error.instance_path().as_str(), value);
    if let ValidationErrorKind::Required { property: Value::String(property) } = error.kind() {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(property);
    }
    Issue::new(path, problem(error))
}

/// Turns a JSON pointer into `items[2].name`; the value says which parts are indexes.
fn path(pointer: &str, value: &Value) -> String {
    let mut out = String::new();
    let mut at = Some(value);
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        match at {
            Some(Value::Array(items)) => {
                out.push('[');
                out.push_str(&token);
                out.push(']');
                at = token.parse::<usize>().ok().and_then(|index| items.get(index));
            }
            Some(Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(&token);
                at = at.and_then(|value| value.get(&token));
            }
        }
    }
    out
}

/// Returns the place of a keyword in the document: for each step its position, `required` before everything else.
fn rank(document: &JsonObject, evaluation_path: &str) -> Vec<usize> {
    let root = Value::Object(document.clone());
    let mut at = Some(&root);
    let mut ranks = Vec::new();
    for token in evaluation_path.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        let position = match at {
            Some(Value::Object(map)) if token == "required" && map.contains_key("required") => Some(0),
            Some(Value::Object(map)) => map.keys().position(|key| *key == token).map(|position| position + 1),
            Some(Value::Array(_)) => token.parse::<usize>().ok(),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => None,
        };
        ranks.push(position.unwrap_or(usize::MAX));
        let next = match at {
            Some(Value::Array(items)) => token.parse::<usize>().ok().and_then(|index| items.get(index)),
            Some(other) => other.get(&token),
            None => None,
        };
        // A local reference goes on at its target.
        at = match next {
            Some(Value::String(target)) if token == "$ref" => {
                target.strip_prefix('#').and_then(|pointer| root.pointer(pointer))
            }
            other => other,
        };
    }
    ranks
}

fn problem(error: &ValidationError<'_>) -> String {
    use ValidationErrorKind as Kind;
    match error.kind() {
        Kind::Type { kind } => format!("expected {}", types(kind)),
        Kind::Required { .. } => "missing required property".to_owned(),
        Kind::Enum { options } => format!("expected one of: {}", words(options)),
        Kind::Constant { expected_value } => format!("expected {}", word(expected_value)),
        Kind::Minimum { limit } => format!("expected a value >= {limit}"),
        Kind::Maximum { limit } => format!("expected a value <= {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("expected a value > {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("expected a value < {limit}"),
        Kind::MultipleOf { multiple_of } => format!("expected a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("expected at least {}", count(*limit, "character")),
        Kind::MaxLength { limit } => format!("expected at most {}", count(*limit, "character")),
        Kind::MinItems { limit } => format!("expected at least {}", count(*limit, "item")),
        Kind::MaxItems { limit } => format!("expected at most {}", count(*limit, "item")),
        Kind::AdditionalItems { limit } => {
            format!("expected at most {}", count(u64::try_from(*limit).unwrap_or(u64::MAX), "item"))
        }
        Kind::MinProperties { limit } => format!("expected at least {}", properties(*limit)),
        Kind::MaxProperties { limit } => format!("expected at most {}", properties(*limit)),
        Kind::UniqueItems => "expected items that differ".to_owned(),
        Kind::Contains => "expected an item of another form among them".to_owned(),
        Kind::Pattern { pattern } => format!("expected text that matches {pattern}"),
        Kind::Format { format } => format!("expected the format {format}"),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            format!("unexpected {}", unexpected.join(", "))
        }
        Kind::UnevaluatedItems { unexpected } => format!("unexpected items {}", unexpected.join(", ")),
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => "fits none of the allowed forms".to_owned(),
        Kind::OneOfMultipleValid { .. } => "fits more than one of the allowed forms".to_owned(),
        Kind::Not { .. } | Kind::FalseSchema => "not allowed".to_owned(),
        Kind::PropertyNames { error } => format!("a property name is not valid: {}", problem(error)),
        Kind::ContentEncoding { content_encoding } => format!("expected {content_encoding} text"),
        Kind::ContentMediaType { content_media_type } => format!("expected content of type {content_media_type}"),
        Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } => {
            "cannot be matched against the pattern".to_owned()
        }
        Kind::FromUtf8 { .. } => "expected UTF-8 text".to_owned(),
        Kind::Custom { message, .. } => message.clone(),
        Kind::Referencing(_) => "cannot be checked: the schema refers to something unknown".to_owned(),
    }
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(several) => {
            let mut names: Vec<String> = several.iter().map(|one| one.to_string()).collect();
            // What is meant comes first.
            names.sort_by_key(|name| name == "null");
            names.join(" or ")
        }
    }
}

fn words(options: &Value) -> String {
    options.as_array().map_or_else(|| word(options), |options| options.iter().map(word).collect::<Vec<_>>().join(", "))
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn count(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

fn properties(number: u64) -> String {
    if number == 1 { "1 property".to_owned() } else { format!("{number} properties") }
}
