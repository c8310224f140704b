//! Names as the wire takes them, and what the names of models say.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

/// The longest call id.
const MAX_ID: usize = 64;
/// How much of a call id that is too long stays readable.
const KEPT: usize = 31;
/// How many bytes of the digest go into the id, two letters each: as many as fit a `u128`.
const DIGEST_BYTES: usize = 16;
/// The longest name of a document.
const MAX_DOCUMENT_NAME: usize = 200;

/// Whether a model is one of Anthropic's.
pub(super) fn is_claude(id: &str) -> bool {
    id.contains("claude")
}

/// A call id of the letters and the length that the wire takes, the same on every request.
pub(super) fn call_id(id: &str) -> Cow<'_, str> {
    let is_fit = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    if !id.is_empty() && id.len() <= MAX_ID && id.chars().all(is_fit) {
        return Cow::Borrowed(id);
    }
    let fit: String = id.chars().map(|char| if is_fit(char) { char } else { '_' }).collect();
    if !fit.is_empty() && fit.len() <= MAX_ID {
        return Cow::Owned(fit);
    }
    let head: String = fit.chars().take(KEPT).collect();
    let digest = Sha256::digest(id);
    let tail = digest.iter().take(DIGEST_BYTES).fold(0_u128, |tail, byte| (tail << 8) | u128::from(*byte));
    Cow::Owned(format!("{head}_{tail:032x}"))
}

/// The name of a document: letters, digits, single blanks, hyphens, parentheses and brackets only.
pub(super) fn document_name(filename: &str) -> String {
    let mut name = String::with_capacity(filename.len());
    for char in filename.chars().take(MAX_DOCUMENT_NAME) {
        if char.is_ascii_alphanumeric() || matches!(char, '-' | '(' | ')' | '[' | ']') {
            name.push(char);
        } else if char.is_whitespace() {
            if !name.ends_with(' ') {
                name.push(' ');
            }
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    name.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{call_id, document_name};

    #[test]
    fn call_ids() {
        assert_eq!(call_id("tooluse_a-1"), "tooluse_a-1");
        assert_eq!(call_id("functions.a:0"), "functions_a_0");
        let long = "x".repeat(80);
        let short = call_id(&long);
        assert_eq!((short.len(), call_id(&long)), (64, short.clone()));
        assert_ne!(call_id(&"x".repeat(81)), short);
        assert!(!call_id("").is_empty());
    }

    #[test]
    fn document_names() {
        assert_eq!(document_name("report.pdf"), "report-pdf");
        assert_eq!(document_name(" a  b\t(1) [x]_ü.csv"), "a b (1) [x]-csv");
    }
}
