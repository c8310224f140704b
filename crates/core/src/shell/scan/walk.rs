//! Goes through a syntax tree and collects commands, places and variables.

use std::collections::BTreeSet;
use std::ops::Range;

use tree_sitter::{Node, Tree};

use super::analyse::{Call, Finder};
use super::check::check;
use super::programs::is_loaded_variable;
use super::word::{HOLE, Reader, Word};
use super::{Dialect, MAX_COMMANDS, MAX_NESTING, Scan, Usage};

/// Collects everything from `tree` into `scan`.
pub(super) fn walk(scan: &mut Scan, source: &str, tree: &Tree, dialect: Dialect, nesting: usize) {
    let checked = check(source, tree.root_node(), dialect);
    let reader = Reader { source, dialect };
    let mut finder = Finder { scan, source, nesting, offers_saves: true };
    if let Err(reason) = checked {
        finder.opaque(reason);
    }
    let mut walker = Walker { reader, finder, assigned: BTreeSet::new(), computed: BTreeSet::new() };
    let mut stack = vec![(tree.root_node(), nesting)];
    while let Some((node, depth)) = stack.pop() {
        if depth > MAX_NESTING || walker.finder.scan.commands.len() > MAX_COMMANDS {
            walker.finder.opaque("it has too many commands, or they stand too deep inside each other");
            break;
        }
        walker.visit(node);
        let depth = depth + usize::from(is_nesting(node.kind()));
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        stack.extend(children.into_iter().rev().map(|child| (child, depth)));
    }
    if let Some(name) = walker.assigned.intersection(&walker.computed).next() {
        let reason = format!("the value of {name} is computed with, which may run commands in it");
        walker.finder.opaque(reason);
    }
    if !walker.finder.offers_saves {
        for command in &mut walker.finder.scan.commands {
            command.save = None;
        }
    }
}

fn is_nesting(kind: &str) -> bool {
    matches!(kind, "command_substitution" | "process_substitution" | "subshell" | "compound_statement" | "do_group")
}

struct Walker<'f, 's> {
    reader: Reader<'s>,
    finder: Finder<'f, 's>,
    /// Variables that the line sets to text.
    assigned: BTreeSet<String>,
    /// Variables that the line computes with.
    computed: BTreeSet<String>,
}

impl Walker<'_, '_> {
    fn visit(&mut self, node: Node<'_>) {
        match node.kind() {
            "command" => self.command(node),
            "redirected_statement" => self.redirected(node),
            "file_redirect" => self.redirect(node),
            "declaration_command" | "unset_command" => self.declaration(node),
            "variable_assignment" => self.assignment(node),
            "function_definition" => {
                self.finder.opaque("it defines a function");
                self.finder.offers_saves = false;
            }
            "for_statement" => {
                self.finder.offers_saves = false;
                if let Some(variable) = node.child_by_field_name("variable") {
                    let name = self.reader.text(variable).to_owned();
                    self.set(&name, true);
                }
            }
            "c_style_for_statement" => {
                self.finder.offers_saves = false;
                self.compute(node);
            }
            "if_statement" | "while_statement" | "case_statement" | "heredoc_redirect" => {
                self.finder.offers_saves = false;
            }
            "test_command" => {
                self.finder.offers_saves = false;
                self.test(node);
            }
            "arithmetic_expansion" | "subscript" => self.compute(node),
            "compound_statement" if self.reader.text(node).starts_with("((") => self.compute(node),
            "expansion" => self.expansion(node),
            "command_substitution" if self.reader.text(node).trim_start().starts_with('`') => {}
            "subshell" if node.parent().is_some_and(|parent| parent.kind() == "command") => {
                self.finder.opaque("a command has brackets among its words");
            }
            _ => {}
        }
    }

    fn command(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let mut parts: Vec<Node<'_>> = Vec::new();
        let mut start = None;
        for child in node.children(&mut cursor) {
            match child.kind() {
                // Checked on its own; setting a variable does not change which command runs.
                "variable_assignment" => continue,
                "file_redirect" => parts.extend(destinations(child).into_iter().skip(1)),
                "herestring_redirect" | "subshell" => {}
                "command_name" => {
                    let mut inner = child.walk();
                    parts.extend(child.children(&mut inner));
                }
                _ => parts.push(child),
            }
            start.get_or_insert(child.start_byte());
        }
        let mut range = start.unwrap_or(node.start_byte())..node.end_byte();
        let outer = redirected_around(node);
        if let Some(outer) = outer {
            range.end = outer.end_byte();
            let mut cursor = outer.walk();
            for redirect in outer.children(&mut cursor) {
                match redirect.kind() {
                    "file_redirect" => parts.extend(destinations(redirect).into_iter().skip(1)),
                    "heredoc_redirect" => {
                        let mut inner = redirect.walk();
                        parts.extend(redirect.children_by_field_name("argument", &mut inner));
                        let mut inner = redirect.walk();
                        for part in redirect.children(&mut inner).filter(|part| part.kind() == "file_redirect") {
                            parts.extend(destinations(part).into_iter().skip(1));
                        }
                    }
                    _ => {}
                }
            }
        }
        parts.sort_by_key(Node::start_byte);
        let words = self.words(&parts);
        let text = self.reader.source.get(range.clone()).unwrap_or_default().trim().to_owned();
        let form = self.form(outer.unwrap_or(node), range).trim().to_owned();
        let is_prefix_loaded = self.loaded_prefix(node);
        if let Some(name) = is_prefix_loaded {
            self.finder.opaque(format!("the variable {name} changes what runs"));
        }
        self.remember_sets(&words);
        self.finder.call(Call { words: &words, text, form, is_inner: false, depth: 0 });
    }

    /// Groups nodes that adjoin into words.
    fn words(&self, parts: &[Node<'_>]) -> Vec<Word> {
        let mut words = Vec::new();
        let mut group: Vec<Node<'_>> = Vec::new();
        for part in parts {
            if group.last().is_some_and(|last| last.end_byte() != part.start_byte()) {
                words.push(self.reader.word(&group));
                group.clear();
            }
            group.push(*part);
        }
        if !group.is_empty() {
            words.push(self.reader.word(&group));
        }
        words
    }

    fn loaded_prefix(&self, command: Node<'_>) -> Option<String> {
        let mut cursor = command.walk();
        command
            .children(&mut cursor)
            .filter(|child| child.kind() == "variable_assignment")
            .filter_map(|child| Some(base_variable(self.reader.text(child.child_by_field_name("name")?)).to_owned()))
            .find(|name| is_loaded_variable(name))
    }

    /// Notes the variables that builtins set.
    fn remember_sets(&mut self, words: &[Word]) {
        let Some(name) = words.first().and_then(Word::base_name) else { return };
        let sets = match name {
            "read" | "getopts" | "mapfile" | "readarray" => true,
            "printf" => words.get(1).is_some_and(|word| word.form.starts_with("-v")),
            _ => false,
        };
        if !sets {
            return;
        }
        for word in words.iter().skip(1) {
            match word.literal() {
                Some(text) => self.set(text.strip_prefix("-v").unwrap_or(text), true),
                None => self.finder.opaque("a variable is set whose name is not known"),
            }
        }
    }

    /// A statement with redirections: its write counts as a command when no command carries it.
    fn redirected(&mut self, node: Node<'_>) {
        let body = node.child_by_field_name("body").map(rightmost);
        let carried = body.is_some_and(|body| {
            !matches!(body.kind(), "declaration_command" | "unset_command" | "variable_assignment")
                && body.kind() != "variable_assignments"
                && body.kind() != "test_command"
        });
        if !carried {
            let text = self.reader.text(node).trim().to_owned();
            let form = self.form(node, node.byte_range()).trim().to_owned();
            self.finder.bare(text, form);
        }
    }

    fn redirect(&mut self, node: Node<'_>) {
        let Some(first) = destinations(node).first().copied() else { return };
        if first.kind() == "process_substitution" {
            return;
        }
        let mut cursor = node.walk();
        let operator = node
            .children(&mut cursor)
            .find(|child| !child.is_named())
            .map(|child| self.reader.text(child))
            .unwrap_or_default();
        let word = self.reader.word(&[first]);
        let duplicates = operator.contains('&') && !operator.starts_with('&');
        if duplicates && word.literal().is_some_and(|text| text.chars().all(|c| c.is_ascii_digit() || c == '-')) {
            return;
        }
        let usage = if operator.contains('>') { Usage::Write } else { Usage::Read };
        self.finder.place(&word, usage);
    }

    fn declaration(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let mut names = Vec::new();
        for child in node.children(&mut cursor) {
            match child.kind() {
                "variable_assignment" => {
                    if let Some(name) = child.child_by_field_name("name") {
                        names.push(base_variable(self.reader.text(name)).to_owned());
                    }
                }
                "variable_name" => names.push(self.reader.text(child).to_owned()),
                _ if !child.is_named() => {}
                _ => {
                    let word = self.reader.word(&[child]);
                    match word.literal() {
                        Some(option) if option.starts_with(['-', '+']) => {
                            if option.contains(['i', 'n', 'T', 'u', 'l']) && node.kind() == "declaration_command" {
                                self.finder.opaque("a variable gets an attribute that computes its value");
                            }
                        }
                        Some(name) if !name.contains(['[', '$', '`', '=']) => names.push(name.to_owned()),
                        Some(_) | None => self.finder.opaque("a variable is set whose name is not known"),
                    }
                }
            }
        }
        if let Some(name) = names.iter().find(|name| is_loaded_variable(name)) {
            self.finder.opaque(format!("the variable {name} changes what runs"));
        }
    }

    fn assignment(&mut self, node: Node<'_>) {
        let Some(name) = node.child_by_field_name("name") else { return };
        let name = base_variable(self.reader.text(name)).to_owned();
        let computes = node.child_by_field_name("value").is_none_or(|value| {
            matches!(value.kind(), "number" | "arithmetic_expansion")
                || !self.reader.text(value).contains(['[', '$', '`'])
        });
        self.set(&name, !computes);
    }

    /// A variable is set; `to_text` when the value may be anything.
    fn set(&mut self, name: &str, to_text: bool) {
        let name = base_variable(name);
        if is_loaded_variable(name) {
            self.finder.opaque(format!("the variable {name} changes what runs"));
        }
        if to_text {
            self.assigned.insert(name.to_owned());
        }
    }

    /// Notes the variables in an arithmetic context: the shell runs substitutions that stand in their values.
    fn compute(&mut self, node: Node<'_>) {
        let mut stack = vec![node];
        while let Some(part) = stack.pop() {
            if matches!(part.kind(), "variable_name" | "word") && part.child_count() == 0 {
                self.computed.insert(self.reader.text(part).to_owned());
            }
            if part != node && matches!(part.kind(), "command_substitution" | "do_group") {
                continue;
            }
            let mut cursor = part.walk();
            stack.extend(part.children(&mut cursor));
        }
    }

    fn expansion(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let is_slice = node.children(&mut cursor).any(|child| child.kind() == ":");
        if is_slice {
            self.compute(node);
        }
    }

    fn test(&mut self, node: Node<'_>) {
        let mut stack = vec![node];
        while let Some(part) = stack.pop() {
            if part.kind() == "test_operator" {
                match self.reader.text(part) {
                    "-v" | "-R" => self.finder.opaque("a test looks at a variable by name"),
                    "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" if self.reader.text(node).starts_with("[[") => {
                        self.compute(node);
                    }
                    _ => {}
                }
            }
            let mut cursor = part.walk();
            stack.extend(part.children(&mut cursor));
        }
    }

    /// Returns the source text of a range with [`HOLE`] for what only the running line knows.
    fn form(&self, node: Node<'_>, range: Range<usize>) -> String {
        let mut holes: Vec<Range<usize>> = Vec::new();
        let mut stack = vec![node];
        while let Some(part) = stack.pop() {
            match part.kind() {
                "simple_expansion"
                | "expansion"
                | "command_substitution"
                | "process_substitution"
                | "arithmetic_expansion"
                | "brace_expression"
                | "extglob_pattern"
                | "regex" => {
                    let text = self.reader.text(part);
                    let blanks = text.len() - text.trim_start().len();
                    holes.push(part.start_byte() + blanks..part.end_byte());
                }
                "word" => self.glob_holes(part, &mut holes),
                "concatenation" if self.reader.word(&[part]).is_hole() => holes.push(part.byte_range()),
                _ => {
                    let mut cursor = part.walk();
                    stack.extend(part.children(&mut cursor));
                }
            }
        }
        holes.sort_by_key(|hole| hole.start);
        let mut form = String::new();
        let mut at = range.start;
        for hole in holes.iter().filter(|hole| hole.start >= range.start && hole.end <= range.end) {
            if hole.start < at {
                continue;
            }
            form.push_str(self.reader.source.get(at..hole.start).unwrap_or_default());
            form.push(HOLE);
            at = hole.end;
        }
        form.push_str(self.reader.source.get(at..range.end).unwrap_or_default());
        form
    }

    fn glob_holes(&self, word: Node<'_>, holes: &mut Vec<Range<usize>>) {
        let text = self.reader.text(word);
        if text == "[" || text == "]" {
            return;
        }
        let mut escaped = false;
        for (offset, letter) in text.char_indices() {
            if !escaped && matches!(letter, '*' | '?' | '[') {
                let at = word.start_byte() + offset;
                holes.push(at..at + 1);
            }
            escaped = letter == '\\' && !escaped;
        }
    }
}

/// Returns the destinations of a redirection; the shell takes the first, the others are words of the command.
fn destinations<'t>(redirect: Node<'t>) -> Vec<Node<'t>> {
    let mut cursor = redirect.walk();
    redirect.children_by_field_name("destination", &mut cursor).collect()
}

/// Finds the redirections of a command: around it, or around a list or pipeline that it ends, to whose last command they
/// belong for the shell.
fn redirected_around(command: Node<'_>) -> Option<Node<'_>> {
    let mut node = command;
    loop {
        let parent = node.parent()?;
        match parent.kind() {
            "redirected_statement" if parent.child_by_field_name("body") == Some(node) => return Some(parent),
            kind if joins(kind) && rightmost(parent) == command => node = parent,
            _ => return None,
        }
    }
}

fn joins(kind: &str) -> bool {
    matches!(kind, "list" | "pipeline" | "negated_command")
}

/// Returns the last command of a list or pipeline.
fn rightmost(mut node: Node<'_>) -> Node<'_> {
    while joins(node.kind()) {
        let last = u32::try_from(node.named_child_count()).ok().and_then(|count| count.checked_sub(1));
        let Some(child) = last.and_then(|last| node.named_child(last)) else { break };
        node = child;
    }
    node
}

/// Returns the name of `NAME[index]`.
fn base_variable(name: &str) -> &str {
    name.split('[').next().unwrap_or(name).trim_end_matches('+')
}
