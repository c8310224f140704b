//! Scenarios V1 to V18 of spec/tools.md section 16, as far as they concern schemas.

use insta::assert_snapshot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;

fn object(value: Value) -> JsonObject {
    let Value::Object(object) = value else { panic!("no object: {value}") };
    object
}

fn json_schema(document: Value) -> ValueSchema {
    ValueSchema::Json(Arc::new(object(document)))
}

fn validate(schema: &ValueSchema, value: Value) -> Result<Value, Vec<Issue>> {
    let cache = SchemaCache::default();
    futures_util::FutureExt::now_or_never(schema.validate_input(value, &cache)).unwrap()
}

#[track_caller]
fn check_issues(schema: Value, value: Value, expected: &[&str]) {
    let issues = validate(&json_schema(schema), value).err().unwrap_or_default();
    assert_eq!(issues.iter().map(Issue::to_string).collect::<Vec<_>>(), expected);
}

#[track_caller]
fn check_accepted(schema: Value, value: Value, expected: Value) {
    assert_eq!(validate(&json_schema(schema), value), Ok(expected));
}

/// An object with required strings of these names.
fn strings(names: &[&str]) -> Value {
    let properties: JsonObject = names.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" }))).collect();
    json!({ "type": "object", "properties": properties, "required": names })
}

#[test]
fn v1_more_than_five_issues_are_counted() {
    let schema = json_schema(strings(&["a", "b", "c", "d", "e", "f", "g"]));
    let text = |value: Value| {
        let issues = validate(&schema, value.clone()).unwrap_err();
        invalid_input("shell", &issues, &value)
    };
    assert_snapshot!(text(json!({ "g": "x" })), @r#"
    The arguments for tool "shell" are not valid:
    - a: missing required property
    - b: missing required property
    - c: missing required property
    - d: missing required property
    - e: missing required property
    - ...and 1 more issue

    Arguments provided:
    {
      "g": "x"
    }

    Please update the arguments and call the tool again.
    "#);
    assert_snapshot!(text(json!({})), @r#"
    The arguments for tool "shell" are not valid:
    - a: missing required property
    - b: missing required property
    - c: missing required property
    - d: missing required property
    - e: missing required property
    - ...and 2 more issues

    Arguments provided:
    {}

    Please update the arguments and call the tool again.
    "#);
}

#[test]
fn v2_paths_of_issues() {
    let items =
        json!({ "type": "object", "properties": { "items": { "type": "array", "items": strings(&["name"]) } } });
    check_issues(
        items,
        json!({ "items": [{ "name": "a" }, { "name": "b" }, { "name": 3 }] }),
        &["items[2].name: expected string"],
    );
    check_issues(json!({ "type": "array", "items": { "type": "string" } }), json!([1]), &["[0]: expected string"]);
    check_issues(json!({ "type": "object" }), json!("text"), &["root: expected object"]);
    check_issues(
        json!({ "properties": { "a/b~c": { "properties": { "0": { "type": "null" } } } } }),
        json!({ "a/b~c": { "0": 1 } }),
        &["a/b~c.0: expected null"],
    );
}

#[test]
fn v3_arguments_are_repeated_whatever_they_are_and_cut() {
    let issues = [Issue::new("", "expected object")];
    assert_snapshot!(invalid_input("read", &issues, &json!(1)), @r#"
    The arguments for tool "read" are not valid:
    - root: expected object

    Arguments provided:
    1

    Please update the arguments and call the tool again.
    "#);
    let long = invalid_input("read", &issues, &json!("é".repeat(5000)));
    assert!(long.len() < 4 * 1024 + 300, "{}", long.len());
    assert!(long.contains("é\n[5907 bytes cut]\n\nPlease update"), "{long}");
}

#[test]
fn problems_are_short() {
    let cases = [
        (json!({ "type": ["string", "null"] }), json!(1), "expected string or null"),
        (json!({ "minimum": 1 }), json!(0), "expected a value >= 1"),
        (json!({ "maximum": 2 }), json!(3), "expected a value <= 2"),
        (json!({ "exclusiveMinimum": 1 }), json!(1), "expected a value > 1"),
        (json!({ "exclusiveMaximum": 1 }), json!(1), "expected a value < 1"),
        (json!({ "multipleOf": 5 }), json!(3), "expected a multiple of 5"),
        (json!({ "enum": ["a", "b", 3] }), json!("c"), "expected one of: a, b, 3"),
        (json!({ "const": "a" }), json!("c"), "expected a"),
        (json!({ "minLength": 1 }), json!(""), "expected at least 1 character"),
        (json!({ "maxLength": 2 }), json!("abc"), "expected at most 2 characters"),
        (json!({ "minItems": 2 }), json!([]), "expected at least 2 items"),
        (json!({ "maxItems": 1 }), json!([1, 2]), "expected at most 1 item"),
        (json!({ "minProperties": 1 }), json!({}), "expected at least 1 property"),
        (json!({ "maxProperties": 0 }), json!({ "a": 1 }), "expected at most 0 properties"),
        (json!({ "uniqueItems": true }), json!([1, 1]), "expected items that differ"),
        (json!({ "pattern": "^a" }), json!("b"), "expected text that matches ^a"),
        (json!({ "anyOf": [{ "type": "string" }, { "type": "number" }] }), json!([]), "expected string or number"),
        (json!({ "oneOf": [{ "const": "a" }, { "type": "null" }] }), json!(1), "expected a or null"),
        (json!({ "anyOf": [{ "minimum": 3 }, { "type": "null" }] }), json!(1), "expected a value >= 3"),
        (json!({ "anyOf": [{ "minimum": 3 }, { "multipleOf": 2 }] }), json!(1), "fits none of the allowed forms"),
        (json!({ "oneOf": [{ "minimum": 1 }, { "maximum": 3 }] }), json!(2), "fits more than one of the allowed forms"),
        (json!({ "not": { "type": "null" } }), json!(null), "not allowed"),
    ];
    for (schema, value, problem) in cases {
        check_issues(schema, value, &[&format!("root: {problem}")]);
    }
}

#[test]
fn issues_come_in_the_order_of_the_schema() {
    let schema = json!({
        "type": "object",
        "properties": {
            "zeta": { "type": "string" },
            "list": { "$ref": "#/$defs/list" },
            "alpha": { "type": "string" },
        },
        "required": ["name", "alpha"],
        "$defs": { "list": { "properties": { "b": { "type": "null" }, "a": { "type": "null" } } } },
    });
    check_issues(
        schema,
        json!({ "list": { "a": 1, "b": 1 }, "zeta": 1 }),
        &[
            "name: missing required property",
            "alpha: missing required property",
            "zeta: expected string",
            "list.b: expected null",
            "list.a: expected null",
        ],
    );
}

#[test]
fn v4_surplus_properties_are_removed_at_every_level() {
    let inner = json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": false });
    let outer = json!({ "type": "object", "properties": { "in": inner, "list": { "items": inner } },
        "additionalProperties": false });
    check_accepted(
        outer,
        json!({ "x": 1, "in": { "a": 1, "b": 2 }, "y": 2, "list": [{ "a": 1 }, { "c": 1 }] }),
        json!({ "in": { "a": 1 }, "list": [{ "a": 1 }, {}] }),
    );
    check_accepted(json!({ "type": "object" }), json!({ "x": 1 }), json!({ "x": 1 }));
    check_accepted(
        json!({ "patternProperties": { "^x": {} }, "additionalProperties": false }),
        json!({ "x1": 1, "y": 1 }),
        json!({ "x1": 1 }),
    );
    let kind = |kind: &str| {
        json!({ "properties": { "kind": { "const": kind }, "a": { "type": "string" } },
        "required": ["kind"], "additionalProperties": false })
    };
    let union = json!({ "items": { "oneOf": [kind("one"), kind("two")] } });
    check_accepted(union.clone(), json!([{ "kind": "two", "b": 1 }]), json!([{ "kind": "two" }]));
    check_issues(union, json!([{ "kind": "two", "a": 1 }]), &["[0]: fits none of the allowed forms"]);
    let optional = json!({ "anyOf": [kind("one"), { "type": "null" }] });
    check_issues(optional, json!({ "a": 1 }), &["kind: missing required property", "a: expected string"]);
    // Nothing else is mended.
    check_issues(json!({ "type": "integer" }), json!("1"), &["root: expected integer"]);
    check_accepted(json!({ "properties": { "a": { "default": 1 } } }), json!({}), json!({}));
}

#[test]
fn v5_the_draft_follows_the_document() {
    // In draft 07 keywords beside a reference say nothing.
    let with = |extra: (&str, Value)| {
        let mut schema = json!({ "definitions": { "s": { "type": "string" } },
            "properties": { "a": { "$ref": "#/definitions/s", "minLength": 3 } } });
        schema[extra.0] = extra.1;
        schema
    };
    check_accepted(with(("description", json!("x"))), json!({ "a": "b" }), json!({ "a": "b" }));
    let schema = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "$defs": { "s": { "type": "string" } },
        "properties": { "a": { "$ref": "#/$defs/s", "minLength": 3 } } });
    check_accepted(schema, json!({ "a": "b" }), json!({ "a": "b" }));
    let schema = json!({ "$defs": { "s": { "type": "string" } },
        "properties": { "a": { "$ref": "#/$defs/s", "minLength": 3 } } });
    check_issues(schema, json!({ "a": "b" }), &["a: expected at least 3 characters"]);
}

#[test]
fn v6_v7_what_cannot_be_compiled_accepts_everything_unchanged() {
    for reference in ["#/$defs/missing", "https://example.com/schema.json", "file:///etc/passwd"] {
        let schema = json!({ "type": "object", "properties": { "a": { "$ref": reference } },
            "additionalProperties": false });
        check_accepted(schema, json!({ "a": 1, "b": 2 }), json!({ "a": 1, "b": 2 }));
    }
    check_accepted(json!({ "pattern": "(" }), json!("x"), json!("x"));
    let huge = json!({ "pattern": "(?:a{1000}){1000}" });
    check_accepted(huge, json!("x"), json!("x"));
}

#[test]
fn a_costly_pattern_ends() {
    let schema = json!({ "pattern": "^(?=(a+)+$)(a|aa)+$" });
    let value = json!(format!("{}b", "a".repeat(40)));
    assert!(validate(&json_schema(schema), value).is_err());
}

#[test]
fn v8_a_hundred_validators_are_kept() {
    let cache = SchemaCache::default();
    let document = |n: usize| object(json!({ "minimum": n }));
    for n in 0..101 {
        assert!(cache.get(&document(n)).is_some());
    }
    assert_eq!(cache.len(), 100);
    let failing = object(json!({ "$ref": "#/missing" }));
    assert!(cache.get(&failing).is_none());
    assert!(cache.get(&failing).is_none());
    assert_eq!(cache.len(), 100);
    assert!(cache.get(&document(0)).is_some_and(|validator| validator.check(&json!(-1), &document(0)).len() == 1));
}

/// Reads something.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only the schema is looked at")]
struct Input {
    /// Where.
    path: String,
    /// How many.
    limit: Option<u32>,
    #[serde(default)]
    deep: bool,
    kind: Option<Kind>,
    within: Option<Within>,
    map: std::collections::BTreeMap<String, u8>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Small,
    Large,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only the schema is looked at")]
struct Within {
    name: String,
}

#[test]
fn a_typed_input_is_advertised_plainly() {
    let schema = ValueSchema::input::<Input>();
    assert_snapshot!(serde_json::to_string_pretty(schema.advertised()).unwrap(), @r##"
    {
      "type": "object",
      "properties": {
        "path": {
          "type": "string",
          "description": "Where."
        },
        "limit": {
          "type": "integer",
          "minimum": 0,
          "description": "How many."
        },
        "deep": {
          "type": "boolean",
          "default": false
        },
        "kind": {
          "type": "string",
          "enum": [
            "small",
            "large"
          ]
        },
        "within": {
          "type": "object",
          "properties": {
            "name": {
              "type": "string"
            }
          },
          "required": [
            "name"
          ],
          "additionalProperties": false
        },
        "map": {
          "type": "object",
          "additionalProperties": {
            "type": "integer",
            "minimum": 0,
            "maximum": 255
          }
        }
      },
      "required": [
        "path",
        "map"
      ],
      "description": "Reads something.",
      "additionalProperties": false
    }
    "##);
    assert!(validate(&schema, json!({ "path": "a", "map": {}, "limit": null, "kind": "small" })).is_ok());
    assert_eq!(
        validate(&schema, json!({ "path": "a", "map": { "x": 1 }, "more": 1, "within": { "name": "n", "y": 1 } })),
        Ok(json!({ "path": "a", "map": { "x": 1 }, "within": { "name": "n" } }))
    );
    let issues = validate(&schema, json!({ "path": 1, "limit": -1, "kind": "tiny" })).unwrap_err();
    assert_eq!(
        issues.iter().map(Issue::to_string).collect::<Vec<_>>(),
        [
            "map: missing required property",
            "path: expected string",
            "limit: expected a value >= 0",
            "kind: expected one of: small, large, null"
        ]
    );
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Tree {
    name: String,
    children: Vec<Tree>,
}

#[track_caller]
fn check_simplified(document: Value, expected: &Value) {
    assert_eq!(Value::Object(simplify(object(document))), *expected);
}

#[test]
fn v17_references_are_put_in_place_but_for_recursion() {
    let schema = ValueSchema::output::<Tree>();
    let expected = r##"{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#"}}},"required":["name","children"]}"##;
    assert_eq!(serde_json::to_string(schema.advertised()).unwrap(), expected);
    check_simplified(
        json!({ "properties": { "a": { "$ref": "#/$defs/A~1B" }, "b": { "$ref": "#/$defs/A~0B", "title": "t" } },
            "$defs": { "A/B": { "type": "string" }, "A~B": { "type": "null" } } }),
        &json!({ "properties": { "a": { "type": "string" }, "b": { "type": "null", "title": "t" } } }),
    );
    // Keywords that clash stay apart.
    check_simplified(
        json!({ "properties": { "a": { "$ref": "#/$defs/s", "minLength": 3 } },
            "$defs": { "s": { "type": "string", "minLength": 1 } } }),
        &json!({ "properties": { "a": { "allOf": [{ "type": "string", "minLength": 1 }, { "minLength": 3 }] } } }),
    );
    // A property may be named like a keyword.
    check_simplified(
        json!({ "properties": { "$ref": { "type": "string" }, "allOf": { "type": "array" } } }),
        &json!({ "properties": { "$ref": { "type": "string" }, "allOf": { "type": "array" } } }),
    );
}

#[test]
fn v16_all_of_is_merged_where_nothing_clashes() {
    check_simplified(
        json!({ "type": "string", "allOf": [{ "pattern": "a" }, { "minLength": 1 }] }),
        &json!({ "type": "string", "pattern": "a", "minLength": 1 }),
    );
    let twice = json!({ "type": "string", "allOf": [{ "pattern": "a" }, { "pattern": "b" }] });
    check_simplified(twice.clone(), &twice);
    let closed = json!({ "additionalProperties": false, "allOf": [{ "properties": { "a": {} } }] });
    check_simplified(closed.clone(), &closed);
    check_simplified(
        json!({ "description": "d", "allOf": [{ "properties": { "a": {} }, "additionalProperties": false }] }),
        &json!({ "description": "d", "properties": { "a": {} }, "additionalProperties": false }),
    );
    check_simplified(
        json!({ "items": { "allOf": [{ "allOf": [{ "type": "null" }] }] } }),
        &json!({ "items": { "type": "null" } }),
    );
}
