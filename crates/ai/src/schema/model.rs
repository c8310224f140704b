//! A model: identity, configured route and request-shaping defaults.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::JsonObject;
use super::ids::{ModelId, ProviderId, open_enum};
use super::options::{GenerationOptions, HttpOptions, Limits, merge_objects};
use crate::route::Route;

/// A model that can be called. Cheap to clone.
///
/// Capabilities and prices live elsewhere; this holds only what shapes a request.
#[derive(Clone)]
pub struct LanguageModel(Arc<LanguageModelFields>);

/// The fields of a [`LanguageModel`].
#[derive(Clone, Debug)]
pub struct LanguageModelFields {
    /// The id on the wire.
    pub id: ModelId,
    /// The provider.
    pub provider: ProviderId,
    /// How to reach it.
    pub route: Route,
    /// Defaults of every call.
    pub defaults: Defaults,
    /// Overrides of name- or host-based detection.
    pub compatibility: Compatibility,
}

impl LanguageModel {
    /// Makes a model on a route.
    pub fn make(id: impl Into<ModelId>, provider: impl Into<ProviderId>, route: Route) -> Self {
        Self(Arc::new(LanguageModelFields {
            id: id.into(),
            provider: provider.into(),
            route,
            defaults: Defaults::default(),
            compatibility: Compatibility::default(),
        }))
    }

    /// A copy with some fields changed.
    pub fn update(&self, change: impl FnOnce(&mut LanguageModelFields)) -> Self {
        let mut fields = (*self.0).clone();
        change(&mut fields);
        Self(Arc::new(fields))
    }

    /// The namespace of provider metadata this model reads and writes.
    pub fn metadata_key(&self) -> &str {
        self.route.metadata_key().unwrap_or(self.provider.as_str())
    }
}

impl Deref for LanguageModel {
    type Target = LanguageModelFields;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl fmt::Debug for LanguageModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LanguageModel")
            .field("id", &self.id)
            .field("provider", &self.provider)
            .field("route", &self.route.id())
            .finish_non_exhaustive()
    }
}

/// Defaults of a route or a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Defaults {
    /// Sampling and length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<GenerationOptions>,
    /// Flat, protocol-specific options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_options: Option<JsonObject>,
    /// Overlays and timers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpOptions>,
    /// Sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
}

impl Defaults {
    /// Lays `over` on top.
    pub fn merge(&self, over: &Self) -> Self {
        Self {
            generation: merge_with(self.generation.as_ref(), over.generation.as_ref(), GenerationOptions::merge),
            provider_options: merge_objects(self.provider_options.as_ref(), over.provider_options.as_ref()),
            http: merge_with(self.http.as_ref(), over.http.as_ref(), HttpOptions::merge),
            limits: over.limits.or(self.limits),
        }
    }
}

fn merge_with<T: Clone>(base: Option<&T>, over: Option<&T>, merge: fn(&T, &T) -> T) -> Option<T> {
    match (base, over) {
        (Some(base), Some(over)) => Some(merge(base, over)),
        (base, over) => over.or(base).cloned(),
    }
}

/// Sanitation of tool schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolSchemaKind {
    /// For Gemini.
    Gemini,
    /// For Moonshot.
    Moonshot,
    /// Off.
    None,
}

/// Where a Responses route puts the system prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SystemPlacement {
    /// In `instructions`.
    Instructions,
    /// As the first input item.
    Input,
}

open_enum! {
    /// The field of the output cap in a Chat body.
    MaxTokensField {
        /// The newer name.
        MaxCompletionTokens = "max_completion_tokens",
        /// The older name.
        MaxTokens = "max_tokens",
    }
}

/// Overrides of name- or host-based detection; absent fields keep the detection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Compatibility {
    /// Sanitation of tool schemas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_schema: Option<ToolSchemaKind>,
    /// Chat: the field that carries reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_field: Option<String>,
    /// Chat: every assistant message carries the reasoning field, even empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_reasoning: Option<bool>,
    /// Chat: the field of the output cap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens_field: Option<MaxTokensField>,
    /// A clean end without a finish is an error (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_finish_reason: Option<bool>,
    /// Chat: insert an assistant turn between tool and user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_assistant_after_tool: Option<bool>,
    /// Chat: user and assistant alternate; user messages in a row are joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_alternating_roles: Option<bool>,
    /// Chat: send `tools: []` when history has calls but no tool is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_tools_with_history: Option<bool>,
    /// Chat: `store` is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_store: Option<bool>,
    /// Chat: `stream_options.include_usage` is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_usage_in_streaming: Option<bool>,
    /// Chat: `strict` is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_strict_mode: Option<bool>,
    /// Chat: `prompt_cache_key` is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_prompt_cache_key: Option<bool>,
    /// Chat: `tool_stream` is needed to stream arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zai_tool_stream: Option<bool>,
    /// Responses: where the system prompt goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_placement: Option<SystemPlacement>,
    /// Native chronological system messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_system_updates: Option<bool>,
    /// Chronological effort updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_effort_updates: Option<bool>,
    /// Messages: drop unsigned thinking blocks on replay (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_signature: Option<bool>,
}

impl Compatibility {
    /// Lays `over` on top, per field.
    pub fn merge(&self, over: &Self) -> Self {
        Self {
            tool_schema: over.tool_schema.or(self.tool_schema),
            reasoning_field: over.reasoning_field.clone().or_else(|| self.reasoning_field.clone()),
            require_reasoning: over.require_reasoning.or(self.require_reasoning),
            max_tokens_field: over.max_tokens_field.clone().or_else(|| self.max_tokens_field.clone()),
            require_finish_reason: over.require_finish_reason.or(self.require_finish_reason),
            require_assistant_after_tool: over.require_assistant_after_tool.or(self.require_assistant_after_tool),
            require_alternating_roles: over.require_alternating_roles.or(self.require_alternating_roles),
            require_tools_with_history: over.require_tools_with_history.or(self.require_tools_with_history),
            supports_store: over.supports_store.or(self.supports_store),
            supports_usage_in_streaming: over.supports_usage_in_streaming.or(self.supports_usage_in_streaming),
            supports_strict_mode: over.supports_strict_mode.or(self.supports_strict_mode),
            supports_prompt_cache_key: over.supports_prompt_cache_key.or(self.supports_prompt_cache_key),
            zai_tool_stream: over.zai_tool_stream.or(self.zai_tool_stream),
            system_placement: over.system_placement.or(self.system_placement),
            supports_system_updates: over.supports_system_updates.or(self.supports_system_updates),
            supports_effort_updates: over.supports_effort_updates.or(self.supports_effort_updates),
            require_signature: over.require_signature.or(self.require_signature),
        }
    }

    /// Whether a clean end without a finish is an error.
    pub fn is_finish_required(&self) -> bool {
        self.require_finish_reason.unwrap_or(true)
    }
}
