//! Responses over WebSockets: the channel, its pool, and real sockets on loopback.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use abide_ai::protocols::openai_responses;
use abide_ai::route::auth::Auth;
use abide_ai::route::endpoint::EndpointPatch;
use abide_ai::route::transport::websocket::{SocketRequest, socket_url};
use abide_ai::route::transport::websocket_channel::WebSocketChannelExecutor;
use abide_ai::route::transport::websocket_pool::{ChannelPool, ChannelPoolOptions};
use abide_ai::route::{ModelSelection, RoutePatch};
use abide_ai::schema::errors::{Delivery, TransportDetails, TransportKind, TransportPhase};
use abide_ai::schema::messages::{ToolResultPart, ToolResultValue};
use abide_ai::testing::scripted::{ScriptedExecutor, ScriptedResponse, sse_named};
use abide_ai::testing::sockets::{ScriptedConnector, SocketStep};
use abide_ai::testing::test_client;
use abide_ai::{
    AIError, AIErrorKind, LLMEvent, LLMRequest, LLMResponse, LlmClient, Message, RequestInput, RequestPatch,
    RetryClass, StreamOptions,
};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

mod real;

/// A request over a route of OpenAI at an address.
fn request(base_url: &str) -> LLMRequest {
    let route = openai_responses::route().with(RoutePatch {
        endpoint: EndpointPatch::base_url(base_url),
        auth: Some(Auth::bearer("key".to_owned())),
        ..RoutePatch::default()
    });
    let model = route.model(ModelSelection::new("m")).unwrap();
    let mut options = serde_json::Map::new();
    options.insert("streamOptions".to_owned(), json!({ "includeObfuscation": false }));
    let input = RequestInput { prompt: Some("hi".to_owned()), ..RequestInput::default() };
    LLMRequest::make(model, input)
        .update(RequestPatch { provider_options: Some(Some(options)), ..RequestPatch::default() })
}

/// The next request of a conversation.
fn following(request: &LLMRequest, answer: &LLMResponse, text: &str) -> LLMRequest {
    let mut messages = request.messages.clone();
    messages.push(Arc::new(answer.message.clone()));
    let calls = answer.tool_calls();
    for call in &calls {
        let result = ToolResultPart::make(call.id.clone(), call.name.clone(), ToolResultValue::text("done"));
        messages.push(Arc::new(Message::tool(result)));
    }
    if calls.is_empty() {
        messages.push(Arc::new(Message::user(text)));
    }
    request.update(RequestPatch { messages: Some(messages), ..RequestPatch::default() })
}

fn text_item(id: &str, text: &str) -> Value {
    json!({
        "type": "message", "id": id, "role": "assistant", "status": "completed",
        "content": [{ "type": "output_text", "text": text, "annotations": [], "logprobs": [] }],
    })
}

fn call_item() -> Value {
    json!({
        "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "lookup", "status": "completed",
        "arguments": "{\"q\": 1}",
    })
}

/// The events of a whole response of one item.
fn response(id: &str, item: Value) -> Vec<Value> {
    let announced = json!({ "type": item["type"], "id": item["id"], "call_id": item["call_id"], "name": item["name"] });
    vec![
        json!({ "type": "response.created", "response": { "id": id } }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": announced }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": { "id": id } }),
    ]
}

fn steps(events: &[Value]) -> impl Iterator<Item = SocketStep> {
    events.iter().map(SocketStep::event)
}

/// Answers each message with these responses, in turn.
fn script(responses: &[Vec<Value>]) -> Vec<SocketStep> {
    responses.iter().flat_map(|events| std::iter::once(SocketStep::Receive).chain(steps(events))).collect()
}

fn error(code: &str) -> Value {
    json!({ "type": "error", "status": 400, "error": { "code": code, "message": "no" } })
}

struct World {
    connector: ScriptedConnector,
    pool: ChannelPool,
    http: ScriptedExecutor,
    client: LlmClient,
}

impl World {
    fn new(connector: ScriptedConnector, options: ChannelPoolOptions) -> Self {
        let pool = ChannelPool::new(Arc::new(connector.clone()), options);
        let http = ScriptedExecutor::fixed(sse_named(response("resp_http", text_item("msg_h", "over HTTP"))));
        Self { connector, pool, client: test_client(http.clone()), http }
    }

    fn of(scripts: impl IntoIterator<Item = Vec<SocketStep>>) -> Self {
        Self::new(ScriptedConnector::scripted(scripts), ChannelPoolOptions::default())
    }

    fn options(&self) -> StreamOptions {
        StreamOptions::with_web_socket(Arc::new(self.pool.clone()))
    }

    async fn ask(&self, request: &LLMRequest) -> Result<LLMResponse, AIError> {
        let response = self.client.generate(request, self.options());
        tokio::time::timeout(Duration::from_hours(2), response).await.expect("an answer or a failure")
    }

    /// The messages the server got: on which socket, whether they continue, and how much input they have.
    fn received(&self) -> Vec<(usize, Option<String>, usize)> {
        let inputs = |message: &Value| message["input"].as_array().map_or(0, Vec::len);
        let received = self.connector.log().received;
        received
            .iter()
            .map(|(socket, message)| {
                assert_eq!(message["type"], "response.create");
                let previous = message["previous_response_id"].as_str().map(str::to_owned);
                (*socket, previous, inputs(message))
            })
            .collect()
    }
}

fn details(error: &AIError) -> &TransportDetails {
    let AIErrorKind::Transport(details) = error.kind() else { panic!("{error:?}") };
    assert_eq!(details.transport, TransportKind::Websocket);
    details
}

#[tokio::test(start_paused = true)]
async fn http_is_used_without_an_executor() {
    let world = World::of([script(&[])]);
    let answer = world.client.generate(&request("https://a.test/v1"), StreamOptions::default()).await.unwrap();
    assert_eq!(answer.text(), "over HTTP");
    assert!(world.connector.log().requests.is_empty());
    let body = world.http.bodies().remove(0);
    assert_eq!(body["stream"], true);
    assert!(body.get("type").is_none());
}

#[tokio::test(start_paused = true)]
async fn message_and_handshake() {
    let world = World::of([script(&[response("resp_1", text_item("msg_1", "hello"))])]);
    let answer = world.ask(&request("https://a.test/v1")).await.unwrap();
    assert_eq!(answer.text(), "hello");
    assert!(world.http.requests().is_empty());
    let log = world.connector.log();
    assert_eq!(log.requests[0].url.as_str(), "wss://a.test/v1/responses");
    let headers = &log.requests[0].headers;
    assert_eq!(headers.get("openai-beta"), Some("responses_websockets=2026-02-06"));
    assert_eq!(headers.get("authorization"), Some("Bearer key"));
    let wanted = json!({
        "type": "response.create", "model": "m",
        "input": [{ "role": "user", "content": [{ "type": "input_text", "text": "hi" }] }],
        "store": false, "include": ["reasoning.encrypted_content"],
    });
    assert_eq!(log.received, [(0, wanted)]);
}

#[tokio::test(start_paused = true)]
async fn an_own_beta_header_stays() {
    let world = World::of([script(&[response("resp_1", text_item("msg_1", "hello"))])]);
    let own = request("https://a.test/v1");
    let http = abide_ai::schema::options::HttpOptions {
        headers: Some([("openai-beta".to_owned(), "mine".to_owned())].into_iter().collect()),
        ..Default::default()
    };
    world.ask(&own.update(RequestPatch { http: Some(Some(http)), ..RequestPatch::default() })).await.unwrap();
    assert_eq!(world.connector.log().requests[0].headers.get("openai-beta"), Some("mine"));
}

#[tokio::test(start_paused = true)]
async fn continuation_sends_what_is_new() {
    let answers = [
        response("resp_1", call_item()),
        response("resp_2", text_item("msg_2", "found")),
        response("resp_3", text_item("msg_3", "bye")),
    ];
    let world = World::of([script(&answers)]);
    let first = request("https://a.test/v1");
    let answer = world.ask(&first).await.unwrap();
    let second = following(&first, &answer, "");
    let answer = world.ask(&second).await.unwrap();
    assert_eq!(answer.text(), "found");
    let third = following(&second, &answer, "more");
    assert_eq!(world.ask(&third).await.unwrap().text(), "bye");
    assert_eq!(world.received(), [(0, None, 1), (0, Some("resp_1".to_owned()), 1), (0, Some("resp_2".to_owned()), 1)]);
    let received = world.connector.log().received;
    assert_eq!(received[1].1["input"][0]["type"], "function_call_output");
    assert_eq!(received[1].1["model"], "m");
    assert_eq!(received[2].1["input"][0]["content"][0]["text"], "more");
}

#[tokio::test(start_paused = true)]
async fn full_when_something_else_changed() {
    let say = |id: &str| response(id, text_item(&format!("msg_{id}"), "ok"));
    let change = |change: fn(&LLMRequest) -> LLMRequest| async move {
        let world = World::of([script(&[say("resp_1"), say("resp_2")])]);
        let first = request("https://a.test/v1");
        let answer = world.ask(&first).await.unwrap();
        world.ask(&change(&following(&first, &answer, "more"))).await.unwrap();
        let received = world.received();
        assert_eq!(received.len(), 2);
        (received[1].1.clone(), received[1].2)
    };
    assert_eq!(change(Clone::clone).await, (Some("resp_1".to_owned()), 1), "nothing changed");
    let options = |request: &LLMRequest| {
        let options = json!({ "reasoningEffort": "high" }).as_object().cloned();
        request.update(RequestPatch { provider_options: Some(options), ..RequestPatch::default() })
    };
    assert_eq!(change(options).await, (None, 3), "other options");
    let edited = |request: &LLMRequest| {
        let mut messages = request.messages.clone();
        messages[0] = Arc::new(Message::user("another question"));
        request.update(RequestPatch { messages: Some(messages), ..RequestPatch::default() })
    };
    assert_eq!(change(edited).await, (None, 3), "an edited history");
    let nothing_new = |request: &LLMRequest| {
        let messages = request.messages[..2].to_vec();
        request.update(RequestPatch { messages: Some(messages), ..RequestPatch::default() })
    };
    assert_eq!(change(nothing_new).await, (None, 2), "nothing new");
    let other_answer = |request: &LLMRequest| {
        let mut messages = request.messages.clone();
        messages[1] = Arc::new(Message::assistant("something else"));
        request.update(RequestPatch { messages: Some(messages), ..RequestPatch::default() })
    };
    assert_eq!(change(other_answer).await, (None, 3), "another answer");
}

#[tokio::test(start_paused = true)]
async fn a_dead_socket_is_replaced_with_the_full_context() {
    // The server goes away after the first answer, before or after the second request.
    for tail in [
        vec![SocketStep::Close(1001, "bye".to_owned())],
        vec![SocketStep::Receive, SocketStep::Close(1012, "restart".to_owned())],
    ] {
        let mut one = script(&[response("resp_1", text_item("msg_1", "one"))]);
        one.extend(tail);
        let world = World::of([one, script(&[response("resp_2", text_item("msg_2", "two"))])]);
        let first = request("https://a.test/v1");
        let answer = world.ask(&first).await.unwrap();
        let second = following(&first, &answer, "more");
        assert_eq!(world.ask(&second).await.unwrap().text(), "two");
        assert_eq!(world.received().last(), Some(&(1, None, 3)));
        assert!(world.http.requests().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_continuation_is_sent_in_full() {
    let refusal = vec![error("previous_response_not_found")];
    let answers = [response("resp_1", text_item("msg_1", "one")), refusal, response("resp_2", text_item("m_2", "two"))];
    let world = World::of([script(&answers)]);
    let first = request("https://a.test/v1");
    let answer = world.ask(&first).await.unwrap();
    assert_eq!(world.ask(&following(&first, &answer, "more")).await.unwrap().text(), "two");
    assert_eq!(world.received(), [(0, None, 1), (0, Some("resp_1".to_owned()), 1), (0, None, 3)]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_lasts_is_a_failure() {
    let refusal = || vec![error("previous_response_not_found")];
    let world = World::of([script(&[refusal(), refusal(), refusal()])]);
    let failure = world.ask(&request("https://a.test/v1")).await.unwrap_err();
    let found = details(&failure);
    assert_eq!((found.delivery, found.phase), (Some(Delivery::Rejected), Some(TransportPhase::Receive)));
    assert_eq!(failure.message(), "no");
    assert!(failure.body().unwrap().contains("previous_response_not_found"));
    assert_eq!(failure.retry_class(), RetryClass::Safe);
    assert_eq!(world.received().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_worn_out_socket_is_rotated() {
    let limit = vec![error("websocket_connection_limit_reached")];
    let world = World::of([
        script(&[response("resp_1", text_item("msg_1", "one")), limit]),
        script(&[response("resp_2", text_item("msg_2", "two"))]),
    ]);
    let first = request("https://a.test/v1");
    let answer = world.ask(&first).await.unwrap();
    assert_eq!(world.ask(&following(&first, &answer, "more")).await.unwrap().text(), "two");
    assert_eq!(world.received(), [(0, None, 1), (0, Some("resp_1".to_owned()), 1), (1, None, 3)]);
    assert_eq!(world.connector.log().closed, [0]);
}

#[tokio::test(start_paused = true)]
async fn an_old_socket_is_not_used_again() {
    let say = |id: &str| script(&[response(id, text_item("msg_1", "ok"))]);
    let options = ChannelPoolOptions { idle: Duration::from_hours(2), ..ChannelPoolOptions::default() };
    let world = World::new(ScriptedConnector::scripted([say("resp_1"), say("resp_2")]), options);
    let first = request("https://a.test/v1");
    let answer = world.ask(&first).await.unwrap();
    tokio::time::sleep(Duration::from_mins(56)).await;
    world.ask(&following(&first, &answer, "more")).await.unwrap();
    assert_eq!(world.received(), [(0, None, 1), (1, None, 3)]);
}

#[tokio::test(start_paused = true)]
async fn idle_sockets_are_closed() {
    let world = World::of([script(&[response("resp_1", text_item("msg_1", "ok"))])]);
    world.ask(&request("https://a.test/v1")).await.unwrap();
    assert_eq!(world.pool.n_idle(), 1);
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert_eq!((world.pool.n_idle(), world.connector.log().closed), (1, vec![]));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((world.pool.n_idle(), world.connector.log().closed), (0, vec![0]));
}

#[tokio::test(start_paused = true)]
async fn what_comes_between_calls_is_dropped() {
    let mut steps = script(&[response("resp_1", text_item("msg_1", "one"))]);
    steps.push(SocketStep::Wait(Duration::from_secs(1)));
    steps.push(SocketStep::event(&json!({ "type": "ping" })));
    steps.extend(script(&[response("resp_2", text_item("msg_2", "two"))]));
    let world = World::of([steps]);
    let first = request("https://a.test/v1");
    let answer = world.ask(&first).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.ask(&following(&first, &answer, "more")).await.unwrap().text(), "two");
    assert_eq!(world.received()[1], (0, Some("resp_1".to_owned()), 1));
}

#[tokio::test(start_paused = true)]
async fn a_socket_serves_one_call_at_a_time() {
    let slow = |id: &str| {
        let events = response(id, text_item("msg_1", id));
        let mut steps =
            vec![SocketStep::Receive, SocketStep::event(&events[0]), SocketStep::Wait(Duration::from_secs(5))];
        steps.extend(events[1..].iter().map(SocketStep::event));
        steps
    };
    let twice = |a: &str, b: &str| [slow(a), slow(b)].concat();
    let options = ChannelPoolOptions { max_sockets: 2, ..ChannelPoolOptions::default() };
    let world = World::new(ScriptedConnector::scripted([twice("a", "b"), twice("c", "d")]), options);
    let asked = request("https://a.test/v1");
    let begun = tokio::time::Instant::now();
    let (one, two, three) = tokio::join!(world.ask(&asked), world.ask(&asked), world.ask(&asked));
    let texts = BTreeSet::from([one.unwrap().text(), two.unwrap().text(), three.unwrap().text()]);
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert_eq!(begun.elapsed().as_secs(), 10, "the third call waited for a socket");
    assert_eq!(world.connector.log().requests.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn no_socket_becomes_free() {
    let options = ChannelPoolOptions { max_sockets: 1, queue: Duration::from_secs(7), ..ChannelPoolOptions::default() };
    let created = json!({ "type": "response.created", "response": { "id": "resp_1" } });
    let world =
        World::new(ScriptedConnector::scripted([vec![SocketStep::Receive, SocketStep::event(&created)]]), options);
    let asked = request("https://a.test/v1");
    let mut hanging = world.client.stream(&asked, world.options());
    assert!(tokio::time::timeout(Duration::from_secs(1), hanging.next()).await.is_err());
    let failure = world.ask(&asked).await.unwrap_err();
    let found = details(&failure);
    assert_eq!((found.phase, found.delivery), (Some(TransportPhase::Queue), Some(Delivery::NotSent)));
    assert!(world.http.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_call_closes_its_socket() {
    let events = response("resp_1", text_item("msg_1", "one"));
    let mut begun = vec![SocketStep::Receive, SocketStep::event(&events[0]), SocketStep::event(&events[1])];
    begun.push(SocketStep::event(
        &json!({ "type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "delta": "on" }),
    ));
    let world = World::of([begun, script(&[response("resp_2", text_item("msg_2", "two"))])]);
    let asked = request("https://a.test/v1");
    let mut stream = world.client.stream(&asked, world.options());
    assert!(matches!(stream.next().await, Some(Ok(LLMEvent::StepStart(_)))));
    drop(stream);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!((world.pool.n_idle(), world.connector.log().closed), (0, vec![0]));
    assert_eq!(world.ask(&asked).await.unwrap().text(), "two");
}

#[tokio::test(start_paused = true)]
async fn committed_only_after_everything_was_read() {
    let answers = [response("resp_1", text_item("msg_1", "one")), response("resp_2", text_item("msg_2", "two"))];
    let world = World::of([script(&answers)]);
    let first = request("https://a.test/v1");
    let mut stream = world.client.stream(&first, world.options());
    let mut events = Vec::new();
    // The last event is seen, the end of the stream is not.
    while !events.last().is_some_and(LLMEvent::is_terminal) {
        events.push(stream.next().await.unwrap().unwrap());
    }
    drop(stream);
    let answer = LLMResponse::from_events(events).unwrap();
    world.ask(&following(&first, &answer, "more")).await.unwrap();
    assert_eq!(world.received(), [(0, None, 1), (0, None, 3)], "the socket is kept, the checkpoint is not");
}

#[tokio::test(start_paused = true)]
async fn a_failed_or_cut_response_is_no_checkpoint() {
    let cut = vec![
        json!({ "type": "response.created", "response": { "id": "resp_1" } }),
        json!({ "type": "response.incomplete", "response": { "id": "resp_1", "incomplete_details": { "reason": "max_output_tokens" } } }),
    ];
    let world = World::of([script(&[cut, response("resp_2", text_item("msg_2", "two"))])]);
    let first = request("https://a.test/v1");
    let answer = world.ask(&first).await.unwrap();
    world.ask(&following(&first, &answer, "more")).await.unwrap();
    assert_eq!(world.received()[1].1, None);

    let failed = vec![
        json!({ "type": "response.created", "response": { "id": "resp_1" } }),
        json!({ "type": "response.failed", "response": { "id": "resp_1", "error": { "code": "server_error", "message": "boom" } } }),
    ];
    let world = World::of([script(&[failed]), script(&[response("resp_2", text_item("msg_2", "two"))])]);
    let failure = world.ask(&first).await.unwrap_err();
    assert!(matches!(failure.kind(), AIErrorKind::ProviderInternal { .. }), "{failure:?}");
    assert_eq!(failure.message(), "server_error: boom");
    assert_eq!(failure.retry_class(), RetryClass::IfNoOutput);
    assert_eq!(world.ask(&first).await.unwrap().text(), "two");
    assert_eq!(world.received()[1].0, 1);
}

#[tokio::test(start_paused = true)]
async fn violations() {
    let created = json!({ "type": "response.created", "response": { "id": "resp_1" } });
    let cases = [
        ("response.created came twice", vec![created.clone(), created.clone()]),
        ("response.created has no id", vec![json!({ "type": "response.created", "response": { "id": " " } })]),
        ("\"response.in_progress\" came before response.created", vec![json!({ "type": "response.in_progress" })]),
        (
            "the id of the response changed",
            vec![created.clone(), json!({ "type": "response.completed", "response": { "id": "resp_2" } })],
        ),
    ];
    for (what, events) in cases {
        let world = World::of([script(std::slice::from_ref(&events))]);
        let failure = world.ask(&request("https://a.test/v1")).await.unwrap_err();
        assert!(matches!(failure.kind(), AIErrorKind::InvalidProviderOutput { .. }), "{failure:?}");
        assert_eq!(failure.message(), format!("OpenAI Responses: {what}"));
        assert_eq!(failure.body(), Some(events.last().unwrap().to_string().as_str()));
    }
}

#[tokio::test(start_paused = true)]
async fn closes_and_silence_are_failures() {
    let created = json!({ "type": "response.created", "response": { "id": "resp_1" } });
    let close = SocketStep::Close(1011, "out of memory".to_owned());
    let check = |steps: Vec<SocketStep>, phase, delivery, code: &'static str| async move {
        let world = World::of([steps]);
        let failure = world.ask(&request("https://a.test/v1")).await.unwrap_err();
        let found = details(&failure);
        assert_eq!((found.phase, found.delivery, found.code.as_deref()), (Some(phase), Some(delivery), Some(code)));
        assert_eq!(failure.retry_class(), RetryClass::IfNoOutput);
        (failure.body().unwrap_or_default().to_owned(), world.http.requests().len())
    };
    let before = vec![SocketStep::Receive, close.clone()];
    let body = check(before, TransportPhase::Close, Delivery::Ambiguous, "1011").await;
    assert_eq!(body, ("out of memory".to_owned(), 0));
    let after = vec![SocketStep::Receive, SocketStep::event(&created), close];
    let body = check(after, TransportPhase::Close, Delivery::Accepted, "1011").await;
    assert_eq!(body, ("out of memory".to_owned(), 0));
    let silent = vec![SocketStep::Receive, SocketStep::event(&created)];
    check(silent, TransportPhase::Receive, Delivery::Accepted, "Timeout").await;
    check(vec![SocketStep::Receive], TransportPhase::Receive, Delivery::Ambiguous, "Timeout").await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_nobody_reads_overflows() {
    let mut events = vec![json!({ "type": "response.created", "response": { "id": "resp_1" } })];
    events.extend((0..400).map(|_| json!({ "type": "response.in_progress", "response": { "id": "resp_1" } })));
    events.push(json!({ "type": "response.completed", "response": { "id": "resp_1" } }));
    let asked = request("https://a.test/v1");
    // A reader that keeps up, however late it starts within the minute, gets everything.
    let world = World::of([script(std::slice::from_ref(&events))]);
    assert!(world.ask(&asked).await.is_ok());
    let pool =
        ChannelPool::new(Arc::new(ScriptedConnector::scripted([script(&[events])])), ChannelPoolOptions::default());
    let slow = Arc::new(SlowReader(pool, Duration::from_secs(61)));
    let failure = world.client.generate(&asked, StreamOptions::with_web_socket(slow)).await.unwrap_err();
    assert_eq!(details(&failure).code.as_deref(), Some("queue-overflow"));
}

/// Lets the messages of a pool lie for a while.
struct SlowReader(ChannelPool, Duration);

impl WebSocketChannelExecutor for SlowReader {
    fn execute(
        &self,
        exchange: abide_ai::route::transport::websocket_channel::Exchange,
    ) -> futures_util::future::BoxFuture<
        'static,
        Result<abide_ai::route::transport::websocket_channel::Execution, AIError>,
    > {
        let (execution, wait) = (self.0.execute(exchange), self.1);
        Box::pin(async move {
            let execution = execution.await?;
            tokio::time::sleep(wait).await;
            Ok(execution)
        })
    }
}

fn not_connected(_: usize, request: &SocketRequest) -> Result<Vec<SocketStep>, AIError> {
    let details = TransportDetails {
        transport: TransportKind::Websocket,
        code: Some("ECONNREFUSED".to_owned()),
        url: Some(request.url.to_string()),
        phase: Some(TransportPhase::Connect),
        delivery: Some(Delivery::NotSent),
        ..TransportDetails::http(abide_ai::schema::errors::TransportOperation::Request)
    };
    Err(AIError::transport(details, "ECONNREFUSED"))
}

#[tokio::test(start_paused = true)]
async fn http_where_no_socket_opens() {
    let world = World::new(ScriptedConnector::dynamic(not_connected), ChannelPoolOptions::default());
    let asked = request("https://a.test/v1");
    assert_eq!(world.ask(&asked).await.unwrap().text(), "over HTTP");
    // Not tried again at once.
    assert_eq!(world.ask(&asked).await.unwrap().text(), "over HTTP");
    assert_eq!(world.connector.log().requests.len(), 1);
    let body = world.http.bodies().remove(1);
    assert_eq!((&body["stream"], body.get("type")), (&json!(true), None));
    tokio::time::sleep(Duration::from_mins(11)).await;
    world.ask(&asked).await.unwrap();
    assert_eq!(world.connector.log().requests.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_fallback_keeps_its_context() {
    let pool = ChannelPool::new(Arc::new(ScriptedConnector::dynamic(not_connected)), ChannelPoolOptions::default());
    let asked = request("https://a.test/v1");
    let options = || StreamOptions::with_web_socket(Arc::new(pool.clone()));
    let refused = ScriptedExecutor::fixed(ScriptedResponse::json(429, &json!({ "error": { "message": "slow down" } })));
    let failure = test_client(refused).generate(&asked, options()).await.unwrap_err();
    assert_eq!(failure.http().map(|http| http.status), Some(429));
    assert!(matches!(failure.kind(), AIErrorKind::RateLimit { .. }), "{failure:?}");
    let broken = ScriptedExecutor::fixed("event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\"}\n\n");
    let failure = test_client(broken).generate(&asked, options()).await.unwrap_err();
    assert_eq!(failure.http().map(|http| http.status), Some(200));
}

#[tokio::test(start_paused = true)]
async fn a_direct_executor_keeps_nothing() {
    let connector = ScriptedConnector::scripted([script(&[response("resp_1", text_item("msg_1", "ok"))])]);
    let pool = ChannelPool::direct(Arc::new(connector.clone()));
    let client = test_client(ScriptedExecutor::scripted([""; 0]));
    for _ in 0..2 {
        let options = StreamOptions::with_web_socket(Arc::new(pool.clone()));
        client.generate(&request("https://a.test/v1"), options).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(connector.log().closed, [0, 1]);
}

#[test]
fn addresses() {
    let check = |url: &str, wanted: Option<&str>| {
        let found = socket_url(&url.parse().unwrap());
        assert_eq!(found.as_ref().ok().map(url::Url::as_str), wanted, "{url}");
        if let Err(error) = found {
            assert_eq!(details(&error).code.as_deref(), Some("invalid-url"));
        }
    };
    check("https://a.test/v1?x=1", Some("wss://a.test/v1?x=1"));
    check("http://127.0.0.1:8080/v1", Some("ws://127.0.0.1:8080/v1"));
    check("ftp://a.test/v1", None);
}
