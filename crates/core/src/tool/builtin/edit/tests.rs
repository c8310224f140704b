use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use abide_schema::permission::Effect;
use serde_json::{Value, json};

use super::*;
use crate::store::{JournalStore as _, MutationState};
use crate::tool::builtin::bench::{Outcome, Project, allow, rules};

fn edit(project: &Project) -> Edit {
    Edit::new(project.files.clone())
}

async fn run(project: &Project, path: &str, old: &str, new: &str) -> Result<Outcome, String> {
    project.call(&edit(project), "call", json!({ "path": path, "oldString": old, "newString": new })).await
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(hex.get(at..at + 2).unwrap(), 16).unwrap()).collect()
}

/// The cases with one file, one call and one outcome; each may have several outcomes that are fine.
#[tokio::test]
async fn cases() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("cases.json")).unwrap();
    assert_eq!(cases.len(), 16);
    for case in cases {
        let project = Project::new(allow());
        let (id, path) = (case["id"].as_str().unwrap(), case["path"].as_str().unwrap());
        let before = bytes(case["before"].as_str().unwrap());
        project.write(path, &before);
        let mut input = case["call"].clone();
        input["path"] = path.into();
        let outcome = project.call(&edit(&project), "call", input).await;
        let after = project.read(path);
        let fits = case["expect"].as_array().unwrap().iter().any(|expect| match &outcome {
            Ok(_) => expect["after"].as_str().is_some_and(|expect| bytes(expect) == after),
            Err(message) => expect["fails"].as_array().is_some_and(|says| {
                let message = message.to_lowercase();
                after == before && says.iter().all(|text| message.contains(&text.as_str().unwrap().to_lowercase()))
            }),
        });
        assert!(fits, "{id} {}: {outcome:?}, {after:?}", case["title"]);
        assert_eq!(project.names(), [path], "{id}");
    }
}

#[tokio::test]
async fn a_result_says_what_changed() {
    let project = Project::new(allow());
    project.write("src/a.rs", "one\ntwo\nthree\n");
    let outcome = run(&project, "src/a.rs", "two", "2\n2.5").await.unwrap();
    let patch = "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2.5\n three\n";
    let file = json!({ "file": "src/a.rs", "patch": patch, "additions": 2, "deletions": 1, "status": "modified" });
    assert_eq!(outcome.structured, json!({ "files": [file], "replacements": 1 }));
    assert_eq!(outcome.text, "Edited src/a.rs (1 replacement)");
    assert_eq!(outcome.metadata, json!({ "files": [file] }));

    // The journal holds what recovery would publish.
    let batches = project.store.all_mutations().await.unwrap();
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].state, MutationState::Applied);
    let content = json!([{ "type": "text", "text": outcome.text }]);
    assert_eq!(batches[0].output, json!({ "structured": outcome.structured, "content": content }));
}

#[tokio::test]
async fn what_cannot_be_edited_is_refused_without_a_question() {
    let project = Project::new(rules(&[("read", "*", Effect::Allow)]));
    project.write("file", "a b a");
    project.write("nul", "a\0b");
    project.write("u16", b"\xFF\xFEa");
    project.write("frozen/file", "old");
    fs::create_dir(project.path("dir")).unwrap();
    fs::set_permissions(project.path("frozen/file"), fs::Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(project.path("frozen"), fs::Permissions::from_mode(0o555)).unwrap();
    for (path, old, new, expect) in [
        ("none", "a", "b", "No such file: none"),
        ("dir", "a", "b", "dir is a directory"),
        ("file/x", "a", "b", "a parent of file/x is not a directory"),
        (
            "file",
            "a",
            "b",
            "oldString occurs 2 times in file (lines 1, 1). Give more surrounding lines, or set replaceAll to change all of them.",
        ),
        (
            "file",
            "x",
            "b",
            "oldString was not found in file. Copy the text exactly as it is in the file, with its whitespace.",
        ),
        (
            "file",
            "a\n",
            "a\r\n",
            "No change: oldString and newString are identical but for their line ends, and the line ends of file stay as they are",
        ),
        ("nul", "a", "b", "nul cannot be edited as text: it is a binary file"),
        ("u16", "a", "b", "u16 cannot be edited as text: its encoding is damaged UTF-16"),
        ("frozen/file", "old", "new", "Could not change frozen/file: frozen/file is read-only (mode 0444)"),
        // These are refused before the path is looked at.
        ("/none", "", "x", "oldString is empty; use write to create or replace a file"),
        ("/none", "x", "x", "No change: oldString and newString are identical"),
    ] {
        assert_eq!(run(&project, path, old, new).await.unwrap_err(), expect, "{path}");
    }
    assert_eq!(project.read("frozen/file"), b"old");
    assert_eq!(project.bench.events.all().len(), 0);
    assert_eq!(project.store.all_mutations().await.unwrap().len(), 0);
    fs::set_permissions(project.path("frozen"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn a_denied_edit_does_not_tell_what_is_there() {
    let project = Project::new(rules(&[("edit", "*", Effect::Deny)]));
    project.write("file", "a");
    for old in ["a", "x"] {
        assert_eq!(run(&project, "file", old, "b").await.unwrap_err(), "Permission denied: edit", "{old}");
    }
    assert_eq!(project.read("file"), b"a");
}

#[tokio::test]
async fn questions_come_in_order_and_name_the_real_place() {
    let project = Project::new(Vec::new());
    fs::write(project.root.path().join("outside/real.txt"), "old\n").unwrap();
    project.write("inside.txt", "old\n");
    symlink("../outside/real.txt", project.path("out.txt")).unwrap();
    symlink("inside.txt", project.path("in.txt")).unwrap();
    let input = |path: &str| json!({ "path": path, "oldString": "old", "newString": "new" });

    let (outcome, asked) = project.call_asked(&edit(&project), input("out.txt"), |_| {}).await;
    assert_eq!(outcome.unwrap().text, "Edited ROOT/outside/real.txt (1 replacement)");
    assert_eq!(asked, ["external_directory: ROOT/outside/*", "edit: ROOT/outside/real.txt"]);
    assert_eq!(fs::read(project.root.path().join("outside/real.txt")).unwrap(), b"new\n");
    assert!(project.path("out.txt").is_symlink());
}

#[tokio::test]
async fn a_link_stays_and_its_target_is_named() {
    let project = Project::new(Vec::new());
    project.write("real.txt", "old\n");
    symlink("real.txt", project.path("link.txt")).unwrap();
    let input = json!({ "path": "link.txt", "oldString": "old", "newString": "new" });
    let (outcome, asked) = project
        .call_asked(&edit(&project), input, |project| {
            let request = project.bench.permissions.list(None).remove(0);
            let metadata = request.metadata.unwrap();
            assert_eq!(metadata["path"], "link.txt");
            assert_eq!(project.short(metadata["target"].as_str().unwrap()), "ROOT/project/real.txt");
            // What is shown is what will be done.
            let patch = metadata["files"][0]["patch"].as_str().unwrap();
            assert_eq!(patch, "--- a/real.txt\n+++ b/real.txt\n@@ -1 +1 @@\n-old\n+new\n");
        })
        .await;
    assert_eq!(asked, ["edit: real.txt, link.txt"]);
    assert_eq!(outcome.unwrap().text, "Edited real.txt (1 replacement)");
    assert_eq!(fs::read_link(project.path("link.txt")).unwrap().to_str(), Some("real.txt"));
    assert_eq!(project.read("real.txt"), b"new\n");
}

#[tokio::test]
async fn a_rule_for_either_name_counts() {
    for denied in ["real.txt", "link.txt"] {
        let project = Project::new(rules(&[("*", "*", Effect::Allow), ("edit", denied, Effect::Deny)]));
        project.write("real.txt", "old\n");
        symlink("real.txt", project.path("link.txt")).unwrap();
        assert_eq!(run(&project, "link.txt", "old", "new").await.unwrap_err(), "Permission denied: edit");
        assert_eq!(project.read("real.txt"), b"old\n");
    }
}

#[tokio::test]
async fn mode_survives() {
    let project = Project::new(allow());
    for (name, mode) in [("run.sh", 0o755), ("secret.txt", 0o600)] {
        project.write(name, "old");
        fs::set_permissions(project.path(name), fs::Permissions::from_mode(mode)).unwrap();
        let outcome =
            project.call(&edit(&project), name, json!({ "path": name, "oldString": "old", "newString": "new" })).await;
        outcome.unwrap();
        assert_eq!(fs::metadata(project.path(name)).unwrap().mode() & 0o7777, mode);
        assert_eq!(project.read(name), b"new");
    }
    assert_eq!(project.names(), ["run.sh", "secret.txt"]);
}

#[tokio::test]
async fn a_foreign_change_during_approval_is_kept() {
    let project = Project::new(Vec::new());
    project.write("a.txt", "one\ntwo\n");
    let input = json!({ "path": "a.txt", "oldString": "two", "newString": "zwei" });
    let (outcome, _) = project
        .call_asked(&edit(&project), input.clone(), |project| {
            project.write("a.txt", "one\ntwo\nthree\n");
        })
        .await;
    assert_eq!(outcome.unwrap_err(), "a.txt changed while waiting for approval. Read it again.");
    assert_eq!(project.read("a.txt"), b"one\ntwo\nthree\n");

    let (outcome, _) = project
        .call_asked(&edit(&project), input, |project| {
            fs::remove_file(project.path("a.txt")).unwrap();
            symlink("../outside/x", project.path("a.txt")).unwrap();
        })
        .await;
    assert_eq!(outcome.unwrap_err(), "The target changed while waiting for approval");
}

#[tokio::test]
async fn two_edits_of_one_file_at_once() {
    let project = Project::new(allow());
    project.write("a.txt", "one\ntwo\nthree\n");
    let tool = edit(&project);
    let input = |old: &str, new: &str| json!({ "path": "a.txt", "oldString": old, "newString": new });
    let (first, second, third) = tokio::join!(
        project.call(&tool, "a", input("one", "1")),
        project.call(&tool, "b", input("three", "3")),
        project.call(&tool, "c", input("one", "uno")),
    );
    second.unwrap();
    // The two edits of one place exclude each other.
    assert!(first.is_ok() != third.is_ok(), "{first:?} {third:?}");
    let expect = if first.is_ok() { "1\ntwo\n3\n" } else { "uno\ntwo\n3\n" };
    assert_eq!(String::from_utf8(project.read("a.txt")).unwrap(), expect);
}

#[tokio::test]
async fn a_change_since_the_last_read_is_noted() {
    let mut project = Project::new(allow());
    project.write("a.txt", "one\ntwo\n");
    project.files.require_read = true;
    let refused = run(&project, "a.txt", "one", "1").await.unwrap_err();
    assert_eq!(refused, "a.txt has not been read in this session. Read it first (edit.require_read is set).");

    let read = crate::tool::builtin::read::Read::new(project.files.clone());
    project.call(&read, "r", json!({ "path": "a.txt" })).await.unwrap();
    project.write("a.txt", "one\ntwo\nmore\n");
    let outcome = run(&project, "a.txt", "one", "1").await.unwrap();
    assert_eq!(outcome.text, "Edited a.txt (1 replacement)\nNote: a.txt had changed since it was last read.");
    let again =
        project.call(&edit(&project), "again", json!({ "path": "a.txt", "oldString": "two", "newString": "2" })).await;
    assert_eq!(again.unwrap().text, "Edited a.txt (1 replacement)");
}

#[tokio::test]
async fn another_indentation_is_told() {
    let project = Project::new(allow());
    project.write("a.rs", "{\n    a;\n    b;\n}\n");
    let outcome = run(&project, "a.rs", "a;\nb;", "c;").await.unwrap();
    assert_eq!(outcome.metadata["match"], "indent");
    assert_eq!(project.read("a.rs"), b"{\n    c;\n}\n");
}
