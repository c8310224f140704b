//! Packages that need to know where in a cloud a call goes, and as whom.

use super::Setup;
use crate::providers::{Api, amazon_bedrock, google_vertex};
use crate::route::auth::{AwsCredentials, Secret};
use crate::schema::errors::ConfigurationError;
use crate::schema::model::LanguageModel;

/// Amazon Bedrock.
pub(super) fn bedrock(mut setup: Setup<'_>, _api: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let endpoint = setup.text("endpoint")?;
    let mut own = setup.inner("credentials")?;
    let mut text = |key: &str| Ok(own.text(key)?.or(setup.text(key)?));
    let (id, secret, token) = (text("accessKeyId")?, text("secretAccessKey")?, text("sessionToken")?);
    let region = text("region")?;
    let credentials = match (id, secret) {
        (Some(id), Some(secret)) => Some(AwsCredentials {
            access_key_id: id.into(),
            secret_access_key: secret.into(),
            session_token: token.map(Secret::from),
        }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            return Err(setup.error("settings accessKeyId and secretAccessKey belong together; one is missing"));
        }
    };
    let (profile, host) = (setup.text("profile")?, setup.host());
    let (mut common, selection) = setup.finish();
    common.base_url = common.base_url.or(endpoint);
    let options = amazon_bedrock::Options { common, region, credentials, profile };
    amazon_bedrock::configure_in(options, host).select(selection)
}

/// Google Vertex AI.
pub(super) fn vertex(mut setup: Setup<'_>, api: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let api = match api {
        Some(Api::Messages) => google_vertex::Api::Messages,
        Some(Api::Chat) => google_vertex::Api::Chat,
        Some(Api::Gemini | Api::Responses | Api::Converse) | None => google_vertex::Api::Gemini,
    };
    let (location, project) = (setup.text("location")?, setup.text("project")?);
    let (access_token, host) = (setup.text("accessToken")?.map(Secret::from), setup.host());
    let (common, selection) = setup.finish();
    let options = google_vertex::Options { common, project, location, access_token };
    google_vertex::configure_in(options, api, host)?.select(selection)
}
