use serde_json::json;

use super::{Found, Tool, Tree, TreeError, expression};

fn tool(path: &str) -> Tool {
    Tool { path: path.to_owned(), description: String::new(), input: json!({}), output: None, pinned: false }
}

#[test]
fn names_and_namespaces() {
    let tree = Tree::new(["b.x", "a", "a.c.d", "a.constructor"].map(tool)).unwrap();
    assert_eq!(tree.children(""), ["a", "b"]);
    assert_eq!(tree.children("a"), ["c", "constructor"]);
    assert_eq!(tree.children("b.x"), Vec::<&str>::new());
    assert_eq!(tree.find("a.c"), Found::Namespace);
    assert_eq!(tree.find("a.c.e"), Found::Nothing);
    assert!(matches!(tree.find("a"), Found::Tool(found) if found.path == "a"));
}

#[test]
fn refused_paths() {
    let check = |paths: &[&str], expected: TreeError| {
        assert_eq!(Tree::new(paths.iter().map(|path| tool(path))), Err(expected));
    };
    check(&["a", "a"], TreeError::Duplicate { path: "a".to_owned() });
    check(&["a..b"], TreeError::EmptySegment { path: "a..b".to_owned() });
    check(&[""], TreeError::EmptySegment { path: String::new() });
    let deep = vec!["a"; 17].join(".");
    check(&[&deep], TreeError::TooDeep { path: deep.clone(), count: 17 });
}

#[test]
fn expressions() {
    for (path, expected) in [
        ("read", "tools.read"),
        ("ctx.resolve-id", "tools.ctx[\"resolve-id\"]"),
        ("a.__proto__", "tools.a.__proto__"),
        ("1.ü", "tools[\"1\"][\"ü\"]"),
    ] {
        assert_eq!(expression(path), expected);
    }
}
