//! Providers in older forms: `provider` with `npm` and `options`, and `api`/`request` of the first V2 form.

use abide_schema::JsonObject;
use abide_schema::config::{DiagnosticKind, Severity};
use serde_json::{Value, json};

use crate::config::report::{Report, join};

/// How the options of a package become settings, headers and body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    OpenAi,
    Anthropic,
    Google,
    Bedrock,
    Compatible,
    Other,
}

impl Family {
    /// By the package, else by what the provider's name says.
    fn of(id: &str, npm: Option<&str>) -> Self {
        match npm {
            Some(package) => Self::of_package(package),
            None => match id {
                "openai" | "azure" => Self::OpenAi,
                "anthropic" => Self::Anthropic,
                "google" | "google-vertex" => Self::Google,
                "amazon-bedrock" => Self::Bedrock,
                _ => Self::Compatible,
            },
        }
    }

    fn of_package(package: &str) -> Self {
        match package {
            "@ai-sdk/openai" | "@ai-sdk/azure" => Self::OpenAi,
            "@ai-sdk/anthropic" | "@ai-sdk/google-vertex/anthropic" => Self::Anthropic,
            "@ai-sdk/google" | "@ai-sdk/google-vertex" => Self::Google,
            "@ai-sdk/amazon-bedrock" => Self::Bedrock,
            "@ai-sdk/openai-compatible"
            | "@ai-sdk/cerebras"
            | "@ai-sdk/deepinfra"
            | "@ai-sdk/groq"
            | "@ai-sdk/mistral"
            | "@ai-sdk/togetherai"
            | "@ai-sdk/xai"
            | "@openrouter/ai-sdk-provider"
            | "ai-gateway-provider"
            | "venice-ai-sdk-provider" => Self::Compatible,
            _ => Self::Other,
        }
    }
}

/// Provider options that are settings whatever the package is: they must not leak into a request body.
const CONNECTION: [&str; 6] = ["apiKey", "baseURL", "timeout", "headerTimeout", "chunkTimeout", "fetch"];

/// Converts one provider.
pub(super) fn provider(id: &str, mut old: JsonObject, pointer: &str, report: &mut Report) -> JsonObject {
    old.retain(|_, value| !value.is_null());
    let mut new = JsonObject::new();
    let npm = old.remove("npm");
    let package = npm.as_ref().and_then(Value::as_str);
    let family = Family::of(id, package);
    if let Some(package) = package {
        new.insert("package".to_owned(), json!(format!("aisdk:{package}")));
    }
    let mut settings = JsonObject::new();
    match old.remove("api") {
        Some(Value::String(url)) => {
            settings.insert("baseURL".to_owned(), json!(url));
        }
        Some(api) => {
            old.insert("api".to_owned(), api);
        }
        None => {}
    }
    if let Some(Value::Object(options)) = old.remove("options") {
        report.moved(format!("{}/settings", join("/providers", id)), join(pointer, "options"));
        split_options(family, options, &mut new, &mut settings);
    }
    if !settings.is_empty() {
        new.insert("settings".to_owned(), Value::Object(settings));
    }
    if let Some(Value::Object(models)) = old.remove("models") {
        let mut converted = JsonObject::new();
        for (name, value) in models {
            let child = join(&join(pointer, "models"), &name);
            match value {
                Value::Object(value) => {
                    converted.insert(name, Value::Object(model(family, value, &child, report)));
                }
                Value::Null => {}
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    let message = format!("expected an object for the model {name:?}");
                    report.add(Severity::Error, DiagnosticKind::Invalid, &child, message);
                }
            }
        }
        new.insert("models".to_owned(), Value::Object(converted));
    }
    if old.remove("id").is_some() {
        unsupported(report, &join(pointer, "id"));
    }
    for (key, value) in old {
        new.entry(key).or_insert(value);
    }
    new
}

/// Splits provider options into settings, headers and body.
fn split_options(family: Family, mut options: JsonObject, new: &mut JsonObject, settings: &mut JsonObject) {
    let mut headers = JsonObject::new();
    let mut body = JsonObject::new();
    if let Some(Value::Object(more)) = options.remove("headers") {
        headers.extend(more.into_iter().filter(|(_, value)| value.is_string()));
    }
    if let Some(Value::Object(more)) = options.remove("body") {
        body.extend(more);
    }
    if family == Family::Anthropic
        && let Some(Value::String(token)) = options.remove("authToken")
    {
        headers.insert("authorization".to_owned(), json!(format!("Bearer {token}")));
    }
    for (key, value) in options {
        let is_body = match family {
            Family::Other => !CONNECTION.contains(&key.as_str()),
            Family::OpenAi | Family::Anthropic | Family::Google | Family::Bedrock | Family::Compatible => false,
        };
        if is_body {
            body.insert(key, value);
        } else {
            settings.insert(key, value);
        }
    }
    for (key, value) in [("headers", headers), ("body", body)] {
        if !value.is_empty() {
            new.insert(key.to_owned(), Value::Object(value));
        }
    }
}

/// Converts one model.
fn model(provider: Family, mut old: JsonObject, pointer: &str, report: &mut Report) -> JsonObject {
    old.retain(|_, value| !value.is_null());
    let mut new = JsonObject::new();
    let own = old.remove("provider");
    let npm = own.as_ref().and_then(|own| own.get("npm")).and_then(Value::as_str);
    let family = npm.map_or(provider, Family::of_package);
    if let Some(npm) = npm {
        new.insert("package".to_owned(), json!(format!("aisdk:{npm}")));
    }
    if let Some(url) = own.as_ref().and_then(|own| own.get("api")).and_then(Value::as_str) {
        new.insert("settings".to_owned(), json!({ "baseURL": url }));
    }
    if let Some(id) = old.remove("id") {
        new.insert("modelID".to_owned(), id);
    }
    capabilities(&mut old, &mut new);
    if let Some(cost) = old.remove("cost") {
        new.insert("cost".to_owned(), costs(cost));
    }
    if let Some(Value::Object(mut options)) = old.remove("options") {
        if let Some(Value::Object(more)) = options.remove("headers") {
            new.insert("headers".to_owned(), Value::Object(more));
        }
        let body = request_options(family, options);
        if !body.is_empty() {
            new.insert("body".to_owned(), Value::Object(body));
        }
    }
    if let Some(Value::Object(headers)) = old.remove("headers") {
        let there = new.entry("headers").or_insert_with(|| json!({}));
        if let Value::Object(there) = there {
            there.extend(headers);
        }
    }
    match old.remove("variants") {
        Some(Value::Object(variants)) => {
            let list = variants.into_iter().filter_map(|(id, options)| variant(family, &id, options)).collect();
            new.insert("variants".to_owned(), Value::Array(list));
        }
        Some(list) => {
            new.insert("variants".to_owned(), list);
        }
        None => {}
    }
    match old.remove("status") {
        Some(status) if status == json!("deprecated") => {
            new.insert("disabled".to_owned(), json!(true));
        }
        Some(_) => unsupported(report, &join(pointer, "status")),
        None => {}
    }
    if let Some(field) = old.remove("interleaved") {
        match field.get("field").or(Some(&field)).and_then(Value::as_str) {
            Some(field) => {
                new.insert("compatibility".to_owned(), json!({ "reasoningField": field }));
            }
            None => unsupported(report, &join(pointer, "interleaved")),
        }
    }
    for key in ["attachment", "temperature", "experimental"] {
        if old.remove(key).is_some() {
            unsupported(report, &join(pointer, key));
        }
    }
    for (key, value) in old {
        new.entry(key).or_insert(value);
    }
    new
}

fn variant(family: Family, id: &str, options: Value) -> Option<Value> {
    let Value::Object(mut options) = options else { return None };
    let headers = options.remove("headers").unwrap_or_else(|| json!({}));
    let disabled = options.remove("disabled").unwrap_or(Value::Null);
    let body = request_options(family, options);
    Some(json!({ "id": id, "headers": headers, "body": body, "disabled": disabled }))
}

/// `tool_call`, `modalities` and `reasoning` become `capabilities`.
fn capabilities(old: &mut JsonObject, new: &mut JsonObject) {
    let tools = old.remove("tool_call");
    let modalities = old.remove("modalities");
    let mut capabilities = JsonObject::new();
    if tools.is_some() || modalities.is_some() {
        capabilities.insert("tools".to_owned(), json!(tools.as_ref().and_then(Value::as_bool).unwrap_or(false)));
    }
    if let Some(modalities) = &modalities {
        for key in ["input", "output"] {
            capabilities.insert(key.to_owned(), modalities.get(key).cloned().unwrap_or_else(|| json!([])));
        }
    }
    if let Some(reasoning) = old.remove("reasoning") {
        capabilities.insert("reasoning".to_owned(), reasoning);
    }
    if let Some(Value::Object(native)) = old.remove("capabilities") {
        capabilities.extend(native);
    }
    if !capabilities.is_empty() {
        new.insert("capabilities".to_owned(), Value::Object(capabilities));
    }
}

/// `cache_read`, `cache_write` and `context_over_200k` become the present form.
fn costs(cost: Value) -> Value {
    let Value::Object(mut cost) = cost else { return cost };
    let over = cost.remove("context_over_200k");
    let mut all = vec![one_cost(cost, None)];
    if let Some(Value::Object(over)) = over {
        all.push(one_cost(over, Some(json!({ "type": "context", "size": 200_000 }))));
    }
    Value::Array(all)
}

fn one_cost(mut cost: JsonObject, tier: Option<Value>) -> Value {
    let mut cache = match cost.remove("cache") {
        Some(Value::Object(cache)) => cache,
        Some(_) | None => JsonObject::new(),
    };
    for (from, to) in [("cache_read", "read"), ("cache_write", "write")] {
        if let Some(value) = cost.remove(from) {
            cache.insert(to.to_owned(), value);
        }
    }
    cost.insert("cache".to_owned(), Value::Object(cache));
    if let Some(tier) = tier {
        cost.insert("tier".to_owned(), tier);
    }
    for key in ["input", "output"] {
        cost.entry(key).or_insert(json!(0));
    }
    Value::Object(cost)
}

/// Request options of a package become body fields of its wire format.
fn request_options(family: Family, options: JsonObject) -> JsonObject {
    match family {
        Family::OpenAi => {
            let mut body = JsonObject::new();
            for (key, value) in options {
                match key.as_str() {
                    "reasoningEffort" => nest(&mut body, "reasoning", "effort", value),
                    "reasoningSummary" => nest(&mut body, "reasoning", "summary", value),
                    "textVerbosity" => nest(&mut body, "text", "verbosity", value),
                    _ => {
                        body.insert(snake(&key), snake_keys(value));
                    }
                }
            }
            body
        }
        Family::Anthropic => {
            let mut body = JsonObject::new();
            for (key, value) in options {
                match key.as_str() {
                    "effort" => nest(&mut body, "output_config", "effort", value),
                    "taskBudget" => nest(&mut body, "output_config", "task_budget", value),
                    _ => {
                        body.insert(snake(&key), snake_keys(value));
                    }
                }
            }
            body
        }
        Family::Google => {
            let mut body = JsonObject::new();
            for (key, value) in options {
                match key.as_str() {
                    "thinkingConfig" | "responseModalities" | "mediaResolution" | "imageConfig" => {
                        nest(&mut body, "generationConfig", &key, value);
                    }
                    _ => {
                        body.insert(key, value);
                    }
                }
            }
            body
        }
        Family::Bedrock if options.is_empty() => options,
        Family::Bedrock => {
            std::iter::once(("additionalModelRequestFields".to_owned(), Value::Object(options))).collect()
        }
        Family::Compatible => options
            .into_iter()
            .map(
                |(key, value)| {
                    if key == "reasoningEffort" { ("reasoning_effort".to_owned(), value) } else { (key, value) }
                },
            )
            .collect(),
        Family::Other => options,
    }
}

fn nest(body: &mut JsonObject, outer: &str, inner: &str, value: Value) {
    let object = body.entry(outer).or_insert_with(|| json!({}));
    if let Value::Object(object) = object {
        object.insert(inner.to_owned(), value);
    }
}

fn snake(key: &str) -> String {
    let mut out = String::with_capacity(key.len() + 4);
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            out.push('_');
            out.push(letter.to_ascii_lowercase());
        } else {
            out.push(letter);
        }
    }
    out
}

fn snake_keys(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(key, value)| (snake(&key), snake_keys(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(snake_keys).collect()),
        leaf @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => leaf,
    }
}

/// `api` and `request` of the first V2 form become `package`, `settings`, `headers` and `body`, for a provider and
/// its models.
pub(super) fn flatten_api(provider: &mut JsonObject) {
    flatten_one(provider, false);
    if let Some(Value::Object(models)) = provider.get_mut("models") {
        for (_, model) in models.iter_mut() {
            if let Value::Object(model) = model {
                flatten_one(model, true);
            }
        }
    }
}

fn flatten_one(entry: &mut JsonObject, is_model: bool) {
    if let Some(Value::String(npm)) = entry.remove("npm") {
        entry.entry("package").or_insert(json!(format!("aisdk:{npm}")));
    }
    match entry.remove("api") {
        Some(Value::Object(mut api)) => {
            if let Some(Value::String(package)) = api.remove("package") {
                entry.entry("package").or_insert(json!(format!("aisdk:{package}")));
            }
            if is_model && let Some(id) = api.remove("id") {
                entry.entry("modelID").or_insert(id);
            }
            let mut settings = match api.remove("settings") {
                Some(Value::Object(settings)) => settings,
                Some(_) | None => JsonObject::new(),
            };
            if let Some(url) = api.remove("url").filter(|url| !url.is_null()) {
                settings.insert("baseURL".to_owned(), url);
            }
            let there = entry.entry("settings").or_insert_with(|| json!({}));
            if let Value::Object(there) = there {
                for (key, value) in settings {
                    there.entry(key).or_insert(value);
                }
            }
        }
        Some(Value::String(url)) => {
            let there = entry.entry("settings").or_insert_with(|| json!({}));
            if let Value::Object(there) = there {
                there.entry("baseURL").or_insert(json!(url));
            }
        }
        Some(_) | None => {}
    }
    if let Some(Value::Object(mut request)) = entry.remove("request") {
        for key in ["headers", "body"] {
            if let Some(value) = request.remove(key) {
                entry.entry(key).or_insert(value);
            }
        }
    }
    if let Some(Value::Object(body)) = entry.get_mut("body")
        && let Some(url) = body.remove("baseURL")
    {
        let there = entry.entry("settings").or_insert_with(|| json!({}));
        if let Value::Object(there) = there {
            there.entry("baseURL").or_insert(url);
        }
    }
}

fn unsupported(report: &mut Report, pointer: &str) {
    let message = "this key has no effect in abide".to_owned();
    report.add(Severity::Info, DiagnosticKind::Unsupported, pointer, message);
}
