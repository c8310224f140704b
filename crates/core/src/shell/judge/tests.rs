use abide_schema::permission::{Effect, Rule};
use serde_json::Value;

use super::*;
use crate::shell::scan::{Dialect, scan};
use crate::world::World;

fn case(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn rules(value: &Value) -> Vec<Rule> {
    let effect = |value: &Value| serde_json::from_value::<Effect>(value.clone()).unwrap();
    let one = |rule: &Value| Rule::new(rule[0].as_str().unwrap(), rule[1].as_str().unwrap(), effect(&rule[2]));
    value.as_array().unwrap().iter().map(one).collect()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Runs the rows of a case: the effect, the commands and what may be saved.
#[track_caller]
fn check(text: &str) {
    let case = case(text);
    let rules = case.get("rules").map(rules).unwrap_or_default();
    for row in case["rows"].as_array().unwrap() {
        let line = row["command"].as_str().unwrap();
        let found = scan(line, Dialect::Bash);
        let saved: Vec<Rule> = row
            .get("remembered")
            .map(strings)
            .unwrap_or_default()
            .into_iter()
            .map(|pattern| Rule::new(ACTION, pattern, Effect::Allow))
            .collect();
        let judged = judge(&found, &rules, &saved);
        if let Some(effect) = row.get("effect") {
            let effect: Effect = serde_json::from_value(effect.clone()).unwrap();
            assert_eq!(judged.effect, effect, "{line}: {judged:#?} {found:#?}");
        }
        if let Some(not) = row.get("not") {
            let not: Effect = serde_json::from_value(not.clone()).unwrap();
            assert_ne!(judged.effect, not, "{line}: {judged:#?} {found:#?}");
        }
        if let Some(commands) = row.get("commands") {
            assert_eq!(found.resources(), strings(commands), "{line}");
        }
        if let Some(save) = row.get("save") {
            let expected = if save.is_null() { Vec::new() } else { strings(save) };
            assert_eq!(found.saves(), expected, "{line}");
        }
        if case.get("save_expected").is_some_and(|save| save == "none") {
            assert_eq!(found.saves(), Vec::<String>::new(), "{line}");
        }
    }
}

#[test]
fn cases() {
    check(include_str!("../fixtures/permission/C124.json"));
    check(include_str!("../fixtures/permission/C125.json"));
    check(include_str!("../fixtures/permission/C126.json"));
    check(include_str!("../fixtures/permission/C127.json"));
    check(include_str!("../fixtures/permission/C128.json"));
    check(include_str!("../fixtures/permission/C129.json"));
    check(include_str!("../fixtures/permission/C130.json"));
    check(include_str!("../fixtures/permission/C131.json"));
}

#[track_caller]
fn effect(line: &str, rules: &[(&str, Effect)]) -> Effect {
    let rules: Vec<Rule> = rules.iter().map(|(pattern, effect)| Rule::new(ACTION, *pattern, *effect)).collect();
    judge(&scan(line, Dialect::Bash), &rules, &[]).effect
}

/// Lines that try to reach `rm`, `git push` or anything that is not allowed under rules that deny them.
#[test]
fn nothing_slips_past_a_deny_or_a_narrow_allow() {
    use Effect::{Allow, Ask, Deny};
    let blocklist = [("*", Allow), ("rm *", Deny), ("git push *", Deny)];
    let allowlist =
        [("*", Ask), ("git *", Allow), ("echo *", Allow), ("ls *", Allow), ("xargs *", Allow), ("git push *", Deny)];
    let lines = include_str!("../fixtures/permission/slips.txt");
    let mut n_lines = 0;
    for line in lines.lines().filter(|line| !line.is_empty() && !line.starts_with("## ")) {
        let line = line.replace("\\n", "\n");
        n_lines += 1;
        assert_ne!(effect(&line, &blocklist), Allow, "blocklist: {line}: {:#?}", scan(&line, Dialect::Bash));
        assert_ne!(effect(&line, &allowlist), Allow, "allowlist: {line}: {:#?}", scan(&line, Dialect::Bash));
    }
    assert!(n_lines >= 60, "{n_lines} lines");
}

/// As above, with an allow for each of the programs that the lines start from.
#[test]
fn the_red_team_gets_nowhere() {
    use Effect::{Allow, Ask, Deny};
    let blocklist = [("*", Allow), ("rm *", Deny), ("git push *", Deny)];
    let programs = [
        "apt-get", "arch", "bash", "bun", "cat", "cp", "dc", "docker", "echo", "env", "export", "gcc", "git", "ip",
        "just", "kubectl", "ls", "make", "mapfile", "mysql", "npm", "pnpm", "printf", "psql", "sqlite3", "ssh", "tar",
        "tee", "uv", "wget", "xargs",
    ];
    let allowed: Vec<String> = programs.iter().map(|program| format!("{program} *")).collect();
    let mut allowlist = vec![("*", Ask)];
    allowlist.extend(allowed.iter().map(|pattern| (pattern.as_str(), Allow)));
    allowlist.extend([("rm *", Deny), ("git push *", Deny), ("git send-pack *", Ask)]);
    let lines = include_str!("../fixtures/permission/red-team.txt");
    let mut n_lines = 0;
    let mut through = Vec::new();
    for line in lines.lines().filter(|line| !line.is_empty() && !line.starts_with("## ")) {
        let line = line.replace("\\n", "\n");
        n_lines += 1;
        for (name, rules) in [("blocklist", blocklist.as_slice()), ("allowlist", allowlist.as_slice())] {
            if effect(&line, rules) == Allow {
                through.push(format!("{name}: {line:?}"));
            }
        }
    }
    assert!(n_lines >= 60, "{n_lines} lines");
    assert_eq!(through, Vec::<String>::new());
}

/// Everyday lines stay as easy as they should be.
#[test]
fn everyday_lines_are_allowed_by_narrow_rules() {
    use Effect::{Allow, Ask, Deny};
    let rules = [
        ("*", Ask),
        ("git *", Allow),
        ("cargo *", Allow),
        ("npm *", Allow),
        ("ls *", Allow),
        ("cat *", Allow),
        ("grep *", Allow),
        ("sed *", Allow),
        ("awk *", Allow),
        ("find *", Allow),
        ("head *", Allow),
        ("rm *", Deny),
    ];
    for line in [
        "git status",
        "git log --oneline -5",
        "git diff HEAD~1 -- src",
        "git commit -m \"fix: a; b & c\"",
        "git show HEAD@{1}:x",
        "git commit -m \"$(cat <<'EOF'\nsubject\n\nbody\nEOF\n)\"",
        "cargo test -p x --lib -- --nocapture 2>&1 | head -50",
        "CI=true RUST_LOG=debug cargo test",
        "ls -la *.rs",
        "cat $FILE",
        "grep -rn \"foo(bar)\" src | head",
        "sed -n '10,20p' x.rs",
        "awk -F: '{print $1}' x",
        "find . -name '*.rs' -not -path './target/*'",
        "npm run build -- --watch",
        "git stash list",
        "cd src && git add -A && git commit -m x",
        "git config user.name",
        "git log --format='%h %s' | head -3",
    ] {
        assert_eq!(effect(line, &rules), Allow, "{line}: {:#?}", scan(line, Dialect::Bash));
    }
}

#[test]
fn an_opaque_line_needs_a_rule_for_everything() {
    use Effect::{Allow, Ask, Deny};
    assert_eq!(effect("eval x", &[("*", Allow)]), Allow);
    assert_eq!(effect("eval x", &[("*", Allow), ("rm *", Deny)]), Ask);
    assert_eq!(effect("eval x", &[("*", Allow), ("git push *", Ask)]), Ask);
    assert_eq!(effect("eval x", &[("eval *", Allow)]), Ask);
    assert_eq!(effect("eval x", &[("*", Deny), ("eval *", Allow)]), Deny);
    assert_eq!(effect("eval x; rm y", &[("*", Allow), ("rm *", Deny)]), Deny);
    assert_eq!(effect("eval x", &[("*", Allow), ("eval *", Deny)]), Deny);
}

#[test]
fn what_is_put_in_may_be_anything() {
    use Effect::{Allow, Ask, Deny};
    let rules = [("git *", Allow), ("git push *", Deny)];
    assert_eq!(effect("git $X origin", &rules), Ask);
    assert_eq!(effect("git $X push origin", &rules), Ask);
    assert_eq!(effect("git log $X", &rules), Allow);
    assert_eq!(effect("git push $X", &rules), Deny);
    assert_eq!(effect("git pu{sh,ll}", &rules), Ask);
    assert_eq!(effect("git pus?", &rules), Ask);
    assert_eq!(effect("git log -- *.rs", &rules), Allow);
    assert_eq!(effect("rm build/$X", &[("rm build/?", Allow)]), Ask);
    assert_eq!(effect("rm build/$X", &[("rm build/*", Allow)]), Allow);
}

#[test]
fn a_saved_rule_lifts_an_ask_but_no_deny_and_no_doubt() {
    use Effect::{Allow, Ask, Deny};
    let judged = |line: &str, configured: &[(&str, Effect)], saved: &str| {
        let configured: Vec<Rule> = configured.iter().map(|(p, effect)| Rule::new("*", *p, *effect)).collect();
        judge(&scan(line, Dialect::Bash), &configured, &[Rule::new(ACTION, saved, Allow)]).effect
    };
    assert_eq!(judged("git push", &[("*", Ask)], "git push *"), Allow);
    assert_eq!(judged("git  push", &[("*", Allow), ("git push *", Ask)], "git push *"), Allow);
    assert_eq!(judged("git push", &[("git push *", Deny)], "git *"), Deny);
    assert_eq!(judged("git $X", &[("*", Ask), ("git push *", Deny)], "git *"), Ask);
    assert_eq!(judged("eval x", &[("*", Ask)], "eval *"), Ask);
}

#[test]
fn forms_meet_patterns() {
    let hole = HOLE.to_string();
    assert!(may_match("git push *", &format!("git{hole}")));
    assert!(may_match("git push *", &format!("git{hole} push x")));
    assert!(may_match("a?c", &format!("a{hole}c")));
    assert!(may_match("", &hole));
    assert!(!may_match("rm *", &format!("git {hole}")));
    assert!(may_match("*", ""));
    assert!(covers("git *", &format!("git {hole}")));
    assert!(!covers("git log", &format!("git {hole}")));
    assert!(!covers("git ?", &format!("git {hole}")));
    assert!(covers("git *", "git"));
    assert!(!covers("git *", "gitk"));
}

proptest::proptest! {
    /// Without holes, meeting, covering and the wildcards of permissions are one.
    #[test]
    fn literal_forms_match_as_in_permissions(pattern in "[ab*? /]{0,8}", text in "[ab /]{0,8}") {
        let wanted = crate::permission::matches(&text, &pattern);
        proptest::prop_assert_eq!(covers(&pattern, &text), wanted);
        proptest::prop_assert_eq!(may_match(&pattern, &text), wanted);
    }

    /// A form with a hole covers no less and may match no more than each filling.
    #[test]
    fn holes_stand_for_any_text(pattern in "[ab*?]{0,6}", before in "[ab]{0,3}", filling in "[ab]{0,3}", after in "[ab]{0,3}") {
        let form = format!("{before}{HOLE}{after}");
        let text = format!("{before}{filling}{after}");
        let matches = crate::permission::matches(&text, &pattern);
        proptest::prop_assert!(!covers(&pattern, &form) || matches);
        proptest::prop_assert!(!matches || may_match(&pattern, &form));
    }
}

/// Pieces of lines that are put together at random.
const PIECES: &[&str] = &[
    " ",
    " ",
    " ",
    "git",
    "git ",
    "ls",
    "ls ",
    "echo ",
    "status",
    "push",
    " push",
    "rm",
    "rm x",
    "x",
    "pu",
    "sh",
    "\"",
    "'",
    "\\",
    ";",
    "; ",
    "&",
    " && ",
    "|",
    " || ",
    "\n",
    "$(",
    ")",
    "`",
    "#",
    " # ",
    "{",
    "}",
    "{ ",
    "; }",
    "<",
    ">",
    "> out ",
    "2>&1",
    "<<X\n",
    "\nX\n",
    "$X",
    "X=",
    "X=push ",
    "X=push; ",
    "(",
    "!",
    "! ",
    "[[ ",
    " ]]",
    "*",
    "?",
    ",",
    "=",
    "${X:-",
    "}",
    "$'",
    "\\\n",
    "\t",
    "'\\''",
    "if ",
    "; then ",
    "; fi",
    "for X in push; do ",
    "; done",
    "case x in x) ",
    ";; esac",
    "<<<",
    "<(",
    "$((",
    "))",
    "$",
    "-",
    "--",
    "A=1 ",
    "\\\\",
    "a",
    "export ",
    "cd . ; ",
    "time ",
    "-C . ",
    ">&",
    "$\"",
];

/// Whatever real shells make of a line that narrow rules allow, it is neither `rm` nor `git push`: lines are put together
/// at random and those that are allowed are run, with stand-ins for all programs.
#[test]
fn real_shells_run_nothing_else() {
    use std::os::unix::fs::PermissionsExt as _;

    use proptest::strategy::{Strategy as _, ValueTree as _};
    let rules = [("*", Effect::Ask), ("git *", Effect::Allow), ("echo *", Effect::Allow), ("ls *", Effect::Allow)];
    let denied = [("rm *", Effect::Deny), ("git push *", Effect::Deny)];
    let rules: Vec<Rule> = rules.iter().chain(&denied).map(|(p, effect)| Rule::new(ACTION, *p, *effect)).collect();
    let place = tempfile::tempdir().unwrap();
    let (bin, work, log) = (place.path().join("bin"), place.path().join("work"), place.path().join("log"));
    std::fs::create_dir(&bin).unwrap();
    std::fs::create_dir(&work).unwrap();
    for (name, test) in [("rm", ":"), ("git", "[ \"$1\" = push ]"), ("ls", "false")] {
        let script = format!("#!/bin/sh\nif {test}; then echo \"${{0##*/}} $*\" >> {}; fi\n", log.display());
        std::fs::write(bin.join(name), script).unwrap();
        std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let wanted = World::real().var("ABIDE_SCAN_LINES").and_then(|text| text.parse().ok());
    let n_lines = wanted.unwrap_or(4000);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let lines = proptest::collection::vec(proptest::sample::select(PIECES), 1..9);
    let mut n_run = 0;
    for _ in 0..n_lines {
        let line = lines.new_tree(&mut runner).unwrap().current().concat();
        for (shell, dialect) in [("bash", Dialect::Bash), ("dash", Dialect::Posix)] {
            let shell = std::path::Path::new("/bin").join(shell);
            let start = format!("git {line}");
            for line in [&line, &start] {
                if !shell.exists() || judge(&scan(line, dialect), &rules, &[]).effect != Effect::Allow {
                    continue;
                }
                n_run += 1;
                let _status = std::process::Command::new(&shell)
                    .args(["-c", line])
                    .env_clear()
                    .env("PATH", &bin)
                    .current_dir(&work)
                    .stdin(std::process::Stdio::null())
                    .stdout(std::process::Stdio::null())
                    .stderr(std::process::Stdio::null())
                    .status()
                    .unwrap();
                let ran = std::fs::read_to_string(&log).unwrap_or_default();
                assert_eq!(ran, "", "{}: {line:?}: {:#?}", shell.display(), scan(line, dialect));
            }
        }
    }
    assert!(n_run > n_lines / 20, "{n_run} lines ran");
}
