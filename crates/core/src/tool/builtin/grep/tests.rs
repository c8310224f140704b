use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use abide_schema::permission::Effect;
use serde_json::{Value, json};

use super::*;
use crate::tool::builtin::bench::{Outcome, Project, allow, rules};

async fn run(project: &Project, input: Value) -> Result<Outcome, String> {
    project.call(&Grep::new(project.files.clone()), "call", input).await
}

async fn seen(project: &Project, input: Value) -> String {
    run(project, input).await.map_or_else(|error| format!("error: {error}"), |outcome| outcome.text)
}

#[tokio::test]
async fn lines_are_found() {
    let project = Project::new(allow());
    project.write("a.txt", "x one\r\ntwo\r\nx three x\r\n");
    project.write("sub/b.rs", "let x = 1;\n");
    project.write(".github/w.yml", "x: y\n");
    project.write("ignored", "x\n");
    project.write("binary", "x\n\0");
    project.write(".gitignore", "ignored\n");
    project.write(".git/config", "x\n");
    let text = seen(&project, json!({ "pattern": "x" })).await;
    let expect = "Found 4 matches\nROOT/project/.github/w.yml:\n  Line 1: x: y\n\nROOT/project/a.txt:\n  Line 1: x one\n  Line 3: x three x\n\nROOT/project/sub/b.rs:\n  Line 1: let x = 1;";
    assert_eq!(text, expect);
    let outcome = run(&project, json!({ "pattern": "x", "include": "*.txt" })).await.unwrap();
    let entry = json!({ "path": "a.txt", "type": "file" });
    let part = |start: usize| json!({ "text": "x", "start": start, "end": start + 1 });
    let expect = json!([
        { "entry": entry, "line": 1, "offset": 0, "text": "x one", "submatches": [part(0)] },
        { "entry": entry, "line": 3, "offset": 12, "text": "x three x", "submatches": [part(0), part(8)] },
    ]);
    assert_eq!(outcome.structured, json!({ "matches": expect, "truncated": false }));
    assert_eq!(outcome.metadata["matches"], 2);

    assert_eq!(
        seen(&project, json!({ "pattern": "X ONE", "caseSensitive": false })).await,
        "Found 1 match\nROOT/project/a.txt:\n  Line 1: x one"
    );
    assert_eq!(seen(&project, json!({ "pattern": "x.=", "literal": true })).await, "No matches found");
    assert_eq!(
        seen(&project, json!({ "pattern": "^two$" })).await,
        "Found 1 match\nROOT/project/a.txt:\n  Line 2: two"
    );
    assert_eq!(
        seen(&project, json!({ "pattern": "x", "path": "ignored" })).await,
        "Found 1 match\nROOT/project/ignored:\n  Line 1: x"
    );
    assert_eq!(seen(&project, json!({ "pattern": "x", "path": "binary" })).await, "No matches found");
    let cut = seen(&project, json!({ "pattern": "x", "limit": 2 })).await;
    assert_eq!(
        cut,
        "Found 2 matches\nROOT/project/.github/w.yml:\n  Line 1: x: y\n\nROOT/project/a.txt:\n  Line 1: x one\n\n(only the first 2 results are listed; narrow the path or pattern for others)"
    );
    assert_eq!(run(&project, json!({ "pattern": "x", "limit": 4 })).await.unwrap().structured["truncated"], false);
}

#[tokio::test]
async fn what_cannot_be_searched_is_refused() {
    let project = Project::new(allow());
    project.write("f", "");
    for (input, expect) in [
        (json!({ "pattern": "" }), "error: pattern is empty"),
        (json!({ "pattern": "x", "path": "none" }), "error: No such search path: none"),
    ] {
        assert_eq!(seen(&project, input).await, expect);
    }
    let bad = seen(&project, json!({ "pattern": "(" })).await;
    assert!(bad.starts_with("error: Invalid regular expression: "), "{bad}");
    let hinted = seen(&project, json!({ "pattern": "(?=a)\\1" })).await;
    assert!(
        hinted.ends_with("(lookaround and backreferences are not supported; search for something simpler)"),
        "{hinted}"
    );
}

#[tokio::test]
async fn what_reading_may_not_show_is_left_out() {
    let project = Project::new(rules(&[
        ("*", "*", Effect::Allow),
        ("read", "*.env", Effect::Deny),
        ("read", "*.key", Effect::Ask),
    ]));
    project.write("secrets.env", "TOKEN=abc");
    project.write("a.txt", "TOKEN=x");
    let expect = "Found 1 match\nROOT/project/a.txt:\n  Line 1: TOKEN=x\n\n(1 file with matches left out: reading it is not allowed without asking)";
    assert_eq!(seen(&project, json!({ "pattern": "TOKEN" })).await, expect);
    project.write("b.key", "TOKEN=x");
    let expect = "No matches found\n\n(2 files with matches left out: reading them is not allowed without asking)";
    assert_eq!(seen(&project, json!({ "pattern": "TOKEN", "include": "*.{env,key}" })).await, expect);
}

#[tokio::test]
async fn long_lines_are_cut() {
    let project = Project::new(allow());
    project.write("min.js", "x".repeat(5000));
    let outcome = run(&project, json!({ "pattern": "x" })).await.unwrap();
    let line = &outcome.structured["matches"][0];
    assert_eq!(line["text"], format!("{}...", "x".repeat(2000)));
    assert_eq!(line["submatches"].as_array().unwrap().len(), 100);
}

#[tokio::test]
async fn odd_names_come_out_whole_and_closed_directories_lose_nothing() {
    let project = Project::new(allow());
    for name in ["-n.txt", "a b.txt", "new\nline.txt", "closed/f"] {
        project.write(name, "x");
    }
    fs::set_permissions(project.path("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let outcome = run(&project, json!({ "pattern": "x" })).await.unwrap();
    fs::set_permissions(project.path("closed"), fs::Permissions::from_mode(0o755)).unwrap();
    let matches = outcome.structured["matches"].as_array().unwrap().clone();
    let mut paths: Vec<&str> = matches.iter().map(|found| found["entry"]["path"].as_str().unwrap()).collect();
    // To root nothing is closed.
    paths.retain(|path| *path != "closed/f");
    assert_eq!(paths, ["-n.txt", "a b.txt", "new\nline.txt"]);
    let note = "\n\n(1 file or directory could not be read)";
    assert_eq!(outcome.text.ends_with(note), !is_root, "{}", outcome.text);
}

/// A rule for everything shows no file that usually holds secrets; a rule that names it does.
#[tokio::test]
async fn secrets_are_left_out() {
    let tree = |project: &Project| {
        project.write("a.txt", "needle\n");
        project.write("server.key", "needle\n");
        project.write(".env", "needle\n");
    };
    let project = Project::new(rules(&[("*", "*", Effect::Allow)]));
    tree(&project);
    let tool = Grep::new(project.files.clone());
    let outcome = project.call(&tool, "call", json!({ "pattern": "needle" })).await.unwrap();
    assert_eq!(
        outcome.text,
        "Found 1 match\nROOT/project/a.txt:\n  Line 1: needle\n\n(2 files with matches left out: reading them is not allowed without asking)"
    );
    let project = Project::new(rules(&[
        ("*", "*", Effect::Allow),
        ("read", "*.key", Effect::Allow),
        ("read", ".env", Effect::Allow),
    ]));
    tree(&project);
    let tool = Grep::new(project.files.clone());
    let outcome = project.call(&tool, "call", json!({ "pattern": "needle" })).await.unwrap();
    assert!(outcome.text.starts_with("Found 3 matches\n"), "{}", outcome.text);
}
