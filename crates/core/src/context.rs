//! Context sources: what a model is told about its surroundings (spec/session.md 10.1, spec/config.md section 14).
//!
//! A source is an [`ObservedSource`]: a value, and the words for it. When it is told is the engine's business.

mod instructions;

use abide_schema::Timestamp;
use abide_schema::json::sha256_hex;
use abide_schema::location::LocationInfo;
use serde_json::json;

use crate::session::place::{ObservedSource, SourceState};
use crate::skill::Skill;

pub(crate) use instructions::Input;
pub use instructions::{InstructionFile, Instructions};

/// The key of the environment.
pub const ENVIRONMENT: &str = "core/environment";
/// The key of the date.
pub const DATE: &str = "core/date";
/// The key of the instructions.
pub const INSTRUCTIONS: &str = "core/instructions";
/// The key of the skills.
pub const SKILLS: &str = "core/skills";

/// The working directory, the project and the machine.
pub fn environment(location: &LocationInfo, is_git: bool) -> ObservedSource {
    let platform = std::env::consts::OS;
    let mut lines = vec!["Environment".to_owned(), format!("- working directory: {}", location.directory)];
    if is_git {
        lines.push(format!("- project root: {} (a git repository)", location.project.directory));
    } else {
        lines.push("- not a git repository".to_owned());
    }
    lines.push(format!("- platform: {platform}"));
    let baseline = lines.join("\n");
    ObservedSource {
        key: ENVIRONMENT.to_owned(),
        state: SourceState::Available {
            value: json!({
                "directory": location.directory,
                "project": location.project.directory,
                "git": is_git,
                "platform": platform,
            }),
            update: format!("The environment changed.\n{baseline}"),
            baseline,
        },
    }
}

/// The date where the user is.
pub fn date(now: Timestamp) -> ObservedSource {
    let local = chrono::DateTime::from_timestamp_millis(now.as_millis())
        .map(|instant| instant.with_timezone(&chrono::Local).format("%Y-%m-%d (%A)").to_string())
        .unwrap_or_default();
    ObservedSource {
        key: DATE.to_owned(),
        state: SourceState::Available {
            value: json!(local),
            baseline: format!("Today is {local}."),
            update: format!("The date changed: today is {local}."),
        },
    }
}

/// The instructions of the user and the project.
pub fn instructions(found: &Instructions) -> ObservedSource {
    let state = if found.is_incomplete {
        SourceState::Unavailable
    } else if found.files.is_empty() {
        SourceState::Removed {
            text: Some("The instruction files are gone: no instructions from files are in force any more.".to_owned()),
        }
    } else {
        let value: Vec<_> = found
            .files
            .iter()
            .map(|file| {
                json!({ "path": file.path.display().to_string(), "hash": sha256_hex(file.content.as_bytes()), "content": file.content })
            })
            .collect();
        let baseline = found.text();
        SourceState::Available {
            value: json!(value),
            update: format!("The instructions changed. These are all that are in force now:\n\n{baseline}"),
            baseline,
        }
    };
    ObservedSource { key: INSTRUCTIONS.to_owned(), state }
}

/// The skills that a model may load.
pub fn skills(offered: &[&Skill]) -> ObservedSource {
    let state = if offered.is_empty() {
        SourceState::Removed { text: Some("There are no skills any more.".to_owned()) }
    } else {
        let lines: Vec<String> = offered
            .iter()
            .map(|skill| {
                format!("- {}: {}", skill.id, skill.info.description.as_deref().unwrap_or("").replace('\n', " "))
            })
            .collect();
        let list = lines.join("\n");
        SourceState::Available {
            value: json!(lines),
            baseline: format!(
                "Skills\nInstructions for special tasks. When a task fits one of them, load it with the tool `skill` \
                 before you begin.\n{list}"
            ),
            update: format!("The skills changed. These can be loaded now:\n{list}"),
        }
    };
    ObservedSource { key: SKILLS.to_owned(), state }
}

#[cfg(test)]
mod tests;
