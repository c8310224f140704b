//! The search that programs have for tools that the catalogue does not show.

use serde_json::Value;

use crate::signature::signature;
use crate::tree::{Tool, Tree, compare_paths, expression};

/// Tools of one answer when the program does not say.
pub const DEFAULT_LIMIT: usize = 10;

/// What a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The words; empty lists all by path.
    pub query: String,
    /// The namespace to stay in, with what is below it.
    pub namespace: Option<String>,
    /// How many tools to answer.
    pub limit: usize,
    /// How many to leave out before.
    pub offset: usize,
}

impl Query {
    /// Makes a query of words, with the default page.
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), namespace: None, limit: DEFAULT_LIMIT, offset: 0 }
    }
}

/// One tool of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The call expression: `tools.files.read`.
    pub path: String,
    /// What it does.
    pub description: String,
    /// How it is called.
    pub signature: String,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The tools.
    pub items: Vec<Item>,
    /// How many come after them.
    pub remaining: usize,
    /// The offset of the next page.
    pub next: Option<usize>,
}

/// Finds tools. A query that names one tool gives that one alone.
pub fn search(tree: &Tree, query: &Query) -> Page {
    let within = |tool: &&Tool| {
        query.namespace.as_deref().is_none_or(|wanted| {
            tool.path.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let named = query.query.trim();
    if let Some(tool) = tree.tools().iter().filter(within).find(|tool| is_named(tool, named)) {
        return page(vec![tool], query);
    }
    let terms = terms(named);
    if terms.is_empty() {
        return page(tree.tools().iter().filter(within).collect(), query);
    }
    let mut found: Vec<(usize, &Tool)> = tree
        .tools()
        .iter()
        .filter(within)
        .map(|tool| (score(tool, &terms), tool))
        .filter(|(score, _)| *score > 0)
        .collect();
    found.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| compare_paths(&left.1.path, &right.1.path)));
    page(found.into_iter().map(|(_, tool)| tool).collect(), query)
}

fn page(tools: Vec<&Tool>, query: &Query) -> Page {
    let end = query.offset.saturating_add(query.limit).min(tools.len());
    let remaining = tools.len() - end;
    let items = tools.into_iter().take(end).skip(query.offset).map(|tool| Item {
        path: expression(&tool.path),
        description: tool.description.clone(),
        signature: signature(tool),
    });
    Page { items: items.collect(), remaining, next: (remaining > 0).then_some(end) }
}

fn is_named(tool: &Tool, query: &str) -> bool {
    query == tool.path || query.strip_prefix("tools.") == Some(&tool.path) || query == expression(&tool.path)
}

/// Splits a query into words, each with its singular forms.
fn terms(query: &str) -> Vec<Vec<String>> {
    let mut split = String::with_capacity(query.len());
    let mut was_lower = false;
    for letter in query.chars() {
        if was_lower && letter.is_uppercase() {
            split.push(' ');
        }
        was_lower = letter.is_lowercase() || letter.is_numeric();
        split.extend(letter.to_lowercase());
    }
    split
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|term| !term.is_empty())
        .map(|term| {
            let mut forms = vec![term.to_owned()];
            let length = term.chars().count();
            forms.extend(term.strip_suffix('s').filter(|_| length > 2).map(str::to_owned));
            forms.extend(term.strip_suffix("es").filter(|_| length > 3).map(str::to_owned));
            forms
        })
        .collect()
}

fn score(tool: &Tool, terms: &[Vec<String>]) -> usize {
    let path = tool.path.to_lowercase();
    let last = path.rsplit('.').next().unwrap_or_default();
    let description = tool.description.to_lowercase();
    let text = format!("{path} {description} {}", input_words(&tool.input));
    let mut total = 0;
    for forms in terms {
        let any = |test: &dyn Fn(&str) -> bool, points: usize| {
            if forms.iter().any(|form| test(form)) { points } else { 0 }
        };
        total += any(&|form| path == form || last == form, 20);
        total += any(&|form| path.contains(form), 8);
        total += any(&|form| description.contains(form), 4);
        total += any(&|form| text.contains(form), 2);
    }
    total
}

/// Joins the names and descriptions of the input's properties.
fn input_words(input: &Value) -> String {
    let mut words = String::new();
    if let Some(Value::Object(properties)) = input.get("properties") {
        for (name, schema) in properties {
            words.push_str(&name.to_lowercase());
            words.push(' ');
            if let Some(description) = schema.get("description").and_then(Value::as_str) {
                words.push_str(&description.to_lowercase());
                words.push(' ');
            }
        }
    }
    words
}

#[cfg(test)]
mod tests;
