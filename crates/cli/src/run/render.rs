//! How a run is shown.

use abide_schema::SessionId;
use abide_schema::error::{ErrorCode, SessionError};
use abide_schema::event::EventData;
use abide_schema::live::LiveData;
use abide_schema::model::Tokens;
use abide_schema::tool::joined_text;
use serde_json::{Value, json};

use super::backend::Event;
use crate::args::RunFormat;
use crate::error::CliError;
use crate::output::{self, dim};

/// Characters of a tool's arguments or output on one line.
const MAX_LINE: usize = 160;

/// Shows events as they come, and keeps what the end needs.
pub(crate) struct Renderer {
    format: RunFormat,
    thinking: bool,
    session: SessionId,
    /// What was shown of the open text block.
    shown: String,
    open_line: bool,
    text: String,
    failure: Option<SessionError>,
    n_steps: u32,
    n_calls: u32,
    tokens: Tokens,
    cost: f64,
}

impl Renderer {
    pub(crate) fn new(format: RunFormat, thinking: bool, session: SessionId) -> Self {
        Self {
            format,
            thinking,
            session,
            shown: String::new(),
            open_line: false,
            text: String::new(),
            failure: None,
            n_steps: 0,
            n_calls: 0,
            tokens: Tokens::default(),
            cost: 0.0,
        }
    }

    /// Returns why the last step or execution failed.
    pub(crate) fn failure(&self) -> Option<&SessionError> {
        self.failure.as_ref()
    }

    /// Says whether a model answered.
    pub(crate) fn has_steps(&self) -> bool {
        self.n_steps > 0
    }

    /// Shows one event.
    pub(crate) fn event(&mut self, event: &Event) -> Result<(), CliError> {
        if event.session_id().is_some_and(|id| id != self.session) {
            return Ok(());
        }
        if self.format == RunFormat::Events {
            output::line(&event.to_json()?.to_string());
        }
        if let Some(data) = event.stored() {
            self.stored(data);
        }
        if let Some(data) = event.live() {
            self.live(data);
        }
        Ok(())
    }

    fn is_text(&self) -> bool {
        self.format == RunFormat::Text
    }

    fn live(&mut self, data: &LiveData) {
        match data {
            LiveData::TextDelta(delta) if self.is_text() => {
                output::out(&delta.delta);
                self.shown.push_str(&delta.delta);
                self.open_line = !delta.delta.ends_with('\n');
            }
            LiveData::ReasoningDelta(delta) if self.is_text() && self.thinking => {
                output::note_part(&dim(&delta.delta));
            }
            _ => {}
        }
    }

    fn close_line(&mut self) {
        if self.open_line {
            output::out("\n");
            self.open_line = false;
        }
    }

    fn tool_line(&mut self, text: &str) {
        if self.is_text() {
            self.close_line();
            output::note(&dim(text));
        }
    }

    fn stored(&mut self, data: &EventData) {
        match data {
            EventData::StepStarted(_) => {
                self.n_steps += 1;
                self.failure = None;
            }
            EventData::TextStarted(_) => self.shown.clear(),
            EventData::TextEnded(text) => {
                if self.is_text() {
                    // Deltas are coalesced and may be lost; the end has the whole text.
                    match text.text.strip_prefix(self.shown.as_str()) {
                        Some(rest) if !rest.is_empty() => {
                            output::out(rest);
                            self.open_line = !rest.ends_with('\n');
                        }
                        Some(_) | None => {}
                    }
                    self.close_line();
                }
                self.shown.clear();
                self.text.clone_from(&text.text);
            }
            EventData::ReasoningEnded(_) if self.is_text() && self.thinking => output::note(""),
            EventData::ToolCalled(called) => {
                self.n_calls += 1;
                let input = Value::Object(called.input.clone()).to_string();
                self.tool_line(&format!("→ {} {}", called.tool, one_line(&input)));
            }
            EventData::ToolSuccess(success) => {
                let text = joined_text(&success.content);
                self.tool_line(&format!("  ✓ {}", one_line(&text)));
            }
            EventData::ToolFailed(failed) => self.tool_line(&format!("  ✗ {}", one_line(&failed.error.message))),
            EventData::StepEnded(ended) => {
                self.tokens.add(&ended.tokens);
                self.cost += ended.cost;
                self.failure = None;
            }
            EventData::StepFailed(failed) => {
                if let Some(tokens) = &failed.tokens {
                    self.tokens.add(tokens);
                }
                self.cost += failed.cost.unwrap_or(0.0);
                self.failure = Some(failed.error.clone());
            }
            EventData::ExecutionFailed(failed) => self.failure = Some(failed.error.clone()),
            EventData::ExecutionSucceeded(_) => self.failure = None,
            EventData::Retried(retried) => {
                self.tool_line(&format!("  attempt {} follows: {}", retried.attempt, one_line(&retried.error.message)));
            }
            EventData::CompactionStarted(_) => self.tool_line("  summarising the history ..."),
            EventData::Recovered(recovered) => {
                self.tool_line(&format!("  settled after a crash: {} calls", recovered.tools.len()));
            }
            _ => {}
        }
    }

    /// Shows what comes at the end; `stopped` says why the run ended early, if it did.
    pub(crate) fn finish(&mut self, stopped: Option<String>) -> Result<(), CliError> {
        self.close_line();
        let stopped = stopped.map(|message| SessionError::new(ErrorCode::Aborted, message));
        if self.format == RunFormat::Json {
            let document = json!({
                "sessionID": self.session,
                "text": self.text,
                "steps": self.n_steps,
                "toolCalls": self.n_calls,
                "tokens": self.tokens,
                "cost": self.cost,
                "error": stopped.as_ref().or(self.failure.as_ref()),
            });
            output::line(&serde_json::to_string_pretty(&document)?);
        }
        Ok(())
    }
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MAX_LINE {
        return line;
    }
    let kept: String = line.chars().take(MAX_LINE).collect();
    format!("{kept} ...")
}
