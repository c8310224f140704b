//! One recorded interaction and the canonical request that must reproduce it.

use std::sync::Arc;

use abide_ai::protocols::{anthropic_messages, bedrock_converse, gemini, openai_compatible_chat, openai_responses};
use abide_ai::route::auth::Auth;
use abide_ai::route::endpoint::EndpointPatch;
use abide_ai::route::{ModelSelection, Route, RoutePatch};
use abide_ai::schema::messages::{Part, ToolResultPart, ToolResultValue};
use abide_ai::testing::cassette::{RecordedRequest, RecordedResponse};
use abide_ai::testing::matching::differences;
use abide_ai::testing::redact::Redaction;
use abide_ai::{LLMRequest, LLMResponse, Message, RequestPatch};
use bytes::Bytes;
use serde_json::{Value, json};

use super::call::Outcome;
use super::raise::{self, Raised};

/// The wire format of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Bedrock,
    Chat,
    Gemini,
    Messages,
    Responses,
}

/// One interaction.
pub(super) struct Exchange {
    pub(super) wire: Wire,
    pub(super) request: LLMRequest,
    pub(super) status: u16,
    pub(super) body: Bytes,
    recorded: RecordedRequest,
}

impl Exchange {
    /// Reads an interaction and builds its canonical request.
    pub(super) fn read(name: &str, request: &RecordedRequest, response: &RecordedResponse) -> Result<Self, String> {
        let (wire, base_url, model) =
            wire(&request.url).ok_or_else(|| format!("no known wire format behind {}", request.url))?;
        let body: Value = serde_json::from_str(&request.body).map_err(|error| error.to_string())?;
        let raised = match wire {
            Wire::Bedrock => raise::bedrock(&body),
            Wire::Chat => raise::chat(&body),
            Wire::Gemini => raise::gemini(&body, model),
            Wire::Messages => raise::messages(&body, name),
            Wire::Responses => raise::responses(&body),
        }?;
        Ok(Self {
            wire,
            request: request_of(route(wire), base_url, raised)?,
            status: response.status,
            body: response.bytes().map_err(|error| error.to_string())?,
            recorded: request.clone(),
        })
    }

    /// The second interaction of a tool loop: the history is the first request, the answer the crate
    /// parsed, and the result of the tool. Where the recording was made with other words than the
    /// model's, the history is the recorded one.
    pub(super) fn continuing(self, name: &str, first: &Self, outcome: &Outcome) -> Self {
        let is_hand_built = name.starts_with("session/")
            || matches!(
                name,
                "openai-responses/gpt-5-5-drives-a-tool-loop"
                    | "openai-responses/openai-responses-gpt-5-5-reasoning-continuation"
            );
        let is_same = first.recorded.body == self.recorded.body;
        let answer = LLMResponse::from_events(outcome.events.iter().cloned());
        let (false, false, Some(answer)) = (is_hand_built, is_same, answer) else { return self };
        let mut messages = first.request.messages.clone();
        let results: Vec<Part> = answer
            .tool_calls()
            .into_iter()
            .map(|call| {
                let result = ToolResultValue::Json(json!({ "temperature": 22, "condition": "sunny" }));
                Part::ToolResult(ToolResultPart::make(call.id.clone(), call.name.clone(), result))
            })
            .collect();
        messages.push(Arc::new(answer.message));
        messages.push(Arc::new(Message::new(abide_ai::schema::messages::Role::Tool, results)));
        let request = first.request.update(RequestPatch { messages: Some(messages), ..RequestPatch::default() });
        Self { request, ..self }
    }

    /// Whether the request that was sent equals the recorded one.
    pub(super) fn check_request(&self, outcome: &Outcome) -> Result<(), String> {
        let Some(request) = &outcome.request else {
            return Err(format!("nothing was sent: {}", outcome.error_text()));
        };
        let mut redaction = Redaction::default().with_url_text("%7B", "{").with_url_text("%7D", "}");
        if self.recorded.headers.contains_key("anthropic-version") {
            redaction = redaction.with_header("anthropic-version");
        }
        let lines = differences(&redaction.request(request), &self.recorded);
        if lines.is_empty() { Ok(()) } else { Err(lines.join("; ")) }
    }
}

/// The wire format behind a URL, the base URL, and the model if the URL names it.
fn wire(url: &str) -> Option<(Wire, &str, &str)> {
    if let Some((base_url, rest)) = url.split_once("/models/") {
        return Some((Wire::Gemini, base_url, rest.strip_suffix(":streamGenerateContent?alt=sse")?));
    }
    if let Some((base_url, rest)) = url.split_once("/model/") {
        return Some((Wire::Bedrock, base_url, rest.strip_suffix("/converse-stream")?));
    }
    [(Wire::Chat, "/chat/completions"), (Wire::Messages, "/messages"), (Wire::Responses, "/responses")]
        .into_iter()
        .find_map(|(wire, path)| Some((wire, url.strip_suffix(path)?, "")))
}

fn route(wire: Wire) -> Route {
    match wire {
        Wire::Chat => openai_compatible_chat::route(),
        Wire::Bedrock => bedrock_converse::route(),
        Wire::Gemini => gemini::route(),
        Wire::Messages => anthropic_messages::route(),
        Wire::Responses => openai_responses::plain_route(),
    }
}

fn request_of(route: Route, base_url: &str, raised: Raised) -> Result<LLMRequest, String> {
    let route = route.with(RoutePatch {
        endpoint: EndpointPatch::base_url(base_url),
        auth: Some(Auth::none()),
        ..RoutePatch::default()
    });
    let selection = ModelSelection {
        provider: Some(route.provider().cloned().unwrap_or_else(|| "recorded".into())),
        compatibility: raised.compatibility,
        ..ModelSelection::new(raised.model)
    };
    let model = route.model(selection).map_err(|error| error.to_string())?;
    Ok(LLMRequest::make(model, raised.input))
}
