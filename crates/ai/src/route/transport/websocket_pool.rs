//! The executor of socket calls: a few sockets that are kept between calls.
//!
//! - A socket serves one call at a time; a call that finds none free opens another one, up to a limit,
//!   and waits behind it.
//! - What the last completed response of a socket allows, the next call builds on; the checkpoint is kept
//!   only after the whole stream was read.
//! - A kept socket that turns out to be dead before its first message is replaced by a new one, with the
//!   full request, once. A refused continuation is sent again in full, once.
//! - A socket that cannot be opened sends the call over HTTP, and those of the next minutes too.
//! - An abandoned call closes its socket. A socket without calls is closed after a while.

mod connection;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use self::connection::Connection;
use super::http::Timers;
use super::websocket::{SocketRequest, WebSocketConnector, socket_details};
use super::websocket_channel::{ChannelDriver, Checkpoint, Exchange, Execution, Observation, WebSocketChannelExecutor};
use crate::route::framing::Framing;
use crate::schema::errors::{
    AIError, AIErrorKind, Delivery, TransportDetails, TransportOperation, TransportPhase, TransportRecovery,
};

/// Limits of a [`ChannelPool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelPoolOptions {
    /// The most sockets that are open at once; more calls wait.
    pub max_sockets: usize,
    /// The most sockets that are kept without a call.
    pub max_idle: usize,
    /// How long a socket is kept without a call.
    pub idle: Duration,
    /// How long a call waits for a socket.
    pub queue: Duration,
    /// How long HTTP is used after a socket could not be opened.
    pub fallback: Duration,
}

impl Default for ChannelPoolOptions {
    fn default() -> Self {
        Self {
            max_sockets: 4,
            max_idle: 2,
            idle: Duration::from_mins(5),
            queue: Duration::from_mins(5),
            fallback: Duration::from_mins(10),
        }
    }
}

/// Runs calls over kept sockets. Clones share them; when the last one is dropped, all are closed.
#[derive(Clone)]
pub struct ChannelPool(Arc<Pool>);

struct Pool {
    connector: Arc<dyn WebSocketConnector>,
    options: ChannelPoolOptions,
    permits: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    idle: Vec<Kept>,
    /// Until when an address is asked over HTTP.
    refused: BTreeMap<String, Instant>,
}

/// A socket without a call.
struct Kept {
    connection: Connection,
    request: SocketRequest,
    opened: Instant,
    checkpoint: Option<Checkpoint>,
}

impl ChannelPool {
    /// A pool over a connector.
    pub fn new(connector: Arc<dyn WebSocketConnector>, options: ChannelPoolOptions) -> Self {
        let permits = Arc::new(Semaphore::new(options.max_sockets.max(1)));
        Self(Arc::new(Pool { connector, options, permits, state: Mutex::default() }))
    }

    /// One socket for each call, closed after it.
    pub fn direct(connector: Arc<dyn WebSocketConnector>) -> Self {
        Self::new(connector, ChannelPoolOptions { max_idle: 0, ..ChannelPoolOptions::default() })
    }

    /// How many sockets are open without a call.
    pub fn n_idle(&self) -> usize {
        let mut state = self.0.lock();
        state.idle.retain(|kept| !kept.connection.is_closed());
        state.idle.len()
    }
}

impl fmt::Debug for ChannelPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelPool").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl WebSocketChannelExecutor for ChannelPool {
    fn execute(&self, exchange: Exchange) -> BoxFuture<'static, Result<Execution, AIError>> {
        Box::pin(execute(Arc::clone(&self.0), exchange))
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A kept socket that was opened with the same request, is alive and young enough; one that the call
    /// can build on comes first.
    fn kept(&self, target: &Target) -> Option<Kept> {
        let mut state = self.lock();
        state.idle.retain(|kept| !kept.connection.is_closed());
        let is_young = |kept: &Kept| target.rotate_after.is_none_or(|limit| kept.opened.elapsed() < limit);
        state.idle.retain(|kept| kept.request != target.request || is_young(kept));
        let fits = |kept: &Kept| kept.request == target.request;
        let with_checkpoint = state.idle.iter().rposition(|kept| fits(kept) && kept.checkpoint.is_some());
        let index = with_checkpoint.or_else(|| state.idle.iter().rposition(fits))?;
        Some(state.idle.remove(index))
    }

    fn keep(&self, mut kept: Kept) {
        if self.options.max_idle == 0 || kept.connection.is_closed() {
            return;
        }
        kept.connection.rest(self.options.idle);
        let mut state = self.lock();
        state.idle.push(kept);
        let surplus = state.idle.len().saturating_sub(self.options.max_idle);
        drop(state.idle.drain(..surplus));
    }

    fn is_refused(&self, request: &SocketRequest) -> bool {
        self.lock().refused.get(request.url.as_str()).is_some_and(|until| Instant::now() < *until)
    }

    fn refuse(&self, request: &SocketRequest) {
        let mut state = self.lock();
        let now = Instant::now();
        state.refused.retain(|_, until| now < *until);
        state.refused.insert(request.url.to_string(), now + self.options.fallback);
    }
}

/// What socket a call wants.
struct Target {
    request: SocketRequest,
    rotate_after: Option<Duration>,
}

impl Target {
    fn of(exchange: &Exchange) -> Self {
        Self { request: exchange.connect.clone(), rotate_after: exchange.rotate_after }
    }
}

/// A socket with a call.
struct Lease {
    kept: Kept,
    is_reused: bool,
    _permit: OwnedSemaphorePermit,
}

async fn execute(pool: Arc<Pool>, mut exchange: Exchange) -> Result<Execution, AIError> {
    if pool.is_refused(&exchange.connect) {
        return (exchange.fallback)().await;
    }
    match begin(&pool, &mut exchange).await {
        Ok((lease, frame, observation)) => Ok(running(pool, lease, exchange, frame, observation)),
        Err(Failure::NoSocket(error)) if falls_back(&error) => {
            tracing::debug!(error = %error, "no WebSocket, going on over HTTP");
            pool.refuse(&exchange.connect);
            (exchange.fallback)().await
        }
        Err(Failure::NoSocket(error) | Failure::Call(error)) => Err(error),
    }
}

/// Why a call did not begin.
enum Failure {
    /// There is no socket.
    NoSocket(AIError),
    /// There was one, and it failed.
    Call(AIError),
}

/// Sends the request and waits for the first message of its response.
async fn begin(pool: &Arc<Pool>, exchange: &mut Exchange) -> Result<(Lease, Bytes, Observation), Failure> {
    let target = Target::of(exchange);
    let mut lease = take_lease(pool, &target, true).await.map_err(Failure::NoSocket)?;
    let mut may_resend = true;
    loop {
        let checkpoint = lease.kept.checkpoint.take();
        let create = exchange.driver.create(checkpoint.as_ref()).map_err(Failure::Call)?;
        drop(checkpoint);
        let first = match lease.kept.connection.send(create.message).await {
            Ok(()) => lease.kept.connection.next(exchange.timers.first).await.map_err(|error| deliver(error, false)),
            Err(error) => Err(error),
        };
        match first {
            // A kept socket may have died unnoticed: nothing of an answer is lost.
            Err(error) if lease.is_reused && !error.is_timeout() => {
                tracing::debug!(error = %error, "a kept WebSocket is dead, opening another one");
                drop(lease);
                lease = take_lease(pool, &target, false).await.map_err(Failure::NoSocket)?;
            }
            Err(error) => return Err(Failure::Call(error)),
            Ok(frame) => match exchange.driver.observe(&frame) {
                Observation::Rejected { recovery: TransportRecovery::RetryFull, .. } if may_resend => {
                    may_resend = false;
                }
                Observation::Rejected { recovery: TransportRecovery::RotateAndRetryFull, .. } if may_resend => {
                    may_resend = false;
                    drop(lease);
                    lease = take_lease(pool, &target, false).await.map_err(Failure::NoSocket)?;
                }
                Observation::Rejected { error, .. } => return Err(Failure::Call(error)),
                observation => return Ok((lease, frame, observation)),
            },
        }
    }
}

async fn take_lease(pool: &Arc<Pool>, target: &Target, may_reuse: bool) -> Result<Lease, AIError> {
    let limit = pool.options.queue;
    let waiting = timeout(limit, Arc::clone(&pool.permits).acquire_owned()).await;
    let Ok(Ok(permit)) = waiting else {
        let details = TransportDetails {
            code: Some("Timeout".to_owned()),
            phase: Some(TransportPhase::Queue),
            delivery: Some(Delivery::NotSent),
            ..socket_details(TransportOperation::Request, Some(&target.request.url))
        };
        return Err(AIError::transport(details, format!("No WebSocket became free within {limit:?}")));
    };
    if may_reuse && let Some(kept) = pool.kept(target) {
        return Ok(Lease { kept, is_reused: true, _permit: permit });
    }
    let socket = pool.connector.connect(target.request.clone()).await?;
    let kept = Kept {
        connection: Connection::new(socket, target.request.url.clone()),
        request: target.request.clone(),
        opened: Instant::now(),
        checkpoint: None,
    };
    Ok(Lease { kept, is_reused: false, _permit: permit })
}

/// Whether HTTP may fare better. Where the account is refused or must wait, it would not.
fn falls_back(error: &AIError) -> bool {
    match error.kind() {
        AIErrorKind::Authentication { .. } | AIErrorKind::RateLimit { .. } | AIErrorKind::QuotaExceeded => false,
        AIErrorKind::Transport(details) => details.phase != Some(TransportPhase::Queue),
        _ => true,
    }
}

/// Says whether the provider had begun to answer when reading failed.
fn deliver(error: AIError, is_accepted: bool) -> AIError {
    let delivery = if is_accepted { Delivery::Accepted } else { Delivery::Ambiguous };
    let reason = error.into_reason().with(|reason| {
        if let AIErrorKind::Transport(details) = &mut reason.kind {
            details.delivery = Some(delivery);
        }
    });
    reason.into()
}

/// A response after its first message.
struct Running {
    lease: Option<Lease>,
    driver: Box<dyn ChannelDriver>,
    timers: Timers,
    /// The message that was observed last and not handed out yet.
    next: Option<(Bytes, Observation)>,
    done: Arc<Done>,
}

/// Where the socket goes when the response is over. Dropped without [`Done::complete`], it is kept without
/// its checkpoint.
struct Done {
    pool: Arc<Pool>,
    finished: Mutex<Option<(Lease, Option<Checkpoint>)>>,
}

impl Done {
    fn finish(&self, lease: Lease, checkpoint: Option<Checkpoint>) {
        *self.finished.lock().unwrap_or_else(PoisonError::into_inner) = Some((lease, checkpoint));
    }

    fn complete(&self) {
        self.release(true);
    }

    fn release(&self, is_complete: bool) {
        let finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((lease, checkpoint)) = finished {
            let checkpoint = checkpoint.filter(|_| is_complete);
            self.pool.keep(Kept { checkpoint, ..lease.kept });
        }
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        self.release(false);
    }
}

fn running(pool: Arc<Pool>, lease: Lease, exchange: Exchange, frame: Bytes, observation: Observation) -> Execution {
    let http = lease.kept.connection.http().cloned();
    let done = Arc::new(Done { pool, finished: Mutex::new(None) });
    let state = Running {
        lease: Some(lease),
        driver: exchange.driver,
        timers: exchange.timers,
        next: Some((frame, observation)),
        done: Arc::clone(&done),
    };
    let body = stream::unfold(state, |mut state| async move {
        let item = state.next().await?;
        Some((item, state))
    });
    Execution {
        body: Box::pin(body),
        framing: Framing::Message,
        http,
        timers: Timers { header: None, first: None, chunk: None, content: None },
        complete: Some(Box::new(move || done.complete())),
    }
}

impl Running {
    /// The next message; after the last one, or after a failure, there is none.
    async fn next(&mut self) -> Option<Result<Bytes, AIError>> {
        let (frame, observation) = match self.next.take() {
            Some(first) => first,
            None => match self.lease.as_mut()?.kept.connection.next(self.timers.chunk).await {
                Ok(frame) => {
                    let observation = self.driver.observe(&frame);
                    (frame, observation)
                }
                Err(error) => {
                    self.lease = None;
                    return Some(Err(deliver(error, true)));
                }
            },
        };
        match observation {
            Observation::Frame => {}
            Observation::Completed(checkpoint) => self.end(checkpoint),
            Observation::Incomplete => self.end(None),
            // The parser says what it means; the socket may be half dead.
            Observation::Failed | Observation::Rejected { .. } => self.lease = None,
            Observation::Violation(error) => {
                self.lease = None;
                return Some(Err(error));
            }
        }
        Some(Ok(frame))
    }

    fn end(&mut self, checkpoint: Option<Checkpoint>) {
        if let Some(lease) = self.lease.take() {
            self.done.finish(lease, checkpoint);
        }
    }
}
