//! What the engine needs of a location.

use std::sync::Arc;

use abide_schema::agent::AgentInfo;
use abide_schema::config::TokenCount;
use abide_schema::location::{LocationInfo, LocationRef};
use abide_schema::model::ModelRef;
use abide_schema::permission::Rule;
use abide_schema::{AgentId, SessionId};
use futures_util::future::BoxFuture;

use super::{Location, Locations, attachment};
use crate::agent::BASE_PROMPT;
use crate::catalog::{Keys, SelectError};
use crate::config::flags;
use crate::context;
use crate::fs::journal::Journal;
use crate::session::place::{Attachment, EngineSettings, ObservedSource, Place, PlaceError, Places, ResolvedModel};
use crate::skill;
use crate::snapshot::{Operation, Past, SnapshotError};
use crate::tool::builtin::{patch, subagent};
use crate::tool::outcome::ToolSnapshot;

/// The tool that loads skills: without it the model is not told of any.
const SKILL_TOOL: &str = "skill";

impl Places for Locations {
    fn open<'a>(&'a self, location: &'a LocationRef) -> BoxFuture<'a, Result<Arc<dyn Place>, PlaceError>> {
        Box::pin(async move { Ok(self.get(location).await? as Arc<dyn Place>) })
    }
}

impl From<SelectError> for PlaceError {
    fn from(error: SelectError) -> Self {
        Self::Model(error.to_string())
    }
}

impl Location {
    /// Chooses the model of a step: the session's, else the agent's, else the configured or newest usable one, else
    /// one of a local server.
    ///
    /// # Errors
    /// [`SelectError`] with what to do.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn select_model(&self, session: Option<&ModelRef>, agent: &AgentInfo) -> Result<ModelRef, SelectError> {
        let keys = self.services.keys().await;
        self.select_model_with(session, agent, &keys).await
    }

    async fn select_model_with(
        &self,
        session: Option<&ModelRef>,
        agent: &AgentInfo,
        keys: &Keys,
    ) -> Result<ModelRef, SelectError> {
        if let Some(model) = session.or(agent.model.as_ref()) {
            return Ok(model.clone());
        }
        let state = self.state();
        match state.catalog.default_model(keys)? {
            Some(model) => Ok(model),
            None => state.catalog.local_model(keys, &self.services.local().await),
        }
    }
}

impl Place for Location {
    fn info(&self) -> &LocationInfo {
        &self.info
    }

    fn agent(&self, id: Option<&AgentId>) -> Result<Arc<AgentInfo>, PlaceError> {
        let state = self.state();
        let found = match id {
            Some(id) => state.agents.get(id),
            None => state.agents.default_agent(),
        };
        found.cloned().ok_or_else(|| PlaceError::UnknownAgent {
            agent: id.map(ToString::to_string).unwrap_or_default(),
            known: state.agents.known(),
        })
    }

    fn model<'a>(
        &'a self,
        session: Option<&'a ModelRef>,
        agent: &'a AgentInfo,
    ) -> BoxFuture<'a, Result<ResolvedModel, PlaceError>> {
        Box::pin(async move {
            let keys = self.services.keys_of_boundary().await;
            let model = self.select_model_with(session, agent, &keys).await?;
            Ok(self.state().catalog.resolve(&model, Some(agent), &keys)?)
        })
    }

    fn tools(&self, _agent: &AgentInfo, model: &ResolvedModel, rules: &[Rule]) -> Arc<dyn ToolSnapshot> {
        let snapshot = self.services.registry.snapshot(None, rules, &self.services.boundary);
        let snapshot = snapshot.describing(subagent::ACTION, &subagent::available(self.state().agents.list(), rules));
        // A model without tools is offered none.
        if model.takes_tools {
            let choice = self.state().config.abide().tools.and_then(|tools| tools.patch).unwrap_or_default();
            Arc::new(snapshot.without(patch::left_out(model.model.id.as_str(), choice)))
        } else {
            Arc::new(snapshot.advertising(std::collections::BTreeMap::new()))
        }
    }

    fn context<'a>(&'a self, agent: &'a AgentInfo) -> BoxFuture<'a, Vec<ObservedSource>> {
        Box::pin(async move {
            // At each boundary: a change of a file is never missed.
            self.services.refresh().await;
            let state = self.state();
            let mut sources = vec![
                context::environment(&self.info, self.project().repository.is_some()),
                context::date(self.services.world.now()),
                context::instructions(&state.instructions),
            ];
            let offered = skill::offered(&state.skills, &agent.permissions);
            let has_tool = !state.skills.is_empty() && {
                let tools = self.services.registry.snapshot(None, &agent.permissions, &self.services.boundary);
                tools.definitions().iter().any(|tool| tool.name == SKILL_TOOL)
            };
            sources.push(context::skills(if has_tool { &offered } else { &[] }));
            sources
        })
    }

    fn base_prompt(&self, _model: &ResolvedModel) -> String {
        BASE_PROMPT.trim_end().to_owned()
    }

    fn capture(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            match &self.services.snapshots {
                Some(snapshots) if self.takes_snapshots() => snapshots.capture().await,
                Some(_) | None => None,
            }
        })
    }

    fn past<'a>(
        &'a self,
        tree: &'a str,
        paths: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<(String, Past)>, SnapshotError>> {
        Box::pin(async move {
            match &self.services.snapshots {
                Some(snapshots) => snapshots.past(tree, paths).await,
                None => Err(SnapshotError::Answer { operation: Operation::Plan }),
            }
        })
    }

    fn journal(&self) -> Option<&Journal> {
        Some(&self.services.journal)
    }

    fn changed<'a>(&'a self, from: &'a str, to: &'a str) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move {
            let Some(snapshots) = &self.services.snapshots else { return Vec::new() };
            snapshots.files(from, to).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "changed files not listed");
                Vec::new()
            })
        })
    }

    fn settings(&self) -> EngineSettings {
        let compaction = self.state().config.compaction();
        let default = EngineSettings::default();
        let tokens = |count: Option<TokenCount>, default: u64| count.map_or(default, |count| count.0);
        let is_off = |name: &str| flags::is_set(&self.services.world, name);
        EngineSettings {
            compaction_auto: compaction.auto.unwrap_or(true) && !is_off("DISABLE_AUTOCOMPACT"),
            compaction_buffer: tokens(compaction.buffer, default.compaction_buffer),
            compaction_keep: tokens(compaction.keep.and_then(|keep| keep.tokens), default.compaction_keep),
            prune: compaction.prune.unwrap_or(false) && !is_off("DISABLE_PRUNE"),
            snapshot: self.takes_snapshots(),
            ..default
        }
    }

    fn withdraw(&self, session: &SessionId) {
        self.services.permissions.withdraw(session);
        self.services.questions.withdraw(session);
    }

    fn attachment<'a>(&'a self, uri: &'a str, mime: &'a str) -> BoxFuture<'a, Option<Attachment>> {
        let (directory, uri, mime) = (self.services.directory.clone(), uri.to_owned(), mime.to_owned());
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(move || attachment::read(&directory, &uri, &mime));
            read.await.unwrap_or_default()
        })
    }
}

impl Location {
    fn takes_snapshots(&self) -> bool {
        self.services.snapshots.is_some()
            && self.state().config.latest(|document| document.snapshots.as_ref()).copied().unwrap_or(true)
    }
}
