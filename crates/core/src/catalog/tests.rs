use abide_schema::Timestamp;
use abide_schema::catalog::ConnectionInfo;
use serde_json::{Value, json};

use super::*;
use crate::agent::BASE_PROMPT;
use crate::config::testing::Tree;
use crate::credential::CredentialStore;

fn catalog(tree: &Tree) -> Catalog {
    tree.state("project", Some("project")).catalog
}

async fn keys(tree: &Tree) -> Keys {
    Keys::new(&tree.world(), CredentialStore::new(&tree.world(), &tree.directories()).read().await.unwrap())
}

fn model(text: &str) -> ModelRef {
    text.parse().unwrap()
}

/// One provider in the older form and in the first V2 form, as other programs write them side by side.
fn both_forms() -> (String, String) {
    let older = json!({
        "model": "mock/small",
        "provider": { "mock": {
            "name": "Mock chat", "npm": "@ai-sdk/openai-compatible",
            "options": { "baseURL": "http://127.0.0.1:9/v1", "apiKey": "mock-key" },
            "models": { "small": {
                "name": "small", "tool_call": true, "limit": { "context": 12000, "output": 1000 },
                "cost": { "input": 1, "output": 2 },
            } },
        } },
    });
    let first_v2 = json!({
        "model": "mock/small",
        "providers": { "mock": {
            "name": "Mock chat",
            "api": { "type": "aisdk", "package": "@ai-sdk/openai-compatible", "url": "http://127.0.0.1:9/v1",
                     "settings": { "apiKey": "mock-key" } },
            "models": { "small": {
                "name": "small", "limit": { "context": 12000, "output": 1000 },
                "capabilities": { "tools": true, "input": ["text"], "output": ["text"] },
                "cost": { "input": 1, "output": 2 },
            } },
        } },
    });
    (older.to_string(), first_v2.to_string())
}

#[tokio::test]
async fn both_forms_give_the_same_model_and_show_no_key() {
    let (older, first_v2) = both_forms();
    for files in [
        vec![("project/opencode.json", older.as_str())],
        vec![("project/abide.json", first_v2.as_str())],
        vec![("project/opencode.json", older.as_str()), ("project/abide.json", first_v2.as_str())],
    ] {
        let tree = Tree::new(&files);
        let (catalog, keys) = (catalog(&tree), keys(&tree).await);
        let provider = catalog.provider(&"mock".into()).unwrap();
        assert_eq!(keys.availability(provider), Availability::Usable);
        assert_eq!(
            serde_json::to_value(provider.info()).unwrap(),
            json!({
                "id": "mock", "name": "Mock chat", "request": { "headers": {}, "body": {} },
                "api": { "type": "aisdk", "package": "@ai-sdk/openai-compatible", "url": "http://127.0.0.1:9/v1" },
            })
        );
        let info = serde_json::to_value(provider.models["small"].info(provider)).unwrap();
        assert_eq!(info["limit"], json!({ "context": 12000, "output": 1000 }));
        assert_eq!(info["cost"], json!([{ "input": 1.0, "output": 2.0, "cache": { "read": 0.0, "write": 0.0 } }]));
        assert!(!info.to_string().contains("mock-key"));
        let chosen = catalog.default_model(&keys).unwrap().unwrap();
        assert_eq!(chosen, model("mock/small"));
        let resolved = catalog.resolve(&chosen, None, &keys).unwrap();
        assert_eq!(
            (resolved.context_limit, resolved.output_limit, resolved.takes_tools),
            (Some(12000), Some(1000), true)
        );
        assert_eq!(resolved.prices[0].output.to_bits(), 2.0_f64.to_bits());
        assert_eq!(resolved.language.id.as_str(), "small");
    }
}

/// Says whether the provider `p` of a document can be used.
async fn availability(provider: &Value, variables: &[(&str, &str)]) -> Availability {
    let mut tree = Tree::new(&[("project/abide.json", &json!({ "providers": { "p": provider } }).to_string())]);
    for (name, value) in variables {
        tree = tree.with(name, value);
    }
    keys(&tree).await.availability(catalog(&tree).provider(&"p".into()).unwrap())
}

#[tokio::test]
async fn when_a_provider_can_be_used() {
    let at = |more: Value| {
        let mut provider = json!({ "package": "openai-compatible", "settings": { "baseURL": "http://x" } });
        provider.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        provider
    };
    let no_key = |env: &[&str]| Availability::NoKey { env: env.iter().map(|name| (*name).to_owned()).collect() };
    for (provider, variables, expect) in [
        (at(json!({})), &[][..], Availability::Usable),
        (at(json!({ "env": ["P_KEY"] })), &[][..], no_key(&["P_KEY"])),
        (at(json!({ "env": ["P_KEY"] })), &[("P_KEY", "k")][..], Availability::Usable),
        (at(json!({ "env": ["P_KEY"] })), &[("P_KEY", "")][..], no_key(&["P_KEY"])),
        (at(json!({ "env": ["P_KEY"], "settings": { "apiKey": "k" } })), &[][..], Availability::Usable),
        (at(json!({ "env": ["P_KEY"], "headers": { "Authorization": "Bearer k" } })), &[][..], Availability::Usable),
        (at(json!({ "settings": { "apiKey": "{env:NOT_SET}" } })), &[][..], no_key(&[])),
        (at(json!({ "disabled": true })), &[][..], Availability::Disabled),
        (
            json!({ "package": "amazon-bedrock" }),
            &[][..],
            no_key(&["AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"]),
        ),
        (json!({ "package": "amazon-bedrock" }), &[("AWS_ACCESS_KEY_ID", "a")][..], Availability::Usable),
        (json!({ "package": "amazon-bedrock", "settings": { "profile": "p" } }), &[][..], Availability::Usable),
        (json!({ "package": "google-vertex" }), &[("GOOGLE_CLOUD_PROJECT", "p")][..], Availability::Usable),
        (json!({ "package": "google-vertex", "settings": { "project": "p" } }), &[][..], Availability::Usable),
        (
            json!({ "package": "@ai-sdk/cohere" }),
            &[][..],
            Availability::Unsupported { package: "@ai-sdk/cohere".to_owned() },
        ),
    ] {
        assert_eq!(availability(&provider, variables).await, expect, "{provider}");
    }
}

#[tokio::test]
async fn clouds_are_reached_with_keys_and_places_of_the_environment() {
    let config = json!({ "providers": { "vertex-eu": { "package": "@ai-sdk/google-vertex", "settings": { "location": "eu" } } } });
    let variables = [
        ("GEMINI_API_KEY", "g"),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "a"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
        ("GOOGLE_VERTEX_API_KEY", "express"),
        ("GOOGLE_CLOUD_PROJECT", "p1"),
    ];
    let mut tree = Tree::new(&[("project/abide.json", &config.to_string())]);
    for (name, value) in variables {
        tree = tree.with(name, value);
    }
    let (catalog, keys) = (catalog(&tree), keys(&tree).await);
    for (name, route, id, base_url) in [
        ("google/gemini-3-pro", "gemini", "gemini-3-pro", "https://generativelanguage.googleapis.com/v1beta"),
        (
            "amazon-bedrock/amazon.nova-micro-v1:0",
            "bedrock-converse",
            "eu.amazon.nova-micro-v1:0",
            "https://bedrock-runtime.eu-west-1.amazonaws.com",
        ),
        (
            "google-vertex/gemini-3-pro",
            "google-vertex-gemini",
            "gemini-3-pro",
            "https://aiplatform.googleapis.com/v1/publishers/google",
        ),
        (
            "vertex-eu/gemini-3-pro",
            "google-vertex-gemini",
            "gemini-3-pro",
            "https://aiplatform.eu.rep.googleapis.com/v1beta1/projects/p1/locations/eu/publishers/google",
        ),
    ] {
        let language = catalog.resolve(&model(name), None, &keys).unwrap().language;
        let found = (language.route.id().as_str(), language.id.as_str(), language.route.endpoint().base_url().unwrap());
        assert_eq!(found, (route, id, base_url), "{name}");
    }
}

#[tokio::test]
async fn a_stored_credential_and_a_variable_are_connections() {
    let tree = Tree::new(&[]).with("ANTHROPIC_API_KEY", "k");
    let store = CredentialStore::new(&tree.world(), &tree.directories());
    let id = store.add_key("anthropic".into(), &Secret::new("stored"), Some("one".to_owned())).await.unwrap();
    let (catalog, keys) = (catalog(&tree), keys(&tree).await);
    let integrations = catalog.integrations(&keys);
    let names: Vec<&str> = integrations.iter().map(|integration| integration.name.as_str()).collect();
    assert!(names.is_sorted(), "{names:?}");
    let anthropic = integrations.iter().find(|integration| integration.id.as_str() == "anthropic").unwrap();
    assert_eq!(
        anthropic.connections,
        [
            ConnectionInfo::Credential { id, label: "one".to_owned() },
            ConnectionInfo::Env { name: "ANTHROPIC_API_KEY".to_owned() }
        ]
    );
    assert_eq!(keys.of(catalog.provider(&"anthropic".into()).unwrap()).unwrap().expose(), "stored");
}

/// What is used when nothing is named: the model, or the start of the reason.
#[track_caller]
fn check_default(catalog: &Catalog, keys: &Keys, local: &LocalModels, expect: &str) {
    let found = match catalog.default_model(keys) {
        Ok(Some(model)) => model.to_string(),
        Ok(None) => match catalog.local_model(keys, local) {
            Ok(model) => model.to_string(),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    assert!(found.starts_with(expect), "{found:?} instead of {expect:?}");
}

#[tokio::test]
async fn the_model_when_nothing_is_named() {
    let local = LocalModels {
        found: vec![
            ("lmstudio".into(), vec!["text-embedding-x".into()]),
            ("vllm".into(), vec!["embed".into(), "qwen".into()]),
        ],
    };
    let none = LocalModels::default();
    for (document, variables, local, expect) in [
        ("{}", &[][..], &none, "no model can be used. Three ways to go on: (1) set a key"),
        ("{}", &[][..], &local, "vllm/qwen"),
        ("{}", &[("ANTHROPIC_API_KEY", "k")][..], &local, "anthropic/claude-opus-4-5"),
        ("{}", &[("OPENAI_API_KEY", "k")][..], &none, "openai/gpt-5.1"),
        (r#"{ "model": "openai/gpt-5" }"#, &[("OPENAI_API_KEY", "k")][..], &none, "openai/gpt-5"),
        (
            r#"{ "model": "openai/gpt-5" }"#,
            &[("ANTHROPIC_API_KEY", "k")][..],
            &none,
            "the provider openai has no key: set OPENAI_API_KEY, or providers.openai.settings.apiKey",
        ),
        (
            r#"{ "disabled_providers": ["anthropic"] }"#,
            &[("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k")][..],
            &none,
            "openai/gpt-5.1",
        ),
        (
            r#"{ "provider": { "openai": { "whitelist": ["gpt-4.1"] } } }"#,
            &[("OPENAI_API_KEY", "k")][..],
            &none,
            "openai/gpt-4.1",
        ),
    ] {
        let mut tree = Tree::new(&[("project/abide.json", document)]);
        for (name, value) in variables {
            tree = tree.with(name, value);
        }
        check_default(&catalog(&tree), &keys(&tree).await, local, expect);
    }
    let tree = Tree::new(&[]).with("GROQ_API_KEY", "k");
    let error = catalog(&tree).local_model(&keys(&tree).await, &none).unwrap_err().to_string();
    assert!(error.ends_with("There is a key for groq: name one of its models, groq/MODEL"), "{error}");
}

/// Resolves a model of the fixture; compares the error.
#[track_caller]
fn check_error(catalog: &Catalog, keys: &Keys, name: &str, expect: &str) {
    let error = catalog.resolve(&model(name), None, keys).map(|resolved| resolved.model).unwrap_err();
    assert_eq!(error.to_string(), expect);
}

#[tokio::test]
async fn models_that_cannot_be_used_say_what_to_do() {
    let tree = Tree::new(&[(
        "project/abide.json",
        r#"{
            "providers": {
                "p": { "settings": { "baseURL": "http://x" }, "models": {
                    "one": { "variants": [{ "id": "low", "body": { "v": 1 } }, { "id": "high" }] }, "off": { "disabled": true } } },
                "gone": { "disabled": true },
                "odd": { "package": "@ai-sdk/cohere" }
            },
            "experimental": { "policies": [{ "effect": "deny", "action": "provider.use", "resource": "deep*" }] }
        }"#,
    )]);
    let (catalog, keys) = (catalog(&tree), keys(&tree).await);
    let lists = "; `abide models` lists what can be used";
    check_error(&catalog, &keys, "q/one", &format!("there is no provider \"q\", did you mean \"p\"?{lists}"));
    check_error(&catalog, &keys, "nothing/one", &format!("there is no provider \"nothing\"{lists}"));
    check_error(
        &catalog,
        &keys,
        "p/onne",
        &format!("the provider p has no model \"onne\", did you mean \"one\"?{lists}"),
    );
    check_error(&catalog, &keys, "p/off", "the model p/off is switched off in the configuration");
    check_error(&catalog, &keys, "p/one#max", "the model p/one has no variant \"max\"; known: low, high");
    check_error(
        &catalog,
        &keys,
        "gone/x",
        "the provider gone is switched off in the configuration (providers.gone.disabled)",
    );
    check_error(
        &catalog,
        &keys,
        "deepseek/x",
        "the provider deepseek is switched off by a policy (experimental.policies); use another model",
    );
    check_error(
        &catalog,
        &keys,
        "odd/x",
        "the provider odd asks for the package \"@ai-sdk/cohere\", which abide does not have; use openai-compatible or \
         anthropic-compatible with a baseURL, if the service offers one",
    );
    assert!(catalog.resolve(&model("ollama/whatever:7b"), None, &keys).is_ok());
    assert!(catalog.resolve(&model("p/one#default"), None, &keys).is_ok());
}

#[tokio::test]
async fn layers_of_a_request_lie_one_over_the_other() {
    let tree = Tree::new(&[(
        "project/abide.json",
        r#"{
            "providers": { "p": {
                "settings": { "baseURL": "http://x", "apiKey": "k" },
                "headers": { "X-A": "provider", "X-B": "provider" }, "body": { "a": 1, "b": { "x": 1 } },
                "models": { "m": { "modelID": "wire", "headers": { "x-a": "model" }, "body": { "b": { "y": 2 } },
                                   "variants": [{ "id": "v", "headers": { "x-c": "variant" }, "body": { "d": 4 } }] } }
            } },
            "agents": { "build": { "request": { "headers": { "x-b": "agent" }, "body": { "c": 3, "d": 3, "temperature": 0.5 } } } }
        }"#,
    )]);
    let state = tree.state("project", Some("project"));
    let agent = state.agents.default_agent().unwrap();
    let resolved = state.catalog.resolve(&model("p/m#v"), Some(agent), &keys(&tree).await).unwrap();
    let http = resolved.language.defaults.http.clone().unwrap();
    assert_eq!(Value::Object(http.body.unwrap()), json!({ "a": 1, "b": { "x": 1, "y": 2 }, "c": 3, "d": 4 }));
    let headers: Vec<(String, String)> =
        http.headers.unwrap().into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
    let header = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    assert_eq!((header("x-a"), header("x-b"), header("x-c")), (Some("model"), Some("agent"), Some("variant")));
    let generation = resolved.language.defaults.generation.clone().unwrap();
    assert_eq!(generation.temperature, Some(0.5));
    assert_eq!(resolved.language.id.as_str(), "wire");
}

#[test]
fn the_small_model_of_a_provider() {
    let tree = Tree::new(&[(
        "project/abide.json",
        r#"{ "providers": {
            "p": { "settings": { "baseURL": "http://x" }, "models": {
                "big": { "release_date": "2025-11-01", "cost": { "input": 5, "output": 25 } },
                "p-mini": { "release_date": "2025-10-01", "cost": { "input": 1, "output": 5 } },
                "old-nano": { "release_date": "2020-01-01", "cost": { "input": 0.1, "output": 0.1 } },
                "free-mini": { "release_date": "2025-10-01", "cost": { "input": 0, "output": 0 } }
            } },
            "azure-x": { "settings": { "baseURL": "http://x" }, "models": { "mini": { "cost": { "input": 1, "output": 1 } } } },
            "plain": { "settings": { "baseURL": "http://x" }, "models": { "a": {} } }
        } }"#,
    )]);
    let catalog = catalog(&tree);
    let now = Timestamp::from_millis(1_767_225_600_000);
    let small = |name: &str| catalog.small_model(&model(name), now).map(|model| model.to_string());
    assert_eq!(small("p/big").as_deref(), Some("p/p-mini"));
    assert_eq!(small("azure-x/mini"), None);
    assert_eq!(small("plain/a"), None);
    assert_eq!(small("gone/a"), None);
    assert_eq!(small("openai/gpt-5.1").as_deref(), Some("openai/gpt-5-nano"));
    assert!(!BASE_PROMPT.is_empty());
}

#[test]
fn the_built_in_table_is_read_whole() {
    let tree = Tree::new(&[]);
    let catalog = catalog(&tree);
    let providers: Vec<&str> = catalog.providers().map(|provider| provider.id.as_str()).collect();
    for package in abide_ai::provider_package::packages().iter().filter(|package| !package.env.is_empty()) {
        assert!(providers.contains(&package.path), "{} is missing in {providers:?}", package.path);
    }
    for provider in catalog.providers() {
        assert!(abide_ai::provider_package::is_known_package(&provider.package_name()), "{}", provider.id);
        assert_eq!(provider.is_local, !provider.has_integration(), "{}", provider.id);
        for model in provider.models.values() {
            assert!(!model.is_limit_assumed && !model.cost.is_empty(), "{}", model.id);
            assert!(model.released > Timestamp::from_millis(0), "{}", model.id);
        }
    }
    for server in local_servers() {
        assert!(catalog.provider(&server.provider).unwrap().is_local);
    }
}

#[test]
fn addresses_settings_and_headers_are_shown_without_secrets() {
    let tree = Tree::new(&[(
        "project/abide.json",
        r#"{ "providers": { "p": {
            "settings": { "baseURL": "https://user:pw@host/v1", "apiKey": "s1", "region": "eu", "nested": { "clientSecret": "s2", "a": 1 } },
            "headers": { "Authorization": "s3", "X-Api-Key": "s4", "x-plain": "v" }, "body": { "token": "s5", "max_tokens": 7 },
            "models": { "m": { "headers": { "cookie": "s6" }, "variants": [{ "id": "v", "headers": { "x-auth-token": "s7" } }] } }
        } } }"#,
    )]);
    let catalog = catalog(&tree);
    let provider = catalog.provider(&"p".into()).unwrap();
    let info = serde_json::to_value(provider.info()).unwrap();
    assert_eq!(
        info,
        json!({
            "id": "p", "name": "p",
            "api": { "type": "native", "url": "https://host/v1", "settings": { "region": "eu", "nested": { "a": 1 } } },
            "request": { "headers": { "x-plain": "v" }, "body": { "max_tokens": 7 } },
        })
    );
    let model = serde_json::to_string(&provider.models["m"].info(provider)).unwrap();
    for secret in ["s1", "s2", "s3", "s4", "s5", "s6", "s7", "pw"] {
        assert!(!model.contains(&format!("\"{secret}\"")), "{secret} in {model}");
    }
    assert!(!format!("{provider:?}").contains("s1"));
}

/// A package takes its token and its account from where it says, and never a key that was not meant for it.
#[tokio::test]
async fn keys_and_settings_from_the_environment() {
    let check = async |document: &Value, variables: &[(&str, &str)], name: &str, wanted: Result<&str, &str>| {
        let tree = variables
            .iter()
            .fold(Tree::new(&[("project/abide.json", &document.to_string())]), |tree, (name, value)| {
                tree.with(name, value)
            });
        let found = catalog(&tree)
            .resolve(&model(name), None, &keys(&tree).await)
            .map(|resolved| resolved.language.route.endpoint().base_url().unwrap_or_default().to_owned());
        let found = found.map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), wanted, "{document} {variables:?}");
    };
    let nothing = json!({});
    let gateway = [("CLOUDFLARE_API_TOKEN", "t"), ("CLOUDFLARE_ACCOUNT_ID", "acc")];
    let url = "https://gateway.ai.cloudflare.com/v1/acc/default/compat";
    check(&nothing, &gateway, "cloudflare-ai-gateway/openai/gpt-5", Ok(url)).await;
    let no_account = "the model cloudflare-ai-gateway/m cannot be used: cloudflare-ai-gateway: no account is set; set accountId or baseURL";
    check(&nothing, &[("CF_AIG_TOKEN", "t")], "cloudflare-ai-gateway/m", Err(no_account)).await;
    let azure = [("AZURE_OPENAI_API_KEY", "k"), ("AZURE_RESOURCE_NAME", "res")];
    check(&nothing, &azure, "azure/gpt", Ok("https://res.openai.azure.com/openai/v1")).await;
    let own = json!({ "providers": { "azure": { "settings": { "resourceName": "mine" } } } });
    check(&own, &azure, "azure/gpt", Ok("https://mine.openai.azure.com/openai/v1")).await;
    check(&nothing, &[("XAI_API_KEY", "k")], "xai/grok-4", Ok("https://api.x.ai/v1")).await;
    let no_key = "the provider xai has no key: set XAI_API_KEY, or providers.xai.settings.apiKey";
    check(&nothing, &[], "xai/grok-4", Err(no_key)).await;
}
