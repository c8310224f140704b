//! The record of a background job: durable from the moment the work goes to the background until its notice is admitted
//! (spec/session.md 8.5).

use abide_schema::{AgentId, JobId, MessageId, OwnerId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use super::ToolProcess;

/// A background job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The id of the notice; names the record.
    pub notification: MessageId,
    /// The job.
    pub id: JobId,
    /// The session that gets the notice.
    pub session: SessionId,
    /// The process instance that watches the work.
    pub owner: OwnerId,
    /// What runs.
    pub work: JobWork,
    /// When it began.
    pub started: Timestamp,
}

/// What a background job does, with all that is needed to find it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum JobWork {
    /// A command.
    Shell {
        /// Its id, for example `sh_…`.
        shell_id: String,
        /// Its wrapper, the call that started it, and where its output goes.
        process: ToolProcess,
        /// When its time is up; absent: it has no limit.
        deadline: Option<Timestamp>,
        /// Its time limit in milliseconds, for the notice.
        limit_ms: Option<u64>,
    },
    /// A child session.
    Subagent {
        /// The child.
        child: SessionId,
        /// Its agent.
        agent: AgentId,
        /// What it was started for.
        description: String,
    },
}
