//! One open socket and the task that drives it: reads always, so that pings are answered and a close is
//! seen, also between calls.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use url::Url;

use crate::route::transport::websocket::{Socket, closed, socket_details};
use crate::schema::errors::{AIError, Delivery, HttpContext, TransportDetails, TransportOperation, TransportPhase};

/// Messages that wait for their reader.
const MAX_QUEUE: usize = 128;
/// How long a full queue may stand still.
const MAX_STALL: Duration = Duration::from_mins(1);
/// How long a message may take to leave.
const SEND_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a goodbye may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The handle of an open socket. Dropping it closes the connection.
pub(super) struct Connection {
    url: Url,
    http: Option<HttpContext>,
    commands: mpsc::Sender<Command>,
    inbound: mpsc::Receiver<Bytes>,
    /// Why the socket is over.
    failure: Arc<OnceLock<AIError>>,
    /// The one task; dropping the set ends it.
    _task: JoinSet<()>,
}

enum Command {
    Send(Bytes, oneshot::Sender<Result<(), AIError>>),
    /// No call is running; close after this long.
    Rest(Duration),
}

impl Connection {
    pub(super) fn new(socket: Socket, url: Url) -> Self {
        let (commands, orders) = mpsc::channel(2);
        let (outbox, inbound) = mpsc::channel(MAX_QUEUE);
        let failure = Arc::new(OnceLock::new());
        let http = socket.http.clone();
        let mut task = JoinSet::new();
        task.spawn(drive(socket, url.clone(), orders, outbox, Arc::clone(&failure)));
        Self { url, http, commands, inbound, failure, _task: task }
    }

    pub(super) fn http(&self) -> Option<&HttpContext> {
        self.http.as_ref()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.commands.is_closed()
    }

    /// Sends a message; what was received before belongs to an earlier call and is dropped.
    pub(super) async fn send(&mut self, message: Bytes) -> Result<(), AIError> {
        while self.inbound.try_recv().is_ok() {}
        let (done, sent) = oneshot::channel();
        if self.commands.send(Command::Send(message, done)).await.is_err() {
            return Err(self.not_sent());
        }
        match sent.await {
            Ok(result) => result,
            Err(_) => Err(self.not_sent()),
        }
    }

    fn not_sent(&self) -> AIError {
        let details = TransportDetails {
            code: Some("closed".to_owned()),
            phase: Some(TransportPhase::Send),
            delivery: Some(Delivery::NotSent),
            ..socket_details(TransportOperation::Write, Some(&self.url))
        };
        let error = AIError::transport(details, "The WebSocket is closed; nothing was sent");
        match self.failure.get() {
            Some(failure) => error.with_cause(failure.clone()),
            None => error,
        }
    }

    /// Receives a message.
    pub(super) async fn next(&mut self, limit: Option<Duration>) -> Result<Bytes, AIError> {
        let received = match limit {
            None => self.inbound.recv().await,
            Some(limit) => match timeout(limit, self.inbound.recv()).await {
                Ok(received) => received,
                Err(_) => {
                    let details = TransportDetails {
                        code: Some("Timeout".to_owned()),
                        phase: Some(TransportPhase::Receive),
                        ..socket_details(TransportOperation::Read, Some(&self.url))
                    };
                    let message = format!("The provider sent nothing for {limit:?}");
                    return Err(AIError::transport(details, message));
                }
            },
        };
        received.ok_or_else(|| {
            let failure = self.failure.get().cloned();
            failure.unwrap_or_else(|| closed(Some(&self.url), 1006, String::new())).with_http(self.http.as_ref())
        })
    }

    /// Says that no call is running.
    pub(super) fn rest(&mut self, limit: Duration) {
        // The queue of commands is empty between calls; a closed one means that the socket is gone.
        drop(self.commands.try_send(Command::Rest(limit)));
    }
}

async fn drive(
    mut socket: Socket,
    url: Url,
    mut orders: mpsc::Receiver<Command>,
    outbox: mpsc::Sender<Bytes>,
    failure: Arc<OnceLock<AIError>>,
) {
    let mut rests_until: Option<Instant> = None;
    loop {
        let deadline = rests_until;
        let idle = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            order = orders.recv() => match order {
                None => break,
                Some(Command::Rest(limit)) => rests_until = Some(Instant::now() + limit),
                Some(Command::Send(message, done)) => {
                    rests_until = None;
                    let sent = send(&mut socket, message, &url).await;
                    let is_sent = sent.is_ok();
                    // Nobody waits any more when the call was abandoned.
                    drop(done.send(sent));
                    if !is_sent {
                        break;
                    }
                }
            },
            message = socket.messages.next() => match message {
                // What comes between calls belongs to none.
                Some(Ok(_)) if rests_until.is_some() => {}
                Some(Ok(message)) => {
                    if let Err(error) = hand_over(&outbox, message, &url).await {
                        // Set once: the first failure is the one that counts.
                        drop(failure.set(error));
                        break;
                    }
                }
                Some(Err(error)) => {
                    drop(failure.set(error));
                    break;
                }
                None => break,
            },
            () = idle => break,
        }
    }
    orders.close();
    drop(outbox);
    // The connection goes away in any case.
    drop(timeout(CLOSE_TIMEOUT, socket.sink.close()).await);
}

async fn send(socket: &mut Socket, message: Bytes, url: &Url) -> Result<(), AIError> {
    timeout(SEND_TIMEOUT, socket.sink.send(message)).await.unwrap_or_else(|_| {
        let details = TransportDetails {
            code: Some("Timeout".to_owned()),
            phase: Some(TransportPhase::Send),
            delivery: Some(Delivery::Ambiguous),
            ..socket_details(TransportOperation::Write, Some(url))
        };
        Err(AIError::transport(details, format!("The provider took no message for {SEND_TIMEOUT:?}")))
    })
}

/// Puts a message into the queue; a full queue stops the reading, but not for ever.
async fn hand_over(outbox: &mpsc::Sender<Bytes>, message: Bytes, url: &Url) -> Result<(), AIError> {
    let message = match outbox.try_send(message) {
        Ok(()) => return Ok(()),
        Err(TrySendError::Closed(_)) => return Err(closed(Some(url), 1000, String::new())),
        Err(TrySendError::Full(message)) => message,
    };
    match timeout(MAX_STALL, outbox.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(closed(Some(url), 1000, String::new())),
        Err(_) => {
            let details = TransportDetails {
                code: Some("queue-overflow".to_owned()),
                phase: Some(TransportPhase::Receive),
                ..socket_details(TransportOperation::Read, Some(url))
            };
            let message = format!("{MAX_QUEUE} WebSocket messages were not taken for {MAX_STALL:?}");
            Err(AIError::transport(details, message))
        }
    }
}
