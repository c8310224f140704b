//! How servers of the Chat protocol differ.

use crate::schema::model::MaxTokensField;
use crate::schema::request::LLMRequest;

/// The differences of one model, detected from provider id, host and model id; a set field of
/// `compatibility` always wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quirks {
    /// The field of the output cap.
    pub max_tokens_field: MaxTokensField,
    /// `store` is known.
    pub has_store: bool,
    /// `strict` is known.
    pub has_strict: bool,
    /// `stream_options.include_usage` is known.
    pub has_stream_usage: bool,
    /// `prompt_cache_key` is known.
    pub has_cache_key: bool,
    /// `tool_stream` is needed to stream arguments.
    pub needs_tool_stream: bool,
    /// Every assistant message carries the reasoning field.
    pub needs_reasoning: bool,
    /// Reasoning of history is sent at all.
    pub takes_reasoning: bool,
    /// An assistant turn stands between tool and user.
    pub needs_assistant_after_tool: bool,
    /// `tools: []` when history has calls but no tool is active.
    pub needs_tools_with_history: bool,
    /// User and assistant alternate; user messages in a row are joined.
    pub needs_alternation: bool,
    /// How call ids are written.
    pub call_ids: CallIds,
}

/// How call ids are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallIds {
    /// As they are.
    Unchanged,
    /// Nine letters or digits.
    Mistral,
    /// Letters, digits, `_` and `-`.
    Claude,
    /// At most 40 letters.
    Short,
}

const ZAI: [&str; 4] = ["zai", "zai-coding-plan", "zhipuai", "zhipuai-coding-plan"];
const ZAI_HOSTS: [&str; 2] = ["api.z.ai", "open.bigmodel.cn"];
/// Models of the z.ai family that do not know `tool_stream`.
const ZAI_OLD: [&str; 4] = ["glm-4.5", "glm-4.5-air", "glm-4.5-flash", "glm-4.5v"];
const MISTRAL: [&str; 8] =
    ["mistral", "mixtral", "ministral", "codestral", "devstral", "magistral", "pixtral", "voxtral"];
const LOCAL: [&str; 6] = ["ollama", "lmstudio", "llama.cpp", "llamacpp", "llama-cpp", "vllm"];

impl Quirks {
    /// Detects the differences of the model of a request.
    pub fn of(request: &LLMRequest) -> Self {
        let model = &request.model;
        let compat = &model.compatibility;
        let provider = model.provider.as_str();
        let host = model.route.endpoint().host();
        let id = model.id.as_str().to_ascii_lowercase();
        let is = |ids: &[&str], hosts: &[&str]| ids.contains(&provider) || hosts.iter().any(|part| host.contains(part));
        let is_zai = is(&ZAI, &ZAI_HOSTS) || model.route.id().as_str() == "zai-chat";
        let is_moonshot = is(&["moonshotai"], &["api.moonshot.ai"]);
        let is_together = is(&["togetherai"], &["api.together."]);
        let is_nvidia = is(&["nvidia"], &["integrate.api.nvidia.com"]);
        let is_gateway = is(&["cloudflare-ai-gateway"], &["gateway.ai.cloudflare.com"]);
        let is_deepseek = is(&["deepseek"], &["deepseek.com"]);
        let is_older = is_zai
            || is_moonshot
            || is_together
            || is_nvidia
            || is_gateway
            || is_deepseek
            || is(&["cerebras"], &["cerebras.ai"])
            || is(&["chutes"], &["llm.chutes.ai"])
            || is(&["cloudflare-workers-ai"], &["api.cloudflare.com"]);
        let has_no_store = is_older
            || is(
                &["xai", "vercel-ai-gateway", "ant-ling", "opencode", "moonshotai-cn"],
                &["api.x.ai", "ai-gateway.vercel.sh"],
            );
        let is_mistral = provider == "mistral" || MISTRAL.iter().any(|family| id.contains(family));
        let is_openai = is(&["openai", "azure"], &["api.openai.com", ".openai.azure.com"]);
        let last = id.rsplit('/').next().unwrap_or_default();
        Self {
            max_tokens_field: compat.max_tokens_field.clone().unwrap_or(if is_older {
                MaxTokensField::MaxTokens
            } else {
                MaxTokensField::MaxCompletionTokens
            }),
            has_store: compat.supports_store.unwrap_or(!has_no_store),
            has_strict: compat.supports_strict_mode.unwrap_or(!(is_moonshot || is_together || is_gateway || is_nvidia)),
            has_stream_usage: compat.supports_usage_in_streaming.unwrap_or(true),
            has_cache_key: compat.supports_prompt_cache_key.unwrap_or(false),
            needs_tool_stream: compat.zai_tool_stream.unwrap_or(is_zai && !ZAI_OLD.contains(&last)),
            needs_reasoning: compat
                .require_reasoning
                .unwrap_or(is_deepseek || id.contains("deepseek") || compat.reasoning_field.is_some()),
            takes_reasoning: !is_openai || compat.reasoning_field.is_some(),
            needs_assistant_after_tool: compat.require_assistant_after_tool.unwrap_or(is_mistral),
            needs_tools_with_history: compat.require_tools_with_history.unwrap_or(false),
            needs_alternation: compat.require_alternating_roles.unwrap_or_else(|| LOCAL.contains(&provider)),
            call_ids: if is_mistral {
                CallIds::Mistral
            } else if id.contains("claude") {
                CallIds::Claude
            } else if is_openai || id.starts_with("openai/") {
                CallIds::Short
            } else {
                CallIds::Unchanged
            },
        }
    }
}
