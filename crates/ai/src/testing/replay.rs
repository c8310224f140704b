//! Answers from a cassette.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;

use super::cassette::{Cassette, CassetteError, Interaction, RecordedResponse};
use super::matching::{differences, same_request};
use super::redact::Redaction;
use super::scripted::{ScriptedBody, response};
use crate::route::executor::{HttpExecutor, HttpRequest, HttpResponse};
use crate::route::headers::Headers;
use crate::schema::errors::{AIError, TransportDetails, TransportOperation};

/// Answers from a cassette. A request atomically claims the first unused interaction that equals it;
/// call [`ReplayExecutor::verify`] at the end. Clones share what was used.
#[derive(Clone)]
pub struct ReplayExecutor(Arc<Replay>);

struct Replay {
    name: String,
    interactions: Vec<Interaction>,
    used: Mutex<Vec<bool>>,
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
        Self(Arc::new(Replay { name: name.to_owned(), interactions: cassette.interactions, used, redaction, delivery }))
    }

    /// Checks that every interaction was used.
    ///
    /// # Errors
    /// `Unused`.
    pub fn verify(&self) -> Result<(), CassetteError> {
        let used = self.0.used.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = used.iter().filter(|used| !**used).count();
        if unused > 0 {
            return Err(CassetteError::Unused { unused, total: used.len() });
        }
        Ok(())
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
