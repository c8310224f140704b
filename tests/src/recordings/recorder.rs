//! Replay of the cassettes that were made to try the recorder.

use abide_ai::route::executor::{HttpExecutor as _, HttpRequest};
use abide_ai::testing::cassette::{Cassette, Interaction, RecordedRequest, RecordedResponse};
use abide_ai::testing::redact::Redaction;
use abide_ai::testing::replay::{Delivery, ReplayExecutor};
use futures_util::StreamExt as _;

use super::call::Runner;

/// Different requests are served by what they are, in any order; equal ones in the order of the
/// cassette; one more than recorded is refused.
pub(super) fn check(name: &str, cassette: &Cassette, runner: &Runner) -> Result<(), String> {
    let exchanges: Vec<(&RecordedRequest, &RecordedResponse)> = cassette
        .interactions
        .iter()
        .filter_map(|interaction| match interaction {
            Interaction::Http { request, response } => Some((request, response)),
            Interaction::Websocket { .. } => None,
        })
        .collect();
    let are_equal = exchanges.windows(2).all(|pair| matches!(pair, [(a, _), (b, _)] if a == b));
    let mut order: Vec<usize> = (0..exchanges.len()).collect();
    if !are_equal {
        order.reverse();
    }
    let executor = ReplayExecutor::new(name, cassette.clone(), Redaction::default(), Delivery::Whole);
    if executor.verify().is_ok() {
        return Err("nothing was used, and nobody minds".to_owned());
    }
    for index in order {
        let Some((request, response)) = exchanges.get(index) else { continue };
        let body = runner.block_on(ask(&executor, request))?;
        if body != response.body {
            return Err(format!("interaction {index}: recorded {:?}, got {body:?}", response.body));
        }
    }
    executor.verify().map_err(|error| error.to_string())?;
    match exchanges.first() {
        Some((request, _)) if runner.block_on(ask(&executor, request)).is_ok() => {
            Err("a request beyond the recorded ones is answered".to_owned())
        }
        Some(_) => Ok(()),
        None => Err("no interactions".to_owned()),
    }
}

async fn ask(executor: &ReplayExecutor, recorded: &RecordedRequest) -> Result<String, String> {
    let request = HttpRequest {
        method: recorded.method.clone(),
        url: recorded.url.parse().map_err(|error| format!("{}: {error}", recorded.url))?,
        headers: recorded.headers.iter().collect(),
        body: recorded.body.clone().into(),
    };
    let mut response = executor.execute(request).await.map_err(|error| error.to_string())?;
    let mut body = Vec::new();
    while let Some(chunk) = response.body.next().await {
        body.extend_from_slice(&chunk.map_err(|error| error.to_string())?);
    }
    String::from_utf8(body).map_err(|error| error.to_string())
}
