use std::fs;
use std::os::unix::fs::symlink;

use abide_schema::permission::Effect;
use serde_json::json;

use super::*;
use crate::tool::builtin::bench::{Outcome, Project, allow, rules};

fn write(project: &Project) -> Write {
    Write::new(project.files.clone())
}

async fn run(project: &Project, path: &str, content: &str) -> Result<Outcome, String> {
    // Each call is another one.
    project.call(&write(project), &format!("{path} {content}"), json!({ "path": path, "content": content })).await
}

#[tokio::test]
async fn a_file_is_made_and_replaced() {
    let project = Project::new(allow());
    let made = run(&project, "a/b/new.txt", "one\n").await.unwrap();
    assert_eq!(made.text, "Created a/b/new.txt");
    let target = project.path("a/b/new.txt");
    assert_eq!(
        made.structured,
        json!({ "operation": "write", "target": target, "resource": "a/b/new.txt", "existed": false })
    );
    assert_eq!(made.metadata["files"][0]["patch"], "--- /dev/null\n+++ b/a/b/new.txt\n@@ -0,0 +1 @@\n+one\n");

    let replaced = run(&project, "./a/../a/b/new.txt", "two").await.unwrap();
    assert_eq!(replaced.text, "Wrote a/b/new.txt");
    assert_eq!(replaced.structured["existed"], true);
    assert_eq!(replaced.metadata["files"][0]["status"], "modified");
    assert_eq!(project.read("a/b/new.txt"), b"two");
    assert_eq!(project.names(), ["a/b/new.txt"]);
    assert_eq!(run(&project, "a/b/new.txt", "two").await.unwrap().text, "Wrote a/b/new.txt");
}

#[tokio::test]
async fn marks_stay_and_line_ends_are_told() {
    for (before, content, after, note) in [
        (b"\xEF\xBB\xBFa".as_slice(), "b", b"\xEF\xBB\xBFb".as_slice(), ""),
        (b"a", "\u{FEFF}\u{FEFF}b", b"\xEF\xBB\xBFb", ""),
        (b"a\r\nb\r\n", "a\nc\n", b"a\nc\n", "\nNote: its line ends were CRLF and are LF now."),
        (b"\xFF\xFEa\0", "b", b"\xFF\xFEb\0", ""),
        (b"\0\xFF", "text", b"text", ""),
        (b"caf\xE9", "caf\u{e9}", "caf\u{e9}".as_bytes(), ""),
    ] {
        let project = Project::new(allow());
        project.write("f", before);
        let outcome = run(&project, "f", content).await.unwrap();
        assert_eq!(outcome.text, format!("Wrote f{note}"), "{content:?}");
        assert_eq!(project.read("f"), after, "{content:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_written_is_refused() {
    let project = Project::new(allow());
    project.write("file", "");
    fs::create_dir(project.path("dir")).unwrap();
    for (path, expect) in
        [("dir", "dir is a directory"), ("file/x", "a parent of file/x is not a directory"), ("", "\"\" is not a path")]
    {
        assert_eq!(run(&project, path, "x").await.unwrap_err(), expect, "{path}");
    }
}

#[tokio::test]
async fn outside_is_asked_for_and_a_denial_leaves_nothing() {
    let denied = rules(&[("*", "*", Effect::Allow), ("external_directory", "*", Effect::Deny)]);
    let project = Project::new(denied);
    symlink("../outside", project.path("outbox")).unwrap();
    for path in ["outbox/f", "../outside/f", "outbox/n/f"] {
        let refused = run(&project, path, "x").await.unwrap_err();
        assert!(refused.starts_with("Permission denied: external_directory"), "{refused}");
    }
    assert_eq!(fs::read_dir(project.root.path().join("outside")).unwrap().count(), 0);

    let project = Project::new(Vec::new());
    let input = json!({ "path": "../outside/f", "content": "x" });
    let (outcome, asked) = project.call_asked(&write(&project), input, |_| {}).await;
    assert_eq!(outcome.unwrap().text, "Created ROOT/outside/f");
    assert_eq!(asked, ["external_directory: ROOT/outside/*", "edit: ROOT/outside/f"]);
}

#[tokio::test]
async fn what_appears_during_approval_is_kept() {
    let project = Project::new(Vec::new());
    let input = json!({ "path": "new", "content": "mine" });
    let (outcome, _) = project.call_asked(&write(&project), input, |project| project.write("new", "theirs")).await;
    assert_eq!(outcome.unwrap_err(), "new changed while waiting for approval. Read it again.");
    assert_eq!(project.read("new"), b"theirs");

    let input = json!({ "path": "dir/new", "content": "mine" });
    let (outcome, _) = project
        .call_asked(&write(&project), input, |project| {
            symlink("../outside", project.path("dir")).unwrap();
        })
        .await;
    assert_eq!(outcome.unwrap_err(), "The target changed while waiting for approval");
    assert_eq!(fs::read_dir(project.root.path().join("outside")).unwrap().count(), 0);
}

#[tokio::test]
async fn two_writes_of_a_new_file_at_once() {
    let project = Project::new(allow());
    let (a, b) = tokio::join!(run(&project, "f", "a"), run(&project, "f", "b"));
    let existed = [a.unwrap().structured["existed"].clone(), b.unwrap().structured["existed"].clone()];
    assert!(existed.contains(&json!(false)) && existed.contains(&json!(true)), "{existed:?}");
}
