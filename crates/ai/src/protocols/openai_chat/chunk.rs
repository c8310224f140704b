// ---------------------------------------------------------------------------------------------
// 3. Stream events
// ---------------------------------------------------------------------------------------------

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// One event of a Chat stream. Texts are borrowed from the frame where they need no unescaping.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "made once a frame and never stored; a box would cost an allocation")]
pub enum ChatEvent<'f> {
    /// `[DONE]`.
    Done,
    /// One chunk.
    Chunk(Chunk<'f>),
}

/// One chunk; every field may be missing or `null`.
#[derive(Debug, Deserialize)]
pub struct Chunk<'f> {
    #[serde(borrow, default)]
    pub(super) choices: Option<First<Choice<'f>>>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'f RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'f RawValue>,
}

/// The first element of a list; the others are not looked at.
#[derive(Debug)]
pub(super) struct First<T>(pub(super) Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for First<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Seq<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Seq<T> {
            type Value = First<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<First<T>, A::Error> {
                let first = seq.next_element()?;
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(First(first))
            }
        }
        deserializer.deserialize_seq(Seq(std::marker::PhantomData))
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'f> {
    /// A server that does not stream sends the whole `message` instead.
    #[serde(borrow, default, alias = "message")]
    pub(super) delta: Option<Delta<'f>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<Text<'f>>,
    #[serde(borrow, default)]
    pub(super) native_finish_reason: Option<Text<'f>>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'f RawValue>,
}

/// Text; a number is taken as its digits.
#[derive(Debug)]
pub(super) struct Text<'f>(pub(super) Cow<'f, str>);

impl<'de: 'f, 'f> Deserialize<'de> for Text<'f> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_string<E>(self, text: String) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text)))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(number.to_string())))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(number.to_string())))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// The new part of the answer.
#[derive(Debug, Default)]
pub(super) struct Delta<'f> {
    pub(super) content: Option<Text<'f>>,
    pub(super) refusal: Option<Text<'f>>,
    pub(super) tool_calls: Option<Vec<ToolCallDelta<'f>>>,
    pub(super) reasoning_details: Option<&'f RawValue>,
    /// Texts under other names, reasoning among them, in wire order.
    pub(super) others: Vec<(Text<'f>, Text<'f>)>,
}

impl Delta<'_> {
    /// A non-empty text under another name.
    pub(super) fn other(&self, name: &str) -> Option<&str> {
        self.others.iter().find(|(key, text)| key.0 == name && !text.0.is_empty()).map(|(_, text)| &*text.0)
    }
}

impl<'de: 'f, 'f> Deserialize<'de> for Delta<'f> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Delta<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Delta<'de>, A::Error> {
                let mut delta = Delta::default();
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    match &*key.0 {
                        "content" => delta.content = map.next_value()?,
                        "refusal" => delta.refusal = map.next_value()?,
                        "tool_calls" => delta.tool_calls = map.next_value()?,
                        "reasoning_details" => delta.reasoning_details = map.next_value()?,
                        "role" => {
                            map.next_value::<IgnoredAny>()?;
                        }
                        _ => {
                            if let Some(text) = map.next_value::<MaybeText<'de>>()?.0 {
                                delta.others.push((key, text));
                            }
                        }
                    }
                }
                Ok(delta)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// A text, or anything else that is not looked at.
struct MaybeText<'f>(Option<Text<'f>>);

impl<'de: 'f, 'f> Deserialize<'de> for MaybeText<'f> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?;
        if raw.get().starts_with('"') {
            let text = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
            return Ok(Self(Some(text)));
        }
        Ok(Self(None))
    }
}

/// The new part of a call.
#[derive(Debug, Deserialize)]
pub(super) struct ToolCallDelta<'f> {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'f>>,
    #[serde(borrow, default)]
    pub(super) function: Option<FunctionDelta<'f>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FunctionDelta<'f> {
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'f>>,
    /// Normally a string; some servers send the object itself.
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'f RawValue>,
}

impl ToolCallDelta<'_> {
    /// The id; an empty one is none.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_ref().map(|id| &*id.0).filter(|id| !id.is_empty())
    }

    /// The tool; an empty name is none.
    pub(super) fn name(&self) -> Option<&str> {
        self.function.as_ref()?.name.as_ref().map(|name| &*name.0).filter(|name| !name.is_empty())
    }

    /// The fragment of arguments.
    pub(super) fn arguments(&self) -> Cow<'_, str> {
        let Some(raw) = self.function.as_ref().and_then(|function| function.arguments) else {
            return Cow::Borrowed("");
        };
        match raw.get() {
            "null" => Cow::Borrowed(""),
            text if text.starts_with('"') => {
                serde_json::from_str::<Text<'_>>(text).map_or(Cow::Borrowed(""), |text| text.0)
            }
            object => Cow::Borrowed(object),
        }
    }
}
