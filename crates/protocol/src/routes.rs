//! The route table: every operation of the contract, and abide's own.
//!
//! An operation that this version does not do yet is declared all the same, with [`Served::NotYet`].

use abide_schema::agent::AgentInfo;
use abide_schema::location::LocationInfo;
use abide_schema::message::{Message, Revert};
use abide_schema::permission::{PermissionRequest, SavedPermission};
use abide_schema::question::QuestionRequest;
use abide_schema::session::{Admitted, SessionInfo};

use crate::body::{
    ChangeDelivery, CompleteAttempt, ConnectKey, ConnectOauth, CreatePermission, CreatePty, CreateSession, ForkSession,
    MoveSession, NoBody, ReplyPermission, ReplyQuestion, SendPrompt, StageRevert, SwitchAgent, SwitchModel,
    UpdateCredential, UpdatePty,
};
use crate::error::ErrorTag;
use crate::query::{
    ConnectQuery, EventsQuery, FindFilesQuery, HistoryQuery, ListFilesQuery, LogQuery, MessagesQuery, NoQuery,
    SavedQuery, SessionsQuery, ViewQuery,
};
use crate::route::{Body, Endpoint, Method, Origin, Query, Reply, Route, Schemas, Served};
use crate::view::{EventView, Shown};
use crate::wire::{
    ActiveSessions, AnyJson, Attempt, AttemptStatus, Bytes, CommandInfo, ConnectToken, Data, FileEntry, Health,
    History, InboxEntry, InstanceEvents, IntegrationInfo, ListPage, Located, LogStream, ModelInfo, NoContent,
    PermissionOutcome, ProviderInfo, Pty, ReferenceInfo, SessionEvents, SkillInfo, Upgrade,
};

macro_rules! located {
    () => {
        false
    };
    (located) => {
        true
    };
}

macro_rules! endpoints {
    ($(
        #[doc = $doc:literal]
        $name:ident = $method:ident $path:literal $id:literal $($located:ident)?,
        $origin:ident $served:ident, $query:ty, $body:ty => $reply:ty, [$($error:ident),*];
    )*) => {
        /// Every operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Op { $( #[doc = $doc] $name, )* }

        $(
            #[doc = $doc]
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl Endpoint for $name {
                type Query = $query;
                type Body = $body;
                type Reply = $reply;
                const OP: Op = Op::$name;
            }
        )*

        /// The route table, in the order of the contract's description.
        pub static ROUTES: &[Route] = &[ $( Route {
            op: Op::$name,
            method: Method::$method,
            path: $path,
            id: $id,
            doc: $doc,
            origin: Origin::$origin,
            served: Served::$served,
            located: located!($($located)?),
            query: <$query as Query>::PARAMS,
            body: <$body as Body>::USE,
            status: <$reply as Reply>::STATUS,
            media: <$reply as Reply>::MEDIA,
            errors: &[$(ErrorTag::$error),*],
            schemas: Schemas { body: <$body as Body>::schema, reply: <$reply as Reply>::schema },
        }, )* ];
    };
}

endpoints! {
    /// Says that the server answers.
    HealthGet = GET "/api/health" "v2.health.get", Contract Yes, NoQuery, NoBody => Health, [];
    /// Describes the selected location.
    LocationGet = GET "/api/location" "v2.location.get" located, Contract Yes, NoQuery, NoBody => LocationInfo,
        [LocationNotFound, LocationPermissionDenied];
    /// Follows everything that happens, from now on.
    EventSubscribe = GET "/api/event" "v2.event.subscribe", Contract Yes, ViewQuery, NoBody => InstanceEvents, [];
    /// Lists the agents.
    AgentList = GET "/api/agent" "v2.agent.list" located, Contract Yes, NoQuery, NoBody
        => Located<Vec<Shown<AgentInfo>>>, [LocationNotFound, LocationPermissionDenied];
    /// Lists the models of usable providers, the newest first.
    ModelList = GET "/api/model" "v2.model.list" located, Contract Yes, NoQuery, NoBody
        => Located<Vec<ModelInfo>>, [LocationNotFound, LocationPermissionDenied, ServiceUnavailable];
    /// Lists the providers.
    ProviderList = GET "/api/provider" "v2.provider.list" located, Contract Yes, NoQuery, NoBody
        => Located<Vec<ProviderInfo>>, [LocationNotFound, LocationPermissionDenied, ServiceUnavailable];
    /// Describes a provider.
    ProviderGet = GET "/api/provider/{providerID}" "v2.provider.get" located, Contract Yes, NoQuery, NoBody
        => Located<ProviderInfo>,
        [ProviderNotFound, LocationNotFound, LocationPermissionDenied, ServiceUnavailable];
    /// Lists the slash commands.
    CommandList = GET "/api/command" "v2.command.list" located, Contract Yes, NoQuery, NoBody
        => Located<Vec<CommandInfo>>, [LocationNotFound, LocationPermissionDenied];
    /// Lists the skills.
    SkillList = GET "/api/skill" "v2.skill.list" located, Contract Yes, NoQuery, NoBody
        => Located<Vec<SkillInfo>>, [LocationNotFound, LocationPermissionDenied];
    /// Lists the references.
    ReferenceList = GET "/api/reference" "v2.reference.list" located, Contract Yes, NoQuery, NoBody
        => Located<Vec<ReferenceInfo>>, [LocationNotFound, LocationPermissionDenied];
    /// Lists the integrations.
    IntegrationList = GET "/api/integration" "v2.integration.list" located, Contract Yes, NoQuery, NoBody
        => Located<Vec<IntegrationInfo>>, [LocationNotFound, LocationPermissionDenied];
    /// Describes an integration.
    IntegrationGet = GET "/api/integration/{integrationID}" "v2.integration.get" located, Contract Yes, NoQuery,
        NoBody => Located<IntegrationInfo>, [IntegrationNotFound, LocationNotFound, LocationPermissionDenied];
    /// Stores a key.
    IntegrationConnectKey = POST "/api/integration/{integrationID}/connect/key" "v2.integration.connect.key" located,
        Contract Yes, NoQuery, ConnectKey => NoContent,
        [IntegrationNotFound, LocationNotFound, LocationPermissionDenied];
    /// Begins an authorization flow.
    IntegrationConnectOauth = POST "/api/integration/{integrationID}/connect/oauth" "v2.integration.connect.oauth"
        located, Contract Yes, NoQuery, ConnectOauth => Located<Attempt>,
        [IntegrationNotFound, IntegrationMethodNotFound, LocationNotFound, LocationPermissionDenied];
    /// Says where an authorization flow stands.
    IntegrationAttemptGet = GET "/api/integration/attempt/{attemptID}" "v2.integration.attempt.status" located,
        Contract Yes, NoQuery, NoBody => Located<AttemptStatus>,
        [IntegrationAttemptNotFound, LocationNotFound, LocationPermissionDenied];
    /// Ends an authorization flow.
    IntegrationAttemptComplete = POST "/api/integration/attempt/{attemptID}/complete"
        "v2.integration.attempt.complete" located, Contract Yes, NoQuery, CompleteAttempt => NoContent,
        [IntegrationAttemptNotFound, LocationNotFound, LocationPermissionDenied];
    /// Gives an authorization flow up.
    IntegrationAttemptCancel = DELETE "/api/integration/attempt/{attemptID}" "v2.integration.attempt.cancel" located,
        Contract Yes, NoQuery, NoBody => NoContent, [LocationNotFound, LocationPermissionDenied];
    /// Changes a credential's label.
    CredentialUpdate = PATCH "/api/credential/{credentialID}" "v2.credential.update" located, Contract Yes,
        NoQuery, UpdateCredential => NoContent, [LocationNotFound, LocationPermissionDenied];
    /// Removes a credential.
    CredentialRemove = DELETE "/api/credential/{credentialID}" "v2.credential.remove" located, Contract Yes,
        NoQuery, NoBody => NoContent, [LocationNotFound, LocationPermissionDenied];

    /// Lists sessions.
    SessionList = GET "/api/session" "v2.session.list", Contract Yes, SessionsQuery, NoBody
        => ListPage<Shown<SessionInfo>>, [InvalidCursor];
    /// Creates a session, or returns the one that has the id.
    SessionCreate = POST "/api/session" "v2.session.create", Contract Yes, NoQuery, CreateSession
        => Data<Shown<SessionInfo>>, [AgentNotFound, LocationNotFound, LocationPermissionDenied];
    /// Lists the sessions that run in this server.
    SessionActiveList = GET "/api/session/active" "v2.session.active", Contract Yes, NoQuery, NoBody
        => Data<ActiveSessions>, [];
    /// Describes a session.
    SessionGet = GET "/api/session/{sessionID}" "v2.session.get", Contract Yes, ViewQuery, NoBody
        => Data<Shown<SessionInfo>>, [];
    /// Chooses the agent of the next steps.
    SessionSwitchAgent = POST "/api/session/{sessionID}/agent" "v2.session.switchAgent", Contract Yes, NoQuery,
        SwitchAgent => NoContent, [AgentNotFound];
    /// Chooses the model of the next steps.
    SessionSwitchModel = POST "/api/session/{sessionID}/model" "v2.session.switchModel", Contract Yes, NoQuery,
        SwitchModel => NoContent, [];
    /// Admits a prompt, and wakes the session.
    SessionPrompt = POST "/api/session/{sessionID}/prompt" "v2.session.prompt", Contract Yes, NoQuery, SendPrompt
        => Data<Shown<Admitted>>, [Conflict];
    /// Asks for a compaction.
    SessionCompact = POST "/api/session/{sessionID}/compact" "v2.session.compact", Contract Yes, NoQuery, NoBody
        => NoContent, [ServiceUnavailable];
    /// Waits until the session is idle.
    SessionWait = POST "/api/session/{sessionID}/wait" "v2.session.wait", Contract Yes, NoQuery, NoBody
        => NoContent, [ServiceUnavailable];
    /// Interrupts what the session does.
    SessionInterrupt = POST "/api/session/{sessionID}/interrupt" "v2.session.interrupt", Contract Yes, NoQuery, NoBody
        => NoContent, [];
    /// Stages a revert.
    RevertStage = POST "/api/session/{sessionID}/revert/stage" "v2.session.revert.stage", Contract Yes, ViewQuery,
        StageRevert => Data<Shown<Revert>>, [MessageNotFound, SessionBusy, Unknown];
    /// Takes a staged revert back.
    RevertClear = POST "/api/session/{sessionID}/revert/clear" "v2.session.revert.clear", Contract Yes, NoQuery,
        NoBody => NoContent, [SessionBusy, Unknown];
    /// Makes a staged revert final.
    RevertCommit = POST "/api/session/{sessionID}/revert/commit" "v2.session.revert.commit", Contract Yes, NoQuery,
        NoBody => NoContent, [SessionBusy];
    /// Lists the messages that the model sees.
    SessionContext = GET "/api/session/{sessionID}/context" "v2.session.context", Contract Yes, ViewQuery, NoBody
        => Data<Vec<Shown<Message>>>, [Unknown];
    /// Reads a page of the session's durable events.
    SessionHistory = GET "/api/session/{sessionID}/history" "v2.session.history", Contract Yes, HistoryQuery, NoBody
        => History<EventView>, [];
    /// Follows the session's durable events, from the first or from a position on.
    SessionFollow = GET "/api/session/{sessionID}/event" "v2.session.events", Contract Yes, EventsQuery, NoBody
        => SessionEvents, [];
    /// Lists messages.
    MessageList = GET "/api/session/{sessionID}/message" "v2.session.messages", Contract Yes, MessagesQuery, NoBody
        => ListPage<Shown<Message>>, [InvalidCursor, Unknown];
    /// Reads a message.
    MessageGet = GET "/api/session/{sessionID}/message/{messageID}" "v2.session.message", Contract Yes, ViewQuery,
        NoBody => Data<Shown<Message>>, [MessageNotFound];

    /// Lists the pending permission requests of the location.
    PermissionRequestList = GET "/api/permission/request" "v2.permission.request.list" located, Contract Yes, NoQuery,
        NoBody => Located<Vec<Shown<PermissionRequest>>>, [LocationNotFound, LocationPermissionDenied];
    /// Lists saved permissions.
    PermissionSavedList = GET "/api/permission/saved" "v2.permission.saved.list" located, Contract Yes, SavedQuery,
        NoBody => Data<Vec<SavedPermission>>, [LocationNotFound, LocationPermissionDenied];
    /// Removes a saved permission.
    PermissionSavedRemove = DELETE "/api/permission/saved/{id}" "v2.permission.saved.remove", Contract Yes, NoQuery,
        NoBody => NoContent, [];
    /// Lists the pending permission requests of the session.
    PermissionList = GET "/api/session/{sessionID}/permission" "v2.session.permission.list", Contract Yes, NoQuery,
        NoBody => Data<Vec<Shown<PermissionRequest>>>, [];
    /// Evaluates a permission request.
    PermissionCreate = POST "/api/session/{sessionID}/permission" "v2.session.permission.create", Contract Yes,
        NoQuery, CreatePermission => Data<PermissionOutcome>, [AgentNotFound, Conflict];
    /// Reads a pending permission request.
    PermissionGet = GET "/api/session/{sessionID}/permission/{requestID}" "v2.session.permission.get", Contract Yes,
        NoQuery, NoBody => Data<Shown<PermissionRequest>>, [PermissionNotFound];
    /// Answers a permission request.
    PermissionReply = POST "/api/session/{sessionID}/permission/{requestID}/reply" "v2.session.permission.reply",
        Contract Yes, NoQuery, ReplyPermission => NoContent, [PermissionNotFound];
    /// Lists the pending questions of the location.
    QuestionRequestList = GET "/api/question/request" "v2.question.request.list" located, Contract Yes, NoQuery, NoBody
        => Located<Vec<Shown<QuestionRequest>>>, [LocationNotFound, LocationPermissionDenied];
    /// Lists the pending questions of the session.
    QuestionList = GET "/api/session/{sessionID}/question" "v2.session.question.list", Contract Yes, NoQuery, NoBody
        => Data<Vec<Shown<QuestionRequest>>>, [];
    /// Answers a question request.
    QuestionReply = POST "/api/session/{sessionID}/question/{requestID}/reply" "v2.session.question.reply",
        Contract Yes, NoQuery, ReplyQuestion => NoContent, [QuestionNotFound];
    /// Dismisses a question request.
    QuestionReject = POST "/api/session/{sessionID}/question/{requestID}/reject" "v2.session.question.reject",
        Contract Yes, NoQuery, NoBody => NoContent, [QuestionNotFound];

    /// Reads a file.
    FileRead = GET "/api/fs/read/*" "v2.fs.read" located, Contract Yes, NoQuery, NoBody => Bytes,
        [Forbidden, FileNotFound, LocationNotFound, LocationPermissionDenied];
    /// Lists a directory.
    FileList = GET "/api/fs/list" "v2.fs.list" located, Contract Yes, ListFilesQuery, NoBody
        => Located<Vec<FileEntry>>, [Forbidden, FileNotFound, LocationNotFound, LocationPermissionDenied];
    /// Finds files and directories by their path.
    FileFind = GET "/api/fs/find" "v2.fs.find" located, Contract Yes, FindFilesQuery, NoBody
        => Located<Vec<FileEntry>>, [LocationNotFound, LocationPermissionDenied];
    /// Lists the terminals.
    PtyList = GET "/api/pty" "v2.pty.list" located, Contract NotYet, NoQuery, NoBody => Located<Vec<Pty>>,
        [LocationNotFound, LocationPermissionDenied];
    /// Starts a terminal.
    PtyCreate = POST "/api/pty" "v2.pty.create" located, Contract NotYet, NoQuery, CreatePty => Located<Pty>,
        [LocationNotFound, LocationPermissionDenied];
    /// Describes a terminal.
    PtyGet = GET "/api/pty/{ptyID}" "v2.pty.get" located, Contract NotYet, NoQuery, NoBody => Located<Pty>,
        [PtyNotFound, LocationNotFound, LocationPermissionDenied];
    /// Changes a terminal's title or size.
    PtyUpdate = PUT "/api/pty/{ptyID}" "v2.pty.update" located, Contract NotYet, NoQuery, UpdatePty => Located<Pty>,
        [PtyNotFound, LocationNotFound, LocationPermissionDenied];
    /// Ends and removes a terminal.
    PtyRemove = DELETE "/api/pty/{ptyID}" "v2.pty.remove" located, Contract NotYet, NoQuery, NoBody => NoContent,
        [PtyNotFound, LocationNotFound, LocationPermissionDenied];
    /// Makes a ticket to join a terminal.
    PtyConnectToken = POST "/api/pty/{ptyID}/connect-token" "v2.pty.connectToken" located, Contract NotYet, NoQuery,
        NoBody => Located<ConnectToken>, [Forbidden, PtyNotFound, LocationNotFound, LocationPermissionDenied];
    /// Joins a terminal over WebSocket.
    PtyConnect = GET "/api/pty/{ptyID}/connect" "v2.pty.connect" located, Contract NotYet, ConnectQuery, NoBody
        => Upgrade, [Forbidden, PtyNotFound, LocationNotFound, LocationPermissionDenied];

    /// Sends to the background what calls of the session wait for: commands, subagents.
    SessionBackground = POST "/api/session/{sessionID}/background" "abide.session.background", Abide Yes, NoQuery,
        NoBody => NoContent, [];
    /// Reads the session's whole log, additions included; ends, or follows, after a `log.synced` mark.
    SessionLog = GET "/api/session/{sessionID}/log" "abide.session.log", Abide Yes, LogQuery, NoBody => LogStream, [];
    /// Reads the session's whole log; the name that newer versions of the contract use.
    SessionLogExperimental = GET "/api/experimental/session/{sessionID}/log" "abide.experimental.session.log",
        Abide Yes, LogQuery, NoBody => LogStream, [];
    /// Copies a session's settled history into a new session.
    SessionFork = POST "/api/session/{sessionID}/fork" "abide.session.fork", Abide Yes, ViewQuery, ForkSession
        => Data<Shown<SessionInfo>>, [MessageNotFound];
    /// Moves a session to another directory at its next boundary.
    SessionMove = POST "/api/session/{sessionID}/move" "abide.session.move", Abide Yes, NoQuery, MoveSession
        => NoContent, [LocationNotFound, LocationPermissionDenied];
    /// Deletes a session with its children; a running one is interrupted first.
    SessionDelete = DELETE "/api/session/{sessionID}" "abide.session.delete", Abide Yes, NoQuery, NoBody
        => NoContent, [];
    /// Lists what is admitted and has not taken effect, in order of admission.
    InboxList = GET "/api/session/{sessionID}/inbox" "abide.session.inbox.list", Abide Yes, NoQuery, NoBody
        => Data<Vec<InboxEntry>>, [];
    /// Changes when a pending input joins.
    InboxUpdate = PATCH "/api/session/{sessionID}/inbox/{inboxID}" "abide.session.inbox.update", Abide Yes, NoQuery,
        ChangeDelivery => NoContent, [MessageNotFound];
    /// Takes a pending input back; one that has taken effect, or never was, is no error.
    InboxCancel = DELETE "/api/session/{sessionID}/inbox/{inboxID}" "abide.session.inbox.cancel", Abide Yes, NoQuery,
        NoBody => NoContent, [];
    /// Describes the API.
    OpenApiGet = GET "/api/openapi.json" "abide.openapi.get", Abide Yes, NoQuery, NoBody => AnyJson, [];
}

impl Op {
    /// Returns the operation's row of the table.
    #[expect(clippy::indexing_slicing, reason = "the enum and the table come from one list, in one order")]
    pub fn route(self) -> &'static Route {
        &ROUTES[self as usize]
    }
}
