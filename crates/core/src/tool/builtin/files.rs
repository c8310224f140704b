//! What the tools on files share: their services, and the order of resolving, asking and changing.

use std::io;
use std::sync::Arc;

use abide_schema::JsonObject;
use abide_schema::json::sha256_hex;
use abide_schema::permission::Effect;
use serde::Serialize;
use serde_json::json;

use crate::fault;
use crate::fs::access::{Access, AccessError, EXTERNAL_ACTION, Kind, Target, Wanted, externals};
use crate::fs::diff::{FileDiff, binary_diff, diff};
use crate::fs::disk::{self, Facts, Found};
use crate::fs::journal::{ApplyError, Change, Journal, PathGuard, Plan};
use crate::fs::reads::{Known, Reads, Seen};
use crate::fs::text::Text;
use crate::permission::{AssertInput, Judge, PermissionService};
use crate::secret::{SecretFiles, SensitiveJudge};
use crate::store::CallKey;
use crate::tool::failure::caused;
use crate::tool::info::ToolInfo;
use crate::tool::leaf::{ToolContext, ToolReturn};
use crate::tool::outcome::ToolFailure;

/// The action of tools that change files.
pub(crate) const EDIT_ACTION: &str = "edit";

/// The action of tools that show what files hold.
pub(crate) const READ_ACTION: &str = "read";

/// The largest file that is changed as text.
pub(crate) const MAX_EDIT_BYTES: u64 = 64 * 1024 * 1024;

/// What the tools on files are made of. Cheap to clone.
#[derive(Clone)]
pub struct FileTools {
    /// The paths of the location.
    pub access: Arc<Access>,
    /// The permissions of the location.
    pub permissions: PermissionService,
    /// Through which files are changed; one per process.
    pub journal: Journal,
    /// What sessions have seen; one per process.
    pub reads: Arc<Reads>,
    /// Whether a session may only change files that it has read (`edit.require_read`).
    pub require_read: bool,
    /// Files that are asked for before they are shown, also where everything is allowed.
    pub secret_files: SecretFiles,
}

impl std::fmt::Debug for FileTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileTools")
    }
}

impl FileTools {
    /// Returns the tools `edit`, `glob`, `grep`, `patch`, `read` and `write`.
    pub fn tools(&self) -> Vec<ToolInfo> {
        vec![
            ToolInfo::typed(super::edit::Edit::new(self.clone())),
            ToolInfo::typed(super::glob::Glob::new(self.clone())),
            ToolInfo::typed(super::grep::Grep::new(self.clone())),
            ToolInfo::typed(super::patch::Patch::new(self.clone())),
            ToolInfo::typed(super::read::Read::new(self.clone())),
            ToolInfo::typed(super::write::Write::new(self.clone())),
        ]
    }

    /// Resolves a path and asks for the directory when it lies outside.
    pub(crate) async fn resolve(&self, ctx: &ToolContext, path: &str, wanted: Wanted) -> Result<Target, ToolFailure> {
        let target = self.access.resolve(path, wanted).await.map_err(access_failure)?;
        self.authorize_external(ctx, std::slice::from_ref(&target)).await?;
        Ok(target)
    }

    /// Asks for all directories outside at once.
    pub(crate) async fn authorize_external(&self, ctx: &ToolContext, targets: &[Target]) -> Result<(), ToolFailure> {
        let borders = externals(targets);
        if borders.is_empty() {
            return Ok(());
        }
        let paths: Vec<_> = targets
            .iter()
            .filter(|target| target.external.is_some())
            .map(|target| json!({ "path": target.requested, "target": target.real.to_string_lossy() }))
            .collect();
        let input = AssertInput {
            action: EXTERNAL_ACTION.to_owned(),
            resources: borders.iter().map(|border| border.resource.clone()).collect(),
            save: borders.into_iter().map(|border| border.save).collect(),
            metadata: JsonObject::from_iter([("paths".to_owned(), paths.into())]),
            ..AssertInput::default()
        };
        Ok(self.permissions.assert(ctx, input).await?)
    }

    /// Asks for an action on a target; the request names the real place and, where they differ, the way to it.
    pub(crate) async fn authorize(
        &self,
        ctx: &ToolContext,
        action: &str,
        target: &Target,
        files: Option<&FileDiff>,
    ) -> Result<(), ToolFailure> {
        let mut metadata = JsonObject::from_iter([
            ("path".to_owned(), target.requested.clone().into()),
            ("target".to_owned(), target.real.to_string_lossy().into()),
        ]);
        if let Some(file) = files {
            metadata.insert("files".to_owned(), json!([file]));
        }
        let mut input = AssertInput {
            action: action.to_owned(),
            resources: target.resources(),
            save: vec!["*".to_owned()],
            metadata,
            ..AssertInput::default()
        };
        if action == READ_ACTION
            && let Some(judge) =
                SensitiveJudge::of(&self.secret_files, READ_ACTION, &input.resources, self.access.directory())
        {
            // "Always" is for these files, not for all.
            input.save.clone_from(&input.resources);
            input.metadata.insert("sensitive".to_owned(), true.into());
            input.judge = Some(Arc::new(judge));
        }
        Ok(self.permissions.assert(ctx, input).await?)
    }

    /// Says whether all files may be shown without a question.
    pub(crate) async fn may_read(&self, ctx: &ToolContext, resources: &[String]) -> bool {
        let judge = SensitiveJudge::of(&self.secret_files, READ_ACTION, resources, self.access.directory());
        let judge = judge.as_ref().map(|judge| judge as &dyn Judge);
        self.permissions.judged_effect(ctx, READ_ACTION, resources, judge).await == Effect::Allow
    }

    /// Makes sure that a file may be changed at all, before anybody is asked: what stands there, read whole.
    pub(crate) async fn current(&self, target: &Target) -> Result<Current, ToolFailure> {
        match target.kind {
            Kind::Missing => return Ok(Current::Missing),
            Kind::Directory => return Err(ToolFailure::new(format!("{} is a directory", target.requested))),
            Kind::Other => {
                return Err(ToolFailure::new(format!("Neither a file nor a directory: {}", target.resource)));
            }
            Kind::File => {}
        }
        let real = target.real.clone();
        let looked = blocking(move || {
            let length = std::fs::symlink_metadata(&real)?.len();
            if length > MAX_EDIT_BYTES { Ok(Err(length)) } else { disk::look(&real).map(Ok) }
        })
        .await;
        match looked {
            Ok(Ok(Found::File(read))) => {
                if read.facts.mode & 0o222 == 0 {
                    let error = ApplyError::ReadOnly { path: target.resource.clone(), mode: read.facts.mode };
                    return Err(caused(format!("Could not change {}", target.requested), &error));
                }
                Ok(Current::File(FileNow { hash: sha256_hex(&read.content), content: read.content, facts: read.facts }))
            }
            Ok(Ok(Found::Missing)) => Ok(Current::Missing),
            Ok(Ok(Found::NotAFile)) => {
                Err(ToolFailure::new(format!("Neither a file nor a directory: {}", target.resource)))
            }
            Ok(Err(length)) => Err(ToolFailure::new(format!(
                "{} is too large to be changed: {length} bytes, the limit is {MAX_EDIT_BYTES}",
                target.requested
            ))),
            Err(error) => Err(caused(format!("Could not read {}", target.requested), &error)),
        }
    }

    /// Locks an approved target and looks at it again.
    pub(crate) async fn lock(&self, target: &Target) -> PathGuard {
        self.journal.lock([target.real.clone()]).await
    }

    /// Looks again at an approved target that is locked: it must be the same place, and hold what was approved or what
    /// changes of abide made of that.
    pub(crate) async fn recheck(&self, target: &Target, approved: &Current) -> Result<Current, ToolFailure> {
        // That another call of abide made or removed the file is no change of the place.
        let now = self.access.resolve(&target.requested, wanted_again(target)).await.map_err(access_failure)?;
        let same_place = now.real == target.real && now.external == target.external;
        let now = Target { kind: now.kind, ..target.clone() };
        let looked = if same_place { self.current(&now).await.ok() } else { None };
        let Some(looked) = looked else { return Err(moved_failure()) };
        if looked.hash() == approved.hash() {
            return Ok(looked);
        }
        if !self.journal.is_own_change(&target.real, approved.hash(), looked.hash()) {
            return Err(ToolFailure::new(format!(
                "{} changed while waiting for approval. Read it again.",
                target.requested
            )));
        }
        Ok(looked)
    }

    /// Compares a file with what the session has seen: a note for the model when it changed since, a failure when it
    /// has to have been read and was not.
    pub(crate) fn read_note(
        &self,
        ctx: &ToolContext,
        target: &Target,
        current: &Current,
    ) -> Result<Option<String>, ToolFailure> {
        let Current::File(file) = current else { return Ok(None) };
        match self.reads.compare(&ctx.session_id, &target.real, &file.hash, &seen_part(&file.facts)) {
            Known::Unread if self.require_read => Err(ToolFailure::new(format!(
                "{} has not been read in this session. Read it first (edit.require_read is set).",
                target.requested
            ))),
            Known::Unread | Known::Current => Ok(None),
            Known::Changed => Ok(Some(format!("Note: {} had changed since it was last read.", target.resource))),
        }
    }

    /// Asks for the change of several files at once; the request shows what will become of them.
    pub(crate) async fn authorize_changes(
        &self,
        ctx: &ToolContext,
        targets: &[&Target],
        files: &[FileDiff],
    ) -> Result<(), ToolFailure> {
        let mut resources: Vec<String> = Vec::new();
        for resource in targets.iter().flat_map(|target| target.resources()) {
            if !resources.contains(&resource) {
                resources.push(resource);
            }
        }
        let paths: Vec<_> = targets
            .iter()
            .map(|target| json!({ "path": target.requested, "target": target.real.to_string_lossy() }))
            .collect();
        let diff: String = files.iter().map(|file| file.patch.as_str()).collect();
        let names: Vec<&str> = targets.iter().map(|target| target.resource.as_str()).collect();
        let metadata = JsonObject::from_iter([
            ("paths".to_owned(), paths.into()),
            ("filepath".to_owned(), names.join(", ").into()),
            ("files".to_owned(), json!(files)),
            ("diff".to_owned(), diff.into()),
        ]);
        let save = vec!["*".to_owned()];
        let input = AssertInput { action: EDIT_ACTION.to_owned(), resources, save, metadata, ..AssertInput::default() };
        Ok(self.permissions.assert(ctx, input).await?)
    }

    /// Changes one file through the journal; the return is stored first, so that recovery can publish it.
    pub(crate) async fn commit<O: Serialize>(
        &self,
        ctx: &ToolContext,
        tool: &str,
        guard: PathGuard,
        change: Change,
        returned: &ToolReturn<O>,
    ) -> Result<(), ToolFailure> {
        let path = change.place().to_owned();
        self.commit_all(ctx, tool, guard, vec![change], returned).await.map_err(|error| {
            if matches!(error, ApplyError::Stale { .. }) {
                ToolFailure::new(format!("{} changed while it was being written. Read it again.", path.display()))
            } else {
                caused(format!("Could not write {}", path.display()), &error)
            }
        })
    }

    /// Changes files through the journal, all or none.
    pub(crate) async fn commit_all<O: Serialize>(
        &self,
        ctx: &ToolContext,
        tool: &str,
        guard: PathGuard,
        changes: Vec<Change>,
        returned: &ToolReturn<O>,
    ) -> Result<(), ApplyError> {
        let contents = changes.iter().filter_map(|change| match change {
            Change::Create { path, content, .. }
            | Change::Write { path, content, .. }
            | Change::Restore { path, content, .. } => Some((path.clone(), sha256_hex(content))),
            // The content of a file that moves is known already.
            Change::Move { to, expected, .. } => Some((to.clone(), expected.clone()?)),
            Change::Delete { .. } | Change::Chmod { .. } => None,
        });
        let contents: Vec<_> = contents.collect();
        let plan = Plan {
            call: Some(CallKey {
                session: ctx.session_id.clone(),
                message: ctx.message_id.clone(),
                call: ctx.id.clone(),
            }),
            session: ctx.session_id.clone(),
            tool: tool.to_owned(),
            fence: Some(ctx.fence),
            output: json!({ "structured": returned.output, "content": returned.content }),
            changes,
        };
        fault::point("tool.before_effect").await?;
        let journal = self.journal.clone();
        ctx.scope.commit(async move { journal.apply(guard, plan).await }).await?;
        for (path, hash) in contents {
            self.reads.note(&ctx.session_id, &path, Seen::Content(hash));
        }
        Ok(())
    }
}

/// What stands at a target that is to be changed.
#[derive(Debug)]
pub(crate) enum Current {
    Missing,
    File(FileNow),
}

/// A file as it was read.
#[derive(Debug)]
pub(crate) struct FileNow {
    pub(crate) content: Vec<u8>,
    pub(crate) hash: String,
    pub(crate) facts: Facts,
}

impl Current {
    pub(crate) fn content(&self) -> Option<&[u8]> {
        match self {
            Self::Missing => None,
            Self::File(file) => Some(&file.content),
        }
    }

    fn hash(&self) -> Option<&str> {
        match self {
            Self::Missing => None,
            Self::File(file) => Some(&file.hash),
        }
    }
}

/// Compares two contents of a file, as texts when both are.
pub(crate) fn diff_contents(file: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> FileDiff {
    let text = |bytes: Option<&[u8]>| bytes.map(Text::decode).transpose();
    match (text(before), text(after)) {
        (Ok(old), Ok(new)) => {
            diff(file, old.as_ref().map(|text| text.text.as_str()), new.as_ref().map(|text| text.text.as_str()))
        }
        (Err(_), _) | (_, Err(_)) => binary_diff(file, before, after),
    }
}

/// Returns what stands for a file of which only a part was read.
pub(crate) fn seen_part(facts: &Facts) -> Seen {
    Seen::Part { length: facts.length, modified: facts.modified }
}

/// Turns a failure of resolving into one for the model.
pub(crate) fn access_failure(error: AccessError) -> ToolFailure {
    match error {
        AccessError::Io { path, source } => caused(format!("Could not resolve {path}"), &source),
        AccessError::Invalid { .. }
        | AccessError::ParentNotDirectory { .. }
        | AccessError::TooManyLinks { .. }
        | AccessError::NoHome { .. }
        | AccessError::Changed { .. } => ToolFailure::new(error.to_string()),
    }
}

fn moved_failure() -> ToolFailure {
    ToolFailure::new("The target changed while waiting for approval")
}

fn wanted_again(target: &Target) -> Wanted {
    match &target.external {
        Some(border) if border.directory == target.real => Wanted::Directory,
        Some(_) | None => Wanted::File,
    }
}

/// Runs blocking work on its own thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}
