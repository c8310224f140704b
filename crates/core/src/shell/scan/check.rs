//! Checks of a syntax tree against the text: where the parser may see something else than the shell does, the line is
//! opaque.

use tree_sitter::Node;

use super::Dialect;

/// Looks for the first thing that makes a line opaque whatever its commands are.
pub(super) fn check(source: &str, root: Node<'_>, dialect: Dialect) -> Result<(), String> {
    if root.has_error() {
        return Err("it has a syntax error".to_owned());
    }
    let mut end = 0;
    let mut stack = vec![root];
    while let Some(node) = stack.pop() {
        if node.is_missing() {
            return Err("it is not finished".to_owned());
        }
        kind(node, dialect)?;
        if node.child_count() == 0 {
            if node.start_byte() > end {
                gap(source, end, node.start_byte())?;
            }
            leaf(source, node)?;
            end = end.max(node.end_byte());
        } else {
            let mut cursor = node.walk();
            let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
            stack.extend(children.into_iter().rev());
        }
        whole_node(source, node)?;
    }
    gap(source, end, source.len())
}

/// Kinds of syntax that a shell without the extension reads otherwise.
fn kind(node: Node<'_>, dialect: Dialect) -> Result<(), String> {
    if dialect != Dialect::Posix {
        return Ok(());
    }
    match node.kind() {
        kind @ ("ansi_c_string"
        | "translated_string"
        | "process_substitution"
        | "herestring_redirect"
        | "array"
        | "c_style_for_statement"
        | "[["
        | "(("
        | "&>"
        | "&>>"
        | "|&"
        | "function"
        | "select"
        | ";&"
        | ";;&"
        | "$["
        | "coproc"
        | "+="
        | "<&-"
        | ">&-") => Err(format!("{kind:?} means something else in this shell")),
        _ => Ok(()),
    }
}

/// Text between two tokens: blanks, line ends, and joined lines.
fn gap(source: &str, start: usize, end: usize) -> Result<(), String> {
    let text = source.get(start..end).unwrap_or_default();
    let rest = text.replace("\\\n", "");
    if rest.len() < text.len() {
        let before = source.get(..start).unwrap_or_default().chars().next_back();
        let is_break = |letter: char| matches!(letter, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')');
        let after = source.get(end..).unwrap_or_default().chars().next();
        if rest.is_empty() && !before.is_none_or(is_break) && !after.is_none_or(is_break) {
            return Err("a word goes on in the next line".to_owned());
        }
    }
    match rest.chars().find(|letter| !matches!(letter, ' ' | '\t' | '\n')) {
        Some(letter) => Err(format!("it has an odd character ({letter:?})")),
        None => Ok(()),
    }
}

/// A token: nothing that the shell would run may hide in it.
fn leaf(source: &str, node: Node<'_>) -> Result<(), String> {
    let text = source.get(node.byte_range()).unwrap_or_default();
    let is_content = matches!(node.kind(), "raw_string" | "string_content" | "ansi_c_string" | "comment")
        || node.kind().starts_with("heredoc");
    if let Some(letter) = text.chars().find(|letter| is_odd(*letter, is_content)) {
        return Err(format!("it has an odd character ({letter:?})"));
    }
    match node.kind() {
        "raw_string" => {
            let mut parent = node.parent();
            while let Some(outer) = parent {
                if outer.kind() == "expansion" && text.contains(['$', '`']) {
                    return Err("a quoted part of an expansion may run".to_owned());
                }
                parent = outer.parent();
            }
            Ok(())
        }
        "ansi_c_string" => Ok(()),
        "comment" => comment(source, node.start_byte()),
        "heredoc_body" | "heredoc_content" if has_quoted_end(source, node) => Ok(()),
        _ if node.is_named() && runs_something(text) => Err("a command hides in a word".to_owned()),
        _ => Ok(()),
    }
}

/// Characters that shells and the parser may treat differently, or that hide text from the reader.
fn is_odd(letter: char, is_content: bool) -> bool {
    match letter {
        '\n' | '\t' => false,
        '\0' => true,
        _ if is_content => matches!(letter, '\r' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'),
        _ => letter.is_control() || (letter != ' ' && letter.is_whitespace()) || is_invisible(letter),
    }
}

fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A comment starts at a blank or an operator, else the shell reads on.
fn comment(source: &str, start: usize) -> Result<(), String> {
    let before = source.get(..start).unwrap_or_default();
    let mut letters = before.chars().rev();
    match letters.next() {
        None | Some('\n' | ';' | '|' | '&' | '(' | ')') => Ok(()),
        Some(' ' | '\t') => {
            let is_escaped = letters.take_while(|letter| *letter == '\\').count() % 2 == 1;
            if is_escaped { Err("a comment may be none".to_owned()) } else { Ok(()) }
        }
        Some(_) => Err("a comment may be none".to_owned()),
    }
}

/// Says whether text holds an unescaped substitution.
pub(super) fn runs_something(text: &str) -> bool {
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '`' => return true,
            '$' | '<' | '>' if letters.peek() == Some(&'(') => return true,
            _ => {}
        }
    }
    false
}

fn has_quoted_end(source: &str, node: Node<'_>) -> bool {
    let mut outer = node.parent();
    while let Some(parent) = outer {
        if parent.kind() == "heredoc_redirect" {
            let mut cursor = parent.walk();
            return parent
                .children(&mut cursor)
                .find(|child| child.kind() == "heredoc_start")
                .is_some_and(|start| source.get(start.byte_range()).unwrap_or_default().starts_with(['\'', '"']));
        }
        outer = parent.parent();
    }
    false
}

/// Checks of nodes with parts.
fn whole_node(source: &str, node: Node<'_>) -> Result<(), String> {
    let text = source.get(node.byte_range()).unwrap_or_default();
    match node.kind() {
        // What stands escaped inside is read a second time by the shell, not by the parser.
        "command_substitution" if text.trim_start().starts_with('`') && text.contains('\\') => {
            Err("it has an escape inside backquotes".to_owned())
        }
        "expansion" => expansion(source, node, text),
        "heredoc_redirect" => heredoc(source, node),
        _ => Ok(()),
    }
}

fn expansion(source: &str, node: Node<'_>, text: &str) -> Result<(), String> {
    let text = text.trim_start();
    if text.ends_with("@P}") {
        return Err("an expansion runs the value of a variable".to_owned());
    }
    if text.starts_with("${!") && !text.ends_with("[@]}") && !text.ends_with("[*]}") && !text.ends_with("*}") {
        return Err("an expansion follows the value of a variable".to_owned());
    }
    if text.starts_with("${(") {
        return Err("an expansion has flags".to_owned());
    }
    let mut cursor = node.walk();
    let mut name = "";
    for child in node.children(&mut cursor) {
        let text = source.get(child.byte_range()).unwrap_or_default();
        match child.kind() {
            "variable_name" if name.is_empty() => name = text,
            "=" | ":=" if super::programs::is_loaded_variable(name) => {
                return Err(format!("the variable {name} changes what runs"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A here-document ends where the shell ends it: at the first line that is its end word.
fn heredoc(source: &str, node: Node<'_>) -> Result<(), String> {
    let odd = || "a here-document cannot be followed".to_owned();
    let mut cursor = node.walk();
    let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
    let of_kind = |kind: &str| children.iter().find(|child| child.kind() == kind);
    let (Some(start), Some(end)) = (of_kind("heredoc_start"), of_kind("heredoc_end")) else { return Err(odd()) };
    let written = source.get(start.byte_range()).unwrap_or_default();
    let word = written
        .strip_prefix('\'')
        .and_then(|word| word.strip_suffix('\''))
        .or_else(|| written.strip_prefix('"').and_then(|word| word.strip_suffix('"')))
        .unwrap_or(written);
    if word.is_empty() || !word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
        return Err(odd());
    }
    let strips = children.iter().any(|child| child.kind() == "<<-");
    let line_end = source.get(start.end_byte()..).and_then(|rest| rest.find('\n')).ok_or_else(odd)?;
    let first = source.get(start.end_byte()..start.end_byte() + line_end).unwrap_or_default();
    if first.contains("<<") {
        return Err("a line has two here-documents".to_owned());
    }
    let mut at = start.end_byte() + line_end + 1;
    for line in source.get(at..).unwrap_or_default().split('\n') {
        let tabs = if strips { line.len() - line.trim_start_matches('\t').len() } else { 0 };
        if line.get(tabs..) == Some(word) {
            let expected = at + tabs;
            let is_there = end.start_byte() == expected || (strips && end.start_byte() <= expected);
            return if is_there && end.end_byte() == expected + word.len() { Ok(()) } else { Err(odd()) };
        }
        at += line.len() + 1;
    }
    Err(odd())
}
