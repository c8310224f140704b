//! The throwaway repository: a shell script with a bug, and its test.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;

use crate::error::CliError;

const SCRIPT: &str = "#!/bin/sh\n# Prints the sum of its two arguments.\necho $(($1 - $2))\n";
const TEST: &str = "#!/bin/sh\n# Passes when add.sh adds.\n# The demo kills the server while this runs for the first time.\nif [ ! -e .ran ]; then touch .ran; sleep 30; fi\nresult=$(sh add.sh 2 3)\nif [ \"$result\" = 5 ]; then echo \"ok: 2 + 3 = $result\"; else echo \"not ok: 2 + 3 = $result\"; exit 1; fi\n";

/// The repository and the data directory beside it; both go away with the value unless kept.
pub(super) struct Repository {
    root: PathBuf,
    data: PathBuf,
    /// Removes everything at the end.
    _guard: Option<TempDir>,
}

/// How a command ended.
pub(super) struct Ran {
    pub(super) code: i32,
    pub(super) output: String,
}

impl Repository {
    pub(super) async fn create(keep: bool) -> Result<Self, CliError> {
        let place = tempfile::Builder::new().prefix("abide-demo-").tempdir()?;
        let base = std::fs::canonicalize(place.path())?;
        let guard = if keep {
            // From here on nothing removes it.
            let _kept = place.keep();
            None
        } else {
            Some(place)
        };
        let (root, data) = (base.join("repository"), base.join("data"));
        std::fs::create_dir_all(&root)?;
        let repository = Self { root, data, _guard: guard };
        repository.write("add.sh", SCRIPT)?;
        repository.write("test.sh", TEST)?;
        repository.write(".gitignore", ".ran\nabide.json\n")?;
        for arguments in [
            &["init", "-q"][..],
            &["config", "user.email", "demo@example.invalid"],
            &["config", "user.name", "demo"],
            &["add", "-A"],
            &["commit", "-q", "-m", "a script and its test"],
        ] {
            let ran = repository.command("git", arguments).await?;
            if ran.code != 0 {
                return Err(CliError::failed(format!("git {} failed: {}", arguments.join(" "), ran.output))
                    .hint("the demo needs git"));
            }
        }
        Ok(repository)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    /// Writes the configuration that names the scripted model.
    pub(super) fn configure(&self, url: &str) -> Result<(), CliError> {
        let config = serde_json::json!({
            "model": "demo/scripted",
            "permissions": [{ "action": "*", "resource": "*", "effect": "allow" }],
            "providers": {
                "demo": {
                    "name": "Scripted",
                    "api": {
                        "type": "aisdk",
                        "package": "@ai-sdk/openai-compatible",
                        "url": format!("{url}/v1"),
                        "settings": { "apiKey": "none" },
                    },
                    "models": { "scripted": { "name": "Scripted", "capabilities": { "tools": true, "input": ["text"], "output": ["text"] } } },
                },
            },
        });
        self.write("abide.json", &serde_json::to_string_pretty(&config)?)
    }

    /// Runs the test as a user would, without its first-time pause.
    pub(super) async fn test(&self) -> Result<Ran, CliError> {
        self.write(".ran", "")?;
        let ran = self.command("sh", &["test.sh"]).await;
        std::fs::remove_file(self.root.join(".ran"))?;
        ran
    }

    pub(super) async fn diff(&self) -> Result<String, CliError> {
        Ok(self.command("git", &["diff", "--", "add.sh"]).await?.output)
    }

    /// Waits until the session's own run of the test has begun.
    pub(super) async fn wait_for_marker(&self, limit: Duration) -> Result<(), CliError> {
        let marker = self.root.join(".ran");
        let wait = async {
            while !marker.exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(limit, wait).await.map_err(|_| CliError::failed("the test was never started"))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), CliError> {
        Ok(std::fs::write(self.root.join(name), text)?)
    }

    async fn command(&self, program: &str, arguments: &[&str]) -> Result<Ran, CliError> {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(&self.root)
            .stdin(std::process::Stdio::null())
            .output()
            .await
            .map_err(|error| CliError::failed(format!("{program} cannot be started: {error}")))?;
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        Ok(Ran { code: output.status.code().unwrap_or(-1), output: text })
    }
}
