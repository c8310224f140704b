//! Answers from a cassette.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;

use super::cassette::{Cassette, CassetteError, Interaction, RecordedResponse};
use super::matching::{differences, same_request};
use super::redact::Redaction;
use super::scripted::{ScriptedBody, response};
use super::sockets::{Tape, replayed};
use crate::route::executor::{HttpExecutor, HttpRequest, HttpResponse};
use crate::route::headers::Headers;
use crate::route::transport::websocket::{Socket, SocketRequest, WebSocketConnector, socket_details};
use crate::schema::errors::{AIError, TransportDetails, TransportOperation};

/// Answers from a cassette. A request atomically claims the first unused interaction that equals it;
/// call [`ReplayExecutor::verify`] at the end. Clones share what was used.
#[derive(Clone)]
pub struct ReplayExecutor(Arc<Replay>);

struct Replay {
    name: String,
    interactions: Vec<Interaction>,
    used: Mutex<Vec<bool>>,
    /// The sockets that were opened: which interaction, and how far it went.
    sockets: Mutex<Vec<(usize, Arc<Mutex<Tape>>)>>,
    redaction: Redaction,
    delivery: Delivery,
}

/// In what pieces a recorded body arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// In one piece.
    #[default]
    Whole,
    /// In pieces of this many bytes.
    Pieces(usize),
}

impl ReplayExecutor {
    /// Reads a cassette.
    ///
    /// # Errors
    /// See [`Cassette::load`].
    pub fn load(dir: &Path, name: &str, redaction: Redaction) -> Result<Self, CassetteError> {
        Ok(Self::new(name, Cassette::load(dir, name)?, redaction, Delivery::Whole))
    }

    /// Replays a cassette that was read.
    pub fn new(name: &str, cassette: Cassette, redaction: Redaction, delivery: Delivery) -> Self {
        let used = Mutex::new(vec![false; cassette.interactions.len()]);
        Self(Arc::new(Replay {
            name: name.to_owned(),
            interactions: cassette.interactions,
            used,
            sockets: Mutex::default(),
            redaction,
            delivery,
        }))
    }

    /// Checks that every interaction was used, and every frame of a socket.
    ///
    /// # Errors
    /// `Unused` or `UnusedFrames`.
    pub fn verify(&self) -> Result<(), CassetteError> {
        let used = self.0.used.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = used.iter().filter(|used| !**used).count();
        if unused > 0 {
            return Err(CassetteError::Unused { unused, total: used.len() });
        }
        for (index, tape) in self.0.sockets.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let Some(Interaction::Websocket { events, .. }) = self.0.interactions.get(*index) else { continue };
            let unused = tape.lock().unwrap_or_else(PoisonError::into_inner).n_left(events);
            if unused > 0 {
                return Err(CassetteError::UnusedFrames { interaction: *index, unused, total: events.len() });
            }
        }
        Ok(())
    }

    /// Whether anything was used.
    pub fn is_used(&self) -> bool {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|used| *used)
    }

    fn claim_socket(&self, request: &SocketRequest) -> Result<Socket, CassetteError> {
        let open = self.0.redaction.open(request);
        let mut used = self.0.used.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, interaction) in self.0.interactions.iter().enumerate() {
            let Interaction::Websocket { open: recorded, events } = interaction else { continue };
            let is_same = open.url == recorded.url
                && open.headers.len() == recorded.headers.len()
                && open.headers.iter().all(|(name, value)| recorded.headers.get(name) == Some(value));
            if let Some(used) = used.get_mut(index)
                && !*used
                && is_same
            {
                *used = true;
                let tape = Arc::default();
                self.0.sockets.lock().unwrap_or_else(PoisonError::into_inner).push((index, Arc::clone(&tape)));
                return Ok(replayed(events.clone().into(), tape));
            }
        }
        let difference = format!("no unused socket of {} was opened like {}", self.0.name, open.url);
        Err(CassetteError::Unmatched { difference })
    }

    fn claim(&self, request: &HttpRequest) -> Result<RecordedResponse, CassetteError> {
        let request = self.0.redaction.request(request);
        let mut used = self.0.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut closest: Option<(usize, Vec<String>)> = None;
        for (index, interaction) in self.0.interactions.iter().enumerate() {
            let Interaction::Http { request: recorded, response } = interaction else { continue };
            if used.get(index).copied().unwrap_or(true) {
                continue;
            }
            if same_request(&request, recorded) {
                if let Some(used) = used.get_mut(index) {
                    *used = true;
                }
                return Ok(response.clone());
            }
            let lines = differences(&request, recorded);
            if closest.as_ref().is_none_or(|(_, best)| lines.len() < best.len()) {
                closest = Some((index, lines));
            }
        }
        let difference = match closest {
            Some((index, lines)) => {
                format!("closest is interaction {index} of {}:\n  {}", self.0.name, lines.join("\n  "))
            }
            None => format!("all interactions of {} are used", self.0.name),
        };
        Err(CassetteError::Unmatched { difference })
    }
}

impl WebSocketConnector for ReplayExecutor {
    fn connect(&self, request: SocketRequest) -> BoxFuture<'static, Result<Socket, AIError>> {
        let socket = self.claim_socket(&request).map_err(|error| {
            let mut details = socket_details(TransportOperation::Request, Some(&request.url));
            details.code = Some("Unmatched".to_owned());
            AIError::transport(details, error.to_string()).with_cause(error)
        });
        Box::pin(std::future::ready(socket))
    }
}

impl HttpExecutor for ReplayExecutor {
    fn execute(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, AIError>> {
        let delivery = self.0.delivery;
        let answer = self.claim(&request).and_then(|recorded| {
            let headers: Headers = recorded.headers.iter().collect();
            let bytes = recorded.bytes()?;
            let body = match delivery {
                Delivery::Whole => ScriptedBody::bytes(bytes),
                Delivery::Pieces(size) => ScriptedBody::pieces(&bytes, size),
            };
            Ok(response(recorded.status, headers, body))
        });
        let answer = answer.map_err(|error| {
            let details = TransportDetails {
                code: Some("Unmatched".to_owned()),
                ..TransportDetails::http(TransportOperation::Request)
            };
            AIError::transport(details, error.to_string()).with_cause(error)
        });
        Box::pin(std::future::ready(answer))
    }
}
