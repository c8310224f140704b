//! The places that a line names, resolved: what has to be asked because it lies outside.

use std::path::Path;

use abide_schema::permission::{Effect, Rule};

use super::explain::OutsidePart;
use super::judge::{judge_unknown, strictest};
use super::scan::{Place, Scan, Usage};
use crate::fs::access::{Access, AccessError, EXTERNAL_ACTION, External, Wanted, externals};
use crate::permission::{Judge, deciding};

/// What lies outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outside {
    /// The borders, without repetition.
    pub borders: Vec<External>,
    /// Whether there is a place that only the running line knows.
    pub has_unknown: bool,
}

/// Devices that hold nothing.
const STREAMS: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/random", "/dev/urandom"];

/// Resolves the places of a line that runs in `workdir`; blocks for some system calls.
///
/// # Errors
/// [`AccessError`] when `workdir` cannot be resolved. A place of the line that cannot be resolved is unknown.
pub fn outside(scan: &Scan, access: &Access, workdir: &Path) -> Result<Outside, AccessError> {
    let mut targets = vec![access.resolve_blocking(&workdir.to_string_lossy(), Wanted::Directory)?];
    let mut has_unknown = scan.has_unknown_place;
    let entered = scan.places.iter().find(|place| place.usage == Usage::Enter).map(|place| place.path.as_str());
    for place in scan.places.iter().filter(|place| !is_stream(&place.path)) {
        let wanted = match place.usage {
            Usage::Enter => Wanted::Directory,
            Usage::Write | Usage::Read | Usage::Operand => Wanted::File,
        };
        for path in candidates(place, workdir, entered) {
            match access.resolve_blocking(&path, wanted) {
                Ok(target) => targets.push(target),
                Err(_unresolved) => has_unknown = true,
            }
        }
    }
    Ok(Outside { borders: externals(&targets), has_unknown })
}

fn is_stream(path: &str) -> bool {
    STREAMS.contains(&path) || path.starts_with("/dev/fd/")
}

/// Returns the paths that a place may be: from the start, and from where the line goes.
fn candidates(place: &Place, workdir: &Path, entered: Option<&str>) -> Vec<String> {
    let path = place.path.as_str();
    let is_free = path.starts_with('/') || path == "~" || path.starts_with("~/");
    if is_free {
        return vec![path.to_owned()];
    }
    let at = |base: &Path| base.join(path).to_string_lossy().into_owned();
    let mut paths = vec![at(workdir)];
    match entered {
        Some(entered) if place.usage != Usage::Enter => {
            if entered == "~" || entered.starts_with("~/") {
                paths.push(format!("{entered}/{path}"));
            } else {
                paths.push(at(&workdir.join(entered)));
            }
        }
        Some(_) | None => {}
    }
    paths
}

/// Decides about the places outside: a place that is not known may be any.
#[derive(Clone, Debug)]
pub struct OutsideJudge {
    outside: Outside,
}

impl OutsideJudge {
    /// Makes the judge of these places.
    pub const fn new(outside: Outside) -> Self {
        Self { outside }
    }

    /// Returns what the permission is asked for; empty when nothing lies outside.
    pub fn resources(&self) -> Vec<String> {
        let mut resources: Vec<String> = self.outside.borders.iter().map(|border| border.resource.clone()).collect();
        if self.outside.has_unknown {
            resources.push("*".to_owned());
        }
        resources
    }

    /// Returns what "always" saves.
    pub fn saves(&self) -> Vec<String> {
        if self.outside.has_unknown {
            return Vec::new();
        }
        self.outside.borders.iter().map(|border| border.save.clone()).collect()
    }

    /// Returns what is decided about each place, and by which rule.
    pub(crate) fn parts(&self, configured: &[Rule], saved: &[Rule]) -> Vec<OutsidePart> {
        let known = self.outside.borders.iter().map(|border| {
            let (effect, rule) = Self::effect(&border.resource, configured, saved);
            let why = if rule.is_some() { "the last rule that matches decides" } else { "no rule matches" };
            OutsidePart { resource: border.resource.clone(), effect, rule: rule.cloned(), why: why.to_owned() }
        });
        let unknown = self.outside.has_unknown.then(|| {
            let (effect, rule) = judge_unknown(EXTERNAL_ACTION, configured, saved);
            OutsidePart {
                resource: "*".to_owned(),
                effect,
                rule: rule.and_then(|at| configured.iter().chain(saved).nth(at)).cloned(),
                why: "only the running line knows the place: it may be any".to_owned(),
            }
        });
        known.chain(unknown).collect()
    }

    fn effect<'r>(resource: &str, configured: &'r [Rule], saved: &'r [Rule]) -> (Effect, Option<&'r Rule>) {
        let root = Path::new("/");
        let decided = |rules: &'r [Rule]| deciding(EXTERNAL_ACTION, resource, root, rules);
        let by_configured = decided(configured);
        let rule = match by_configured {
            Some(rule) if rule.effect == Effect::Deny => Some(rule),
            Some(_) | None => decided(saved).or(by_configured),
        };
        (rule.map_or(Effect::Ask, |rule| rule.effect), rule)
    }
}

impl Judge for OutsideJudge {
    fn decide(&self, configured: &[Rule], saved: &[Rule]) -> Effect {
        let known = self.outside.borders.iter().map(|border| Self::effect(&border.resource, configured, saved).0);
        let unknown = self.outside.has_unknown.then(|| judge_unknown(EXTERNAL_ACTION, configured, saved).0);
        known.chain(unknown).fold(Effect::Allow, strictest)
    }

    fn denying(&self, configured: &[Rule]) -> Vec<Rule> {
        let denies = |rule: &&Rule| {
            rule.effect == Effect::Deny
                && crate::permission::matches(EXTERNAL_ACTION, &rule.action)
                && self.resources().iter().any(|resource| crate::permission::matches(resource, &rule.resource))
        };
        configured.iter().filter(denies).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use abide_schema::ProjectId;
    use abide_schema::location::{LocationInfo, ProjectRef};
    use serde_json::Value;

    use super::*;
    use crate::shell::scan::{Dialect, scan};

    #[test]
    fn cases() {
        let case: Value = serde_json::from_str(include_str!("fixtures/permission/C132.json")).unwrap();
        let temporary = tempfile::tempdir().unwrap();
        // The tree of the case, somewhere else: its own places move, those of the machine stay.
        let top = temporary.path().canonicalize().unwrap();
        let moved = |path: &str| match path {
            path if path.starts_with("/w/") || path.starts_with("/home/u/") => format!("{}{path}", top.display()),
            other => other.to_owned(),
        };
        let (root, cwd, home) = (top.join("w/p"), top.join("w/p/sub"), top.join("home/u"));
        std::fs::create_dir_all(&cwd).unwrap();
        std::fs::create_dir_all(home.join("notes")).unwrap();
        let location = LocationInfo {
            directory: cwd.display().to_string(),
            workspace_id: None,
            project: ProjectRef { id: ProjectId::new("p"), directory: root.display().to_string() },
        };
        let access = Access::open(&location, Some(home)).unwrap();
        for row in case["rows"].as_array().unwrap() {
            let line = row["command"].as_str().unwrap();
            let found = outside(&scan(line, Dialect::Bash), &access, &cwd).unwrap();
            let borders: Vec<String> = found.borders.iter().map(|border| border.resource.clone()).collect();
            match row["outside"].as_array() {
                Some(expected) => {
                    let expected: Vec<String> = expected.iter().map(|path| moved(path.as_str().unwrap())).collect();
                    assert_eq!((borders, found.has_unknown), (expected, false), "{line}");
                }
                None => assert!(found.has_unknown, "{line}"),
            }
        }
    }

    #[test]
    fn a_place_that_is_not_known_may_be_a_denied_one() {
        let judge = OutsideJudge::new(Outside { borders: Vec::new(), has_unknown: true });
        let rule = |resource: &str, effect| Rule::new(EXTERNAL_ACTION, resource, effect);
        let decided = |rules: &[Rule]| judge.decide(rules, &[rule("/opt/*", Effect::Allow)]);
        assert_eq!(judge.resources(), ["*"]);
        assert_eq!(decided(&[rule("*", Effect::Allow)]), Effect::Allow);
        assert_eq!(decided(&[rule("*", Effect::Ask), rule("/tmp/*", Effect::Allow)]), Effect::Ask);
        assert_eq!(decided(&[rule("*", Effect::Allow), rule("/etc/*", Effect::Deny)]), Effect::Ask);
        assert_eq!(decided(&[rule("*", Effect::Deny)]), Effect::Deny);
    }
}
