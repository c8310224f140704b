use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use abide_schema::permission::Effect;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::*;
use crate::tool::builtin::bench::{Outcome, Project, allow, rules};

async fn run(project: &Project, input: Value) -> Result<Outcome, String> {
    project.call(&Read::new(project.files.clone()), "call", input).await
}

/// What the model sees of a path, or why not.
async fn seen(project: &Project, input: Value) -> String {
    run(project, input).await.map_or_else(|error| format!("error: {error}"), |outcome| outcome.text)
}

#[tokio::test]
async fn a_whole_file() {
    let project = Project::new(allow());
    project.write("sub dir/hello.txt", "hello world\nline two\n");
    let outcome = run(&project, json!({ "path": "sub dir/hello.txt" })).await.unwrap();
    let uri = format!("file://{}/sub%20dir/hello.txt", project.files.access.directory().display());
    let expect = json!({
        "uri": uri, "name": "hello.txt", "content": "hello world\nline two\n", "encoding": "utf8", "mime": "text/plain"
    });
    assert_eq!(outcome.structured, expect);
    assert_eq!(outcome.text, "sub dir/hello.txt (lines 1-2)\n1: hello world\n2: line two");
    assert_eq!(outcome.metadata, json!({ "truncated": false }));
}

#[tokio::test]
async fn pages() {
    let project = Project::new(allow());
    let text = (1..=2500).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
    project.write("f", &text);
    let page = run(&project, json!({ "path": "f", "offset": 3, "limit": 2 })).await.unwrap();
    assert_eq!(page.text, "f (lines 3-4)\n3: line 3\n4: line 4\n[more available: continue with offset 5]");
    let expect =
        json!({ "content": "line 3\nline 4", "mime": "text/plain", "offset": 3, "truncated": true, "next": 5 });
    assert_eq!(page.structured, expect);
    assert_eq!(page.metadata, json!({ "truncated": true }));

    assert_eq!(seen(&project, json!({ "path": "f", "offset": 2500 })).await, "f (lines 2500-2500)\n2500: line 2500");
    assert_eq!(
        seen(&project, json!({ "path": "f", "offset": 0, "limit": 1 })).await,
        "f (lines 1-1)\n1: line 1\n[more available: continue with offset 2]"
    );
    assert_eq!(
        seen(&project, json!({ "path": "f", "offset": 2501 })).await,
        "error: Offset 2501 is past the end: f has 2500 lines"
    );
    // More than two thousand lines come in pages, and a larger limit is no larger.
    for input in [json!({ "path": "f" }), json!({ "path": "f", "limit": 5000 })] {
        assert_eq!(run(&project, input).await.unwrap().structured["next"], 2001);
    }
}

#[tokio::test]
async fn long_lines_and_large_files() {
    let project = Project::new(allow());
    project.write("min.js", "\u{e9}".repeat(1_500_000));
    let text = seen(&project, json!({ "path": "min.js" })).await;
    assert_eq!(text, format!("min.js (lines 1-1)\n1: {} [line cut at 2000 chars]", "\u{e9}".repeat(2000)));

    project.write("wide", format!("{}\n", "x".repeat(1000)).repeat(100));
    let outcome = run(&project, json!({ "path": "wide" })).await.unwrap();
    assert!(outcome.text.len() <= 50 * 1024, "{}", outcome.text.len());
    assert_eq!(outcome.structured["next"], 50);

    // What follows the page is not looked at: here two hundred MiB of nothing.
    project.write("big.txt", "first line\n");
    fs::OpenOptions::new().write(true).open(project.path("big.txt")).unwrap().set_len(200 << 20).unwrap();
    let text = seen(&project, json!({ "path": "big.txt", "limit": 1 })).await;
    assert_eq!(text, "big.txt (lines 1-1)\n1: first line\n[more available: continue with offset 2]");
}

#[tokio::test]
async fn kinds_of_content() {
    let project = Project::new(allow());
    for (name, content, expect) in [
        ("empty.txt", b"".as_slice(), "empty.txt (empty)"),
        ("bom.txt", b"\xEF\xBB\xBFhi\n", "bom.txt (lines 1-1)\n1: hi"),
        ("crlf.txt", b"a\r\nb\r\n", "crlf.txt (lines 1-2)\n1: a\n2: b"),
        ("u16.txt", b"\xFF\xFEh\0i\0\n\0", "u16.txt (lines 1-1, decoded from UTF-16LE)\n1: hi"),
        ("nul", b"abc\0def", "error: Binary file, not readable as text: nul"),
        ("text.bin", b"abc", "error: Binary file, not readable as text: text.bin"),
        ("control", b"\x01\x02\x03abc\n", "error: Binary file, not readable as text: control"),
        (
            "bad.txt",
            b"ok\n\xff\xfe\xfa\n",
            "error: Not valid UTF-8 text: bad.txt (byte 0xFF at offset 3). Convert it to see it whole; edit can replace ASCII text in it.",
        ),
        ("half", b"\xFF\xFEh", "error: Not valid UTF-16 text, though its byte order mark says so: half"),
    ] {
        project.write(name, content);
        assert_eq!(seen(&project, json!({ "path": name })).await, expect, "{name}");
        if !name.contains("u16") && !name.contains("half") {
            let paged = seen(&project, json!({ "path": name, "offset": 1 })).await;
            assert_eq!(paged, expect, "{name}, paged");
        }
    }
    assert_eq!(
        seen(&project, json!({ "path": "empty.txt", "offset": 2 })).await,
        "error: Offset 2 is past the end: empty.txt has 0 lines"
    );
}

#[tokio::test]
async fn media_come_as_files() {
    let project = Project::new(allow());
    let png = b"\x89PNG\r\n\x1a\n\0\0";
    project.write("picture.bin", png);
    project.write("doc.txt", "%PDF-1.4");
    let outcome = run(&project, json!({ "path": "picture.bin" })).await.unwrap();
    let uri = format!("data:image/png;base64,{}", base64::engine::general_purpose::STANDARD.encode(png));
    let file = Content::File { uri, mime: "image/png".into(), name: Some("picture.bin".into()) };
    assert_eq!(outcome.content, [Content::text("Image read"), file]);
    assert_eq!(outcome.structured["mime"], "image/png");
    assert_eq!(seen(&project, json!({ "path": "doc.txt" })).await, "PDF read");

    fs::OpenOptions::new().write(true).open(project.path("doc.txt")).unwrap().set_len(20 * 1024 * 1024 + 1).unwrap();
    let error = seen(&project, json!({ "path": "doc.txt" })).await;
    assert_eq!(error, "error: Media file over the 20971520 byte limit: doc.txt");
}

#[tokio::test]
async fn directories() {
    let project = Project::new(allow());
    for name in ["b.txt", "sub/x", "a b.txt", "Z/x"] {
        project.write(name, "");
    }
    symlink("sub", project.path("link")).unwrap();
    symlink("b.txt", project.path("b2.txt")).unwrap();
    symlink("../outside", project.path("out")).unwrap();
    symlink("nowhere", project.path("dangling")).unwrap();
    let expect = "ROOT/project/ (entries 1-7)\n.git/\nZ/\nlink/\nsub/\na b.txt\nb.txt\nb2.txt";
    assert_eq!(seen(&project, json!({ "path": "." })).await, expect);
    let page = run(&project, json!({ "path": ".", "offset": 4, "limit": 2 })).await.unwrap();
    assert_eq!(page.text, "ROOT/project/ (entries 4-5)\nsub/\na b.txt\n[more available: continue with offset 6]");
    let entries = json!([{ "path": "sub/", "type": "directory" }, { "path": "a b.txt", "type": "file" }]);
    assert_eq!(page.structured, json!({ "entries": entries, "truncated": true, "next": 6 }));
    let sub = run(&project, json!({ "path": "link" })).await.unwrap();
    assert_eq!(sub.structured, json!({ "entries": [{ "path": "sub/x", "type": "file" }], "truncated": false }));
    assert_eq!(sub.text, "sub/ (entries 1-1)\nx");
    assert_eq!(
        seen(&project, json!({ "path": ".", "offset": 9 })).await,
        "error: Offset 9 is past the end: . has 7 entries"
    );
}

#[tokio::test]
async fn what_is_no_file_is_not_waited_for() {
    let project = Project::new(allow());
    mknodat(CWD, project.path("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let _socket = UnixListener::bind(project.path("socket")).unwrap();
    symlink("nowhere", project.path("dangling")).unwrap();
    for (path, expect) in [
        ("pipe", "error: Neither a file nor a directory: pipe"),
        ("socket", "error: Neither a file nor a directory: socket"),
        ("/dev/zero", "error: Neither a file nor a directory: /dev/zero"),
        ("dangling", "error: No such file: dangling"),
    ] {
        assert_eq!(seen(&project, json!({ "path": path })).await, expect, "{path}");
    }
}

#[tokio::test]
async fn a_missing_name_is_helped() {
    let project = Project::new(allow());
    project.write("readme.md", "");
    project.write("it\u{2019}s caf\u{e9}.txt", "found");
    project.write("two'.txt", "");
    project.write("two\u{2018}.txt", "");
    assert_eq!(
        seen(&project, json!({ "path": "README.md" })).await,
        "error: No such file: README.md. Did you mean readme.md?"
    );
    assert_eq!(seen(&project, json!({ "path": "none" })).await, "error: No such file: none");
    assert_eq!(seen(&project, json!({ "path": "none/x" })).await, "error: No such file: none/x");
    let text = seen(&project, json!({ "path": "./it's cafe\u{301}.txt" })).await;
    assert_eq!(text, "it\u{2019}s caf\u{e9}.txt (lines 1-1)\n1: found");
    let text = seen(&project, json!({ "path": "two\u{2019}.txt" })).await;
    assert_eq!(text, "error: No such file: two\u{2019}.txt");

    let project = Project::new(rules(&[("read", "*", Effect::Allow), ("read", "it\u{2019}s.txt", Effect::Deny)]));
    project.write("it\u{2019}s.txt", "secret");
    assert_eq!(seen(&project, json!({ "path": "it's.txt" })).await, "error: Permission denied: read");
}

#[tokio::test]
async fn questions_come_first() {
    let project = Project::new(Vec::new());
    fs::write(project.root.path().join("outside/f"), "x").unwrap();
    let tool = Read::new(project.files.clone());
    let (outcome, asked) = project.call_asked(&tool, json!({ "path": "../outside/f" }), |_| {}).await;
    assert_eq!(outcome.unwrap().text, "ROOT/outside/f (lines 1-1)\n1: x");
    assert_eq!(asked, ["external_directory: ROOT/outside/*", "read: ROOT/outside/f"]);

    let project = Project::new(rules(&[("read", "*", Effect::Allow), ("read", "*.env", Effect::Deny)]));
    project.write(".env", "TOKEN=x");
    assert_eq!(seen(&project, json!({ "path": ".env" })).await, "error: Permission denied: read");
}

/// A rule for everything shows no file that usually holds secrets: it is asked for, and remembered by its name.
#[tokio::test]
async fn secrets_are_asked_for() {
    let project = Project::new(allow());
    project.write("certs/server.key", "secret\n");
    let tool = Read::new(project.files.clone());
    let mut saved = None;
    let input = json!({ "path": "certs/server.key" });
    let call = project.call(&tool, "call", input);
    tokio::pin!(call);
    let outcome = loop {
        tokio::select! {
            outcome = &mut call => break outcome,
            _events = project.bench.events.wait_for(1) => {
                for request in project.bench.permissions.list(None) {
                    saved = Some((request.resources.clone(), request.save.clone().unwrap_or_default()));
                    let (session, id) = (request.session_id.clone(), request.id.clone());
                    project.bench.permissions.reply(&session, &id, abide_schema::permission::Reply::Once, None).await.unwrap();
                }
                tokio::task::yield_now().await;
            }
        }
    };
    let names = vec!["certs/server.key".to_owned()];
    assert_eq!(saved, Some((names.clone(), names)));
    assert!(outcome.unwrap().text.contains("secret"));
}

/// RD8.
#[tokio::test]
async fn instructions_beside_a_file_are_given_once() {
    let project = Project::new(allow());
    project.write("AGENTS.md", "root");
    project.write("a/AGENTS.md", "of a\n");
    project.write("a/b/AGENTS.md", "of b\n");
    project.write("a/b/c.txt", "x\n");
    fs::write(project.root.path().join("outside/AGENTS.md"), "outside").unwrap();
    fs::write(project.root.path().join("outside/x"), "x").unwrap();
    project.write("broken/AGENTS.md", b"\xFF");
    project.write("broken/x", "x\n");
    let text = async |path: &str| {
        let tool = Read::new(project.files.clone());
        project.call(&tool, path, json!({ "path": path })).await.unwrap().text
    };
    let told = "Instructions of a/AGENTS.md, for everything below a:\nof a\n\
                Instructions of a/b/AGENTS.md, for everything below a/b:\nof b";
    assert_eq!(text("a/b/c.txt").await, format!("a/b/c.txt (lines 1-1)\n1: x\n{told}"));
    assert_eq!(text("a/b/c.txt").await, "a/b/c.txt (lines 1-1)\n1: x");
    // Neither the location's own, nor outside, nor what is no text; a file is not told beside itself.
    assert_eq!(text("AGENTS.md").await, "AGENTS.md (lines 1-1)\n1: root");
    assert_eq!(text("broken/x").await, "broken/x (lines 1-1)\n1: x");
    let outside = project.root.path().canonicalize().unwrap().join("outside/x");
    assert_eq!(text(outside.to_str().unwrap()).await, "ROOT/outside/x (lines 1-1)\n1: x");
}
