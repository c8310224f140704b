//! Explains what rules say about a command line, for people.

use abide_schema::permission::{Effect, Rule};
use serde::Serialize;

use super::judge::{Verdict, judge, shown, strictest};
use super::places::{OutsideJudge, outside};
use super::scan::{Dialect, Usage, scan};
use super::sensitive::sensitive;
use crate::fs::access::{Access, AccessError, Wanted};
use crate::secret::{SecretFiles, SensitiveJudge};

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
    /// The places that the line names.
    pub places: Vec<PlaceUse>,
    /// The directories outside the project that the line needs, each asked for by `external_directory`; `*` stands for
    /// a place that only the running line knows.
    pub outside: Vec<OutsidePart>,
    /// The files that usually hold secrets and that the line may show, each asked for by `read`.
    pub secrets: Vec<OutsidePart>,
}

/// A directory outside the project or a file with secrets, and what decides about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutsidePart {
    /// The resource: `<directory>/*`, or the file.
    pub resource: String,
    /// What it gets.
    pub effect: Effect,
    /// The rule that decides; absent: none matches, and the answer is to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// Why.
    pub why: String,
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

/// Explains a line that runs in the directory of a location, by rules in their order: the configured ones, and saved
/// ones after them. Blocks for some system calls.
///
/// # Errors
/// [`AccessError`] when the directory cannot be resolved.
pub fn explain(
    line: &str,
    dialect: Dialect,
    access: &Access,
    secret_files: &SecretFiles,
    configured: &[Rule],
    saved: &[Rule],
) -> Result<Explanation, AccessError> {
    let found = scan(line, dialect);
    let judged = judge(&found, configured, saved);
    let outside = OutsideJudge::new(outside(&found, access, access.directory())?).parts(configured, saved);
    let mut files: Vec<String> = Vec::new();
    for path in sensitive(&found, secret_files) {
        files.extend(access.resolve_blocking(&path, Wanted::File)?.resources());
    }
    let asked = SensitiveJudge::of(secret_files, "read", &files, access.directory());
    let secrets: Vec<OutsidePart> = asked
        .iter()
        .flat_map(|judge| judge.parts(configured, saved))
        .map(|(resource, effect, rule)| {
            let why = if rule.is_some() {
                "the last rule that counts decides"
            } else {
                "it usually holds secrets: a rule for everything does not allow it"
            };
            OutsidePart { resource: resource.to_owned(), effect, rule: rule.cloned(), why: why.to_owned() }
        })
        .collect();
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
    Ok(Explanation {
        effect: outside.iter().chain(&secrets).map(|part| part.effect).fold(judged.effect, strictest),
        opaque: judged.line.as_ref().map(|verdict| part(&found.line, verdict, false)),
        commands: commands.map(|(command, verdict)| part(&command.text, verdict, command.is_inner)).collect(),
        saves: found.saves(),
        places: found
            .places
            .iter()
            .map(|place| PlaceUse { path: place.path.clone(), usage: usage(place.usage) })
            .collect(),
        outside,
        secrets,
        line: found.line,
    })
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
    use abide_schema::ProjectId;
    use abide_schema::location::{LocationInfo, ProjectRef};

    use super::*;

    #[track_caller]
    fn check(line: &str, rules: &[(&str, &str, Effect)], expected: &str) {
        let rules: Vec<Rule> =
            rules.iter().map(|(action, resource, effect)| Rule::new(*action, *resource, *effect)).collect();
        let root = tempfile::tempdir().unwrap();
        let top = root.path().canonicalize().unwrap();
        let project = top.join("project");
        std::fs::create_dir(&project).unwrap();
        let directory = project.display().to_string();
        let location = LocationInfo {
            directory: directory.clone(),
            workspace_id: None,
            project: ProjectRef { id: ProjectId::new("p"), directory },
        };
        let access = Access::open(&location, Some(top.join("home"))).unwrap();
        let told = explain(line, Dialect::Bash, &access, &SecretFiles::default(), &rules, &[]).unwrap();
        let rule = |rule: &Option<Rule>| rule.as_ref().map_or_else(|| "-".to_owned(), |rule| rule.resource.clone());
        let parts = told.opaque.iter().chain(&told.commands);
        let parts = parts.map(|part| format!("{:?} {} [{}] {}", part.effect, part.text, rule(&part.rule), part.why));
        let outside = told.outside.iter().chain(&told.secrets);
        let outside =
            outside.map(|part| format!("{:?} {} [{}] {}", part.effect, part.resource, rule(&part.rule), part.why));
        let lines: Vec<String> = std::iter::once(format!("{:?}", told.effect)).chain(parts).chain(outside).collect();
        assert_eq!(lines.join("\n").replace(top.to_str().unwrap(), "TOP"), expected);
    }

    #[test]
    fn each_command_names_its_rule() {
        use Effect::{Allow, Ask, Deny};
        let rules = [("shell", "*", Ask), ("shell", "git *", Allow), ("shell", "rm *", Deny)];
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

    #[test]
    fn places_outside_count() {
        use Effect::{Allow, Ask, Deny};
        let rules = [
            ("*", "*", Allow),
            ("external_directory", "*", Ask),
            ("external_directory", "/etc/*", Deny),
            ("external_directory", "/opt/*", Allow),
        ];
        let plain = "the last rule that matches decides";
        check("ls src", &rules, &format!("Allow\nAllow ls src [*] {plain}"));
        check("ls /opt/x", &rules, &format!("Allow\nAllow ls /opt/x [*] {plain}\nAllow /opt/* [/opt/*] {plain}"));
        check(
            "cat ../other/x ~/y",
            &rules,
            &format!(
                "Ask\nAllow cat ../other/x ~/y [*] {plain}\nAsk TOP/other/* [*] {plain}\nAsk TOP/home/* [*] {plain}"
            ),
        );
        check(
            "cat < /etc/hosts",
            &rules,
            &format!("Deny\nAllow cat < /etc/hosts [*] {plain}\nDeny /etc/* [/etc/*] {plain}"),
        );
        // A file that usually holds secrets needs a rule of its own.
        let secret = "it usually holds secrets: a rule for everything does not allow it";
        check("cat .env", &rules, &format!("Ask\nAllow cat .env [*] {plain}\nAsk .env [-] {secret}"));
        let named = [("*", "*", Allow), ("read", "*.env", Allow)];
        check(
            "cat .env",
            &named,
            &format!("Allow\nAllow cat .env [*] {plain}\nAllow .env [*.env] the last rule that counts decides"),
        );
        // What is not known may be any place.
        check(
            "ls > $X",
            &rules,
            &format!("Ask\nAllow ls > $X [*] {plain}\nAsk * [*] only the running line knows the place: it may be any"),
        );
        check(
            "cd $X",
            &[("*", "*", Allow)],
            &format!(
                "Allow\nAllow cd $X [*] {plain}\nAllow * [*] only the running line knows the place: it may be any"
            ),
        );
    }
}
