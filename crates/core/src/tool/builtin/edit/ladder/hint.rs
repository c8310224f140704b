//! What to tell the model when its text is not there: the place that is most alike, with white space made visible.

use std::fmt::Write as _;

use super::mapped::plain_char;

/// Longer lines are cut.
const MAX_SHOWN: usize = 200;

/// Finds the place where most of the first lines are there but for white space and odd characters, and says which line
/// differs first. `whose` names what holds the lines that were looked for; `skipped` lines come before the text.
pub(crate) fn near(text: &str, old: &str, whose: &str, skipped: usize) -> Option<String> {
    let wanted: Vec<&str> = old.trim_end_matches('\n').split('\n').collect();
    let squeezed: Vec<String> = wanted.iter().map(|line| squeeze(line)).collect();
    let first = squeezed.iter().position(|line| !line.is_empty())?;
    let lines: Vec<&str> = text.split('\n').collect();
    let forms: Vec<String> = lines.iter().map(|line| squeeze(line)).collect();

    let single = squeezed.len() == 1;
    let mut best: Option<(usize, usize)> = None;
    for at in 0..forms.len() {
        let same = match_length(&forms, at, &squeezed, first, single);
        if same > 0 && best.is_none_or(|(_, known)| same > known) {
            best = Some((at, same));
        }
    }
    let (at, same) = best?;
    // The first line that is not exactly the same.
    let pairs = lines.get(at..).unwrap_or_default().iter().zip(wanted.get(first..).unwrap_or_default());
    let differs = pairs.clone().take(same).position(|(there, wanted)| !is_same(there, wanted, single)).unwrap_or(same);
    let there = lines.get(at + differs);
    let expected = wanted.get(first + differs)?;
    let line = skipped + at + differs + 1;
    let what =
        if differs < same { "differs in white space or in characters that look alike" } else { "is another one" };
    Some(match there {
        Some(there) => format!(
            "The nearest place is line {}: line {line} {what}. The file has: {}; {whose} has: {}",
            skipped + at + 1,
            shown(there),
            shown(expected)
        ),
        None => format!("The nearest place is line {}, but the file ends before {whose} does.", skipped + at + 1),
    })
}

fn match_length(forms: &[String], at: usize, wanted: &[String], first: usize, single: bool) -> usize {
    let there = forms.get(at..).unwrap_or_default();
    let wanted = wanted.get(first..).unwrap_or_default();
    if single {
        return usize::from(
            there.first().zip(wanted.first()).is_some_and(|(there, wanted)| there.contains(wanted.as_str())),
        );
    }
    there.iter().zip(wanted).take_while(|(there, wanted)| there == wanted).count()
}

fn is_same(there: &str, wanted: &str, single: bool) -> bool {
    if single { there.contains(wanted) } else { there == wanted }
}

/// Takes white space of any kind for one blank, and characters that look alike for one.
fn squeeze(line: &str) -> String {
    let mut out = String::new();
    for word in line.split(|c: char| c.is_whitespace() || is_invisible(c)).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        out.extend(word.chars().map(plain_char));
    }
    out
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}' | '\u{00AD}')
}

/// Quotes a line; tabs become `\t`, and what is no plain ASCII but blank, invisible or mistaken for something else
/// gets its code.
fn shown(line: &str) -> String {
    let mut out = String::from("`");
    for (n, c) in line.chars().enumerate() {
        if n == MAX_SHOWN {
            out.push('…');
            break;
        }
        match c {
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c != ' ' && (c.is_whitespace() || c.is_control() || is_invisible(c) || plain_char(c) != c) => {
                // Writing to a string does not fail.
                let _ok = write!(out, "<U+{:04X}>", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('`');
    out
}
