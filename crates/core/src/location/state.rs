//! What the files of a location say: settings, agents, commands, skills.

use std::path::Path;
use std::sync::Arc;

use abide_schema::catalog::CommandInfo;
use abide_schema::config::{Diagnostic, DiagnosticKind, Severity};

use super::LocationError;
use crate::agent::Agents;
use crate::catalog::Catalog;
use crate::command;
use crate::config::files::FileSet;
use crate::config::{Config, Directories, LoadOptions};
use crate::context::{Input, Instructions};
use crate::project::Project;
use crate::skill::{self, Skill};
use crate::world::World;

/// The settings of a location at one time. Never changes: a reload makes a new one.
#[derive(Clone, Debug)]
pub struct LocationState {
    /// The documents.
    pub config: Arc<Config>,
    /// The agents.
    pub agents: Agents,
    /// The slash commands.
    pub commands: Arc<Vec<CommandInfo>>,
    /// The skills.
    pub skills: Arc<Vec<Skill>>,
    /// The providers and models.
    pub catalog: Catalog,
    /// The instruction files.
    pub instructions: Arc<Instructions>,
    /// Everything that is wrong.
    pub diagnostics: Arc<Vec<Diagnostic>>,
    /// Every path that was looked at besides those of `config`.
    files: Arc<FileSet>,
    /// The paths of a newer state that was not good enough.
    newer: Option<Arc<Config>>,
}

/// Reads the settings on a thread that may block.
pub(super) async fn load(
    world: &World,
    directories: &Directories,
    directory: &Path,
    project: &Project,
) -> Result<LocationState, LocationError> {
    let (world, directories) = (world.clone(), directories.clone());
    let (owned, worktree) = (directory.to_owned(), project.worktree().map(Path::to_owned));
    let loaded =
        tokio::task::spawn_blocking(move || LocationState::read(&world, &directories, &owned, worktree.as_deref()));
    loaded.await.map_err(|error| LocationError::Interrupted {
        directory: directory.display().to_string(),
        reason: error.to_string(),
    })
}

impl LocationState {
    /// Reads the settings of a directory. Blocks.
    pub fn read(world: &World, directories: &Directories, directory: &Path, worktree: Option<&Path>) -> Self {
        let config = crate::config::load(&LoadOptions { world, directories, location: directory, worktree });
        let mut diagnostics = config.diagnostics.clone();
        let mut files = FileSet::default();
        let agents = Agents::assemble(&config, directories, &mut diagnostics);
        let skills = skill::discover(&config, directories, directory, &mut files, &mut diagnostics);
        let commands = command::assemble(&config, &skills, &mut diagnostics);
        let catalog = Catalog::new(&config, &mut diagnostics);
        let input = Input { world, directories, config: &config, location: directory, worktree };
        let instructions = Instructions::read(&input, &mut files, &mut diagnostics);
        Self {
            catalog,
            instructions: Arc::new(instructions),
            config: Arc::new(config),
            agents,
            commands: Arc::new(commands),
            skills: Arc::new(skills),
            diagnostics: Arc::new(diagnostics),
            files: Arc::new(files),
            newer: None,
        }
    }

    /// Returns the first finding that leaves a document or an entry out.
    pub fn first_error(&self) -> Option<&Diagnostic> {
        self.diagnostics.iter().find(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// Returns the finding about the first document that is not used at all: a headless command must not go on as if
    /// it were not there.
    pub fn rejected_document(&self) -> Option<&Diagnostic> {
        self.diagnostics.iter().find(|found| {
            let is_whole =
                matches!(found.kind, DiagnosticKind::Syntax | DiagnosticKind::Substitution | DiagnosticKind::Io);
            found.severity == Severity::Error && is_whole
        })
    }

    /// Says whether every file is as it was read. Blocks.
    pub(super) fn is_fresh(&self) -> bool {
        let config = self.newer.as_ref().unwrap_or(&self.config);
        config.files().is_fresh() && self.files.is_fresh()
    }

    /// Says whether a document that counted before cannot be read any more.
    pub(super) fn is_worse_than(&self, present: &Self) -> bool {
        self.config
            .rejected
            .iter()
            .any(|path| present.config.documents.iter().any(|document| document.origin.path.as_ref() == Some(path)))
    }

    /// Keeps the present settings, with the findings of newer ones that cannot be used.
    pub(super) fn keeping_values(&self, newer: Self) -> Self {
        let mut diagnostics: Vec<Diagnostic> = newer.diagnostics.as_ref().clone();
        diagnostics.push(
            Diagnostic::new(
                Severity::Warning,
                DiagnosticKind::Invalid,
                "the settings that were read before stay in force",
            )
            .hint("mend the file that is named above"),
        );
        Self { diagnostics: Arc::new(diagnostics), newer: Some(newer.config), files: newer.files, ..self.clone() }
    }
}
