use abide_schema::catalog::SkillInfo;
use abide_schema::permission::Effect;
use serde_json::json;

use super::*;
use crate::tool::builtin::bench::{Outcome, Project, allow, rules};

struct Known(Vec<Skill>);

impl Skills for Known {
    fn skill(&self, id: &str) -> Option<Skill> {
        self.0.iter().find(|skill| skill.id == id).cloned()
    }

    fn is_agent(&self, id: &str) -> bool {
        id == "explore"
    }
}

fn skill(project: &Project, id: &str, path: &str) -> Skill {
    let location = project.path(path).display().to_string();
    let info = SkillInfo {
        name: id.to_owned(),
        description: Some("what it is for".into()),
        slash: None,
        location,
        content: "\nDo <this>.\n\n".into(),
    };
    Skill { id: id.to_owned(), info, is_offered: true }
}

async fn run(project: &Project, id: &str) -> Result<Outcome, String> {
    let skills =
        vec![skill(project, "release", "skills/release/SKILL.md"), skill(project, "single", "skills/single.md")];
    let tool = SkillTool::new(project.bench.permissions.clone(), Arc::new(Known(skills)));
    project.call(&tool, "call", json!({ "id": id })).await
}

/// SK1.
#[tokio::test]
async fn a_skill_names_its_files() {
    let project = Project::new(allow());
    project.write("skills/release/SKILL.md", "");
    for n in 0..9 {
        project.write(&format!("skills/release/scripts/{n}.sh"), "");
    }
    for name in [".hidden", "a\"b", "zz", "scripts/SKILL.md"] {
        project.write(&format!("skills/release/{name}"), "");
    }
    let outcome = run(&project, "release").await.unwrap();
    let text = "<skill_content name=\"release\">\n# Skill: release\n\nDo <this>.\n\nBase directory: ROOT/project/skills/release\n\
                Relative paths in this skill start there.\n\n<skill_files>\n<file>.hidden</file>\n<file>a&quot;b</file>\n\
                <file>scripts/0.sh</file>\n<file>scripts/1.sh</file>\n<file>scripts/2.sh</file>\n<file>scripts/3.sh</file>\n\
                <file>scripts/4.sh</file>\n<file>scripts/5.sh</file>\n<file>scripts/6.sh</file>\n<file>scripts/7.sh</file>\n\
                </skill_files>\n</skill_content>";
    assert_eq!(outcome.text, text);
    assert_eq!(outcome.metadata["name"], "release");

    let outcome = run(&project, "single").await.unwrap();
    let text = "<skill_content name=\"single\">\n# Skill: single\n\nDo <this>.\n\nBase directory: ROOT/project/skills\n\
                Relative paths in this skill start there.\n</skill_content>";
    assert_eq!(outcome.text, text);
}

#[tokio::test]
async fn what_is_no_skill() {
    let project = Project::new(rules(&[("*", "*", Effect::Allow), ("skill", "rel*", Effect::Deny)]));
    assert_eq!(run(&project, "x").await.unwrap_err(), "Could not load skill x: there is no such skill");
    assert_eq!(
        run(&project, "explore").await.unwrap_err(),
        "explore is an agent, not a skill: start it with the tool subagent"
    );
    assert_eq!(run(&project, "release").await.unwrap_err(), "Permission denied: skill");
}
