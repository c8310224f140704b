//! One model call: compile, send, parse.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use serde_json::Value;
use tokio::time::{Instant, timeout};
use tracing::{Instrument as _, debug_span};
use url::Url;

use super::auth::AuthInput;
use super::executor::{BodyStream, HttpExecutor, HttpMiddleware, HttpRequest, HttpResponse, ReqwestExecutor};
use super::framing::{Frame, FrameDecoder, Framing};
use super::headers::Headers;
use super::host::{Host, ProcessHost};
use super::protocol::{Flow, FrameParser};
use super::transport::http::{SentTo, Silence, Timers, Wait, open, open_at};
use super::transport::websocket::{SocketRequest, socket_url};
use super::transport::websocket_channel::{ChannelOptions, Exchange, Execution, WebSocketChannelExecutor};
use crate::cache_policy;
use crate::protocols::utils::tool_schema;
use crate::schema::errors::{AIError, AIErrorKind, HttpContext};
use crate::schema::events::LLMEvent;
use crate::schema::ids::{ProtocolId, RouteId};
use crate::schema::model::{Defaults, LanguageModel};
use crate::schema::options::merge_json;
use crate::schema::request::{LLMRequest, RequestPatch};
use crate::schema::response::{LLMResponse, ResponseState};

/// The events of one call. Lazy: nothing is compiled or sent before the first poll. After one error
/// it ends; dropping it closes the connection.
pub type LlmStream = Pin<Box<dyn Stream<Item = Result<LLMEvent, AIError>> + Send>>;

/// Runs model calls. Cheap to clone; all clones share one connection pool.
#[derive(Clone)]
pub struct LlmClient {
    http: Arc<dyn HttpExecutor>,
    host: Arc<dyn Host>,
}

/// How one call is run.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct StreamOptions {
    /// Wraps the HTTP exchange.
    pub http: Option<Arc<dyn HttpMiddleware>>,
    /// Runs the call over a WebSocket where the route can.
    pub web_socket: Option<Arc<dyn WebSocketChannelExecutor>>,
}

impl StreamOptions {
    /// Options with a middleware.
    pub fn with_http(middleware: Arc<dyn HttpMiddleware>) -> Self {
        Self { http: Some(middleware), ..Self::default() }
    }

    /// Options with an executor of sockets.
    pub fn with_web_socket(executor: Arc<dyn WebSocketChannelExecutor>) -> Self {
        Self { web_socket: Some(executor), ..Self::default() }
    }
}

/// A compiled request that was not sent.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedRequest {
    /// The request id, or `request`.
    pub id: String,
    /// The route.
    pub route: RouteId,
    /// The protocol.
    pub protocol: ProtocolId,
    /// The model.
    pub model: String,
    /// The body.
    pub body: Value,
    /// The transport: `http`.
    pub transport: &'static str,
}

/// A request whose body is encoded.
struct Compiled {
    request: LLMRequest,
    url: Url,
    headers: Headers,
    body: Bytes,
}

impl LlmClient {
    /// A client over an executor, with the environment and clock of this process.
    pub fn new(http: Arc<dyn HttpExecutor>) -> Self {
        Self { http, host: Arc::new(ProcessHost) }
    }

    /// A client over a new connection pool.
    ///
    /// # Errors
    /// `Transport` when TLS cannot be set up.
    pub fn live() -> Result<Self, AIError> {
        Ok(Self::new(Arc::new(ReqwestExecutor::new()?)))
    }

    /// The same client with another environment and clock.
    pub fn with_host(self, host: Arc<dyn Host>) -> Self {
        Self { host, ..self }
    }

    /// Compiles a request without any I/O.
    ///
    /// # Errors
    /// `InvalidRequest` or `UnsupportedOperation` for what the protocol cannot carry.
    pub fn prepare(&self, request: &LLMRequest) -> Result<PreparedRequest, AIError> {
        let compiled = compile(request)?;
        let body = serde_json::from_slice(&compiled.body).map_err(|error| {
            AIError::invalid_request(format!("request body is not JSON: {error}")).with_cause(error)
        })?;
        Ok(PreparedRequest {
            id: request.id.clone().unwrap_or_else(|| "request".to_owned()),
            route: request.model.route.id().clone(),
            protocol: request.model.route.protocol_id(),
            model: request.model.id.to_string(),
            body,
            transport: "http",
        })
    }

    /// Runs one model call.
    pub fn stream(&self, request: &LLMRequest, options: StreamOptions) -> LlmStream {
        let (client, request) = (self.clone(), request.clone());
        let span = debug_span!(
            "model_call",
            model = %request.model.id,
            provider = %request.model.provider,
            route = %request.model.route.id(),
        );
        let opening = async move { client.open(request, options).await }.instrument(span);
        Box::pin(stream::unfold(Driver::Opening(Box::pin(opening)), Driver::next))
    }

    /// Runs one model call and collects it.
    ///
    /// # Errors
    /// The error that ended the stream, or `InvalidProviderOutput` when it had no end.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; the events so far are lost.
    pub async fn generate(&self, request: &LLMRequest, options: StreamOptions) -> Result<LLMResponse, AIError> {
        let mut events = self.stream(request, options);
        let mut state = ResponseState::default();
        while let Some(event) = events.next().await {
            state = LLMResponse::reduce(state, event?);
        }
        LLMResponse::complete(&state)
            .ok_or_else(|| AIError::invalid_output("Provider stream ended without a terminal finish event"))
    }

    /// Sends one request that is not a model call and refuses bad statuses.
    ///
    /// # Errors
    /// `Transport`, or the classified failure of a status of 400 or more.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn fetch(&self, request: HttpRequest) -> Result<HttpResponse, AIError> {
        let timers = Timers::new(&request.url, None);
        let http = Arc::clone(&self.http);
        let send = move |request: HttpRequest| http.execute(request);
        open(request, timers, &*self.host, send).await.map(|(response, _)| response)
    }

    async fn open(self, request: LLMRequest, options: StreamOptions) -> Result<Running, AIError> {
        let Compiled { request, url, mut headers, body } = compile(&request)?;
        headers = request
            .model
            .route
            .auth()
            .apply(
                AuthInput {
                    request: &request,
                    method: "POST",
                    url: &url,
                    body: &body,
                    host: &*self.host,
                    http: &*self.http,
                },
                headers,
            )
            .await?;
        headers.set("content-type", "application/json");
        let timers = Timers::new(&url, request.http.as_ref());
        let call = HttpCall {
            exchange: HttpRequest { method: "POST".to_owned(), url, headers, body },
            framing: request.model.route.framing(),
            timers,
            http: self.http,
            middleware: options.http,
            host: self.host,
        };
        let execution = match (request.model.route.channel(), options.web_socket) {
            (Some(channel), Some(executor)) => over_socket(channel, &*executor, &request, call).await?,
            (_, _) => call.run().await?,
        };
        Ok(Running::new(execution, &request))
    }
}

/// One request over HTTP.
struct HttpCall {
    exchange: HttpRequest,
    framing: Framing,
    timers: Timers,
    http: Arc<dyn HttpExecutor>,
    middleware: Option<Arc<dyn HttpMiddleware>>,
    host: Arc<dyn Host>,
}

impl HttpCall {
    async fn run(self) -> Result<Execution, AIError> {
        let Self { exchange, framing, timers, http, middleware, host } = self;
        let sent_to = SentTo::new(&exchange.url);
        let noted = sent_to.clone();
        let send = move |exchange: HttpRequest| match middleware {
            None => http.execute(exchange),
            Some(middleware) => {
                let next = move |exchange: HttpRequest| {
                    noted.note(&exchange.url);
                    http.execute(exchange)
                };
                middleware.handle(exchange, Box::new(next))
            }
        };
        let (response, context) = open_at(exchange, timers, &*host, &sent_to, send).await?;
        Ok(Execution { body: response.body, framing, http: Some(context), timers, complete: None })
    }
}

/// Hands a call to an executor of sockets, with the way over HTTP in its pocket.
async fn over_socket(
    channel: &ChannelOptions,
    executor: &dyn WebSocketChannelExecutor,
    request: &LLMRequest,
    call: HttpCall,
) -> Result<Execution, AIError> {
    if channel.enabled.is_some_and(|is_enabled| !is_enabled(&call.exchange.url)) {
        executor.unavailable();
        return call.run().await;
    }
    let driver = (channel.driver)(channel.name, &call.exchange.body)?;
    let (mut url, mut headers) = (socket_url(&call.exchange.url)?, call.exchange.headers.clone());
    headers.remove("content-length");
    if let Some(prepare) = channel.prepare {
        prepare(&mut url, &mut headers);
    }
    let exchange = Exchange {
        id: request.id.clone().unwrap_or_else(|| "request".to_owned()),
        connect: SocketRequest { url, headers },
        rotate_after: channel.rotate_after,
        timers: call.timers,
        fallback: Box::new(move || Box::pin(call.run())),
        driver,
    };
    executor.execute(exchange).await
}

impl fmt::Debug for LlmClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmClient").finish_non_exhaustive()
    }
}

/// Options, schemas, cache marks, body, URL, overlays, headers: everything but auth.
fn compile(request: &LLMRequest) -> Result<Compiled, AIError> {
    let request = resolve(request);
    let request = tool_schema::project_tools(&request);
    let request = cache_policy::apply(&request);
    let route = &request.model.route;
    let mut body = route.protocol().encode(&request)?;
    let mut over = route.body_for(&request);
    if let Some(overlay) = request.http.as_ref().and_then(|http| http.body.as_ref()) {
        merge_json(&mut over, overlay);
    }
    if !over.is_empty() {
        let Ok(Value::Object(mut object)) = serde_json::from_slice::<Value>(&body) else {
            return Err(AIError::invalid_request("http.body can only overlay JSON object request bodies"));
        };
        merge_json(&mut object, &over);
        body = crate::protocols::shared::json_text(&Value::Object(object)).into_bytes();
    }
    let url = route.endpoint().render(
        &request,
        || serde_json::from_slice(&body).unwrap_or(Value::Null),
        request.http.as_ref().and_then(|http| http.query.as_ref()),
    )?;
    let mut headers = route.headers_for(&request);
    if let Some(overlay) = request.http.as_ref().and_then(|http| http.headers.as_ref()) {
        headers.merge(overlay.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    }
    Ok(Compiled { request, url, headers, body: body.into() })
}

/// Route defaults, model defaults and request options, merged once.
fn resolve(request: &LLMRequest) -> LLMRequest {
    let own = Defaults {
        generation: request.generation.clone(),
        provider_options: request.provider_options.clone(),
        http: request.http.clone(),
        limits: None,
    };
    let layers = request.model.route.defaults().merge(&request.model.defaults);
    if layers == Defaults::default() {
        return request.clone();
    }
    let merged = layers.merge(&own);
    request.update(RequestPatch {
        generation: Some(merged.generation),
        provider_options: Some(merged.provider_options),
        http: Some(merged.http.filter(|http| !http.is_empty())),
        ..RequestPatch::default()
    })
}

/// How long the end of a body may follow the last event.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(50);
/// The most bytes after the last event that are read to keep a connection.
const MAX_DRAIN: usize = 64 * 1024;
/// The most bytes of an answer that is no stream.
const MAX_HEAD: usize = 1024 * 1024;

/// Whether a body without any frame is a document and not a stream that was cut.
fn is_document(head: &[u8], content_type: &str) -> bool {
    match head.trim_ascii().first() {
        None | Some(b':') => false,
        Some(b'{' | b'[' | b'<') => true,
        Some(_) => !content_type.is_empty() && !content_type.starts_with("text/event-stream"),
    }
}

type Opening = Pin<Box<dyn Future<Output = Result<Running, AIError>> + Send>>;

enum Driver {
    Opening(Opening),
    Running(Box<Running>),
    Done,
}

/// A response that arrives: bytes → frames → events.
struct Running {
    body: BodyStream,
    decoder: FrameDecoder,
    parser: Box<dyn FrameParser>,
    context: Option<HttpContext>,
    timers: Timers,
    silence: Silence,
    has_bytes: bool,
    /// How long the provider sent no content.
    quiet: Duration,
    /// The body as received, until its first frame: an answer that is no stream has none.
    head: Option<Vec<u8>>,
    content_type: String,
    finish_required: bool,
    frames: VecDeque<Frame>,
    /// Events that were not handed out yet, the next one last: the list is used again for each piece.
    events: Vec<LLMEvent>,
    is_body_done: bool,
    error: Option<AIError>,
    /// Says that everything was read and understood.
    complete: Option<Box<dyn FnOnce() + Send>>,
}

impl Driver {
    async fn next(self) -> Option<(Result<LLMEvent, AIError>, Self)> {
        let mut running = match self {
            Self::Opening(opening) => match opening.await {
                Ok(running) => Box::new(running),
                Err(error) => return Some((Err(error), Self::Done)),
            },
            Self::Running(running) => running,
            Self::Done => return None,
        };
        match running.next().await? {
            Ok(event) => Some((Ok(event), Self::Running(running))),
            Err(error) => Some((Err(error), Self::Done)),
        }
    }
}

impl Running {
    fn new(execution: Execution, request: &LLMRequest) -> Self {
        let header = execution.http.as_ref().and_then(|http| http.headers.get("content-type"));
        Self {
            body: execution.body,
            decoder: execution.framing.decoder(),
            parser: request.model.route.parser(request),
            content_type: header.map(|kind| kind.to_ascii_lowercase()).unwrap_or_default(),
            context: execution.http,
            timers: execution.timers,
            silence: Silence::default(),
            has_bytes: false,
            quiet: Duration::ZERO,
            head: Some(Vec::new()),
            finish_required: request.model.compatibility.is_finish_required(),
            frames: VecDeque::new(),
            events: Vec::new(),
            is_body_done: false,
            error: None,
            complete: execution.complete,
        }
    }

    async fn next(&mut self) -> Option<Result<LLMEvent, AIError>> {
        loop {
            if let Some(event) = self.events.pop() {
                return Some(Ok(event));
            }
            if let Some(error) = self.error.take() {
                self.stop();
                return Some(Err(error.with_http(self.context.as_ref())));
            }
            if self.is_body_done {
                if let Some(complete) = self.complete.take() {
                    complete();
                }
                return None;
            }
            let silence = if self.has_bytes { self.timers.chunk } else { self.timers.first };
            let wait = Wait::shorter(silence, self.timers.content, self.quiet);
            let mut out = std::mem::take(&mut self.events);
            let started = Instant::now();
            let next = self.silence.next_chunk(&mut self.body, wait, self.context.as_ref()).await;
            // Only the provider's time counts, not the time in which nobody asks for events.
            self.quiet = self.quiet.saturating_add(started.elapsed());
            let done = match next {
                Some(Ok(chunk)) => {
                    self.has_bytes |= !chunk.is_empty();
                    self.take_chunk(&chunk, &mut out)
                }
                Some(Err(error)) => self.take_break(error, &mut out),
                None => self.take_end(&mut out),
            };
            if let Err(error) = done {
                self.error = Some(error);
            }
            if self.is_body_done {
                self.drain().await;
            }
            if !out.is_empty() {
                self.quiet = Duration::ZERO;
            }
            out.reverse();
            self.events = out;
        }
    }

    /// Reads the end of the body that follows the last event, so that the connection can serve the next
    /// call, and closes the exchange. A server that does not end its body is not waited for.
    async fn drain(&mut self) {
        let mut left = MAX_DRAIN;
        let rest = async {
            while let Some(Ok(chunk)) = self.body.next().await {
                left = left.saturating_sub(chunk.len());
                if left == 0 {
                    break;
                }
            }
        };
        // Either way the exchange is over.
        drop(timeout(DRAIN_TIMEOUT, rest).await);
        self.stop();
    }

    fn take_chunk(&mut self, chunk: &Bytes, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let pushed = self.decoder.push(chunk, &mut self.frames);
        if !self.frames.is_empty() {
            self.head = None;
        } else if let Some(head) = &mut self.head {
            let room = MAX_HEAD.saturating_sub(head.len());
            head.extend_from_slice(chunk.get(..room).unwrap_or(chunk));
        }
        if self.take_frames(out)? == Flow::Done {
            self.is_body_done = true;
            return self.parser.finish(out);
        }
        pushed
    }

    fn take_end(&mut self, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        self.stop();
        self.decoder.finish(&mut self.frames)?;
        if self.frames.is_empty()
            && let Some(head) = self.head.take()
            && is_document(&head, &self.content_type)
        {
            return self.take_document(head, out);
        }
        self.take_frames(out)?;
        self.parser.finish(out)
    }

    /// Handles an answer that is one document instead of a stream: some proxies do not stream, and
    /// the protocol may understand their JSON; a page of a captive portal is an error.
    fn take_document(&mut self, head: Vec<u8>, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let text = String::from_utf8_lossy(&head).into_owned();
        let kind = if self.content_type.is_empty() { "a document" } else { &self.content_type };
        let start: String = text.trim().chars().take(200).collect();
        let refused = AIError::invalid_output(format!("The provider sent {kind} instead of an event stream: {start}"))
            .with_body(text);
        if head.trim_ascii().first() != Some(&b'{') {
            return Err(refused);
        }
        let from = out.len();
        let parsed = self.parser.frame(&Frame::data(head), out).and_then(|_| self.parser.finish(out));
        match parsed {
            Err(error) if matches!(error.kind(), AIErrorKind::InvalidProviderOutput { .. }) => {
                out.truncate(from);
                Err(refused.with_cause(error))
            }
            parsed => parsed,
        }
    }

    /// Handles a broken connection. An answer that was complete but for its end mark is complete.
    fn take_break(&mut self, error: AIError, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        self.stop();
        let from = out.len();
        if self.finish_required && self.parser.finish(out).is_ok() {
            return Ok(());
        }
        out.truncate(from);
        Err(error)
    }

    fn take_frames(&mut self, out: &mut Vec<LLMEvent>) -> Result<Flow, AIError> {
        while let Some(frame) = self.frames.pop_front() {
            if self.parser.frame(&frame, out)? == Flow::Done {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::More)
    }

    /// Closes the exchange.
    fn stop(&mut self) {
        self.is_body_done = true;
        self.body = Box::pin(stream::empty());
    }
}

/// The model of a request, for messages.
pub fn model_name(model: &LanguageModel) -> String {
    format!("{}/{}", model.provider, model.id)
}
