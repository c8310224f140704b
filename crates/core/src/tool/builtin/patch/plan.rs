//! What a patch makes of the files as they are: all operations in memory, each seeing what the ones before it made.
//! Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::super::files::{Current, FileNow, diff_contents};
use super::parse::Operation;
use super::update;
use crate::fs::access::Target;
use crate::fs::diff::FileDiff;
use crate::fs::journal::Change;
use crate::fs::text::Text;

/// The targets of one operation.
pub(super) struct Resolved {
    pub(super) operation: Operation,
    pub(super) target: Target,
    /// The new place of a file that moves.
    pub(super) to: Option<Target>,
}

impl Resolved {
    pub(super) fn targets(&self) -> impl Iterator<Item = &Target> {
        std::iter::once(&self.target).chain(&self.to)
    }

    /// Writes the operation as a line for the model.
    pub(super) fn line(&self) -> String {
        let resource = &self.target.resource;
        match (&self.operation, &self.to) {
            (Operation::Add { .. }, _) => format!("A {resource}"),
            (Operation::Delete { .. }, _) => format!("D {resource}"),
            (Operation::Update { .. }, None) => format!("M {resource}"),
            (Operation::Update { .. }, Some(to)) => format!("R {resource} -> {}", to.resource),
        }
    }
}

/// What becomes of the files.
#[derive(Debug)]
pub(super) struct Planned {
    /// For the journal, in the order in which the patch names the files.
    pub(super) changes: Vec<Change>,
    /// For people.
    pub(super) files: Vec<FileDiff>,
}

/// One file, before and after.
struct Slot<'a> {
    target: &'a Target,
    was: Option<&'a FileNow>,
    now: Option<Held>,
}

/// A file in memory.
struct Held {
    content: Vec<u8>,
    mode: Option<u32>,
    /// The slot whose file it was before it moved.
    origin: Option<usize>,
}

/// Carries out all operations in memory. `found` holds what stands at each target, by its real path.
///
/// The error is a reason for the model.
pub(super) fn plan(operations: &[Resolved], found: &BTreeMap<PathBuf, Current>) -> Result<Planned, String> {
    let mut tree = Tree { slots: Vec::new(), found };
    for operation in operations {
        tree.carry_out(operation)?;
    }
    tree.check_parents()?;
    let planned = tree.planned();
    if planned.changes.is_empty() {
        return Err("it changes nothing: every file has its content there already".to_owned());
    }
    Ok(planned)
}

struct Tree<'a> {
    slots: Vec<Slot<'a>>,
    found: &'a BTreeMap<PathBuf, Current>,
}

impl<'a> Tree<'a> {
    fn carry_out(&mut self, operation: &'a Resolved) -> Result<(), String> {
        let name = &operation.target.requested;
        let at = self.slot(&operation.target);
        match &operation.operation {
            Operation::Add { content, .. } => {
                let held = Held { content: content.clone().into_bytes(), mode: None, origin: None };
                self.put(at, held)
            }
            Operation::Delete { .. } => self.take(at, name).map(drop),
            Operation::Update { chunks, .. } => {
                let mut held = self.take(at, name)?;
                let text = Text::decode(&held.content)
                    .map_err(|error| format!("{name} is no text that can be patched: {error}"));
                // A file that moves as it is may hold anything.
                let is_plain_move = operation.to.is_some() && chunks.iter().all(|chunk| chunk.lines.is_empty());
                if !(is_plain_move && text.is_err()) {
                    let text = text?;
                    let new = update::apply(&text.text, chunks).map_err(|no| no.message(name))?;
                    held.content = text.encode(&new);
                }
                match &operation.to {
                    None => self.put(at, held),
                    Some(to) => {
                        held.origin.get_or_insert(at);
                        let to = self.slot(to);
                        self.put(to, held)
                    }
                }
            }
        }
    }

    /// Finds the slot of a target, or makes it.
    fn slot(&mut self, target: &'a Target) -> usize {
        if let Some(known) = self.slots.iter().position(|slot| slot.target.real == target.real) {
            return known;
        }
        let was = match self.found.get(&target.real) {
            Some(Current::File(file)) => Some(file),
            Some(Current::Missing) | None => None,
        };
        let now = was.map(|file| Held { content: file.content.clone(), mode: Some(file.facts.mode), origin: None });
        self.slots.push(Slot { target, was, now });
        self.slots.len() - 1
    }

    fn take(&mut self, at: usize, name: &str) -> Result<Held, String> {
        let held = self.slots.get_mut(at).and_then(|slot| slot.now.take());
        held.ok_or_else(|| format!("No such file: {name}"))
    }

    fn put(&mut self, at: usize, held: Held) -> Result<(), String> {
        match self.slots.get_mut(at) {
            Some(slot) if slot.now.is_none() => {
                // Back where it was, it did not move.
                let origin = held.origin.filter(|origin| *origin != at);
                slot.now = Some(Held { origin, ..held });
                Ok(())
            }
            Some(slot) => Err(format!("{} exists already", slot.target.requested)),
            None => Ok(()),
        }
    }

    /// A file cannot be the directory of another one.
    fn check_parents(&self) -> Result<(), String> {
        let files = || self.slots.iter().filter(|slot| slot.now.is_some()).map(|slot| slot.target);
        for file in files() {
            if let Some(parent) = files().find(|other| file.real != other.real && file.real.starts_with(&other.real)) {
                return Err(format!("{} would lie below the file {}", file.requested, parent.requested));
            }
        }
        Ok(())
    }

    fn planned(self) -> Planned {
        // Files that only change their name, by the slot from which they come.
        let renamed: BTreeMap<usize, usize> = self
            .slots
            .iter()
            .enumerate()
            .filter_map(|(to, slot)| {
                let held = slot.now.as_ref().filter(|_| slot.was.is_none())?;
                let source = self.slots.get(held.origin?)?;
                let same = source.now.is_none() && source.was.is_some_and(|was| was.content == held.content);
                same.then_some((held.origin?, to))
            })
            .collect();
        let moved: Vec<usize> = self.slots.iter().filter_map(|slot| slot.now.as_ref()?.origin).collect();
        let mut changes = Vec::new();
        let mut files = Vec::new();
        for (at, slot) in self.slots.iter().enumerate() {
            let origin = slot.now.as_ref().and_then(|held| self.slots.get(held.origin?)?.was);
            let before = slot.was.or(origin).map(|file| file.content.as_slice());
            let after = slot.now.as_ref().map(|held| held.content.as_slice());
            // The old name of a file that moved is told with the new one.
            let is_left = slot.now.is_none() && moved.contains(&at);
            if !is_left && (before != after || origin.is_some()) {
                files.push(diff_contents(&slot.target.resource, before, after));
            }
            let path = slot.target.real.clone();
            match (slot.was, &slot.now) {
                (None, None) => {}
                (Some(was), None) => match renamed.get(&at).and_then(|to| self.slots.get(*to)) {
                    Some(to) => {
                        let to = to.target.real.clone();
                        changes.push(Change::Move { path, to, expected: Some(was.hash.clone()) });
                    }
                    None => changes.push(Change::Delete { path, expected: Some(was.hash.clone()) }),
                },
                (Some(was), Some(held)) if was.content == held.content => {}
                (Some(was), Some(held)) => {
                    let content = held.content.clone();
                    changes.push(Change::Write { path, expected: Some(was.hash.clone()), content });
                }
                (None, Some(_)) if renamed.values().any(|to| *to == at) => {}
                (None, Some(held)) => {
                    changes.push(Change::Create { path, content: held.content.clone(), mode: held.mode });
                }
            }
        }
        Planned { changes, files }
    }
}
