//! Configured rules of a call, from the agents and the stored session.

use std::sync::Arc;

use abide_schema::agent::AgentInfo;
use abide_schema::permission::Rule;
use abide_schema::{AgentId, SessionId};
use futures_util::future::BoxFuture;

use super::error::RulesError;
use super::evaluate::configured_rules;
use super::service::PermissionRules;
use crate::store::ProjectionStore;

/// Finds an agent by name; without a name the default primary agent.
pub type FindAgent = Arc<dyn Fn(Option<&AgentId>) -> Option<Arc<AgentInfo>> + Send + Sync>;

/// The rules of stored sessions.
pub struct SessionRules {
    sessions: Arc<dyn ProjectionStore>,
    find_agent: FindAgent,
}

impl SessionRules {
    /// Makes the source of a location's rules.
    pub fn new(sessions: Arc<dyn ProjectionStore>, find_agent: FindAgent) -> Self {
        Self { sessions, find_agent }
    }
}

impl PermissionRules for SessionRules {
    fn configured<'a>(
        &'a self,
        session: &'a SessionId,
        agent: Option<&'a AgentId>,
    ) -> BoxFuture<'a, Result<Vec<Rule>, RulesError>> {
        Box::pin(async move {
            let info = self.sessions.session(session).await?;
            let info = info.ok_or_else(|| RulesError::SessionNotFound(session.clone()))?;
            let agent = (self.find_agent)(agent.or(info.agent.as_ref()));
            Ok(configured_rules(agent.as_deref(), info.permissions.as_deref().unwrap_or_default()))
        })
    }
}
