//! One model call.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::JsonObject;
use super::messages::{Message, SystemPart, ToolChoice, ToolDefinition};
use super::model::LanguageModel;
use super::options::{CachePolicy, GenerationOptions, HttpOptions};

/// One model call. Cheap to clone; changed only by [`LLMRequest::update`].
#[derive(Clone, Debug)]
pub struct LLMRequest(Arc<RequestFields>);

/// The fields of an [`LLMRequest`].
#[derive(Clone, Debug)]
pub struct RequestFields {
    /// Correlation id of the caller.
    pub id: Option<String>,
    /// The model with its route.
    pub model: LanguageModel,
    /// Initial privileged prompt, ahead of the conversation.
    pub system: Vec<SystemPart>,
    /// History in order. Shared, so that a long history is cheap to send again.
    pub messages: Vec<Arc<Message>>,
    /// Tools, in wire order.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// Which tool may or must be called.
    pub tool_choice: Option<ToolChoice>,
    /// Sampling and length.
    pub generation: Option<GenerationOptions>,
    /// Flat, protocol-specific options.
    pub provider_options: Option<JsonObject>,
    /// Overlays and timers of this call.
    pub http: Option<HttpOptions>,
    /// Prompt-cache policy.
    pub cache: CachePolicy,
    /// Stable affinity key for provider-managed prompt caches.
    pub prompt_cache_key: Option<String>,
    /// Caller data, never sent.
    pub metadata: Option<JsonObject>,
}

/// What [`crate::llm::request`] takes beside the model; everything has a default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestInput {
    /// Correlation id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Initial privileged prompt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub system: Vec<SystemPart>,
    /// History in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Arc<Message>>,
    /// A user message appended after `messages`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Tools, in wire order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Arc<ToolDefinition>>,
    /// Which tool may or must be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Sampling and length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<GenerationOptions>,
    /// Flat, protocol-specific options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_options: Option<JsonObject>,
    /// Overlays and timers of this call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpOptions>,
    /// Prompt-cache policy.
    pub cache: CachePolicy,
    /// Affinity key for provider-managed prompt caches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_cache_key: Option<String>,
    /// Caller data, never sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
}

impl LLMRequest {
    /// Makes a request; a `prompt` is appended as a user message.
    pub fn make(model: LanguageModel, input: RequestInput) -> Self {
        let mut messages = input.messages;
        if let Some(prompt) = input.prompt {
            messages.push(Arc::new(Message::user(prompt)));
        }
        Self(Arc::new(RequestFields {
            id: input.id,
            model,
            system: input.system,
            messages,
            tools: input.tools,
            tool_choice: input.tool_choice,
            generation: input.generation,
            provider_options: input.provider_options,
            http: input.http,
            cache: input.cache,
            prompt_cache_key: input.prompt_cache_key,
            metadata: input.metadata,
        }))
    }

    /// A copy with the patched fields; an empty patch gives the same value.
    pub fn update(&self, patch: RequestPatch) -> Self {
        if patch.is_empty() {
            return self.clone();
        }
        let mut fields = (*self.0).clone();
        patch.apply(&mut fields);
        Self(Arc::new(fields))
    }

    /// Whether both are the same value in memory.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Sampling and length options; empty when none are set.
    pub fn generation(&self) -> GenerationOptions {
        self.generation.clone().unwrap_or_default()
    }

    /// One provider option.
    pub fn option(&self, name: &str) -> Option<&serde_json::Value> {
        self.provider_options.as_ref()?.get(name)
    }

    /// The output cap: `maxTokens`, else the output limit of the model.
    pub fn effective_max_tokens(&self) -> Option<u64> {
        let route = self.model.route.defaults().limits;
        self.generation
            .as_ref()
            .and_then(|generation| generation.max_tokens)
            .or_else(|| self.model.defaults.limits.or(route).and_then(|limits| limits.output))
    }
}

impl Deref for LLMRequest {
    type Target = RequestFields;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

macro_rules! patch {
    ($($(#[$meta:meta])* $field:ident: $type:ty,)+) => {
        /// Fields to change with [`LLMRequest::update`]; `None` keeps a field.
        #[derive(Clone, Debug, Default)]
        pub struct RequestPatch {
            $($(#[$meta])* pub $field: Option<$type>,)+
        }

        impl RequestPatch {
            /// Whether nothing changes.
            pub const fn is_empty(&self) -> bool {
                true $(&& self.$field.is_none())+
            }

            fn apply(self, fields: &mut RequestFields) {
                $(if let Some(value) = self.$field {
                    fields.$field = value;
                })+
            }
        }
    };
}

patch! {
    /// Correlation id.
    id: Option<String>,
    /// The model.
    model: LanguageModel,
    /// Initial privileged prompt.
    system: Vec<SystemPart>,
    /// History in order.
    messages: Vec<Arc<Message>>,
    /// Tools.
    tools: Vec<Arc<ToolDefinition>>,
    /// Tool choice.
    tool_choice: Option<ToolChoice>,
    /// Sampling and length.
    generation: Option<GenerationOptions>,
    /// Provider options.
    provider_options: Option<JsonObject>,
    /// Overlays and timers.
    http: Option<HttpOptions>,
    /// Prompt-cache policy.
    cache: CachePolicy,
    /// Affinity key.
    prompt_cache_key: Option<String>,
    /// Caller data.
    metadata: Option<JsonObject>,
}
