//! Which models take chronological system messages.

use crate::schema::model::LanguageModel;

/// Whether system updates may be sent natively: as configured, else for Claude Opus 4.8 and newer.
pub(super) fn supports_system_updates(model: &LanguageModel) -> bool {
    model
        .compatibility
        .supports_system_updates
        .unwrap_or_else(|| opus_version(model.id.as_str()).is_some_and(|version| version >= (4, 8)))
}

/// The version in a model id such as `claude-opus-4-8-20260101`, `anthropic/claude-opus-4.8` or
/// `us.anthropic.claude-opus-4-8-v1:0`.
fn opus_version(id: &str) -> Option<(u32, u32)> {
    let (vendor, rest) = id.split_once("claude-opus-")?;
    if !vendor.is_empty() && !vendor.ends_with(['/', '.']) {
        return None;
    }
    let mut numbers = rest.split(['-', '.', ':', '@']);
    let major = numbers.next()?.parse().ok()?;
    // A longer number is a date.
    let minor = numbers.next().filter(|minor| minor.len() <= 2).and_then(|minor| minor.parse().ok()).unwrap_or(0);
    Some((major, minor))
}
