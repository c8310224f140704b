//! Evaluation of rules: pure.

use std::path::Path;

use abide_schema::agent::AgentInfo;
use abide_schema::permission::{Effect, Rule};

use super::wildcard::matches;

/// What is evaluated: an action on one or more resources, at a directory.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The action.
    pub action: &'a str,
    /// The resources.
    pub resources: &'a [String],
    /// The location, to which relative file resources belong.
    pub directory: &'a Path,
    /// Decides instead of a comparison with patterns.
    pub judge: Option<&'a dyn Judge>,
}

/// Decides about resources that are not plain text, for example the commands of a line. Pure.
pub trait Judge: std::fmt::Debug + Send + Sync {
    /// Decides by configured rules and saved ones. A configured `deny` is final.
    fn decide(&self, configured: &[Rule], saved: &[Rule]) -> Effect;
    /// Returns the configured rules that decide `deny`, without repetition.
    fn denying(&self, configured: &[Rule]) -> Vec<Rule>;
}

impl Request<'_> {
    /// Decides by configured rules, then by these with saved ones after them: a configured `deny` is final; any `ask`
    /// asks; else allow. No resource at all is never allowed.
    pub fn decide(&self, configured: &[Rule], saved: &[Rule]) -> Effect {
        if self.resources.is_empty() {
            return Effect::Deny;
        }
        if let Some(judge) = self.judge {
            return judge.decide(configured, saved);
        }
        if self.resources.iter().any(|resource| self.effect(resource, configured, &[]) == Effect::Deny) {
            return Effect::Deny;
        }
        let all = self.resources.iter().map(|resource| self.effect(resource, configured, saved));
        if all.into_iter().all(|effect| effect == Effect::Allow) { Effect::Allow } else { Effect::Ask }
    }

    /// Returns the configured rules that decide `deny` for one of the resources, without repetition.
    pub fn denying(&self, configured: &[Rule]) -> Vec<Rule> {
        if let Some(judge) = self.judge {
            return judge.denying(configured);
        }
        let mut rules: Vec<Rule> = Vec::new();
        for resource in self.resources {
            if let Some(rule) = deciding(self.action, resource, self.directory, configured)
                && rule.effect == Effect::Deny
                && !rules.contains(rule)
            {
                rules.push(rule.clone());
            }
        }
        rules
    }

    fn effect(&self, resource: &str, configured: &[Rule], saved: &[Rule]) -> Effect {
        deciding(self.action, resource, self.directory, saved)
            .or_else(|| deciding(self.action, resource, self.directory, configured))
            .map_or(Effect::Ask, |rule| rule.effect)
    }
}

/// Decides about one resource: the last rule that matches, else ask.
pub fn evaluate(action: &str, resource: &str, directory: &Path, rules: &[Rule]) -> Effect {
    deciding(action, resource, directory, rules).map_or(Effect::Ask, |rule| rule.effect)
}

/// Returns the last rule that matches.
pub(crate) fn deciding<'r>(action: &str, resource: &str, directory: &Path, rules: &'r [Rule]) -> Option<&'r Rule> {
    let absolute = absolute_form(action, resource, directory);
    rules.iter().rev().find(|rule| {
        matches(action, &rule.action)
            && (matches(resource, &rule.resource)
                || absolute
                    .as_deref()
                    .is_some_and(|absolute| is_absolute(&rule.resource) && matches(absolute, &rule.resource)))
    })
}

/// Returns the absolute form of a relative file resource: rules with an absolute pattern are compared with it.
fn absolute_form(action: &str, resource: &str, directory: &Path) -> Option<String> {
    if !matches!(action, "read" | "edit") || is_absolute(resource) {
        return None;
    }
    let mut parts: Vec<String> = Vec::new();
    let base = directory.to_string_lossy().replace('\\', "/");
    let resource = resource.replace('\\', "/");
    for part in base.split('/').chain(resource.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            other => parts.push(other.to_owned()),
        }
    }
    let joined = parts.join("/");
    Some(if base.starts_with('/') { format!("/{joined}") } else { joined })
}

fn is_absolute(pattern: &str) -> bool {
    let mut bytes = pattern.bytes().map(|byte| if byte == b'\\' { b'/' } else { byte });
    match bytes.next() {
        Some(b'/') => true,
        Some(letter) if letter.is_ascii_alphabetic() => bytes.next() == Some(b':') && bytes.next() == Some(b'/'),
        Some(_) | None => false,
    }
}

/// Says whether the rules deny an action whatever the resource, so that its tools need not be offered. A narrow
/// allow after the deny keeps them visible; no matching rule means ask.
pub fn wholly_disabled(action: &str, rules: &[Rule]) -> bool {
    let relevant: Vec<&Rule> = rules.iter().filter(|rule| matches(action, &rule.action)).collect();
    let denies = |probe: &str| {
        relevant
            .iter()
            .rev()
            .find(|rule| matches(probe, &rule.resource))
            .is_some_and(|rule| rule.effect == Effect::Deny)
    };
    denies("*") && relevant.iter().all(|rule| denies(&rule.resource))
}

/// Returns the configured rules of a call: the agent's, then the session's. No agent means that everything is denied.
pub fn configured_rules(agent: Option<&AgentInfo>, session: &[Rule]) -> Vec<Rule> {
    match agent {
        Some(agent) => agent.permissions.iter().chain(session).cloned().collect(),
        None => vec![Rule::new("*", "*", Effect::Deny)],
    }
}

/// Returns the action that rules of configuration mean: older names of tools stand for today's actions.
pub fn canonical_action(action: &str) -> &str {
    match action {
        "bash" => "shell",
        "task" => "subagent",
        "write" | "patch" | "apply_patch" => "edit",
        "list" => "read",
        other => other,
    }
}
