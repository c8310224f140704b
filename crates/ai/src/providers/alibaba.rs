//! Alibaba Cloud Model Studio (DashScope).

use super::{Api, Apis, Provider, ProviderOptions, own_route};
use crate::protocols::openai_chat::{InlineMarks, OpenAiChat};
use crate::protocols::{anthropic_messages, open_responses, openai_compatible_chat};
use crate::provider_package::Setup;
use crate::route::auth_options::AuthOptions;
use crate::schema::JsonObject;
use crate::schema::errors::ConfigurationError;
use crate::schema::model::{Compatibility, LanguageModel, MaxTokensField};

/// The id of the provider, and its namespace in provider metadata.
pub const ID: &str = "alibaba";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["DASHSCOPE_API_KEY", "ALIBABA_API_KEY"];

/// The hosts of the regions.
const HOSTS: [(&str, &str); 4] = [
    ("ap-southeast-1", "dashscope-intl.aliyuncs.com"),
    ("cn-beijing", "dashscope.aliyuncs.com"),
    ("cn-hongkong", "cn-hongkong.dashscope.aliyuncs.com"),
    ("us-east-1", "dashscope-us.aliyuncs.com"),
];

/// What Alibaba can be configured with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What every provider can be configured with.
    pub common: ProviderOptions,
    /// The region, unless there is a base URL.
    pub region: Option<String>,
    /// The workspace, which has hosts of its own.
    pub workspace: Option<String>,
}

/// Configures the provider; Chat is the default API.
///
/// # Errors
/// When there is neither region nor base URL, or the region is unknown.
pub fn configure(options: Options) -> Result<Apis, ConfigurationError> {
    let common = options.common;
    let id = common.provider.clone().unwrap_or_else(|| ID.into());
    let host = if common.base_url.is_some() {
        String::new()
    } else {
        let known = || HOSTS.map(|(region, _)| region).join(", ");
        let Some(region) = options.region else {
            let message = format!("no region is set; set region ({}) or baseURL", known());
            return Err(ConfigurationError::new(id, message));
        };
        match (options.workspace, HOSTS.iter().find(|(name, _)| *name == region)) {
            (Some(workspace), _) => format!("{workspace}.{region}.maas.aliyuncs.com"),
            (None, Some((_, host))) => (*host).to_owned(),
            (None, None) => {
                let message = format!("the region {region:?} is unknown; known are {}", known());
                return Err(ConfigurationError::new(id, message));
            }
        }
    };
    let (compatible, apps) =
        (format!("https://{host}/compatible-mode/v1"), format!("https://{host}/apps/anthropic/v1"));
    let auth = AuthOptions::bearer(common.auth.clone(), &common.env_or(ENV));
    let compatibility = Compatibility {
        max_tokens_field: Some(MaxTokensField::MaxTokens),
        supports_store: Some(false),
        supports_strict_mode: Some(false),
        ..Compatibility::default()
    };
    let provider = |route| Provider::new(ID, &route, common.clone(), auth.clone(), compatibility.clone());
    let variant = OpenAiChat { marks: InlineMarks::Qwen, ..OpenAiChat::default() };
    let chat = openai_compatible_chat::variant("alibaba-chat", variant, |_| JsonObject::new());
    Ok(Apis::new(
        id,
        |_| Api::Chat,
        [
            (Api::Chat, provider(own_route(&chat, "alibaba-chat", ID, Some(&compatible)))),
            (Api::Messages, provider(own_route(&anthropic_messages::route(), "alibaba-messages", ID, Some(&apps)))),
            (Api::Responses, provider(own_route(&open_responses::route(), "alibaba-responses", ID, Some(&compatible)))),
        ],
    ))
}

/// Makes a model of settings.
pub(crate) fn package(mut setup: Setup<'_>, api: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let (region, workspace) = (setup.text("region")?, setup.text("workspace")?);
    let (common, selection) = setup.finish();
    configure(Options { common, region, workspace })?.select(api, selection)
}
