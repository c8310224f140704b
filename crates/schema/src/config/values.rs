//! Values that documents write in more than one way.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::model::ModelRef;

/// A model as documents name it: `provider/model#variant`, or `{providerID, model, variant?}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ModelSelection(pub ModelRef);

impl<'de> Deserialize<'de> for ModelSelection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let text = |key: &str| value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        match &value {
            Value::String(text) => text.parse().map(Self).map_err(serde::de::Error::custom),
            Value::Object(_) => match (text("providerID"), text("model").or_else(|| text("id"))) {
                (Some(provider), Some(model)) => Ok(Self(ModelRef {
                    id: model.into(),
                    provider_id: provider.into(),
                    variant: text("variant").map(str::to_owned),
                })),
                _ => Err(serde::de::Error::custom("expected {providerID, model, variant?} with non-empty texts")),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => Err(serde::de::Error::custom(
                format!("expected \"provider/model\" or {{providerID, model, variant?}}, got {value}"),
            )),
        }
    }
}

/// A number of tokens: a non-negative number, fractions cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct TokenCount(pub u64);

/// The largest integer that survives every JSON reader.
const MAX_SAFE: u64 = (1 << 53) - 1;

impl<'de> Deserialize<'de> for TokenCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let count = value.as_u64().or_else(|| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
            value.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64)
        });
        count
            .map(|count| Self(count.min(MAX_SAFE)))
            .ok_or_else(|| serde::de::Error::custom(format!("expected a number of tokens, got {value}")))
    }
}

/// A duration: `"<number> <unit>"` with the unit `millis`, `seconds`, `minutes`, `hours` or `days`, or a number of
/// milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// Reads `"<number> <unit>"`.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, unit) = text.trim().split_once(' ')?;
        let scale: u64 = match unit.trim() {
            "milli" | "millis" | "ms" => 1,
            "second" | "seconds" => 1000,
            "minute" | "minutes" => 60_000,
            "hour" | "hours" => 3_600_000,
            "day" | "days" => 86_400_000,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(scale).map(Self)
    }

    /// Returns the duration.
    pub const fn as_duration(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        value.as_u64().map(Self).or_else(|| value.as_str().and_then(Self::parse)).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "expected a duration like \"5 minutes\" or a number of milliseconds, got {value}"
            ))
        })
    }
}
