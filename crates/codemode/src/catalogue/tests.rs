use serde_json::json;

use super::{BUDGET_TOKENS, Change, change, entries, summary};
use crate::tree::{Tool, Tree};

fn tool(path: &str, description: &str, pinned: bool) -> Tool {
    Tool {
        path: path.to_owned(),
        description: description.to_owned(),
        input: json!({"type": "object", "additionalProperties": false}),
        output: None,
        pinned,
    }
}

fn tree() -> Tree {
    Tree::new([
        tool("git.log", "Shows commits.\nSecond line.", false),
        tool("git.blame_with_a_long_name", "", false),
        tool("now", "", false),
    ])
    .unwrap()
    .with_namespace("git", "History.")
}

#[test]
fn a_whole_catalogue() {
    let summary = summary(&tree(), BUDGET_TOKENS);
    assert_eq!(
        summary.text,
        "Programs may call these tools. The list is complete.\n\
         - (no namespace) (1 tool)\n  \
           - tools.now(input: {}): Promise<string | null>\n\
         - git (2 tools) // History.\n  \
           - tools.git.blame_with_a_long_name(input: {}): Promise<string | null>\n  \
           - tools.git.log(input: {}): Promise<string | null> // Shows commits."
    );
    assert_eq!((summary.shown, summary.total), (3, 3));
}

#[test]
fn a_small_budget_shows_namespaces_and_the_cheapest() {
    let check = |budget: usize, shown: usize, head: &str| {
        let summary = summary(&tree(), budget);
        assert_eq!((summary.shown, summary.total), (shown, 3), "{}", summary.text);
        assert!(summary.text.lines().any(|line| line == head), "{}", summary.text);
    };
    check(0, 0, "- git (2 tools, none shown) // History.");
    check(32, 1, "- git (2 tools, none shown) // History.");
    check(49, 2, "- git (2 tools, 1 shown) // History.");
}

#[test]
fn pinned_tools_are_there_whatever_they_cost() {
    let tree = Tree::new([tool("a.x", "", true), tool("a.y", "", false)]).unwrap();
    let summary = summary(&tree, 0);
    assert_eq!(summary.shown, 1);
    assert!(summary.text.contains("  - tools.a.x("), "{}", summary.text);
    assert!(summary.text.starts_with("Programs may call these tools. 1 of 2 are shown;"), "{}", summary.text);
}

#[test]
fn no_tools() {
    assert_eq!(summary(&Tree::default(), BUDGET_TOKENS).text, "There are no tools that programs may call.");
}

#[test]
fn changes() {
    let before = entries(&tree());
    let after = entries(&Tree::new([tool("git.log", "Other.", false), tool("later", "", false)]).unwrap());
    assert_eq!(
        change(&before, &after),
        Change {
            added: vec!["later".to_owned()],
            removed: vec!["git.blame_with_a_long_name".to_owned(), "now".to_owned()],
            changed: vec!["git.log".to_owned()],
        }
    );
    assert!(change(&before, &before).is_empty());
}
