use serde_json::{Value, json};

use super::{signature, type_of};
use crate::tree::Tool;

#[track_caller]
fn check(schema: Value, expected: &str) {
    assert_eq!(type_of(&schema), expected);
}

#[test]
fn simple_types() {
    check(json!({"type": "string"}), "string");
    check(json!({"type": "integer"}), "number");
    check(json!({"type": ["string", "null"]}), "string | null");
    check(json!({"type": "string", "nullable": true}), "string | null");
    check(json!(true), "unknown");
    check(json!(false), "never");
    check(json!({"type": "date"}), "unknown");
    check(json!("no schema"), "unknown");
}

#[test]
fn literals_and_combinations() {
    check(json!({"const": 3}), "3");
    check(json!({"enum": ["a", "b", null]}), r#""a" | "b" | null"#);
    check(json!({"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "integer"}]}), "string | number");
    check(
        json!({"allOf": [{"type": "object", "properties": {"a": {}}}, {"oneOf": [{"const": 1}, {"const": 2}]}]}),
        "{ a?: unknown } & (1 | 2)",
    );
    check(json!({"type": "object", "anyOf": [{"const": "x"}]}), r#""x""#);
}

#[test]
fn arrays_and_objects() {
    check(json!({"type": "array", "items": {"enum": [1, 2]}}), "Array<1 | 2>");
    check(json!({"type": "array"}), "Array<unknown>");
    check(json!({"prefixItems": [{"type": "string"}], "items": {"type": "number"}}), "[string, ...Array<number>]");
    check(json!({"type": "object"}), "{ [key: string]: unknown }");
    check(json!({"type": "object", "additionalProperties": false}), "{}");
    check(json!({"additionalProperties": {"type": "number"}}), "{ [key: string]: number }");
    check(
        json!({"properties": {"path": {"type": "string"}, "max-size": {"type": "number"}}, "required": ["path"]}),
        r#"{ path: string; "max-size"?: number }"#,
    );
}

#[test]
fn comments() {
    check(
        json!({"properties": {"at": {
            "type": "string", "description": "When it\n ends */ or not.", "deprecated": true,
            "default": "now", "format": "date-time",
        }}}),
        r#"{ /** When it ends *\/ or not. @deprecated @default "now" @format date-time */ at?: string }"#,
    );
    check(
        json!({"properties": {"ids": {"type": "array", "minItems": 1, "maxItems": 3}}}),
        "{ /** @minItems 1 @maxItems 3 */ ids?: Array<unknown> }",
    );
}

#[test]
fn references_that_end_and_that_do_not() {
    check(json!({"$ref": "#/$defs/name", "$defs": {"name": {"type": "string"}}}), "string");
    check(json!({"$ref": "https://example.com/other"}), "unknown");
    check(json!({"$ref": "#"}), "unknown");
    check(
        json!({"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"next": {"$ref": "#/$defs/n"}}}}}),
        "{ next?: unknown }",
    );
}

#[test]
fn sizes_are_bounded() {
    let mut deep = json!({"type": "string"});
    for _ in 0..200 {
        deep = json!({"type": "array", "items": deep});
    }
    check(deep, &format!("{}unknown{}", "Array<".repeat(9), ">".repeat(9)));
    // Each definition holds the next one twelve times: without a bound, 12^7 types.
    let mut definitions = serde_json::Map::new();
    for level in 0..7 {
        let reference = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        let fields: serde_json::Map<_, _> = (0..12).map(|field| (format!("f{field}"), reference.clone())).collect();
        definitions.insert(format!("d{level}"), json!({"properties": fields}));
    }
    let text = type_of(&json!({"$ref": "#/$defs/d0", "$defs": definitions}));
    assert!(text.len() < 100_000, "{}", text.len());
}

#[test]
fn whole_signatures() {
    let mut tool = Tool {
        path: "files.read-all".to_owned(),
        description: String::new(),
        input: json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
        output: None,
        pinned: false,
    };
    assert_eq!(signature(&tool), r#"tools.files["read-all"](input: { path: string }): Promise<string | null>"#);
    tool.output = Some(json!({"type": "number"}));
    assert_eq!(signature(&tool), r#"tools.files["read-all"](input: { path: string }): Promise<number>"#);
}
