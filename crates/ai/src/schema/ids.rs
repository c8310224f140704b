//! String newtypes for identifiers, and provider-defined word lists that accept any string.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! string_id {
    ($($(#[$meta:meta])* $name:ident;)+) => {$(
        $(#[$meta])*
        ///
        /// Cheap to clone.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a string; any text is accepted, the provider defines the form.
            pub fn new(value: impl Into<Arc<str>>) -> Self {
                Self(value.into())
            }

            /// The string form.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self(Arc::from(""))
            }
        }

        impl From<&str> for $name {
            fn from(value: &str) -> Self {
                Self(value.into())
            }
        }

        impl From<String> for $name {
            fn from(value: String) -> Self {
                Self(value.into())
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    )+};
}

string_id! {
    /// Names a model as its provider does.
    ModelId;
    /// Names a provider.
    ProviderId;
    /// Names a route; ids may repeat.
    RouteId;
    /// Names a protocol.
    ProtocolId;
    /// Names one tool call, as the provider gave it.
    ToolCallId;
    /// Names one text or reasoning block within a response.
    ContentBlockId;
    /// Names one response of a provider.
    ResponseId;
}

/// Declares an open enum: known words as variants, any other string kept in `Other`.
macro_rules! open_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        ///
        /// Unknown words survive a round trip.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vmeta])* $variant,)+
            /// A word this version does not know.
            Other(String),
        }

        impl $name {
            /// The known words, in their documented order.
            pub const KNOWN: &'static [&'static str] = &[$($word),+];

            /// The word on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)+
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str> as serde::Deserialize<'de>>::deserialize(deserializer)?;
                Ok(Self::from(&*word))
            }
        }
    };
}
pub(crate) use open_enum;

open_enum! {
    /// How hard a model shall think, lowest to highest.
    ReasoningEffort {
        /// No reasoning.
        None = "none",
        /// As little as possible.
        Minimal = "minimal",
        /// Little.
        Low = "low",
        /// The usual amount.
        Medium = "medium",
        /// Much.
        High = "high",
        /// Very much.
        XHigh = "xhigh",
        /// As much as the model can.
        Max = "max",
    }
}

open_enum! {
    /// How long answers shall be.
    TextVerbosity {
        /// Short.
        Low = "low",
        /// Usual.
        Medium = "medium",
        /// Long.
        High = "high",
    }
}
