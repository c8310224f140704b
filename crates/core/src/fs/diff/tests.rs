use proptest::prelude::*;

use super::*;

/// Applies a patch as `patch` does, exactly.
fn apply(before: &str, patch: &str) -> String {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let mut out = String::new();
    let mut at = 0;
    let mut lines = patch.split_inclusive('\n').skip(2).peekable();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("@@ -") {
            let (start, n) = parse_position(rest.split(' ').next().unwrap());
            let start = if n == 0 { start } else { start - 1 };
            out.push_str(&old[at..start].concat());
            at = start;
            continue;
        }
        let (mark, text) = line.split_at(1);
        let text = if lines.peek().is_some_and(|next| next.starts_with("\\ ")) {
            lines.next();
            text.strip_suffix('\n').unwrap()
        } else {
            text
        };
        if mark != "+" {
            assert_eq!(old[at], text);
            at += 1;
        }
        if mark != "-" {
            out.push_str(text);
        }
    }
    out + &old[at..].concat()
}

fn parse_position(text: &str) -> (usize, usize) {
    match text.split_once(',') {
        Some((start, n)) => (start.parse().unwrap(), n.parse().unwrap()),
        None => (text.parse().unwrap(), 1),
    }
}

#[test]
fn a_change_in_the_middle() {
    let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let after = before.replace("5\n", "five\n");
    let expect = "--- a/f\n+++ b/f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n";
    let found = diff("f", Some(before), Some(&after));
    assert_eq!((found.patch.as_str(), found.additions, found.deletions), (expect, 1, 1));
}

#[test]
fn new_gone_and_same() {
    let added = diff("a b", None, Some("x"));
    assert_eq!(added.patch, "--- /dev/null\n+++ b/a b\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n");
    assert_eq!(added.status, FileStatus::Added);
    let gone = diff("a\nb", Some("x\n"), None);
    assert_eq!(gone.patch, "--- \"a/a\\nb\"\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n");
    assert_eq!(diff("f", Some("x"), Some("x")).patch, "");
    assert_eq!(diff("f", Some("x\0"), Some("y")), binary_diff("f", Some(b"x\0"), Some(b"y")));
}

#[test]
fn large_files_get_counts() {
    let before = "line\n".repeat(300_000);
    let after = format!("{before}more\n");
    let found = diff("f", Some(&before), Some(&after));
    assert_eq!((found.patch.as_str(), found.additions, found.deletions), ("", 1, 0));
}

proptest! {
    #[test]
    fn applying_the_diff_gives_the_file(
        before in "([ab]{0,2}(\n|\r\n|\r)){0,12}[ab]{0,2}",
        after in "([ab]{0,2}(\n|\r\n|\r)){0,12}[ab]{0,2}",
    ) {
        let found = diff("f", Some(&before), Some(&after));
        if found.patch.is_empty() {
            prop_assert_eq!(before, after);
        } else {
            prop_assert_eq!(apply(&before, &found.patch), after);
        }
    }
}
