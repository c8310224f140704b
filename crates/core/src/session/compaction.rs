//! Compaction: which part of the history is summarised, how it is written down, and what the model is asked
//! (spec/session.md 7.7). Pure.

use abide_schema::message::{AssistantContent, CompactionStatus, Message, ToolState};
use abide_schema::project::MessageRow;
use abide_schema::tool::joined_text;

/// Characters of one tool output in a serialized history.
const TOOL_OUTPUT_CHARACTERS: usize = 2000;

/// The headings of a summary; at least one must be there.
pub const HEADINGS: [&str; 7] =
    ["Objective", "Requirements", "Decisions", "Work State", "Next Move", "Relevant Files", "Additional Context"];

/// What is summarised and what stays as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The summary that an earlier checkpoint holds.
    pub prior_summary: Option<String>,
    /// The serialized part to summarise.
    pub head: String,
    /// The serialized recent tail, kept word for word.
    pub recent: String,
}

impl Split {
    /// Returns the same with a head of at most about `limit` characters.
    pub fn within(&self, limit: usize) -> Self {
        Self { head: shortened(&self.head, limit), ..self.clone() }
    }
}

/// Returns how many characters of a head fit into the request for its summary.
pub fn room(context: Option<u64>, output: Option<u64>, split: &Split) -> usize {
    /// What the instructions of the request take.
    const FIXED: usize = 2000;
    let Some(context) = context.filter(|context| *context > 0) else { return usize::MAX };
    let answer = output.unwrap_or(context / 4).min(context / 2);
    // Three characters a token: code has more tokens than prose.
    let characters = usize::try_from((context - answer).saturating_mul(3)).unwrap_or(usize::MAX);
    let others = split.prior_summary.as_ref().map_or(0, String::len) + FIXED;
    characters.saturating_sub(others).max(FIXED)
}

/// Splits the active history; `None` when there is nothing to summarise. The newest words of the user stay word for word,
/// also when the tail begins after them, and when only an earlier checkpoint still holds them (`newest_user`, of the
/// whole transcript).
pub fn split(history: &[&MessageRow], newest_user: Option<&MessageRow>, keep_tokens: u64) -> Option<Split> {
    let mut prior_summary = None;
    let mut entries: Vec<(bool, String)> = Vec::new();
    let mut asked = None;
    for row in history {
        if let Message::Compaction(compaction) = &row.message {
            if compaction.status == CompactionStatus::Completed {
                prior_summary = Some(compaction.summary.clone());
                if !compaction.recent.is_empty() {
                    entries.push((true, compaction.recent.clone()));
                }
            }
            continue;
        }
        let text = serialize(&row.message);
        if !text.is_empty() {
            if matches!(row.message, Message::User(_)) {
                asked = Some(entries.len());
            }
            entries.push((matches!(row.message, Message::User(_) | Message::Synthetic(_)), text));
        }
    }
    if entries.is_empty() {
        return None;
    }
    let ends_with_user = matches!(history.last().map(|row| &row.message), Some(Message::User(_)));
    let mut start = tail_start(&entries, keep_tokens);
    if start == 0 {
        // Everything fits: keep only the last exchange.
        start = entries.iter().rposition(|(is_user, _)| *is_user).unwrap_or(0);
    }
    let join = |part: &[(bool, String)]| part.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("\n\n");
    let (head, tail) = entries.split_at(start.min(entries.len()));
    let words = newest_user.map(|row| serialize(&row.message)).filter(|_| asked.is_none_or(|at| at < start));
    if head.is_empty() {
        // One exchange only: it is summarised; an unanswered prompt stays word for word as well.
        let recent = if ends_with_user {
            join(tail)
        } else {
            newest_user.map(|row| serialize(&row.message)).unwrap_or_default()
        };
        return Some(Split { prior_summary, head: join(tail), recent });
    }
    let recent = match words {
        // An earlier checkpoint's tail may hold them already.
        Some(words) if !tail.iter().any(|(_, text)| text.contains(&words)) => format!("{words}\n\n{}", join(tail)),
        Some(_) | None => join(tail),
    };
    Some(Split { prior_summary, head: join(head), recent })
}

/// Shortens a head to `limit` characters: its begin, where the task is told, and its end stay.
pub fn shortened(head: &str, limit: usize) -> String {
    if head.len() <= limit {
        return head.to_owned();
    }
    let (begin, end) = (head.floor_char_boundary(limit / 4), head.ceil_char_boundary(head.len() - (limit - limit / 4)));
    let (begin, end) = (head.get(..begin).unwrap_or_default(), head.get(end..).unwrap_or_default());
    let left_out = head.len().saturating_sub(begin.len() + end.len());
    format!("{begin}\n[{left_out} characters of the session are left out here]\n{end}")
}

/// Returns the index where the tail begins: the newest entries within the limit, at least one, whole ones only, from
/// a user's words on where there are any.
fn tail_start(entries: &[(bool, String)], keep_tokens: u64) -> usize {
    let mut start = entries.len();
    let mut tokens = 0u64;
    for (index, (_, text)) in entries.iter().enumerate().rev() {
        tokens = tokens.saturating_add(u64::try_from(text.len() / 4).unwrap_or(u64::MAX));
        if tokens > keep_tokens && index + 1 < entries.len() {
            break;
        }
        start = index;
    }
    let forward = entries.iter().enumerate().skip(start).find(|(_, (is_user, _))| *is_user).map(|(index, _)| index);
    forward.unwrap_or(start)
}

/// Writes a message as text for a summary.
fn serialize(message: &Message) -> String {
    match message {
        Message::User(user) => {
            let mut text = format!("[User]\n{}", user.text);
            for file in user.files.iter().flatten() {
                text.push_str("\n(attached: ");
                text.push_str(file.name.as_deref().unwrap_or(if file.uri.starts_with("data:") {
                    &file.mime
                } else {
                    &file.uri
                }));
                text.push(')');
            }
            text
        }
        Message::Synthetic(synthetic) => format!("[Note]\n{}", synthetic.text),
        Message::Skill(skill) => format!("[Skill {}]\n{}", skill.name, skill.text),
        Message::System(system) => format!("[Update]\n{}", system.text),
        Message::Shell(shell) => format!("[User ran]\n$ {}\n{}", shell.command, cut(&shell.output)),
        Message::LocationSwitched(moved) => format!("[Moved to {}]", moved.location.directory),
        Message::Assistant(assistant) => {
            let mut blocks = Vec::new();
            for item in &assistant.content {
                match item {
                    AssistantContent::Text(item) if !item.text.is_empty() => {
                        blocks.push(format!("[Assistant]\n{}", item.text));
                    }
                    AssistantContent::Text(_) | AssistantContent::Reasoning(_) => {}
                    AssistantContent::Tool(item) => {
                        let (input, outcome) = match &item.state {
                            ToolState::Pending { input } => (input.clone(), "(did not run)".to_owned()),
                            ToolState::Running { input, .. } => (json(input), "(no result)".to_owned()),
                            ToolState::Completed { input, structured, content, .. } => {
                                let text = joined_text(content);
                                let text = if text.is_empty() { json(structured) } else { text };
                                (json(input), cut(&text))
                            }
                            ToolState::Error { input, error, content, .. } => {
                                (json(input), cut(&format!("failed: {} {}", error.message, joined_text(content))))
                            }
                        };
                        blocks.push(format!("[Tool {}] {}\n{outcome}", item.name, cut(&input)));
                    }
                }
            }
            blocks.join("\n")
        }
        Message::Compaction(_) | Message::AgentSwitched(_) | Message::ModelSwitched(_) | Message::Idle(_) => {
            String::new()
        }
    }
}

fn json(map: &abide_schema::JsonObject) -> String {
    serde_json::to_string(map).unwrap_or_default()
}

fn cut(text: &str) -> String {
    if text.chars().count() <= TOOL_OUTPUT_CHARACTERS {
        return text.to_owned();
    }
    let kept: String = text.chars().take(TOOL_OUTPUT_CHARACTERS).collect();
    format!("{kept}\n[cut]")
}

/// The system prompt of a summary request, when no agent `compaction` gives one.
pub const SYSTEM: &str = "You write records of coding sessions so that another model can go on without having seen \
them. You are exact about file names, commands, error texts and decisions, you leave nothing out that later work \
needs, and you invent nothing. You answer with the record only.";

/// The request for a summary.
pub fn prompt(split: &Split) -> String {
    let mut text = String::new();
    if let Some(prior) = &split.prior_summary {
        text.push_str("This is the record of what came before:\n<prior-record>\n");
        text.push_str(prior);
        text.push_str("\n</prior-record>\n\n");
    }
    text.push_str("This is the session to record:\n<session>\n");
    text.push_str(&split.head);
    text.push_str("\n</session>\n\n");
    text.push_str(
        "Write the record under these headings, each as a Markdown heading of level 2, and leave out a heading only \
         when there is nothing for it: Objective; Requirements; Decisions; Work State (with Completed, Active and \
         Blocked); Next Move; Relevant Files; Additional Context. Merge what the prior record says and is still true.",
    );
    text
}

/// What is added when the answer has none of the headings.
pub const REMINDER: &str = "The answer must use the headings that were asked for. Write the record again.";

/// Says whether a summary has at least one of the headings.
pub fn has_heading(summary: &str) -> bool {
    summary.lines().any(|line| {
        let line = line.trim_start_matches(['#', '*', ' ']).trim();
        HEADINGS
            .iter()
            .any(|heading| line.get(..heading.len()).is_some_and(|start| start.eq_ignore_ascii_case(heading)))
    })
}

/// Returns the prompt size from which a session is compacted; `None`: never. What is kept free for the answer is at most
/// half of the context, and `buffer` counts for at most a quarter: a small local model must get to work at all.
pub fn threshold(context: Option<u64>, input: Option<u64>, output: Option<u64>, buffer: u64) -> Option<u64> {
    const OUTPUT_CAP: u64 = 32_000;
    let context = context.filter(|context| *context > 0)?;
    let buffer = buffer.min(context / 4);
    let reserved = output.unwrap_or(OUTPUT_CAP).min(OUTPUT_CAP).max(buffer).min(context / 2);
    let by_context = context.saturating_sub(reserved);
    Some(input.map_or(by_context, |input| by_context.min(input.saturating_sub(buffer))))
}

/// Returns how much of the history stays word for word: `keep`, but at most half of the threshold.
pub fn kept(threshold: Option<u64>, keep: u64) -> u64 {
    threshold.map_or(keep, |threshold| keep.min(threshold / 2))
}

/// Says whether a compaction can help. It replaces what came after the latest checkpoint, and nothing else of the
/// prompt: when that is less than a quarter of the threshold, and the system text with the tools (`fixed`) three quarters
/// or more, the next step would be compacted again, and the next.
pub const fn can_help(threshold: u64, since_checkpoint: u64, fixed: u64) -> bool {
    since_checkpoint.saturating_mul(4) >= threshold || fixed.saturating_mul(4) < threshold.saturating_mul(3)
}

#[cfg(test)]
mod tests {
    use abide_schema::message::{CreatedTime, UserMessage};
    use abide_schema::project::Position;
    use abide_schema::{MessageId, Seq, SessionId, Timestamp};

    use super::*;

    fn user(seq: u64, text: &str) -> MessageRow {
        MessageRow {
            session_id: SessionId::from_trusted("ses_a"),
            position: Position { seq: Seq(seq), sub: 0 },
            message: Message::User(UserMessage {
                id: MessageId::from_trusted(format!("msg_{seq}")),
                time: CreatedTime { created: Timestamp(1) },
                metadata: None,
                text: text.to_owned(),
                files: None,
                agents: None,
            }),
        }
    }

    #[track_caller]
    fn check(texts: &[&str], keep: u64, head: &str, recent: &str) {
        let rows: Vec<MessageRow> = texts.iter().enumerate().map(|(at, text)| user(at as u64, text)).collect();
        let split = split(&rows.iter().collect::<Vec<_>>(), rows.last(), keep).unwrap();
        let plain = |text: &str| text.replace("[User]\n", "").replace("\n\n", "|");
        assert_eq!((plain(&split.head).as_str(), plain(&split.recent).as_str()), (head, recent));
    }

    #[test]
    fn the_tail_holds_whole_entries_within_the_limit() {
        check(&["aaaa", "bbbb", "cccc"], 100, "aaaa|bbbb", "cccc");
        check(&["aaaa", "bbbb", "cccc"], 5, "aaaa", "bbbb|cccc");
        check(&["aaaa", "bbbb", "cccc"], 3, "aaaa|bbbb", "cccc");
        check(&["aaaa", "bbbb", "cccc"], 0, "aaaa|bbbb", "cccc");
        check(&["aaaa"], 100, "aaaa", "aaaa");
        assert_eq!(split(&[], None, 100), None);
    }

    fn assistant(seq: u64, text: &str) -> MessageRow {
        let message = serde_json::json!({
            "type": "assistant", "id": format!("msg_{seq}"), "time": { "created": 1, "completed": 2 },
            "agent": "build", "model": { "id": "m", "providerID": "p" },
            "content": [{ "type": "text", "id": "t", "text": text }],
        });
        MessageRow { message: serde_json::from_value(message).unwrap(), ..user(seq, "") }
    }

    #[test]
    fn the_newest_words_of_the_user_stay_word_for_word() {
        let long = "words of the user ".repeat(100);
        let rows =
            [user(0, "old"), assistant(1, "x"), user(2, &long), assistant(3, &"y".repeat(400)), assistant(4, "z")];
        let all: Vec<&MessageRow> = rows.iter().collect();
        for keep in [0, 1, 50, 200, 10_000] {
            let split = split(&all, rows.get(2), keep).unwrap();
            assert_eq!(split.recent.matches(&long).count(), 1, "{keep}: {split:?}");
        }
        // A checkpoint took them in; the next one carries them on.
        let checkpoint = serde_json::json!({
            "type": "compaction", "id": "msg_5", "time": { "created": 1 }, "reason": "auto", "status": "completed",
            "summary": "## Objective", "recent": format!("[User]\n{long}"),
        });
        let checkpoint = MessageRow { message: serde_json::from_value(checkpoint).unwrap(), ..user(5, "") };
        let later = [checkpoint, assistant(6, &"y".repeat(400)), assistant(7, "z")];
        let all: Vec<&MessageRow> = later.iter().collect();
        for keep in [0, 1, 100, 10_000] {
            let split = split(&all, rows.get(2), keep).unwrap();
            assert_eq!(split.recent.matches(&long).count(), 1, "{keep}: {split:?}");
        }
    }

    #[test]
    fn a_head_is_shortened_in_its_middle() {
        assert_eq!(shortened("short", 5), "short");
        let text = shortened(&format!("begin{}end", "ä".repeat(1000)), 100);
        assert!(text.starts_with("begin") && text.ends_with("end") && text.len() < 170, "{text}");
        assert!(text.contains("characters of the session are left out here"), "{text}");
    }

    #[test]
    fn the_threshold_leaves_room_for_the_answer() {
        assert_eq!(threshold(None, None, None, 20_000), None);
        assert_eq!(threshold(Some(12_000), None, Some(1_000), 1_000), Some(11_000));
        assert_eq!(threshold(Some(200_000), Some(150_000), Some(64_000), 20_000), Some(130_000));
        // A small model: the buffer is made for large ones.
        assert_eq!(threshold(Some(10_000), None, None, 20_000), Some(5_000));
        assert_eq!(threshold(Some(4096), None, Some(256), 20_000), Some(3072));
        assert_eq!(threshold(Some(4096), Some(2048), Some(4096), 20_000), Some(1024));
    }

    #[test]
    fn the_kept_tail_is_at_most_half_of_the_threshold() {
        assert_eq!((kept(None, 15_000), kept(Some(100_000), 15_000), kept(Some(3072), 15_000)), (15_000, 15_000, 1536));
    }

    #[test]
    fn a_compaction_helps_where_the_history_is_what_fills_the_prompt() {
        assert!(!can_help(3072, 0, 2304) && !can_help(3072, 767, 9000));
        assert!(can_help(3072, 768, 9000) && can_help(3072, 0, 2303) && can_help(0, 0, 0));
    }

    #[test]
    fn headings_are_found_in_any_dress() {
        assert!(has_heading("## Objective\nx"));
        assert!(has_heading("**work state**"));
        assert!(!has_heading("An answer about objects."));
    }
}
