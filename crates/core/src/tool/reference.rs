//! The reference of the tools as Markdown, made from the tools themselves.

use std::fmt::Write as _;
use std::sync::Arc;

use abide_schema::tool::Effects;
use serde_json::Value;

use super::info::ToolInfo;
use super::leaf::{Keep, Load};
use super::output::OutputLimits;
use crate::secret::{HARMLESS, SENSITIVE};

/// Writes down tools by effective name.
pub fn reference(tools: &[(String, Arc<ToolInfo>)]) -> String {
    let limits = OutputLimits::default();
    let mut text = format!(
        "# Tools\n\nMade from the code by `cargo xtask gen`.\n\nEvery tool asks for its own permission when it is called; a \
         rule that denies all of an action hides the tools of that action. Unless a tool bounds its own output, at most {} \
         lines and {} bytes of a result reach the model: the whole is kept in a file of `tool-output` in the data directory \
         for 7 days, and the result names it. Values of provider keys are replaced by `[redacted]` in everything that a tool \
         returns. Paths are relative to the working directory or absolute; a path outside the project asks for \
         `external_directory` first.\n",
        limits.lines, limits.bytes
    );
    for (name, tool) in tools {
        describe(name, tool, &mut text);
    }
    text.push_str(
        "\n## Files that usually hold secrets\n\n`read`, `grep`, and commands of `shell` that would show one of these files ask \
         for `read` first, also where a rule allows everything; a rule that names the file or its kind allows it. `grep` \
         leaves them out instead of asking. `abide.tools.secret_files` adds patterns, and with `!` exceptions.\n\n",
    );
    let list = |patterns: &[&str]| patterns.iter().map(|pattern| format!("`{pattern}`")).collect::<Vec<_>>().join(", ");
    // Writing to a String cannot fail.
    let _infallible = writeln!(text, "{}\n\nNot these: {}", list(SENSITIVE), list(HARMLESS));
    text
}

fn describe(name: &str, tool: &ToolInfo, text: &mut String) {
    let permission = tool.options.permission.as_deref().unwrap_or(name);
    // Writing to a String cannot fail.
    let _infallible = writeln!(text, "\n## {name}\n\n{}\n", tool.description.trim());
    let _infallible = writeln!(text, "- permission: `{permission}`");
    let _infallible = writeln!(text, "- effects: {}", effects(tool.effects));
    let _infallible = writeln!(text, "- after a crash: {}", after_crash(tool.effects));
    if let Some(freeform) = &tool.freeform {
        let _infallible =
            writeln!(text, "- also called as `{}` with plain text, which is `{}`", freeform.name, freeform.input);
    }
    if tool.keep == Keep::Tail {
        text.push_str("- of an output that is too long the end is kept\n");
    }
    if tool.load == Load::Waits {
        text.push_str("- waits for other work, so that it does not count among the calls that run at a time\n");
    }
    for limit in &tool.limits {
        let _infallible = writeln!(text, "- limit: {limit}");
    }
    let schema = tool.input.advertised();
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some(properties) = properties.filter(|properties| !properties.is_empty()) {
        text.push_str("\n| input | type | |\n| --- | --- | --- |\n");
        for (key, property) in properties {
            let about = property.get("description").and_then(Value::as_str).unwrap_or_default().replace('\n', " ");
            let bounds = bounds(property);
            let about =
                [about.as_str(), bounds.as_str()].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>();
            let key = if required.contains(&key.as_str()) { format!("`{key}`") } else { format!("`{key}?`") };
            let _infallible = writeln!(text, "| {key} | {} | {} |", type_of(property), about.join(" "));
        }
    }
}

fn type_of(property: &Value) -> String {
    let named = |value: &Value| value.as_str().map(str::to_owned);
    let types = match property.get("type") {
        Some(Value::Array(types)) => types.iter().filter_map(named).filter(|name| name != "null").collect(),
        Some(one) => named(one).into_iter().collect(),
        None => Vec::new(),
    };
    let words = property.get("enum").and_then(Value::as_array).map(|words| {
        words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ")
    });
    let options = || {
        let options = property.get("oneOf").or_else(|| property.get("anyOf"))?.as_array()?;
        let words = options.iter().filter_map(|option| option.get("const").and_then(Value::as_str));
        let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
        (!words.is_empty()).then(|| words.join(" or "))
    };
    words.or_else(options).unwrap_or_else(|| if types.is_empty() { "any".to_owned() } else { types.join(" or ") })
}

fn bounds(property: &Value) -> String {
    let words = [
        ("minimum", "at least"),
        ("exclusiveMinimum", "over"),
        ("maximum", "at most"),
        ("minLength", "length at least"),
        ("minItems", "items at least"),
        ("maxItems", "items at most"),
        ("default", "default"),
    ];
    let found = words.iter().filter_map(|(key, word)| {
        let value = property.get(*key).filter(|value| !value.is_null())?;
        Some(format!("{word} {value}"))
    });
    let found: Vec<String> = found.collect();
    if found.is_empty() { String::new() } else { format!("({})", found.join(", ")) }
}

const fn effects(effects: Effects) -> &'static str {
    match effects {
        Effects::None => "none",
        Effects::Files => "changes files, through the mutation journal: all of a call or nothing",
        Effects::Process => "runs a process, announced in the process journal before it starts",
        Effects::Session => "acts on sessions",
        Effects::Network => "reads from the network",
        Effects::External => "unknown to abide",
    }
}

/// Says what recovery makes of a call that a crash cut off.
const fn after_crash(effects: Effects) -> &'static str {
    match effects {
        Effects::None | Effects::Network => "`not-started`: it is safe to repeat",
        Effects::Files => {
            "`applied` (all files are changed; the result is published), `not-started`, `rolled-back` (what was done is \
             undone) or `diverged` (somebody else changed a file meanwhile; the files are listed and left alone)"
        }
        Effects::Process => {
            "`not-started`, `finished` (its result is known and published), `killed` (it still ran and was ended) or \
             `unknown` (it may have taken effect)"
        }
        Effects::Session => "`applied`, or `child-interrupted` with the child's id",
        Effects::External => "`unknown`: it may have taken effect",
    }
}
