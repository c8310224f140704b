//! The catalogue: what the model is told of the tools that programs may call, within a bound.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::signature::signature;
use crate::tree::{Tree, compare_paths, namespace};

/// Tokens that the catalogue may take, counted as a quarter of its characters.
pub const BUDGET_TOKENS: usize = 2000;
/// Characters of a description that a listing shows.
const MAX_LISTED_CHARS: usize = 120;

/// One tool in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The path.
    pub path: String,
    /// What it does.
    pub description: String,
    /// How it is called.
    pub signature: String,
    /// Whether it is always listed.
    pub pinned: bool,
}

/// The text of a catalogue, and how much of it was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The text.
    pub text: String,
    /// Tools that the text lists.
    pub shown: usize,
    /// Tools that there are.
    pub total: usize,
}

/// What is different between two catalogues, as paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Tools that came.
    pub added: Vec<String>,
    /// Tools that went.
    pub removed: Vec<String>,
    /// Tools whose description or signature is another.
    pub changed: Vec<String>,
}

impl Change {
    /// Tells whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// Lists the tools of a tree as entries, in order of their paths.
pub fn entries(tree: &Tree) -> Vec<Entry> {
    tree.tools()
        .iter()
        .map(|tool| Entry {
            path: tool.path.clone(),
            description: tool.description.clone(),
            signature: signature(tool),
            pinned: tool.pinned,
        })
        .collect()
}

/// Compares two lists of entries.
pub fn change(before: &[Entry], after: &[Entry]) -> Change {
    let old: BTreeMap<&str, &Entry> = before.iter().map(|entry| (entry.path.as_str(), entry)).collect();
    let new: BTreeMap<&str, &Entry> = after.iter().map(|entry| (entry.path.as_str(), entry)).collect();
    let mut change = Change::default();
    for entry in after {
        match old.get(entry.path.as_str()) {
            None => change.added.push(entry.path.clone()),
            Some(known) if *known != entry => change.changed.push(entry.path.clone()),
            Some(_) => {}
        }
    }
    let gone = before.iter().filter(|entry| !new.contains_key(entry.path.as_str()));
    change.removed.extend(gone.map(|entry| entry.path.clone()));
    change
}

/// The tools of one namespace while the budget is spent.
struct Group {
    name: String,
    description: Option<String>,
    tools: Vec<Listing>,
    is_open: bool,
}

struct Listing {
    path: String,
    text: String,
    cost: usize,
    is_shown: bool,
}

impl Group {
    fn head(&self) -> String {
        let total = self.tools.len();
        let shown = self.tools.iter().filter(|tool| tool.is_shown).count();
        let name = if self.name.is_empty() { "(no namespace)" } else { &self.name };
        let noun = if total == 1 { "tool" } else { "tools" };
        let mut line = if shown == total {
            format!("- {name} ({total} {noun})")
        } else if shown == 0 {
            format!("- {name} ({total} {noun}, none shown)")
        } else {
            format!("- {name} ({total} {noun}, {shown} shown)")
        };
        if let Some(description) = self.description.as_deref().and_then(first_line) {
            line.push_str(" // ");
            line.push_str(&description);
        }
        line
    }
}

/// Writes the catalogue of a tree within `budget_tokens`.
///
/// Every namespace and every pinned tool is there whatever the budget. Then each namespace in turn lists its
/// cheapest tool that is left, until its next one does not fit.
pub fn summary(tree: &Tree, budget_tokens: usize) -> Summary {
    let mut groups = groups(tree);
    let mut spent: usize = groups.iter().map(|group| cost(&group.head())).sum();
    for listing in groups.iter_mut().flat_map(|group| &mut group.tools).filter(|listing| listing.is_shown) {
        spent = spent.saturating_add(listing.cost);
    }
    while groups.iter().any(|group| group.is_open) {
        for group in groups.iter_mut().filter(|group| group.is_open) {
            let next =
                group.tools.iter_mut().filter(|listing| !listing.is_shown).min_by(|left, right| {
                    left.cost.cmp(&right.cost).then_with(|| compare_paths(&left.path, &right.path))
                });
            match next {
                Some(listing) if spent.saturating_add(listing.cost) <= budget_tokens => {
                    spent = spent.saturating_add(listing.cost);
                    listing.is_shown = true;
                }
                Some(_) | None => group.is_open = false,
            }
        }
    }
    let total = tree.tools().len();
    let shown = groups.iter().flat_map(|group| &group.tools).filter(|listing| listing.is_shown).count();
    let mut text = if total == 0 {
        "There are no tools that programs may call.".to_owned()
    } else if shown == total {
        "Programs may call these tools. The list is complete.".to_owned()
    } else {
        format!("Programs may call these tools. {shown} of {total} are shown; search({{ query }}) finds the others.")
    };
    for group in &groups {
        // Writing to a String cannot fail.
        let _infallible = write!(text, "\n{}", group.head());
        for listing in group.tools.iter().filter(|listing| listing.is_shown) {
            let _infallible = write!(text, "\n{}", listing.text);
        }
    }
    Summary { text, shown, total }
}

fn groups(tree: &Tree) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for entry in entries(tree) {
        let name = namespace(&entry.path);
        let mut text = format!("  - {}", entry.signature);
        if let Some(line) = first_line(&entry.description) {
            text.push_str(" // ");
            text.push_str(&line);
        }
        let listing = Listing { cost: cost(&text), text, is_shown: entry.pinned, path: entry.path.clone() };
        if let Some(group) = groups.iter_mut().find(|group| group.name == name) {
            group.tools.push(listing);
        } else {
            groups.push(Group {
                name: name.to_owned(),
                description: tree.namespace_description(name).map(str::to_owned),
                tools: vec![listing],
                is_open: true,
            });
        }
    }
    groups.sort_by(|left, right| compare_paths(&left.name, &right.name));
    groups
}

/// Counts tokens: a quarter of the characters, rounded.
fn cost(text: &str) -> usize {
    text.chars().count().saturating_add(2) / 4
}

fn first_line(text: &str) -> Option<String> {
    let line = text.trim().lines().next()?.trim_end();
    (!line.is_empty()).then(|| line.chars().take(MAX_LISTED_CHARS).collect())
}

#[cfg(test)]
mod tests;
