//! A throwaway project with a data directory of its own, and the built binary to run in it.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// The longest that one command may take.
const LIMIT: Duration = Duration::from_secs(120);

/// The project.
pub struct Sandbox {
    _guard: TempDir,
    base: PathBuf,
}

/// Returns the built binary: `ABIDE_BIN`, else the one beside this program.
///
/// # Panics
/// When it is not built: `cargo xtask test` builds it first.
pub fn binary() -> PathBuf {
    if let Some(given) = std::env::var_os("ABIDE_BIN") {
        return PathBuf::from(given);
    }
    let here = std::env::current_exe().expect("a running program has a path");
    let folder = here.ancestors().find(|folder| folder.join("abide").is_file());
    folder.expect("the binary is built: run `cargo xtask test`, or `cargo build` first").join("abide")
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox {
    /// Makes a git project without configuration.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn new() -> Self {
        let guard = tempfile::Builder::new().prefix("abide-test-").tempdir().expect("a temporary directory");
        let base = guard.path().canonicalize().expect("a temporary directory exists");
        let sandbox = Self { _guard: guard, base };
        std::fs::create_dir_all(sandbox.project()).expect("the project is made");
        for arguments in [&["init", "-q"][..], &["config", "user.email", "a@b.invalid"], &["config", "user.name", "a"]]
        {
            let status = std::process::Command::new("git").args(arguments).current_dir(sandbox.project()).status();
            assert!(status.is_ok_and(|status| status.success()), "git is needed");
        }
        sandbox
    }

    /// Returns the project's directory.
    pub fn project(&self) -> PathBuf {
        self.base.join("project")
    }

    /// Returns the data directory.
    pub fn data(&self) -> PathBuf {
        self.base.join("data")
    }

    /// Writes a file of the project.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.project().join(name), text).expect("a file of the project is written");
    }

    /// Writes the configuration.
    pub fn configure(&self, config: &Value) {
        self.write("abide.json", &config.to_string());
    }

    /// Makes a command of the binary in the project, without the caller's settings.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).current_dir(self.project()).stdin(Stdio::null()).kill_on_drop(true);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("ABIDE_") || name.starts_with("OPENCODE_") || name.ends_with("_API_KEY") {
                command.env_remove(name);
            }
        }
        command.env("ABIDE_DATA_DIR", self.data()).env("XDG_CONFIG_HOME", self.base.join("config"));
        command
    }

    /// Runs the binary to its end.
    ///
    /// # Panics
    /// When it cannot be started or takes longer than two minutes.
    pub async fn abide(&self, arguments: &[&str]) -> Output {
        let output = tokio::time::timeout(LIMIT, self.command(arguments).output()).await;
        output.expect("the command ends in time").expect("the command starts")
    }

    /// Starts `abide serve` on a free port.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn serve(&self) -> Server {
        self.try_serve(&[]).await.expect("the server says where it listens")
    }

    /// Starts `abide serve` with environment variables; `None` when it ends before it listens.
    ///
    /// # Panics
    /// When it cannot be started, or neither listens nor ends.
    pub async fn try_serve(&self, environment: &[(&str, &str)]) -> Option<Server> {
        let mut command = self.command(&["serve", "--port", "0"]);
        command.envs(environment.iter().filter(|(_, value)| !value.is_empty()).copied());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the server starts");
        let stdout = child.stdout.take().expect("the server's output is piped");
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(LIMIT, lines.next_line()).await.expect("the server starts in time");
        let Some(line) = line.expect("the server's output is text") else {
            let ended = tokio::time::timeout(LIMIT, child.wait()).await.expect("the server ends in time");
            ended.expect("the server is waited for");
            return None;
        };
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).expect("it names its address");
        Some(Server { url: url.to_owned(), child })
    }
}

/// A server process.
pub struct Server {
    /// Where it listens.
    pub url: String,
    child: Child,
}

impl Server {
    /// Returns its process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Says whether it has ended.
    ///
    /// # Panics
    /// When it cannot be asked for.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the server is asked for").is_some()
    }

    /// Kills it with SIGKILL and waits for its end.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("the server is killed");
    }
}

/// Returns standard output as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns whether a file exists and is not empty.
pub fn has_content(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
}
