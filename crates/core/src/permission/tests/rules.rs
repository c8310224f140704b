//! Wildcards, evaluation, order, defaults.

use std::path::Path;

use abide_schema::permission::{Effect, Rule};
use proptest::prelude::*;

use super::super::*;
use Effect::{Allow, Ask, Deny};

#[track_caller]
fn check_matches(pattern: &str, matching: &[&str], other: &[&str]) {
    for value in matching {
        assert!(matches(value, pattern), "{value:?} should match {pattern:?}");
    }
    for value in other {
        assert!(!matches(value, pattern), "{value:?} should not match {pattern:?}");
    }
}

/// Rules are written `action resource effect`, one a line.
fn rules(text: &str) -> Vec<Rule> {
    let parse = |line: &str| {
        let (action, rest) = line.trim().split_once(' ').unwrap();
        let (resource, effect) = rest.trim().rsplit_once(' ').unwrap();
        let effect = match effect {
            "allow" => Allow,
            "deny" => Deny,
            "ask" => Ask,
            other => panic!("no effect {other}"),
        };
        Rule::new(action, resource.trim(), effect)
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(parse).collect()
}

#[track_caller]
fn check_effect(text: &str, action: &str, resource: &str, expected: Effect) {
    assert_eq!(evaluate(action, resource, Path::new("/work/site"), &rules(text)), expected, "{action} {resource}");
}

#[test]
fn p2_wildcards_are_runs_and_single_characters_and_nothing_else() {
    check_matches("*", &["", "a", "a/b\nc"], &[]);
    check_matches("", &[""], &["a"]);
    check_matches("src/*", &["src/", "src/a", "src/a/b.rs", "src/a\nb"], &["src", "xsrc/a"]);
    check_matches("a?c", &["abc", "a/c", "aöc"], &["ac", "abbc"]);
    check_matches("*.rs", &["a.rs", ".rs", "d/e.rs"], &["a.rsx", "ars"]);
    check_matches("a.c", &["a.c"], &["abc"]);
    check_matches("[ab]+(c)$", &["[ab]+(c)$"], &["a", "abc"]);
    check_matches("**", &["", "a/b"], &[]);
    check_matches("a\\b/*", &["a/b/c", "a\\b\\c"], &["ab/c"]);
    check_matches("*a*b*c*", &["abc", "xaxbxcx"], &["acb", "ab"]);
    check_matches("aaa*aaa", &["aaaaaa", "aaabaaa"], &["aaaaa"]);
}

#[test]
fn p3_a_trailing_blank_and_star_may_be_missing() {
    check_matches("git status *", &["git status", "git status -s", "git status "], &["git statusx", "git"]);
    check_matches("* *", &["a b", "a", ""], &[]);
    check_matches("rm *", &["rm", "rm -rf /"], &["rmdir"]);
}

#[test]
fn a_long_command_is_matched_whole() {
    let long = format!("echo {}; rm -rf /", "x".repeat(200_000));
    check_matches("*rm -rf*", &[&long], &[]);
}

/// The specification of a wildcard, without any cleverness.
fn matches_simply(value: &[char], pattern: &[char]) -> bool {
    match (pattern.split_first(), value.split_first()) {
        (None, None) => true,
        (None, Some(_)) => false,
        (Some(('*', rest)), _) => (0..=value.len()).any(|taken| matches_simply(&value[taken..], rest)),
        (Some(('?', rest)), Some((_, value))) => matches_simply(value, rest),
        (Some((char, rest)), Some((first, value))) => char == first && matches_simply(value, rest),
        (Some(_), None) => false,
    }
}

proptest! {
    #[test]
    fn wildcards_match_as_specified(value in "[ab /]{0,8}", pattern in "[ab*? /]{0,7}") {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        let tail = pattern.strip_suffix(" *").is_some_and(|head| matches_simply(&chars(&value), &chars(head)));
        prop_assert_eq!(matches(&value, &pattern), tail || matches_simply(&chars(&value), &chars(&pattern)));
    }

    #[test]
    fn a_configured_deny_beats_whatever_is_saved(
        resource in "[ab]{1,3}",
        saved in proptest::collection::vec("[ab*]{1,3}", 0..4),
        configured in proptest::collection::vec(("[ab*]{1,3}", 0u8..3), 0..5),
    ) {
        let configured: Vec<Rule> = configured
            .into_iter()
            .map(|(pattern, effect)| Rule::new("edit", pattern, [Allow, Deny, Ask][usize::from(effect)]))
            .collect();
        let saved: Vec<Rule> = saved.into_iter().map(|pattern| Rule::new("edit", pattern, Allow)).collect();
        let resources = [resource];
        let request = Request { action: "edit", resources: &resources, directory: Path::new("/"), judge: None };
        let alone = request.decide(&configured, &[]);
        let with_saved = request.decide(&configured, &saved);
        match alone {
            Deny => prop_assert_eq!(with_saved, Deny),
            Allow => prop_assert_eq!(with_saved, Allow),
            Ask => prop_assert_ne!(with_saved, Deny),
        }
    }
}

#[test]
fn p1_the_last_matching_rule_decides_and_none_asks() {
    check_effect("", "edit", "a", Ask);
    check_effect("edit * allow", "read", "a", Ask);
    check_effect("* * allow\nedit * deny\nedit src/* ask", "edit", "src/a", Ask);
    check_effect("* * allow\nedit * deny\nedit src/* ask", "edit", "a", Deny);
    check_effect("edit src/* ask\nedit * deny", "edit", "src/a", Deny);
    check_effect("e* * deny", "edit", "a", Deny);
}

#[test]
fn p4_an_absolute_rule_knows_a_relative_file() {
    check_effect("read /work/site/secret/* deny", "read", "secret/key", Deny);
    check_effect("read /work/site/secret/* deny", "read", "./a/../secret/key", Deny);
    check_effect("read /work/other/* deny", "read", "../other/key", Deny);
    check_effect("edit /work/site/* allow", "edit", "a", Allow);
    // Relative patterns are compared with the relative form only, and only files have an absolute one.
    check_effect("read site/* deny", "read", "a", Ask);
    check_effect("shell /work/site/* deny", "shell", "a", Ask);
    check_effect("read \\work\\site\\* deny", "read", "a", Deny);
}

#[test]
fn p5_p9_a_request_of_several_resources() {
    #[track_caller]
    fn check(configured: &str, saved: &str, resources: &[&str], expected: Effect) {
        let resources: Vec<String> = resources.iter().map(ToString::to_string).collect();
        let request = Request { action: "edit", resources: &resources, directory: Path::new("/work"), judge: None };
        assert_eq!(request.decide(&rules(configured), &rules(saved)), expected, "{resources:?}");
    }
    let mixed = "edit * ask\nedit a allow\nedit d deny";
    check(mixed, "", &["a"], Allow);
    check(mixed, "", &["a", "b"], Ask);
    check(mixed, "", &["a", "b", "d"], Deny);
    check(mixed, "edit * allow", &["a", "b"], Allow);
    check(mixed, "edit * allow", &["a", "d"], Deny);
    check("edit b allow", "edit a allow", &["a", "b"], Allow);
    // Nothing at all is not permitted by anything.
    check("* * allow", "", &[], Deny);
}

#[test]
fn p6_p8_rules_of_agent_and_session_in_order() {
    let agent = |permissions: &str| abide_schema::agent::AgentInfo {
        id: "build".into(),
        model: None,
        request: abide_schema::model::ProviderRequest::default(),
        system: None,
        description: None,
        mode: abide_schema::agent::AgentMode::Primary,
        hidden: false,
        color: None,
        steps: None,
        permissions: rules(permissions),
    };
    assert_eq!(configured_rules(Some(&agent("edit * ask")), &rules("edit * allow")), rules("edit * ask\nedit * allow"));
    assert_eq!(configured_rules(None, &rules("edit * allow")), rules("* * deny"));
}

#[test]
fn r21_to_r26_what_is_wholly_disabled() {
    #[track_caller]
    fn check(text: &str, disabled: &[&str], visible: &[&str]) {
        for action in disabled {
            assert!(wholly_disabled(action, &rules(text)), "{action} should be disabled");
        }
        for action in visible {
            assert!(!wholly_disabled(action, &rules(text)), "{action} should be visible");
        }
    }
    check("* * deny", &["shell", "read", "execute"], &[]);
    check("shell * deny\nshell git * allow", &[], &["shell"]);
    check("shell git * allow\nshell * deny", &["shell"], &["read"]);
    check("", &[], &["shell"]);
    check("* * deny\nread * allow", &["shell", "edit"], &["read"]);
    check("shell rm * deny", &[], &["shell"]);
    check("* * deny\nshell git * ask", &["edit"], &["shell"]);
}

fn defaults(agent: BuiltinAgent) -> Vec<Rule> {
    agent_rules(agent, &DefaultPaths { data: Path::new("/data"), temp: Path::new("/tmp") })
}

#[track_caller]
fn check_agent(agent: BuiltinAgent, action: &str, resource: &str, expected: Effect) {
    assert_eq!(evaluate(action, resource, Path::new("/work/site"), &defaults(agent)), expected, "{action} {resource}");
}

#[test]
fn p22_build_asks_for_secrets_and_for_what_is_outside() {
    let build = BuiltinAgent::Build;
    check_agent(build, "read", ".env", Ask);
    check_agent(build, "read", "sub/.env.local", Ask);
    check_agent(build, "read", ".env.example", Allow);
    check_agent(build, "read", "src/main.rs", Allow);
    check_agent(build, "edit", "src/main.rs", Allow);
    check_agent(build, "shell", "rm -rf /", Allow);
    check_agent(build, "external_directory", "/etc/*", Ask);
    check_agent(build, "question", "*", Allow);
    check_agent(build, "plan_enter", "*", Allow);
    check_agent(build, "plan_exit", "*", Deny);
}

#[test]
fn p29_managed_output_is_readable_without_a_question() {
    check_agent(BuiltinAgent::Build, "external_directory", "/data/tool-output/*", Allow);
    check_agent(BuiltinAgent::Build, "external_directory", "/tmp/abide/x/*", Allow);
    check_agent(BuiltinAgent::Explore, "external_directory", "/data/tool-output/*", Allow);
    check_agent(BuiltinAgent::Build, "external_directory", "/data/abide.db", Ask);
}

#[test]
fn p23_plan_edits_plans_only_and_its_children_nothing() {
    let plan = BuiltinAgent::Plan;
    check_agent(plan, "edit", "src/main.rs", Deny);
    check_agent(plan, "edit", ".abide/plans/a.md", Allow);
    check_agent(plan, "edit", "/data/plans/a.md", Allow);
    check_agent(plan, "external_directory", "/data/plans/*", Allow);
    check_agent(plan, "plan_exit", "*", Allow);
    check_agent(plan, "plan_enter", "*", Deny);
    check_agent(plan, "question", "*", Allow);
    check_agent(plan, "shell", "cargo test", Allow);

    let parent_session = rules("shell rm * deny");
    let general = defaults(BuiltinAgent::General);
    let child_session = inherited_rules(&defaults(plan), &parent_session, &general);
    assert_eq!(child_session, rules("shell rm * deny\nedit * deny"));
    assert_eq!(inherited_rules(&defaults(BuiltinAgent::Build), &parent_session, &general), parent_session);
}

#[test]
fn children_get_no_right_that_they_or_their_parents_lack() {
    let build = defaults(BuiltinAgent::Build);
    let explore = defaults(BuiltinAgent::Explore);
    // What a session allows does not make a reader write.
    let opened = rules("edit * allow\nshell git * allow\nread *.pem deny");
    assert_eq!(inherited_rules(&build, &opened, &explore), rules("read *.pem deny"));
    assert_eq!(inherited_rules(&build, &opened, &defaults(BuiltinAgent::General)), opened);
    // A parent that may not do something at all starts nobody who may.
    let all = rules("edit * deny\nshell * deny");
    assert_eq!(inherited_rules(&explore, &[], &build), all);
    assert_eq!(inherited_rules(&build, &rules("* * deny\nread * allow"), &build).len(), 6);
    // Without the inheritance the session's rules stay.
    assert_eq!(inherited_rules(&[], &rules("shell rm * deny"), &build), rules("shell rm * deny"));
}

#[test]
fn p24_explore_only_looks() {
    let explore = BuiltinAgent::Explore;
    check_agent(explore, "shell", "ls", Deny);
    check_agent(explore, "edit", "a", Deny);
    check_agent(explore, "grep", "x", Allow);
    check_agent(explore, "external_directory", "/etc/*", Ask);
    assert!(wholly_disabled("shell", &defaults(explore)));
    assert!(wholly_disabled("read", &defaults(BuiltinAgent::Hidden)));
    check_agent(BuiltinAgent::General, "todowrite", "*", Deny);
}

#[test]
fn p27_older_names_mean_todays_actions() {
    for (name, action) in [
        ("bash", "shell"),
        ("task", "subagent"),
        ("write", "edit"),
        ("patch", "edit"),
        ("apply_patch", "edit"),
        ("list", "read"),
        ("edit", "edit"),
        ("webfetch", "webfetch"),
    ] {
        assert_eq!(canonical_action(name), action);
    }
}
