// ---------------------------------------------------------------------------------------------
// 3. Stream events
// ---------------------------------------------------------------------------------------------

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::protocols::utils::borrowed::Str;

/// One event of a stream. Texts are borrowed from the frame where they need no unescaping.
#[derive(Debug)]
pub enum MistralEvent<'f> {
    /// `[DONE]`.
    Done,
    /// One chunk.
    Chunk(Chunk<'f>),
}

/// One chunk; every field may be missing or `null`. An error has its words at the top or below `error`.
#[derive(Debug, Deserialize)]
pub struct Chunk<'f> {
    #[serde(borrow, default)]
    pub(super) object: Option<Str<'f>>,
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<Choice<'f>>>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'f RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'f RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'f> {
    /// A server that does not stream sends the whole `message` instead.
    #[serde(borrow, default, alias = "message")]
    pub(super) delta: Option<Delta<'f>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<Str<'f>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta<'f> {
    #[serde(borrow, default)]
    pub(super) content: Option<Content<'f>>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<CallDelta<'f>>>,
}

/// Content: one text, or typed items.
#[derive(Debug)]
pub(super) enum Content<'f> {
    Text(Cow<'f, str>),
    Items(Vec<Item<'f>>),
}

impl<'de: 'f, 'f> Deserialize<'de> for Content<'f> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrItems;
        impl<'de> Visitor<'de> for TextOrItems {
            type Value = Content<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of content items")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Content<'de>, E> {
                Ok(Content::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Content<'de>, E> {
                Ok(Content::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Content<'de>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Content::Items)
            }
        }
        deserializer.deserialize_any(TextOrItems)
    }
}

/// One item; those of other types are not looked at.
#[derive(Debug, Deserialize)]
pub(super) struct Item<'f> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'f>,
    #[serde(borrow, default)]
    pub(super) text: Option<Str<'f>>,
    #[serde(default)]
    pub(super) thinking: Option<Value>,
}

/// The new part of a call.
#[derive(Debug, Deserialize)]
pub(super) struct CallDelta<'f> {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    id: Option<Str<'f>>,
    #[serde(borrow, default)]
    function: Option<FunctionDelta<'f>>,
}

#[derive(Debug, Deserialize)]
struct FunctionDelta<'f> {
    #[serde(borrow, default)]
    name: Option<Str<'f>>,
    /// A string, or the object itself.
    #[serde(borrow, default)]
    arguments: Option<&'f RawValue>,
}

impl CallDelta<'_> {
    /// The id; `""` and `"null"` are none.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref().filter(|id| !id.is_empty() && *id != "null")
    }

    /// The tool; an empty name is none.
    pub(super) fn name(&self) -> Option<&str> {
        self.function.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
    }

    /// The fragment of arguments.
    pub(super) fn arguments(&self) -> Cow<'_, str> {
        match self.function.as_ref().and_then(|function| function.arguments).map(RawValue::get) {
            None | Some("null") => Cow::Borrowed(""),
            Some(text) if text.starts_with('"') => {
                serde_json::from_str::<Str<'_>>(text).map_or(Cow::Borrowed(""), |text| text.0)
            }
            Some(object) => Cow::Borrowed(object),
        }
    }
}
