//! The tool `write`: makes or replaces a file (spec/tools.md 11.2).

#[cfg(test)]
mod tests;

use abide_schema::tool::{Effects, ToolOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::files::{Current, EDIT_ACTION, FileTools, MAX_EDIT_BYTES, diff_contents};
use crate::fs::access::Wanted;
use crate::fs::journal::Change;
use crate::fs::text::{LineEnds, Text, encode_over};
use crate::tool::leaf::{ToolContext, ToolReturn, TypedTool};
use crate::tool::outcome::ToolFailure;

/// The tool.
#[derive(Debug)]
pub struct Write {
    files: FileTools,
}

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WriteInput {
    /// The file, absolute or relative to the working directory.
    path: String,
    /// The whole new content.
    content: String,
}

/// What it gets.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WriteOutput {
    operation: Operation,
    /// The real absolute path.
    target: String,
    /// The file as rules name it.
    resource: String,
    /// Whether there was a file.
    existed: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Write,
}

impl Write {
    /// Makes the tool.
    pub fn new(files: FileTools) -> Self {
        Self { files }
    }
}

impl TypedTool for Write {
    type Input = WriteInput;
    type Output = WriteOutput;

    fn name(&self) -> &'static str {
        "write"
    }

    fn description(&self) -> String {
        "Writes a whole file: makes it, with its missing directories, or replaces what it holds. The content is written \
         as given; a byte order mark of the file stays. Use edit to change a part of a file."
            .to_owned()
    }

    fn options(&self) -> ToolOptions {
        ToolOptions { permission: Some(EDIT_ACTION.to_owned()), ..ToolOptions::direct() }
    }

    fn effects(&self) -> Effects {
        Effects::Files
    }

    fn limits(&self) -> Vec<String> {
        vec![format!("a file that is replaced has at most {MAX_EDIT_BYTES} bytes")]
    }

    async fn execute(&self, ctx: ToolContext, input: WriteInput) -> Result<ToolReturn<WriteOutput>, ToolFailure> {
        let files = &self.files;
        let target = files.resolve(&ctx, &input.path, Wanted::File).await?;
        let approved = files.current(&target).await?;
        files.read_note(&ctx, &target, &approved)?;
        let content = encode_over(approved.content(), &input.content);
        let preview = diff_contents(&target.resource, approved.content(), Some(&content));
        files.authorize(&ctx, EDIT_ACTION, &target, Some(&preview)).await?;

        let guard = files.lock(&target).await;
        let current = files.recheck(&target, &approved).await?;
        let note = files.read_note(&ctx, &target, &current)?;
        let content = encode_over(current.content(), &input.content);
        let file = diff_contents(&target.resource, current.content(), Some(&content));
        let existed = current.content().is_some();
        let output = WriteOutput {
            operation: Operation::Write,
            target: target.real.to_string_lossy().into_owned(),
            resource: target.resource.clone(),
            existed,
        };
        let mut text = format!("{} {}", if existed { "Wrote" } else { "Created" }, target.resource);
        for line in note.into_iter().chain(line_ends_note(current.content(), &content)) {
            text.push('\n');
            text.push_str(&line);
        }
        let returned = ToolReturn::new(output).with_text(text).with_metadata("files", serde_json::json!([file]));
        let change = match current {
            Current::Missing => Change::Create { path: target.real, content, mode: None },
            Current::File(file) if file.content == content => return Ok(returned),
            Current::File(file) => Change::Write { path: target.real, expected: Some(file.hash), content },
        };
        files.commit(&ctx, self.name(), guard, change, &returned).await?;
        Ok(returned)
    }
}

/// Says so when the line ends of a file become others.
fn line_ends_note(before: Option<&[u8]>, after: &[u8]) -> Option<String> {
    let ends = |bytes: &[u8]| Text::decode(bytes).ok().map(|text| LineEnds::of(&text.text));
    let (before, after) = (ends(before?)?, ends(after)?);
    let told = before != after && before != LineEnds::None && after != LineEnds::None;
    told.then(|| format!("Note: its line ends were {} and are {} now.", before.name(), after.name()))
}
