//! Amazon Bedrock, over its Converse API.

use super::{Provider, ProviderOptions};
use crate::protocols::bedrock_converse;
use crate::route::ModelSelection;
use crate::route::auth::{Auth, AwsCredentials, AwsSignature, Credential};
use crate::route::auth_options::ProviderAuthOption;
use crate::route::host::{Host, ProcessHost};
use crate::schema::errors::ConfigurationError;
use crate::schema::ids::ModelId;
use crate::schema::model::{Compatibility, LanguageModel};

/// The id of the provider.
pub const ID: &str = "amazon-bedrock";
/// The variables of its bearer token, in order.
pub const ENV: &[&str] = &["AWS_BEARER_TOKEN_BEDROCK"];
/// Variables that show that there are AWS credentials to sign with.
pub const AMBIENT: &[&str] = &["AWS_ACCESS_KEY_ID", "AWS_PROFILE"];
/// The variables of the region, in order.
const REGION_ENV: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];
/// The region when nothing names one.
const DEFAULT_REGION: &str = "us-east-1";

/// What Bedrock can be configured with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What every provider can be configured with; the key is a bearer token.
    pub common: ProviderOptions,
    /// The region; `AWS_REGION`, else `AWS_DEFAULT_REGION`, else `us-east-1`.
    pub region: Option<String>,
    /// Keys to sign with; the environment and the files of the AWS tools otherwise.
    pub credentials: Option<AwsCredentials>,
    /// The profile in those files.
    pub profile: Option<String>,
}

/// Bedrock in one region.
#[derive(Clone, Debug)]
pub struct AmazonBedrock {
    provider: Provider,
    region: String,
}

/// Configures the provider with the environment of this process.
pub fn configure(options: Options) -> AmazonBedrock {
    configure_in(options, &ProcessHost)
}

/// Configures the provider. A bearer token comes before a signature.
pub fn configure_in(mut options: Options, host: &dyn Host) -> AmazonBedrock {
    let from_env = || REGION_ENV.iter().find_map(|name| host.env(name)).filter(|region| !region.trim().is_empty());
    let region =
        options.region.or_else(from_env).map_or_else(|| DEFAULT_REGION.to_owned(), |own| own.trim().to_owned());
    let signature = Auth::custom(AwsSignature {
        service: "bedrock",
        region: region.clone(),
        credentials: options.credentials,
        profile: options.profile,
    });
    let auth = match &options.common.auth {
        ProviderAuthOption::Auth(auth) => auth.clone(),
        ProviderAuthOption::ApiKey(token) => Auth::bearer(token.clone()),
        ProviderAuthOption::Environment => {
            let env = options.common.env_or(ENV);
            Credential::FirstOf(env.iter().map(|name| Credential::Env((*name).into())).collect())
                .bearer()
                .or_else(signature)
        }
    };
    options.common.base_url.get_or_insert_with(|| bedrock_converse::base_url(&region));
    let provider = Provider::new(ID, &bedrock_converse::route(), options.common, auth, Compatibility::default());
    AmazonBedrock { provider, region }
}

impl AmazonBedrock {
    /// Selects a model; where the region serves it only through an inference profile, the id gets the
    /// prefix of that profile.
    ///
    /// # Errors
    /// Never for the default address.
    pub fn model(&self, id: impl Into<ModelId>) -> Result<LanguageModel, ConfigurationError> {
        self.select(ModelSelection::new(id))
    }

    /// Selects a model with defaults and overrides of its own; otherwise as [`AmazonBedrock::model`].
    ///
    /// # Errors
    /// Never for the default address.
    pub fn select(&self, mut selection: ModelSelection) -> Result<LanguageModel, ConfigurationError> {
        if let Some(prefix) = profile_prefix(&self.region, selection.id.as_str()) {
            selection.id = format!("{prefix}.{}", selection.id).into();
        }
        self.provider.select(selection)
    }
}

/// The regions of Europe whose inference profile is `eu`.
const EU_PROFILE: [&str; 7] =
    ["eu-central-1", "eu-north-1", "eu-south-1", "eu-south-2", "eu-west-1", "eu-west-2", "eu-west-3"];

/// The prefix a model needs in a region; none when it has one, is named by an ARN, or needs none.
fn profile_prefix(region: &str, id: &str) -> Option<&'static str> {
    let has_prefix = ["global.", "us.", "eu.", "jp.", "apac.", "au."].iter().any(|prefix| id.starts_with(prefix));
    if has_prefix || id.starts_with("arn:") || region.starts_with("us-gov-") {
        return None;
    }
    let is_any = |names: &[&str]| names.iter().any(|name| id.contains(name));
    match region.split('-').next() {
        Some("us") => is_any(&["amazon.nova", "claude", "deepseek"]).then_some("us"),
        Some("eu") if EU_PROFILE.contains(&region) => {
            is_any(&["claude", "nova-lite", "nova-micro", "llama3", "pixtral"]).then_some("eu")
        }
        Some("ap") => {
            let is_australia = matches!(region, "ap-southeast-2" | "ap-southeast-4");
            if is_australia && is_any(&["claude-sonnet-4-5", "claude-haiku"]) {
                return Some("au");
            }
            let profile = if region == "ap-northeast-1" { "jp" } else { "apac" };
            is_any(&["claude", "nova-lite", "nova-micro", "nova-pro"]).then_some(profile)
        }
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::profile_prefix;

    #[test]
    fn prefixes() {
        #[track_caller]
        fn check(region: &str, id: &str, wanted: Option<&str>) {
            assert_eq!(profile_prefix(region, id), wanted, "{id} in {region}");
        }
        for id in
            ["global.anthropic.claude-sonnet-4-5", "us.amazon.nova-micro-v1:0", "arn:aws:bedrock:us-east-1:1:x/claude"]
        {
            check("us-east-1", id, None);
        }
        check("us-east-1", "anthropic.claude-sonnet-4-5-20250929-v1:0", Some("us"));
        check("us-west-2", "amazon.nova-pro-v1:0", Some("us"));
        check("us-west-2", "deepseek.r1-v1:0", Some("us"));
        check("us-west-2", "meta.llama3-1-8b-instruct-v1:0", None);
        check("us-gov-west-1", "anthropic.claude-sonnet-4-5-20250929-v1:0", None);
        check("eu-west-1", "meta.llama3-2-1b-instruct-v1:0", Some("eu"));
        check("eu-west-1", "amazon.nova-pro-v1:0", None);
        check("eu-central-2", "anthropic.claude-haiku-4-5-20251001-v1:0", None);
        check("ap-southeast-2", "anthropic.claude-sonnet-4-5-20250929-v1:0", Some("au"));
        check("ap-southeast-2", "anthropic.claude-opus-4-1-20250805-v1:0", Some("apac"));
        check("ap-northeast-1", "amazon.nova-lite-v1:0", Some("jp"));
        check("ap-south-1", "amazon.nova-pro-v1:0", Some("apac"));
        check("ap-south-1", "cohere.command-r-v1:0", None);
        check("ca-central-1", "anthropic.claude-haiku-4-5-20251001-v1:0", None);
    }
}
