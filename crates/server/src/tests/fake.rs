//! An engine that does next to nothing: sessions are created and prompts admitted in the memory store, nothing runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use abide_core::permission::{PermissionOptions, PermissionRules, PermissionService, RulesError};
use abide_core::question::{QuestionOptions, QuestionService};
use abide_core::store::{Batch, MemoryStore, Store};
use abide_core::world::World;
use abide_protocol::body::{CreateSession, ForkSession, MoveSession, SendPrompt, StageRevert};
use abide_protocol::error::ApiError;
use abide_protocol::wire::{
    CommandInfo, EntryKind, FileEntry, IntegrationInfo, ModelInfo, ProviderInfo, ReferenceInfo, SkillInfo,
};
use abide_schema::agent::AgentInfo;
use abide_schema::event::{EventData, PromptAdmitted, SessionCreated};
use abide_schema::live::{LiveData, LiveEvent};
use abide_schema::location::{LocationInfo, LocationRef, ProjectRef};
use abide_schema::message::{Message, Revert};
use abide_schema::model::ModelRef;
use abide_schema::permission::{Effect, Rule};
use abide_schema::prompt::{Delivery, Prompt};
use abide_schema::session::{Admitted, SessionInfo};
use abide_schema::{AgentId, CredentialId, IntegrationId, MessageId, ProjectId, ProviderId, SessionId};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use crate::backend::{Answer, Backend, Directory, Failure, FileContent};

pub(crate) struct Fake {
    world: World,
    store: Arc<dyn Store>,
    directory: Arc<FakeDirectory>,
    /// Released to let `wait` return.
    pub(crate) idle: Notify,
    pub(crate) interrupted: Mutex<Vec<SessionId>>,
}

struct AskForEdits;

impl PermissionRules for AskForEdits {
    fn configured<'a>(
        &'a self,
        _: &'a SessionId,
        _: Option<&'a AgentId>,
    ) -> BoxFuture<'a, Result<Vec<Rule>, RulesError>> {
        std::future::ready(Ok(vec![Rule::new("*", "*", Effect::Allow), Rule::new("edit", "*", Effect::Ask)])).boxed()
    }
}

impl Fake {
    pub(crate) fn new() -> Self {
        let world = World::real();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(world.clone()));
        let root = PathBuf::from("/fake/root");
        let project = ProjectRef { id: ProjectId::new("prj"), directory: "/fake".to_owned() };
        let publish = |world: World, store: Arc<dyn Store>| {
            Arc::new(move |data: LiveData| {
                let location = Some(LocationRef::new("/fake/root"));
                store.publish_live(LiveEvent { id: world.event_id(), location, data });
            })
        };
        let directory = FakeDirectory {
            info: LocationInfo { directory: root.display().to_string(), workspace_id: None, project: project.clone() },
            permissions: PermissionService::new(PermissionOptions {
                world: world.clone(),
                project: project.id,
                directory: root,
                rules: Arc::new(AskForEdits),
                values: store.clone(),
                publish: publish(world.clone(), store.clone()),
                hooks: Vec::new(),
            }),
            questions: QuestionService::new(QuestionOptions {
                world: world.clone(),
                publish: publish(world.clone(), store.clone()),
            }),
        };
        Self { world, store, directory: Arc::new(directory), idle: Notify::new(), interrupted: Mutex::default() }
    }

    pub(crate) fn root(&self) -> &Path {
        Path::new(&self.directory.info.directory)
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    pub(crate) async fn append(&self, session: &SessionId, data: EventData) {
        let mut batch = Batch::new(session.clone(), vec![data.into()]);
        for item in &mut batch.items {
            item.location = Some(LocationRef::new("/fake/root"));
        }
        self.store.append(batch).await.unwrap();
    }

    pub(crate) fn admission(&self, session: &SessionId, text: &str) -> PromptAdmitted {
        PromptAdmitted {
            timestamp: self.world.now(),
            session_id: session.clone(),
            message_id: self.world.message_id(),
            prompt: Prompt::text(text),
            delivery: Delivery::Steer,
            metadata: None,
        }
    }
}

impl Backend for Fake {
    fn world(&self) -> &World {
        &self.world
    }

    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn directory<'a>(&'a self, location: &'a LocationRef) -> Answer<'a, Arc<dyn Directory>> {
        async move {
            assert_ne!(location.directory, "/panic", "asked to panic");
            if location.directory == "/broken" {
                return Err(Failure::internal("the secret details"));
            }
            if !location.directory.starts_with("/fake") {
                let message = "no such directory".to_owned();
                return Err(ApiError::LocationNotFound { message, location: location.directory.clone() }.into());
            }
            let mut directory = FakeDirectory::clone(&self.directory);
            directory.info.directory.clone_from(&location.directory);
            Ok(Arc::new(directory) as Arc<dyn Directory>)
        }
        .boxed()
    }

    fn create(&self, input: CreateSession) -> Answer<'_, SessionInfo> {
        async move {
            let id = input.id.unwrap_or_else(|| self.world.session_id());
            let location = input.location.unwrap();
            self.directory(&location).await?;
            if self.store.session(&id).await?.is_none() {
                let created = SessionCreated {
                    timestamp: self.world.now(),
                    session_id: id.clone(),
                    project_id: ProjectId::new("prj"),
                    location,
                    slug: "slug".to_owned(),
                    title: format!("title {id}"),
                    version: "0".to_owned(),
                    subpath: None,
                    parent_id: None,
                    agent: input.agent,
                    model: input.model,
                    metadata: None,
                    permissions: None,
                };
                self.append(&id, created.into()).await;
            }
            Ok(self.store.session(&id).await?.unwrap())
        }
        .boxed()
    }

    fn prompt<'a>(&'a self, session: &'a SessionId, input: SendPrompt) -> Answer<'a, Admitted> {
        async move {
            let mut data = self.admission(session, &input.prompt.text);
            if let Some(id) = input.id {
                data.message_id = id;
            }
            let receipt = Admitted {
                admitted_seq: abide_schema::Seq(1),
                id: data.message_id.clone(),
                session_id: session.clone(),
                prompt: data.prompt.clone(),
                delivery: data.delivery,
                time_created: data.timestamp,
                promoted_seq: None,
            };
            self.append(session, data.into()).await;
            Ok(receipt)
        }
        .boxed()
    }

    fn active(&self) -> Vec<SessionId> {
        Vec::new()
    }

    fn wait<'a>(&'a self, _: &'a SessionId) -> Answer<'a, ()> {
        async move {
            self.idle.notified().await;
            Ok(())
        }
        .boxed()
    }

    fn interrupt<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()> {
        self.interrupted.lock().unwrap().push(session.clone());
        std::future::ready(Ok(())).boxed()
    }

    fn background<'a>(&'a self, _: &'a SessionId) -> Answer<'a, ()> {
        std::future::ready(Ok(())).boxed()
    }

    fn compact<'a>(&'a self, _: &'a SessionId) -> Answer<'a, ()> {
        std::future::ready(Ok(())).boxed()
    }

    fn stage_revert<'a>(&'a self, _: &'a SessionId, input: StageRevert) -> Answer<'a, Revert> {
        let revert = Revert {
            message_id: input.message_id,
            inclusive: None,
            snapshot: None,
            diff: None,
            files: Some(Vec::new()),
            coverage: None,
            skipped: None,
        };
        std::future::ready(Ok(revert)).boxed()
    }

    fn fork<'a>(&'a self, session: &'a SessionId, _: ForkSession) -> Answer<'a, SessionInfo> {
        std::future::ready(Err(ApiError::session_not_found(session.clone()).into())).boxed()
    }

    fn move_to<'a>(&'a self, _: &'a SessionId, _: MoveSession) -> Answer<'a, ()> {
        std::future::ready(Ok(())).boxed()
    }

    fn delete<'a>(&'a self, _: &'a SessionId) -> Answer<'a, ()> {
        std::future::ready(Ok(())).boxed()
    }

    fn change_delivery<'a>(&'a self, _: &'a SessionId, _: &'a MessageId, _: Delivery) -> Answer<'a, ()> {
        std::future::ready(Ok(())).boxed()
    }

    fn cancel_input<'a>(&'a self, _: &'a SessionId, _: &'a MessageId) -> Answer<'a, ()> {
        std::future::ready(Ok(())).boxed()
    }

    fn clear_revert<'a>(&'a self, _: &'a SessionId) -> Answer<'a, ()> {
        std::future::ready(Ok(())).boxed()
    }

    fn commit_revert<'a>(&'a self, _: &'a SessionId) -> Answer<'a, ()> {
        std::future::ready(Ok(())).boxed()
    }

    fn switch_agent<'a>(&'a self, _: &'a SessionId, agent: AgentId) -> Answer<'a, ()> {
        std::future::ready(
            Err(ApiError::AgentNotFound { message: format!("no agent {agent}"), agent_id: agent }.into()),
        )
        .boxed()
    }

    fn switch_model<'a>(&'a self, _: &'a SessionId, _: ModelRef) -> Answer<'a, ()> {
        std::future::ready(Ok(())).boxed()
    }

    fn context<'a>(&'a self, _: &'a SessionId) -> Answer<'a, Vec<Message>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }
}

#[derive(Clone)]
struct FakeDirectory {
    info: LocationInfo,
    permissions: PermissionService,
    questions: QuestionService,
}

fn nothing<T: Send + 'static>() -> Answer<'static, Vec<T>> {
    std::future::ready(Ok(Vec::new())).boxed()
}

impl Directory for FakeDirectory {
    fn info(&self) -> &LocationInfo {
        &self.info
    }
    fn permissions(&self) -> &PermissionService {
        &self.permissions
    }
    fn questions(&self) -> &QuestionService {
        &self.questions
    }
    fn agents(&self) -> Vec<AgentInfo> {
        Vec::new()
    }
    fn models(&self) -> Answer<'_, Vec<ModelInfo>> {
        nothing()
    }
    fn providers(&self) -> Answer<'_, Vec<ProviderInfo>> {
        nothing()
    }
    fn provider<'a>(&'a self, _: &'a ProviderId) -> Option<ProviderInfo> {
        None
    }
    fn commands(&self) -> Vec<CommandInfo> {
        Vec::new()
    }
    fn skills(&self) -> Vec<SkillInfo> {
        Vec::new()
    }
    fn references(&self) -> Vec<ReferenceInfo> {
        Vec::new()
    }
    fn integrations(&self) -> Answer<'_, Vec<IntegrationInfo>> {
        nothing()
    }
    fn add_key(&self, _: IntegrationId, _: String, _: Option<String>) -> Answer<'_, ()> {
        std::future::ready(Ok(())).boxed()
    }
    fn relabel_credential(&self, _: CredentialId, _: String) -> Answer<'_, ()> {
        std::future::ready(Ok(())).boxed()
    }
    fn remove_credential(&self, _: CredentialId) -> Answer<'_, ()> {
        std::future::ready(Ok(())).boxed()
    }
    fn list_files<'a>(&'a self, path: Option<&'a str>) -> Answer<'a, Vec<FileEntry>> {
        let entry = FileEntry { path: path.unwrap_or("hello.txt").to_owned(), kind: EntryKind::File };
        std::future::ready(Ok(vec![entry])).boxed()
    }
    fn find_files<'a>(&'a self, query: &'a str, kind: Option<EntryKind>, limit: usize) -> Answer<'a, Vec<FileEntry>> {
        let entry = FileEntry { path: format!("{query} {limit}"), kind: kind.unwrap_or(EntryKind::File) };
        std::future::ready(Ok(vec![entry])).boxed()
    }
    fn read_file<'a>(&'a self, path: &'a str) -> Answer<'a, FileContent> {
        let text = format!("<{path}>");
        let content = FileContent {
            mime: "text/plain; charset=utf-8".to_owned(),
            length: text.len() as u64,
            bytes: Box::pin(futures_util::stream::iter([Ok(text.into())])),
        };
        std::future::ready(Ok(content)).boxed()
    }
}
