//! What must not be shown: the values of keys that abide holds, and files that are known to hold secrets.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_schema::permission::{Effect, Rule};
use abide_schema::tool::Content;
use arc_swap::ArcSwap;
use memchr::memmem;
use serde_json::Value;

use crate::permission::{Judge, deciding, matches};
use crate::shell::judge::strictest;

/// What stands for a value that is not shown.
pub const REDACTED: &str = "[redacted]";

/// Shorter values are not looked for: they may stand in any text.
const MIN_VALUE_BYTES: usize = 8;

/// The values of keys that this process holds: from the environment and from stored credentials. Cheap to clone; all
/// clones are one.
#[derive(Clone, Default)]
pub struct Secrets {
    values: Arc<ArcSwap<Vec<Arc<str>>>>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.values.load().len())
    }
}

impl Secrets {
    /// Adds values; short ones are left out. A value stays known when its key is removed: old texts may hold it.
    pub fn add(&self, values: impl IntoIterator<Item = String>) {
        let known = self.values.load();
        let mut new: Vec<Arc<str>> = Vec::new();
        for value in values {
            let value = value.trim();
            let is_known = |there: &Arc<str>| there.as_ref() == value;
            if value.len() >= MIN_VALUE_BYTES && !known.iter().any(is_known) && !new.iter().any(is_known) {
                new.push(Arc::from(value));
            }
        }
        if new.is_empty() {
            return;
        }
        self.values.rcu(|known| {
            let mut all: Vec<Arc<str>> = known.as_ref().clone();
            all.extend(new.iter().filter(|value| !known.contains(value)).cloned());
            // A value that holds another one goes first.
            all.sort_by_key(|value| std::cmp::Reverse(value.len()));
            all
        });
    }

    /// Replaces every known value in a text.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let values = self.values.load();
        let mut out = Cow::Borrowed(text);
        for value in values.iter() {
            if memmem::find(out.as_bytes(), value.as_bytes()).is_some() {
                out = Cow::Owned(out.replace(value.as_ref(), REDACTED));
            }
        }
        out
    }

    /// Replaces every known value in the texts of a document.
    pub fn redact_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(redacted) = self.redact(text) {
                    *text = redacted;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_json(item)),
            Value::Object(map) => map.values_mut().for_each(|item| self.redact_json(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Replaces every known value in the texts of content. Media stay as they are.
    pub fn redact_content(&self, content: &mut [Content]) {
        for part in content {
            if let Content::Text { text } = part
                && let Cow::Owned(redacted) = self.redact(text)
            {
                *text = redacted;
            }
        }
    }

    /// Says whether nothing is to be looked for.
    pub fn is_empty(&self) -> bool {
        self.values.load().is_empty()
    }
}

/// Files that usually hold secrets: patterns of paths with `/` between the names, compared with the end of a path.
pub const SENSITIVE: &[&str] = &[
    ".env",
    ".env.*",
    "*.env",
    ".envrc",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".htpasswd",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".vault-token",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_*_sk",
    ".aws/credentials",
    ".azure/*",
    ".config/gcloud/*",
    ".config/gh/hosts.yml",
    ".docker/config.json",
    ".gem/credentials",
    ".cargo/credentials*",
    ".gnupg/*",
    ".kube/config",
    ".local/share/keyrings/*",
    ".password-store/*",
    ".terraform.d/credentials.tfrc.json",
    "abide/credentials.json",
    "opencode/auth.json",
];

/// Files that look so and hold none.
pub const HARMLESS: &[&str] =
    &[".env.example", ".env.sample", ".env.template", ".env.dist", "*.example.env", "*.pub", "*.pub.pem"];

/// Which files usually hold secrets. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct SecretFiles {
    more: Arc<[String]>,
}

impl SecretFiles {
    /// Adds patterns to the usual ones; one that begins with `!` is of files that hold none.
    pub fn new(more: impl IntoIterator<Item = String>) -> Self {
        Self { more: more.into_iter().collect() }
    }

    /// Says whether a path, with `/` between its names, usually holds secrets. The last own pattern that fits decides,
    /// then the usual ones.
    pub fn has(&self, path: &str) -> bool {
        for pattern in self.more.iter().rev() {
            match pattern.strip_prefix('!') {
                Some(harmless) if tail_matches(path, harmless) => return false,
                None if tail_matches(path, pattern) => return true,
                Some(_) | None => {}
            }
        }
        let is_one_of = |patterns: &[&str]| patterns.iter().any(|pattern| tail_matches(path, pattern));
        !is_one_of(HARMLESS) && is_one_of(SENSITIVE)
    }
}

/// Compares as many last names of a path as a pattern has; a pattern that ends in `/*` is one for everything below a
/// directory.
fn tail_matches(path: &str, pattern: &str) -> bool {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    if let Some(directory) = pattern.strip_suffix("/*") {
        let directory: Vec<&str> = directory.split('/').filter(|name| !name.is_empty()).collect();
        let above = names.get(..names.len().saturating_sub(1)).unwrap_or_default();
        return above.windows(directory.len().max(1)).any(|window| window == directory.as_slice());
    }
    let wanted: Vec<&str> = pattern.split('/').filter(|name| !name.is_empty()).collect();
    let Some(start) = names.len().checked_sub(wanted.len()) else { return false };
    let tail = names.get(start..).unwrap_or_default();
    !wanted.is_empty() && tail.iter().zip(&wanted).all(|(name, pattern)| matches(name, pattern))
}

/// Decides about showing files, of which some usually hold secrets: for these a rule for everything is no allow.
#[derive(Clone, Debug)]
pub struct SensitiveJudge {
    action: &'static str,
    resources: Vec<String>,
    directory: PathBuf,
    files: SecretFiles,
}

impl SensitiveJudge {
    /// Makes the judge of these resources; `None` when none of them is sensitive.
    pub fn of(files: &SecretFiles, action: &'static str, resources: &[String], directory: &Path) -> Option<Self> {
        let is_any = resources.iter().any(|resource| files.has(resource));
        is_any.then(|| Self {
            action,
            resources: resources.to_vec(),
            directory: directory.to_owned(),
            files: files.clone(),
        })
    }

    fn rule<'r>(&self, resource: &str, rules: &'r [Rule]) -> Option<&'r Rule> {
        deciding(self.action, resource, &self.directory, rules)
    }

    /// Returns what is decided about each sensitive file, and by which rule; absent: no rule that counts matches.
    pub fn parts<'r>(
        &'r self,
        configured: &'r [Rule],
        saved: &'r [Rule],
    ) -> impl Iterator<Item = (&'r str, Effect, Option<&'r Rule>)> {
        self.resources.iter().filter(|resource| self.files.has(resource)).map(|resource| {
            let rule = self.deciding(resource, configured, saved);
            (resource.as_str(), rule.map_or(Effect::Ask, |rule| rule.effect), rule)
        })
    }

    fn effect(&self, resource: &str, configured: &[Rule], saved: &[Rule]) -> Effect {
        self.deciding(resource, configured, saved).map_or(Effect::Ask, |rule| rule.effect)
    }

    fn deciding<'r>(&self, resource: &str, configured: &'r [Rule], saved: &'r [Rule]) -> Option<&'r Rule> {
        let is_narrow = |rule: &Rule| rule.resource.chars().any(|letter| letter != '*');
        let counts = |rule: &&Rule| rule.effect != Effect::Allow || !self.files.has(resource) || is_narrow(rule);
        let given = |rules: &'r [Rule]| self.rule(resource, rules).filter(counts);
        match given(configured) {
            Some(rule) if rule.effect == Effect::Deny => Some(rule),
            configured => given(saved).or(configured),
        }
    }
}

impl Judge for SensitiveJudge {
    fn decide(&self, configured: &[Rule], saved: &[Rule]) -> Effect {
        let effects = self.resources.iter().map(|resource| self.effect(resource, configured, saved));
        effects.fold(Effect::Allow, strictest)
    }

    fn denying(&self, configured: &[Rule]) -> Vec<Rule> {
        let rules = self.resources.iter().filter_map(|resource| self.rule(resource, configured));
        let mut denying: Vec<Rule> = rules.filter(|rule| rule.effect == Effect::Deny).cloned().collect();
        denying.dedup();
        denying
    }
}
