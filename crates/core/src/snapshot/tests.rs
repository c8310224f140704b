use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::config::testing::Tree;

/// A repository with `a.txt` and `sub/b.txt` committed, and its snapshots for a directory.
fn repository(tree: &Tree) {
    tree.git("project", &["init", "-q"]);
    tree.write("project/a.txt", "one\n");
    tree.write("project/sub/b.txt", "two\n");
    tree.write("project/.gitignore", "ignored*\n");
    tree.git("project", &["add", "-A"]);
    tree.git("project", &["commit", "-q", "-m", "start"]);
}

async fn snapshots(tree: &Tree, location: &str) -> Snapshots {
    let git = Git::new(&tree.world());
    let project = Project::resolve(&tree.path(location), &git).await;
    Snapshots::new(&git, &tree.directories(), &project, &tree.path(location)).unwrap()
}

/// Everything in the user's git directory, by content.
fn git_files(tree: &Tree) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut out = BTreeMap::new();
    let mut folders = vec![tree.path("project/.git")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                out.insert(entry.path(), fs::read(entry.path()).unwrap());
            }
        }
    }
    out
}

#[tokio::test]
async fn changes_between_two_snapshots() {
    let tree = Tree::new(&[]);
    repository(&tree);
    let snapshots = snapshots(&tree, "project").await;
    let first = snapshots.try_capture().await.unwrap();
    assert_eq!(snapshots.try_capture().await.unwrap(), first);
    assert_eq!(first, tree.git("project", &["rev-parse", "HEAD^{tree}"]));
    tree.write("project/a.txt", "one\nmore\n");
    tree.write("project/new file ü\".txt", "new\n");
    tree.write("project/binary", [0, 1, 2]);
    fs::remove_file(tree.path("project/sub/b.txt")).unwrap();
    let second = snapshots.try_capture().await.unwrap();
    assert_eq!(snapshots.files(&first, &second).await.unwrap(), ["a.txt", "binary", "new file ü\".txt", "sub/b.txt"]);
    let shown: Vec<String> = snapshots
        .diff(&first, &second)
        .await
        .unwrap()
        .into_iter()
        .map(|change| {
            let body: String = change
                .patch
                .lines()
                .filter(|line| line.starts_with(['+', '-', ' ']))
                .skip(2)
                .collect::<Vec<_>>()
                .join("|");
            format!("{} {:?} +{} -{} {body}", change.file, change.kind, change.additions, change.deletions)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "a.txt Modified +1 -0  one|+more",
            "binary Added +0 -0 ",
            "new file ü\".txt Added +1 -0 +new",
            "sub/b.txt Deleted +0 -1 -two",
        ]
    );
    assert_eq!(snapshots.files(&first, &first).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn the_users_repository_is_not_touched() {
    let tree = Tree::new(&[]);
    repository(&tree);
    tree.write("project/staged.txt", "staged\n");
    tree.git("project", &["add", "staged.txt"]);
    tree.write("project/a.txt", "changed\n");
    let (before, status) = (git_files(&tree), tree.git("project", &["--no-optional-locks", "status", "--porcelain"]));
    let snapshots = snapshots(&tree, "project").await;
    snapshots.try_capture().await.unwrap();
    tree.write("project/untracked.txt", "u\n");
    let last = snapshots.try_capture().await.unwrap();
    snapshots.past(&last, &["a.txt".to_owned()]).await.unwrap();
    fs::remove_file(tree.path("project/untracked.txt")).unwrap();
    let after: BTreeMap<_, _> =
        git_files(&tree).into_iter().filter(|(path, _)| !path.ends_with(".git/abide")).collect();
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert!(before == after, "a file of the git directory changed");
    assert_eq!(tree.git("project", &["--no-optional-locks", "status", "--porcelain"]), status);
}

#[tokio::test]
async fn ignored_large_and_foreign_files_are_left_out() {
    let tree = Tree::new(&[]);
    repository(&tree);
    tree.write("project/.git/info/exclude", "excluded\n");
    let snapshots = snapshots(&tree, "project").await;
    let first = snapshots.try_capture().await.unwrap();
    tree.write("project/ignored.txt", "x");
    tree.write("project/excluded", "x");
    tree.write("project/large.bin", vec![1; 3 << 20]);
    tree.git("project", &["init", "-q", "nested"]);
    tree.write("project/nested/file", "x");
    assert_eq!(snapshots.try_capture().await.unwrap(), first);
    tree.write("project/small.txt", "x");
    let second = snapshots.try_capture().await.unwrap();
    assert_eq!(snapshots.files(&first, &second).await.unwrap(), ["small.txt"]);
}

#[tokio::test]
async fn a_location_below_the_root_sees_its_own_files() {
    let tree = Tree::new(&[]);
    repository(&tree);
    let (whole, part) = (snapshots(&tree, "project").await, snapshots(&tree, "project/sub").await);
    let first = part.try_capture().await.unwrap();
    tree.write("project/a.txt", "changed outside\n");
    tree.write("project/sub/b.txt", "changed inside\n");
    let second = part.try_capture().await.unwrap();
    assert_eq!(part.files(&first, &second).await.unwrap(), ["b.txt"]);
    let third = whole.try_capture().await.unwrap();
    assert_eq!(whole.files(&first, &third).await.unwrap(), ["a.txt", "sub/b.txt"]);
    assert_eq!(
        part.past(&first, &["b.txt".to_owned()]).await.unwrap(),
        [("b.txt".to_owned(), Past::File { content: b"two\n".to_vec(), is_executable: false })]
    );
}

#[cfg(unix)]
#[tokio::test]
async fn what_files_were() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let tree = Tree::new(&[]);
    repository(&tree);
    symlink("a.txt", tree.path("project/link")).unwrap();
    symlink(tree.path("home"), tree.path("project/out")).unwrap();
    tree.write("project/run.sh", "#!/bin/sh\r\n");
    fs::set_permissions(tree.path("project/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let snapshots = snapshots(&tree, "project").await;
    let taken = snapshots.try_capture().await.unwrap();
    let paths = ["a.txt", "link", "run.sh", "gone"].map(str::to_owned);
    let past: Vec<Past> = snapshots.past(&taken, &paths).await.unwrap().into_iter().map(|(_, past)| past).collect();
    assert_eq!(
        past,
        [
            Past::File { content: b"one\n".to_vec(), is_executable: false },
            Past::Link { target: b"a.txt".to_vec() },
            Past::File { content: b"#!/bin/sh\r\n".to_vec(), is_executable: true },
            Past::Missing,
        ]
    );
    for path in ["../x", "/etc/passwd", "a/../../x", "", "out/x", "a//b"] {
        let result = snapshots.past(&taken, &[path.to_owned()]).await;
        assert!(matches!(result, Err(SnapshotError::Escape { .. })), "{path}");
    }
    for tree in ["--help", "HEAD", ""] {
        assert!(snapshots.files(&taken, tree).await.is_err());
    }
}

#[tokio::test]
async fn variables_of_a_hook_do_not_lead_elsewhere() {
    let tree = Tree::new(&[]);
    repository(&tree);
    let before = git_files(&tree);
    let tree = tree.with("GIT_DIR", "ROOT/project/.git").with("GIT_INDEX_FILE", "ROOT/project/.git/index");
    let world = tree.world();
    let git = Git::new(&world);
    let project = Project::resolve(&tree.path("project"), &git).await;
    let snapshots = Snapshots::new(&git, &tree.directories(), &project, &tree.path("project")).unwrap();
    tree.write("project/a.txt", "changed\n");
    snapshots.try_capture().await.unwrap();
    let index = tree.path("project/.git/index");
    assert_eq!(before[&index], fs::read(&index).unwrap());
}

#[tokio::test]
async fn a_repository_without_commits_and_one_with_conflicts() {
    let tree = Tree::new(&[]);
    tree.git("project", &["init", "-q"]);
    tree.write("project/x", "x");
    let taken = snapshots(&tree, "project").await;
    let first = taken.try_capture().await.unwrap();
    tree.write("project/y", "y");
    let second = taken.try_capture().await.unwrap();
    assert_eq!(taken.files(&first, &second).await.unwrap(), ["y"]);

    let tree = Tree::new(&[]);
    repository(&tree);
    tree.git("project", &["checkout", "-q", "-b", "other"]);
    tree.write("project/a.txt", "theirs\n");
    tree.git("project", &["commit", "-qam", "theirs"]);
    tree.git("project", &["checkout", "-q", "-"]);
    tree.write("project/a.txt", "ours\n");
    tree.git("project", &["commit", "-qam", "ours"]);
    let merged =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tree.git("project", &["merge", "-q", "other"])));
    assert!(merged.is_err(), "the merge must conflict");
    let snapshots = snapshots(&tree, "project").await;
    let first = snapshots.try_capture().await.unwrap();
    tree.write("project/a.txt", "solved\n");
    let second = snapshots.try_capture().await.unwrap();
    assert_eq!(snapshots.files(&first, &second).await.unwrap(), ["a.txt"]);
}

#[tokio::test]
async fn what_goes_wrong_gives_no_snapshot() {
    let tree = Tree::new(&[]);
    repository(&tree);
    // A file in the place of the directory.
    tree.write("home/.local/share/abide/snapshot", "in the way");
    let snapshots = snapshots(&tree, "project").await;
    assert_eq!(snapshots.capture().await, None);
    let project = Project::resolve(&tree.path("home"), &Git::new(&tree.world())).await;
    assert!(Snapshots::new(&Git::new(&tree.world()), &tree.directories(), &project, &tree.path("home")).is_none());
}

#[tokio::test]
async fn an_index_that_cannot_be_used_is_made_anew() {
    let tree = Tree::new(&[]);
    repository(&tree);
    let snapshots = snapshots(&tree, "project").await;
    let first = snapshots.try_capture().await.unwrap();
    fs::write(snapshots.inner.directory.join("index"), "nonsense").unwrap();
    fs::write(snapshots.inner.directory.join("index.lock"), "").unwrap();
    assert_eq!(snapshots.try_capture().await.unwrap(), first);
}
