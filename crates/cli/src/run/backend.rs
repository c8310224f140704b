//! Where a run happens: in this process, or on a server.

use std::path::Path;

use abide_core::job::JobStatus;
use abide_core::session::{CreateSession, FileInput, PromptSession};
use abide_core::store::{BusEvent, BusReceiver, Order, SessionQuery};
use abide_protocol::client::{Client, ClientOptions, EventEnvelope, EventStream};
use abide_protocol::query::SessionsQuery;
use abide_schema::event::EventData;
use abide_schema::live::LiveData;
use abide_schema::location::LocationRef;
use abide_schema::model::ModelRef;
use abide_schema::permission::{PermissionRequest, Reply};
use abide_schema::question::{Answer, QuestionRequest};
use abide_schema::{AgentId, SessionId};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::args::Global;
use crate::error::CliError;
use crate::instance::{self, Instance};

/// What a run starts with.
pub(crate) struct Start {
    pub(crate) session: Option<String>,
    pub(crate) continue_last: bool,
    pub(crate) model: Option<ModelRef>,
    pub(crate) agent: Option<String>,
    pub(crate) title: Option<String>,
}

/// An event of either side.
pub(crate) enum Event {
    Local(BusEvent),
    Remote { envelope: Box<EventEnvelope>, stored: Option<Box<EventData>>, live: Option<Box<LiveData>> },
}

impl Event {
    pub(crate) fn stored(&self) -> Option<&EventData> {
        match self {
            Self::Local(BusEvent::Stored(event)) => Some(&event.data),
            Self::Local(BusEvent::Live(_)) => None,
            Self::Remote { stored, .. } => stored.as_deref(),
        }
    }

    pub(crate) fn live(&self) -> Option<&LiveData> {
        match self {
            Self::Local(BusEvent::Live(event)) => Some(&event.data),
            Self::Local(BusEvent::Stored(_)) => None,
            Self::Remote { live, .. } => live.as_deref(),
        }
    }

    pub(crate) fn session_id(&self) -> Option<SessionId> {
        self.stored()
            .map(|data| data.session_id().clone())
            .or_else(|| self.live().and_then(|data| data.session_id().cloned()))
    }

    /// Returns the whole event, additions included.
    pub(crate) fn to_json(&self) -> Result<Value, CliError> {
        match self {
            Self::Local(BusEvent::Stored(event)) => Ok(serde_json::to_value(event.to_log_record()?)?),
            Self::Local(BusEvent::Live(event)) => {
                let mut value = json!({ "id": event.id, "type": event.data.name(), "data": event.data.to_value()? });
                if let (Some(location), Some(map)) = (&event.location, value.as_object_mut()) {
                    map.insert("location".to_owned(), serde_json::to_value(location)?);
                }
                Ok(value)
            }
            Self::Remote { envelope, .. } => Ok(json!({
                "id": envelope.id,
                "type": envelope.kind,
                "created": envelope.created,
                "durable": envelope.durable,
                "location": envelope.location,
                "data": envelope.data,
            })),
        }
    }
}

/// What the next wait brought.
pub(crate) enum Happening {
    Event(Event),
    /// The session is idle and all its events were given.
    Idle,
}

/// This process, or a server.
pub(crate) enum Backend {
    Local(Box<Local>),
    Remote(Box<Remote>),
}

pub(crate) struct Local {
    instance: Instance,
    bus: BusReceiver,
    session: Option<SessionId>,
    idle: Option<futures_util::future::BoxFuture<'static, ()>>,
    /// Listens for other processes.
    attending: (DropGuard, tokio::task::JoinHandle<()>),
}

pub(crate) struct Remote {
    client: Client,
    events: EventStream,
    session: Option<SessionId>,
    idle: bool,
}

impl Backend {
    pub(crate) async fn open(global: &Global, attach: Option<&str>) -> Result<Self, CliError> {
        let Some(url) = attach else {
            let instance = Instance::open(global).await?;
            let directory = instance::directory(global)?;
            let location = instance.location(&LocationRef::new(directory.to_string_lossy())).await?;
            if let Some(found) = location.state().rejected_document() {
                return Err(CliError::failed(found.to_string()));
            }
            let bus = instance.app.store().subscribe();
            let (app, token) = (instance.app.clone(), CancellationToken::new());
            let ends = token.clone();
            let attending = instance.app.world().spawn(async move { app.sessions().attend(ends).await });
            let attending = (token.drop_guard(), attending);
            return Ok(Self::Local(Box::new(Local { instance, bus, session: None, idle: None, attending })));
        };
        let directory = instance::directory(global)?;
        let world = abide_core::world::World::real();
        let options = ClientOptions {
            url: url.to_owned(),
            username: instance::server_user(&world),
            password: instance::server_password(&world),
            directory: Some(directory.to_string_lossy().into_owned()),
        };
        let client = Client::new(&options)?;
        client.health().await.map_err(|error| {
            CliError::failed(format!("the server {url} does not answer: {error}")).hint("start one with: abide serve")
        })?;
        let mut events = client.events();
        // The first event says that nothing is missed from here on.
        match events.next().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.into()),
            None => return Err(CliError::failed(format!("the event stream of {url} ended at once"))),
        }
        Ok(Self::Remote(Box::new(Remote { client, events, session: None, idle: false })))
    }

    /// Finds or makes the session.
    pub(crate) async fn session(&mut self, start: Start, directory: &Path) -> Result<SessionId, CliError> {
        let named = start
            .session
            .as_deref()
            .map(|text| {
                SessionId::parse(text)
                    .map_err(|error| CliError::usage(error.to_string()).hint("`abide session list` shows the sessions"))
            })
            .transpose()?;
        let directory = directory.to_string_lossy().into_owned();
        let agent = start.agent.as_deref().map(AgentId::new);
        let id = match self {
            Self::Local(local) => {
                local.session(named, start.continue_last, start.model, agent, start.title, &directory).await?
            }
            Self::Remote(remote) => remote.session(named, start.continue_last, start.model, agent, &directory).await?,
        };
        match self {
            Self::Local(local) => local.session = Some(id.clone()),
            Self::Remote(remote) => remote.session = Some(id.clone()),
        }
        Ok(id)
    }

    pub(crate) async fn prompt(
        &mut self,
        session: &SessionId,
        text: String,
        files: Vec<String>,
    ) -> Result<(), CliError> {
        let files: Vec<FileInput> =
            files.into_iter().map(|uri| FileInput { uri, name: None, description: None, source: None }).collect();
        match self {
            Self::Local(local) => {
                let sessions = local.instance.app.sessions().clone();
                // What an earlier process left in this session is settled first; it goes on with this prompt.
                sessions.recover(Some(session)).await?;
                let files = (!files.is_empty()).then_some(files);
                let input = PromptSession { text, files, ..PromptSession::default() };
                sessions.prompt(session, input).await?;
                let id = session.clone();
                local.idle = Some(Box::pin(async move {
                    // Only an unknown session fails here, and this one is known.
                    let _known = sessions.wait(&id).await;
                }));
            }
            Self::Remote(remote) => {
                let body = json!({
                    "prompt": { "text": text, "files": files },
                });
                let input = serde_json::from_value(body)?;
                remote.client.prompt(session, &input).await?;
            }
        }
        Ok(())
    }

    /// Counts what goes on in the background of this process for the session.
    pub(crate) fn n_in_background(&self, session: &SessionId) -> usize {
        match self {
            Self::Local(local) => {
                let jobs = local.instance.app.sessions().jobs().list(Some(session));
                jobs.iter().filter(|job| job.status == JobStatus::Running).count()
            }
            // The server goes on with it.
            Self::Remote(_) => 0,
        }
    }

    /// Says whether `asking` is the session itself or one below it.
    pub(crate) async fn is_below(&self, session: &SessionId, asking: &SessionId) -> Result<bool, CliError> {
        let mut id = asking.clone();
        // Nesting is bounded; a chain that does not end is no child of ours.
        for _ in 0..64 {
            if id == *session {
                return Ok(true);
            }
            let parent = match self {
                Self::Local(local) => local.instance.app.sessions().get(&id).await?.parent_id,
                Self::Remote(remote) => remote.client.session(&id).await?.parent_id,
            };
            match parent {
                Some(parent) => id = parent,
                None => break,
            }
        }
        Ok(false)
    }

    /// Waits for the next event.
    pub(crate) async fn next(&mut self) -> Result<Happening, CliError> {
        match self {
            Self::Local(local) => local.next().await,
            Self::Remote(remote) => remote.next().await,
        }
    }

    pub(crate) async fn interrupt(&mut self, session: &SessionId) -> Result<(), CliError> {
        match self {
            Self::Local(local) => {
                local.instance.app.sessions().interrupt(session).await?;
                Ok(())
            }
            Self::Remote(remote) => Ok(remote.client.interrupt(session).await?),
        }
    }

    pub(crate) async fn reply_permission(
        &mut self,
        session: &SessionId,
        request: &PermissionRequest,
        reply: Reply,
        message: Option<String>,
    ) -> Result<(), CliError> {
        match self {
            Self::Local(local) => {
                let location = local.instance.location_of(session).await?;
                location
                    .permissions()
                    .reply(session, &request.id, reply, message)
                    .await
                    .map_err(|error| CliError::failed(error.to_string()))
            }
            Self::Remote(remote) => Ok(remote.client.reply_permission(session, &request.id, reply, message).await?),
        }
    }

    pub(crate) async fn reply_question(
        &mut self,
        session: &SessionId,
        request: &QuestionRequest,
        answers: Vec<Answer>,
    ) -> Result<(), CliError> {
        match self {
            Self::Local(local) => {
                let location = local.instance.location_of(session).await?;
                location
                    .questions()
                    .reply(session, &request.id, answers)
                    .map_err(|error| CliError::failed(error.to_string()))
            }
            Self::Remote(remote) => Ok(remote.client.reply_question(session, &request.id, answers).await?),
        }
    }

    pub(crate) async fn reject_question(
        &mut self,
        session: &SessionId,
        request: &QuestionRequest,
    ) -> Result<(), CliError> {
        match self {
            Self::Local(local) => {
                let location = local.instance.location_of(session).await?;
                location.questions().reject(session, &request.id).map_err(|error| CliError::failed(error.to_string()))
            }
            Self::Remote(remote) => Ok(remote.client.reject_question(session, &request.id).await?),
        }
    }

    pub(crate) async fn close(self) {
        if let Self::Local(local) = self {
            let Local { instance, attending: (guard, task), .. } = *local;
            drop(guard);
            // It ends at once; a panic in it is logged by the runtime.
            let _ended = task.await;
            instance.close().await;
        }
    }
}

impl Local {
    async fn session(
        &self,
        named: Option<SessionId>,
        continue_last: bool,
        model: Option<ModelRef>,
        agent: Option<AgentId>,
        title: Option<String>,
        directory: &str,
    ) -> Result<SessionId, CliError> {
        let sessions = self.instance.app.sessions();
        let known = match named {
            Some(id) => Some(sessions.get(&id).await?.id),
            None if continue_last => {
                let query = SessionQuery {
                    directory: Some(directory.to_owned()),
                    parent: Some(None),
                    order: Order::Desc,
                    limit: 1,
                    ..SessionQuery::default()
                };
                let newest = sessions.store().sessions(query).await?.into_iter().next();
                let none = || CliError::failed(format!("there is no session in {directory} to continue"));
                Some(newest.ok_or_else(none)?.id)
            }
            None => None,
        };
        if let Some(id) = known {
            if let Some(agent) = agent {
                sessions.switch_agent(&id, agent).await?;
            }
            if let Some(model) = model {
                sessions.switch_model(&id, model).await?;
            }
            return Ok(id);
        }
        if let Some(agent) = &agent {
            self.instance.check_agent(directory, agent).await?;
        }
        // A run that cannot start leaves no session behind.
        self.instance.check_model(directory, model.as_ref(), agent.as_ref()).await?;
        let location = Some(LocationRef::new(directory));
        let input = CreateSession { agent, model, location, title, ..CreateSession::default() };
        Ok(sessions.create(input).await?.id)
    }

    async fn next(&mut self) -> Result<Happening, CliError> {
        let Some(idle) = &mut self.idle else { return Ok(Happening::Idle) };
        tokio::select! {
            biased;
            event = self.bus.next() => match event {
                Some(Ok(event)) => Ok(Happening::Event(Event::Local(event))),
                Some(Err(_lagged)) => Err(CliError::failed("the output is too slow: events were lost")
                    .hint("nothing is lost in the session: abide session show")),
                None => Ok(Happening::Idle),
            },
            () = idle => {
                // Everything that was published before is in the queue.
                self.idle = None;
                match self.bus.try_next() {
                    Some(Ok(event)) => {
                        self.idle = Some(Box::pin(std::future::ready(())));
                        Ok(Happening::Event(Event::Local(event)))
                    }
                    Some(Err(_)) | None => Ok(Happening::Idle),
                }
            }
        }
    }
}

impl Remote {
    async fn session(
        &self,
        named: Option<SessionId>,
        continue_last: bool,
        model: Option<ModelRef>,
        agent: Option<AgentId>,
        directory: &str,
    ) -> Result<SessionId, CliError> {
        let known = match named {
            Some(id) => Some(self.client.session(&id).await?.id),
            None if continue_last => {
                let query =
                    SessionsQuery { directory: Some(directory.to_owned()), limit: Some(1), ..SessionsQuery::default() };
                let page = self.client.sessions(&query).await?;
                let none = || CliError::failed(format!("there is no session in {directory} to continue"));
                Some(page.data.into_iter().next().ok_or_else(none)?.value.id)
            }
            None => None,
        };
        if let Some(id) = known {
            if let Some(agent) = agent {
                self.client.switch_agent(&id, agent).await?;
            }
            if let Some(model) = model {
                self.client.switch_model(&id, model).await?;
            }
            return Ok(id);
        }
        let input = serde_json::from_value(json!({
            "agent": agent,
            "model": model,
            "location": { "directory": directory },
        }))?;
        Ok(self.client.create_session(&input).await?.id)
    }

    async fn next(&mut self) -> Result<Happening, CliError> {
        if self.idle {
            return Ok(Happening::Idle);
        }
        match self.events.next().await {
            None => Err(CliError::failed("the server closed the event stream")),
            Some(Err(error)) => Err(error.into()),
            Some(Ok(envelope)) => {
                let stored = envelope.stored().map(|event| Box::new(event.data));
                let live = envelope.live().map(Box::new);
                if let Some(LiveData::BecameIdle(idle)) = live.as_deref()
                    && Some(&idle.session_id) == self.session.as_ref()
                {
                    self.idle = true;
                }
                Ok(Happening::Event(Event::Remote { envelope: Box::new(envelope), stored, live }))
            }
        }
    }
}
