//! Which files count, and in what order: lowest precedence first.

use std::path::{Path, PathBuf};

use abide_schema::JsonObject;
use abide_schema::config::{ConfigDocument, Diagnostic, DiagnosticKind, Severity};
use serde_json::{Value, json};

use super::decode::decode;
use super::directories::{Directories, clean};
use super::files::FileSet;
use super::parse::{Reader, parse_document};
use super::report::Report;
use super::{Config, Document, Origin, OriginKind, flags, markdown, v1};
use crate::world::World;

/// The documents of one directory, lowest precedence first.
const NAMES: [&str; 4] = ["opencode.json", "opencode.jsonc", "abide.json", "abide.jsonc"];
/// The directories of a project that hold configuration, lowest precedence first.
const PROJECT_DIRECTORIES: [&str; 2] = [".opencode", ".abide"];
/// How deep folders of agents and commands are searched.
const MAX_DEPTH: usize = 8;
/// How many files one folder of agents or commands may hold.
const MAX_FILES: usize = 2000;

/// What to load.
#[derive(Clone, Debug)]
pub struct LoadOptions<'a> {
    /// The environment.
    pub world: &'a World,
    /// The user's directories.
    pub directories: &'a Directories,
    /// The directory that is opened.
    pub location: &'a Path,
    /// The root of the working tree; absent outside of version control.
    pub worktree: Option<&'a Path>,
}

/// Loads every document that counts for a location. Blocks.
pub fn load(options: &LoadOptions<'_>) -> Config {
    let mut loader = Loader {
        options,
        config: Config::default(),
        files: FileSet::default(),
        is_project: !flags::is_set(options.world, "DISABLE_PROJECT_CONFIG"),
    };
    loader.global();
    loader.named();
    loader.project();
    loader.inline();
    loader.managed();
    let mut config = loader.config;
    config.files = loader.files;
    config
}

struct Loader<'a> {
    options: &'a LoadOptions<'a>,
    config: Config,
    files: FileSet,
    is_project: bool,
}

impl Loader<'_> {
    fn global(&mut self) {
        let directories = self.options.directories;
        for (directory, names) in [
            (&directories.foreign_config, &["config.json", "opencode.json", "opencode.jsonc"][..]),
            (&directories.config, &["config.json", "opencode.json", "opencode.jsonc", "abide.json", "abide.jsonc"][..]),
        ] {
            for name in names {
                self.file(&directory.join(name), OriginKind::Global, directory);
            }
            self.directory(directory, OriginKind::Global);
        }
    }

    fn named(&mut self) {
        let Some(path) = flags::variable(self.options.world, "CONFIG") else { return };
        let path = self.options.location.join(self.options.directories.expand_home(path));
        let base = path.parent().unwrap_or(Path::new("/")).to_owned();
        if !self.file(&path, OriginKind::Named, &base) {
            self.config.diagnostics.push(
                Diagnostic::new(Severity::Error, DiagnosticKind::Io, "the file that ABIDE_CONFIG names does not exist")
                    .in_file(path)
                    .hint("correct or unset the variable"),
            );
        }
    }

    fn project(&mut self) {
        let directories = self.options.directories;
        let walk = self.walk();
        let mut roots = vec![directories.home.clone()];
        if self.is_project {
            roots.extend(walk.iter().cloned());
        }
        let is_foreign = !flags::is_set(self.options.world, "DISABLE_EXTERNAL_SKILLS");
        let is_claude = is_foreign
            && !flags::is_set(self.options.world, "DISABLE_CLAUDE_CODE")
            && !flags::is_set(self.options.world, "DISABLE_CLAUDE_CODE_SKILLS");
        for (name, is_on) in [(".claude", is_claude), (".agents", is_foreign)] {
            for root in roots.iter().filter(|_| is_on) {
                let path = root.join(name);
                if !self.config.external.contains(&path) && self.files.is_dir(&path) {
                    self.config.external.push(path);
                }
            }
        }
        if !self.is_project {
            return;
        }
        let global = [&directories.config, &directories.foreign_config].map(|path| real(path));
        if global.contains(&real(self.options.location)) {
            return;
        }
        for directory in &walk {
            for name in NAMES {
                self.file(&directory.join(name), OriginKind::Project, directory);
            }
        }
        for directory in &walk {
            for name in PROJECT_DIRECTORIES {
                let inner = directory.join(name);
                if !self.files.is_dir(&inner) || global.contains(&real(&inner)) {
                    continue;
                }
                for name in NAMES {
                    self.file(&inner.join(name), OriginKind::Project, &inner);
                }
                self.directory(&inner, OriginKind::Project);
            }
        }
    }

    /// The directories from the farthest to the location.
    fn walk(&self) -> Vec<PathBuf> {
        let (location, home) = (self.options.location, &self.options.directories.home);
        let stop = match self.options.worktree {
            Some(worktree) => worktree.to_owned(),
            None if location.starts_with(home) => home.clone(),
            None => location.to_owned(),
        };
        let mut out: Vec<PathBuf> =
            location.ancestors().take_while(|path| path.starts_with(&stop)).map(Path::to_owned).collect();
        if out.is_empty() {
            out.push(location.to_owned());
        }
        out.reverse();
        out
    }

    fn inline(&mut self) {
        let location = self.options.location.to_owned();
        if let Some(content) = flags::variable(self.options.world, "CONFIG_CONTENT") {
            let origin = Origin { kind: OriginKind::Inline, path: None, base: location.clone() };
            self.document(content.as_bytes(), origin, None);
        }
        if let Some(content) = flags::variable(self.options.world, "PERMISSION") {
            let origin = Origin { kind: OriginKind::Permission, path: None, base: location };
            self.document(format!("{{\"permission\": {content}}}").as_bytes(), origin, None);
        }
    }

    fn managed(&mut self) {
        let directories = self.options.directories;
        for (directory, names) in [
            (&directories.foreign_managed, ["opencode.json", "opencode.jsonc"]),
            (&directories.managed, ["abide.json", "abide.jsonc"]),
        ] {
            for name in names {
                self.file(&directory.join(name), OriginKind::Managed, directory);
            }
        }
    }

    /// Reads one file; false when there is none.
    fn file(&mut self, path: &Path, kind: OriginKind, base: &Path) -> bool {
        match self.files.read(path) {
            Ok(None) => false,
            Ok(Some(bytes)) => {
                let origin = Origin { kind, path: Some(path.to_owned()), base: base.to_owned() };
                self.document(&bytes, origin, Some(path));
                true
            }
            Err(error) => {
                self.config.diagnostics.push(
                    Diagnostic::new(
                        Severity::Error,
                        DiagnosticKind::Io,
                        format!("the configuration file cannot be read: {error}"),
                    )
                    .in_file(path)
                    .hint("make it readable, or remove it"),
                );
                self.config.rejected.push(path.to_owned());
                true
            }
        }
    }

    fn document(&mut self, bytes: &[u8], origin: Origin, path: Option<&Path>) {
        let home = &self.options.directories.home;
        let mut reader = Reader { world: self.options.world, home, files: &mut self.files };
        let (value, mut report) = parse_document(bytes, path.map(Path::to_owned), &origin.base, &mut reader);
        let Some(mut value) = value else {
            self.config.diagnostics.extend(report.take_found());
            self.config.rejected.push(path.unwrap_or(Path::new("ABIDE_CONFIG_CONTENT")).to_owned());
            return;
        };
        v1::convert(&mut value, home, &mut report);
        let (info, value) = decode(value, &mut report);
        self.config.diagnostics.extend(report.take_found());
        self.config.documents.push(Document::new(origin, info, value, report));
    }

    /// Reads the agents and commands of a configuration directory.
    fn directory(&mut self, directory: &Path, kind: OriginKind) {
        if !self.files.is_dir(directory) {
            return;
        }
        for (folder, what) in [
            ("agent", Folder::Agent),
            ("agents", Folder::Agent),
            ("mode", Folder::Mode),
            ("modes", Folder::Mode),
            ("command", Folder::Command),
            ("commands", Folder::Command),
        ] {
            let root = directory.join(folder);
            if !self.files.is_dir(&root) {
                continue;
            }
            let depth = if what == Folder::Mode { 0 } else { MAX_DEPTH };
            let mut found = Vec::new();
            markdown_files(&root, depth, &mut self.files, &mut found, &mut Vec::new());
            for path in found {
                self.markdown(&root, &path, what, kind, directory);
            }
        }
        self.config.directories.push(directory.to_owned());
    }

    fn markdown(&mut self, root: &Path, path: &Path, what: Folder, kind: OriginKind, base: &Path) {
        let mut report = Report::new(Some(path.to_owned()));
        if let Some(document) = self.read_markdown(root, path, what, &mut report) {
            let (info, value) = decode(document, &mut report);
            let origin = Origin { kind, path: Some(path.to_owned()), base: base.to_owned() };
            if info != ConfigDocument::default() {
                let found = report.take_found();
                self.config.diagnostics.extend(found);
                self.config.documents.push(Document::new(origin, info, value, report));
                return;
            }
        }
        self.config.diagnostics.extend(report.take_found());
    }

    fn read_markdown(&mut self, root: &Path, path: &Path, what: Folder, report: &mut Report) -> Option<JsonObject> {
        let mut fail = |message: String| {
            report.push(
                Diagnostic::new(Severity::Error, DiagnosticKind::Invalid, message)
                    .hint("correct it; until then it is left out"),
            );
        };
        let text = match self.files.read(path).map(|bytes| bytes.map(String::from_utf8)) {
            Ok(Some(Ok(text))) => text,
            Ok(Some(Err(_))) => {
                fail("the file is not UTF-8 text".to_owned());
                return None;
            }
            Ok(None) => return None,
            Err(error) => {
                fail(format!("the file cannot be read: {error}"));
                return None;
            }
        };
        let markdown = match markdown::parse(&text) {
            Ok(markdown) => markdown,
            Err(message) => {
                fail(message);
                return None;
            }
        };
        let name = path.strip_prefix(root).ok()?.with_extension("");
        let name = name.to_str()?.replace('\\', "/");
        let mut front = markdown.front.unwrap_or_default();
        let (key, entry) = match what {
            Folder::Agent | Folder::Mode => {
                if v1::is_older_agent(&front) {
                    let pointer = format!("/agents/{name}");
                    front = v1::convert_agent(front, &self.options.directories.home, &pointer, report);
                } else if let Some(rules) = front.get_mut("permissions") {
                    *rules = v1::normal_rules(rules, "/permissions", &self.options.directories.home, report);
                }
                if what == Folder::Mode {
                    front.insert("mode".to_owned(), json!("primary"));
                }
                front.insert("system".to_owned(), Value::String(markdown.body));
                ("agents", front)
            }
            Folder::Command => {
                front.insert("template".to_owned(), Value::String(markdown.body));
                ("command", front)
            }
        };
        let mut document = JsonObject::new();
        document.insert(key.to_owned(), json!({ name: entry }));
        v1::convert(&mut document, &self.options.directories.home, report);
        Some(document)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Folder {
    Agent,
    Mode,
    Command,
}

/// Collects `*.md` below a folder, sorted by path, symbolic links followed, cycles cut.
pub(super) fn markdown_files(
    folder: &Path,
    depth: usize,
    files: &mut FileSet,
    out: &mut Vec<PathBuf>,
    above: &mut Vec<PathBuf>,
) {
    let place = real(folder);
    if above.contains(&place) || out.len() >= MAX_FILES {
        return;
    }
    above.push(place);
    for path in files.list(folder) {
        if path.is_dir() {
            if depth > 0 {
                markdown_files(&path, depth - 1, files, out, above);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") && out.len() < MAX_FILES {
            out.push(path);
        }
    }
    above.pop();
}

/// The path without symbolic links, itself when it does not exist.
pub(crate) fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| clean(path))
}
