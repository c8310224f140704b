//! Words of a command as the shell will see them, as far as that is known before it runs.

use std::ops::Range;

use tree_sitter::Node;

use super::Dialect;

/// Stands in a form for text that is only known when the line runs: any text, also none.
pub(crate) const HOLE: char = '\u{10FFFF}';

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The text without quotes and escapes; [`HOLE`] for what is not known.
    pub(crate) form: String,
    /// Where it stands in the line.
    pub(crate) range: Range<usize>,
    /// Whether it starts with an unquoted `~`.
    pub(crate) has_tilde: bool,
}

impl Word {
    /// Returns the text when all of it is known.
    pub(crate) fn literal(&self) -> Option<&str> {
        (!self.form.contains(HOLE)).then_some(self.form.as_str())
    }

    /// Says whether nothing of it is known, so that it may vanish or become several words.
    pub(crate) fn is_hole(&self) -> bool {
        !self.form.is_empty() && self.form.chars().all(|letter| letter == HOLE)
    }

    /// Returns the last part of the path that the word is.
    pub(crate) fn base_name(&self) -> Option<&str> {
        self.literal().map(base_name)
    }
}

/// Returns the last part of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

/// Joins words into a form. With `absorb`, a word of which nothing is known takes the blank before it with it, because
/// it may vanish.
pub(crate) fn join(words: &[Word], absorb: bool) -> String {
    let mut text = String::new();
    for (index, word) in words.iter().enumerate() {
        if index > 0 && !(absorb && word.is_hole()) {
            text.push(' ');
        }
        text.push_str(&word.form);
    }
    text
}

/// Reads words of syntax nodes.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'s> {
    pub(crate) source: &'s str,
    pub(crate) dialect: Dialect,
}

impl Reader<'_> {
    /// Reads one word that several adjoining nodes make up.
    pub(crate) fn word(&self, nodes: &[Node<'_>]) -> Word {
        let mut form = String::new();
        for node in nodes {
            self.read(*node, &mut form);
        }
        let start = nodes.first().map_or(0, Node::start_byte);
        let end = nodes.last().map_or(start, Node::end_byte);
        let raw = self.source.get(start..end).unwrap_or_default();
        if has_braces(raw, nodes) || (self.dialect == Dialect::Zsh && raw.starts_with('=') && raw.len() > 1) {
            form = HOLE.to_string();
        }
        Word { form, range: start..end, has_tilde: raw.starts_with('~') }
    }

    /// Returns the source text of a node.
    pub(crate) fn text(&self, node: Node<'_>) -> &str {
        self.source.get(node.byte_range()).unwrap_or_default()
    }

    fn read(&self, node: Node<'_>, form: &mut String) {
        let text = self.text(node);
        match node.kind() {
            "word" | "number" | "variable_name" | "file_descriptor" | "heredoc_start" => unescape_word(text, form),
            "raw_string" => form.push_str(text.trim_start_matches('\'').trim_end_matches('\'')),
            "ansi_c_string" => match ansi_c(text) {
                Some(decoded) => form.push_str(&decoded),
                None => form.push(HOLE),
            },
            "string" => self.read_string(node, form),
            "concatenation" => {
                let mut cursor = node.walk();
                for child in node.children(&mut cursor) {
                    self.read(child, form);
                }
            }
            "$" if !text.is_empty() => form.push(HOLE),
            "==" | "=~" | "{" | "}" => form.push_str(text),
            _ => form.push(HOLE),
        }
    }

    fn read_string(&self, node: Node<'_>, form: &mut String) {
        let mut at = node.start_byte() + 1;
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            if child.start_byte() > at {
                form.push_str(self.source.get(at..child.start_byte()).unwrap_or_default());
            }
            let text = self.text(child);
            match child.kind() {
                "\"" => {}
                "string_content" => unescape_string(text, form),
                _ => {
                    // The scanner counts blanks before an expansion as part of it.
                    let blanks = text.len() - text.trim_start().len();
                    form.push_str(text.get(..blanks).unwrap_or_default());
                    form.push(HOLE);
                }
            }
            at = at.max(child.end_byte());
        }
    }
}

/// Says whether braces of the word may make several words of it.
fn has_braces(raw: &str, nodes: &[Node<'_>]) -> bool {
    let quoted = matches!(nodes, [node] if matches!(node.kind(), "string" | "raw_string" | "ansi_c_string"));
    !quoted && raw.contains('{') && !raw.starts_with("${") && (raw.contains(',') || raw.contains(".."))
}

fn unescape_word(text: &str, form: &mut String) {
    if text == "[" || text == "]" {
        form.push_str(text);
        return;
    }
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('\n') => {}
                Some(escaped) => form.push(escaped),
                None => form.push('\\'),
            },
            '*' | '?' | '[' => form.push(HOLE),
            other => form.push(other),
        }
    }
}

fn unescape_string(text: &str, form: &mut String) {
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            form.push(letter);
            continue;
        }
        match letters.peek() {
            Some('\n') => drop(letters.next()),
            Some(escaped @ ('$' | '`' | '"' | '\\')) => {
                form.push(*escaped);
                letters.next();
            }
            Some(_) | None => form.push('\\'),
        }
    }
}

/// Decodes `$'…'`; `None` when an escape is not known.
fn ansi_c(text: &str) -> Option<String> {
    let body = text.strip_prefix("$'")?.strip_suffix('\'')?;
    let mut form = String::new();
    let mut letters = body.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            form.push(letter);
            continue;
        }
        let escape = letters.next()?;
        let (radix, most) = match escape {
            'x' => (16, 2),
            'u' => (16, 4),
            'U' => (16, 8),
            '0'..='7' => (8, 3),
            _ => {
                form.push(match escape {
                    'a' => '\u{7}',
                    'b' => '\u{8}',
                    'e' | 'E' => '\u{1b}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'v' => '\u{b}',
                    '\\' | '\'' | '"' | '?' => escape,
                    _ => return None,
                });
                continue;
            }
        };
        let mut digits = if radix == 8 { escape.to_string() } else { String::new() };
        while digits.len() < most
            && let Some(digit) = letters.next_if(|digit| digit.is_digit(radix))
        {
            digits.push(digit);
        }
        // Bytes above ASCII may be halves of a character: not followed.
        let value = u32::from_str_radix(&digits, radix).ok()?;
        if value == 0 || (value > 0x7f && matches!(escape, 'x' | '0'..='7')) {
            return None;
        }
        form.push(char::from_u32(value)?);
    }
    Some(form)
}
