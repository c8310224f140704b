//! What interrupted calls did, from the journals.

use std::sync::Arc;
use std::time::Duration;

use abide_schema::Timestamp;
use abide_schema::live::{LiveEvent, OutputStream, ToolOutputDelta};
use abide_schema::tool::{Content, Effects, Verdict};
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::fs::journal::{Journal, Recovered, summary};
use crate::job::{JobControl, JobOutcome};
use crate::session::recovery::EffectRecovery;
use crate::session::settle::Resolution;
use crate::shell::adopt::Adopted;
use crate::shell::recover::resolve_process;
use crate::store::{CallKey, JobRecord, JobWork, Mutation, Store, StoreError, ToolProcess};
use crate::tool::builtin::shell::MAX_OUTPUT_BYTES;
use crate::tool::outcome::NormalizedResult;
use crate::tool::output::OutputLimits;
use crate::world::World;

/// The mutation journal and the process journal together.
pub struct Journals {
    journal: Journal,
    world: World,
    store: Arc<dyn Store>,
}

impl Journals {
    /// Makes the recovery over the mutation journal; processes are read from the store.
    pub fn new(journal: Journal, world: World, store: Arc<dyn Store>) -> Self {
        Self { journal, world, store }
    }

    /// Publishes what a command in the background writes, on behalf of the call that started it.
    fn live(&self, process: &ToolProcess) -> impl FnMut(&str) + Send + 'static {
        let (world, store, key) = (self.world.clone(), self.store.clone(), process.key.clone());
        move |text| {
            let data = ToolOutputDelta {
                timestamp: world.now(),
                session_id: key.session.clone(),
                assistant_message_id: key.message.clone(),
                call_id: key.call.clone(),
                stream: OutputStream::Stdout,
                delta: text.to_owned(),
            };
            store.publish_live(LiveEvent { id: world.event_id(), location: None, data: data.into() });
        }
    }

    async fn files(&self, store: &dyn Store, call: &CallKey) -> Result<Resolution, StoreError> {
        let batch = store.mutations(&call.session).await?.into_iter().find(|batch| batch.call.as_ref() == Some(call));
        let Some(batch) = batch else { return Ok(Resolution::not_started()) };
        let recovered = self.journal.recover_mutation(batch, None).await?;
        let detail = Some(summary(&recovered));
        let success = match recovered.verdict {
            Verdict::Applied => recovered.output.as_ref().map(stored_result),
            Verdict::NotStarted
            | Verdict::RolledBack
            | Verdict::Diverged
            | Verdict::Finished
            | Verdict::Killed
            | Verdict::Unknown
            | Verdict::ChildInterrupted => None,
        };
        Ok(Resolution { verdict: recovered.verdict, success, partial: Vec::new(), detail })
    }
}

/// Reads the success output that was planned with a batch.
fn stored_result(output: &Value) -> NormalizedResult {
    let structured = output.get("structured").and_then(Value::as_object).cloned().unwrap_or_default();
    let content: Vec<Content> =
        output.get("content").and_then(|content| serde_json::from_value(content.clone()).ok()).unwrap_or_default();
    let output_paths =
        output.get("outputPaths").and_then(|paths| serde_json::from_value(paths.clone()).ok()).unwrap_or_default();
    NormalizedResult { structured, content, output_paths }
}

impl EffectRecovery for Journals {
    fn adopt(&self, record: &JobRecord, control: JobControl) -> BoxFuture<'static, JobOutcome> {
        let JobWork::Shell { process, deadline, limit_ms, .. } = record.work.clone() else {
            return Box::pin(async { JobOutcome::error("The job is no command") });
        };
        let now = self.world.now();
        let left = |deadline: Timestamp| u64::try_from(deadline.as_millis() - now.as_millis()).unwrap_or(0);
        let live = self.live(&process);
        let adopted = Adopted {
            process,
            left: deadline.map(left).map(Duration::from_millis),
            limit_ms,
            limits: OutputLimits::default(),
            max_output_bytes: MAX_OUTPUT_BYTES,
        };
        Box::pin(adopted.watch(control, live))
    }

    fn finish(&self, batch: Mutation) -> BoxFuture<'_, Result<Option<Recovered>, StoreError>> {
        Box::pin(async move { Ok(Some(self.journal.recover_mutation(batch, None).await?)) })
    }

    fn resolve<'a>(
        &'a self,
        store: &'a dyn Store,
        call: &'a CallKey,
        tool: &'a str,
        effects: Effects,
    ) -> BoxFuture<'a, Resolution> {
        Box::pin(async move {
            let resolved = match effects {
                Effects::Files => self.files(store, call).await,
                Effects::Process => Ok(resolve_process(store, call, OutputLimits::default()).await),
                Effects::None | Effects::Network => Ok(Resolution::not_started()),
                Effects::Session | Effects::External => Ok(Resolution::unknown()),
            };
            match resolved {
                Ok(resolution) => resolution,
                Err(error) => {
                    tracing::error!(session.id = %call.session, tool, %error, "the journal of a call cannot be read");
                    Resolution::unknown()
                }
            }
        })
    }
}
