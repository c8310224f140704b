//! The tool `skill`: loads the instructions of a skill (spec/tools.md 11.13).

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use ignore::WalkBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::files::blocking;
use crate::permission::{AssertInput, PermissionService};
use crate::skill::Skill;
use crate::tool::leaf::{ToolContext, ToolReturn, TypedTool};
use crate::tool::outcome::ToolFailure;

const ACTION: &str = "skill";
/// How many files beside a skill are named.
const MAX_FILES: usize = 10;
/// How many files are looked at to find them.
const MAX_LOOKED_AT: usize = 2000;
/// The name of a skill that has a folder of its own.
const FILE_NAME: &str = "SKILL.md";

/// What the tool knows of a location, as it is when a call runs.
pub trait Skills: Send + Sync {
    /// Finds a skill.
    fn skill(&self, id: &str) -> Option<Skill>;
    /// Says whether an agent has this name.
    fn is_agent(&self, id: &str) -> bool;
}

/// The tool.
pub struct SkillTool {
    permissions: PermissionService,
    skills: Arc<dyn Skills>,
}

impl std::fmt::Debug for SkillTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SkillTool")
    }
}

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SkillInput {
    /// The id of the skill, from the list of available skills.
    id: String,
}

/// What it gets.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SkillOutput {
    name: String,
    /// Where relative paths of the skill start.
    directory: String,
    /// The instructions.
    output: String,
}

impl SkillTool {
    /// Makes the tool.
    pub fn new(permissions: PermissionService, skills: Arc<dyn Skills>) -> Self {
        Self { permissions, skills }
    }
}

impl TypedTool for SkillTool {
    type Input = SkillInput;
    type Output = SkillOutput;

    fn name(&self) -> &'static str {
        "skill"
    }

    fn description(&self) -> String {
        "Loads a skill: instructions for one kind of task, with the directory of its files. Load it when the task at hand \
         is one that the list of available skills names; then follow what it says."
            .to_owned()
    }

    fn limits(&self) -> Vec<String> {
        vec![format!("names at most {MAX_FILES} files beside the skill")]
    }

    async fn execute(&self, ctx: ToolContext, input: SkillInput) -> Result<ToolReturn<SkillOutput>, ToolFailure> {
        let id = input.id;
        let Some(skill) = self.skills.skill(&id) else {
            return Err(ToolFailure::new(if self.skills.is_agent(&id) {
                format!("{id} is an agent, not a skill: start it with the tool subagent")
            } else {
                format!("Could not load skill {id}: there is no such skill")
            }));
        };
        let asked = AssertInput::new(ACTION, &id).saving(&id).with_metadata("name", skill.info.name.clone());
        self.permissions.assert(&ctx, asked).await?;

        let path = Path::new(&skill.info.location).to_owned();
        let directory = path.parent().unwrap_or(&path).to_owned();
        let has_folder = path.file_name().is_some_and(|name| name == FILE_NAME);
        let files = if has_folder {
            let folder = directory.clone();
            // What cannot be listed is not named.
            blocking(move || Ok(beside(&folder))).await.unwrap_or_default()
        } else {
            Vec::new()
        };
        let name = skill.info.name.clone();
        let directory = directory.display().to_string();
        let text = render(&skill, &directory, &files);
        let output = SkillOutput { name: name.clone(), directory: directory.clone(), output: text.clone() };
        Ok(ToolReturn::new(output).with_text(text).with_metadata("name", name).with_metadata("directory", directory))
    }
}

fn render(skill: &Skill, directory: &str, files: &[String]) -> String {
    let mut text = format!(
        "<skill_content name=\"{}\">\n# Skill: {}\n\n{}\n\nBase directory: {directory}\nRelative paths in this skill start there.\n",
        attribute(&skill.id),
        skill.info.name,
        skill.info.content.trim(),
    );
    if !files.is_empty() {
        text.push_str("\n<skill_files>\n");
        for file in files {
            // Writing to a string does not fail.
            let _ok = writeln!(text, "<file>{}</file>", attribute(file));
        }
        text.push_str("</skill_files>\n");
    }
    text.push_str("</skill_content>");
    text
}

fn attribute(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Lists the files of a skill's folder, hidden ones too, sorted. Blocks.
fn beside(folder: &Path) -> Vec<String> {
    let walk = WalkBuilder::new(folder).standard_filters(false).follow_links(false).build();
    let files = walk
        .filter_map(Result::ok)
        .take(MAX_LOOKED_AT)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()) && entry.path() != folder.join(FILE_NAME));
    let mut names: Vec<String> =
        files.filter_map(|entry| Some(entry.path().strip_prefix(folder).ok()?.to_str()?.to_owned())).collect();
    names.sort();
    names.truncate(MAX_FILES);
    names
}
