use std::os::unix::fs::symlink;

use abide_schema::ProjectId;
use abide_schema::location::{LocationInfo, ProjectRef};
use tempfile::TempDir;

use super::*;

fn tree() -> (TempDir, Browser) {
    let root = TempDir::new().unwrap();
    let project = root.path().join("project");
    for directory in ["sub/deep", ".git", "Zed", "node_modules"] {
        fs::create_dir_all(project.join(directory)).unwrap();
    }
    for (file, content) in [
        ("hello.txt", b"hello world\nline two\n".as_slice()),
        ("sub/inner.txt", b"inner\n"),
        ("sub/deep/leaf.rs", b"fn leaf() {}\n"),
        ("sp ace.txt", b"spaced\n"),
        ("data.json", b"{}"),
        ("bin.dat", b"\0\x01\x02\xfd\xfe\xff"),
        ("B.md", b""),
        ("node_modules/leaf.js", b""),
        (".gitignore", b"node_modules\n"),
        (".git/config", b"secret"),
        ("../outside.txt", b"outside the project\n"),
    ] {
        fs::write(project.join(file), content).unwrap();
    }
    symlink("../outside.txt", project.join("escape.txt")).unwrap();
    symlink("..", project.join("up")).unwrap();
    symlink("sub", project.join("inside")).unwrap();
    let location = LocationInfo {
        directory: project.to_str().unwrap().into(),
        workspace_id: None,
        project: ProjectRef { id: ProjectId::new("p"), directory: root.path().to_str().unwrap().into() },
    };
    let access = Access::open(&location, None).unwrap();
    (root, Browser::new(Arc::new(access)))
}

fn paths(entries: Vec<Entry>) -> Vec<String> {
    entries.into_iter().map(|entry| entry.path).collect()
}

#[tokio::test]
async fn lists_are_in_order() {
    let (_root, browser) = tree();
    let expect = [
        "inside/",
        "node_modules/",
        "sub/",
        "Zed/",
        ".gitignore",
        "B.md",
        "bin.dat",
        "data.json",
        "escape.txt",
        "hello.txt",
        "sp ace.txt",
        "up",
    ];
    for path in [None, Some(""), Some("."), Some("sub/..")] {
        assert_eq!(paths(browser.list(path).await.unwrap()), expect, "{path:?}");
    }
    assert_eq!(paths(browser.list(Some("sub")).await.unwrap()), ["sub/deep/", "sub/inner.txt"]);
    assert_eq!(paths(browser.list(Some("inside/")).await.unwrap()), ["sub/deep/", "sub/inner.txt"]);
}

#[tokio::test]
async fn files_come_with_their_type() {
    let (_root, browser) = tree();
    for (path, media_type, content) in [
        ("hello.txt", "text/plain", b"hello world\nline two\n".as_slice()),
        ("sp ace.txt", "text/plain", b"spaced\n"),
        ("inside/deep/leaf.rs", "text/plain", b"fn leaf() {}\n"),
        ("data.json", "application/json", b"{}"),
        ("bin.dat", "application/octet-stream", b"\0\x01\x02\xfd\xfe\xff"),
    ] {
        let file = browser.open(path).await.unwrap();
        assert_eq!(file.media_type, media_type, "{path}");
        assert_eq!(file.length, u64::try_from(content.len()).unwrap());
        assert_eq!(file.read().unwrap(), content, "{path}");
    }
}

#[tokio::test]
async fn nothing_else_is_served() {
    let (root, browser) = tree();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.path().join("project/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    for (path, expect) in [
        ("none.txt", "none.txt does not exist"),
        ("hello.txt/x", "hello.txt/x does not exist"),
        ("a\0b", "a\\u{0}b does not exist"),
        ("../outside.txt", "../outside.txt lies outside the location"),
        ("../none", "../none lies outside the location"),
        ("/etc/passwd", "/etc/passwd lies outside the location"),
        ("escape.txt", "escape.txt lies outside the location"),
        ("up/outside.txt", "up/outside.txt lies outside the location"),
        ("~/x", "~/x does not exist"),
        ("sub", "sub is not a file"),
        ("pipe", "pipe is not a file"),
    ] {
        assert_eq!(browser.open(path).await.unwrap_err().to_string(), expect, "{path}");
    }
    for (path, expect) in [
        ("none", "none does not exist"),
        ("hello.txt", "hello.txt is not a directory"),
        ("..", ".. lies outside the location"),
        ("up", "up lies outside the location"),
        ("/etc", "/etc lies outside the location"),
    ] {
        assert_eq!(browser.list(Some(path)).await.unwrap_err().to_string(), expect, "{path}");
    }
}

#[tokio::test]
async fn the_best_match_is_first() {
    let (_root, browser) = tree();
    let find =
        async |query: &str, kind, limit| paths(browser.find(Find { query: query.into(), kind, limit }).await.unwrap());
    assert_eq!(find("leaf", None, None).await, ["sub/deep/leaf.rs"]);
    assert_eq!(find("sub", Some(EntryKind::Directory), None).await, ["sub/", "sub/deep/"]);
    assert_eq!(find("e", Some(EntryKind::File), Some(2)).await.len(), 2);
    assert_eq!(find("hlo", None, None).await, ["hello.txt"]);
    assert_eq!(find("config", None, None).await, Vec::<String>::new());
    assert_eq!(find("", Some(EntryKind::Directory), None).await, ["Zed/", "sub/", "sub/deep/"]);
    assert_eq!(find("", None, Some(3)).await.len(), 3);
}
