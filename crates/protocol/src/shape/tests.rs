//! Shapes against the published document.

use std::collections::BTreeSet;

use super::{ObjectShape, Shape, event_shape, live_names, live_shape};
use crate::openapi::tests::published;

/// Properties that the published document has and 1.18 never sends, or that are of the older API.
const NEVER_SENT: &[&str] = &["partID", "attachments"];

fn check_object(shape: &ObjectShape, schema: &serde_json::Value, seen: &mut Vec<String>) {
    let published: BTreeSet<&str> = schema["properties"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .filter(|name| !NEVER_SENT.contains(name))
        .collect();
    let ours: BTreeSet<&str> = shape.fields.iter().map(|(name, _)| *name).collect();
    assert_eq!(ours, published, "{:?} {schema}", shape.component);
    for (_, inner) in shape.fields {
        check(inner, seen);
    }
}

fn check(shape: &Shape, seen: &mut Vec<String>) {
    match shape {
        Shape::Any => {}
        Shape::List(item) => check(item, seen),
        Shape::Object(object) => {
            if let Some(name) = object.component {
                seen.push(name.to_owned());
                check_object(object, &published()["components"]["schemas"][name], seen);
            }
        }
        Shape::Tagged(tagged) => {
            for (_, object) in tagged.variants {
                check(&Shape::Object(object), seen);
            }
        }
    }
}

#[test]
fn components_have_the_published_properties() {
    let mut seen = Vec::new();
    for shape in [
        &super::SESSION,
        &super::MESSAGE,
        &super::REVERT,
        &super::ADMITTED,
        &super::PERMISSION_REQUEST,
        &super::QUESTION_REQUEST,
        &super::AGENT,
    ] {
        check(shape, &mut seen);
    }
    assert!(seen.len() > 25, "{seen:?}");
}

#[test]
fn events_have_the_published_properties() {
    let published = published();
    let mut n_events = 0;
    for (_, schema) in published["components"]["schemas"].as_object().unwrap() {
        let Some(name) = schema.pointer("/properties/type/enum/0").and_then(serde_json::Value::as_str) else {
            continue;
        };
        if schema.pointer("/properties/data").is_none() {
            continue;
        }
        if let Some(shape) = event_shape(name).or_else(|| live_shape(name)) {
            n_events += 1;
            check_object(shape, &schema["properties"]["data"], &mut Vec::new());
        }
    }
    let all = abide_schema::event::EVENTS.iter().filter(|def| event_shape(def.name).is_some()).count();
    assert_eq!(n_events, all + live_names().count());
}
