use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use abide_schema::config::{DiagnosticKind, Severity};
use serde_json::{Value, json};

use super::testing::Tree;
use super::*;
use crate::world::World;

/// The findings as `severity kind place`.
fn findings(config: &Config) -> Vec<String> {
    config
        .diagnostics
        .iter()
        .map(|found| {
            let place = found.pointer.clone().or_else(|| found.line.map(|line| format!("line {line}")));
            format!("{:?} {:?} {}", found.severity, found.kind, place.unwrap_or_default())
        })
        .collect()
}

fn usernames(config: &Config) -> Vec<&str> {
    config.documents.iter().filter_map(|document| document.info.username.as_deref()).collect()
}

#[test]
fn documents_count_in_the_order_of_their_sources() {
    let name = |text: &str| format!("{{\"username\":\"{text}\"}}");
    let tree = Tree::new(&[
        ("home/.config/opencode/opencode.json", &name("1 foreign")),
        ("home/.config/abide/config.json", &name("2 old name")),
        ("home/.config/abide/abide.jsonc", &name("3 global")),
        ("named.json", &name("4 named")),
        ("project/opencode.json", &name("5 far opencode")),
        ("project/opencode.jsonc", &name("6 far opencode c")),
        ("project/abide.json", &name("7 far abide")),
        ("project/abide.jsonc", &name("8 far abide c")),
        ("project/sub/abide.json", &name("9 near")),
        ("project/.opencode/opencode.json", &name("A far directory")),
        ("project/.abide/abide.json", &name("B far own directory")),
        ("project/sub/.opencode/abide.json", &name("C near directory")),
        ("managed/opencode/opencode.json", &name("E managed foreign")),
        ("managed/abide.json", &name("F managed")),
        ("abide.json", &name("above the working tree")),
    ])
    .with("OPENCODE_CONFIG", "ROOT/named.json")
    .with("ABIDE_CONFIG_CONTENT", &name("D inline"));
    let config = tree.load("project/sub", Some("project"));
    assert_eq!(
        usernames(&config),
        [
            "1 foreign",
            "2 old name",
            "3 global",
            "4 named",
            "5 far opencode",
            "6 far opencode c",
            "7 far abide",
            "8 far abide c",
            "9 near",
            "A far directory",
            "B far own directory",
            "C near directory",
            "D inline",
            "E managed foreign",
            "F managed",
        ]
    );
    assert_eq!(findings(&config), Vec::<String>::new());
}

#[test]
fn the_walk_ends_at_the_working_tree_else_at_home_else_at_once() {
    let name = |text: &str| format!("{{\"username\":\"{text}\"}}");
    let tree = Tree::new(&[
        ("home/abide.json", &name("home")),
        ("home/a/abide.json", &name("a")),
        ("home/a/b/abide.json", &name("b")),
        ("project/abide.json", &name("project")),
        ("project/sub/abide.json", &name("sub")),
    ]);
    assert_eq!(usernames(&tree.load("home/a/b", Some("home/a"))), ["a", "b"]);
    assert_eq!(usernames(&tree.load("home/a/b", None)), ["home", "a", "b"]);
    assert_eq!(usernames(&tree.load("project/sub", None)), ["sub"]);
}

#[test]
fn a_global_directory_on_the_walk_counts_once() {
    let tree = Tree::new(&[("dotfiles/abide.json", "{\"username\":\"global\"}")]);
    fs::create_dir_all(tree.path("home/.config")).unwrap();
    std::os::unix::fs::symlink(tree.path("dotfiles"), tree.path("home/.config/abide")).unwrap();
    std::os::unix::fs::symlink(tree.path("dotfiles"), tree.path("home/.abide")).unwrap();
    assert_eq!(usernames(&tree.load("home/x", None)), ["global"]);
    assert_eq!(usernames(&tree.load("dotfiles", None)), ["global"]);
}

#[test]
fn project_configuration_can_be_switched_off() {
    let tree = Tree::new(&[
        ("project/abide.json", "{\"username\":\"project\"}"),
        ("project/.abide/agents/x.md", "An agent"),
        ("project/.claude/skills/x/SKILL.md", "A skill"),
        ("home/.config/abide/abide.json", "{\"username\":\"global\"}"),
    ])
    .with("ABIDE_DISABLE_PROJECT_CONFIG", "Yes");
    let config = tree.load_project();
    assert_eq!(usernames(&config), ["global"]);
    assert!(config.agents().is_empty());
    assert!(config.external.is_empty());
}

#[test]
fn an_own_variable_hides_its_alias_even_when_empty() {
    let check = |own: Option<&str>, alias: &str, expect: Option<&str>| {
        let mut environment = BTreeMap::from([("OPENCODE_CONFIG".to_owned(), alias.to_owned())]);
        if let Some(own) = own {
            environment.insert("ABIDE_CONFIG".to_owned(), own.to_owned());
        }
        let world = World::real().with_environment(environment);
        assert_eq!(flags::variable(&world, "CONFIG"), expect);
    };
    check(None, "x", Some("x"));
    check(Some("y"), "x", Some("y"));
    check(Some(""), "x", None);
    check(None, "", None);
}

/// Loads one project file and compares what is found wrong.
#[track_caller]
fn check_findings(content: &str, expect: &[&str]) -> Config {
    let tree = Tree::new(&[("project/abide.json", content)]);
    let config = tree.load_project();
    assert_eq!(findings(&config), expect);
    config
}

#[test]
fn comments_trailing_commas_marks_and_line_ends_are_fine() {
    let config = check_findings(
        "\u{feff}{\r\n  // model\r\n  \"model\": \"local/m-test\", /* x */\r\n  \"permission\": [],\r\n}\r\n",
        &[],
    );
    assert_eq!(config.model().unwrap().to_string(), "local/m-test");
    check_findings("", &[]);
    check_findings("  // nothing\n", &[]);
    check_findings("{ \"$schema\": \"x\", \"model\": null, \"cache\": 1, \"agents\": { \"x\": null } }", &[]);
}

#[test]
fn a_broken_file_is_named_with_its_place_and_only_it_is_left_out() {
    let tree = Tree::new(&[
        ("project/abide.jsonc", "{\n  \"model\": \"a/b\",\n  \"agent\": {\n    \"x\": { \"model\" \"c/d\" }\n  }\n}\n"),
        ("project/opencode.json", "{\"username\":\"other\"}"),
    ]);
    let config = tree.load_project();
    assert_eq!(usernames(&config), ["other"]);
    let [found] = &config.diagnostics[..] else { panic!("{:?}", config.diagnostics) };
    assert_eq!((found.severity, found.kind), (Severity::Error, DiagnosticKind::Syntax));
    assert_eq!((found.line, found.column), (Some(4), Some(20)));
    assert_eq!(
        found.to_string().replace(&tree.root(), "ROOT"),
        "ROOT/project/abide.jsonc:4:20: the file is not JSON: expected colon after the string or word in object \
         property in \"\\\"x\\\": { \\\"model\\\" \\\"c/d\\\" }\"; mend this line; until then nothing of the file is used"
    );
    assert_eq!(config.rejected, [tree.path("project/abide.jsonc")]);
}

#[test]
fn what_is_not_an_object_or_not_text_is_rejected() {
    check_findings("[]", &["Error Syntax line 1"]);
    check_findings("\"x\"", &["Error Syntax line 1"]);
    check_findings("{'model': 1}", &["Error Syntax line 1"]);
    let tree = Tree::new(&[]);
    fs::write(tree.path("project/abide.json"), b"{\"username\": \"\xff\"}").unwrap();
    fs::create_dir(tree.path("project/abide.jsonc")).unwrap();
    fs::write(tree.path("project/opencode.json"), vec![b' '; 2 << 20]).unwrap();
    let config = tree.load_project();
    assert_eq!(findings(&config), ["Error Io ", "Error Syntax ", "Error Io "]);
}

#[test]
fn wrong_and_unknown_keys_leave_the_rest_alone() {
    let config = check_findings(
        r#"{
            "modle": "a/b",
            "model": "nonsense",
            "default_agent": "x",
            "agents": { "a": { "mode": "wrong", "steps": 3 }, "b": { "steps": 3, "colour": "red" }, "c": 5,
                        "d": { "color": "12345" }, "e": { "steps": 0 } },
            "compaction": { "auto": false, "buffer": "many", "kepp": {} },
            "permissions": [{ "action": "edit", "effect": "ask" }, { "action": "edit", "effect": "maybe" }],
            "providers": { "p": { "models": { "good": {}, "bad": { "limit": { "context": -1 } } } } }
        }"#,
        &[
            "Error Invalid /permissions/1",
            "Warning Unknown /modle",
            "Error Invalid /model",
            "Error Invalid /agents/a/mode",
            "Warning Unknown /agents/b/colour",
            "Error Invalid /agents/c",
            "Error Invalid /agents/d/color",
            "Error Invalid /agents/e/steps",
            "Error Invalid /compaction/buffer",
            "Warning Unknown /compaction/kepp",
            "Error Invalid /providers/p/models/bad/limit",
        ],
    );
    assert_eq!(config.agents().keys().map(AsRef::as_ref).collect::<Vec<&str>>(), ["b"]);
    assert_eq!(config.compaction().auto, Some(false));
    assert_eq!(config.permissions().len(), 1);
    assert_eq!(config.providers()["p"].models.len(), 1);
    let hints: Vec<_> = config.diagnostics.iter().filter_map(|found| found.hint.as_deref()).collect();
    assert!(hints.contains(&"did you mean \"model\"?"), "{hints:?}");
    assert!(hints.contains(&"did you mean \"color\"?"), "{hints:?}");
    assert!(hints.contains(&"did you mean \"keep\"?"), "{hints:?}");
    let place = config.diagnostics.iter().find(|found| found.pointer.as_deref() == Some("/agents/a/mode")).unwrap();
    assert_eq!((place.line, place.column), (Some(5), Some(32)));
}

#[test]
fn a_key_twice_is_named_with_both_lines() {
    let config = check_findings("{ \"plugin\": [\"a\"],\n \"plugin\": [\"b\"] }", &["Warning Duplicate /plugin"]);
    assert_eq!(
        config.diagnostics[0].message,
        "the key \"plugin\" is set twice, in line 1 and in line 2; the second counts"
    );
    assert_eq!(config.documents[0].info.plugins, [json!("b")]);
}

#[test]
fn variables_and_files_are_filled_in() {
    let tree = Tree::new(&[
        (
            "project/abide.json",
            "{\n \"username\": \"{env:NAME}-{env:QUOTED}\", \"shell\": \"{file:a.txt}\",\n // {file:gone.txt}\n \
             \"instructions\": [\"{file:~/b.txt}\", \"{file:ROOTS}\", \"{env:NOT_SET}\"], \"wrong\": 1 }",
        ),
        ("project/a.txt", " two\nlines \"{env:NAME}\" \n"),
        ("home/b.txt", "home"),
    ])
    .with("NAME", "n")
    .with("QUOTED", "a\"b\\c");
    let absolute = tree.path("home/b.txt").display().to_string();
    let content = fs::read_to_string(tree.path("project/abide.json")).unwrap().replace("ROOTS", &absolute);
    tree.write("project/abide.json", &content);
    let config = tree.load_project();
    assert_eq!(usernames(&config), ["n-a\"b\\c"]);
    assert_eq!(config.documents[0].info.shell.as_deref(), Some("two\nlines \"{env:NAME}\""));
    assert_eq!(config.documents[0].info.instructions, ["home", "home", ""]);
    assert_eq!(findings(&config), ["Warning Substitution line 4", "Warning Unknown /wrong"]);
    // Columns are those of the file, not of the text with the inserted parts.
    let column = content.lines().nth(3).unwrap().find("\"wrong\"").unwrap() + 1;
    assert_eq!((config.diagnostics[1].line, config.diagnostics[1].column), (Some(4), Some(column)));
}

#[test]
fn a_missing_included_file_rejects_the_document() {
    let tree = Tree::new(&[("project/abide.json", "{\"username\": \"{file:./gone.txt}\"}")]);
    let config = tree.load_project();
    assert!(config.documents.is_empty());
    assert_eq!(
        config.diagnostics[0].message,
        format!("the included file {} does not exist", tree.path("project/./gone.txt").display())
    );
}

/// Converts one document and compares its present form.
#[track_caller]
fn check_value(content: &Value, expect: &Value, findings: &[&str]) {
    let config = check_findings(&content.to_string(), findings);
    assert_eq!(Value::Object(config.documents[0].value.clone()), *expect);
}

#[test]
fn older_scalars() {
    check_value(
        &json!({
            "autoupdate": false, "autoshare": true, "snapshot": false, "attachment": { "image": { "max_width": 10 } },
            "logLevel": "DEBUG", "server": { "port": 1, "mdnsDomain": "x" }, "subagent_depth": 2,
            "compaction": { "preserve_recent_tokens": 5, "reserved": 6, "prune": true, "tail_turns": 2 },
            "theme": "x", "experimental": { "batch_tool": true }, "skills": { "paths": ["p"], "urls": ["u"] },
        }),
        &json!({
            "compaction": { "prune": true, "keep": { "tokens": 5 }, "buffer": 6 },
            "experimental": { "subagent_depth": 2 },
            "skills": ["p", "u"],
            "update": "disable", "share": "auto", "snapshots": false, "media": { "image": { "max_width": 10 } },
            "abide": { "log": { "level": "debug" }, "server": { "port": 1, "mdnsDomain": "x" } },
        }),
        &[
            "Info Unsupported /theme",
            "Info Unsupported /compaction/tail_turns",
            "Info Unsupported /experimental/batch_tool",
        ],
    );
}

#[test]
fn older_and_present_keys_in_one_document() {
    check_value(
        &json!({
            "snapshot": true, "snapshots": false,
            "agent": { "a": { "prompt": "old", "description": "kept" }, "b": { "prompt": "b" } },
            "agents": { "a": { "system": "new" } },
        }),
        &json!({
            "snapshots": false,
            "agents": { "a": { "system": "new", "description": "kept" }, "b": { "system": "b" } },
        }),
        &["Warning Conflict /snapshot", "Warning Conflict /agent/a/system"],
    );
}

#[test]
fn older_agents_modes_and_the_small_model() {
    check_value(
        &json!({
            "agent": {
                "x": {
                    "prompt": "p", "maxSteps": 7, "temperature": 0.5, "top_p": 0.9, "disable": false, "extra": { "a": 1 },
                    "options": { "top_p": 0.1, "k": "v" }, "model": "p/m", "variant": "high",
                    "tools": { "write": false, "bash": true }, "permission": { "edit": { "*.md": "allow" } },
                },
            },
            "mode": { "x": { "prompt": "from mode" }, "y": { "prompt": "y", "mode": "subagent" } },
            "small_model": "p/small",
        }),
        &json!({
            "agents": {
                "x": {
                    "model": "p/m#high", "system": "from mode", "disabled": false, "steps": 7,
                    "permissions": [
                        { "action": "edit", "resource": "*", "effect": "deny" },
                        { "action": "shell", "resource": "*", "effect": "allow" },
                        { "action": "edit", "resource": "*.md", "effect": "allow" },
                    ],
                    "request": { "headers": {}, "body": { "top_p": 0.9, "k": "v", "temperature": 0.5, "extra": { "a": 1 } } },
                    "mode": "primary",
                },
                "y": { "system": "y", "mode": "primary" },
                "title": { "model": "p/small" },
            },
        }),
        &[],
    );
    let set = json!({ "small_model": "p/small", "agents": { "title": { "model": "p/own" } } });
    check_value(&set, &json!({ "agents": { "title": { "model": "p/own" } } }), &[]);
}

#[test]
fn rules_keep_their_order_and_home_is_spelled_out() {
    let tree = Tree::new(&[(
        "project/abide.json",
        r#"{
            "tools": { "write": false },
            "permission": { "bash": { "z *": "ask", "a *": "allow", "~/x": "deny" }, "*": "ask",
                            "external_directory": { "~/x": "allow", "$HOME/y": "deny" }, "doom_loop": "ask" },
            "permissions": [{ "action": "list", "effect": "deny" }, { "action": "edit", "resource": "~", "effect": "deny" }]
        }"#,
    )]);
    let home = tree.path("home").display().to_string();
    let rules: Vec<String> = tree
        .load_project()
        .permissions()
        .iter()
        .map(|rule| {
            let effect = serde_json::to_value(rule.effect).unwrap();
            format!("{} {} {}", rule.action, rule.resource, effect.as_str().unwrap()).replace(&home, "HOME")
        })
        .collect();
    assert_eq!(
        rules,
        [
            "edit * deny",
            "shell z * ask",
            "shell a * allow",
            "shell ~/x deny",
            "* * ask",
            "external_directory HOME/x allow",
            "external_directory HOME/y deny",
            "doom_loop * ask",
            "read * deny",
            "edit HOME deny",
        ]
    );
}

#[test]
fn older_lists() {
    check_value(
        &json!({ "plugin": ["a", ["b", { "x": 1 }]], "plugins": ["c"] }),
        &json!({ "plugins": ["a", { "package": "b", "options": { "x": 1 } }, "c"] }),
        &[],
    );
    check_value(
        &json!({ "enabled_providers": ["a", "b"], "disabled_providers": ["b"] }),
        &json!({ "experimental": { "policies": [
            { "effect": "deny", "action": "provider.use", "resource": "*" },
            { "effect": "allow", "action": "provider.use", "resource": "a" },
            { "effect": "allow", "action": "provider.use", "resource": "b" },
            { "effect": "deny", "action": "provider.use", "resource": "b" },
        ] } }),
        &[],
    );
    check_value(
        &json!({ "command": { "x": { "template": "t", "model": "p/m", "variant": "v" } }, "reference": { "r": "./r" } }),
        &json!({ "commands": { "x": { "template": "t", "model": "p/m#v" } }, "references": { "r": "./r" } }),
        &[],
    );
}

#[test]
fn older_servers_of_the_model_context_protocol() {
    check_value(
        &json!({
            "mcp": {
                "a": { "type": "local", "command": ["x"], "enabled": false, "timeout": 7 },
                "b": { "type": "remote", "url": "u", "oauth": { "clientId": "i", "callbackPort": 1 } },
                "timeout": { "startup": 1 },
                "servers": { "c": { "type": "local", "command": ["y"] } },
                "d": { "enabled": false },
            },
            "experimental": { "mcp_timeout": 9 },
        }),
        &json!({
            "mcp": {
                "timeout": { "startup": 1, "catalog": 9, "execution": 9 },
                "servers": {
                    "a": { "type": "local", "command": ["x"], "timeout": { "catalog": 7, "execution": 7 }, "disabled": true },
                    "b": { "type": "remote", "url": "u", "oauth": { "client_id": "i", "callback_port": 1 } },
                    "d": { "disabled": true },
                    "c": { "type": "local", "command": ["y"] },
                },
            },
            "experimental": {},
        }),
        &[],
    );
}

/// Converts an older provider and compares it.
#[track_caller]
fn check_provider(npm: Option<&str>, options: &Value, model: &Value, expect: &Value) {
    let mut provider = json!({ "options": options, "models": { "m": { "options": model } } });
    if let Some(npm) = npm {
        provider["npm"] = json!(npm);
    }
    let config = check_findings(&json!({ "provider": { "p": provider } }).to_string(), &[]);
    let mut found = Value::Object(config.documents[0].value.clone())["providers"]["p"].clone();
    if let Some(npm) = npm {
        assert_eq!(found.as_object_mut().unwrap().remove("package"), Some(json!(format!("aisdk:{npm}"))));
    }
    assert_eq!(found, *expect);
}

#[test]
fn options_of_each_family_of_packages() {
    let both =
        json!({ "apiKey": "k", "baseURL": "u", "timeout": 5, "headers": { "h": "v", "n": 1 }, "body": { "b": 1 } });
    check_provider(
        Some("@ai-sdk/openai"),
        &both,
        &json!({ "reasoningEffort": "low", "reasoningSummary": "auto", "textVerbosity": "low", "serviceTier": { "someKey": 1 } }),
        &json!({
            "headers": { "h": "v" }, "body": { "b": 1 }, "settings": { "apiKey": "k", "baseURL": "u", "timeout": 5 },
            "models": { "m": { "body": { "reasoning": { "effort": "low", "summary": "auto" }, "text": { "verbosity": "low" },
                                         "service_tier": { "some_key": 1 } } } },
        }),
    );
    check_provider(
        Some("@ai-sdk/anthropic"),
        &json!({ "authToken": "t" }),
        &json!({ "effort": "high", "taskBudget": 3, "metadata": { "userId": "u" }, "thinking": { "budgetTokens": 1 } }),
        &json!({
            "headers": { "authorization": "Bearer t" },
            "models": { "m": { "body": { "output_config": { "effort": "high", "task_budget": 3 },
                                         "metadata": { "user_id": "u" }, "thinking": { "budget_tokens": 1 } } } },
        }),
    );
    check_provider(
        Some("@ai-sdk/google"),
        &json!({ "apiKey": "k" }),
        &json!({ "thinkingConfig": { "thinkingBudget": 1 }, "other": 1 }),
        &json!({
            "settings": { "apiKey": "k" },
            "models": { "m": { "body": { "generationConfig": { "thinkingConfig": { "thinkingBudget": 1 } }, "other": 1 } } },
        }),
    );
    check_provider(
        Some("@ai-sdk/amazon-bedrock"),
        &json!({ "region": "r" }),
        &json!({ "reasoningConfig": { "a": 1 } }),
        &json!({
            "settings": { "region": "r" },
            "models": { "m": { "body": { "additionalModelRequestFields": { "reasoningConfig": { "a": 1 } } } } },
        }),
    );
    for npm in [Some("@ai-sdk/openai-compatible"), Some("@openrouter/ai-sdk-provider"), None] {
        check_provider(
            npm,
            &json!({ "apiKey": "k", "baseURL": "u" }),
            &json!({ "reasoningEffort": "low", "someKey": 1 }),
            &json!({
                "settings": { "apiKey": "k", "baseURL": "u" },
                "models": { "m": { "body": { "reasoning_effort": "low", "someKey": 1 } } },
            }),
        );
    }
    check_provider(
        Some("constructor"),
        &json!({ "apiKey": "k", "x": 1 }),
        &json!({ "y": 2 }),
        &json!({ "settings": { "apiKey": "k" }, "body": { "x": 1 }, "models": { "m": { "body": { "y": 2 } } } }),
    );
}

#[test]
fn older_models() {
    check_value(
        &json!({ "provider": { "p": { "npm": "@ai-sdk/openai-compatible", "api": "http://x", "id": "p", "whitelist": ["m"], "models": { "m": {
            "id": "wire", "tool_call": true, "modalities": { "input": ["text", "image"] }, "reasoning": true,
            "cost": { "input": 1, "output": 2, "cache_read": 0.5, "context_over_200k": { "input": 3, "output": 4 } },
            "limit": { "context": 1000.7, "output": 10 }, "status": "deprecated", "release_date": "2025-01-01",
            "interleaved": { "field": "reasoning_content" }, "temperature": true, "headers": { "a": "b" },
            "variants": { "high": { "reasoningEffort": "high" } }, "provider": { "npm": "@ai-sdk/openai", "api": "http://y" },
        } } } } }),
        &json!({ "providers": { "p": { "package": "aisdk:@ai-sdk/openai-compatible", "settings": { "baseURL": "http://x" }, "whitelist": ["m"], "models": { "m": {
            "package": "aisdk:@ai-sdk/openai", "settings": { "baseURL": "http://y" }, "modelID": "wire",
            "capabilities": { "tools": true, "input": ["text", "image"], "output": [], "reasoning": true },
            "cost": [
                { "input": 1, "output": 2, "cache": { "read": 0.5 } },
                { "input": 3, "output": 4, "cache": {}, "tier": { "type": "context", "size": 200_000 } },
            ],
            "headers": { "a": "b" },
            "variants": [{ "id": "high", "headers": {}, "body": { "reasoning": { "effort": "high" } }, "disabled": null }],
            "disabled": true, "compatibility": { "reasoningField": "reasoning_content" },
            "limit": { "context": 1000.7, "output": 10 }, "release_date": "2025-01-01",
        } } } } }),
        &["Info Unsupported /provider/p/models/m/temperature", "Info Unsupported /provider/p/id"],
    );
}

#[test]
fn the_first_v2_form_of_providers() {
    check_value(
        &json!({ "providers": { "p": {
            "api": { "type": "aisdk", "package": "@ai-sdk/anthropic", "url": "http://x", "settings": { "apiKey": "k" } },
            "request": { "headers": { "h": "v" }, "body": { "b": 1 } },
            "models": { "m": { "api": { "id": "wire", "type": "native", "settings": { "s": 1 } }, "cost": { "input": 1, "output": 2 } } },
        } } }),
        &json!({ "providers": { "p": {
            "package": "aisdk:@ai-sdk/anthropic", "settings": { "apiKey": "k", "baseURL": "http://x" },
            "headers": { "h": "v" }, "body": { "b": 1 },
            "models": { "m": { "cost": { "input": 1, "output": 2 }, "modelID": "wire", "settings": { "s": 1 } } },
        } } }),
        &[],
    );
}

#[test]
fn markdown_agents_and_commands_count_after_the_documents_of_their_directory() {
    let tree = Tree::new(&[
        ("project/.abide/abide.json", r#"{ "agents": { "x": { "system": "json", "steps": 5 } } }"#),
        ("project/.abide/agents/x.md", "---\ndescription: When: always\nmode: subagent\n---\n\nmarkdown\n"),
        ("project/.abide/agents/review/deep.md", "no front matter"),
        ("project/.opencode/agent/claude.md", "---\nname: c\ntools: Read, Bash\nmodel: p/m\nmood: good\n---\nbody"),
        ("project/.opencode/mode/m.md", "---\nmode: subagent\n---\nmode body"),
        ("project/.abide/agents/broken.md", "---\n[unclosed\n---\nbody"),
        ("project/.abide/agents/wrong.md", "---\nmode: nonsense\n---\nbody"),
        ("project/.abide/commands/fix/it.md", "---\ndescription: Fixes\nagent: x\nsubtask: true\n---\nFix $1\n"),
    ]);
    let config = tree.load_project();
    let agents = config.agents();
    let x = &agents["x"];
    assert_eq!(
        (x.system.as_deref(), x.steps, x.description.as_deref()),
        (Some("markdown"), Some(5), Some("When: always"))
    );
    assert_eq!(agents["review/deep"].system.as_deref(), Some("no front matter"));
    assert_eq!(serde_json::to_value(&agents["m"]).unwrap(), json!({ "system": "mode body", "mode": "primary" }));
    assert_eq!(
        serde_json::to_value(&agents["claude"]).unwrap(),
        json!({
            "name": "c", "model": { "providerID": "p", "id": "m" }, "system": "body", "request": { "headers": {}, "body": { "mood": "good" } },
            "permissions": [
                { "action": "read", "resource": "*", "effect": "allow" },
                { "action": "shell", "resource": "*", "effect": "allow" },
            ],
        })
    );
    assert_eq!(agents.keys().filter(|id| ["broken", "wrong"].contains(&id.as_str())).count(), 0);
    assert_eq!(findings(&config), ["Error Invalid ", "Error Invalid /agents/wrong/mode"]);
    assert_eq!(
        serde_json::to_value(&config.commands()["fix/it"]).unwrap(),
        json!({ "template": "Fix $1", "description": "Fixes", "agent": "x", "subtask": true })
    );
}

#[test]
fn entries_are_patched_field_by_field_and_lists_joined() {
    let tree = Tree::new(&[
        (
            "home/.config/abide/abide.json",
            r#"{
                "agents": { "a": { "model": "p/m#high", "permissions": [{ "action": "x", "effect": "deny" }], "disabled": true } },
                "commands": { "c": { "template": "old", "description": "old" }, "d": { "template": "d", "agent": "a" } },
                "providers": { "p": { "headers": { "X-A": "1" }, "settings": { "baseURL": "u", "apiKey": "k" },
                                      "models": { "m": { "variants": [{ "id": "v", "body": { "a": 1 } }], "limit": { "context": 5 } } } } },
                "instructions": ["one"], "compaction": { "buffer": 5 },
                "experimental": { "policies": [{ "effect": "allow", "action": "provider.use", "resource": "p" }] }
            }"#,
        ),
        (
            "project/abide.json",
            r#"{
                "agents": { "a": { "model": "p/other", "permissions": [{ "action": "y", "effect": "allow" }], "disabled": false } },
                "commands": { "c": { "template": "new" }, "d": { "description": "more" } },
                "providers": { "p": { "headers": { "x-a": "2" }, "settings": { "baseURL": "v" },
                                      "models": { "m": { "variants": [{ "id": "v", "body": { "b": 2 } }], "limit": { "output": 6 } } } } },
                "instructions": ["two"], "compaction": { "auto": false },
                "experimental": { "policies": [{ "effect": "deny", "action": "provider.use", "resource": "p" }] }
            }"#,
        ),
        (
            "managed/abide.json",
            r#"{ "experimental": { "policies": [{ "effect": "deny", "action": "provider.use", "resource": "q" }] } }"#,
        ),
    ]);
    let config = tree.load_project();
    let folded = json!({
        "agents": config.agents(), "commands": config.commands(), "providers": config.providers(),
        "compaction": config.compaction(), "policies": config.policies(),
    });
    assert_eq!(
        folded,
        json!({
            "agents": { "a": {
                "model": { "providerID": "p", "id": "other", "variant": "high" }, "disabled": false,
                "permissions": [
                    { "action": "x", "resource": "*", "effect": "deny" },
                    { "action": "y", "resource": "*", "effect": "allow" },
                ],
            } },
            "commands": { "c": { "template": "new" }, "d": { "template": "d", "description": "more", "agent": "a" } },
            "providers": { "p": {
                "settings": { "baseURL": "v", "apiKey": "k" }, "headers": { "x-a": "2" },
                "models": { "m": { "variants": [{ "id": "v", "body": { "a": 1, "b": 2 } }], "limit": { "context": 5, "output": 6 } } },
            } },
            "compaction": { "auto": false, "buffer": 5 },
            "policies": [
                { "effect": "deny", "action": "provider.use", "resource": "p" },
                { "effect": "allow", "action": "provider.use", "resource": "p" },
                { "effect": "deny", "action": "provider.use", "resource": "q" },
            ],
        })
    );
}

#[test]
fn each_effective_value_knows_its_document_and_hides_secrets() {
    let tree = Tree::new(&[
        (
            "home/.config/abide/abide.jsonc",
            "{ \"model\": \"a/global\",\n \"permission\": [{\"action\":\"shell\",\"resource\":\"rm *\",\"effect\":\"deny\"}] }",
        ),
        (
            "project/abide.jsonc",
            "{ \"model\": \"b/project\", \"permission\": { \"bash\": \"allow\" },\n \"provider\": { \"p\": { \"options\": { \"apiKey\": \"sk-1\", \"maxTokens\": 5 } } } }",
        ),
    ]);
    let config = tree.load_project();
    let shown: Vec<String> = config
        .effective()
        .iter()
        .map(|entry| {
            let file = entry.origin.path.as_ref().unwrap().strip_prefix(tree.path("")).unwrap().display();
            let (line, column) = entry.place.unwrap();
            format!("{} = {} ({file}:{line}:{column})", entry.pointer, entry.value)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "/model = \"b/project\" (project/abide.jsonc:1:3)",
            "/permissions/0 = {\"action\":\"shell\",\"resource\":\"rm *\",\"effect\":\"deny\"} (home/.config/abide/abide.jsonc:2:17)",
            "/permissions/1 = {\"action\":\"shell\",\"resource\":\"*\",\"effect\":\"allow\"} (project/abide.jsonc:1:41)",
            "/providers/p/settings/apiKey = \"[redacted]\" (project/abide.jsonc:2:36)",
            "/providers/p/settings/maxTokens = 5 (project/abide.jsonc:2:54)",
        ]
    );
    assert_eq!(
        config.effective_document()["permissions"],
        json!([{ "action": "shell", "resource": "rm *", "effect": "deny" }, { "action": "shell", "resource": "*", "effect": "allow" }])
    );
}

#[test]
fn freshness_is_about_every_path_that_was_looked_at() {
    let tree = Tree::new(&[("project/abide.json", "{}"), ("project/.abide/agents/a.md", "a")]);
    let config = tree.load_project();
    assert!(config.files().is_fresh());
    for (path, content) in [
        ("project/abide.json", Some("{ }")),
        ("project/opencode.jsonc", Some("{}")),
        ("project/.abide/agents/b.md", Some("b")),
        ("project/.abide/agents/a.md", None),
        ("home/.config/abide/abide.json", Some("{}")),
    ] {
        let before = tree.load_project();
        match content {
            Some(content) => tree.write(path, content),
            None => fs::remove_file(tree.path(path)).unwrap(),
        }
        assert!(!before.files().is_fresh(), "{path}");
    }
    let unrelated = tree.load_project();
    tree.write("project/src/main.rs", "");
    assert!(unrelated.files().is_fresh());
}

#[test]
fn nothing_read_from_a_document_makes_it_panic() {
    let texts = [
        "{",
        "{\"a\":",
        "[[[[",
        "{\"agent\": 5, \"mode\": [], \"provider\": \"x\", \"mcp\": 1, \"tools\": 1}",
        "{\"permission\": 5, \"permissions\": {\"a\": 1}, \"server\": 1, \"experimental\": 2, \"mcp_timeout\": 1}",
        "{\"agents\": {\"a/b~c\": {\"permissions\": \"allow\", \"request\": 5}}, \"compaction\": 7, \"skills\": 3}",
        "{\"provider\": {\"x\": {\"models\": {\"m\": {\"cost\": 4, \"options\": 5, \"variants\": [1]}}, \"options\": 4}}}",
        "{env:",
        "{file:",
        "{file:}",
        "{\"a\": \"{file:\\u0000}\"}",
        "{\"abide\": 1, \"logLevel\": \"x\", \"server\": {}}",
    ];
    for text in texts {
        let tree = Tree::new(&[("project/abide.json", text)]);
        let config = tree.load_project();
        assert!(!config.diagnostics.is_empty(), "{text}");
        drop(config.effective_document());
    }
    assert_eq!(Path::new("/a/b"), directories::clean(Path::new("/a/./c/..//b/")));
}

/// Any JSON value, with the keys that mean something.
fn any_value() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let keys = [
        "agent",
        "agents",
        "mode",
        "permission",
        "permissions",
        "tools",
        "provider",
        "providers",
        "models",
        "options",
        "npm",
        "api",
        "request",
        "headers",
        "body",
        "cost",
        "limit",
        "variants",
        "mcp",
        "servers",
        "timeout",
        "compaction",
        "keep",
        "command",
        "commands",
        "template",
        "model",
        "variant",
        "plugin",
        "plugins",
        "skills",
        "experimental",
        "policies",
        "server",
        "logLevel",
        "abide",
        "steps",
        "maxSteps",
        "x/y~z",
        "",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![Just("allow"), Just("a/b"), Just("a/b#c"), Just("deprecated"), Just("~/x"), Just("")]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(keys.to_vec()), inner), 0..6).prop_map(|entries| {
                entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<JsonObject>().into()
            }),
        ]
    })
}

/// Converts and decodes a text; `None` when it is rejected.
fn convert_text(text: &str) -> Option<(ConfigDocument, Value)> {
    let world = World::real().with_environment(BTreeMap::new());
    let mut files = FileSet::default();
    let mut reader = parse::Reader { world: &world, home: Path::new("/home/u"), files: &mut files };
    let (value, mut report) = parse::parse_document(text.as_bytes(), None, Path::new("/nowhere"), &mut reader);
    let mut value = value?;
    v1::convert(&mut value, Path::new("/home/u"), &mut report);
    let (info, value) = decode::decode(value, &mut report);
    Some((info, Value::Object(value)))
}

proptest::proptest! {
    #[test]
    fn what_was_converted_means_the_same_when_it_is_read_again(value in any_value()) {
        if let Some((info, value)) = convert_text(&value.to_string()) {
            let (again, same) = convert_text(&value.to_string()).unwrap();
            proptest::prop_assert_eq!(info, again);
            proptest::prop_assert_eq!(value, same);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}") {
        let _read = convert_text(&text);
        let _read = convert_text(&format!("{{\"agent\": {text}}}"));
    }
}
