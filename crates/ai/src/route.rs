//! Routes: the runnable composition of protocol, endpoint, auth, framing and defaults.
//!
//! The four pieces are orthogonal. A protocol knows bodies and events but no host, header or
//! credential; an endpoint knows where to; auth knows how to sign; framing turns bytes into frames.
//! There is no registry: a [`Route`] is a value, and ids may repeat.

pub mod auth;
pub mod auth_options;
pub mod client;
pub mod endpoint;
pub mod executor;
pub mod framing;
pub mod headers;
pub mod host;
pub mod protocol;
pub mod transport;

use std::fmt;
use std::sync::Arc;

use crate::route::auth::Auth;
use crate::route::endpoint::{Endpoint, EndpointPatch};
use crate::route::framing::Framing;
use crate::route::headers::Headers;
use crate::route::protocol::{CacheSupport, ErasedProtocol, FrameParser, Protocol, erase};
use crate::route::transport::websocket_channel::ChannelOptions;
use crate::schema::JsonObject;
use crate::schema::errors::{AIError, ConfigurationError};
use crate::schema::ids::{ModelId, ProtocolId, ProviderId, RouteId};
use crate::schema::model::{Compatibility, Defaults, LanguageModel};
use crate::schema::options::HttpOptions;
use crate::schema::request::LLMRequest;

/// Headers that depend on the request (`anthropic-version`, affinity headers).
pub type HeadersFn = Arc<dyn Fn(&LLMRequest) -> Headers + Send + Sync>;

/// Body fields that depend on the request, for APIs that add some to a protocol.
pub type BodyFn = Arc<dyn Fn(&LLMRequest) -> JsonObject + Send + Sync>;

/// Which automatic cache marks a route takes, where that is not for its protocol alone to say.
pub type MarksFn = fn(&LLMRequest) -> CacheSupport;

/// A runnable route. Cheap to clone.
#[derive(Clone)]
pub struct Route(Arc<RouteFields>);

#[derive(Clone)]
struct RouteFields {
    id: RouteId,
    provider: Option<ProviderId>,
    metadata_key: Option<String>,
    protocol: Arc<dyn ErasedProtocol>,
    endpoint: Endpoint,
    auth: Auth,
    framing: Framing,
    headers: Option<HeadersFn>,
    body: Option<BodyFn>,
    marks: Option<MarksFn>,
    defaults: Defaults,
    channel: Option<ChannelOptions>,
}

/// What [`Route::make`] composes.
pub struct RouteParts<P> {
    /// The id.
    pub id: RouteId,
    /// The provider, if fixed.
    pub provider: Option<ProviderId>,
    /// The namespace in provider metadata; the provider id when absent.
    pub metadata_key: Option<String>,
    /// Bodies and events.
    pub protocol: P,
    /// Where to.
    pub endpoint: Endpoint,
    /// How to sign.
    pub auth: Auth,
    /// Bytes to frames.
    pub framing: Framing,
    /// Headers that depend on the request.
    pub headers: Option<HeadersFn>,
    /// Defaults of every call.
    pub defaults: Defaults,
}

/// Changes of [`Route::with`]; `None` keeps a piece.
#[derive(Clone, Default)]
pub struct RoutePatch {
    /// Replaces the id.
    pub id: Option<RouteId>,
    /// Replaces the provider.
    pub provider: Option<ProviderId>,
    /// Replaces the metadata namespace.
    pub metadata_key: Option<String>,
    /// Merges: base URL and path replace, query per key.
    pub endpoint: EndpointPatch,
    /// Replaces auth.
    pub auth: Option<Auth>,
    /// Adds headers; also visible in `defaults.http.headers`.
    pub headers: Option<Headers>,
    /// Adds headers that depend on the request to those of the route.
    pub headers_for: Option<HeadersFn>,
    /// Lays fields that depend on the request over the body.
    pub body_for: Option<BodyFn>,
    /// Says which automatic cache marks the route takes, in place of its protocol.
    pub marks_for: Option<MarksFn>,
    /// Merges by layer.
    pub defaults: Defaults,
}

/// What [`Route::model`] makes.
#[derive(Clone, Debug, Default)]
pub struct ModelSelection {
    /// The model id on the wire.
    pub id: ModelId,
    /// The provider, when the route has none or another is wanted.
    pub provider: Option<ProviderId>,
    /// Defaults of the model.
    pub defaults: Defaults,
    /// Overrides of detection.
    pub compatibility: Compatibility,
}

impl ModelSelection {
    /// Selects a model by id.
    pub fn new(id: impl Into<ModelId>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }
}

impl Route {
    /// Composes a route.
    pub fn make<P: Protocol>(parts: RouteParts<P>) -> Self {
        Self(Arc::new(RouteFields {
            id: parts.id,
            provider: parts.provider,
            metadata_key: parts.metadata_key,
            protocol: erase(parts.protocol),
            endpoint: parts.endpoint,
            auth: parts.auth,
            framing: parts.framing,
            headers: parts.headers,
            body: None,
            marks: None,
            defaults: parts.defaults,
            channel: None,
        }))
    }

    /// The same route, able to use WebSockets where a call brings an executor for them.
    pub fn with_channel(&self, channel: ChannelOptions) -> Self {
        let mut fields = (*self.0).clone();
        fields.channel = Some(channel);
        Self(Arc::new(fields))
    }

    /// A copy with some pieces changed; this route stays as it is.
    pub fn with(&self, patch: RoutePatch) -> Self {
        let mut fields = (*self.0).clone();
        if let Some(id) = patch.id {
            fields.id = id;
        }
        if let Some(provider) = patch.provider {
            fields.provider = Some(provider);
        }
        if let Some(key) = patch.metadata_key {
            fields.metadata_key = Some(key);
        }
        if let Some(auth) = patch.auth {
            fields.auth = auth;
        }
        fields.endpoint = fields.endpoint.merge(patch.endpoint);
        if let Some(headers) = patch.headers {
            fields.defaults = fields.defaults.merge(&Defaults {
                http: Some(HttpOptions { headers: Some(headers.into_map()), ..HttpOptions::default() }),
                ..Defaults::default()
            });
        }
        if let Some(more) = patch.headers_for {
            fields.headers = Some(match fields.headers.take() {
                None => more,
                Some(own) => Arc::new(move |request| {
                    let mut headers = own(request);
                    headers.merge(more(request).iter());
                    headers
                }),
            });
        }
        if patch.body_for.is_some() {
            fields.body = patch.body_for;
        }
        if patch.marks_for.is_some() {
            fields.marks = patch.marks_for;
        }
        fields.defaults = fields.defaults.merge(&patch.defaults);
        Self(Arc::new(fields))
    }

    /// A copy whose address must be set before a model is selected.
    #[must_use]
    pub fn without_base_url(&self) -> Self {
        let mut fields = (*self.0).clone();
        fields.endpoint = fields.endpoint.without_base_url();
        Self(Arc::new(fields))
    }

    /// Selects a model on this route.
    ///
    /// # Errors
    /// When the endpoint has no base URL or no provider is known.
    pub fn model(&self, selection: ModelSelection) -> Result<LanguageModel, ConfigurationError> {
        let Some(provider) = selection.provider.or_else(|| self.0.provider.clone()) else {
            return Err(ConfigurationError::new(
                self.0.id.as_str(),
                format!("no provider is known for model {:?}; name one", selection.id),
            ));
        };
        if self.0.endpoint.base_url().is_none() {
            return Err(ConfigurationError::new(
                provider,
                format!("no base URL is set for model {:?}; set baseURL", selection.id),
            ));
        }
        Ok(LanguageModel::make(selection.id, provider, self.clone()).update(|fields| {
            fields.defaults = selection.defaults;
            fields.compatibility = selection.compatibility;
        }))
    }

    /// The id.
    pub fn id(&self) -> &RouteId {
        &self.0.id
    }

    /// The provider, if fixed.
    pub fn provider(&self) -> Option<&ProviderId> {
        self.0.provider.as_ref()
    }

    /// The namespace in provider metadata, when it is not the provider id.
    pub fn metadata_key(&self) -> Option<&str> {
        self.0.metadata_key.as_deref()
    }

    /// The id of the protocol.
    pub fn protocol_id(&self) -> ProtocolId {
        self.0.protocol.id()
    }

    /// Where to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }

    /// How to sign.
    pub fn auth(&self) -> &Auth {
        &self.0.auth
    }

    /// Bytes to frames.
    pub fn framing(&self) -> Framing {
        self.0.framing
    }

    /// How it uses WebSockets, if it can.
    pub fn channel(&self) -> Option<&ChannelOptions> {
        self.0.channel.as_ref()
    }

    /// Defaults of every call.
    pub fn defaults(&self) -> &Defaults {
        &self.0.defaults
    }

    /// A parser for the response to a request, without the network.
    pub fn parser(&self, request: &LLMRequest) -> Box<dyn FrameParser> {
        self.shared_protocol().parser(request)
    }

    /// The body of a request as JSON text, without schemas, marks and overlays.
    ///
    /// # Errors
    /// `InvalidRequest` for what the protocol cannot carry.
    pub fn encode(&self, request: &LLMRequest) -> Result<Vec<u8>, AIError> {
        self.0.protocol.encode(request)
    }

    pub(crate) fn protocol(&self) -> &dyn ErasedProtocol {
        &*self.0.protocol
    }

    pub(crate) fn shared_protocol(&self) -> Arc<dyn ErasedProtocol> {
        Arc::clone(&self.0.protocol)
    }

    pub(crate) fn cache_marks(&self, request: &LLMRequest) -> CacheSupport {
        self.0.marks.map_or_else(|| self.0.protocol.cache_marks(request), |marks| marks(request))
    }

    pub(crate) fn body_for(&self, request: &LLMRequest) -> JsonObject {
        self.0.body.as_ref().map(|body| body(request)).unwrap_or_default()
    }

    pub(crate) fn headers_for(&self, request: &LLMRequest) -> Headers {
        self.0.headers.as_ref().map(|headers| headers(request)).unwrap_or_default()
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route")
            .field("id", &self.0.id)
            .field("provider", &self.0.provider)
            .field("protocol", &self.0.protocol.id())
            .field("endpoint", &self.0.endpoint)
            .finish_non_exhaustive()
    }
}
