//! The rules of the built-in agents (spec/tools.md 8.9).

use std::path::Path;

use abide_schema::permission::{Effect, Rule};

use super::evaluate::evaluate;
use Effect::{Allow, Ask, Deny};

/// An agent that abide brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BuiltinAgent {
    /// Does everything.
    Build,
    /// Reads and plans.
    Plan,
    /// Takes over parts of a task.
    General,
    /// Searches.
    Explore,
    /// Compaction, titles, summaries: no tools.
    Hidden,
}

/// Directories that the default rules name.
#[derive(Clone, Copy, Debug)]
pub struct DefaultPaths<'a> {
    /// abide's data directory.
    pub data: &'a Path,
    /// The system's directory for temporary files.
    pub temp: &'a Path,
}

/// Returns the default rules of an agent, before those of any configuration.
pub fn agent_rules(agent: BuiltinAgent, paths: &DefaultPaths<'_>) -> Vec<Rule> {
    let mut rules = base_rules(paths);
    match agent {
        BuiltinAgent::Build => rules.extend([rule("question", "*", Allow), rule("plan_enter", "*", Allow)]),
        BuiltinAgent::Plan => {
            let plans = paths.data.join("plans");
            rules.extend([
                rule("question", "*", Allow),
                rule("plan_exit", "*", Allow),
                rule("edit", "*", Deny),
                rule("edit", ".abide/plans/*.md", Allow),
                rule("edit", &under(&plans, "*.md"), Allow),
                rule("external_directory", &under(&plans, "*"), Allow),
            ]);
        }
        BuiltinAgent::General => rules.push(rule("todowrite", "*", Deny)),
        BuiltinAgent::Explore => {
            rules.push(rule("*", "*", Deny));
            rules.extend(["grep", "glob", "webfetch", "websearch", "read"].map(|action| rule(action, "*", Allow)));
            rules.extend(external(paths));
        }
        BuiltinAgent::Hidden => rules.push(rule("*", "*", Deny)),
    }
    rules
}

/// What a child may not do when its parent's agent may not do it at all: whatever changes things or reaches out.
const INHERITED_DENIALS: &[&str] = &["edit", "shell", "webfetch", "websearch"];

/// Returns the session rules of a child session: the parent's session rules, as far as they do not allow what the
/// child's agent may not do at all, then the whole denials of the parent, so that delegation gives no right that either
/// of them lacks. Without `parent_agent` its rules do not count.
pub fn inherited_rules(parent_agent: &[Rule], parent_session: &[Rule], child_agent: &[Rule]) -> Vec<Rule> {
    // The probe `*` is matched by blanket rules only.
    let denies = |action: &str, rules: &[Rule]| evaluate(action, "*", Path::new("/"), rules) == Deny;
    let lifts = |rule: &Rule| rule.effect == Allow && denies(&rule.action, child_agent);
    let mut rules: Vec<Rule> = parent_session.iter().filter(|rule| !lifts(rule)).cloned().collect();
    let parent: Vec<Rule> = parent_agent.iter().chain(parent_session).cloned().collect();
    let denied = INHERITED_DENIALS.iter().filter(|action| denies(action, &parent));
    rules.extend(denied.map(|action| rule(action, "*", Deny)));
    rules
}

/// Returns the rules that every agent starts with, also one that only configuration defines.
pub fn base_rules(paths: &DefaultPaths<'_>) -> Vec<Rule> {
    let mut rules = vec![rule("*", "*", Allow)];
    rules.extend(external(paths));
    rules.extend([
        rule("question", "*", Deny),
        rule("plan_enter", "*", Deny),
        rule("plan_exit", "*", Deny),
        rule("read", "*", Allow),
        rule("read", "*.env", Ask),
        rule("read", "*.env.*", Ask),
        rule("read", "*.env.example", Allow),
    ]);
    rules
}

fn external(paths: &DefaultPaths<'_>) -> [Rule; 4] {
    let allowed = |directory: &Path| rule("external_directory", &under(directory, "*"), Allow);
    [
        rule("external_directory", "*", Ask),
        allowed(&paths.data.join("tool-output")),
        allowed(&paths.data.join("shell")),
        allowed(&paths.temp.join("abide")),
    ]
}

fn under(directory: &Path, pattern: &str) -> String {
    format!("{}/{pattern}", directory.to_string_lossy())
}

fn rule(action: &str, resource: &str, effect: Effect) -> Rule {
    Rule::new(action, resource, effect)
}
