//! Message items: their text and refusals.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Metadata;
use crate::protocols::open_responses::events::WireMessage;
use crate::protocols::utils::borrowed::Str;
use crate::protocols::utils::lifecycle::Lifecycle;
use crate::schema::ProviderMetadata;
use crate::schema::events::LLMEvent;
use crate::schema::ids::ContentBlockId;

/// Registered message items.
#[derive(Debug, Default)]
pub(super) struct TextItems {
    items: Vec<TextItem>,
    /// Ids of items that are over; they never open again.
    over: BTreeSet<ContentBlockId>,
    /// Whether the provider announces message items at all.
    are_announced: bool,
}

#[derive(Debug)]
struct TextItem {
    id: ContentBlockId,
    phase: Option<String>,
    has_text: bool,
}

impl TextItem {
    fn metadata(&self, metadata: &Metadata) -> Option<ProviderMetadata> {
        metadata.of([("itemId", Some(self.id.as_str().into())), ("phase", self.phase.as_deref().map(Into::into))])
    }

    fn push(&mut self, text: &str, metadata: &Metadata, lifecycle: &mut Lifecycle, out: &mut Vec<LLMEvent>) {
        if text.is_empty() {
            return;
        }
        if !self.has_text {
            self.has_text = true;
            lifecycle.text_start(&self.id, self.metadata(metadata), out);
        }
        lifecycle.text_delta(&self.id, text, out);
    }
}

impl TextItems {
    /// Whether this is, or was, a message item.
    pub(super) fn is_known(&self, id: &str) -> bool {
        self.items.iter().any(|item| item.id == *id) || self.over.iter().any(|over| *over == *id)
    }

    /// A message item begins: it ends any other one, and older ones are forgotten.
    pub(super) fn added(
        &mut self,
        id: &Arc<str>,
        phase: Option<String>,
        metadata: &Metadata,
        lifecycle: &mut Lifecycle,
        out: &mut Vec<LLMEvent>,
    ) {
        let id = ContentBlockId::new(Arc::clone(id));
        self.are_announced = true;
        let mut same = None;
        for item in std::mem::take(&mut self.items) {
            if item.id == id {
                same = Some(item);
            } else {
                self.end(&item, metadata, lifecycle, out);
            }
        }
        match same {
            Some(item) => self.items.push(TextItem { phase: phase.or(item.phase), ..item }),
            None if self.over.contains(&id) => {}
            None => self.items.push(TextItem { id, phase, has_text: false }),
        }
    }

    /// Text of an item. An unknown item is registered if no item was ever announced, else ignored.
    pub(super) fn delta(
        &mut self,
        id: &Arc<str>,
        text: &str,
        metadata: &Metadata,
        lifecycle: &mut Lifecycle,
        out: &mut Vec<LLMEvent>,
    ) {
        if let Some(item) = self.registered(id) {
            item.push(text, metadata, lifecycle, out);
        }
    }

    /// The whole text of an item; it counts only if none was streamed.
    pub(super) fn done(
        &mut self,
        id: &Arc<str>,
        text: &str,
        metadata: &Metadata,
        lifecycle: &mut Lifecycle,
        out: &mut Vec<LLMEvent>,
    ) {
        if let Some(item) = self.registered(id)
            && !item.has_text
        {
            item.push(text, metadata, lifecycle, out);
        }
    }

    /// A message item is complete. Its own text counts only if none was streamed.
    pub(super) fn item_done(
        &mut self,
        id: &Arc<str>,
        message: WireMessage<'_>,
        metadata: &Metadata,
        lifecycle: &mut Lifecycle,
        out: &mut Vec<LLMEvent>,
    ) {
        let mut item = match self.items.iter().position(|item| item.id == **id) {
            Some(index) => self.items.remove(index),
            None if self.over.contains(&ContentBlockId::new(Arc::clone(id))) => return,
            None => TextItem { id: ContentBlockId::new(Arc::clone(id)), phase: None, has_text: false },
        };
        item.phase = message.phase.map(Str::into_owned).or(item.phase);
        if !item.has_text {
            for part in message.content.into_iter().flatten() {
                if let Some(text) = part.text.or(part.refusal) {
                    item.push(&text, metadata, lifecycle, out);
                }
            }
        }
        self.end(&item, metadata, lifecycle, out);
    }

    fn end(&mut self, item: &TextItem, metadata: &Metadata, lifecycle: &mut Lifecycle, out: &mut Vec<LLMEvent>) {
        lifecycle.text_end(&item.id, item.metadata(metadata), out);
        self.over.insert(item.id.clone());
    }

    fn registered(&mut self, id: &Arc<str>) -> Option<&mut TextItem> {
        if let Some(index) = self.items.iter().position(|item| item.id == **id) {
            return self.items.get_mut(index);
        }
        let id = ContentBlockId::new(Arc::clone(id));
        if self.are_announced || self.over.contains(&id) {
            return None;
        }
        self.items.push(TextItem { id, phase: None, has_text: false });
        self.items.last_mut()
    }
}
