//! Where prompt-cache marks go, before a protocol lowers the request.
//!
//! Only protocols whose wire format has inline marks take part. Marks of the caller are kept and
//! counted first; automatic ones fill what remains, in the order tools, system, messages.

use std::sync::Arc;

use crate::route::protocol::CacheSupport;
use crate::schema::messages::{Message, Part, Role, SystemPart, ToolDefinition};
use crate::schema::options::{CacheHint, CacheMarks, CachePolicy, MessageMarks};
use crate::schema::request::{LLMRequest, RequestPatch};

/// The most cache marks of one request.
pub const MAX_CACHE_MARKS: usize = 4;

/// Places automatic marks; returns the same request when the route has none.
pub fn apply(request: &LLMRequest) -> LLMRequest {
    let marks = match (request.model.route.cache_marks(request), &request.cache) {
        (CacheSupport::None, _) | (_, CachePolicy::None) => return request.clone(),
        (CacheSupport::Full | CacheSupport::SystemAndTail, CachePolicy::Marks(marks)) => *marks,
        (support @ (CacheSupport::Full | CacheSupport::SystemAndTail), CachePolicy::Auto) => CacheMarks {
            tools: support == CacheSupport::Full,
            system: true,
            messages: Some(MessageMarks::Tail(1)),
            ttl_seconds: None,
        },
    };
    let mut placing = Placing {
        n_left: MAX_CACHE_MARKS.saturating_sub(n_manual(request)),
        hint: CacheHint::ephemeral(marks.ttl_seconds),
    };
    let patch = RequestPatch {
        tools: marks.tools.then(|| placing.tools(&request.tools)).flatten(),
        system: marks.system.then(|| placing.system(&request.system)).flatten(),
        messages: marks.messages.and_then(|which| placing.messages(&request.messages, which)),
        ..RequestPatch::default()
    };
    request.update(patch)
}

fn n_manual(request: &LLMRequest) -> usize {
    let tools = request.tools.iter().filter(|tool| tool.cache.is_some()).count();
    let system = request.system.iter().filter(|part| part.cache.is_some()).count();
    let messages = request.messages.iter().flat_map(|message| &message.content);
    tools.saturating_add(system).saturating_add(messages.filter(|part| part.cache().is_some()).count())
}

struct Placing {
    n_left: usize,
    hint: CacheHint,
}

impl Placing {
    /// A mark for a place that has none, while there are any.
    fn take(&mut self, present: Option<CacheHint>) -> Option<CacheHint> {
        if present.is_some() || self.n_left == 0 {
            return None;
        }
        self.n_left = self.n_left.saturating_sub(1);
        Some(self.hint)
    }

    fn tools(&mut self, tools: &[Arc<ToolDefinition>]) -> Option<Vec<Arc<ToolDefinition>>> {
        let (last, head) = tools.split_last()?;
        let cache = Some(self.take(last.cache)?);
        let marked = Arc::new(ToolDefinition { cache, ..(**last).clone() });
        Some(head.iter().cloned().chain([marked]).collect())
    }

    fn system(&mut self, parts: &[SystemPart]) -> Option<Vec<SystemPart>> {
        let is_text = |part: &SystemPart| !part.text.trim().is_empty();
        let mut marked = parts.to_vec();
        let mut is_changed = false;
        for index in [parts.iter().position(is_text)?, parts.iter().rposition(is_text)?] {
            if let Some(part) = marked.get_mut(index)
                && let Some(hint) = self.take(part.cache)
            {
                part.cache = Some(hint);
                is_changed = true;
            }
        }
        is_changed.then_some(marked)
    }

    fn messages(&mut self, messages: &[Arc<Message>], which: MessageMarks) -> Option<Vec<Arc<Message>>> {
        let latest = |role| messages.iter().rposition(|message| message.role == role);
        let wanted: Vec<usize> = match which {
            MessageMarks::LatestUserMessage => latest(Role::User).into_iter().collect(),
            MessageMarks::LatestAssistant => latest(Role::Assistant).into_iter().collect(),
            MessageMarks::Tail(n_messages) => (0..messages.len()).rev().take(n_messages).collect(),
        };
        let mut marked: Option<Vec<Arc<Message>>> = None;
        for index in wanted {
            let Some(message) = messages.get(index) else { continue };
            let Some(part) = place(message) else { continue };
            let present = message.content.get(part).and_then(Part::cache);
            if let Some(hint) = self.take(present)
                && let Some(message) = marked.get_or_insert_with(|| messages.to_vec()).get_mut(index)
                && let Some(part) = Arc::make_mut(message).content.get_mut(part)
            {
                part.set_cache(Some(hint));
            }
        }
        marked
    }
}

/// The part of a message that takes the mark: the last text, else the last part. Blank text and
/// reasoning cannot carry one.
fn place(message: &Message) -> Option<usize> {
    let is_text = |part: &Part| matches!(part, Part::Text(text) if !text.text.trim().is_empty());
    let is_markable = |part: &Part| !matches!(part, Part::Text(_) | Part::Reasoning(_));
    message.content.iter().rposition(is_text).or_else(|| message.content.iter().rposition(is_markable))
}
