//! What interrupted calls did, from the journals.

use abide_schema::tool::{Content, Effects, Verdict};
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::fs::journal::{Journal, summary};
use crate::session::recovery::EffectRecovery;
use crate::session::settle::Resolution;
use crate::shell::recover::resolve_process;
use crate::store::{CallKey, Store, StoreError};
use crate::tool::outcome::NormalizedResult;
use crate::tool::output::OutputLimits;

/// The mutation journal and the process journal together.
pub struct Journals {
    journal: Journal,
}

impl Journals {
    /// Makes the recovery over the mutation journal; processes are read from the store.
    pub fn new(journal: Journal) -> Self {
        Self { journal }
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
