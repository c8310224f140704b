//! Values made from JSON schemas: every property is there, also the optional ones.

use serde_json::{Map, Value, json};

/// Makes a value of a schema; `choice` picks among alternatives.
pub(crate) fn sample(schema: &Value, definitions: &Map<String, Value>, choice: usize) -> Value {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let name = target.rsplit('/').next().unwrap();
        let mut value = sample(&definitions[name], definitions, choice);
        let beside = sample_object(schema, definitions, choice);
        if let (Value::Object(value), Value::Object(beside)) = (&mut value, beside) {
            value.extend(beside);
        }
        return value;
    }
    for word in ["oneOf", "anyOf"] {
        if let Some(options) = schema.get(word).and_then(Value::as_array) {
            let options: Vec<&Value> = options.iter().filter(|o| o.get("type") != Some(&json!("null"))).collect();
            let mut value = sample(options[choice % options.len()], definitions, choice);
            if let (Value::Object(value), Value::Object(beside)) =
                (&mut value, sample_object(schema, definitions, choice))
            {
                value.extend(beside);
            }
            return value;
        }
    }
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values[choice % values.len()].clone();
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().find(|kind| *kind != "null").cloned(),
        other => other.cloned(),
    };
    match kind.as_ref().and_then(Value::as_str) {
        Some("string") => {
            let prefix = schema.get("pattern").and_then(Value::as_str).unwrap_or("^").trim_start_matches('^');
            let prefix =
                if prefix.ends_with('_') || prefix.is_empty() { prefix.to_owned() } else { format!("{prefix}_") };
            json!(format!("{prefix}sample"))
        }
        Some("integer") => json!(7),
        Some("number") => json!(0.5),
        Some("boolean") => json!(true),
        Some("array") => json!([sample(&schema["items"], definitions, choice)]),
        Some("object") => sample_object(schema, definitions, choice),
        _ => json!({ "any": ["thing"] }),
    }
}

fn sample_object(schema: &Value, definitions: &Map<String, Value>, choice: usize) -> Value {
    let mut out = Map::new();
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        out.insert(name.clone(), sample(property, definitions, choice));
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        out.insert("key".to_owned(), sample(values, definitions, choice));
    }
    Value::Object(out)
}
