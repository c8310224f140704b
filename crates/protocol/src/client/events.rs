//! Event streams that come back by themselves.

use std::collections::VecDeque;
use std::time::Duration;

use abide_schema::event::{DecodeError, DurableMark, EventData, LogRecord, StoredEvent};
use abide_schema::live::LiveData;
use abide_schema::location::LocationRef;
use abide_schema::{EventId, JsonObject, Seq, SessionId, Timestamp};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, Stream};
use futures_util::{FutureExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::Value;

use super::sse::{Frame, Frames};
use super::{Client, ClientError};
use crate::query::{LogQuery, ViewQuery};
use crate::route::Query as _;
use crate::routes::Op;
use crate::view::{LOG_SYNCED, ViewKind};

/// How long a stream may be silent: the server sends a comment every 15 seconds.
const SILENCE: Duration = Duration::from_mins(1);
/// The pauses before another try to connect: this, doubling, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// An event as it came, additions included.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventEnvelope {
    /// The event.
    pub id: EventId,
    /// Its name, for example `session.next.step.ended`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The commit's wall clock.
    #[serde(default)]
    pub created: Option<Timestamp>,
    /// Its place in its session's log; `None` for an ephemeral event.
    #[serde(default)]
    pub durable: Option<DurableMark>,
    /// Its place in the contract's counting.
    #[serde(default)]
    pub contract_seq: Option<Seq>,
    /// The publisher's location.
    #[serde(default)]
    pub location: Option<LocationRef>,
    /// Free-form facts.
    #[serde(default)]
    pub metadata: Option<JsonObject>,
    /// What happened.
    pub data: Value,
}

impl EventEnvelope {
    /// Returns the session that the data names.
    pub fn session_id(&self) -> Option<SessionId> {
        SessionId::parse(self.data.get("sessionID")?.as_str()?).ok()
    }

    /// Decodes a durable event; `None` when it is none, or of a type that this version does not know.
    pub fn stored(&self) -> Option<StoredEvent> {
        let durable = self.durable.as_ref()?;
        let data = EventData::decode(&format!("{}.{}", self.kind, durable.version), &self.data.to_string()).ok()?;
        Some(StoredEvent {
            id: self.id.clone(),
            seq: durable.seq,
            contract_seq: self.contract_seq,
            created: self.created.unwrap_or_else(|| data.timestamp()),
            location: self.location.clone(),
            metadata: self.metadata.clone(),
            data,
        })
    }

    /// Decodes an ephemeral event; `None` when it is durable, or of a type that has no definition.
    pub fn live(&self) -> Option<LiveData> {
        if self.durable.is_some() {
            return None;
        }
        LiveData::decode(&self.kind, self.data.clone()).ok().flatten()
    }
}

/// An element of a session's log.
#[derive(Debug)]
pub enum LogItem {
    /// An event.
    Record(Box<LogRecord>),
    /// Everything that was stored when the stream began has been given. Comes once, also after reconnects.
    Synced {
        /// The position of the last event.
        seq: Option<Seq>,
    },
}

impl LogItem {
    /// Decodes the record; `None` for the mark.
    ///
    /// # Errors
    /// [`DecodeError`] when the server is newer than this client.
    pub fn decode(&self) -> Option<Result<StoredEvent, DecodeError>> {
        match self {
            Self::Record(record) => Some(record.decode()),
            Self::Synced { .. } => None,
        }
    }
}

/// A session's log, as a stream.
pub type LogStream = BoxStream<'static, Result<LogItem, ClientError>>;
/// All events, as a stream.
pub type EventStream = BoxStream<'static, Result<EventEnvelope, ClientError>>;

/// The mark at the end of a replay.
#[derive(Deserialize)]
struct Mark {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    seq: Option<Seq>,
}

impl Client {
    /// Reads a session's log after a position; with `follow`, goes on with what is committed later, and comes back
    /// after a broken connection where it was. Ends after an error.
    pub fn log(&self, session: &SessionId, after: Option<Seq>, follow: bool) -> LogStream {
        let (client, session) = (self.clone(), session.clone());
        let connect = move |after: Option<Seq>| {
            let (client, session) = (client.clone(), session.clone());
            async move {
                let query = LogQuery { after, follow };
                client.open(Op::SessionLog, &[session.as_str()], &query.pairs(), after).await
            }
            .boxed()
        };
        let mut was_synced = false;
        let url = self.url.clone();
        let frames = Reader::new(connect, after, if follow { Ending::Break } else { Ending::End });
        let items = frames.stream().filter_map(move |frame| {
            let item = frame.and_then(|frame| log_item(&frame, &url));
            let keep = !matches!(item, Ok(LogItem::Synced { .. })) || !std::mem::replace(&mut was_synced, true);
            std::future::ready(keep.then_some(item))
        });
        items.boxed()
    }

    /// Follows everything that happens, additions included. Comes back after a broken connection; then a new
    /// `server.connected` comes first, and what happened meanwhile is lost: read the logs again.
    pub fn events(&self) -> EventStream {
        let client = self.clone();
        let connect = move |_: Option<Seq>| {
            let client = client.clone();
            async move {
                let query = ViewQuery { view: ViewKind::Full };
                client.open(Op::EventSubscribe, &[], &query.pairs(), None).await
            }
            .boxed()
        };
        let url = self.url.clone();
        let frames = Reader::new(connect, None, Ending::Break);
        frames.stream().map(move |frame| frame.and_then(|frame| decode(&frame.data, &url))).boxed()
    }

    async fn open(
        &self,
        op: Op,
        params: &[&str],
        pairs: &[(&'static str, String)],
        last: Option<Seq>,
    ) -> Result<Connection, ClientError> {
        let mut request = self.request(op.route(), params, pairs);
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        let response = request.send().await.map_err(|source| self.transport(source))?;
        if !response.status().is_success() {
            // An error body is short; its being there makes this an error.
            let refused = self.checked_bytes(response).await;
            return Err(refused.err().unwrap_or_else(|| self.no_stream()));
        }
        let kind = response.headers().get(reqwest::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return Err(self.no_stream());
        }
        Ok(response.bytes_stream().boxed())
    }

    fn no_stream(&self) -> ClientError {
        ClientError::Decode { url: self.url.clone(), reason: "the answer is no event stream".to_owned() }
    }
}

fn decode<T: serde::de::DeserializeOwned>(text: &str, url: &str) -> Result<T, ClientError> {
    serde_json::from_str(text)
        .map_err(|error| ClientError::Decode { url: url.to_owned(), reason: format!("an event: {error}") })
}

fn log_item(frame: &Frame, url: &str) -> Result<LogItem, ClientError> {
    let mark: Mark = decode(&frame.data, url)?;
    if mark.kind == LOG_SYNCED {
        return Ok(LogItem::Synced { seq: mark.seq });
    }
    decode(&frame.data, url).map(|record| LogItem::Record(Box::new(record)))
}

type Connection = BoxStream<'static, Result<Bytes, reqwest::Error>>;
type Connecting = BoxFuture<'static, Result<Connection, ClientError>>;

/// What an orderly end of the response means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The stream is complete.
    End,
    /// The connection broke.
    Break,
}

/// Reads frames over as many connections as it takes.
struct Reader<F> {
    connect: F,
    after: Option<Seq>,
    ending: Ending,
    connection: Option<Connection>,
    frames: Frames,
    queue: VecDeque<Frame>,
    pause: Duration,
    was_connected: bool,
    is_over: bool,
}

impl<F: Fn(Option<Seq>) -> Connecting + Send + 'static> Reader<F> {
    fn new(connect: F, after: Option<Seq>, ending: Ending) -> Self {
        Self {
            connect,
            after,
            ending,
            connection: None,
            frames: Frames::default(),
            queue: VecDeque::new(),
            pause: FIRST_PAUSE,
            was_connected: false,
            is_over: false,
        }
    }

    fn stream(self) -> impl Stream<Item = Result<Frame, ClientError>> + Send + 'static {
        futures_util::stream::unfold(self, |mut reader| async move {
            let item = reader.next().await?;
            reader.is_over = item.is_err();
            Some((item, reader))
        })
    }

    async fn next(&mut self) -> Option<Result<Frame, ClientError>> {
        loop {
            if self.is_over {
                return None;
            }
            if let Some(frame) = self.queue.pop_front() {
                self.after = frame.id.as_ref().and_then(|id| id.parse().ok()).map(Seq).or(self.after);
                return Some(Ok(frame));
            }
            let Some(connection) = &mut self.connection else {
                match (self.connect)(self.after).await {
                    Ok(connection) => {
                        self.connection = Some(connection);
                        self.frames = Frames::default();
                        self.was_connected = true;
                    }
                    // Once connected, a server that does not answer is restarting.
                    Err(ClientError::Transport { .. }) if self.was_connected => self.rest().await,
                    Err(error) => return Some(Err(error)),
                }
                continue;
            };
            match tokio::time::timeout(SILENCE, connection.next()).await {
                Ok(Some(Ok(chunk))) => {
                    self.pause = FIRST_PAUSE;
                    match self.frames.push(&chunk) {
                        Ok(frames) => self.queue.extend(frames),
                        Err(error) => {
                            return Some(Err(ClientError::Decode { url: String::new(), reason: error.to_string() }));
                        }
                    }
                }
                Ok(None) if self.ending == Ending::End => return None,
                Ok(None | Some(Err(_))) | Err(_) => {
                    self.connection = None;
                    self.rest().await;
                }
            }
        }
    }

    async fn rest(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = self.pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}
