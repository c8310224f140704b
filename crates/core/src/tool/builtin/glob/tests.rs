use std::fs;
use std::os::unix::fs::symlink;

use abide_schema::permission::Effect;
use serde_json::{Value, json};

use super::*;
use crate::tool::builtin::bench::{Outcome, Project, allow, rules};

fn tree(rules: Vec<abide_schema::permission::Rule>) -> Project {
    let project = Project::new(rules);
    for name in
        ["src/a.rs", "src/deep/b.rs", "src/deep/c.ts", "d.rs", ".hidden/e.rs", "target/f.rs", "a b.txt", "-n.txt"]
    {
        project.write(name, "");
    }
    project.write(".gitignore", "target/\n");
    project.write(".git/x.rs", "");
    project
}

async fn run(project: &Project, input: Value) -> Result<Outcome, String> {
    project.call(&Glob::new(project.files.clone()), "call", input).await
}

async fn found(project: &Project, input: Value) -> Vec<String> {
    let outcome = run(project, input).await.unwrap();
    let entries = outcome.structured["entries"].as_array().unwrap().clone();
    entries.iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn patterns() {
    let project = tree(allow());
    for (pattern, expect) in [
        ("*.rs", vec!["d.rs", "src/a.rs", "src/deep/b.rs"]),
        ("./*.rs", vec!["d.rs", "src/a.rs", "src/deep/b.rs"]),
        ("src/*.rs", vec!["src/a.rs"]),
        ("src/**/*.{rs,ts}", vec!["src/a.rs", "src/deep/b.rs", "src/deep/c.ts"]),
        ("**/[bc].?s", vec!["src/deep/b.rs", "src/deep/c.ts"]),
        ("target/**", vec![]),
        ("**/f.rs", vec![]),
        ("*.txt", vec!["-n.txt", "a b.txt"]),
    ] {
        assert_eq!(found(&project, json!({ "pattern": pattern })).await, expect, "{pattern}");
    }
    let absolute = format!("{}/src/*.rs", project.files.access.directory().display());
    assert_eq!(found(&project, json!({ "pattern": absolute })).await, ["src/a.rs"]);
    let hidden = found(&project, json!({ "pattern": "*.rs", "hidden": true })).await;
    assert_eq!(hidden, [".hidden/e.rs", "d.rs", "src/a.rs", "src/deep/b.rs"]);
    assert_eq!(found(&project, json!({ "pattern": "*.rs", "path": "src/deep" })).await, ["src/deep/b.rs"]);
    assert_eq!(found(&project, json!({ "pattern": "d.*", "path": "undefined" })).await, ["d.rs"]);
}

#[tokio::test]
async fn what_the_model_sees() {
    let project = tree(allow());
    let outcome = run(&project, json!({ "pattern": "*.rs", "limit": 2 })).await.unwrap();
    let expect = "ROOT/project/d.rs\nROOT/project/src/a.rs\n\n(only the first 2 results are listed; narrow the path or pattern for others)";
    assert_eq!(outcome.text, expect);
    assert_eq!(outcome.structured["truncated"], true);
    assert_eq!(outcome.metadata["count"], 2);
    let all = run(&project, json!({ "pattern": "*.rs", "limit": 3 })).await.unwrap();
    assert_eq!(all.structured["truncated"], false);
    assert_eq!(run(&project, json!({ "pattern": "none" })).await.unwrap().text, "No files found");
}

#[tokio::test]
async fn places() {
    let project = tree(allow());
    symlink("src", project.path("link")).unwrap();
    assert_eq!(
        run(&project, json!({ "pattern": "*", "path": "none" })).await.unwrap_err(),
        "No such search path: none"
    );
    assert_eq!(
        run(&project, json!({ "pattern": "*", "path": "d.rs" })).await.unwrap_err(),
        "Search path d.rs is not a directory"
    );
    assert_eq!(found(&project, json!({ "pattern": "a.rs", "path": "link" })).await, ["src/a.rs"]);
    let bad = run(&project, json!({ "pattern": "a{b" })).await.unwrap_err();
    assert!(bad.starts_with("Invalid glob pattern \"a{b\": "), "{bad}");

    let project = tree(rules(&[("glob", "*", Effect::Allow)]));
    fs::write(project.root.path().join("outside/x.rs"), "").unwrap();
    let tool = Glob::new(project.files.clone());
    let (outcome, asked) = project.call_asked(&tool, json!({ "pattern": "*", "path": "../outside" }), |_| {}).await;
    assert_eq!(outcome.unwrap().text, "ROOT/outside/x.rs");
    assert_eq!(asked, ["external_directory: ROOT/outside/*"]);
}
