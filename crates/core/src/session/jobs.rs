//! The jobs' side of the engine: notices are admitted, and what a dead process left in the background is found again
//! (spec/session.md 8.5).

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use abide_schema::event::{InboxEnqueued, InboxItem, InboxKind};
use abide_schema::prompt::Delivery;
use abide_schema::{JsonObject, SessionId};
use futures_util::future::BoxFuture;

use crate::job::notice::{Notice, notice};
use crate::job::{JobKind, JobOutcome, JobSpec, Notices};
use crate::session::engine::{Ask, Engine};
use crate::store::{AppendError, Hook, JobRecord, JobWork, StoreError};

/// Admits the notices of jobs.
pub(crate) struct EngineNotices(pub(crate) Weak<Engine>);

impl Notices for EngineNotices {
    fn deliver(&self, record: JobRecord, outcome: JobOutcome) -> BoxFuture<'static, ()> {
        let engine = self.0.upgrade();
        Box::pin(async move {
            let Some(engine) = engine else { return };
            if let Err(error) = engine.admit_notice(&record, &outcome).await {
                tracing::error!(job.id = %record.id, %error, "the notice of a job is not admitted; the next start tries again");
            }
        })
    }
}

impl Engine {
    /// Admits the notice of a job and drops its record, in one transaction, then wakes the session.
    async fn admit_notice(self: &Arc<Self>, record: &JobRecord, outcome: &JobOutcome) -> Result<(), AppendError> {
        let session = &record.session;
        let Some(info) = self.store.session(session).await? else {
            return Ok(self.store.drop_job(&record.notification).await?);
        };
        let Notice { id, text, description, metadata } = notice(record, outcome);
        let payload = JsonObject::from_iter([
            ("text".to_owned(), text.into()),
            ("description".to_owned(), description.into()),
            ("metadata".to_owned(), metadata.into()),
        ]);
        let item = InboxItem { kind: InboxKind::Synthetic, payload, delivery: Delivery::Steer };
        let enqueued = InboxEnqueued { timestamp: self.world.now(), session_id: session.clone(), inbox_id: id, item };
        let mut batch = Self::batch(session, &info.location, vec![enqueued.into()]);
        batch.hooks = vec![Hook::SetWake, Hook::DropJob(record.notification.clone())];
        batch.durability = crate::store::Durability::Synced;
        match self.store.append(batch).await {
            Ok(_) => {}
            // It was admitted before; or the session is gone, and its rows with it.
            Err(AppendError::InputLifecycleConflict { .. } | AppendError::SessionMissing(_)) => {
                self.store.drop_job(&record.notification).await?;
            }
            Err(error) => return Err(error),
        }
        self.ask(session, Ask::WAKE);
        Ok(())
    }

    /// Lists the children that work in the background: recovery lets them go on by themselves.
    pub(crate) async fn background_children(&self) -> Result<HashSet<SessionId>, StoreError> {
        let records = self.store.jobs().await?;
        let child = |record: JobRecord| match record.work {
            JobWork::Subagent { child, .. } => Some(child),
            JobWork::Shell { .. } => None,
        };
        Ok(records.into_iter().filter_map(child).collect())
    }

    /// Watches again what dead processes left in the background: commands that still run, children that go on; tells
    /// about what ended meanwhile. With `only`, what that session and those below it started.
    pub(crate) async fn recover_jobs(self: &Arc<Self>, only: Option<&SessionId>) -> Result<(), StoreError> {
        for record in self.store.jobs().await? {
            let Some(session) = self.store.session(&record.session).await? else {
                self.store.drop_job(&record.notification).await?;
                continue;
            };
            let is_meant = match only {
                None => true,
                Some(only) => *only == session.id || self.ancestors(&session).await?.contains(only),
            };
            let is_mine = self.jobs.get(&record.id).is_some();
            if !is_meant
                || is_mine
                || (record.owner != self.store.owner() && self.store.is_alive(&record.owner).await?)
            {
                continue;
            }
            if matches!(record.work, JobWork::Subagent { .. }) && !self.options.auto_resume {
                continue;
            }
            let record = JobRecord { owner: self.store.owner(), ..record };
            self.store.put_job(record.clone()).await?;
            let (kind, title) = match &record.work {
                JobWork::Shell { process, .. } => (JobKind::Shell, process.command.clone()),
                JobWork::Subagent { description, .. } => (JobKind::Subagent, description.clone()),
            };
            let spec = JobSpec {
                id: record.id.clone(),
                kind,
                session: record.session.clone(),
                title,
                work: record.work.clone(),
                started: record.started,
                notification: Some(record.notification.clone()),
            };
            let (engine, found) = (self.clone(), record.clone());
            let started = self.jobs.start(spec, |control| async move {
                match &found.work {
                    JobWork::Shell { .. } => engine.effects.adopt(&found, control).await,
                    JobWork::Subagent { child, .. } => engine.clone().watch_child(child.clone(), control).await,
                }
            });
            if let Err(error) = started {
                tracing::warn!(job.id = %record.id, %error, "a job of a dead process is not watched; the next start tries again");
            }
        }
        Ok(())
    }
}
