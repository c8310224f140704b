//! Which shell runs command lines (spec/tools.md 11.7).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::process::find_program;
use super::scan::Dialect;

/// A shell for command lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shell {
    /// The program.
    pub program: PathBuf,
    /// Its base name in lower case.
    pub name: String,
    /// Whether it reads the user's login files.
    pub is_login: bool,
}

impl Shell {
    /// Makes a shell of a program, if it is one that takes `-c` as POSIX wants it.
    pub fn of(program: &Path) -> Option<Self> {
        let name = program.file_name()?.to_str()?.to_ascii_lowercase();
        matches!(name.as_str(), "bash" | "zsh" | "dash" | "ksh" | "sh").then(|| Self {
            program: program.to_path_buf(),
            name,
            is_login: false,
        })
    }

    /// Returns the language of its lines, as far as the scan cares.
    pub fn dialect(&self) -> Dialect {
        match self.name.as_str() {
            "zsh" => Dialect::Zsh,
            "bash" | "ksh" => Dialect::Bash,
            // `sh` may be bash or not: only what both read alike is followed.
            _ => Dialect::Posix,
        }
    }

    /// Returns its arguments for a line.
    pub fn arguments(&self, line: &str) -> Vec<String> {
        let login = self.is_login.then(|| "-l".to_owned());
        login.into_iter().chain(["-c".to_owned(), line.to_owned()]).collect()
    }
}

/// Chooses: the configured one, `$SHELL`, bash (zsh on macOS), `/bin/sh`. Each only when it exists and takes lines. A
/// configured one is a path or a name on the search path.
pub fn choose(configured: Option<&str>, environment: &BTreeMap<String, String>) -> Shell {
    let usual = if cfg!(target_os = "macos") { "/bin/zsh" } else { "bash" };
    let named = [configured, environment.get("SHELL").map(String::as_str), Some(usual)];
    let found = named.into_iter().flatten().find_map(|name| Shell::of(&locate(name, environment)?));
    found.unwrap_or_else(|| Shell { program: PathBuf::from("/bin/sh"), name: "sh".to_owned(), is_login: false })
}

fn locate(name: &str, environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    if name.starts_with('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    if name.contains('/') || name.is_empty() {
        return None;
    }
    find_program(name, environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(configured: Option<&str>, shell: Option<&str>, expected: &str) {
        let directory = tempfile::tempdir().unwrap();
        for name in ["bash", "zsh", "fish"] {
            use std::os::unix::fs::PermissionsExt as _;
            let path = directory.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let in_directory = |name: &str| name.replace('@', directory.path().to_str().unwrap());
        let mut environment = BTreeMap::from([("PATH".to_owned(), in_directory("@"))]);
        environment.extend(shell.map(|shell| ("SHELL".to_owned(), in_directory(shell))));
        let configured = configured.map(in_directory);
        let chosen = choose(configured.as_deref(), &environment);
        assert_eq!(chosen.program, PathBuf::from(in_directory(expected)));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_first_that_exists_and_fits() {
        check(Some("zsh"), Some("@/bash"), "@/zsh");
        check(Some("@/zsh"), None, "@/zsh");
        check(Some("fish"), Some("@/zsh"), "@/zsh");
        check(Some("gone"), Some("@/gone"), "@/bash");
        check(None, Some("@/fish"), "@/bash");
        check(None, None, "@/bash");
    }
}
