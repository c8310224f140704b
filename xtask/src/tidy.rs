//! What must hold of the workspace and no compiler checks.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::{generate, sh};

/// Which of our crates a crate may depend on (design: crates and edges).
const EDGES: &[(&str, &[&str])] = &[
    ("abide-schema", &[]),
    ("abide-ai", &["abide-schema"]),
    ("abide-protocol", &["abide-schema"]),
    ("abide-codemode", &["abide-schema"]),
    ("abide-plugin", &["abide-schema", "abide-ai"]),
    ("abide-core", &["abide-schema", "abide-ai", "abide-plugin", "abide-codemode"]),
    ("abide-server", &["abide-schema", "abide-protocol", "abide-core"]),
    ("abide", &["abide-schema", "abide-ai", "abide-protocol", "abide-core", "abide-server"]),
];

/// Crates that a crate must not see, whatever brings them.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("abide-schema", &["tokio", "rusqlite", "reqwest", "axum"]),
    ("abide-ai", &["rusqlite", "axum"]),
    ("abide-protocol", &["axum", "rusqlite"]),
    ("abide-core", &["axum", "clap"]),
    ("abide-server", &["clap"]),
];

/// Lines of a source file; generated code and tables of data are no source files.
const MAX_LINES: usize = 1000;
/// Packages in the lock file.
const MAX_PACKAGES: usize = 420;

pub(crate) fn run() -> Result<(), String> {
    let mut complaints = Vec::new();
    edges(&mut complaints)?;
    files(&mut complaints)?;
    if complaints.is_empty() {
        generate::run(true)?;
        println!("tidy: ok");
        return Ok(());
    }
    complaints.sort();
    Err(format!("not tidy:\n  {}", complaints.join("\n  ")))
}

fn edges(complaints: &mut Vec<String>) -> Result<(), String> {
    let metadata =
        cargo_metadata::MetadataCommand::new().current_dir(sh::root()).exec().map_err(|error| error.to_string())?;
    if metadata.packages.len() > MAX_PACKAGES {
        complaints.push(format!("{} packages in Cargo.lock, at most {MAX_PACKAGES}", metadata.packages.len()));
    }
    let names: BTreeMap<_, _> =
        metadata.packages.iter().map(|package| (package.id.clone(), package.name.to_string())).collect();
    let allowed: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    for package in metadata.workspace_packages() {
        let Some(may) = allowed.get(package.name.as_str()) else { continue };
        for dependency in &package.dependencies {
            let normal = dependency.kind == cargo_metadata::DependencyKind::Normal;
            let ours = allowed.contains_key(dependency.name.as_str());
            if normal && ours && !may.contains(&dependency.name.as_str()) {
                complaints.push(format!("{} must not depend on {}", package.name, dependency.name));
            }
        }
    }
    let graph = metadata.resolve.as_ref().ok_or("cargo metadata has no graph")?;
    for (crate_name, forbidden) in FORBIDDEN {
        let mut open: Vec<_> =
            graph.nodes.iter().filter(|node| names.get(&node.id).is_some_and(|name| name == crate_name)).collect();
        let mut seen = std::collections::BTreeSet::new();
        while let Some(node) = open.pop() {
            for dependency in &node.deps {
                let normal =
                    dependency.dep_kinds.iter().any(|kind| kind.kind == cargo_metadata::DependencyKind::Normal);
                if !normal || !seen.insert(dependency.pkg.clone()) {
                    continue;
                }
                if let Some(name) = names.get(&dependency.pkg)
                    && forbidden.contains(&name.as_str())
                {
                    // Features are unified over the workspace: only a direct edge counts where a feature may bring it.
                    let direct = names.get(&node.id).is_some_and(|name| name == crate_name);
                    if direct && !is_optional(&metadata, crate_name, name) {
                        complaints.push(format!("{crate_name} must not see {name}"));
                    }
                }
                open.extend(graph.nodes.iter().filter(|next| next.id == dependency.pkg));
            }
        }
    }
    Ok(())
}

fn is_optional(metadata: &cargo_metadata::Metadata, crate_name: &str, dependency: &str) -> bool {
    metadata
        .workspace_packages()
        .into_iter()
        .filter(|package| package.name.as_str() == crate_name)
        .flat_map(|package| &package.dependencies)
        .any(|edge| edge.name == dependency && edge.optional)
}

fn files(complaints: &mut Vec<String>) -> Result<(), String> {
    let root = sh::root();
    let list = sh::output(Command::new("git").args(["ls-files"]).current_dir(&root))?;
    // Spelled in halves, so that this file does not name them.
    let words: Vec<String> = [
        ("/work/", "main"),
        ("/work/", "wt"),
        ("/work/", "shared"),
        ("crates", ".io"),
        ("registry.", "npmjs"),
        ("pypi", ".org"),
        ("FIX", "ME"),
    ]
    .iter()
    .map(|(left, right)| format!("{left}{right}"))
    .collect();
    for name in list.lines() {
        let path = root.join(name);
        if is_data(name) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let is_rust = name.ends_with(".rs");
        if is_rust && text.lines().count() > MAX_LINES {
            complaints.push(format!("{name}: {} lines, at most {MAX_LINES}", text.lines().count()));
        }
        for (index, row) in text.lines().enumerate() {
            if row.ends_with([' ', '\t']) && !name.ends_with(".md") {
                complaints.push(format!("{name}:{}: trailing space", index + 1));
            }
            for word in &words {
                if row.contains(word.as_str()) {
                    complaints.push(format!("{name}:{}: {word:?} does not belong here", index + 1));
                }
            }
        }
    }
    Ok(())
}

/// Data is exact to the byte and has no style.
fn is_data(name: &str) -> bool {
    let data = ["Cargo.lock", "package-lock.json"];
    let folders = ["fixtures/", "snapshots/", "/streams/", "/cases/", "tests/conformance/", "docs/openapi.json"];
    data.iter().any(|file| Path::new(name).file_name().is_some_and(|last| last == *file))
        || folders.iter().any(|folder| name.contains(folder))
}
