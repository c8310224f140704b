use std::path::Path;

use abide_schema::permission::Effect;

use super::*;
use crate::config::testing::Tree;
use crate::permission::evaluate;

fn agents(tree: &Tree) -> Agents {
    tree.state("project", Some("project")).agents
}

fn shown(agents: &Agents) -> Vec<String> {
    agents
        .list()
        .iter()
        .map(|agent| format!("{} {:?}{}", agent.id, agent.mode, if agent.hidden { " hidden" } else { "" }))
        .collect()
}

#[test]
fn the_built_in_agents_come_first_and_configured_ones_follow() {
    let tree = Tree::new(&[(
        "project/abide.json",
        r##"{ "agents": {
            "mine": { "mode": "primary", "system": "s", "color": "#00ff00", "steps": 3, "model": "p/m" },
            "plan": { "disabled": true },
            "build": { "description": "changed", "request": { "headers": { "h": "v" }, "body": { "b": 1 } } }
        } }"##,
    )]);
    let agents = agents(&tree);
    assert_eq!(
        shown(&agents),
        [
            "build Primary",
            "general Subagent",
            "explore Subagent",
            "compaction Primary hidden",
            "title Primary hidden",
            "summary Primary hidden",
            "mine Primary",
        ]
    );
    let build = agents.get(&"build".into()).unwrap();
    assert_eq!(build.description.as_deref(), Some("changed"));
    assert_eq!(build.request.headers["h"], "v");
    let mine = agents.get(&"mine".into()).unwrap();
    assert_eq!((mine.steps, mine.model.as_ref().map(ToString::to_string)), (Some(3), Some("p/m".to_owned())));
    assert_eq!(agents.known(), "build, general, explore, mine");
}

#[test]
fn rules_are_joined_in_the_documented_order() {
    let rule = |resource: &str, effect: &str| {
        format!(r#"{{ "action": "shell", "resource": "{resource}", "effect": "{effect}" }}"#)
    };
    let tree = Tree::new(&[
        (
            "home/.config/abide/abide.json",
            &format!(
                r#"{{ "permissions": [{}], "agents": {{ "build": {{ "permissions": [{}] }} }} }}"#,
                rule("1", "ask"),
                rule("3", "ask")
            ),
        ),
        (
            "project/abide.json",
            &format!(
                r#"{{ "permissions": [{}], "agents": {{ "build": {{ "permissions": [{}] }} }} }}"#,
                rule("2", "allow"),
                rule("4", "allow")
            ),
        ),
        ("managed/abide.json", &format!(r#"{{ "permissions": [{}, {}] }}"#, rule("M", "deny"), rule("n", "ask"))),
    ]);
    let agents = agents(&tree);
    let shell: Vec<&str> = agents
        .get(&"build".into())
        .unwrap()
        .permissions
        .iter()
        .filter(|rule| rule.action == "shell")
        .map(|rule| rule.resource.as_str())
        .collect();
    // What the administrator denies is said once more at the end.
    assert_eq!(shell, ["1", "2", "M", "n", "3", "4", "M"]);
}

#[test]
fn an_agent_of_configuration_alone_has_the_rules_that_all_have() {
    let tree = Tree::new(&[("project/abide.json", r#"{ "agents": { "mine": { "system": "s" } } }"#)]);
    let agents = agents(&tree);
    let check = |agent: &str, action: &str, resource: &str, expect: Effect| {
        let rules = &agents.get(&agent.into()).unwrap().permissions;
        assert_eq!(evaluate(action, resource, Path::new("/p"), rules), expect, "{agent} {action} {resource}");
    };
    check("mine", "read", "a.rs", Effect::Allow);
    check("mine", "read", ".env", Effect::Ask);
    check("mine", "question", "*", Effect::Deny);
    check("build", "question", "*", Effect::Allow);
    check("plan", "edit", "a.rs", Effect::Deny);
    check("plan", "edit", ".abide/plans/x.md", Effect::Allow);
    check("explore", "shell", "ls", Effect::Deny);
    check("explore", "grep", "x", Effect::Allow);
    check("title", "read", "a.rs", Effect::Deny);
}

/// Loads one document and compares the default agent and the number of findings.
#[track_caller]
fn check_default(document: &str, expect: Option<&str>, findings: usize) {
    let tree = Tree::new(&[("project/abide.json", document)]);
    let state = tree.state("project", Some("project"));
    assert_eq!(state.agents.default_agent().map(|agent| agent.id.as_str()), expect);
    assert_eq!(state.diagnostics.len(), findings, "{:?}", state.diagnostics);
}

#[test]
fn the_default_agent() {
    check_default("{}", Some("build"), 0);
    check_default(r#"{ "default_agent": "plan" }"#, Some("plan"), 0);
    check_default(r#"{ "default_agent": "gone" }"#, Some("build"), 1);
    check_default(r#"{ "default_agent": "title" }"#, Some("build"), 1);
    check_default(r#"{ "default_agent": "explore" }"#, Some("build"), 1);
    check_default(r#"{ "agents": { "build": { "disabled": true } } }"#, Some("plan"), 0);
    check_default(r#"{ "agents": { "build": { "hidden": true }, "plan": { "mode": "subagent" } } }"#, None, 0);
}

#[test]
fn a_project_that_allows_what_the_user_denied_is_named() {
    let tree = Tree::new(&[
        (
            "home/.config/abide/abide.jsonc",
            r#"{ "model": "a/global", "permission": [{"action":"shell","resource":"rm *","effect":"deny"}, {"action":"edit","resource":"x","effect":"deny"}] }"#,
        ),
        (
            "project/abide.jsonc",
            r#"{ "model": "b/project", "permission": [{"action":"shell","resource":"*","effect":"allow"}, {"action":"edit","resource":"x","effect":"ask"}] }"#,
        ),
    ]);
    let state = tree.state("project", Some("project"));
    let messages: Vec<&str> = state.diagnostics.iter().map(|found| found.message.as_str()).collect();
    assert_eq!(messages, ["the project allows shell \"*\", which overrides your own rule that denies shell \"rm *\""]);
    let rules = &state.agents.default_agent().unwrap().permissions;
    assert_eq!(evaluate("shell", "rm x", Path::new("/p"), rules), Effect::Allow);
}
