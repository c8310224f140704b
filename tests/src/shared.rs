//! Test material that is not part of the repository.

use std::path::{Path, PathBuf};

/// A folder of the shared test material: below `ABIDE_SHARED`, else below `../shared` beside the
/// workspace; none when it is not there.
pub fn shared(folder: &str) -> Option<PathBuf> {
    let root = std::env::var_os("ABIDE_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    Some(root.join(folder)).filter(|path| path.is_dir())
}
