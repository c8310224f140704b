use super::*;
use crate::config::testing::Tree;

/// The instruction files of a location as `file: content`.
#[track_caller]
fn check(tree: &Tree, location: &str, worktree: Option<&str>, expect: &[&str]) {
    let state = tree.state(location, worktree);
    let found: Vec<String> = state
        .instructions
        .files
        .iter()
        .map(|file| format!("{}: {}", file.path.strip_prefix(tree.path("")).unwrap().display(), file.content))
        .collect();
    assert_eq!(found, expect);
}

#[test]
fn the_users_file_then_from_near_to_far() {
    let tree = Tree::new(&[
        ("home/.config/abide/AGENTS.md", "global\n"),
        ("home/.config/opencode/AGENTS.md", "not this one"),
        ("AGENTS.md", "above the project"),
        ("project/AGENTS.md", "far"),
        ("project/CLAUDE.md", "hidden by AGENTS.md"),
        ("project/sub/CLAUDE.md", "middle"),
        ("project/sub/deep/AGENTS.md", "near"),
        ("project/sub/deep/er/AGENTS.md", " \n"),
    ]);
    check(
        &tree,
        "project/sub/deep/er",
        Some("project"),
        &[
            "home/.config/abide/AGENTS.md: global",
            "project/sub/deep/AGENTS.md: near",
            "project/sub/CLAUDE.md: middle",
            "project/AGENTS.md: far",
        ],
    );
    check(&tree, "project/sub", None, &["home/.config/abide/AGENTS.md: global", "project/sub/CLAUDE.md: middle"]);
    let tree = tree.with("ABIDE_DISABLE_CLAUDE_CODE", "1").with("ABIDE_DISABLE_PROJECT_CONFIG", "0");
    check(&tree, "project/sub", Some("project"), &["home/.config/abide/AGENTS.md: global", "project/AGENTS.md: far"]);
    let tree = tree.with("ABIDE_DISABLE_PROJECT_CONFIG", "1");
    check(&tree, "project/sub", Some("project"), &["home/.config/abide/AGENTS.md: global"]);
}

#[test]
fn configured_files_belong_to_the_document_that_names_them() {
    let tree = Tree::new(&[
        (
            "home/.config/abide/abide.jsonc",
            r#"{ "instructions": ["rules/*.md", "gone/*.md", "https://example.invalid/x"] }"#,
        ),
        ("home/.config/abide/rules/a.md", "Rule A"),
        ("project/rules/a.md", "Not this one"),
        ("project/sub/abide.json", r#"{ "instructions": ["docs/**/*.md", "~/own.md", "docs/a.md"] }"#),
        ("project/docs/a.md", "doc a"),
        ("project/docs/b/c.md", "doc c"),
        ("project/docs/b/c.txt", "no"),
        ("home/own.md", "own"),
    ]);
    check(
        &tree,
        "project/sub",
        Some("project"),
        &[
            "home/.config/abide/rules/a.md: Rule A",
            "project/docs/a.md: doc a",
            "project/docs/b/c.md: doc c",
            "home/own.md: own",
        ],
    );
    let state = tree.state("project/sub", Some("project"));
    let messages: Vec<&str> = state.diagnostics.iter().map(|found| found.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "the entry \"gone/*.md\" fits no file",
            "the entry \"https://example.invalid/x\" is an address; instructions from addresses are not loaded yet",
        ]
    );
}

#[cfg(unix)]
#[test]
fn links_that_lead_out_and_directories_and_long_files() {
    let tree = Tree::new(&[("outside.md", "outside"), ("project/inside.md", "inside")]);
    std::fs::create_dir_all(tree.path("project/sub/AGENTS.md")).unwrap();
    std::os::unix::fs::symlink(tree.path("outside.md"), tree.path("project/AGENTS.md")).unwrap();
    check(&tree, "project/sub", Some("project"), &[]);
    std::fs::remove_file(tree.path("project/AGENTS.md")).unwrap();
    std::os::unix::fs::symlink("inside.md", tree.path("project/AGENTS.md")).unwrap();
    check(&tree, "project/sub", Some("project"), &["project/AGENTS.md: inside"]);
    std::fs::remove_file(tree.path("project/AGENTS.md")).unwrap();
    tree.write("project/AGENTS.md", "ü".repeat(200 << 10));
    let state = tree.state("project", Some("project"));
    let content = &state.instructions.files[0].content;
    assert!(content.len() < (257 << 10) && content.ends_with("it is too long.]"));
}

#[test]
fn a_source_says_when_it_has_nothing_or_is_not_to_be_read() {
    let gone = instructions(&Instructions::default());
    assert!(matches!(gone.state, SourceState::Removed { text: Some(_) }));
    let unread = instructions(&Instructions { files: Vec::new(), is_incomplete: true });
    assert_eq!(unread.state, SourceState::Unavailable);
    let file = InstructionFile { path: "/p/AGENTS.md".into(), content: "text".to_owned() };
    let SourceState::Available { value, baseline, update } =
        instructions(&Instructions { files: vec![file.clone(), file], is_incomplete: false }).state
    else {
        panic!("not available")
    };
    assert_eq!(value[0]["path"], "/p/AGENTS.md");
    assert_eq!(baseline, "Instructions from: /p/AGENTS.md\ntext\n\nInstructions from: /p/AGENTS.md\ntext");
    assert!(update.ends_with(&baseline));
}
