use serde_json::json;

use super::{Query, search};
use crate::tree::{Tool, Tree};

fn tree() -> Tree {
    let tool = |path: &str, description: &str, property: &str| Tool {
        path: path.to_owned(),
        description: description.to_owned(),
        input: json!({"type": "object", "properties": {property: {"description": "The Key of it"}}}),
        output: None,
        pinned: false,
    };
    Tree::new([
        tool("issues.list", "Lists all tickets", "state"),
        tool("issues.get", "Reads one", "number"),
        tool("boxes.open-box", "Opens one", "issueKey"),
        tool("boxes", "All of them", "none"),
    ])
    .unwrap()
}

#[track_caller]
fn check(query: &str, expected: &[&str]) {
    let page = search(&tree(), &Query::new(query));
    assert_eq!(page.items.iter().map(|item| item.path.as_str()).collect::<Vec<_>>(), expected, "{query}");
}

#[test]
fn words() {
    check("issues", &["tools.issues.get", "tools.issues.list", "tools.boxes[\"open-box\"]"]);
    check("list", &["tools.issues.list"]);
    check("ListTickets *", &["tools.issues.list"]);
    check("ticketes", &["tools.issues.list"]);
    check("one", &["tools.boxes[\"open-box\"]", "tools.issues.get", "tools.boxes"]);
    check("nowhere", &[]);
}

#[test]
fn a_name_gives_that_tool() {
    check("boxes", &["tools.boxes"]);
    check("tools.issues.get", &["tools.issues.get"]);
    check("tools.boxes[\"open-box\"]", &["tools.boxes[\"open-box\"]"]);
}

#[test]
fn pages_and_namespaces() {
    let mut query = Query { limit: 3, ..Query::new("") };
    let first = search(&tree(), &query);
    assert_eq!((first.items.len(), first.remaining, first.next), (3, 1, Some(3)));
    query.offset = 3;
    let second = search(&tree(), &query);
    assert_eq!((second.items.len(), second.remaining, second.next), (1, 0, None));
    query.offset = usize::MAX;
    assert_eq!(search(&tree(), &query).items, []);
    let within = Query { namespace: Some("issues".to_owned()), ..Query::new("") };
    assert_eq!(search(&tree(), &within).items.len(), 2);
}
