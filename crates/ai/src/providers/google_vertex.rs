//! Google Cloud's Vertex AI: Gemini, Claude, and models behind its Chat API.

use super::{Provider, ProviderOptions, google};
use crate::protocols::{anthropic_messages, gemini, openai_compatible_chat};
use crate::route::auth::{Auth, Credential, GoogleDefault, Secret};
use crate::route::auth_options::ProviderAuthOption;
use crate::route::endpoint::EndpointPatch;
use crate::route::host::{Host, ProcessHost};
use crate::route::{ModelSelection, Route, RoutePatch};
use crate::schema::errors::ConfigurationError;
use crate::schema::ids::{ModelId, ProviderId};
use crate::schema::model::{Compatibility, LanguageModel};

/// The id of the provider.
pub const ID: &str = "google-vertex";
/// The variables of its express key, in order.
pub const ENV: &[&str] = &["GOOGLE_VERTEX_API_KEY"];
/// Variables that show that there is a project to work in.
pub const AMBIENT: &[&str] = &[
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_VERTEX_PROJECT",
    "GOOGLE_CLOUD_PROJECT",
    "GCP_PROJECT",
    "GCLOUD_PROJECT",
];
/// The variables of the project, in order.
const PROJECT_ENV: [&str; 4] = ["GOOGLE_VERTEX_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCP_PROJECT", "GCLOUD_PROJECT"];
/// The variables of the location, in order.
const LOCATION_ENV: [&str; 3] = ["GOOGLE_VERTEX_LOCATION", "GOOGLE_CLOUD_LOCATION", "VERTEX_LOCATION"];
/// The address for express keys.
const EXPRESS_URL: &str = "https://aiplatform.googleapis.com/v1/publishers/google";

/// What Vertex can be configured with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What every provider can be configured with; the key is an express key.
    pub common: ProviderOptions,
    /// The project; from the environment when absent.
    pub project: Option<String>,
    /// The location; from the environment when absent, else a default of the API.
    pub location: Option<String>,
    /// A token, instead of application default credentials.
    pub access_token: Option<Secret>,
}

/// The APIs of Vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Gemini.
    Gemini,
    /// Claude, over the Messages protocol.
    Messages,
    /// Open models, over the Chat protocol.
    Chat,
}

/// One API of Vertex.
#[derive(Clone, Debug)]
pub struct GoogleVertex {
    provider: Provider,
    /// Where tuned models live; none for express keys.
    tuned: Option<String>,
}

/// Configures the provider with the environment of this process.
///
/// # Errors
/// See [`configure_in`].
pub fn configure(options: Options, api: Api) -> Result<GoogleVertex, ConfigurationError> {
    configure_in(options, api, &ProcessHost)
}

/// Configures the provider.
///
/// # Errors
/// When no project is known, when an express key is used for another API than Gemini, and when both a
/// key and a token are given.
pub fn configure_in(mut options: Options, api: Api, host: &dyn Host) -> Result<GoogleVertex, ConfigurationError> {
    let id = options.common.provider.clone().unwrap_or_else(|| ID.into());
    let variable = |name: &&str| host.env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let is_placed = options.project.is_some() || options.location.is_some();
    let key = match (&options.common.auth, &options.access_token) {
        (ProviderAuthOption::ApiKey(_), Some(_)) => {
            return Err(ConfigurationError::new(id, "both apiKey and accessToken are set; keep one"));
        }
        (ProviderAuthOption::ApiKey(key), None) => Some(key.clone()),
        (ProviderAuthOption::Environment, None) if api == Api::Gemini && !is_placed => {
            options.common.env_or(ENV).iter().find_map(variable).map(Secret::from)
        }
        (ProviderAuthOption::Environment | ProviderAuthOption::Auth(_), _) => None,
    };
    if let Some(key) = key {
        if api != Api::Gemini {
            return Err(ConfigurationError::new(id, "an API key serves only Gemini; set project and accessToken"));
        }
        options.common.base_url.get_or_insert_with(|| EXPRESS_URL.to_owned());
        let auth = Credential::Value(key).header(google::HEADER);
        return Ok(GoogleVertex { provider: provider(options.common, api, auth), tuned: None });
    }
    let auth = match (&options.common.auth, &options.access_token) {
        (ProviderAuthOption::Auth(auth), _) => auth.clone(),
        (_, Some(token)) => Auth::bearer(token.clone()),
        (ProviderAuthOption::Environment | ProviderAuthOption::ApiKey(_), None) => {
            Auth::custom(GoogleDefault::default())
        }
    };
    let project = options.project.or_else(|| PROJECT_ENV.iter().find_map(variable));
    let location = options.location.or_else(|| LOCATION_ENV.iter().find_map(variable));
    let tuned = match (&options.common.base_url, project) {
        (Some(own), _) => Some(own.clone()),
        (None, None) => return Err(no_project(id)),
        (None, Some(project)) => {
            let (version, default_location, below) = match api {
                Api::Gemini => ("v1beta1", "us-central1", "/publishers/google"),
                Api::Messages => ("v1", "global", "/publishers/anthropic/models"),
                Api::Chat => ("v1", "us-central1", "/endpoints/openapi"),
            };
            let location = location.unwrap_or_else(|| default_location.to_owned());
            let whole = format!("https://{}/{version}/projects/{project}/locations/{location}", host_name(&location));
            options.common.base_url = Some(format!("{whole}{below}"));
            Some(whole)
        }
    };
    Ok(GoogleVertex { provider: provider(options.common, api, auth), tuned })
}

fn provider(options: ProviderOptions, api: Api, auth: Auth) -> Provider {
    Provider::new(ID, &route(api), options, auth, Compatibility::default())
}

fn route(api: Api) -> Route {
    match api {
        Api::Gemini => gemini::vertex_route(EXPRESS_URL),
        Api::Messages => anthropic_messages::vertex_route(),
        Api::Chat => openai_compatible_chat::route(),
    }
}

fn no_project(id: ProviderId) -> ConfigurationError {
    ConfigurationError::new(id, format!("no project is set; set project, or one of {}", PROJECT_ENV.join(", ")))
}

/// The host of a location.
fn host_name(location: &str) -> String {
    match location {
        "global" => "aiplatform.googleapis.com".to_owned(),
        "eu" | "us" => format!("aiplatform.{location}.rep.googleapis.com"),
        region => format!("{region}-aiplatform.googleapis.com"),
    }
}

impl GoogleVertex {
    /// Selects a model; `endpoints/…` names a tuned one of the project.
    ///
    /// # Errors
    /// When a tuned model is asked for with an express key.
    pub fn model(&self, id: impl Into<ModelId>) -> Result<LanguageModel, ConfigurationError> {
        self.select(ModelSelection::new(id))
    }

    /// Selects a model with defaults and overrides of its own; otherwise as [`GoogleVertex::model`].
    ///
    /// # Errors
    /// When a tuned model is asked for with an express key.
    pub fn select(&self, selection: ModelSelection) -> Result<LanguageModel, ConfigurationError> {
        if !selection.id.as_str().starts_with("endpoints/") {
            return self.provider.select(selection);
        }
        let Some(tuned) = &self.tuned else {
            return Err(ConfigurationError::new(
                selection.provider.unwrap_or_else(|| ID.into()),
                format!("the tuned model {} needs a project, not an API key", selection.id),
            ));
        };
        let endpoint = EndpointPatch::base_url(tuned.clone());
        let route = self.provider.route().with(RoutePatch { endpoint, ..RoutePatch::default() });
        route.model(selection)
    }
}
