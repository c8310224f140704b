//! Errors as they stand on the wire: one flat object with `_tag` and `message`.

use abide_schema::{AgentId, MessageId, PermissionId, ProviderId, PtyId, QuestionId, SessionId};
use serde_json::{Map, Value, json};

/// The place of what is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidKind {
    /// The query.
    Query,
    /// The path.
    Params,
    /// The body.
    Payload,
    /// A hook refused it.
    HookDenied,
    /// An authorization flow was refused.
    IntegrationAuthorization,
    /// An authorization flow needs a code.
    IntegrationCodeRequired,
}

impl InvalidKind {
    /// Returns the word of the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Query => "Query",
            Self::Params => "Params",
            Self::Payload => "Payload",
            Self::HookDenied => "hook_denied",
            Self::IntegrationAuthorization => "integration_authorization",
            Self::IntegrationCodeRequired => "integration_code_required",
        }
    }
}

macro_rules! api_errors {
    ($(
        $(#[$doc:meta])*
        $name:ident = $tag:literal, $status:literal
        { $( $(#[$field_doc:meta])* $field:ident: $ty:ty = $wire:literal, )* }
        optional { $( $(#[$opt_doc:meta])* $opt:ident: $opt_ty:ty = $opt_wire:literal, )* }
    )*) => {
        /// Every error body of the API.
        #[derive(Clone, Debug, PartialEq, thiserror::Error)]
        #[non_exhaustive]
        pub enum ApiError {
            $(
                $(#[$doc])*
                #[error("{message}")]
                $name {
                    /// Text for people.
                    message: String,
                    $( $(#[$field_doc])* $field: $ty, )*
                    $( $(#[$opt_doc])* $opt: Option<$opt_ty>, )*
                },
            )*
        }

        /// The `_tag` of an error body.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorTag { $( $(#[$doc])* $name, )* }

        impl ErrorTag {
            /// Every tag.
            pub const ALL: &'static [Self] = &[ $( Self::$name, )* ];

            /// Returns the word of the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$name => $tag, )* }
            }

            /// Returns the HTTP status.
            pub const fn status(self) -> u16 {
                match self { $( Self::$name => $status, )* }
            }

            /// Returns the properties beyond `_tag` and `message`, each with whether it is always there.
            pub const fn fields(self) -> &'static [(&'static str, bool)] {
                match self { $( Self::$name => &[ $( ($wire, true), )* $( ($opt_wire, false), )* ], )* }
            }
        }

        impl ApiError {
            /// Returns the tag.
            pub const fn tag(&self) -> ErrorTag {
                match self { $( Self::$name { .. } => ErrorTag::$name, )* }
            }

            /// Returns the text for people.
            pub fn message(&self) -> &str {
                match self { $( Self::$name { message, .. } => message, )* }
            }

            /// Returns the body.
            pub fn body(&self) -> Value {
                let mut body = Map::new();
                body.insert("_tag".to_owned(), json!(self.tag().as_str()));
                body.insert("message".to_owned(), json!(self.message()));
                match self {
                    $( Self::$name { message: _, $( $field, )* $( $opt, )* } => {
                        $( body.insert($wire.to_owned(), json!($field)); )*
                        $( if let Some(value) = $opt { body.insert($opt_wire.to_owned(), json!(value)); } )*
                    } )*
                }
                Value::Object(body)
            }
        }
    };
}

api_errors! {
    /// The query, a path parameter or the body is not what the operation takes.
    InvalidRequest = "InvalidRequestError", 400 {} optional {
        /// The place.
        kind: String = "kind",
        /// The field.
        field: String = "field",
    }
    /// A cursor that this server did not make.
    InvalidCursor = "InvalidCursorError", 400 {} optional {}
    /// The password is missing or wrong.
    Unauthorized = "UnauthorizedError", 401 {} optional {}
    /// The request may not be made from where it comes.
    Forbidden = "ForbiddenError", 403 {} optional {}
    /// A directory may not be read.
    LocationPermissionDenied = "LocationPermissionDeniedError", 403 {
        /// The directory.
        location: String = "location",
    } optional {}
    /// No route has this path.
    RouteNotFound = "RouteNotFoundError", 404 {} optional {}
    /// A directory does not exist.
    LocationNotFound = "LocationNotFoundError", 404 {
        /// The directory.
        location: String = "location",
    } optional {}
    /// No session has this id.
    SessionNotFound = "SessionNotFoundError", 404 {
        /// The session.
        session_id: SessionId = "sessionID",
    } optional {}
    /// No message of the session has this id.
    MessageNotFound = "MessageNotFoundError", 404 {
        /// The session.
        session_id: SessionId = "sessionID",
        /// The message.
        message_id: MessageId = "messageID",
    } optional {}
    /// No pending permission request of the session has this id.
    PermissionNotFound = "PermissionNotFoundError", 404 {
        /// The request.
        request_id: PermissionId = "requestID",
    } optional {}
    /// No pending question of the session has this id.
    QuestionNotFound = "QuestionNotFoundError", 404 {
        /// The request.
        request_id: QuestionId = "requestID",
    } optional {}
    /// No provider has this name.
    ProviderNotFound = "ProviderNotFoundError", 404 {
        /// The provider.
        provider_id: ProviderId = "providerID",
    } optional {}
    /// No agent has this name.
    AgentNotFound = "AgentNotFoundError", 404 {
        /// The agent.
        agent_id: AgentId = "agentID",
    } optional {}
    /// No terminal has this id.
    PtyNotFound = "PtyNotFoundError", 404 {
        /// The terminal.
        pty_id: PtyId = "ptyID",
    } optional {}
    /// No file has this path.
    FileNotFound = "FileNotFoundError", 404 {
        /// The path.
        path: String = "path",
    } optional {}
    /// No integration has this name.
    IntegrationNotFound = "IntegrationNotFoundError", 404 {
        /// The integration.
        integration_id: String = "integrationID",
    } optional {}
    /// No attempt of the integration has this id.
    IntegrationAttemptNotFound = "IntegrationAttemptNotFoundError", 404 {
        /// The attempt.
        attempt_id: String = "attemptID",
    } optional {
        /// The integration.
        integration_id: String = "integrationID",
    }
    /// The integration has no such method.
    IntegrationMethodNotFound = "IntegrationMethodNotFoundError", 404 {
        /// The integration.
        integration_id: String = "integrationID",
        /// The method.
        method_id: String = "methodID",
    } optional {}
    /// The path takes other methods.
    MethodNotAllowed = "MethodNotAllowedError", 405 {} optional {}
    /// The id is taken by something else.
    Conflict = "ConflictError", 409 {} optional {
        /// The id.
        resource: String = "resource",
    }
    /// The session runs.
    SessionBusy = "SessionBusyError", 409 {
        /// The session.
        session_id: SessionId = "sessionID",
    } optional {}
    /// The body is larger than the server takes.
    PayloadTooLarge = "PayloadTooLargeError", 413 {} optional {}
    /// The server failed.
    Unknown = "UnknownError", 500 {} optional {
        /// The reference under which the log has the details.
        reference: String = "ref",
    }
    /// The server cannot do it now.
    ServiceUnavailable = "ServiceUnavailableError", 503 {} optional {
        /// What is not available.
        service: String = "service",
    }
}

/// How long a message may be; longer ones are cut.
pub const MAX_MESSAGE_CHARS: usize = 1024;

/// Cuts a message at [`MAX_MESSAGE_CHARS`].
pub fn cut(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((at, _)) => message.get(..at).unwrap_or_default().to_owned(),
        None => message.to_owned(),
    }
}

impl ApiError {
    /// Says what was expected, what came and where.
    pub fn expected(kind: InvalidKind, expected: &str, got: &str, path: &[&str]) -> Self {
        let place: String =
            path.iter().flat_map(|part| ["[".to_owned(), Value::from(*part).to_string(), "]".to_owned()]).collect();
        let message = if place.is_empty() {
            format!("Expected {expected}, got {got}")
        } else {
            format!("Expected {expected}, got {got}\n  at {place}")
        };
        let field = path.first().map(|name| (*name).to_owned());
        Self::InvalidRequest { message: cut(&message), kind: Some(kind.as_str().to_owned()), field }
    }

    /// Says what is wrong with a request.
    pub fn invalid(kind: InvalidKind, message: impl AsRef<str>) -> Self {
        Self::InvalidRequest { message: cut(message.as_ref()), kind: Some(kind.as_str().to_owned()), field: None }
    }

    /// A session id of a wrong form.
    pub fn session_id(message: impl AsRef<str>) -> Self {
        Self::InvalidRequest { message: cut(message.as_ref()), kind: None, field: Some("sessionID".to_owned()) }
    }

    /// An unknown session.
    pub fn session_not_found(session_id: SessionId) -> Self {
        Self::SessionNotFound { message: format!("Session not found: {session_id}"), session_id }
    }

    /// An unknown message.
    pub fn message_not_found(session_id: SessionId, message_id: MessageId) -> Self {
        Self::MessageNotFound { message: format!("Message not found: {message_id}"), session_id, message_id }
    }

    /// A service that the server does not offer.
    pub fn unavailable(service: &str) -> Self {
        Self::ServiceUnavailable { message: format!("{service} is not available"), service: Some(service.to_owned()) }
    }

    /// Returns the HTTP status.
    pub const fn status(&self) -> u16 {
        self.tag().status()
    }
}
