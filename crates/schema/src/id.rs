//! Identifiers: newtypes over their string form, and the pure generator that makes new ones.
//!
//! Form (spec/session.md section 2): `<prefix>_` and 26 characters: 12 lower-case hex digits of the
//! 48-bit millisecond clock (complemented for descending ids), three characters of a per-millisecond
//! counter and eleven random ones. Ids are opaque: nothing but uniqueness may be read from them.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The reason why a string is no identifier of the wanted kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an id that starts with \"{prefix}\" and has at most 128 characters of [A-Za-z0-9_-], got {value:?}")]
pub struct IdError {
    /// The prefix that the id must have.
    pub prefix: &'static str,
    /// The value that was given, cut to 64 characters.
    pub value: String,
}

const MAX_ID_BYTES: usize = 128;

fn check(prefix: &'static str, value: &str) -> Result<(), IdError> {
    let fits = value.len() <= MAX_ID_BYTES
        && value.starts_with(prefix)
        && value.len() > prefix.len()
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if fits { Ok(()) } else { Err(IdError { prefix, value: value.chars().take(64).collect() }) }
}

macro_rules! ids {
    ($( $(#[$doc:meta])* $name:ident, $accepts:literal, $prefix:literal; )*) => { $(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The prefix that every id of this kind has on the wire.
            pub const PREFIX: &'static str = $accepts;
            /// The prefix, with its underscore, of ids that abide makes.
            pub const NEW_PREFIX: &'static str = $prefix;

            /// Checks and takes an id given by a caller.
            ///
            /// # Errors
            /// [`IdError`] when the prefix is wrong, the id is longer than 128 bytes or has other characters than
            /// `[A-Za-z0-9_-]`.
            pub fn parse(value: &str) -> Result<Self, IdError> {
                check($accepts, value)?;
                Ok(Self(value.into()))
            }

            /// Takes an id that was made or checked before (a generator's output, a stored row).
            pub fn from_trusted(value: impl Into<Arc<str>>) -> Self {
                Self(value.into())
            }

            /// Returns the id as it stands on the wire.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        string_newtype!($name);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Self::parse(&value).map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                schemars::json_schema!({ "type": "string", "pattern": concat!("^", $accepts) })
            }
        }
    )* };
}

macro_rules! names {
    ($( $(#[$doc:meta])* $name:ident; )*) => { $(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes any string: names of this kind come from configuration or from a provider.
            pub fn new(value: impl Into<Arc<str>>) -> Self {
                Self(value.into())
            }

            /// Returns the name as it stands on the wire.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        string_newtype!($name);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Ok(Self(value.as_ref().into()))
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                schemars::json_schema!({ "type": "string" })
            }
        }

        impl From<&str> for $name {
            fn from(value: &str) -> Self {
                Self(value.into())
            }
        }
    )* };
}

macro_rules! string_newtype {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

ids! {
    /// Identifies a session; newer ones sort lower.
    SessionId, "ses", "ses_";
    /// Identifies a durable or live event; ids made later sort higher.
    EventId, "evt_", "evt_";
    /// Identifies a message and an inbox item.
    MessageId, "msg_", "msg_";
    /// Identifies a permission request.
    PermissionId, "per", "per_";
    /// Identifies a saved permission rule.
    SavedPermissionId, "psv", "psv_";
    /// Identifies a question request.
    QuestionId, "que", "que_";
    /// Identifies a workspace.
    WorkspaceId, "wrk", "wrk_";
    /// Identifies a terminal.
    PtyId, "pty", "pty_";
    /// Identifies a background job: `job_…`, or the id of what works, a command or a child session.
    JobId, "", "job_";
    /// Identifies a file of managed tool output.
    ToolFileId, "tool_", "tool_";
    /// Identifies a batch of file mutations.
    MutationId, "mut_", "mut_";
    /// Identifies a process instance that executes sessions.
    OwnerId, "own_", "own_";
    /// Identifies a stored credential.
    CredentialId, "cred", "cred_";
}

names! {
    /// Identifies a tool call; given by the provider, unique only inside one assistant message.
    CallId;
    /// Names an agent, for example `build`.
    AgentId;
    /// Names a provider, for example `anthropic`.
    ProviderId;
    /// Names a model of a provider.
    ModelId;
    /// Identifies a project; `global` outside any repository.
    ProjectId;
    /// Names an integration, usually like its provider.
    IntegrationId;
}

/// A position in one aggregate's log.
///
/// Every stored event has two: its log position, dense from 0 over all events, and, when it belongs to the
/// HTTP contract, its contract position, dense over those (docs/decisions.md, "two sequences").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Returns the position after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Digits of the tail, in ASCII order, so that string order is counter order.
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const COUNTER_LIMIT: u32 = 62 * 62 * 62;

/// Makes ids from a clock reading and random bits: monotone within one generator, also when the clock
/// steps back.
#[derive(Debug, Default)]
pub struct IdGenerator {
    last_ms: u64,
    counter: u32,
}

impl IdGenerator {
    /// Makes the 26 characters after the prefix. `descending` complements the time, so that newer ids sort lower.
    pub fn tail(&mut self, now: crate::Timestamp, random: u64, descending: bool) -> String {
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(0);
        if now_ms > self.last_ms {
            self.last_ms = now_ms;
            self.counter = 0;
        } else {
            self.counter += 1;
            if self.counter >= COUNTER_LIMIT {
                self.last_ms += 1;
                self.counter = 0;
            }
        }
        let mask = (1u64 << 48) - 1;
        let (time, counter) = if descending {
            (!self.last_ms & mask, COUNTER_LIMIT - 1 - self.counter)
        } else {
            (self.last_ms & mask, self.counter)
        };
        let mut out = format!("{time:012x}");
        for divisor in [62 * 62, 62, 1] {
            push_digit(&mut out, u64::from(counter / divisor));
        }
        let mut rest = random;
        for _ in 0..11 {
            push_digit(&mut out, rest);
            rest /= 62;
        }
        out
    }
}

fn push_digit(out: &mut String, value: u64) {
    let at = usize::try_from(value % 62).unwrap_or(0);
    if let Some(digit) = DIGITS.get(at) {
        out.push(char::from(*digit));
    }
}
