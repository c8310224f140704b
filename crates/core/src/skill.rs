//! Skills: instructions in files that a model loads when it needs them (spec/config.md section 13).

use std::path::{Path, PathBuf};

use abide_schema::JsonObject;
use abide_schema::catalog::SkillInfo;
use abide_schema::config::{Diagnostic, DiagnosticKind, Severity};
use abide_schema::permission::{Effect, Rule};
use serde_json::Value;

use crate::config::files::FileSet;
use crate::config::flags::is_true;
use crate::config::{Config, Directories, markdown, real};
use crate::permission::evaluate;

/// How deep a source is searched.
const MAX_DEPTH: usize = 8;
/// How many files one source may hold.
const MAX_FILES: usize = 2000;

/// A skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// What permission rules call it: the name of its folder, or of its file.
    pub id: String,
    /// What clients see.
    pub info: SkillInfo,
    /// Whether the model may load it by itself.
    pub is_offered: bool,
}

/// Finds all skills that count, in the order of their sources; a later one replaces an earlier one of the same id.
/// Blocks.
pub fn discover(
    config: &Config,
    directories: &Directories,
    location: &Path,
    files: &mut FileSet,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Skill> {
    let mut skills: Vec<Skill> = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    for source in sources(config, directories, location, files) {
        let place = real(&source);
        if seen.contains(&place) || !files.is_dir(&source) {
            continue;
        }
        seen.push(place);
        let mut found = Vec::new();
        scan(&source, 0, files, &mut found, &mut Vec::new());
        for path in found {
            let Some(skill) = read(&source, &path, files, diagnostics) else { continue };
            skills.retain(|known| known.id != skill.id);
            skills.push(skill);
        }
    }
    skills
}

/// The directories of skills, lowest precedence first.
fn sources(config: &Config, directories: &Directories, location: &Path, files: &mut FileSet) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = config.external.iter().map(|root| root.join("skills")).collect();
    for directory in &config.directories {
        out.extend(["skill", "skills"].map(|name| directory.join(name)));
    }
    for document in &config.documents {
        for item in document.info.skills.iter().filter(|item| !item.contains("://")) {
            let path = PathBuf::from(directories.expand_home(item));
            let beside = document.origin.base.join(&path);
            out.push(if files.is_dir(&beside) { beside } else { location.join(path) });
        }
    }
    out
}

/// Collects `*.md` at the top and `SKILL.md` at any depth, sorted.
fn scan(folder: &Path, depth: usize, files: &mut FileSet, out: &mut Vec<PathBuf>, above: &mut Vec<PathBuf>) {
    let place = real(folder);
    if above.contains(&place) || depth > MAX_DEPTH {
        return;
    }
    above.push(place);
    for path in files.list(folder) {
        if out.len() >= MAX_FILES {
            break;
        }
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != ".trash") {
                scan(&path, depth + 1, files, out, above);
            }
            continue;
        }
        let is_skill = path.file_name().is_some_and(|name| name == "SKILL.md");
        if is_skill || (depth == 0 && path.extension().is_some_and(|extension| extension == "md")) {
            out.push(path);
        }
    }
    above.pop();
}

fn read(source: &Path, path: &Path, files: &mut FileSet, diagnostics: &mut Vec<Diagnostic>) -> Option<Skill> {
    let mut report = |severity: Severity, message: String| {
        diagnostics.push(Diagnostic::new(severity, DiagnosticKind::Invalid, message).in_file(path));
    };
    let text = match files.read(path).map(|bytes| bytes.map(String::from_utf8)) {
        Ok(Some(Ok(text))) => text,
        Ok(Some(Err(_))) => {
            report(Severity::Error, "the skill is not UTF-8 text; it is left out".to_owned());
            return None;
        }
        Ok(None) => return None,
        Err(error) => {
            report(Severity::Error, format!("the skill cannot be read: {error}; it is left out"));
            return None;
        }
    };
    let document = match markdown::parse(&text) {
        Ok(document) => document,
        Err(message) => {
            report(Severity::Error, format!("{message}; the skill is left out"));
            return None;
        }
    };
    let front = document.front.unwrap_or_default();
    let id = id_of(source, path)?;
    let name = text_of(&front, "name").unwrap_or_else(|| id.clone());
    let description = text_of(&front, "description");
    if let Some(message) = odd(&name, &id, description.as_deref()) {
        report(Severity::Info, message);
    }
    let is_offered = !flag(&front, "disable-model-invocation").unwrap_or(false)
        && front
            .get("metadata")
            .and_then(Value::as_object)
            .and_then(|map| flag(map, "opencode/autoinvoke"))
            .unwrap_or(true);
    let slash = flag(&front, "user-invocable").or_else(|| flag(&front, "slash"));
    Some(Skill {
        id,
        info: SkillInfo { name, description, slash, location: path.display().to_string(), content: document.body },
        is_offered,
    })
}

fn id_of(source: &Path, path: &Path) -> Option<String> {
    let is_skill = path.file_name()? == "SKILL.md";
    let named =
        if is_skill { path.parent().filter(|parent| *parent != source)?.file_name()? } else { path.file_stem()? };
    Some(named.to_str()?.to_owned())
}

fn text_of(front: &JsonObject, key: &str) -> Option<String> {
    front.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn flag(front: &JsonObject, key: &str) -> Option<bool> {
    match front.get(key)? {
        Value::Bool(value) => Some(*value),
        Value::String(text) => Some(is_true(text)),
        Value::Number(number) => Some(number.as_i64() == Some(1)),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// What the specification of skills would not like.
fn odd(name: &str, id: &str, description: Option<&str>) -> Option<String> {
    let is_plain = name.len() <= 64
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !is_plain {
        return Some(format!("the name {name:?} of the skill is not of lower-case letters, digits and single hyphens"));
    }
    if name != id {
        return Some(format!("the name {name:?} of the skill differs from the name of its folder, {id:?}"));
    }
    description
        .is_some_and(|text| text.chars().count() > 1024)
        .then(|| "the description of the skill has more than 1024 characters".to_owned())
}

/// Returns the skills that a model is told about under these rules, sorted by id.
pub fn offered<'a>(skills: &'a [Skill], rules: &[Rule]) -> Vec<&'a Skill> {
    let mut out: Vec<&Skill> = skills
        .iter()
        .filter(|skill| skill.is_offered && skill.info.description.is_some())
        .filter(|skill| evaluate("skill", &skill.id, Path::new("/"), rules) != Effect::Deny)
        .collect();
    out.sort_by(|a, b| a.id.cmp(&b.id));
    out
}

#[cfg(test)]
mod tests;
