//! Permission shorthand: `"ask"`, `{ "bash": "ask" }`, `{ "bash": { "git *": "allow" } }`, or a list of rules.

use std::path::Path;

use abide_schema::config::{DiagnosticKind, Severity};
use serde_json::{Value, json};

use crate::config::directories::expand_home;
use crate::config::report::{Report, join};

/// Actions whose resources are paths, where a leading `~` means home.
const PATH_ACTIONS: [&str; 3] = ["external_directory", "read", "edit"];
const EFFECTS: [&str; 3] = ["allow", "deny", "ask"];

/// A rule with the pointer it comes from.
pub(super) type Placed = (Value, String);

/// Reads rules in any form.
pub(super) fn push_rules(value: &Value, pointer: &str, home: &Path, out: &mut Vec<Placed>, report: &mut Report) {
    match value {
        Value::String(effect) => push(out, report, home, pointer, "*", "*", effect),
        Value::Object(actions) => {
            for (action, value) in actions {
                let child = join(pointer, action);
                match value {
                    Value::Null => {}
                    Value::String(effect) => push(out, report, home, &child, action, "*", effect),
                    Value::Object(resources) => {
                        for (resource, effect) in resources {
                            let child = join(&child, resource);
                            match effect.as_str() {
                                Some(effect) => push(out, report, home, &child, action, resource, effect),
                                None => invalid(report, &child, effect),
                            }
                        }
                    }
                    Value::Bool(_) | Value::Number(_) | Value::Array(_) => invalid(report, &child, value),
                }
            }
        }
        Value::Array(rules) => {
            for (index, rule) in rules.iter().enumerate() {
                let child = format!("{pointer}/{index}");
                let text = |key: &str| rule.get(key).and_then(Value::as_str);
                match (text("action"), rule.get("resource"), text("effect")) {
                    (Some(action), None | Some(Value::Null), Some(effect)) => {
                        push(out, report, home, &child, action, "*", effect);
                    }
                    (Some(action), Some(Value::String(resource)), Some(effect)) => {
                        push(out, report, home, &child, action, resource, effect);
                    }
                    _ => invalid(report, &child, rule),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => invalid(report, pointer, value),
    }
}

/// Reads `{ "write": false }`.
pub(super) fn push_tools(tools: &Value, pointer: &str, out: &mut Vec<Placed>, report: &mut Report) {
    let Value::Object(tools) = tools else {
        return invalid(report, pointer, tools);
    };
    for (name, value) in tools {
        let child = join(pointer, name);
        match value.as_bool() {
            Some(is_on) => {
                let effect = if is_on { "allow" } else { "deny" };
                out.push((json!({ "action": action(name), "resource": "*", "effect": effect }), child));
            }
            None => invalid(report, &child, value),
        }
    }
}

/// Brings rules of the present key into the list form.
pub(crate) fn normal_rules(value: &Value, pointer: &str, home: &Path, report: &mut Report) -> Value {
    let mut out = Vec::new();
    push_rules(value, pointer, home, &mut out, report);
    Value::Array(out.into_iter().map(|(rule, _)| rule).collect())
}

/// The present name of an action.
fn action(name: &str) -> &str {
    match name {
        "bash" => "shell",
        "task" => "subagent",
        "write" | "patch" | "multiedit" | "apply_patch" => "edit",
        "list" => "read",
        other => other,
    }
}

fn push(
    out: &mut Vec<Placed>,
    report: &mut Report,
    home: &Path,
    pointer: &str,
    name: &str,
    resource: &str,
    effect: &str,
) {
    if !EFFECTS.contains(&effect) {
        return invalid(report, pointer, &json!(effect));
    }
    let action = action(name);
    let resource = if PATH_ACTIONS.contains(&action) { expand_home(home, resource) } else { resource.to_owned() };
    out.push((json!({ "action": action, "resource": resource, "effect": effect }), pointer.to_owned()));
}

fn invalid(report: &mut Report, pointer: &str, value: &Value) {
    let message = format!(
        "{value} is not a permission: expected \"allow\", \"deny\" or \"ask\", an object of patterns with these, \
         or a rule {{action, resource, effect}}"
    );
    report.add(Severity::Error, DiagnosticKind::Invalid, pointer, message);
}
