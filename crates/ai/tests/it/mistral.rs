//! Call ids of Mistral: one form, no two alike, and back again.

use std::collections::BTreeSet;
use std::sync::Arc;

use abide_ai::protocols::mistral_chat::CallIds;
use abide_ai::schema::messages::{Role, ToolCallPart};
use abide_ai::schema::model::Compatibility;
use abide_ai::{LLMRequest, Message, Part, RequestInput};
use proptest::prelude::*;

use crate::support::model;

fn request(ids: &[String]) -> LLMRequest {
    let calls: Vec<Part> =
        ids.iter().map(|id| Part::ToolCall(ToolCallPart::make(id.as_str(), "lookup", serde_json::json!({})))).collect();
    let messages = vec![Arc::new(Message::new(Role::Assistant, calls))];
    LLMRequest::make(
        model("mistral-chat", "m", Compatibility::default()),
        RequestInput { messages, ..RequestInput::default() },
    )
}

proptest! {
    #[test]
    fn ids_are_mapped_both_ways(
        ids in prop::collection::vec(prop_oneof!["[a-zA-Z0-9]{9}", "call_[0-9]{1,3}", ".{0,12}"], 1..20),
        order in any::<prop::sample::Index>(),
    ) {
        let mut known = CallIds::of(&request(&ids));
        let distinct: BTreeSet<&String> = ids.iter().collect();
        let mut wire = BTreeSet::new();
        for id in &distinct {
            let sent = known.add(id);
            prop_assert!(sent.len() == 9 && sent.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id} -> {sent}");
            prop_assert_eq!(known.original(&sent), Some(id.as_str()));
            if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                prop_assert_eq!(&sent, *id);
            }
            wire.insert(sent);
        }
        prop_assert_eq!(wire.len(), distinct.len());
        // The next request has the same history and more: what was sent stays.
        let mut more = ids.clone();
        more.push("another".to_owned());
        let mut later = CallIds::of(&request(&more));
        let one = order.get(&ids);
        prop_assert_eq!(later.add(one), known.add(one));
    }
}
