//! What is done to the files of a recorded batch: staging, applying, undoing, and looking where they stand. Blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::ApplyError;
use super::recover::{FileReport, Standing};
use crate::fault::Faults;
use crate::fs::blobs::Blobs;
use crate::fs::disk::{self, Found};
use crate::store::{FileOp, MutationFile};

/// How names of staged contents end.
pub(super) const TEMP_SUFFIX: &str = ".abide-tmp";

/// New contents by the path where they are staged.
pub(super) type Contents = BTreeMap<String, Vec<u8>>;

/// The files of a batch, and where its before-images are.
#[derive(Clone)]
pub(super) struct Batch {
    pub(super) files: Vec<MutationFile>,
    pub(super) blobs: Blobs,
    pub(super) sync: bool,
}

impl Batch {
    /// Makes missing directories and writes the new contents beside their places.
    pub(super) fn stage(&self, contents: &Contents) -> Result<(), ApplyError> {
        for file in &self.files {
            self.make_directories(file).map_err(|source| failed(&file.path, source))?;
            if let Some((tmp, content)) = file.tmp_path.as_ref().and_then(|tmp| Some((tmp, contents.get(tmp)?))) {
                let like = (file.op == FileOp::Write).then(|| Path::new(&file.path));
                disk::write_new(Path::new(tmp), content, like, file.after_mode, self.sync)
                    .map_err(|source| failed(&file.path, source))?;
            }
        }
        Ok(())
    }

    /// Puts the staged contents in, in order.
    pub(super) fn apply(&self, faults: &Faults) -> Result<(), ApplyError> {
        for (n, file) in self.files.iter().enumerate() {
            if n > 0 {
                faults.hit("mutation.between_renames")?;
            }
            // The last look, as late as it can be.
            match self.standing(file).map_err(|source| failed(&file.path, source))? {
                Standing::Before | Standing::Same => {}
                Standing::After | Standing::Torn | Standing::Other if file.before_hash.is_none() => {
                    return Err(ApplyError::TargetExists { path: file.path.clone() });
                }
                Standing::After | Standing::Torn | Standing::Other => {
                    return Err(ApplyError::Stale { path: file.path.clone() });
                }
            }
            self.put_in(file).map_err(|source| {
                if source.kind() == io::ErrorKind::AlreadyExists {
                    ApplyError::TargetExists { path: target(file).to_owned() }
                } else {
                    failed(&file.path, source)
                }
            })?;
        }
        self.sync_parents().map_err(|source| failed("a directory", source))
    }

    /// Puts in what is not in yet: goes on where a crash stopped [`Batch::apply`].
    pub(super) fn roll_forward(&self) -> io::Result<()> {
        for file in &self.files {
            match self.standing(file)? {
                Standing::Before | Standing::Torn => {
                    self.make_directories(file)?;
                    self.put_in(file)?;
                }
                Standing::After | Standing::Same | Standing::Other => {}
            }
        }
        self.sync_parents()
    }

    /// Puts back what is in, last first, and removes what was staged or made. Files that are neither as before nor as
    /// planned are left alone. Returns where the files stand then.
    pub(super) fn roll_back(&self) -> Vec<FileReport> {
        for file in self.files.iter().rev() {
            let standing = self.standing(file);
            if matches!(standing, Ok(Standing::After | Standing::Torn))
                && let Err(error) = self.put_back(file)
            {
                tracing::error!(path = file.path, %error, "a file could not be put back");
            }
        }
        let reports = self.reports();
        self.clean();
        if let Err(error) = self.sync_parents() {
            tracing::warn!(%error, "a directory could not be synced");
        }
        reports
    }

    /// Removes staged contents, and directories that were made and are empty. What cannot be removed stays.
    pub(super) fn clean(&self) {
        for tmp in self.files.iter().filter_map(|file| file.tmp_path.as_deref()) {
            if let Err(error) = disk::remove_if_there(Path::new(tmp)) {
                tracing::warn!(path = tmp, %error, "a staged file could not be removed");
            }
        }
        for directory in self.files.iter().flat_map(|file| &file.made_directories).rev() {
            // Fails when it is not empty, and then it stays.
            let _in_use = fs::remove_dir(directory);
        }
    }

    /// Says where every file stands; one that cannot be looked at counts as neither.
    pub(super) fn reports(&self) -> Vec<FileReport> {
        let report = |file: &MutationFile| FileReport {
            path: file.path.clone(),
            standing: self.standing(file).unwrap_or(Standing::Other),
        };
        self.files.iter().map(report).collect()
    }

    /// Says whether everything that is still to be put in is staged.
    pub(super) fn is_staged(&self, reports: &[FileReport]) -> bool {
        self.files.iter().zip(reports).all(|(file, report)| match report.standing {
            Standing::Before | Standing::Torn => match (file.op, &file.tmp_path) {
                (FileOp::Create | FileOp::Write, Some(tmp)) => hash_of(Path::new(tmp)) == file.after_hash,
                (FileOp::Create | FileOp::Write, None) => false,
                (FileOp::Delete | FileOp::Move | FileOp::Chmod, _) => true,
            },
            Standing::After | Standing::Same | Standing::Other => true,
        })
    }

    fn standing(&self, file: &MutationFile) -> io::Result<Standing> {
        let now = disk::look(Path::new(&file.path))?;
        let hash = match &now {
            Found::Missing => None,
            Found::File(read) => Some(read.hash()),
            Found::NotAFile => return Ok(Standing::Other),
        };
        Ok(match file.op {
            FileOp::Create | FileOp::Write | FileOp::Delete => {
                match (hash == file.before_hash, hash == file.after_hash) {
                    (true, true) => Standing::Same,
                    (true, false) => Standing::Before,
                    (false, true) => Standing::After,
                    (false, false) if self.is_torn(file, &now) => Standing::Torn,
                    (false, false) => Standing::Other,
                }
            }
            FileOp::Move => {
                let to = disk::look(Path::new(target(file)))?;
                match (&now, &to) {
                    (Found::File(_), Found::Missing) if hash == file.before_hash => Standing::Before,
                    (Found::Missing, Found::File(moved)) if Some(moved.hash()) == file.after_hash => Standing::After,
                    // Two names of one file: between the two steps where renaming cannot be exclusive.
                    (Found::File(old), Found::File(new))
                        if old.facts.identity == new.facts.identity && hash == file.before_hash =>
                    {
                        Standing::Torn
                    }
                    _ => Standing::Other,
                }
            }
            FileOp::Chmod => match now {
                Found::File(read)
                    if file.before_mode == file.after_mode && Some(read.facts.mode) == file.after_mode =>
                {
                    Standing::Same
                }
                Found::File(read) if Some(read.facts.mode) == file.before_mode => Standing::Before,
                Found::File(read) if Some(read.facts.mode) == file.after_mode => Standing::After,
                Found::File(_) | Found::Missing | Found::NotAFile => Standing::Other,
            },
        })
    }

    /// Says whether a file is what a write in place left in the middle.
    fn is_torn(&self, file: &MutationFile, now: &Found) -> bool {
        let (Found::File(now), FileOp::Write, Some(tmp)) = (now, file.op, &file.tmp_path) else { return false };
        let Ok(Found::File(staged)) = disk::look(Path::new(tmp)) else { return false };
        if Some(staged.hash()) != file.after_hash || !disk::must_write_in_place(now.facts, staged.facts) {
            return false;
        }
        let before = file.before_hash.as_deref().and_then(|hash| self.blobs.get(hash).ok().flatten());
        before.is_some_and(|before| disk::is_torn(&now.content, &before, &staged.content))
    }

    fn make_directories(&self, file: &MutationFile) -> io::Result<()> {
        for directory in &file.made_directories {
            match fs::create_dir(directory) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && Path::new(directory).is_dir() => {}
                Err(error) => return Err(error),
            }
            if let (true, Some(parent)) = (self.sync, Path::new(directory).parent()) {
                disk::sync_directory(parent)?;
            }
        }
        Ok(())
    }

    fn put_in(&self, file: &MutationFile) -> io::Result<()> {
        let path = Path::new(&file.path);
        let staged = || file.tmp_path.as_deref().map(Path::new).ok_or(io::ErrorKind::NotFound);
        match file.op {
            FileOp::Create => disk::rename_exclusive(staged()?, path),
            FileOp::Write => disk::replace(staged()?, path, self.sync),
            FileOp::Delete => fs::remove_file(path),
            FileOp::Move => move_exclusive(path, Path::new(target(file))),
            FileOp::Chmod => set_mode(path, file.after_mode),
        }
    }

    fn put_back(&self, file: &MutationFile) -> io::Result<()> {
        let path = Path::new(&file.path);
        match file.op {
            FileOp::Create => fs::remove_file(path),
            FileOp::Write | FileOp::Delete => {
                let (Some(hash), Some(tmp)) = (&file.before_hash, &file.tmp_path) else {
                    return Err(io::ErrorKind::NotFound.into());
                };
                let content = self.blobs.get(hash)?.ok_or_else(|| {
                    io::Error::new(io::ErrorKind::NotFound, "its content from before is not kept any more")
                })?;
                let tmp = Path::new(tmp);
                disk::remove_if_there(tmp)?;
                if file.op == FileOp::Delete {
                    disk::write_new(tmp, &content, None, file.before_mode, self.sync)?;
                    return disk::rename_exclusive(tmp, path);
                }
                disk::write_new(tmp, &content, Some(path), file.before_mode, self.sync)?;
                disk::replace(tmp, path, self.sync)
            }
            FileOp::Move => move_exclusive(Path::new(target(file)), path),
            FileOp::Chmod => set_mode(path, file.before_mode),
        }
    }

    fn sync_parents(&self) -> io::Result<()> {
        if !self.sync {
            return Ok(());
        }
        let paths = self.files.iter().flat_map(|file| std::iter::once(&file.path).chain(&file.to_path));
        let parents: BTreeSet<&Path> = paths.filter_map(|path| Path::new(path).parent()).collect();
        for parent in parents {
            match disk::sync_directory(parent) {
                Err(error) if disk::is_missing(&error) => {}
                result => result?,
            }
        }
        Ok(())
    }
}

/// Returns what a file of a batch holds before and after, by path: two for a move.
pub(super) fn contents_of(file: &MutationFile) -> Vec<(&str, Option<String>, Option<String>)> {
    match &file.to_path {
        Some(to) => vec![(&file.path, file.before_hash.clone(), None), (to, None, file.after_hash.clone())],
        None => vec![(&file.path, file.before_hash.clone(), file.after_hash.clone())],
    }
}

/// Lists the staged contents in a directory whose batch is not among `live`.
pub(super) fn forgotten(directory: &Path, live: &BTreeSet<String>) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let is_staged = |name: &str| name.starts_with('.') && name.ends_with(TEMP_SUFFIX) && name.contains(".mut_");
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_str().is_some_and(is_staged))
        .map(|entry| entry.path())
        .filter(|path| path.to_str().is_some_and(|path| !live.contains(path)))
        .collect()
}

fn target(file: &MutationFile) -> &str {
    file.to_path.as_deref().unwrap_or(&file.path)
}

fn hash_of(path: &Path) -> Option<String> {
    match disk::look(path) {
        Ok(Found::File(read)) => Some(read.hash()),
        Ok(Found::Missing | Found::NotAFile) | Err(_) => None,
    }
}

/// Renames exclusively; where both names are one file already, the rest of a rename in two steps is done.
fn move_exclusive(from: &Path, to: &Path) -> io::Result<()> {
    if let (Ok(Found::File(old)), Ok(Found::File(new))) = (disk::look(from), disk::look(to))
        && old.facts.identity == new.facts.identity
    {
        return fs::remove_file(from);
    }
    disk::rename_exclusive(from, to)
}

fn set_mode(path: &Path, mode: Option<u32>) -> io::Result<()> {
    match mode {
        Some(mode) => fs::set_permissions(path, fs::Permissions::from_mode(mode)),
        None => Ok(()),
    }
}

fn failed(path: &str, source: io::Error) -> ApplyError {
    ApplyError::Io { path: path.to_owned(), source }
}
