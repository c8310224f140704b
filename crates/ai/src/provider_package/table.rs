//! Which packages there are.

use super::{Setup, clouds};
use crate::providers::{self, Api, Provider, ProviderOptions};
use crate::schema::errors::ConfigurationError;
use crate::schema::model::LanguageModel;

/// Makes a model of the settings of an entry. The API is the one the path names, if it names one.
pub(super) type Make = fn(Setup<'_>, Option<Api>) -> Result<LanguageModel, ConfigurationError>;

/// A package.
#[derive(Debug)]
pub struct PackageInfo {
    /// Its path; `<path>/<api>` chooses an API.
    pub path: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// Environment variables of its key, in order.
    pub env: &'static [&'static str],
    /// Whether a call without a key is an error.
    pub needs_key: bool,
    /// The setting that takes a key found elsewhere, in the environment or among stored credentials.
    pub key_setting: &'static str,
    /// Its APIs, the default first; none when the model decides and the path cannot.
    pub apis: &'static [Api],
    /// Connection settings that may come from the environment, with their variables in order.
    pub settings_env: &'static [(&'static str, &'static [&'static str])],
    pub(super) make: Make,
}

/// A provider that needs a key.
const fn keyed(
    path: &'static str,
    name: &'static str,
    env: &'static [&'static str],
    apis: &'static [Api],
    make: Make,
) -> PackageInfo {
    PackageInfo { path, name, env, needs_key: true, key_setting: "apiKey", apis, settings_env: &[], make }
}

/// A server that may do without a key.
const fn open(
    path: &'static str,
    name: &'static str,
    env: &'static [&'static str],
    apis: &'static [Api],
    make: Make,
) -> PackageInfo {
    PackageInfo { needs_key: false, ..keyed(path, name, env, apis, make) }
}

const CHAT: &[Api] = &[Api::Chat];
const MESSAGES: &[Api] = &[Api::Messages];
const RESPONSES_CHAT: &[Api] = &[Api::Responses, Api::Chat];

/// Every package, by provider.
static PACKAGES: &[PackageInfo] = &[
    keyed("anthropic", "Anthropic", providers::anthropic::ENV, MESSAGES, providers::anthropic::package),
    keyed("openai", "OpenAI", providers::openai::ENV, RESPONSES_CHAT, providers::openai::package),
    keyed("mistral", "Mistral", providers::mistral::ENV, CHAT, |setup, _| named(setup, providers::mistral::configure)),
    keyed("google", "Google", providers::google::ENV, &[Api::Gemini], |setup, _| {
        named(setup, providers::google::configure)
    }),
    keyed("amazon-bedrock", "Amazon Bedrock", providers::amazon_bedrock::ENV, &[Api::Converse], clouds::bedrock),
    keyed(
        "google-vertex",
        "Google Vertex AI",
        providers::google_vertex::ENV,
        &[Api::Gemini, Api::Messages, Api::Chat],
        clouds::vertex,
    ),
    keyed(
        "alibaba",
        "Alibaba Cloud",
        providers::alibaba::ENV,
        &[Api::Chat, Api::Messages, Api::Responses],
        providers::alibaba::package,
    ),
    PackageInfo {
        settings_env: providers::azure::SETTINGS_ENV,
        ..keyed("azure", "Azure OpenAI", providers::azure::ENV, RESPONSES_CHAT, providers::azure::package)
    },
    PackageInfo {
        key_setting: providers::cloudflare_ai_gateway::KEY_SETTING,
        settings_env: providers::cloudflare_ai_gateway::SETTINGS_ENV,
        ..keyed(
            "cloudflare-ai-gateway",
            "Cloudflare AI Gateway",
            providers::cloudflare_ai_gateway::ENV,
            CHAT,
            providers::cloudflare_ai_gateway::package,
        )
    },
    PackageInfo {
        settings_env: providers::cloudflare_workers_ai::SETTINGS_ENV,
        ..keyed(
            "cloudflare-workers-ai",
            "Cloudflare Workers AI",
            providers::cloudflare_workers_ai::ENV,
            CHAT,
            providers::cloudflare_workers_ai::package,
        )
    },
    keyed(
        "digitalocean",
        "DigitalOcean",
        providers::digitalocean::ENV,
        &[Api::Responses, Api::Messages, Api::Chat],
        providers::digitalocean::package,
    ),
    keyed("github-copilot", "GitHub Copilot", &[], &[Api::Chat, Api::Responses], providers::github_copilot::package),
    keyed("meta", "Meta", providers::meta::ENV, RESPONSES_CHAT, providers::meta::package),
    keyed(
        "minimax",
        "MiniMax",
        providers::minimax::ENV,
        &[Api::Messages, Api::Chat, Api::Responses],
        providers::minimax::package,
    ),
    keyed(
        "moonshotai",
        "Moonshot AI",
        providers::moonshotai::ENV,
        &[Api::Chat, Api::Messages, Api::Responses],
        providers::moonshotai::package,
    ),
    keyed(
        "openrouter",
        "OpenRouter",
        providers::openrouter::ENV,
        &[Api::Chat, Api::Responses],
        providers::openrouter::package,
    ),
    keyed(
        "vercel-ai-gateway",
        "Vercel AI Gateway",
        providers::vercel_ai_gateway::ENV,
        &[Api::Messages, Api::Responses, Api::Chat],
        providers::vercel_ai_gateway::package,
    ),
    keyed("xai", "xAI", providers::xai::ENV, RESPONSES_CHAT, providers::xai::package),
    keyed("zai", "Z.ai", providers::zai::ENV, CHAT, |setup, _| named(setup, providers::zai::configure)),
    keyed("zai-coding-plan", "Z.ai coding plan", providers::zai_coding_plan::ENV, CHAT, |setup, _| {
        named(setup, providers::zai_coding_plan::configure)
    }),
    keyed("baseten", "Baseten", providers::baseten::ENV, CHAT, |setup, _| named(setup, providers::baseten::configure)),
    keyed("cerebras", "Cerebras", providers::cerebras::ENV, CHAT, |setup, _| {
        named(setup, providers::cerebras::configure)
    }),
    keyed("deepinfra", "DeepInfra", providers::deepinfra::ENV, CHAT, |setup, _| {
        named(setup, providers::deepinfra::configure)
    }),
    keyed("deepseek", "DeepSeek", providers::deepseek::ENV, CHAT, |setup, _| {
        named(setup, providers::deepseek::configure)
    }),
    keyed("fireworks", "Fireworks AI", providers::fireworks::ENV, CHAT, |setup, _| {
        named(setup, providers::fireworks::configure)
    }),
    keyed("groq", "Groq", providers::groq::ENV, CHAT, |setup, _| named(setup, providers::groq::configure)),
    keyed("togetherai", "Together AI", providers::togetherai::ENV, CHAT, |setup, _| {
        named(setup, providers::togetherai::configure)
    }),
    open("perplexity", "Perplexity", &[], CHAT, |setup, _| at(setup, "https://api.perplexity.ai")),
    open("vercel", "v0", &[], CHAT, |setup, _| at(setup, "https://api.v0.dev/v1")),
    open("venice", "Venice", &[], CHAT, |setup, _| at(setup, "https://api.venice.ai/api/v1")),
    open("ollama", "Ollama", providers::ollama::ENV, CHAT, |setup, _| named(setup, providers::ollama::configure)),
    open("lmstudio", "LM Studio", providers::lmstudio::ENV, CHAT, |setup, _| {
        named(setup, providers::lmstudio::configure)
    }),
    open("llama.cpp", "llama.cpp", providers::llama_cpp::ENV, CHAT, |setup, _| {
        named(setup, providers::llama_cpp::configure)
    }),
    open("vllm", "vLLM", providers::vllm::ENV, CHAT, |setup, _| named(setup, providers::vllm::configure)),
    open(
        "openai-compatible",
        "OpenAI-compatible server",
        &[],
        &[Api::Chat, Api::Responses],
        providers::openai_compatible::package,
    ),
    open(
        "anthropic-compatible",
        "Anthropic-compatible server",
        &[],
        MESSAGES,
        providers::anthropic_compatible::package,
    ),
];

/// Every package, by provider.
pub fn packages() -> &'static [PackageInfo] {
    PACKAGES
}

/// Other spellings of paths.
fn canonical(path: &str) -> &str {
    match path {
        "llamacpp" | "llama-cpp" => "llama.cpp",
        "openai-compatible-responses" => "openai-compatible/responses",
        _ => path,
    }
}

/// The package of a path, and the API the path names.
pub(super) fn find(path: &str) -> Option<(&'static PackageInfo, Option<Api>)> {
    let path = canonical(path);
    if let Some(package) = PACKAGES.iter().find(|package| package.path == path) {
        return Some((package, None));
    }
    let (path, api) = path.rsplit_once('/')?;
    let package = PACKAGES.iter().find(|package| package.path == path)?;
    let api = package.apis.iter().copied().find(|known| known.name() == api)?;
    Some((package, Some(api)))
}

fn named(setup: Setup<'_>, configure: fn(ProviderOptions) -> Provider) -> Result<LanguageModel, ConfigurationError> {
    let (common, selection) = setup.finish();
    configure(common).select(selection)
}

/// An address of the Chat protocol without a file of its own.
fn at(setup: Setup<'_>, base_url: &str) -> Result<LanguageModel, ConfigurationError> {
    let (mut common, selection) = setup.finish();
    common.base_url.get_or_insert_with(|| base_url.to_owned());
    providers::openai_compatible::configure(common).select(selection)
}
