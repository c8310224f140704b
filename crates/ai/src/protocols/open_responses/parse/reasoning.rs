//! Reasoning items: their summary parts and ciphertext.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::Metadata;
use crate::protocols::open_responses::events::WireReasoning;
use crate::protocols::utils::borrowed::Str;
use crate::protocols::utils::lifecycle::Lifecycle;
use crate::schema::ProviderMetadata;
use crate::schema::errors::AIError;
use crate::schema::events::LLMEvent;
use crate::schema::ids::ContentBlockId;

/// The open reasoning item, and those that are over.
#[derive(Debug, Default)]
pub(super) struct ReasoningItems {
    open: Option<ReasoningItem>,
    over: BTreeSet<Arc<str>>,
}

#[derive(Debug)]
struct ReasoningItem {
    id: Arc<str>,
    /// The ciphertext so far; only the one of the finished item is valid.
    early: Option<String>,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    index: u64,
    id: ContentBlockId,
    is_open: bool,
    has_text: bool,
}

fn encrypted_metadata(metadata: &Metadata, id: &str, encrypted: Option<&str>) -> Option<ProviderMetadata> {
    metadata.of([
        ("itemId", Some(id.into())),
        ("reasoningEncryptedContent", Some(encrypted.map_or(Value::Null, Into::into))),
    ])
}

impl ReasoningItem {
    /// The open part at an index: the one that is open, a new one, none for one that is over.
    fn part(
        &mut self,
        index: u64,
        metadata: &Metadata,
        lifecycle: &mut Lifecycle,
        out: &mut Vec<LLMEvent>,
    ) -> Option<&mut Part> {
        if !self.parts.iter().any(|part| part.index == index) {
            self.end_parts(metadata.item(&self.id).as_ref(), lifecycle, out);
            let id = ContentBlockId::new(format!("{}:{index}", self.id));
            lifecycle.reasoning_start(&id, encrypted_metadata(metadata, &self.id, self.early.as_deref()), out);
            self.parts.push(Part { index, id, is_open: true, has_text: false });
        }
        self.parts.iter_mut().find(|part| part.index == index && part.is_open)
    }

    fn end_parts(&mut self, metadata: Option<&ProviderMetadata>, lifecycle: &mut Lifecycle, out: &mut Vec<LLMEvent>) {
        for part in self.parts.iter_mut().filter(|part| part.is_open) {
            part.is_open = false;
            lifecycle.reasoning_end(&part.id, None, metadata.cloned(), out);
        }
    }
}

impl ReasoningItems {
    /// Whether this item is open.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.as_ref().is_some_and(|open| &*open.id == id)
    }

    /// Whether this is, or was, a reasoning item.
    pub(super) fn is_known(&self, id: &str) -> bool {
        self.is_open(id) || self.over.contains(id)
    }

    /// A reasoning item begins, and its first part with it.
    pub(super) fn added(
        &mut self,
        id: &Arc<str>,
        encrypted: Option<&str>,
        metadata: &Metadata,
        lifecycle: &mut Lifecycle,
        out: &mut Vec<LLMEvent>,
    ) -> Result<(), AIError> {
        if self.over.contains(id) || self.is_open(id) {
            return Ok(());
        }
        if let Some(open) = &self.open {
            return Err(AIError::invalid_output(format!(
                "reasoning item {id:?} begins while reasoning item {:?} is open",
                open.id
            )));
        }
        let mut item = ReasoningItem { id: Arc::clone(id), early: encrypted.map(str::to_owned), parts: Vec::new() };
        item.part(0, metadata, lifecycle, out);
        self.open = Some(item);
        Ok(())
    }

    /// Part n begins; the first one began with its item.
    pub(super) fn part_added(
        &mut self,
        id: &Arc<str>,
        index: u64,
        metadata: &Metadata,
        lifecycle: &mut Lifecycle,
        out: &mut Vec<LLMEvent>,
    ) {
        if let Some(item) = self.item(id) {
            item.part(index, metadata, lifecycle, out);
        }
    }

    /// Text of part n.
    pub(super) fn delta(
        &mut self,
        id: &Arc<str>,
        index: u64,
        text: &str,
        metadata: &Metadata,
        lifecycle: &mut Lifecycle,
        out: &mut Vec<LLMEvent>,
    ) {
        if let Some(part) = self.item(id).and_then(|item| item.part(index, metadata, lifecycle, out)) {
            part.has_text |= !text.is_empty();
            lifecycle.reasoning_delta(&part.id, text, out);
        }
    }

    /// The whole text of part n; it counts only if none was streamed.
    pub(super) fn done(
        &mut self,
        id: &Arc<str>,
        index: u64,
        text: &str,
        metadata: &Metadata,
        lifecycle: &mut Lifecycle,
        out: &mut Vec<LLMEvent>,
    ) {
        if let Some(part) = self.item(id).and_then(|item| item.part(index, metadata, lifecycle, out))
            && !part.has_text
        {
            part.has_text = !text.is_empty();
            lifecycle.reasoning_delta(&part.id, text, out);
        }
    }

    /// A reasoning item is complete. One that was never announced carries its whole text.
    pub(super) fn item_done(
        &mut self,
        id: &Arc<str>,
        reasoning: WireReasoning<'_>,
        metadata: &Metadata,
        lifecycle: &mut Lifecycle,
        out: &mut Vec<LLMEvent>,
    ) {
        if !self.over.insert(Arc::clone(id)) {
            return;
        }
        let encrypted = reasoning.encrypted_content.map(Str::into_owned);
        let end = encrypted_metadata(metadata, id, encrypted.as_deref());
        let text = || {
            let texts: Vec<_> =
                reasoning.summary.into_iter().flatten().filter_map(|part| part.text.map(Str::into_owned)).collect();
            Some(texts.join("\n")).filter(|text| !text.is_empty())
        };
        let Some(mut item) = self.open.take_if(|open| open.id == *id) else {
            let block = ContentBlockId::new(Arc::clone(id));
            lifecycle.reasoning_start(&block, end.clone(), out);
            lifecycle.reasoning_end(&block, text(), end, out);
            return;
        };
        if !item.parts.iter().any(|part| part.has_text)
            && let Some(part) = item.parts.iter_mut().find(|part| part.is_open)
        {
            part.is_open = false;
            lifecycle.reasoning_end(&part.id, text(), end.clone(), out);
        }
        item.end_parts(end.as_ref(), lifecycle, out);
    }

    /// Ends the open item without its ciphertext: the early one is not valid.
    pub(super) fn close(&mut self, metadata: &Metadata, lifecycle: &mut Lifecycle, out: &mut Vec<LLMEvent>) {
        if let Some(mut item) = self.open.take() {
            item.end_parts(metadata.item(&item.id).as_ref(), lifecycle, out);
            self.over.insert(item.id);
        }
    }

    /// The item that text belongs to: none once it is over; while one is open there is no other.
    fn item(&mut self, id: &Arc<str>) -> Option<&mut ReasoningItem> {
        if self.over.contains(id) {
            return None;
        }
        Some(self.open.get_or_insert_with(|| ReasoningItem { id: Arc::clone(id), early: None, parts: Vec::new() }))
    }
}
