//! The tool `patch`: any number of files changed at once, all or none (spec/tools.md 11.4).

mod parse;
mod plan;
mod update;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use abide_schema::config::PatchChoice;
use abide_schema::tool::{Effects, Freeform, ToolOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::files::{Current, EDIT_ACTION, FileTools, MAX_EDIT_BYTES, access_failure};
use crate::fs::access::{Target, Wanted};
use crate::fs::diff::FileDiff;
use crate::fs::journal::{ApplyError, FileReport};
use crate::permission::is_blocked;
use crate::tool::failure::caused;
use crate::tool::leaf::{ToolContext, ToolReturn, TypedTool};
use crate::tool::outcome::ToolFailure;
use parse::Operation;
use plan::{Planned, Resolved};

/// The name under which models know the tool where tools take plain text.
pub const FREEFORM_NAME: &str = "apply_patch";

/// Returns which of the tools that change files a model is not offered: models that were trained on patches get `patch`,
/// all others `edit` and `write`.
pub fn left_out(model: &str, choice: PatchChoice) -> &'static [&'static str] {
    let model = model.to_ascii_lowercase();
    let knows_patches = model.contains("gpt-") && !model.contains("oss") && !model.contains("gpt-4");
    match (choice, knows_patches) {
        (PatchChoice::Always, _) | (PatchChoice::Auto, true) => &["edit", "write"],
        (PatchChoice::Never, _) | (PatchChoice::Auto, false) => &["patch"],
    }
}

/// The tool.
#[derive(Debug)]
pub struct Patch {
    files: FileTools,
}

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchInput {
    /// The whole patch, from '*** Begin Patch' to '*** End Patch'.
    patch_text: String,
}

/// What it gets.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PatchOutput {
    /// What was done, in the order of the patch.
    applied: Vec<Applied>,
    /// What changed.
    files: Vec<FileDiff>,
}

/// One operation.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Applied {
    r#type: AppliedType,
    /// The file as rules name it; of a file that moved, its new name.
    resource: String,
    /// The real absolute path.
    target: String,
    /// The old name of a file that moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_from: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum AppliedType {
    Add,
    Update,
    Delete,
}

impl Patch {
    /// Makes the tool.
    pub fn new(files: FileTools) -> Self {
        Self { files }
    }

    /// Resolves every path of a patch, and asks for all directories outside at once.
    async fn resolve(&self, ctx: &ToolContext, operations: Vec<Operation>) -> Result<Vec<Resolved>, ToolFailure> {
        let mut resolved = Vec::with_capacity(operations.len());
        for operation in operations {
            let (path, to) = match &operation {
                Operation::Add { path, .. } | Operation::Delete { path } => (path, None),
                Operation::Update { path, to, .. } => (path, to.as_ref()),
            };
            let target = self.locate(path).await?;
            let to = match to {
                Some(to) => Some(self.locate(to).await?),
                None => None,
            };
            let goes = match &operation {
                Operation::Delete { .. } => true,
                Operation::Update { .. } => to.is_some(),
                Operation::Add { .. } => false,
            };
            if goes && target.is_link {
                return Err(not_applied(&format!(
                    "{} is a link to {}; name the file itself, or remove the link with the shell",
                    target.requested, target.resource
                )));
            }
            resolved.push(Resolved { operation, target, to });
        }
        let targets: Vec<Target> = resolved.iter().flat_map(Resolved::targets).cloned().collect();
        self.files.authorize_external(ctx, &targets).await.map_err(|failure| {
            if !is_blocked(&failure) {
                return failure;
            }
            let outside: Vec<&str> = targets
                .iter()
                .filter(|target| target.external.is_some())
                .map(|target| target.requested.as_str())
                .collect();
            let reason = format!("{} is outside the project: {}", outside.join(", "), failure.message);
            ToolFailure { message: not_applied(&reason).message, ..failure }
        })?;
        Ok(resolved)
    }

    async fn locate(&self, path: &str) -> Result<Target, ToolFailure> {
        self.files.access.resolve(path, Wanted::File).await.map_err(|error| prefixed(access_failure(error)))
    }

    /// Looks at every file of a patch.
    async fn current(&self, operations: &[Resolved]) -> Result<BTreeMap<PathBuf, Current>, ToolFailure> {
        let mut found = BTreeMap::new();
        for target in operations.iter().flat_map(Resolved::targets) {
            if !found.contains_key(&target.real) {
                let current = self.files.current(target).await.map_err(prefixed)?;
                found.insert(target.real.clone(), current);
            }
        }
        Ok(found)
    }

    /// Fails with why a patch does not fit, unless that would tell what the call may not read: then the change has to be
    /// allowed first.
    async fn disclose(&self, ctx: &ToolContext, targets: &[&Target], reason: &str) -> ToolFailure {
        let resources: Vec<String> = targets.iter().flat_map(|target| target.resources()).collect();
        let may_read = self.files.may_read(ctx, &resources).await;
        if !may_read && let Err(denied) = self.files.authorize_changes(ctx, targets, &[]).await {
            return denied;
        }
        not_applied(reason)
    }
}

impl TypedTool for Patch {
    type Input = PatchInput;
    type Output = PatchOutput;

    fn name(&self) -> &'static str {
        "patch"
    }

    fn description(&self) -> String {
        DESCRIPTION.to_owned()
    }

    fn options(&self) -> ToolOptions {
        ToolOptions { permission: Some(EDIT_ACTION.to_owned()), ..ToolOptions::direct() }
    }

    fn freeform(&self) -> Option<Freeform> {
        Some(Freeform { input: "patchText".to_owned(), name: FREEFORM_NAME.to_owned() })
    }

    fn effects(&self) -> Effects {
        Effects::Files
    }

    fn limits(&self) -> Vec<String> {
        vec![
            format!(
                "files up to {MAX_EDIT_BYTES} bytes; regular files only, links are followed by updates and refused otherwise"
            ),
            "offered in the place of `edit` and `write` to models that were trained on patches (`abide.tools.patch`)"
                .to_owned(),
        ]
    }

    async fn execute(&self, ctx: ToolContext, input: PatchInput) -> Result<ToolReturn<PatchOutput>, ToolFailure> {
        let operations = parse::parse(&input.patch_text).map_err(|error| not_applied(&error.to_string()))?;
        let operations = self.resolve(&ctx, operations).await?;
        let targets = distinct(&operations);
        let approved = self.current(&operations).await?;
        for target in &targets {
            if let Some(current) = approved.get(&target.real) {
                self.files.read_note(&ctx, target, current)?;
            }
        }
        let preview = match plan::plan(&operations, &approved) {
            Ok(planned) => planned,
            Err(reason) => return Err(self.disclose(&ctx, &targets, &reason).await),
        };
        self.files.authorize_changes(&ctx, &targets, &preview.files).await?;

        let guard = self.files.journal.lock(targets.iter().map(|target| target.real.clone())).await;
        let mut current = BTreeMap::new();
        let mut notes = Vec::new();
        for target in &targets {
            let Some(known) = approved.get(&target.real) else { continue };
            let now = self.files.recheck(target, known).await.map_err(prefixed)?;
            notes.extend(self.files.read_note(&ctx, target, &now)?);
            current.insert(target.real.clone(), now);
        }
        let Planned { changes, files } = plan::plan(&operations, &current).map_err(|reason| not_applied(&reason))?;
        let mut text = "Patch applied:".to_owned();
        for line in operations.iter().map(Resolved::line).chain(notes) {
            text.push('\n');
            text.push_str(&line);
        }
        let output = PatchOutput { applied: operations.iter().map(applied).collect(), files: files.clone() };
        let returned = ToolReturn::new(output).with_text(text).with_metadata("files", serde_json::json!(files));
        self.files.commit_all(&ctx, self.name(), guard, changes, &returned).await.map_err(not_committed)?;
        Ok(returned)
    }
}

const DESCRIPTION: &str = "Changes any number of files at once: all of the patch is applied, or none of it. The text begins \
with '*** Begin Patch' and ends with '*** End Patch'. Between them stand operations: '*** Add File: <path>' and the lines of \
the file, each after '+'; '*** Delete File: <path>'; '*** Update File: <path>', then perhaps '*** Move to: <new path>', then \
chunks. A chunk begins with '@@', or '@@ <line>' to look below that line of the file; its lines begin with ' ' (stays), '-' \
(goes) or '+' (comes). Give about three lines of context, as they are in the file; '*** End of File' after a chunk ties it to \
the end. Paths are relative to the working directory or absolute.";

fn distinct(operations: &[Resolved]) -> Vec<&Target> {
    let mut targets: Vec<&Target> = Vec::new();
    for target in operations.iter().flat_map(Resolved::targets) {
        if !targets.iter().any(|known| known.real == target.real) {
            targets.push(target);
        }
    }
    targets
}

fn applied(operation: &Resolved) -> Applied {
    let place = operation.to.as_ref().unwrap_or(&operation.target);
    Applied {
        r#type: match operation.operation {
            Operation::Add { .. } => AppliedType::Add,
            Operation::Delete { .. } => AppliedType::Delete,
            Operation::Update { .. } => AppliedType::Update,
        },
        resource: place.resource.clone(),
        target: place.real.to_string_lossy().into_owned(),
        moved_from: operation.to.as_ref().map(|_| operation.target.resource.clone()),
    }
}

fn not_applied(reason: &str) -> ToolFailure {
    ToolFailure::new(format!("Patch not applied: {reason}"))
}

fn prefixed(failure: ToolFailure) -> ToolFailure {
    ToolFailure { message: not_applied(&failure.message).message, ..failure }
}

/// Says what became of the files when the batch failed.
fn not_committed(error: ApplyError) -> ToolFailure {
    match &error {
        ApplyError::Diverged { files, cause } => {
            let names = |wanted: fn(&FileReport) -> bool| {
                files.iter().filter(|file| wanted(file)).map(|file| file.path.as_str()).collect::<Vec<_>>().join(", ")
            };
            let changed = names(|file| file.standing.is_after() && !file.standing.is_before());
            let lost = names(|file| !file.standing.is_after() && !file.standing.is_before());
            let mut text = format!("Patch partly applied: {cause}.");
            if !changed.is_empty() {
                // Writing to a string does not fail.
                let _ok = write!(text, " Changed: {changed}.");
            }
            if !lost.is_empty() {
                let _ok = write!(text, " Not restored: {lost} (neither as before nor as planned).");
            }
            caused(text, &error)
        }
        ApplyError::Journal { applied: true, .. } => caused("The patch is applied, but that was not recorded", &error),
        ApplyError::Stale { .. }
        | ApplyError::TargetExists { .. }
        | ApplyError::Missing { .. }
        | ApplyError::NotAFile { .. }
        | ApplyError::ReadOnly { .. }
        | ApplyError::BadPath { .. }
        | ApplyError::AlreadyDone
        | ApplyError::Fenced
        | ApplyError::Io { .. }
        | ApplyError::Journal { applied: false, .. }
        | ApplyError::Fault(_) => {
            let mut failure = caused("Patch not applied", &error);
            failure.message = format!("{}. No files were changed.", crate::tool::failure::model_text(&failure));
            failure
        }
    }
}
