//! Runs a model call against a recorded body.

use abide_ai::route::executor::HttpRequest;
use abide_ai::route::headers::Headers;
use abide_ai::testing::scripted::{ScriptedBody, ScriptedExecutor, ScriptedResponse};
use abide_ai::testing::test_client;
use abide_ai::{AIError, LLMEvent, StreamOptions};
use futures_util::StreamExt as _;

use super::exchange::Exchange;

/// What came of a call.
pub(super) struct Outcome {
    pub(super) request: Option<HttpRequest>,
    pub(super) events: Vec<LLMEvent>,
    pub(super) error: Option<AIError>,
}

impl Outcome {
    pub(super) fn error_text(&self) -> String {
        self.error.as_ref().map_or_else(|| "no error".to_owned(), |error| format!("error {error:?}"))
    }
}

/// Runs calls on the present thread.
pub(super) struct Runner(tokio::runtime::Runtime);

impl Runner {
    pub(super) fn new() -> std::io::Result<Self> {
        tokio::runtime::Builder::new_current_thread().enable_time().build().map(Self)
    }

    /// The body in one piece.
    pub(super) fn whole(&self, exchange: &Exchange) -> Outcome {
        self.run(exchange, ScriptedBody::bytes(exchange.body.clone()))
    }

    /// The body in pieces of these sizes, repeated.
    pub(super) fn pieces(&self, exchange: &Exchange, sizes: &[usize]) -> Outcome {
        self.run(exchange, ScriptedBody::sizes(&exchange.body, sizes))
    }

    /// The first bytes of the body only.
    pub(super) fn cut(&self, exchange: &Exchange, end: usize) -> Outcome {
        self.run(exchange, ScriptedBody::bytes(exchange.body.slice(..end)))
    }

    /// Waits for a future.
    pub(super) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    fn run(&self, exchange: &Exchange, body: ScriptedBody) -> Outcome {
        let headers = Headers::from_iter([("content-type", "text/event-stream")]);
        let http = ScriptedExecutor::fixed(ScriptedResponse { status: exchange.status, headers, body });
        let mut stream = test_client(http.clone()).stream(&exchange.request, StreamOptions::default());
        let (events, error) = self.0.block_on(async move {
            let (mut events, mut error) = (Vec::new(), None);
            while let Some(item) = stream.next().await {
                match item {
                    Ok(event) => events.push(event),
                    Err(failure) => error = Some(failure),
                }
            }
            (events, error)
        });
        Outcome { request: http.requests().pop(), events, error }
    }
}
