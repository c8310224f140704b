//! Instruction files: which there are, and what they say.

use std::path::{Path, PathBuf};

use abide_schema::config::{Diagnostic, DiagnosticKind, Severity};
use globset::GlobBuilder;

use crate::config::files::FileSet;
use crate::config::{Config, Directories, OriginKind, flags, real};
use crate::world::World;

/// The most that is taken of one file, in bytes.
const MAX_FILE: usize = 256 << 10;
/// The most that is taken of all files, in bytes.
const MAX_ALL: usize = 1 << 20;
/// How deep and how wide a pattern is searched.
const MAX_DEPTH: usize = 8;
const MAX_MATCHES: usize = 200;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionFile {
    /// The file.
    pub path: PathBuf,
    /// Its text, with a note at the end when it was cut.
    pub content: String,
}

/// The instructions of a location, in the order in which a model is told: the user's, then the project's from near to
/// far, then the configured ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The files that say something.
    pub files: Vec<InstructionFile>,
    /// Whether a file that is there could not be read.
    pub is_incomplete: bool,
}

impl Instructions {
    /// Finds and reads the files. Blocks.
    pub(crate) fn read(input: &Input<'_>, files: &mut FileSet, diagnostics: &mut Vec<Diagnostic>) -> Self {
        let mut reader = Reader { files, diagnostics, seen: Vec::new(), size: 0, out: Self::default() };
        let directories = input.directories;
        let is_claude = !flags::is_set(input.world, "DISABLE_CLAUDE_CODE")
            && !flags::is_set(input.world, "DISABLE_CLAUDE_CODE_PROMPT");
        let mut global = vec![directories.config.join("AGENTS.md"), directories.foreign_config.join("AGENTS.md")];
        if is_claude {
            global.push(directories.home.join(".claude/CLAUDE.md"));
        }
        reader.first_of(&global, None);
        if !flags::is_set(input.world, "DISABLE_PROJECT_CONFIG") {
            for directory in input.walk() {
                let mut names = vec![directory.join("AGENTS.md")];
                if is_claude {
                    names.push(directory.join("CLAUDE.md"));
                }
                reader.first_of(&names, input.worktree);
            }
        }
        reader.configured(input);
        reader.out
    }

    /// Returns the words of a baseline.
    pub(crate) fn text(&self) -> String {
        let parts: Vec<String> = self
            .files
            .iter()
            .map(|file| format!("Instructions from: {}\n{}", file.path.display(), file.content))
            .collect();
        parts.join("\n\n")
    }
}

/// What the files depend on.
pub(crate) struct Input<'a> {
    pub(crate) world: &'a World,
    pub(crate) directories: &'a Directories,
    pub(crate) config: &'a Config,
    pub(crate) location: &'a Path,
    pub(crate) worktree: Option<&'a Path>,
}

impl Input<'_> {
    /// The directories from the location to the border.
    fn walk(&self) -> Vec<PathBuf> {
        let home = &self.directories.home;
        let stop = match self.worktree {
            Some(worktree) => worktree,
            None if self.location.starts_with(home) => home,
            None => self.location,
        };
        let mut out: Vec<PathBuf> =
            self.location.ancestors().take_while(|path| path.starts_with(stop)).map(Path::to_owned).collect();
        if out.is_empty() {
            out.push(self.location.to_owned());
        }
        out
    }
}

struct Reader<'a> {
    files: &'a mut FileSet,
    diagnostics: &'a mut Vec<Diagnostic>,
    seen: Vec<PathBuf>,
    size: usize,
    out: Instructions,
}

impl Reader<'_> {
    /// Takes the first of several names that is a file.
    fn first_of(&mut self, paths: &[PathBuf], inside: Option<&Path>) {
        for path in paths {
            if self.take(path, inside) {
                return;
            }
        }
    }

    /// Takes a file; false when there is none.
    fn take(&mut self, path: &Path, inside: Option<&Path>) -> bool {
        if self.files.is_dir(path) {
            return false;
        }
        let place = real(path);
        if self.seen.contains(&place) {
            return true;
        }
        if let Some(border) = inside
            && path.exists()
            && !place.starts_with(real(border))
        {
            self.warn(path, "leads out of the project and is not read");
            return true;
        }
        let bytes = match self.files.read(path) {
            Ok(None) => return false,
            Ok(Some(bytes)) => bytes,
            Err(error) => {
                self.warn(path, &format!("cannot be read: {error}"));
                self.out.is_incomplete = true;
                return true;
            }
        };
        self.seen.push(place);
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim();
        if text.is_empty() {
            return true;
        }
        let room = MAX_FILE.min(MAX_ALL - self.size);
        let mut content = text.get(..floor(text, room)).unwrap_or("").to_owned();
        if content.len() < text.len() {
            self.warn(path, &format!("is longer than {room} bytes; the rest is left out"));
            content.push_str("\n\n[The rest of this file is left out: it is too long.]");
        }
        self.size += content.len().min(MAX_ALL - self.size);
        self.out.files.push(InstructionFile { path: path.to_owned(), content });
        true
    }

    fn configured(&mut self, input: &Input<'_>) {
        let entries: Vec<(&String, &Path, bool)> = input
            .config
            .documents
            .iter()
            .flat_map(|document| {
                let origin = &document.origin;
                let is_project = origin.kind == OriginKind::Project;
                document.info.instructions.iter().map(move |item| (item, origin.base.as_path(), is_project))
            })
            .collect();
        for (item, base, is_project) in entries {
            if item.contains("://") {
                self.note(item, "is an address; instructions from addresses are not loaded yet");
                continue;
            }
            let pattern = input.directories.expand_home(item);
            // A path belongs to the file that holds it; a project's may also mean a directory further up.
            let mut bases = vec![base.to_owned()];
            if is_project {
                bases.extend(input.walk());
            }
            let found = bases.iter().map(|base| self.expand(base, &pattern)).find(|found| !found.is_empty());
            match found {
                Some(paths) => {
                    for path in paths {
                        self.take(&path, None);
                    }
                }
                None => self.note(item, "fits no file"),
            }
        }
    }

    /// Finds the files of a path or pattern.
    fn expand(&mut self, base: &Path, pattern: &str) -> Vec<PathBuf> {
        let is_pattern = |part: &str| part.contains(['*', '?', '[', '{']);
        let full = base.join(pattern);
        let text = full.to_string_lossy().into_owned();
        if !is_pattern(pattern) {
            self.files.is_dir(&full);
            return if full.is_file() { vec![full] } else { Vec::new() };
        }
        let Ok(glob) = GlobBuilder::new(&text).literal_separator(true).build() else { return Vec::new() };
        let matcher = glob.compile_matcher();
        let root: PathBuf =
            full.components().take_while(|component| !is_pattern(&component.as_os_str().to_string_lossy())).collect();
        let mut out = Vec::new();
        self.search(&root, 0, &mut |path| matcher.is_match(path), &mut out);
        out
    }

    fn search(&mut self, folder: &Path, depth: usize, fits: &mut dyn FnMut(&Path) -> bool, out: &mut Vec<PathBuf>) {
        if depth > MAX_DEPTH || out.len() >= MAX_MATCHES || !self.files.is_dir(folder) {
            return;
        }
        for path in self.files.list(folder) {
            if path.is_dir() {
                if !path.is_symlink() && !path.ends_with(".git") && !path.ends_with("node_modules") {
                    self.search(&path, depth + 1, fits, out);
                }
            } else if fits(&path) && out.len() < MAX_MATCHES {
                out.push(path);
            }
        }
    }

    fn warn(&mut self, path: &Path, what: &str) {
        self.diagnostics.push(
            Diagnostic::new(Severity::Warning, DiagnosticKind::Io, format!("the instruction file {what}"))
                .in_file(path),
        );
    }

    fn note(&mut self, item: &str, what: &str) {
        self.diagnostics.push(
            Diagnostic::new(Severity::Warning, DiagnosticKind::Invalid, format!("the entry {item:?} {what}"))
                .at("/instructions"),
        );
    }
}

/// The largest border of a character at or below `limit`.
fn floor(text: &str, limit: usize) -> usize {
    if limit >= text.len() {
        return text.len();
    }
    (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}
