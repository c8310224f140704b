//! What to do about a file that is not there: the one name that is spelled another way, or names that are alike.

use std::fs;
use std::path::Path;

use crate::tool::outcome::ToolFailure;

/// How many names are looked at.
const MAX_NAMES: usize = 10_000;

/// How many are offered.
const MAX_OFFERED: usize = 3;

/// What is in the directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The requested directory with the real name.
    Spelled(String),
    /// Names to offer.
    Alike(Vec<String>),
}

/// Looks for names that `requested`, which would be at `real`, may mean. Blocks.
pub(super) fn look(requested: &str, real: &Path) -> Found {
    let Some((name, directory)) = real.file_name().and_then(|name| name.to_str()).zip(real.parent()) else {
        return Found::Alike(Vec::new());
    };
    let Ok(entries) = fs::read_dir(directory) else { return Found::Alike(Vec::new()) };
    let mut names: Vec<String> =
        entries.take(MAX_NAMES).filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    let spelled: Vec<&String> = names.iter().filter(|other| spelling(other) == spelling(name)).collect();
    if let [one] = spelled.as_slice()
        && fs::metadata(directory.join(one)).is_ok_and(|found| found.is_file())
    {
        let path = Path::new(requested).with_file_name(one);
        return Found::Spelled(path.to_string_lossy().into_owned());
    }
    let lower = name.to_lowercase();
    let alike = names.iter().filter(|other| {
        let other = other.to_lowercase();
        other.contains(&lower) || lower.contains(&other)
    });
    Found::Alike(alike.take(MAX_OFFERED).cloned().collect())
}

/// Makes the failure for a file that is not there.
pub(super) fn failure(requested: &str, alike: &[String]) -> ToolFailure {
    let offer = if alike.is_empty() { String::new() } else { format!(". Did you mean {}?", alike.join(", ")) };
    ToolFailure::new(format!("No such file: {requested}{offer}"))
}

/// Brings a name to one spelling: composed accents, plain spaces and quotes.
fn spelling(name: &str) -> String {
    let composed = icu_normalizer::ComposingNormalizerBorrowed::new_nfc().normalize(name).into_owned();
    composed
        .chars()
        .map(|c| match c {
            '\u{A0}' | '\u{202F}' => ' ',
            '\u{2018}' | '\u{2019}' => '\'',
            c => c,
        })
        .collect()
}
