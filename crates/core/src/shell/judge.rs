//! What rules say about a scanned line. Pure.
//!
//! Plain commands are compared with the patterns of rules like any resource. Two things are added. Text that only the
//! running line knows is *any* text: an allow must cover all of it, and a narrow deny or ask counts when it may match.
//! And an opaque line is covered by catch-all rules only.

#[cfg(test)]
mod tests;

use abide_schema::permission::{Effect, Rule};

use super::scan::word::HOLE;
use super::scan::{Command, Scan};
use crate::permission::Judge;

/// The action of commands.
pub const ACTION: &str = "shell";

/// What is decided about one command or about an opaque line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The effect.
    pub effect: Effect,
    /// The rule that decides, by its place among the configured rules and then the saved ones; absent: no rule matches.
    pub rule: Option<usize>,
    /// Why, when it is not simply the last rule that matches the text.
    pub why: Option<String>,
}

/// What is decided about a whole line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The strictest effect of all.
    pub effect: Effect,
    /// About the line as a whole, when it is opaque.
    pub line: Option<Verdict>,
    /// About each command.
    pub commands: Vec<Verdict>,
}

/// Decides about a line: the strictest of what holds for its parts. Saved rules come after configured ones and lift an
/// ask that a configured rule wants for certain, never a deny, and never a doubt.
pub fn judge(scan: &Scan, configured: &[Rule], saved: &[Rule]) -> Judgement {
    let rules = Rules { configured, saved };
    let line = scan.opaque.as_deref().map(|reason| rules.opaque(&scan.line, reason));
    let commands: Vec<Verdict> = scan.commands.iter().map(|command| rules.command(command)).collect();
    let effect = line.iter().chain(&commands).map(|verdict| verdict.effect).fold(Effect::Allow, strictest);
    Judgement { effect, line, commands }
}

/// Decides about a place that only the running line knows: any resource. Also returns the rule that decides, by its
/// place among the configured rules and then the saved ones.
pub fn judge_unknown(action: &str, configured: &[Rule], saved: &[Rule]) -> (Effect, Option<usize>) {
    let rules = Rules { configured, saved };
    let form = HOLE.to_string();
    let verdict = rules.form(action, &form, &form);
    (verdict.effect, verdict.rule)
}

/// Returns the stricter effect.
pub fn strictest(left: Effect, right: Effect) -> Effect {
    match (left, right) {
        (Effect::Deny, _) | (_, Effect::Deny) => Effect::Deny,
        (Effect::Ask, _) | (_, Effect::Ask) => Effect::Ask,
        (Effect::Allow, Effect::Allow) => Effect::Allow,
    }
}

/// Decides about the commands of a line, for the permission service.
#[derive(Clone, Debug)]
pub struct LineJudge {
    scan: Scan,
}

impl LineJudge {
    /// Makes the judge of a line.
    pub const fn new(scan: Scan) -> Self {
        Self { scan }
    }
}

impl Judge for LineJudge {
    fn decide(&self, configured: &[Rule], saved: &[Rule]) -> Effect {
        judge(&self.scan, configured, saved).effect
    }

    fn denying(&self, configured: &[Rule]) -> Vec<Rule> {
        let judged = judge(&self.scan, configured, &[]);
        let denies = judged.line.iter().chain(&judged.commands).filter(|verdict| verdict.effect == Effect::Deny);
        let mut rules: Vec<Rule> = Vec::new();
        for rule in denies.filter_map(|verdict| configured.get(verdict.rule?)) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
        rules
    }
}

#[derive(Clone, Copy)]
struct Rules<'r> {
    configured: &'r [Rule],
    saved: &'r [Rule],
}

impl<'r> Rules<'r> {
    /// Rules for an action, the last first, with their places.
    fn last_first(self, action: &'r str) -> impl Iterator<Item = (usize, &'r Rule)> {
        let n_configured = self.configured.len();
        let saved = self.saved.iter().enumerate().rev().map(move |(index, rule)| (n_configured + index, rule));
        let configured = self.configured.iter().enumerate().rev();
        saved.chain(configured).filter(move |(_, rule)| covers(&rule.action, action))
    }

    fn is_saved(self, index: usize) -> bool {
        index >= self.configured.len()
    }

    /// A configured deny is final: saved rules are not looked at.
    fn configured_only(self) -> Self {
        Self { saved: &[], ..self }
    }

    fn opaque(self, line: &str, reason: &str) -> Verdict {
        let why = |text: &str| Some(format!("{reason}; {text}"));
        let verdict = |effect, rule: Option<usize>, text: &str| Verdict { effect, rule, why: why(text) };
        let denied = self.configured_only().last_first(ACTION).find(|(_, rule)| {
            is_catch_all(&rule.resource) || covers(&rule.resource, line) && rule.effect != Effect::Allow
        });
        if let Some((index, rule)) = denied
            && rule.effect == Effect::Deny
        {
            return verdict(Effect::Deny, Some(index), "a rule denies the line as it is written");
        }
        let narrow_deny = self
            .configured_only()
            .last_first(ACTION)
            .find(|(_, rule)| rule.effect == Effect::Deny && !is_catch_all(&rule.resource));
        if let Some((index, _)) = narrow_deny {
            return verdict(Effect::Ask, Some(index), "a command that a rule denies may hide in it");
        }
        for (index, rule) in self.last_first(ACTION) {
            if is_catch_all(&rule.resource) {
                return verdict(rule.effect, Some(index), "only rules for all commands cover it");
            }
            match rule.effect {
                Effect::Allow => {}
                Effect::Ask | Effect::Deny => {
                    return verdict(Effect::Ask, Some(index), "a command that a rule asks about may hide in it");
                }
            }
        }
        verdict(Effect::Ask, None, "no rule covers it")
    }

    fn command(self, command: &Command) -> Verdict {
        let mut verdict = self.form(ACTION, &command.form, &command.form);
        for spelling in &command.spellings {
            if let Some((effect, index, is_certain)) = self.narrow(&spelling.form) {
                let is_certain = is_certain && spelling.is_sure;
                let effect = if is_certain { effect } else { Effect::Ask };
                let is_lifted = |form: &str| self.saved.iter().any(|rule| covers(&rule.resource, form));
                if is_certain && effect == Effect::Ask && (is_lifted(&command.form) || is_lifted(&spelling.form)) {
                    continue;
                }
                if strictest(verdict.effect, effect) != verdict.effect {
                    let shown = shown(&spelling.form);
                    let word = if is_certain { "is" } else { "may be" };
                    verdict = Verdict { effect, rule: Some(index), why: Some(format!("it {word} {shown:?}")) };
                }
            }
        }
        verdict
    }

    /// Decides about one form; `cover` is what an allow must cover, `may` what a deny or ask may match.
    fn form(self, action: &'r str, cover: &str, may: &str) -> Verdict {
        let configured = self.configured_only().walk(action, cover, may);
        if self.saved.is_empty() || configured.effect != Effect::Ask || configured.is_doubt {
            return configured.verdict();
        }
        self.walk(action, cover, may).verdict()
    }

    fn walk(self, action: &'r str, cover: &str, may: &str) -> Walked {
        let mut doubt: Option<usize> = None;
        for (index, rule) in self.last_first(action) {
            if covers(&rule.resource, cover) {
                let effect = rule.effect;
                return match doubt {
                    Some(doubt) if effect == Effect::Allow => {
                        Walked { effect: Effect::Ask, rule: Some(doubt), is_doubt: true }
                    }
                    _ => Walked { effect, rule: Some(index), is_doubt: false },
                };
            }
            if rule.effect != Effect::Allow
                && doubt.is_none()
                && !self.is_saved(index)
                && may_match(&rule.resource, may)
            {
                doubt = Some(index);
            }
        }
        Walked { effect: Effect::Ask, rule: doubt, is_doubt: doubt.is_some() }
    }

    /// Finds what a narrow configured rule says about another spelling of a command: the effect, the rule, and whether
    /// it is certain. `None`: nothing against it.
    fn narrow(self, form: &str) -> Option<(Effect, usize, bool)> {
        let mut doubt = None;
        for (index, rule) in self.configured_only().last_first(ACTION) {
            if is_catch_all(&rule.resource) {
                break;
            }
            if covers(&rule.resource, form) {
                match rule.effect {
                    Effect::Allow => break,
                    Effect::Ask | Effect::Deny => return Some((rule.effect, index, true)),
                }
            }
            if rule.effect != Effect::Allow && doubt.is_none() && may_match(&rule.resource, form) {
                doubt = Some((rule.effect, index, false));
            }
        }
        doubt
    }
}

struct Walked {
    effect: Effect,
    rule: Option<usize>,
    /// A narrow rule may match, so that nothing else is certain.
    is_doubt: bool,
}

impl Walked {
    fn verdict(self) -> Verdict {
        let why = self.is_doubt.then(|| "what the running line puts in may match this rule".to_owned());
        Verdict { effect: self.effect, rule: self.rule, why }
    }
}

/// Returns a form for people.
pub(crate) fn shown(form: &str) -> String {
    form.replace(HOLE, "…")
}

fn is_catch_all(pattern: &str) -> bool {
    !pattern.is_empty() && pattern.chars().all(|letter| letter == '*')
}

/// Says whether a pattern matches every text that a form stands for. Blanks as in [`crate::permission`]: a pattern
/// that ends in blank-star matches without that tail too.
fn covers(pattern: &str, form: &str) -> bool {
    let form: Vec<char> = form.chars().map(slash).collect();
    let covers = |pattern: &str| glob(&pattern.chars().map(slash).collect::<Vec<_>>(), &form);
    covers(pattern) || pattern.strip_suffix(" *").is_some_and(covers)
}

/// Says whether a pattern matches some text that a form stands for.
fn may_match(pattern: &str, form: &str) -> bool {
    let form: Vec<char> = form.chars().map(slash).collect();
    let meets = |pattern: &str| meets(&pattern.chars().map(slash).collect::<Vec<_>>(), &form);
    meets(pattern) || pattern.strip_suffix(" *").is_some_and(meets)
}

fn slash(letter: char) -> char {
    if letter == '\\' { '/' } else { letter }
}

/// Matches with `*` and `?`; [`HOLE`] is matched by `*` only.
fn glob(pattern: &[char], text: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        let letter = text.get(t).copied();
        match pattern.get(p).copied() {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some('?') if letter != Some(HOLE) => {
                p += 1;
                t += 1;
            }
            wanted if wanted.is_some() && wanted == letter && wanted != Some(HOLE) => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).unwrap_or_default().iter().all(|letter| *letter == '*')
}

/// Says whether a pattern and a form have a text in common: `*` and [`HOLE`] are any text, `?` any letter.
fn meets(pattern: &[char], form: &[char]) -> bool {
    let n_columns = form.len() + 1;
    // row[t]: the pattern so far and form[..t] have a text in common.
    let mut row = vec![false; n_columns];
    let any = |letter: Option<&char>| letter == Some(&HOLE);
    let mut is_open = true;
    for (t, cell) in row.iter_mut().enumerate() {
        if t > 0 {
            is_open = is_open && any(form.get(t - 1));
        }
        *cell = is_open;
    }
    for letter in pattern {
        let mut next = vec![false; n_columns];
        for t in 0..n_columns {
            let before = t.checked_sub(1);
            let left = before.and_then(|at| next.get(at)).copied().unwrap_or(false);
            let up = row.get(t).copied().unwrap_or(false);
            let diagonal = before.and_then(|at| row.get(at)).copied().unwrap_or(false);
            let formed = before.and_then(|at| form.get(at));
            let value = if *letter == '*' {
                up || left
            } else if any(formed) {
                // The hole is empty, or gives this letter and goes on.
                left || up || diagonal
            } else {
                diagonal && (*letter == '?' || formed == Some(letter))
            };
            if let Some(cell) = next.get_mut(t) {
                *cell = value;
            }
        }
        row = next;
    }
    row.last().copied().unwrap_or(false)
}
