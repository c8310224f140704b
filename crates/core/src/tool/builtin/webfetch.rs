//! The tool `webfetch`: gets one page as text (spec/tools.md 11.9).

mod address;
mod page;
mod parse;
mod web;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use abide_schema::permission::Effect;
use abide_schema::tool::Effects;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::permission::{AssertInput, Judge, PermissionService};
use crate::tool::failure::caused;
use crate::tool::leaf::{ToolContext, ToolReturn, TypedTool};
use crate::tool::outcome::ToolFailure;
use address::{Located, PrivateJudge, Standing, locate};
use web::{Answer, Ask, BROWSER_AGENT, PLAIN_AGENT, WebError};

const ACTION: &str = "webfetch";
/// How often a server may send on.
const MAX_REDIRECTS: usize = 10;
const DEFAULT_TIMEOUT_SECONDS: f64 = 30.0;
const MAX_TIMEOUT_SECONDS: f64 = 120.0;

/// The tool.
#[derive(Debug)]
pub struct WebFetch {
    permissions: PermissionService,
}

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WebFetchInput {
    /// The page; http or https.
    url: String,
    /// In which form HTML comes; other text comes as it is.
    #[serde(default)]
    format: Format,
    /// How many seconds it may take, at most 120; 30 when absent.
    #[serde(default)]
    #[schemars(range(max = 120.0), extend("exclusiveMinimum" = 0))]
    timeout: Option<f64>,
}

/// The form of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// The text alone.
    Text,
    /// Markdown.
    #[default]
    Markdown,
    /// As the server sent it.
    Html,
}

/// What it gets.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebFetchOutput {
    /// Where the page is, after redirects.
    url: String,
    content_type: String,
    format: Format,
    output: String,
}

/// What a page is, or where it is.
enum Fetched {
    Page { url: Url, content_type: String, body: Vec<u8> },
    Elsewhere(Url),
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error(transparent)]
    Web(#[from] WebError),
    #[error("the server answered with status {0}")]
    Status(u16),
    #[error("it redirects more than {MAX_REDIRECTS} times")]
    TooManyRedirects,
    #[error("it redirects to {0:?}, which cannot be fetched")]
    BadRedirect(String),
    #[error("{0} is a link-local or metadata address, from which nothing is fetched")]
    Refused(String),
    #[error("it took longer than {0} seconds")]
    Timeout(f64),
}

impl WebFetch {
    /// Makes the tool.
    pub const fn new(permissions: PermissionService) -> Self {
        Self { permissions }
    }

    async fn authorize(
        &self,
        ctx: &ToolContext,
        input: &WebFetchInput,
        url: &Url,
        standing: Standing,
    ) -> Result<(), ToolFailure> {
        let mut wanted = AssertInput::new(ACTION, &input.url);
        // Rules see the plain spelling too.
        if url.as_str().trim_end_matches('/') != input.url.trim_end_matches('/') {
            wanted.resources.push(url.to_string());
        }
        wanted =
            wanted.with_metadata("url", input.url.clone()).with_metadata("format", serde_json::json!(input.format));
        if let Some(timeout) = input.timeout {
            wanted = wanted.with_metadata("timeout", timeout);
        }
        let wanted = match judge(&wanted.resources, standing) {
            // What is saved is this host, not everything.
            Some(judge) => {
                let host = host_of(&input.url);
                wanted.saving(host).saving(format!("{host}/*")).with_metadata("private", true).judged_by(judge)
            }
            None => wanted.saving("*"),
        };
        Ok(self.permissions.assert(ctx, wanted).await?)
    }

    async fn fetch(
        &self,
        ctx: &ToolContext,
        url: Url,
        located: Located,
        format: Format,
    ) -> Result<Fetched, FetchError> {
        let (mut url, mut located) = (url, located);
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.ask(&url, &located, format).await?;
            let Some(location) = answer.location() else {
                if !(200..300).contains(&answer.status) {
                    return Err(FetchError::Status(answer.status));
                }
                let content_type = answer.content_type();
                return Ok(Fetched::Page { url, content_type, body: answer.body().await? });
            };
            let next = url.join(location).ok().filter(is_web);
            let next = next.ok_or_else(|| FetchError::BadRedirect(location.to_owned()))?;
            let is_same_host = (next.host(), next.port_or_known_default()) == (url.host(), url.port_or_known_default());
            if !is_same_host {
                located = locate(&next).await;
                if located.standing == Standing::Refused {
                    return Err(FetchError::Refused(next.host_str().unwrap_or_default().to_owned()));
                }
                let resources = [next.to_string()];
                let judge = judge(&resources, located.standing);
                if self.permissions.judged_effect(ctx, ACTION, &resources, judge.as_deref()).await != Effect::Allow {
                    return Ok(Fetched::Elsewhere(next));
                }
            }
            url = next;
        }
        Err(FetchError::TooManyRedirects)
    }

    async fn ask(&self, url: &Url, located: &Located, format: Format) -> Result<Answer, FetchError> {
        let ask = Ask { url, located, accept: accept(format), agent: BROWSER_AGENT };
        let answer = web::get(ask).await?;
        if answer.is_challenge() {
            return Ok(web::get(Ask { agent: PLAIN_AGENT, ..ask }).await?);
        }
        Ok(answer)
    }
}

impl TypedTool for WebFetch {
    type Input = WebFetchInput;
    type Output = WebFetchOutput;

    fn name(&self) -> &'static str {
        "webfetch"
    }

    fn description(&self) -> String {
        "Gets a page by its URL and returns it as Markdown, as plain text or as HTML. Text and HTML up to 5 MiB only; it \
         runs no scripts and sends no credentials. A redirect to another host is reported instead of followed unless that \
         host is allowed."
            .to_owned()
    }

    fn effects(&self) -> Effects {
        Effects::Network
    }

    fn limits(&self) -> Vec<String> {
        vec![
            format!("{} bytes; {DEFAULT_TIMEOUT_SECONDS} seconds, at most {MAX_TIMEOUT_SECONDS} by `timeout`; {MAX_REDIRECTS} redirects", web::MAX_BODY_BYTES),
            "addresses of this machine and of private networks are asked about unless a rule names them; link-local and metadata \
             addresses are refused"
                .to_owned(),
        ]
    }

    async fn execute(&self, ctx: ToolContext, input: WebFetchInput) -> Result<ToolReturn<WebFetchOutput>, ToolFailure> {
        let shown = without_password(&input.url);
        let url = Url::parse(input.url.trim()).ok().filter(is_web);
        let url = url.ok_or_else(|| ToolFailure::new("URL must start with http:// or https://"))?;
        let seconds = input.timeout.unwrap_or(DEFAULT_TIMEOUT_SECONDS);
        if !(seconds > 0.0 && seconds <= MAX_TIMEOUT_SECONDS) {
            return Err(ToolFailure::new(format!("timeout must be over 0 and at most 120 seconds, not {seconds}")));
        }
        let failed = |error: FetchError| caused(format!("Could not fetch {shown}"), &error);
        let timeout = Duration::from_secs_f64(seconds);
        let located = tokio::time::timeout(timeout, locate(&url)).await;
        let located = located.map_err(|_elapsed| failed(FetchError::Timeout(seconds)))?;
        if located.standing == Standing::Refused {
            return Err(failed(FetchError::Refused(url.host_str().unwrap_or_default().to_owned())));
        }
        self.authorize(&ctx, &input, &url, located.standing).await?;

        let fetched = tokio::time::timeout(timeout, self.fetch(&ctx, url, located, input.format)).await;
        let fetched = fetched.map_err(|_elapsed| failed(FetchError::Timeout(seconds)))?.map_err(failed)?;
        let (url, content_type, body) = match fetched {
            Fetched::Page { url, content_type, body } => (url, content_type, body),
            Fetched::Elsewhere(url) => {
                let text = format!("Redirects to {url}; fetch that URL if wanted");
                let output = WebFetchOutput {
                    url: url.into(),
                    content_type: String::new(),
                    format: input.format,
                    output: text.clone(),
                };
                return Ok(ToolReturn::new(output).with_text(text));
            }
        };
        let mime = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if !page::is_text(&mime) {
            return Err(ToolFailure::new(format!("Unsupported content type: {mime}")));
        }
        let output = render(body, &content_type, mime, input.format).await;
        let output = output.map_err(|error| caused(format!("Could not fetch {shown}"), &error))?;
        let returned = WebFetchOutput {
            url: without_password(url.as_str()),
            content_type: content_type.clone(),
            format: input.format,
            output: output.clone(),
        };
        Ok(ToolReturn::new(returned).with_text(output).with_metadata("contentType", content_type))
    }
}

/// Brings a body to the wanted form, on a thread of its own: a page can be large, and a converter can panic.
async fn render(body: Vec<u8>, content_type: &str, mime: String, format: Format) -> std::io::Result<String> {
    let content_type = content_type.to_owned();
    let rendered = tokio::task::spawn_blocking(move || {
        let is_html = page::is_html(&mime);
        let text = page::decode(&body, &content_type, is_html);
        match format {
            Format::Markdown if is_html => page::markdown(&text),
            Format::Text if is_html => page::text(&text),
            Format::Markdown | Format::Text | Format::Html => text,
        }
    });
    rendered.await.map_err(|_panic| std::io::Error::other("the page could not be converted"))
}

fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.host().is_some()
}

fn judge(urls: &[String], standing: Standing) -> Option<Arc<dyn Judge>> {
    let is_private = standing == Standing::Private;
    is_private.then(|| Arc::new(PrivateJudge { action: ACTION, urls: urls.to_vec() }) as Arc<dyn Judge>)
}

/// Returns a URL up to the end of its host and port.
fn host_of(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let rest = url.get(start..).unwrap_or_default();
    let host = rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len());
    url.get(..start + host).unwrap_or(url)
}

/// Returns a URL for people: a password in it is not shown.
fn without_password(url: &str) -> String {
    match Url::parse(url) {
        Ok(mut url) if url.password().is_some() => {
            let _no_host = url.set_password(Some("…"));
            url.into()
        }
        Ok(_) | Err(_) => url.to_owned(),
    }
}

const fn accept(format: Format) -> &'static str {
    match format {
        Format::Markdown => "text/markdown;q=1.0, text/x-markdown;q=0.9, text/plain;q=0.8, text/html;q=0.7, */*;q=0.1",
        Format::Text => "text/plain;q=1.0, text/markdown;q=0.9, text/html;q=0.8, */*;q=0.1",
        Format::Html => {
            "text/html;q=1.0, application/xhtml+xml;q=0.9, text/plain;q=0.8, text/markdown;q=0.7, */*;q=0.1"
        }
    }
}
