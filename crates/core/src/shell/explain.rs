//! Explains what rules say about a command line, for people.

use abide_schema::permission::{Effect, Rule};
use serde::Serialize;

use super::judge::{Verdict, judge, shown};
use super::scan::{Dialect, Usage, scan};

/// What rules say about a line, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The line.
    pub line: String,
    /// What the whole line gets: the strictest of its parts.
    pub effect: Effect,
    /// The line as a whole, when it cannot be followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Part>,
    /// The commands that were found.
    pub commands: Vec<Part>,
    /// The patterns that "always" would save.
    pub saves: Vec<String>,
    /// The places that the line names; those outside the project are asked for by `external_directory`.
    pub places: Vec<PlaceUse>,
    /// Whether it goes to or writes to a place that only the running line knows.
    pub has_unknown_place: bool,
}

/// One command, and what decides about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Its text.
    pub text: String,
    /// What it gets.
    pub effect: Effect,
    /// The rule that decides; absent: none matches, and the answer is to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// Why.
    pub why: String,
    /// Whether another command of the line runs it.
    pub is_inner: bool,
}

/// A place that a line names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlaceUse {
    /// The path as it was written.
    pub path: String,
    /// What it is used for: `enter`, `write`, `read` or `operand`.
    pub usage: &'static str,
}

/// Explains a line by rules in their order: the configured ones, and saved ones after them.
pub fn explain(line: &str, dialect: Dialect, configured: &[Rule], saved: &[Rule]) -> Explanation {
    let found = scan(line, dialect);
    let judged = judge(&found, configured, saved);
    let part = |text: &str, verdict: &Verdict, is_inner: bool| {
        let rule = verdict.rule.and_then(|index| configured.iter().chain(saved).nth(index));
        Part {
            text: shown(text),
            effect: verdict.effect,
            rule: rule.cloned(),
            why: verdict.why.clone().unwrap_or_else(|| plain_why(rule).to_owned()),
            is_inner,
        }
    };
    let commands = found.commands.iter().zip(&judged.commands);
    Explanation {
        effect: judged.effect,
        opaque: judged.line.as_ref().map(|verdict| part(&found.line, verdict, false)),
        commands: commands.map(|(command, verdict)| part(&command.text, verdict, command.is_inner)).collect(),
        saves: found.saves(),
        places: found
            .places
            .iter()
            .map(|place| PlaceUse { path: place.path.clone(), usage: usage(place.usage) })
            .collect(),
        has_unknown_place: found.has_unknown_place,
        line: found.line,
    }
}

const fn plain_why(rule: Option<&Rule>) -> &'static str {
    match rule {
        Some(_) => "the last rule that matches decides",
        None => "no rule matches",
    }
}

const fn usage(usage: Usage) -> &'static str {
    match usage {
        Usage::Enter => "enter",
        Usage::Write => "write",
        Usage::Read => "read",
        Usage::Operand => "operand",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, rules: &[(&str, Effect)], expected: &str) {
        let rules: Vec<Rule> = rules.iter().map(|(pattern, effect)| Rule::new("shell", *pattern, *effect)).collect();
        let told = explain(line, Dialect::Bash, &rules, &[]);
        let parts = told.opaque.iter().chain(&told.commands).map(|part| {
            let rule = part.rule.as_ref().map_or("-", |rule| rule.resource.as_str());
            format!("{:?} {} [{rule}] {}", part.effect, part.text, part.why)
        });
        let lines: Vec<String> = std::iter::once(format!("{:?}", told.effect)).chain(parts).collect();
        assert_eq!(lines.join("\n"), expected);
    }

    #[test]
    fn each_command_names_its_rule() {
        use Effect::{Allow, Ask, Deny};
        let rules = [("*", Ask), ("git *", Allow), ("rm *", Deny)];
        check(
            "git status && make; /bin/rm x",
            &rules,
            "Deny\n\
             Allow git status [git *] the last rule that matches decides\n\
             Ask make [*] the last rule that matches decides\n\
             Deny /bin/rm x [rm *] it is \"rm x\"",
        );
        check(
            "git status; eval x",
            &rules,
            "Ask\n\
             Ask git status; eval x [rm *] \"eval\" runs text as commands or changes what words mean; a command that \
             a rule denies may hide in it\n\
             Allow git status [git *] the last rule that matches decides\n\
             Ask eval x [*] the last rule that matches decides",
        );
        check("ls", &[], "Ask\nAsk ls [-] no rule matches");
    }
}
