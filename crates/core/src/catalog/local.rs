//! Model servers on this machine: which there are, and what they offer.

use std::time::Duration;

use abide_ai::LlmClient;
use abide_ai::providers::discovery::{LOCAL_SERVERS, list_models};
use abide_schema::{ModelId, ProviderId};
use futures_util::future::join_all;

/// How long a server on this machine may take to answer.
const PROBE_LIMIT: Duration = Duration::from_millis(700);

/// A server that is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalServer {
    /// Its provider.
    pub provider: ProviderId,
    /// Its address.
    pub base_url: String,
}

/// Returns the servers that are looked for, in order.
pub fn local_servers() -> Vec<LocalServer> {
    LOCAL_SERVERS
        .iter()
        .map(|(id, base_url)| LocalServer { provider: (*id).into(), base_url: (*base_url).to_owned() })
        .collect()
}

/// What the servers on this machine offer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalModels {
    /// Providers with their models, in the order of the servers; only those that answered.
    pub found: Vec<(ProviderId, Vec<ModelId>)>,
}

impl LocalModels {
    /// Asks all servers at once.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn probe(client: &LlmClient, servers: &[LocalServer]) -> Self {
        let asked = servers.iter().map(|server| async move {
            let answer = tokio::time::timeout(PROBE_LIMIT, list_models(client, &server.base_url, None)).await;
            match answer {
                Ok(Ok(models)) => {
                    let models = models.iter().map(|id| ModelId::from(id.as_str())).collect();
                    Some((server.provider.clone(), models))
                }
                Ok(Err(error)) => {
                    tracing::debug!(provider = %server.provider, %error, "no local server");
                    None
                }
                Err(_elapsed) => None,
            }
        });
        Self { found: join_all(asked).await.into_iter().flatten().collect() }
    }

    /// Returns the first model that can answer questions.
    pub fn first(&self) -> Option<(&ProviderId, &ModelId)> {
        self.found.iter().find_map(|(provider, models)| {
            let model = models.iter().find(|model| !model.as_str().to_ascii_lowercase().contains("embed"))?;
            Some((provider, model))
        })
    }
}
