//! A string of a frame that borrows where it can.

use std::borrow::Cow;
use std::ops::Deref;

use serde::Deserialize;

/// A JSON string. It borrows from the frame unless it holds escapes; `Option<Cow<str>>` never would.
#[derive(Clone, Debug, Deserialize)]
pub struct Str<'f>(#[serde(borrow)] pub Cow<'f, str>);

impl Str<'_> {
    /// The string, copied if it is borrowed.
    pub fn into_owned(self) -> String {
        self.0.into_owned()
    }
}

impl Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}
