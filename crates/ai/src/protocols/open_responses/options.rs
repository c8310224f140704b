//! Provider options. A malformed one is dropped alone; the others stay.

use serde_json::Value;

use super::body::{
    AllowedTools, BodyOptions, NamedTool, PromptCacheOptions, Reasoning, TextOptions, WireStreamOptions, WireToolChoice,
};
use super::dialect::Dialect;
use crate::protocols::shared::{self, Choice};
use crate::schema::errors::AIError;
use crate::schema::request::LLMRequest;

/// The most log probabilities the wire takes.
const MAX_TOP_LOGPROBS: u64 = 20;

/// Reads the options that become fields of their own.
pub(super) fn body_options<'r>(request: &'r LLMRequest, dialect: &dyn Dialect) -> BodyOptions<'r> {
    let text = |name: &str| request.option(name).and_then(Value::as_str);
    let reasoning = Reasoning {
        effort: text("reasoningEffort"),
        summary: text("reasoningSummary").filter(|word| matches!(*word, "auto" | "concise" | "detailed")),
    };
    BodyOptions {
        store: request.option("store").and_then(Value::as_bool),
        metadata: request.option("metadata").and_then(Value::as_object),
        safety_identifier: text("safetyIdentifier"),
        stream_options: request
            .option("streamOptions")
            .and_then(|options| options.get("includeObfuscation"))
            .and_then(Value::as_bool)
            .map(|include_obfuscation| WireStreamOptions { include_obfuscation }),
        top_logprobs: request
            .option("topLogprobs")
            .and_then(Value::as_u64)
            .filter(|n_logprobs| *n_logprobs <= MAX_TOP_LOGPROBS),
        truncation: text("truncation").filter(|word| matches!(*word, "auto" | "disabled")),
        service_tier: text("serviceTier"),
        prompt_cache_retention: text("promptCacheRetention"),
        prompt_cache_options: prompt_cache_options(request),
        include: include(request),
        reasoning: (reasoning.effort.is_some() || reasoning.summary.is_some()).then_some(reasoning),
        text: text("textVerbosity").map(|verbosity| TextOptions { verbosity }),
        max_tool_calls: request.option("maxToolCalls").and_then(Value::as_u64),
        context_management: request
            .option("contextManagement")
            .filter(|_| dialect.manages_context())
            .and_then(Value::as_array),
    }
}

fn prompt_cache_options(request: &LLMRequest) -> Option<PromptCacheOptions<'_>> {
    let options = request.option("promptCacheOptions")?;
    let mode = options.get("mode").and_then(Value::as_str);
    let ttl = options.get("ttl").filter(|ttl| ttl.is_string() || ttl.is_u64());
    (mode.is_some() || ttl.is_some()).then_some(PromptCacheOptions { mode, ttl })
}

/// What to include; an empty list means nothing, also where a route has a default.
fn include(request: &LLMRequest) -> Option<Vec<&str>> {
    let words: Vec<_> = request.option("include")?.as_array()?.iter().filter_map(Value::as_str).collect();
    (!words.is_empty()).then_some(words)
}

/// The tool choice; none without tools.
pub(super) fn tool_choice<'r>(
    request: &'r LLMRequest,
    key: &str,
    dialect: &dyn Dialect,
) -> Result<Option<WireToolChoice<'r>>, AIError> {
    if request.tools.is_empty() {
        return Ok(None);
    }
    let choice =
        request.tool_choice.as_ref().map(|choice| shared::match_tool_choice(dialect.name(), choice)).transpose()?;
    let allowed = match choice {
        None | Some(Choice::Auto) => allowed_tools(request, "auto"),
        Some(Choice::Required) => allowed_tools(request, "required"),
        Some(Choice::None | Choice::Tool(_)) => None,
    };
    if let Some(allowed) = allowed {
        return Ok(Some(WireToolChoice::Allowed(allowed)));
    }
    Ok(choice.map(|choice| match choice {
        Choice::Auto => WireToolChoice::Mode("auto"),
        Choice::None => WireToolChoice::Mode("none"),
        Choice::Required => WireToolChoice::Mode("required"),
        Choice::Tool(name) => {
            let hosted = request
                .tools
                .iter()
                .find(|tool| tool.name == name)
                .and_then(|tool| tool.native.as_ref()?.get(key))
                .and_then(|native| dialect.hosted_choice(native));
            WireToolChoice::Named(match hosted {
                Some(kind) => NamedTool { kind, name: None },
                None => NamedTool { kind: "function", name: Some(name) },
            })
        }
    }))
}

fn allowed_tools<'r>(request: &'r LLMRequest, default_mode: &'static str) -> Option<AllowedTools<'r>> {
    let option = request.option("allowedTools")?;
    let tools: Vec<_> = option
        .get("toolNames")?
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .map(|name| NamedTool { kind: "function", name: Some(name) })
        .collect();
    let mode = match option.get("mode").and_then(Value::as_str) {
        Some("auto") => "auto",
        Some("required") => "required",
        Some(_) | None => default_mode,
    };
    (!tools.is_empty()).then_some(AllowedTools { mode, tools })
}

/// Whether calls may be made side by side; none says nothing.
pub(super) fn parallel_tool_calls(request: &LLMRequest) -> Option<bool> {
    if request.tools.is_empty() {
        return None;
    }
    request
        .option("parallelToolCalls")
        .and_then(Value::as_bool)
        .or_else(|| request.tool_choice.as_ref()?.disable_parallel_tool_use.map(|is_disabled| !is_disabled))
}
