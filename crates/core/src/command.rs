//! Slash commands: which there are (spec/config.md 12.1).

use abide_schema::catalog::CommandInfo;
use abide_schema::config::{Diagnostic, DiagnosticKind, Severity};

use crate::config::Config;
use crate::skill::Skill;

const INIT: &str = include_str!("command/init.md");
const REVIEW: &str = include_str!("command/review.md");

/// Puts the commands together: built-in ones, skills, configured ones; a later one replaces an earlier one.
pub fn assemble(config: &Config, skills: &[Skill], diagnostics: &mut Vec<Diagnostic>) -> Vec<CommandInfo> {
    let mut commands = vec![
        builtin("init", INIT, "Write or improve the AGENTS.md of this project", None),
        builtin("review", REVIEW, "Review changes: uncommitted ones, a commit, a branch", Some(true)),
    ];
    let mut add = |command: CommandInfo| match commands.iter_mut().find(|known| known.name == command.name) {
        Some(known) => *known = command,
        None => commands.push(command),
    };
    for skill in skills.iter().filter(|skill| skill.info.slash == Some(true)) {
        let folder = std::path::Path::new(&skill.info.location).parent().unwrap_or(std::path::Path::new("/"));
        add(CommandInfo {
            name: skill.id.clone(),
            template: format!("{}\n\nThe files of this skill are in {}.", skill.info.content, folder.display()),
            description: skill.info.description.clone(),
            agent: None,
            model: None,
            subtask: None,
        });
    }
    for (name, own) in config.commands() {
        if own.disabled == Some(true) {
            continue;
        }
        match own.template.filter(|template| !template.trim().is_empty()) {
            Some(template) => add(CommandInfo {
                name,
                template,
                description: own.description,
                agent: own.agent,
                model: own.model.map(|model| model.0),
                subtask: own.subtask,
            }),
            None => diagnostics.push(
                Diagnostic::new(
                    Severity::Error,
                    DiagnosticKind::Invalid,
                    format!("the command {name:?} has no template; it is left out"),
                )
                .at(format!("/commands/{name}")),
            ),
        }
    }
    commands
}

fn builtin(name: &str, template: &str, description: &str, subtask: Option<bool>) -> CommandInfo {
    CommandInfo {
        name: name.to_owned(),
        template: template.trim_end().to_owned(),
        description: Some(description.to_owned()),
        agent: None,
        model: None,
        subtask,
    }
}
