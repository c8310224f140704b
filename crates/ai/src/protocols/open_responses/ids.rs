//! Ids on the wire.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

/// The longest id the wire takes.
const MAX_ID: usize = 64;
/// How much of a call id that is too long stays readable.
const KEPT: usize = 31;
/// How many bytes of the digest go into the id, two letters each: as many as fit a `u128`.
const DIGEST_BYTES: usize = 16;

/// An item id as it may be sent back: `<prefix>_<suffix>`, not too long. Other providers' ids and
/// empty ones are left out, as the wire refuses them.
pub(super) fn item_id(id: &str) -> Option<&str> {
    let (prefix, suffix) = id.split_once('_')?;
    (!prefix.is_empty() && !suffix.is_empty() && id.len() <= MAX_ID).then_some(id)
}

/// A call id as it is sent: one that fits as it is; one that is too long as its head and a digest,
/// the same on every request, so that call and result still belong together.
pub(super) fn call_id(id: &str) -> Cow<'_, str> {
    if id.len() <= MAX_ID {
        return Cow::Borrowed(id);
    }
    let head: String = id.chars().filter(char::is_ascii).take(KEPT).collect();
    let digest = Sha256::digest(id);
    let tail = digest.iter().take(DIGEST_BYTES).fold(0_u128, |tail, byte| (tail << 8) | u128::from(*byte));
    Cow::Owned(format!("{head}_{tail:032x}"))
}
