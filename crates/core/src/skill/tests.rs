use super::*;
use crate::config::testing::Tree;
use abide_schema::permission::Rule;

fn found(tree: &Tree) -> Vec<Skill> {
    tree.state("project", Some("project")).skills.as_ref().clone()
}

#[test]
fn later_sources_win_and_files_are_found_where_they_may_be() {
    let skill = |text: &str| format!("---\nname: x\ndescription: {text}\n---\nbody of {text}\n");
    let tree = Tree::new(&[
        ("home/.claude/skills/x/SKILL.md", &skill("claude home")),
        ("project/.claude/skills/x/SKILL.md", &skill("claude project")),
        ("project/.agents/skills/only-agents/SKILL.md", "---\ndescription: d\n---\nbody"),
        ("home/.config/abide/skill/global/SKILL.md", "---\ndescription: global\n---\nbody"),
        ("project/.abide/skills/x/SKILL.md", &skill("own")),
        ("project/.opencode/skill/deep/er/SKILL.md", "---\ndescription: deep\n---\nbody"),
        ("project/.opencode/skill/plain.md", "---\ndescription: plain\n---\nbody"),
        ("project/.opencode/skill/.trash/gone/SKILL.md", "---\ndescription: gone\n---\nbody"),
        ("project/.opencode/skill/deep/notes.md", "no skill"),
        ("project/more/listed/SKILL.md", "no front matter"),
        ("project/abide.json", r#"{ "skills": ["./more", "https://example.invalid/skills"] }"#),
    ]);
    let mut skills: Vec<String> = found(&tree)
        .iter()
        .map(|skill| format!("{}: {}", skill.id, skill.info.description.as_deref().unwrap_or("-")))
        .collect();
    skills.sort();
    assert_eq!(skills, ["er: deep", "global: global", "listed: -", "only-agents: d", "plain: plain", "x: own"]);
    let x = found(&tree).into_iter().find(|skill| skill.id == "x").unwrap();
    assert_eq!(x.info.content, "body of own");
    assert_eq!(x.info.location, tree.path("project/.abide/skills/x/SKILL.md").display().to_string());
}

#[test]
fn what_the_model_is_told_of() {
    let tree = Tree::new(&[
        ("project/.abide/skill/b/SKILL.md", "---\ndescription: b\n---\n"),
        ("project/.abide/skill/a/SKILL.md", "---\ndescription: a\nslash: yes\n---\n"),
        ("project/.abide/skill/silent/SKILL.md", "---\ndescription: s\ndisable-model-invocation: 'TRUE'\n---\n"),
        ("project/.abide/skill/meta/SKILL.md", "---\ndescription: m\nmetadata:\n  opencode/autoinvoke: false\n---\n"),
        ("project/.abide/skill/undescribed/SKILL.md", "text"),
        ("project/.abide/skill/broken/SKILL.md", "---\n[oops\n---\ntext"),
    ]);
    let skills = found(&tree);
    let check = |rules: &[Rule], expect: &[&str]| {
        let ids: Vec<&str> = offered(&skills, rules).iter().map(|skill| skill.id.as_str()).collect();
        assert_eq!(ids, expect);
    };
    check(&[], &["a", "b"]);
    check(&[Rule::new("skill", "a", Effect::Deny)], &["b"]);
    check(&[Rule::new("skill", "*", Effect::Deny)], &[]);
    let commands: Vec<String> =
        tree.state("project", Some("project")).commands.iter().map(|command| command.name.clone()).collect();
    assert_eq!(commands, ["init", "review", "a"]);
}
