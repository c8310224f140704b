use std::fs;

use super::*;
use crate::config::testing::Tree;

async fn resolve(tree: &Tree, directory: &str) -> Project {
    Project::resolve(&tree.path(directory), &Git::new(&tree.world())).await
}

fn commit(tree: &Tree, directory: &str) -> String {
    tree.git(directory, &["commit", "-q", "--allow-empty", "-m", "x"]);
    tree.git(directory, &["rev-parse", "HEAD"])
}

#[tokio::test]
async fn a_directory_without_version_control_is_global() {
    let tree = Tree::new(&[]);
    let project = resolve(&tree, "project").await;
    assert_eq!((project.id.as_str(), project.directory.as_path()), (GLOBAL, Path::new("/")));
}

#[tokio::test]
async fn the_first_commit_names_the_project_and_is_kept() {
    let tree = Tree::new(&[("project/sub/x", "")]);
    tree.git("project", &["init", "-q"]);
    let empty = resolve(&tree, "project").await;
    assert_ne!(empty.id.as_str(), GLOBAL);
    assert_eq!(empty, resolve(&tree, "project").await);
    let first = commit(&tree, "project");
    let project = resolve(&tree, "project/sub").await;
    assert_eq!(project.id.as_str(), first);
    assert_eq!(project.directory, tree.path("project"));
    assert_eq!(project.previous, Some(empty.id));
    assert_eq!(fs::read_to_string(tree.path("project/.git/abide")).unwrap(), first);
    // An orphan branch changes nothing, and git is not asked again.
    tree.git("project", &["checkout", "-q", "--orphan", "other"]);
    commit(&tree, "project");
    let again = resolve(&tree, "project").await;
    assert_eq!((again.id.as_str(), again.previous), (first.as_str(), None));
}

#[tokio::test]
async fn working_trees_of_one_repository_share_the_project() {
    let tree = Tree::new(&[]);
    tree.git("project", &["init", "-q"]);
    let first = commit(&tree, "project");
    tree.git("project", &["worktree", "add", "-q", &tree.path("other").display().to_string()]);
    let other = resolve(&tree, "other").await;
    assert_eq!((other.id.as_str(), other.directory), (first.as_str(), tree.path("other")));
    let repository = other.repository.unwrap();
    assert_eq!(repository.common_dir, tree.path("project/.git"));
    assert_eq!(repository.git_dir, tree.path("project/.git/worktrees/other"));
}

#[tokio::test]
async fn a_repository_that_cannot_be_written_works_as_well() {
    let tree = Tree::new(&[]);
    tree.git("project", &["init", "-q"]);
    let first = commit(&tree, "project");
    // A directory in the place of the file stands for every reason.
    fs::create_dir(tree.path("project/.git/abide")).unwrap();
    assert_eq!(resolve(&tree, "project").await.id.as_str(), first);
}

#[tokio::test]
async fn an_id_that_another_program_kept_counts() {
    let tree = Tree::new(&[]);
    tree.git("project", &["init", "-q"]);
    commit(&tree, "project");
    for (content, expect) in [("not an id!", None), ("0123456789abcdef", Some("0123456789abcdef"))] {
        fs::write(tree.path("project/.git/opencode"), content).unwrap();
        let found = Repository::find(&tree.path("project")).unwrap().kept_id();
        assert_eq!(found.as_ref().map(ProjectId::as_str), expect);
    }
}

#[test]
fn bare_repositories_and_broken_pointers() {
    let tree = Tree::new(&[("project/x/.git", "gitdir: ../gone\n"), ("project/y/.git", "nonsense")]);
    assert_eq!(Repository::find(&tree.path("project/x")), None);
    assert_eq!(Repository::find(&tree.path("project/y")), None);
    tree.git("", &["init", "-q", "--bare", "bare"]);
    assert!(Repository::find(&tree.path("bare")).unwrap().is_bare);
}
