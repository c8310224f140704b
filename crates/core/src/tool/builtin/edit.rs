//! The tool `edit`: replaces text in a file (spec/tools.md 11.3).

mod ladder;

pub(super) use ladder::{near, plain_char};

#[cfg(test)]
mod tests;

use abide_schema::tool::{Effects, ToolOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::files::{Current, EDIT_ACTION, FileNow, FileTools, MAX_EDIT_BYTES, diff_contents};
use crate::fs::access::{Target, Wanted};
use crate::fs::diff::FileDiff;
use crate::fs::journal::Change;
use crate::fs::text::{NotText, Text};
use crate::tool::leaf::{ToolContext, ToolReturn, TypedTool};
use crate::tool::outcome::ToolFailure;
use ladder::{BytesFailure, NoReplacement, Rung};

/// The tool.
#[derive(Debug)]
pub struct Edit {
    files: FileTools,
}

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EditInput {
    /// The file, absolute or relative to the working directory.
    path: String,
    /// The text to replace, exactly as it is in the file.
    old_string: String,
    /// The text that comes in its place.
    new_string: String,
    /// Whether every place is changed; otherwise there must be only one.
    #[serde(default)]
    replace_all: bool,
}

/// What it gets.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EditOutput {
    /// What changed.
    files: Vec<FileDiff>,
    /// How many places.
    replacements: usize,
}

/// A new content for the file.
struct Edited {
    content: Vec<u8>,
    replacements: usize,
    rung: Rung,
}

impl Edit {
    /// Makes the tool.
    pub fn new(files: FileTools) -> Self {
        Self { files }
    }

    /// Fails with what does not fit, unless that would tell something that the call may not read: then the edit has to
    /// be allowed first.
    async fn disclose(&self, ctx: &ToolContext, target: &Target, failure: ToolFailure) -> ToolFailure {
        let may_read = self.files.may_read(ctx, &target.resources()).await;
        if !may_read && let Err(denied) = self.files.authorize(ctx, EDIT_ACTION, target, None).await {
            return denied;
        }
        failure
    }
}

impl TypedTool for Edit {
    type Input = EditInput;
    type Output = EditOutput;

    fn name(&self) -> &'static str {
        "edit"
    }

    fn description(&self) -> String {
        "Replaces a text in a file. oldString must be there exactly once, with its white space as it is in the file; give \
         enough surrounding lines, or set replaceAll to change every place. Line ends, the byte order mark and everything \
         else in the file stay as they are. Use write to make a file."
            .to_owned()
    }

    fn options(&self) -> ToolOptions {
        ToolOptions { permission: Some(EDIT_ACTION.to_owned()), ..ToolOptions::direct() }
    }

    fn effects(&self) -> Effects {
        Effects::Files
    }

    fn limits(&self) -> Vec<String> {
        vec![format!("files up to {MAX_EDIT_BYTES} bytes")]
    }

    async fn execute(&self, ctx: ToolContext, input: EditInput) -> Result<ToolReturn<EditOutput>, ToolFailure> {
        if input.old_string == input.new_string {
            return Err(ToolFailure::new("No change: oldString and newString are identical"));
        }
        if input.old_string.is_empty() {
            return Err(ToolFailure::new("oldString is empty; use write to create or replace a file"));
        }
        let files = &self.files;
        let target = files.resolve(&ctx, &input.path, Wanted::File).await?;
        let approved = files.current(&target).await?;
        let Current::File(file) = &approved else {
            return Err(ToolFailure::new(format!("No such file: {}", input.path)));
        };
        files.read_note(&ctx, &target, &approved)?;
        let edited = match edited(file, &input, &target) {
            Ok(edited) => edited,
            Err(failure) => return Err(self.disclose(&ctx, &target, failure).await),
        };
        let preview = diff_contents(&target.resource, Some(&file.content), Some(&edited.content));
        files.authorize(&ctx, EDIT_ACTION, &target, Some(&preview)).await?;

        let guard = files.lock(&target).await;
        let current = files.recheck(&target, &approved).await?;
        let note = files.read_note(&ctx, &target, &current)?;
        let Current::File(file) = current else {
            return Err(ToolFailure::new(format!("No such file: {}", input.path)));
        };
        let Edited { content, replacements, rung } = self::edited(&file, &input, &target)?;
        let diff = diff_contents(&target.resource, Some(&file.content), Some(&content));
        let plural = if replacements == 1 { "" } else { "s" };
        let mut text = format!("Edited {} ({replacements} replacement{plural})", target.resource);
        if let Some(line) = note {
            text.push('\n');
            text.push_str(&line);
        }
        let mut returned = ToolReturn::new(EditOutput { files: vec![diff.clone()], replacements })
            .with_text(text)
            .with_metadata("files", serde_json::json!([diff]));
        if rung == Rung::Indent {
            returned = returned.with_metadata("match", "indent");
        }
        let change = Change::Write { path: target.real, expected: Some(file.hash), content };
        files.commit(&ctx, self.name(), guard, change, &returned).await?;
        Ok(returned)
    }
}

/// Makes the new content of a file.
fn edited(file: &FileNow, input: &EditInput, target: &Target) -> Result<Edited, ToolFailure> {
    let (old, new, all) = (&input.old_string, &input.new_string, input.replace_all);
    let path = &target.requested;
    match Text::decode(&file.content) {
        Ok(text) => {
            let found = ladder::replace(&text.text, old, new, all).map_err(|error| not_replaced(path, error))?;
            let content = text.encode(&found.text);
            if content == file.content {
                return Err(ToolFailure::new(format!("No change: {path} has newString there already")));
            }
            Ok(Edited { content, replacements: found.replacements, rung: found.rung })
        }
        Err(error @ NotText::UnknownEncoding { .. }) => match ladder::replace_bytes(&file.content, old, new, all) {
            Ok((content, replacements)) => Ok(Edited { content, replacements, rung: Rung::Exact }),
            Err(BytesFailure::No(no)) => {
                let mut failure = not_replaced(path, no);
                failure.message.push_str(" Of this file, ");
                failure.message.push_str(&error.to_string());
                failure.message.push_str(": only exact ASCII text is certain to be found.");
                Err(failure)
            }
            Err(BytesFailure::Encoding) => Err(ToolFailure::new(format!(
                "newString has characters of which it is not known how {path} writes them: {error}. Use ASCII text, or convert the file first."
            ))),
        },
        Err(error @ (NotText::Binary | NotText::DamagedUtf16)) => {
            Err(ToolFailure::new(format!("{path} cannot be edited as text: {error}")))
        }
    }
}

fn not_replaced(path: &str, error: NoReplacement) -> ToolFailure {
    ToolFailure::new(match error {
        NoReplacement::OnlyLineEnds => format!(
            "No change: oldString and newString are identical but for their line ends, and the line ends of {path} stay as they are"
        ),
        NoReplacement::NotFound { hint } => {
            let hint = hint.map(|hint| format!("\n{hint}")).unwrap_or_default();
            format!(
                "oldString was not found in {path}. Copy the text exactly as it is in the file, with its whitespace.{hint}"
            )
        }
        NoReplacement::Several { count, lines } => {
            let more = if count > lines.len() { ", …" } else { "" };
            let lines = lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            format!(
                "oldString occurs {count} times in {path} (lines {lines}{more}). Give more surrounding lines, or set replaceAll to change all of them."
            )
        }
    })
}
