//! What Moonshot takes: no tuples.

use serde_json::{Value, json};

use super::{map_subschemas, on_object};
use crate::schema::JsonObject;

pub(super) fn sanitize(schema: &JsonObject) -> JsonObject {
    let mut node = map_subschemas(schema, &mut |below| on_object(below, sanitize));
    if let Some(reference) = node.get("$ref") {
        return JsonObject::from_iter([("$ref".to_owned(), reference.clone())]);
    }
    if let Some(Value::Array(tuple)) = node.get("items") {
        let items = one_of(tuple);
        node.insert("items".to_owned(), items);
    }
    if let Some(Value::Array(tuple)) = node.shift_remove("prefixItems")
        && !node.contains_key("items")
    {
        node.insert("items".to_owned(), one_of(&tuple));
    }
    node.shift_remove("unevaluatedItems");
    node
}

fn one_of(tuple: &[Value]) -> Value {
    match tuple {
        [] => json!({}),
        [one] => one.clone(),
        many => json!({ "anyOf": many }),
    }
}
