//! The tool `websearch`: asks a search service (spec/tools.md 11.10). There is no such tool without a service that the
//! user gave a key or an address for.

mod services;

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use abide_schema::JsonObject;
use abide_schema::tool::Effects;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use services::{Available, available};

use crate::permission::{AssertInput, PermissionService};
use crate::tool::failure::caused;
use crate::tool::leaf::{ToolContext, ToolReturn, TypedTool};
use crate::tool::outcome::ToolFailure;

const ACTION: &str = "websearch";
/// How long a search may take.
const MAX_TIME: Duration = Duration::from_secs(25);

/// Why a search gave nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The service wants fewer questions.
    #[error("The search provider is rate limiting (HTTP 429)")]
    RateLimited,
    /// It does not take the key.
    #[error("The search provider rejected the credentials (HTTP 401)")]
    Credentials,
    /// It answered with another status than success.
    #[error("The search provider answered HTTP {0}")]
    Status(u16),
    /// It could not be asked or understood. The text holds no key and no URL.
    #[error("{0}")]
    Failed(String),
}

/// A search service.
pub trait SearchProvider: Send + Sync {
    /// Returns its name in settings and results.
    fn id(&self) -> &str;
    /// Asks it.
    ///
    /// # Errors
    /// [`SearchError`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    fn search<'a>(&'a self, query: &'a str, session: &'a str) -> BoxFuture<'a, Result<Vec<SearchResult>, SearchError>>;
}

/// A page that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchResult {
    /// Where it is.
    pub url: String,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// When it was published.
    pub time: SearchTime,
}

/// Times of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchTime {
    /// As the service says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
}

/// The tool.
pub struct WebSearch {
    permissions: PermissionService,
    provider: Arc<dyn SearchProvider>,
}

impl std::fmt::Debug for WebSearch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebSearch").field("provider", &self.provider.id()).finish_non_exhaustive()
    }
}

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WebSearchInput {
    /// What to look for.
    #[schemars(length(min = 1))]
    query: String,
}

/// What it gets.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WebSearchOutput {
    provider: String,
    results: Vec<SearchResult>,
}

impl WebSearch {
    /// Makes the tool with the service that it asks.
    pub fn new(permissions: PermissionService, provider: Arc<dyn SearchProvider>) -> Self {
        Self { permissions, provider }
    }
}

impl TypedTool for WebSearch {
    type Input = WebSearchInput;
    type Output = WebSearchOutput;

    fn name(&self) -> &'static str {
        "websearch"
    }

    fn description(&self) -> String {
        "Searches the web and returns pages with their text. Use it for what may have changed since your knowledge ends; \
         read single pages with webfetch."
            .to_owned()
    }

    fn effects(&self) -> Effects {
        Effects::Network
    }

    fn limits(&self) -> Vec<String> {
        vec![format!("{} seconds; {} bytes of the service's answer", MAX_TIME.as_secs(), services::MAX_BODY_BYTES)]
    }

    async fn execute(
        &self,
        ctx: ToolContext,
        input: WebSearchInput,
    ) -> Result<ToolReturn<WebSearchOutput>, ToolFailure> {
        let WebSearchInput { query } = input;
        let provider = self.provider.id().to_owned();
        let asked = AssertInput::new(ACTION, &query).saving("*").with_metadata("provider", provider.clone());
        self.permissions.assert(&ctx, asked).await?;
        let facts = JsonObject::from_iter([("provider".to_owned(), provider.clone().into())]);
        ctx.progress.report(facts.clone());
        let found = tokio::time::timeout(MAX_TIME, self.provider.search(&query, ctx.session_id.as_str())).await;
        let found = found.unwrap_or_else(|_elapsed| {
            Err(SearchError::Failed(format!("it took longer than {} seconds", MAX_TIME.as_secs())))
        });
        let results = found.map_err(|error| {
            let failure = match &error {
                SearchError::Failed(_) => caused(format!("Web search for {query} failed"), &error),
                SearchError::RateLimited | SearchError::Credentials | SearchError::Status(_) => {
                    ToolFailure::new(error.to_string())
                }
            };
            ToolFailure { metadata: Some(facts), ..failure }
        })?;
        let text = render(&results);
        Ok(ToolReturn::new(WebSearchOutput { provider: provider.clone(), results })
            .with_text(text)
            .with_metadata("provider", provider))
    }
}

fn render(results: &[SearchResult]) -> String {
    if results.is_empty() {
        return "No search results. Try a different query.".to_owned();
    }
    let one = |result: &SearchResult| {
        let title = result.title.as_deref().unwrap_or(&result.url);
        let mut text = format!("## [{title}]({})", result.url);
        if let Some(published) = &result.time.published {
            // Writing to a string does not fail.
            let _ok = write!(text, "\nPublished: {published}");
        }
        if let Some(content) = &result.content {
            text.push_str("\n\n");
            text.push_str(content.trim());
        }
        text
    };
    results.iter().map(one).collect::<Vec<_>>().join("\n\n")
}
