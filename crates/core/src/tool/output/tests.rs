//! Scenarios O1 to O15 of spec/tools.md section 16, as far as they concern text.

use std::path::Path;
use std::time::{Duration, SystemTime};

use abide_schema::tool::{Content, ToolResult, joined_text};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::tool::leaf::Keep;
use crate::tool::testing::Bench;

struct Bounded {
    result: ToolResult,
    file: Option<String>,
    path: String,
    _bench: Bench,
}

impl Bounded {
    /// The text parts, with the path of the file written as PATH.
    fn texts(&self) -> Vec<String> {
        let named = |text: &str| if self.path.is_empty() { text.to_owned() } else { text.replace(&self.path, "PATH") };
        self.result.content.iter().filter_map(Content::as_text).map(named).collect()
    }
}

async fn bounded(content: Vec<Content>, keep: Keep, limits: OutputLimits) -> Bounded {
    let bench = Bench::new("/work/site", Vec::new());
    let files = OutputFiles::new(bench.world.clone(), bench.data.path());
    let mut result = ToolResult { output: Some(json!({ "a": 1 })), content, metadata: None };
    let path = bound(&mut result, keep, limits, &files).await.unwrap();
    assert_eq!(result.output, Some(json!({ "a": 1 })));
    let file = path.as_ref().map(|path| std::fs::read_to_string(path).unwrap());
    let path = path.map(|path| path.display().to_string()).unwrap_or_default();
    Bounded { result, file, path, _bench: bench }
}

fn limits(lines: usize, bytes: usize) -> OutputLimits {
    OutputLimits { lines, bytes }
}

fn lines(range: std::ops::Range<usize>) -> String {
    format!("{}\n", range.map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n"))
}

#[track_caller]
fn check(text: &str, keep: Keep, limits: OutputLimits, expected: &[&str]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let out = runtime.block_on(bounded(vec![Content::text(text)], keep, limits));
    assert_eq!(out.texts(), expected);
    assert_eq!(out.file.as_deref(), (expected.len() > 1).then_some(text));
}

#[tokio::test]
async fn o1_one_line_too_many() {
    let text = lines(0..2001);
    let out = bounded(vec![Content::text(text.clone())], Keep::Head, OutputLimits::default()).await;
    assert_eq!(out.texts(), [lines(0..2000).trim_end(), "[1 line cut; complete text in PATH]"]);
    assert_eq!(out.file, Some(text));
    let metadata = out.result.metadata.clone().unwrap();
    assert_eq!(metadata["truncated"], true);
    assert_eq!(metadata["outputPath"], out.path);
    assert_eq!(metadata["outputID"], Path::new(&out.path).file_name().unwrap().to_str().unwrap());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(Path::new(&out.path)), 0o600);
        assert_eq!(mode(Path::new(&out.path).parent().unwrap()), 0o700);
    }
}

#[test]
fn o2_o3_limits_of_lines_and_bytes() {
    let head = Keep::Head;
    check("abc", head, limits(1, 3), &["abc"]);
    check("abc\n", head, limits(1, 4), &["abc\n"]);
    check("a\nb\n", head, limits(2, 4), &["a\nb\n"]);
    check("abcd", head, limits(1, 3), &["abc", "[1 byte cut; complete text in PATH]"]);
    check("ab\ncd\nef", head, limits(9, 6), &["ab\ncd", "[2 bytes cut; complete text in PATH]"]);
    check("aé€x", head, limits(9, 5), &["aé", "[4 bytes cut; complete text in PATH]"]);
    check("a\nb\nc", head, limits(1, 99), &["a", "[2 lines cut; complete text in PATH]"]);
    check(
        &"x".repeat(61_440),
        head,
        OutputLimits::default(),
        &[&"x".repeat(51_200), "[10240 bytes cut; complete text in PATH]"],
    );
}

#[test]
fn a_tail_keeps_the_end() {
    let tail = Keep::Tail;
    check("a\nb\nc\n", tail, limits(2, 99), &["[1 line cut; complete text in PATH]", "b\nc\n"]);
    check("aaaa\nbb\ncc", tail, limits(9, 6), &["[5 bytes cut; complete text in PATH]", "bb\ncc"]);
    check("x€éa", tail, limits(9, 5), &["[4 bytes cut; complete text in PATH]", "éa"]);
}

#[tokio::test]
async fn o4_files_stay_where_they_are() {
    let image =
        Content::File { uri: "data:image/png;base64,AA==".to_owned(), mime: "image/png".to_owned(), name: None };
    let content =
        || vec![Content::text("a\nb"), image.clone(), Content::text("c\nd\ne"), image.clone(), Content::text("f")];
    let out = bounded(content(), Keep::Head, limits(4, 99)).await;
    assert_eq!(out.texts(), ["a\nb", "c\nd", "[2 lines cut; complete text in PATH]"]);
    let is_file: Vec<bool> = out.result.content.iter().map(|part| part.as_text().is_none()).collect();
    assert_eq!(is_file, [false, true, false, false, true]);
    let out = bounded(content(), Keep::Tail, limits(2, 99)).await;
    assert_eq!(out.texts(), ["[4 lines cut; complete text in PATH]", "e", "f"]);
    assert_eq!(out.file.as_deref(), Some("a\nb\nc\nd\ne\nf"));
}

#[tokio::test]
async fn o5_a_producer_that_bounded_itself_is_left_alone() {
    let bench = Bench::new("/work/site", Vec::new());
    let files = OutputFiles::new(bench.world.clone(), bench.data.path());
    let metadata = abide_schema::JsonObject::from_iter([("truncated".to_owned(), json!(true))]);
    let mut result = ToolResult { output: None, content: vec![Content::text("a\nb")], metadata: Some(metadata) };
    let before = result.clone();
    assert_eq!(bound(&mut result, Keep::Head, limits(1, 1), &files).await.unwrap(), None);
    assert_eq!(result, before);
}

#[tokio::test]
async fn o8_an_unfinished_file_is_removed() {
    let bench = Bench::new("/work/site", Vec::new());
    let files = OutputFiles::new(bench.world.clone(), bench.data.path());
    let mut file = files.create().await.unwrap();
    file.write(b"half").await.unwrap();
    let path = file.path().to_path_buf();
    assert!(path.exists());
    drop(file);
    assert!(!path.exists());
}

#[tokio::test]
async fn o10_the_sweep_takes_old_managed_files_only() {
    let bench = Bench::new("/work/site", Vec::new());
    let files = OutputFiles::new(bench.world.clone(), bench.data.path());
    let kept = files.write(b"new").await.unwrap();
    let directory = files.directory();
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(bench.world.now().as_millis()).unwrap());
    let age = |path: &Path, days: u64| {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(now - Duration::from_hours(24 * days)).unwrap();
    };
    age(&kept, 6);
    let mut expected = vec![kept.file_name().unwrap().to_str().unwrap().to_owned()];
    for (name, days, stays) in [
        ("tool_0123456789abXYZ", 8, false),
        ("tool_xyz", 8, true),
        ("notes.txt", 8, true),
        ("tool_0123456789ac1", 6, true),
    ] {
        std::fs::write(directory.join(name), "x").unwrap();
        age(&directory.join(name), days);
        if stays {
            expected.push(name.to_owned());
        }
    }
    assert_eq!(files.sweep().await, 1);
    let mut left: Vec<String> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    expected.sort();
    assert_eq!(left, expected);
}

proptest! {
    /// Law 11, and that what is kept is a part of the text within the limits.
    #[test]
    fn what_is_kept_is_within_the_limits(
        parts in proptest::collection::vec("[a€\n]{1,12}", 1..4),
        n_lines in 1usize..5,
        n_bytes in 4usize..20,
        tail in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let content: Vec<Content> = parts.iter().map(Content::text).collect();
        let text = joined_text(&content);
        let keep = if tail { Keep::Tail } else { Keep::Head };
        let out = runtime.block_on(bounded(content, keep, limits(n_lines, n_bytes)));
        let is_over = text.len() > n_bytes || text.lines().count() > n_lines;
        prop_assert_eq!(out.file.is_some(), is_over);
        if is_over {
            prop_assert_eq!(out.file.as_deref(), Some(text.as_str()));
            let mut kept = out.texts();
            let marker = kept.iter().position(|part| part.starts_with('[')).unwrap();
            kept.remove(marker);
            let kept = kept.join("\n");
            prop_assert!(kept.len() <= n_bytes + 1, "{kept:?}");
            prop_assert!(kept.lines().count() <= n_lines, "{kept:?}");
            let is_end = if tail { text.ends_with(&kept) } else { text.starts_with(&kept) };
            prop_assert!(is_end, "{kept:?} of {text:?}");
        }
    }
}
