//! The server over loopback, against a fake engine on the memory store.

mod contract;
mod fake;
mod guards;
mod streams;

use std::sync::Arc;

use abide_protocol::client::{Client, ClientOptions};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::fake::Fake;
use crate::{Credentials, ServeOptions, serve};

/// A server under test; stops when dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) fake: Arc<Fake>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) task: JoinHandle<()>,
    http: reqwest::Client,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    pub(crate) fn tag(&self) -> String {
        self.json()["_tag"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut ServeOptions)) -> Self {
        let fake = Arc::new(Fake::new());
        let mut options = ServeOptions::new(fake.root().to_owned());
        change(&mut options);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let served = serve(options, fake.clone(), listener, shutdown.clone());
        let task = fake.world().spawn(async move { served.await.unwrap() });
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { url, fake, shutdown, task, http }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&ClientOptions { url: self.url.clone(), ..ClientOptions::default() }).unwrap()
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> Reply {
        let mut request = self.http.request(method.parse().unwrap(), format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.body(body.to_owned());
        }
        let response = request.send().await.unwrap();
        Reply {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            text: response.text().await.unwrap(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Reply {
        self.send("POST", path, &[("content-type", "application/json")], Some(body)).await
    }
}

pub(crate) fn password() -> Option<Credentials> {
    Credentials::new(None, Some("s3cret:with colon".to_owned()))
}
