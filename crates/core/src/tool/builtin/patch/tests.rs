use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use abide_schema::permission::{Effect, Rule};
use serde_json::{Value, json};

use super::parse::{Chunk, Line, NoPatch};
use super::*;
use crate::store::{JournalStore as _, MutationState};
use crate::tool::builtin::bench::{Outcome, Project, allow, rules};

fn tool(project: &Project) -> Patch {
    Patch::new(project.files.clone())
}

/// Makes a patch of its operations.
fn patch(body: &str) -> String {
    format!("*** Begin Patch\n{body}*** End Patch\n")
}

async fn run(project: &Project, text: impl Into<String>) -> Result<Outcome, String> {
    project.call(&tool(project), "call", json!({ "patchText": text.into() })).await
}

/// Updates the file `a` and returns it.
async fn update(before: &str, chunks: &str) -> Result<String, String> {
    let project = Project::new(allow());
    project.write("a", before);
    run(&project, patch(&format!("*** Update File: a\n{chunks}"))).await?;
    assert_eq!(project.names(), ["a"]);
    Ok(String::from_utf8(project.read("a")).unwrap())
}

#[track_caller]
fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().unwrap();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(hex.get(at..at + 2).unwrap(), 16).unwrap()).collect()
}

fn tree(value: &Value) -> BTreeMap<String, Vec<u8>> {
    value.as_object().unwrap().iter().map(|(name, hex)| (name.clone(), bytes(hex))).collect()
}

fn found(project: &Project) -> BTreeMap<String, Vec<u8>> {
    project.names().into_iter().map(|name| (name.clone(), project.read(&name))).collect()
}

#[tokio::test]
async fn cases() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("cases.json")).unwrap();
    assert_eq!(cases.len(), 9);
    for case in cases {
        let id = case["id"].as_str().unwrap();
        let mut given = allow();
        for rule in case["rules"].as_array().into_iter().flatten() {
            let effect: Effect = serde_json::from_value(rule[2].clone()).unwrap();
            given.push(Rule::new(rule[0].as_str().unwrap(), rule[1].as_str().unwrap(), effect));
        }
        let project = Project::new(given);
        for (name, content) in tree(&case["before"]) {
            project.write(&name, content);
        }
        let modes = case["modes"].as_object().cloned().unwrap_or_default();
        let mode = |value: &Value| u32::from_str_radix(value.as_str().unwrap(), 8).unwrap();
        for (name, value) in modes.iter().filter(|(name, _)| project.path(name).exists()) {
            fs::set_permissions(project.path(name), fs::Permissions::from_mode(mode(value))).unwrap();
        }
        let outcome = run(&project, case["patch"].as_str().unwrap()).await;
        assert_eq!(found(&project), tree(&case["after"]), "{id}: {outcome:?}");
        for (name, value) in modes.iter().filter(|(name, _)| project.path(name).exists()) {
            assert_eq!(fs::metadata(project.path(name)).unwrap().mode() & 0o7777, mode(value), "{id} {name}");
        }
        match case.get("fails") {
            None => drop(outcome.unwrap()),
            Some(says) => {
                let message = outcome.unwrap_err();
                for text in says.as_array().unwrap() {
                    assert!(message.contains(text.as_str().unwrap()), "{id}: {message}");
                }
            }
        }
        assert!(!project.root.path().join("outside.txt").exists(), "{id}");
    }
}

/// PA1.
#[tokio::test]
async fn add_update_delete_and_move_in_one_patch() {
    let project = Project::new(allow());
    project.write("change", "one\ntwo\n");
    project.write("gone", "bye\n");
    project.write("old", "a\nb\n");
    project.write("plain", "as it is\n");
    let text = patch(
        "*** Add File: new/file\n+hello\n+\n*** Update File: change\n@@\n-two\n+2\n*** Delete File: gone\n\
         *** Update File: old\n*** Move to: new/name\n@@\n a\n-b\n+c\n*** Update File: plain\n*** Move to: moved\n@@\n",
    );
    let outcome = run(&project, text).await.unwrap();
    assert_eq!(outcome.text, "Patch applied:\nA new/file\nM change\nD gone\nR old -> new/name\nR plain -> moved");
    let expect = [("change", "one\n2\n"), ("moved", "as it is\n"), ("new/file", "hello\n\n"), ("new/name", "a\nc\n")];
    let expect = expect.map(|(name, content)| (name.to_owned(), content.as_bytes().to_vec()));
    assert_eq!(found(&project), BTreeMap::from(expect));

    let applied = outcome.structured["applied"].as_array().unwrap().iter().map(|one| {
        let target = project.short(one["target"].as_str().unwrap());
        format!("{} {} {target} {}", one["type"], one["resource"], one["movedFrom"])
    });
    assert_eq!(
        applied.collect::<Vec<_>>(),
        [
            "\"add\" \"new/file\" ROOT/project/new/file null",
            "\"update\" \"change\" ROOT/project/change null",
            "\"delete\" \"gone\" ROOT/project/gone null",
            "\"update\" \"new/name\" ROOT/project/new/name \"old\"",
            "\"update\" \"moved\" ROOT/project/moved \"plain\"",
        ]
    );
    let files = outcome.structured["files"].as_array().unwrap().iter();
    let files =
        files.map(|file| format!("{} {} +{} -{}", file["file"], file["status"], file["additions"], file["deletions"]));
    assert_eq!(
        files.collect::<Vec<_>>(),
        [
            "\"new/file\" \"added\" +2 -0",
            "\"change\" \"modified\" +1 -1",
            "\"gone\" \"deleted\" +0 -1",
            "\"new/name\" \"modified\" +1 -1",
            "\"moved\" \"modified\" +0 -0",
        ]
    );
    assert_eq!(outcome.metadata["files"], outcome.structured["files"]);

    // One batch, which holds what recovery would publish.
    let batches = project.store.all_mutations().await.unwrap();
    assert_eq!(batches.len(), 1);
    assert_eq!((batches[0].state, batches[0].tool.as_str()), (MutationState::Applied, "patch"));
    assert_eq!(batches[0].output["structured"], outcome.structured);
}

/// PA2 and PA3, and what stands between the markers.
#[test]
fn texts() {
    #[track_caller]
    fn check(text: &str, expect: Result<usize, &str>) {
        let parsed = parse::parse(text).map(|operations| operations.len());
        assert_eq!(parsed.map_err(|error| error.to_string()), expect.map_err(str::to_owned), "{text:?}");
    }
    let first = "The first line of the patch must be '*** Begin Patch'";
    let last = "The last line of the patch must be '*** End Patch'";
    check("", Err("The patch is empty"));
    check(" \n\t\n", Err("The patch is empty"));
    check("*** Begin Patch\n*** End Patch", Err("The patch is empty"));
    check("*** Begin Patch\n\n\n*** End Patch", Err("The patch is empty"));
    check("*** Add File: a\n+a\n*** End Patch", Err(first));
    check("*** Begin Patch\n*** Add File: a\n+a", Err(last));
    check("*** End Patch\n*** Add File: a\n*** Begin Patch", Err(last));
    check("*** Begin Patch\nhello\n*** End Patch", Err("Line 2 is not an operation header: hello"));
    check("text\n\n*** Begin Patch\n*** Add: a\n*** End Patch", Err("Line 4 is not an operation header: *** Add: a"));
    check("*** Begin Patch\n*** Add File:  \n*** End Patch", Err("Line 2 names no path"));
    check("*** Begin Patch\n*** Update File: a\n*** Move to:\n@@\n*** End Patch", Err("Line 3 names no path"));
    let no_chunk = "Line 2 updates a without any chunk; begin one with '@@' (alone, it moves a file as it is)";
    check("*** Begin Patch\n*** Update File: a\n*** End Patch", Err(no_chunk));
    check("*** Begin Patch\n*** Update File: a\n*** Delete File: b\n*** End Patch", Err(no_chunk));
    // An empty file is no mistake.
    check("*** Begin Patch\n*** Add File: a\n*** End Patch", Ok(1));
    // Wrapped, with CRLF, with text around it, and indented.
    check("cat <<'EOF'\n*** Begin Patch\n*** Add File: a\n+a\n*** End Patch\nEOF\n", Ok(1));
    check("<<EOF\r\n*** Begin Patch\r\n*** Delete File: a\r\n*** End Patch\r\nEOF", Ok(1));
    check("Here it is:\n*** Begin Patch  \n*** Delete File: a\n*** End Patch\n*** Begin Patch\nbye", Ok(1));
    check("  *** Begin Patch\n  *** Delete File: a\n  *** Delete File: b\n  *** End Patch", Ok(2));
    check("*** Begin Patch\n  *** Update File: a\n@@\n-x\n*** Delete File: b\n*** End Patch", Ok(2));
    // Blank lines between operations are none of the file's.
    check("*** Begin Patch\n*** Add File: a\n+a\n\n*** Delete File: b\n\n*** End Patch", Ok(2));
    // No line is lost.
    let stray = "'@@', ' ', '-' or '+'";
    check(
        "*** Begin Patch\n*** Update File: a\n@@\n x\nlost\n*** End Patch",
        Err(&format!("Line 5 does not begin with {stray}: lost")),
    );
    check("*** Begin Patch\n*** Add File: a\n+a\nlost\n*** End Patch", Err("Line 4 does not begin with '+': lost"));
    check("*** Begin Patch\n*** Add File: a\n+a\n\n+b\n*** End Patch", Err("Line 4 does not begin with '+': "));
    check(
        "*** Begin Patch\n*** Delete File: a\n-a\n*** End Patch",
        Err("Line 3 does not begin with an operation header ('*** …'): -a"),
    );
    check(
        "*** Begin Patch\n*** Update File: a\n@@x\n*** End Patch",
        Err(&format!("Line 3 does not begin with {stray}: @@x")),
    );
    check(
        "*** Begin Patch\n*** Update File: a\n-x\n*** End of File\n-y\n*** End Patch",
        Err("Line 5 does not begin with '@@' (the chunk before ends the file): -y"),
    );
}

/// Lines of files that look like parts of a patch are lines of files.
#[test]
fn a_patch_of_a_patch() {
    let text = "*** Begin Patch\n*** Update File: a\n@@ here\n *** Begin Patch\n *** Delete File: x\n-*** End Patch\n *** End Patch\n*** End Patch\n";
    let chunk = Chunk {
        context: Some("here".into()),
        lines: vec![
            Line::Keep("*** Begin Patch".into()),
            Line::Keep("*** Delete File: x".into()),
            Line::Remove("*** End Patch".into()),
            Line::Keep("*** End Patch".into()),
        ],
        at_end: false,
    };
    assert_eq!(parse::parse(text), Ok(vec![Operation::Update { path: "a".into(), to: None, chunks: vec![chunk] }]));
    assert_eq!(parse::parse("*** Begin Patch\n*** End Patch"), Err(NoPatch::Empty));
}

/// PA4, PA5, PA6 and PA11: where chunks go, and what becomes of line ends.
#[tokio::test]
async fn chunks() {
    for (before, chunks, expect) in [
        // The first chunk may begin without a header; an empty line is an empty line of context.
        ("a\n\nb\n", " a\n\n-b\n+c\n", "a\n\nc\n"),
        // The empty line before the next header is none of the file's.
        ("a\nb\n", "@@\n-b\n+c\n\n", "a\nc\n"),
        ("a\nb\n", "@@\n a\n-b\n-\n+c\n+\n", "a\nc\n"),
        // Four passes, over the whole rest of the file each: the exact line wins over an earlier one.
        ("x  \nx\n", "@@\n-x\n+y\n", "x  \ny\n"),
        ("x \t\n", "@@\n-x\n+y\n", "y\n"),
        ("  x\n", "@@\n-x\n+y\n", "y\n"),
        ("say “x”…\n", "@@\n-say \"x\"...\n+y\n", "y\n"),
        ("a\u{a0}–\u{2003}b\n", "@@\n-a - b\n+y\n", "y\n"),
        // Lines of context stay as the file has them.
        ("  a \nb\n", "@@\n a\n-b\n+c\n", "  a \nc\n"),
        // A context line moves on; chunks come in order.
        ("f\nx\ng\nx\n", "@@ g\n-x\n+y\n", "f\nx\ng\ny\n"),
        ("f\nx\ng\nx\n", "@@\n-x\n+1\n@@\n-x\n+2\n", "f\n1\ng\n2\n"),
        ("c\nf\nx\nd\nf\nx\n", "@@ d\n@@ f\n-x\n+y\n", "c\nf\nx\nd\nf\ny\n"),
        // The end of the file.
        ("x\na\nx\n", "@@\n-x\n+y\n*** End of File\n", "x\na\ny\n"),
        ("a\n", "@@\n+b\n*** End of File\n", "a\nb\n"),
        // Only insertions: after the context, else at the end.
        ("a\nb\n", "@@ a\n+x\n+y\n", "a\nx\ny\nb\n"),
        ("a\nb\n", "@@\n+x\n", "a\nb\nx\n"),
        ("", "@@\n+x\n", "x\n"),
        ("a\nb\n", "@@\n+x\n@@\n-b\n+c\n", "a\nc\nx\n"),
        // New lines take the line end of their place, and others keep theirs.
        ("a\r\nb\r\nc\r\n", "@@\n-b\n+x\n+y\n", "a\r\nx\r\ny\r\nc\r\n"),
        ("a\r\nb\nc\r\nd\n", "@@\n-b\n+x\n", "a\r\nx\nc\r\nd\n"),
        ("a\r\nb\nc\r\nd\n", "@@ b\n-c\n+x\n+y\n", "a\r\nb\nx\r\ny\r\nd\n"),
        ("a\rb\r", "@@\n-b\n+x\n+y\n", "a\rx\ry\r"),
        // The last line keeps what it has unless it is touched.
        ("a\nb", "@@\n-a\n+x\n b\n", "x\nb"),
        ("a\nb", "@@\n-b\n+x\n", "a\nx\n"),
        ("a\r\nb", "@@\n+c\n", "a\r\nb\r\nc\r\n"),
        ("a\nb", "@@\n-b\n", "a\n"),
        ("a\n", "@@\n-a\n", ""),
        // The byte order mark is no part of the first line.
        ("\u{feff}a\nb\n", "@@\n-a\n+x\n", "\u{feff}x\nb\n"),
    ] {
        assert_eq!(update(before, chunks).await.as_deref(), Ok(expect), "{before:?} {chunks:?}");
    }
}

#[tokio::test]
async fn chunks_without_a_place() {
    for (before, chunks, expect) in [
        ("a\n", "@@ z\n-a\n", "Context 'z' not found in a"),
        // Behind the place that was used already.
        ("a\nb\n", "@@\n-b\n+c\n@@\n-a\n", "Expected lines not found in a:\na"),
        ("a\nb\n", "@@\n-a\n*** End of File\n", "Expected lines not found in a:\na"),
        (
            "one\ntwo\nthree\n",
            "@@\n one\n tow\n-three\n",
            "Expected lines not found in a:\none\ntow\nthree\nThe nearest place is line 1: line 2 is another one. The file has: `two`; the patch has: `tow`",
        ),
        ("a\n", "@@\n a\n", "it changes nothing: every file has its content there already"),
        ("\u{ff}\0\n", "@@\n-a\n", "a is no text that can be patched: it is a binary file"),
    ] {
        let error = update(before, chunks).await.unwrap_err();
        let (reason, _) =
            error.split_once("\nThe nearest place").filter(|_| !expect.contains("nearest")).unwrap_or((&error, ""));
        assert_eq!(reason, format!("Patch not applied: {expect}"), "{before:?} {chunks:?}");
    }
}

/// PA7: operations see what the ones before them made.
#[tokio::test]
async fn operations_compose() {
    for (body, expect) in [
        ("*** Update File: a\n@@\n-1\n+x\n*** Update File: a\n@@\n-x\n+y\n", Ok(vec![("a", "y\n2\n"), ("b", "b\n")])),
        ("*** Delete File: a\n*** Add File: a\n+new\n", Ok(vec![("a", "new\n"), ("b", "b\n")])),
        (
            "*** Add File: c\n+1\n*** Update File: c\n@@\n-1\n+2\n",
            Ok(vec![("a", "1\n2\n"), ("b", "b\n"), ("c", "2\n")]),
        ),
        (
            "*** Add File: c\n+1\n*** Update File: c\n*** Move to: d\n@@\n",
            Ok(vec![("a", "1\n2\n"), ("b", "b\n"), ("d", "1\n")]),
        ),
        ("*** Delete File: b\n*** Update File: a\n*** Move to: b\n@@\n", Ok(vec![("b", "1\n2\n")])),
        // Two files change their names.
        (
            "*** Update File: a\n*** Move to: t\n@@\n*** Update File: b\n*** Move to: a\n@@\n*** Update File: t\n*** Move to: b\n@@\n",
            Ok(vec![("a", "b\n"), ("b", "1\n2\n")]),
        ),
        (
            "*** Update File: a\n*** Move to: c\n@@\n*** Add File: a\n+n\n",
            Ok(vec![("a", "n\n"), ("b", "b\n"), ("c", "1\n2\n")]),
        ),
        ("*** Add File: a\n+x\n", Err("a exists already")),
        ("*** Update File: a\n*** Move to: b\n@@\n", Err("b exists already")),
        ("*** Update File: a\n*** Move to: a\n@@\n-1\n+x\n", Ok(vec![("a", "x\n2\n"), ("b", "b\n")])),
        ("*** Delete File: c\n", Err("No such file: c")),
        ("*** Delete File: a\n*** Update File: a\n@@\n-1\n", Err("No such file: a")),
        (
            "*** Add File: c\n+x\n*** Delete File: c\n",
            Err("it changes nothing: every file has its content there already"),
        ),
        ("*** Add File: c\n+x\n*** Add File: c/d\n+x\n", Err("c/d would lie below the file c")),
        ("*** Add File: a/d\n+x\n", Err("a parent of a/d is not a directory")),
        ("*** Delete File: .\n", Err(". is a directory")),
    ] {
        let project = Project::new(allow());
        project.write("a", "1\n2\n");
        project.write("b", "b\n");
        let outcome = run(&project, patch(body)).await;
        match expect {
            Ok(files) => {
                outcome.unwrap_or_else(|error| panic!("{body}: {error}"));
                let files = files.into_iter().map(|(name, content)| (name.to_owned(), content.as_bytes().to_vec()));
                assert_eq!(found(&project), files.collect(), "{body}");
            }
            Err(reason) => {
                assert_eq!(outcome.unwrap_err(), format!("Patch not applied: {reason}"), "{body}");
                assert_eq!(project.names(), ["a", "b"], "{body}");
                assert_eq!(project.store.all_mutations().await.unwrap().len(), 0, "{body}");
            }
        }
    }
}

/// PA8.
#[tokio::test]
async fn a_patch_that_does_not_fit_asks_nobody() {
    let project = Project::new(rules(&[("read", "*", Effect::Allow)]));
    project.write("a", "1\n");
    project.write("b", "2\n");
    let error = run(&project, patch("*** Update File: a\n@@\n-1\n+x\n*** Update File: b\n@@\n-z\n")).await.unwrap_err();
    assert!(error.starts_with("Patch not applied: Expected lines not found in b:\nz"), "{error}");
    assert_eq!(project.bench.events.all().len(), 0);
    assert_eq!((project.read("a"), project.read("b")), (b"1\n".to_vec(), b"2\n".to_vec()));
}

#[tokio::test]
async fn a_denied_patch_does_not_tell_what_is_there() {
    let project = Project::new(rules(&[("edit", "*", Effect::Deny)]));
    project.write("a", "1\n");
    for line in ["1", "2"] {
        let text = patch(&format!("*** Update File: a\n@@\n-{line}\n+x\n"));
        assert_eq!(run(&project, text).await.unwrap_err(), "Permission denied: edit", "{line}");
    }
}

/// PA12: one question for all directories outside, then one for all files, which shows what will be done.
#[tokio::test]
async fn questions() {
    let project = Project::new(Vec::new());
    let out = |name: &str| project.root.path().canonicalize().unwrap().join(name).to_str().unwrap().to_owned();
    fs::create_dir(out("other")).unwrap();
    project.write("a", "1\n");
    let text = patch(&format!(
        "*** Add File: {}\n+x\n*** Add File: {}\n+y\n*** Add File: {}\n+z\n*** Update File: a\n@@\n-1\n+2\n",
        out("outside/x"),
        out("outside/y"),
        out("other/z")
    ));
    let (outcome, asked) = project
        .call_asked(&tool(&project), json!({ "patchText": text }), |project| {
            let metadata = project.bench.permissions.list(None).remove(0).metadata.unwrap();
            let diff = metadata["diff"].as_str().unwrap();
            assert!(diff.ends_with("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n"), "{diff}");
            assert_eq!(metadata["files"].as_array().unwrap().len(), 4);
        })
        .await;
    assert_eq!(
        asked,
        ["external_directory: ROOT/outside/*, ROOT/other/*", "edit: ROOT/outside/x, ROOT/outside/y, ROOT/other/z, a",]
    );
    let lines = "Patch applied:\nA ROOT/outside/x\nA ROOT/outside/y\nA ROOT/other/z\nM a";
    assert_eq!(outcome.unwrap().text, lines);
}

/// PA9: what went in comes out again.
#[tokio::test]
async fn a_failure_in_the_middle_changes_nothing() {
    let project = Project::new(allow());
    project.write("a", "1\n");
    project.write("b", "2\n");
    project.write("frozen/c", "3\n");
    fs::set_permissions(project.path("frozen"), fs::Permissions::from_mode(0o555)).unwrap();
    let text =
        patch("*** Update File: a\n@@\n-1\n+x\n*** Delete File: b\n*** Delete File: frozen/c\n*** Add File: d\n+4\n");
    let outcome = run(&project, text).await;
    fs::set_permissions(project.path("frozen"), fs::Permissions::from_mode(0o755)).unwrap();
    // The superuser may remove the file all the same.
    if let Err(error) = outcome {
        assert!(error.starts_with("Patch not applied: "), "{error}");
        assert!(error.ends_with("No files were changed."), "{error}");
        assert_eq!(project.names(), ["a", "b", "frozen/c"]);
        assert_eq!(project.read("a"), b"1\n");
    }
}

/// PA10, and the words for each way in which a batch can fail.
#[test]
fn failures_say_what_became_of_the_files() {
    use crate::fs::journal::Standing;
    use crate::tool::failure::model_text;
    let io = || ApplyError::Io { path: "/p/c".into(), source: std::io::Error::other("disk full") };
    let report = |path: &str, standing| FileReport { path: path.into(), standing };
    let text = |error| model_text(&not_committed(error));
    assert_eq!(text(io()), "Patch not applied: /p/c could not be changed: disk full. No files were changed.");
    let files = vec![
        report("/p/a", Standing::After),
        report("/p/b", Standing::Before),
        report("/p/c", Standing::Other),
        report("/p/d", Standing::Same),
    ];
    let diverged = ApplyError::Diverged { files, cause: Box::new(io()) };
    let message = not_committed(diverged).message;
    assert_eq!(
        message,
        "Patch partly applied: /p/c could not be changed. Changed: /p/a. Not restored: /p/c (neither as before nor as planned)."
    );
}

#[tokio::test]
async fn a_foreign_change_during_approval_is_kept() {
    let project = Project::new(Vec::new());
    project.write("a", "1\n");
    project.write("b", "2\n");
    let text = patch("*** Update File: a\n@@\n-1\n+x\n*** Update File: b\n@@\n-2\n+y\n");
    let (outcome, _) =
        project.call_asked(&tool(&project), json!({ "patchText": text }), |project| project.write("b", "2\n3\n")).await;
    assert_eq!(outcome.unwrap_err(), "Patch not applied: b changed while waiting for approval. Read it again.");
    assert_eq!((project.read("a"), project.read("b")), (b"1\n".to_vec(), b"2\n3\n".to_vec()));

    let text = patch("*** Add File: new\n+x\n");
    let (outcome, _) = project
        .call_asked(&tool(&project), json!({ "patchText": text }), |project| project.write("new", "mine\n"))
        .await;
    assert_eq!(outcome.unwrap_err(), "Patch not applied: new changed while waiting for approval. Read it again.");
    assert_eq!(project.read("new"), b"mine\n");
}

#[tokio::test]
async fn links() {
    let project = Project::new(allow());
    project.write("real", "1\n");
    symlink("real", project.path("link")).unwrap();
    run(&project, patch("*** Update File: link\n@@\n-1\n+2\n")).await.unwrap();
    assert_eq!(project.read("real"), b"2\n");
    assert!(project.path("link").is_symlink());
    let refused = "Patch not applied: link is a link to real; name the file itself, or remove the link with the shell";
    for body in ["*** Delete File: link\n", "*** Update File: link\n*** Move to: c\n@@\n"] {
        assert_eq!(run(&project, patch(body)).await.unwrap_err(), refused);
    }
    // Hard links stay one file.
    fs::hard_link(project.path("real"), project.path("twin")).unwrap();
    project
        .call(&tool(&project), "hard", json!({ "patchText": patch("*** Update File: real\n@@\n-2\n+3\n") }))
        .await
        .unwrap();
    assert_eq!(project.read("twin"), b"3\n");
}

#[tokio::test]
async fn a_patch_is_applied_once() {
    let project = Project::new(allow());
    project.write("a", "1\n1\n");
    let text = patch("*** Update File: a\n@@\n-1\n+x\n");
    run(&project, text.clone()).await.unwrap();
    let again = run(&project, text).await.unwrap_err();
    assert_eq!(again, "Patch not applied: this call has changed files already. No files were changed.");
    assert_eq!(project.read("a"), b"x\n1\n");
}

#[tokio::test]
async fn a_change_since_the_last_read_is_noted() {
    let mut project = Project::new(allow());
    project.write("a", "one\ntwo\n");
    project.files.require_read = true;
    let text = patch("*** Update File: a\n@@\n-one\n+1\n");
    let refused = run(&project, text.clone()).await.unwrap_err();
    assert_eq!(refused, "a has not been read in this session. Read it first (edit.require_read is set).");
    let read = crate::tool::builtin::read::Read::new(project.files.clone());
    project.call(&read, "r", json!({ "path": "a" })).await.unwrap();
    project.write("a", "one\ntwo\nmore\n");
    let outcome = run(&project, text).await.unwrap();
    assert_eq!(outcome.text, "Patch applied:\nM a\nNote: a had changed since it was last read.");
}

/// PA13.
#[test]
fn who_gets_patch() {
    let both: &[&str] = &["edit", "write"];
    let only: &[&str] = &["patch"];
    for (model, choice, expect) in [
        ("gpt-5", PatchChoice::Auto, both),
        ("gpt-5.2-codex", PatchChoice::Auto, both),
        ("openai/GPT-6", PatchChoice::Auto, both),
        ("gpt-4.1", PatchChoice::Auto, only),
        ("gpt-oss-120b", PatchChoice::Auto, only),
        ("claude-opus-4-5", PatchChoice::Auto, only),
        ("gpt-5", PatchChoice::Never, only),
        ("claude-opus-4-5", PatchChoice::Always, both),
    ] {
        assert_eq!(left_out(model, choice), expect, "{model} {choice:?}");
    }
}
