//! Azure OpenAI.

use std::sync::Arc;

use url::Url;

use super::openai::with_default_options;
use super::{Api, Apis, Provider, ProviderOptions, own_route};
use crate::protocols::{openai_chat, openai_responses};
use crate::provider_package::Setup;
use crate::route::auth::Auth;
use crate::route::auth_options::{AuthOptions, ProviderAuthOption};
use crate::route::endpoint::{EndpointPatch, Path};
use crate::route::{ModelSelection, Route, RoutePatch};
use crate::schema::errors::ConfigurationError;
use crate::schema::ids::ModelId;
use crate::schema::model::{Compatibility, LanguageModel};

/// The id of the provider, and its namespace in provider metadata.
pub const ID: &str = "azure";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["AZURE_OPENAI_API_KEY"];
/// Settings that may come from the environment.
pub const SETTINGS_ENV: &[(&str, &[&str])] = &[("resourceName", &["AZURE_RESOURCE_NAME"])];
/// The host of all resources.
const HOST: &str = ".openai.azure.com";

/// What Azure can be configured with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What every provider can be configured with.
    pub common: ProviderOptions,
    /// The resource, unless there is a base URL.
    pub resource_name: Option<String>,
    /// The version of the API, `v1` when absent.
    pub api_version: Option<String>,
    /// Whether the deployment stands in the URL (`…/openai/deployments/<id>/…`), as older API versions want it.
    pub uses_deployment_urls: bool,
}

/// Azure with its APIs. Model ids are the names of deployments.
#[derive(Clone, Debug)]
pub struct Azure(Apis);

/// Configures the provider; Responses is the default API.
///
/// # Errors
/// When there is neither resource nor base URL.
pub fn configure(options: Options) -> Result<Azure, ConfigurationError> {
    let mut common = options.common;
    let id = common.provider.clone().unwrap_or_else(|| ID.into());
    let url = match (common.base_url.take(), options.resource_name) {
        (Some(url), _) => url,
        (None, Some(resource)) => format!("https://{resource}{HOST}"),
        (None, None) => return Err(ConfigurationError::new(id, "no resource is set; set resourceName or baseURL")),
    };
    let is_azure = Url::parse(&url).is_ok_and(|url| url.host_str().is_some_and(|host| host.ends_with(HOST)));
    // Other hosts, such as a gateway of the user, know best what they want.
    let is_by_deployment = is_azure && options.uses_deployment_urls;
    common.base_url = Some(if is_azure { azure_url(&url, is_by_deployment) } else { url });
    if is_azure {
        let version = options.api_version.unwrap_or_else(|| "v1".to_owned());
        common.query.entry("api-version".to_owned()).or_insert(version);
    }
    let auth = match common.auth.clone() {
        explicit @ ProviderAuthOption::Auth(_) => AuthOptions::header(explicit, &[], "api-key"),
        key => AuthOptions::header(key, &common.env_or(ENV), "api-key").and_then(Auth::remove("authorization")),
    };
    let compatibility = Compatibility { supports_prompt_cache_key: Some(true), ..Compatibility::default() };
    let provider = |base: &Route, id: &str, path: &'static str| {
        let path = is_by_deployment.then(|| deployment_path(path));
        let endpoint = EndpointPatch { path, ..EndpointPatch::default() };
        let route = own_route(base, id, ID, None).with(RoutePatch { endpoint, ..RoutePatch::default() });
        Provider::new(ID, &route, common.clone(), auth.clone(), compatibility.clone())
    };
    Ok(Azure(Apis::new(
        id,
        |_| Api::Responses,
        [
            (Api::Responses, provider(&openai_responses::route(), "azure-openai-responses", "/responses")),
            (Api::Chat, provider(&openai_chat::route(), "azure-openai-chat", openai_chat::PATH)),
        ],
    )))
}

/// The base of a resource: `…/openai/v1`, or `…/openai` when the path names the deployment.
fn azure_url(url: &str, is_by_deployment: bool) -> String {
    let base = url.trim_end_matches('/');
    let base = base.strip_suffix("/v1").unwrap_or(base);
    let base = base.strip_suffix("/openai").unwrap_or(base);
    if is_by_deployment { format!("{base}/openai") } else { format!("{base}/openai/v1") }
}

fn deployment_path(path: &'static str) -> Path {
    Path::Computed(Arc::new(move |request, _| {
        let id: String = url::form_urlencoded::byte_serialize(request.model.id.as_str().as_bytes()).collect();
        format!("/deployments/{id}{path}")
    }))
}

impl Azure {
    /// Selects a deployment for the default API, which is Responses.
    ///
    /// # Errors
    /// Never for a configured resource.
    pub fn model(&self, id: impl Into<ModelId>) -> Result<LanguageModel, ConfigurationError> {
        self.responses(id)
    }

    /// Selects a deployment for the Responses API.
    ///
    /// # Errors
    /// Never for a configured resource.
    pub fn responses(&self, id: impl Into<ModelId>) -> Result<LanguageModel, ConfigurationError> {
        self.select(Api::Responses, ModelSelection::new(id))
    }

    /// Selects a deployment for the Chat API.
    ///
    /// # Errors
    /// Never for a configured resource.
    pub fn chat(&self, id: impl Into<ModelId>) -> Result<LanguageModel, ConfigurationError> {
        self.select(Api::Chat, ModelSelection::new(id))
    }

    /// Selects a deployment with defaults and overrides of its own.
    ///
    /// # Errors
    /// When there is no such API.
    pub fn select(&self, api: Api, selection: ModelSelection) -> Result<LanguageModel, ConfigurationError> {
        self.0.select(Some(api), with_default_options(selection, api))
    }
}

/// Makes a model of settings.
pub(crate) fn package(mut setup: Setup<'_>, api: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let resource_name = setup.text("resourceName")?;
    let api_version = setup.text("apiVersion")?;
    let uses_deployment_urls = setup.flag("useDeploymentBasedUrls")?.unwrap_or(false);
    let (common, selection) = setup.finish();
    let azure = configure(Options { common, resource_name, api_version, uses_deployment_urls })?;
    azure.select(api.unwrap_or(Api::Responses), selection)
}
