//! Snapshots of a working tree of 10,000 files.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use abide_core::config::Directories;
use abide_core::git::Git;
use abide_core::project::Project;
use abide_core::snapshot::Snapshots;
use abide_core::world::World;
use tokio::runtime::Runtime;

use crate::table::{Table, median, ms};

/// Files of the tree, and how many stand in one folder.
const FILES: usize = 10_000;
const FOLDER: usize = 100;
/// Snapshots that are timed.
const TIMES: usize = 21;

/// Times the first snapshot, those with nothing changed, one with one file changed, and `git status` beside them.
pub(crate) fn unchanged(runtime: &Runtime, table: &mut Table) -> Result<(), String> {
    let root = tempfile::tempdir().map_err(|error| error.to_string())?;
    let root = root.path().canonicalize().map_err(|error| error.to_string())?;
    let project = root.join("project");
    make(&project).map_err(|error| error.to_string())?;
    let world = World::real();
    let git = Git::new(&world);
    let mut directories = Directories::new(&world).map_err(|error| error.to_string())?;
    directories.data = root.join("data");
    let found = runtime.block_on(Project::resolve(&project, &git));
    let snapshots = Snapshots::new(&git, &directories, &found, &project).ok_or("no repository")?;
    let capture = || -> Result<Duration, String> {
        let start = Instant::now();
        runtime.block_on(snapshots.try_capture()).map_err(|error| error.to_string())?;
        Ok(start.elapsed())
    };
    let first = capture()?;
    let same: Vec<Duration> = (0..TIMES).map(|_| capture()).collect::<Result<_, _>>()?;
    let changed: Vec<Duration> = (0..TIMES)
        .map(|n| {
            std::fs::write(project.join("f0/0.txt"), format!("changed {n}\n")).map_err(|error| error.to_string())?;
            capture()
        })
        .collect::<Result<_, String>>()?;
    let status: Vec<Duration> = (0..TIMES)
        .map(|_| {
            let start = Instant::now();
            run(&project, &["status", "--porcelain"]).map_err(|error| error.to_string())?;
            Ok(start.elapsed())
        })
        .collect::<Result<_, String>>()?;
    table.row("snapshot of 10,000 files, nothing changed, median", "under 15 ms", &ms(median(&same)));
    table.row("the same, the first one", "–", &ms(first));
    table.row("the same, one file changed, median", "–", &ms(median(&changed)));
    table.row("`git status` of the same files, median", "–", &ms(median(&status)));
    Ok(())
}

fn make(project: &Path) -> std::io::Result<()> {
    for n in 0..FILES {
        let folder = project.join(format!("f{}", n / FOLDER));
        if n.is_multiple_of(FOLDER) {
            std::fs::create_dir_all(&folder)?;
        }
        std::fs::write(folder.join(format!("{}.txt", n % FOLDER)), format!("file {n}\n"))?;
    }
    run(project, &["init", "-q"])?;
    run(project, &["add", "-A"])?;
    run(project, &["-c", "user.name=a", "-c", "user.email=a@b.invalid", "commit", "-q", "-m", "start"])
}

fn run(directory: &Path, arguments: &[&str]) -> std::io::Result<()> {
    let output = Command::new("git").args(arguments).current_dir(directory).output()?;
    if output.status.success() { Ok(()) } else { Err(std::io::Error::other("git failed")) }
}
