use std::fs;
use std::os::unix::fs::symlink;

use abide_schema::ProjectId;
use abide_schema::location::ProjectRef;
use tempfile::TempDir;

use super::*;

/// `home/`, `repo/` (a project) with the location `repo/app`, `outside/` (a project) beside it.
struct Tree {
    root: TempDir,
    access: Access,
}

impl Tree {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        for directory in ["home", "repo/.git", "repo/app/src", "repo/lib", "outside/.git", "outside/deep/er"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        for file in ["repo/app/src/a.rs", "repo/lib/b.rs", "outside/deep/c.rs", "home/d.txt"] {
            fs::write(root.path().join(file), file).unwrap();
        }
        let location = LocationInfo {
            directory: root.path().join("repo/app").to_str().unwrap().into(),
            workspace_id: None,
            project: ProjectRef {
                id: ProjectId::new("p"),
                directory: root.path().join("repo").to_str().unwrap().into(),
            },
        };
        let access = Access::open(&location, Some(root.path().canonicalize().unwrap().join("home"))).unwrap();
        Self { root, access }
    }

    fn link(&self, link: &str, target: &str) {
        symlink(target.replace("ROOT", self.root.path().to_str().unwrap()), self.root.path().join(link)).unwrap();
    }

    fn short(&self, text: &str) -> String {
        let real = self.root.path().canonicalize().unwrap();
        text.replace(real.to_str().unwrap(), "ROOT").replace(self.root.path().to_str().unwrap(), "ROOT")
    }

    /// What rules see, and what is asked because it lies outside: `<directory>, saved as <pattern>`.
    fn describe(&self, path: &str, wanted: Wanted) -> String {
        let path = path.replace("ROOT", self.root.path().to_str().unwrap());
        let text = match self.access.resolve_blocking(&path, wanted) {
            Ok(Target { resource, alias, external, .. }) => {
                let alias = alias.map(|alias| format!(" alias {alias}")).unwrap_or_default();
                let external = external.map(|border| format!(" asks {} saves {}", border.resource, border.save));
                format!("{resource}{alias}{}", external.unwrap_or_default())
            }
            Err(error) => format!("error: {error}"),
        };
        self.short(&text)
    }
}

#[track_caller]
fn check(tree: &Tree, path: &str, expect: &str) {
    assert_eq!(tree.describe(path, Wanted::File), expect, "{path}");
}

#[test]
fn one_place_has_one_name() {
    let tree = Tree::new();
    for path in ["src/a.rs", "./src/../src/a.rs", "src//a.rs", "src/a.rs/", "ROOT/repo/app/src/a.rs", "x/../src/a.rs"] {
        check(&tree, path, "src/a.rs");
    }
    check(&tree, ".", ".");
    check(&tree, "ROOT/repo/app", ".");
    check(&tree, "..\\x", "..\\x");
    check(&tree, "a\nb", "a\nb");
    check(&tree, "-n.txt", "-n.txt");
    check(&tree, "new/dir/file", "new/dir/file");
    check(&tree, "~x", "~x");
}

#[test]
fn the_project_is_the_border() {
    let tree = Tree::new();
    check(&tree, "../lib/b.rs", "../lib/b.rs");
    check(&tree, "..", "..");
    check(&tree, "../new", "../new");
    check(&tree, "../../outside/deep/c.rs", "ROOT/outside/deep/c.rs asks ROOT/outside/deep/* saves ROOT/outside/*");
    check(&tree, "../../repo2/x", "ROOT/repo2/x asks ROOT/repo2/* saves ROOT/repo2/*");
    check(&tree, "~", "ROOT/home asks ROOT/home/* saves ROOT/home/*");
    check(&tree, "~/d.txt", "ROOT/home/d.txt asks ROOT/home/* saves ROOT/home/*");
    check(&tree, "/", "/ asks /* saves /*");
    assert_eq!(
        tree.describe("../../outside/deep", Wanted::Directory),
        "ROOT/outside/deep asks ROOT/outside/deep/* saves ROOT/outside/*"
    );
    assert_eq!(
        tree.describe("../../outside/none", Wanted::Directory),
        "ROOT/outside/none asks ROOT/outside/none/* saves ROOT/outside/*"
    );
}

#[test]
fn the_real_place_counts() {
    let tree = Tree::new();
    tree.link("repo/app/outbox", "ROOT/outside");
    tree.link("repo/app/inner", "src/a.rs");
    tree.link("outside/back", "ROOT/repo/app/src");
    tree.link("repo/app/dangling", "../../outside/new");
    tree.link("repo/app/hop", "dangling");
    tree.link("repo/app/loop1", "loop2");
    tree.link("repo/app/loop2", "loop1");
    check(&tree, "outbox/f", "ROOT/outside/f asks ROOT/outside/* saves ROOT/outside/*");
    check(&tree, "outbox/n/f", "ROOT/outside/n/f asks ROOT/outside/n/* saves ROOT/outside/*");
    check(&tree, "inner", "src/a.rs alias inner");
    check(&tree, "../../outside/back/a.rs", "src/a.rs");
    check(&tree, "dangling", "ROOT/outside/new asks ROOT/outside/* saves ROOT/outside/*");
    check(&tree, "hop", "ROOT/outside/new asks ROOT/outside/* saves ROOT/outside/*");
    check(&tree, "loop1", "error: loop1 leads through too many links");
}

#[test]
fn a_location_behind_a_link_gives_no_second_name() {
    let tree = Tree::new();
    tree.link("short", "repo/app");
    let location = LocationInfo {
        directory: tree.root.path().join("short").to_str().unwrap().into(),
        workspace_id: None,
        project: ProjectRef {
            id: ProjectId::new("p"),
            directory: tree.root.path().join("repo").to_str().unwrap().into(),
        },
    };
    let access = Access::open(&location, None).unwrap();
    for path in ["src/a.rs".to_owned(), tree.root.path().join("repo/app/src/a.rs").to_str().unwrap().to_owned()] {
        let target = access.resolve_blocking(&path, Wanted::File).unwrap();
        assert_eq!((target.resource.as_str(), target.alias), ("src/a.rs", None), "{path}");
    }
}

#[test]
fn what_is_no_path_is_refused_before_any_question() {
    let tree = Tree::new();
    check(&tree, "", "error: \"\" is not a path");
    check(&tree, "a\0b", "error: \"a\\0b\" is not a path");
    check(&tree, "src/a.rs/x", "error: a parent of src/a.rs/x is not a directory");
    check(&tree, "src/a.rs/x/y", "error: a parent of src/a.rs/x/y is not a directory");
}

#[tokio::test]
async fn a_change_during_approval_is_seen() {
    let tree = Tree::new();
    let file = tree.access.resolve("src/a.rs", Wanted::File).await.unwrap();
    let new = tree.access.resolve("src/new.rs", Wanted::File).await.unwrap();
    tree.access.recheck(&file).await.unwrap();
    tree.access.recheck(&new).await.unwrap();

    fs::write(tree.root.path().join("repo/app/src/new.rs"), "").unwrap();
    assert!(matches!(tree.access.recheck(&new).await, Err(AccessError::Changed { .. })));

    fs::remove_file(tree.root.path().join("repo/app/src/a.rs")).unwrap();
    tree.link("repo/app/src/a.rs", "ROOT/outside/deep/c.rs");
    assert!(matches!(tree.access.recheck(&file).await, Err(AccessError::Changed { .. })));
}

#[test]
fn one_question_for_one_border() {
    let tree = Tree::new();
    let targets: Vec<Target> = ["../../outside/x", "src/a.rs", "../../outside/y", "~/d.txt"]
        .iter()
        .map(|path| tree.access.resolve_blocking(path, Wanted::File).unwrap())
        .collect();
    let asked: Vec<String> = externals(&targets).into_iter().map(|border| tree.short(&border.resource)).collect();
    assert_eq!(asked, ["ROOT/outside/*", "ROOT/home/*"]);
}
