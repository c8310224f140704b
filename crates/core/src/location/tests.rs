use std::fs;

use abide_ai::route::executor::{HttpExecutor, HttpRequest, HttpResponse};
use abide_ai::schema::errors::{AIError, TransportDetails, TransportOperation};
use abide_schema::config::Severity;
use futures_util::future::BoxFuture;
use futures_util::stream;

use super::*;
use crate::config::testing::Tree;
use crate::fs::journal::JournalOptions;
use crate::session::place::{Attachment, Place, PlaceError, Places as _, SourceState};
use crate::store::MemoryStore;

/// Answers for the servers whose address starts with one of these.
struct Servers(Vec<(&'static str, &'static str)>);

impl HttpExecutor for Servers {
    fn execute(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, AIError>> {
        let found = self.0.iter().find(|(base, _)| request.url.as_str().starts_with(base)).map(|(_, body)| *body);
        Box::pin(async move {
            match found {
                Some(body) => Ok(HttpResponse {
                    status: 200,
                    headers: abide_ai::route::headers::Headers::new(),
                    body: Box::pin(stream::iter([Ok(bytes::Bytes::from_static(body.as_bytes()))])),
                }),
                None => Err(AIError::transport(TransportDetails::http(TransportOperation::Request), "refused")),
            }
        })
    }
}

fn locations_with(tree: &Tree, servers: Vec<(&'static str, &'static str)>, is_strict: bool) -> Locations {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(tree.world()));
    let journal = Journal::new(JournalOptions {
        store: Arc::clone(&store) as Arc<dyn crate::store::JournalStore>,
        world: tree.world(),
        blobs: tree.path("blobs"),
        sync: false,
        on_edited: Arc::new(|_| {}),
    });
    let client = LlmClient::new(Arc::new(Servers(servers)));
    let mut options =
        LocationsOptions::new(tree.world(), tree.directories(), tree.path("project"), store, client, journal);
    options.is_strict = is_strict;
    Locations::new(options)
}

fn locations(tree: &Tree) -> Locations {
    locations_with(tree, Vec::new(), false)
}

async fn open(locations: &Locations, directory: &str) -> Arc<Location> {
    locations.get(&locations.reference(directory).unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_directory_is_opened_once_and_other_spellings_share_its_services() {
    let tree = Tree::new(&[("project/sub/x", "")]);
    std::os::unix::fs::symlink(tree.path("project"), tree.path("link")).unwrap();
    let locations = locations(&tree);
    let all = futures_util::future::join_all((0..8).map(|_| open(&locations, "sub/../."))).await;
    assert!(all.iter().all(|location| Arc::ptr_eq(location, &all[0])));
    let linked = open(&locations, "../link").await;
    assert_eq!(linked.info().directory, tree.path("link").display().to_string());
    assert!(!Arc::ptr_eq(&linked, &all[0]));
    assert!(Arc::ptr_eq(&linked.services, &all[0].services));
}

#[tokio::test]
async fn what_cannot_be_opened_is_named_and_tried_again() {
    let tree = Tree::new(&[("project/file", "")]);
    let locations = locations(&tree);
    let error = |directory: &'static str| {
        let locations = locations.clone();
        async move {
            let reference = locations.reference(directory)?;
            locations.get(&reference).await.map(|_| ())
        }
    };
    assert!(matches!(error("").await, Err(LocationError::Invalid { .. })));
    assert!(matches!(error("a\0b").await, Err(LocationError::Invalid { .. })));
    assert!(matches!(error("gone").await, Err(LocationError::NotFound { .. })));
    assert!(matches!(error("file").await, Err(LocationError::NotFound { .. })));
    fs::create_dir(tree.path("project/gone")).unwrap();
    assert_eq!(error("gone").await, Ok(()));
    fs::remove_dir(tree.path("project/gone")).unwrap();
    assert!(matches!(error("gone").await, Err(LocationError::NotFound { .. })));
}

#[tokio::test]
async fn strict_opening_names_the_first_error() {
    let tree = Tree::new(&[("project/abide.json", "{\n  \"model\" }")]);
    let reference = LocationRef::new(tree.path("project").display().to_string());
    let passed_over = locations(&tree).get(&reference).await.unwrap();
    let rejected = passed_over.state().rejected_document().map(|found| found.path.clone());
    assert_eq!(rejected, Some(Some(tree.path("project/abide.json"))));
    let strict = locations_with(&tree, Vec::new(), true);
    let Err(PlaceError::Config(text)) = strict.open(&reference).await.map(|_| ()) else { panic!("it opened") };
    assert!(
        text.starts_with(&format!("{}:2:11: the file is not JSON", tree.path("project/abide.json").display())),
        "{text}"
    );
}

#[tokio::test]
async fn settings_follow_their_files_and_the_last_good_ones_stay() {
    let tree = Tree::new(&[("project/abide.json", r#"{ "agents": { "one": {} } }"#)]);
    let locations = locations(&tree);
    let location = open(&locations, ".").await;
    let has = |name: &str| location.state().agents.get(&name.into()).is_some();
    assert!(has("one") && !has("two"));
    let before = location.state();
    location.refresh().await;
    assert!(Arc::ptr_eq(&before, &location.state()));
    tree.write("project/abide.json", r#"{ "agents": { "two": {} } }"#);
    location.refresh().await;
    assert!(has("two") && !has("one"));
    tree.write("project/abide.json", "{ broken");
    location.refresh().await;
    assert!(has("two"));
    let state = location.state();
    assert_eq!(state.first_error().unwrap().path, Some(tree.path("project/abide.json")));
    assert_eq!(state.diagnostics.iter().filter(|found| found.severity == Severity::Error).count(), 1);
    // The broken file is not read again and again.
    location.refresh().await;
    assert!(Arc::ptr_eq(&state, &location.state()));
    tree.write("project/abide.json", r#"{ "agents": { "three": {} } }"#);
    location.refresh().await;
    assert!(has("three") && !has("two"));
    fs::remove_file(tree.path("project/abide.json")).unwrap();
    location.refresh().await;
    assert!(!has("three"));
}

#[tokio::test]
async fn the_engine_finds_agents_models_tools_and_settings() {
    let tree = Tree::new(&[(
        "project/abide.json",
        r#"{
            "model": "p/m", "compaction": { "auto": true, "keep": { "tokens": 500 }, "buffer": 1000 },
            "providers": { "p": { "settings": { "baseURL": "http://127.0.0.1:9" }, "models": { "m": {}, "n": {}, "plain": { "capabilities": { "tools": false } } } } },
            "agents": { "other": { "model": "p/n" } }
        }"#,
    )]);
    tree.git("project", &["init", "-q"]);
    let location = open(&locations(&tree), ".").await;
    let place: &dyn Place = location.as_ref();
    let build = place.agent(None).unwrap();
    assert_eq!(build.id.as_str(), "build");
    let unknown = place.agent(Some(&"none".into())).map(|agent| agent.id.clone()).unwrap_err();
    assert_eq!(unknown.to_string(), "there is no agent \"none\"; known: build, plan, general, explore, other");
    let model = |session: Option<&'static str>, agent: &'static str| {
        let location = Arc::clone(&location);
        async move {
            let agent = location.agent(Some(&agent.into())).unwrap();
            let session = session.map(|name| name.parse().unwrap());
            location.model(session.as_ref(), &agent).await
        }
    };
    assert_eq!(model(None, "build").await.ok().unwrap().model.to_string(), "p/m");
    assert_eq!(model(None, "other").await.ok().unwrap().model.to_string(), "p/n");
    assert_eq!(model(Some("p/m"), "other").await.ok().unwrap().model.to_string(), "p/m");
    assert!(matches!(model(Some("p/gone"), "build").await, Err(PlaceError::Model(_))));
    let chosen = model(None, "build").await.ok().unwrap();
    let tools = place.tools(&build, &chosen, &build.permissions);
    let names: Vec<&str> = tools.definitions().iter().map(|tool| tool.name.as_str()).collect();
    for tool in ["edit", "glob", "grep", "read", "write"] {
        assert!(names.contains(&tool), "{tool} is not in {names:?}");
    }
    let plain = model(Some("p/plain"), "build").await.ok().unwrap();
    assert!(place.tools(&build, &plain, &build.permissions).definitions().is_empty());
    let settings = place.settings();
    assert_eq!((settings.compaction_keep, settings.compaction_buffer, settings.compaction_auto), (500, 1000, true));
    assert!(settings.snapshot);
    tree.write("project/abide.json", r#"{ "snapshots": false }"#);
    location.refresh().await;
    assert!(!place.settings().snapshot);
    assert_eq!(place.capture().await, None);
}

#[tokio::test]
async fn a_local_server_is_the_last_resort() {
    let tree = Tree::new(&[]);
    let list = r#"{ "data": [{ "id": "nomic-embed-text" }, { "id": "qwen3:8b" }] }"#;
    let locations = locations_with(&tree, vec![("http://127.0.0.1:11434", list)], false);
    let location = open(&locations, ".").await;
    let build = location.agent(None).unwrap();
    assert!(location.list_models().await.is_empty());
    let chosen = location.model(None, &build).await.ok().unwrap();
    assert_eq!(chosen.model.to_string(), "ollama/qwen3:8b");
    assert_eq!(chosen.context_limit, None);
    let models: Vec<String> =
        location.list_models().await.iter().map(|model| format!("{}/{}", model.provider_id, model.id)).collect();
    assert_eq!(models, ["ollama/nomic-embed-text", "ollama/qwen3:8b"]);
    assert_eq!(location.list_providers().await.iter().map(|info| info.id.to_string()).collect::<Vec<_>>(), ["ollama"]);
    let other = open(&self::locations(&tree), ".").await;
    let Err(PlaceError::Model(text)) = other.model(None, &build).await else { panic!("a model was found") };
    assert!(text.starts_with("no model can be used. Three ways to go on:"), "{text}");
}

#[tokio::test]
async fn context_is_observed_anew_each_time() {
    let tree =
        Tree::new(&[("project/AGENTS.md", "first"), ("project/.abide/skill/s/SKILL.md", "---\ndescription: d\n---\n")]);
    let location = open(&locations(&tree), ".").await;
    let build = location.agent(None).unwrap();
    let text = async |key: &str| {
        let sources = location.context(&build).await;
        let source = sources.into_iter().find(|source| source.key == key).unwrap();
        match source.state {
            SourceState::Available { baseline, .. } => Some(baseline),
            SourceState::Unavailable | SourceState::Removed { .. } => None,
        }
    };
    let path = tree.path("project/AGENTS.md").display().to_string();
    assert_eq!(text("core/instructions").await, Some(format!("Instructions from: {path}\nfirst")));
    tree.write("project/AGENTS.md", "second!");
    assert_eq!(text("core/instructions").await, Some(format!("Instructions from: {path}\nsecond!")));
    fs::remove_file(tree.path("project/AGENTS.md")).unwrap();
    assert_eq!(text("core/instructions").await, None);
    let environment = text("core/environment").await.unwrap();
    assert!(environment.contains(&format!("working directory: {}", tree.path("project").display())), "{environment}");
    assert!(text("core/date").await.unwrap().starts_with("Today is "));
}

#[tokio::test]
async fn a_directory_that_becomes_a_repository_is_another_project() {
    let tree = Tree::new(&[]);
    let locations = locations(&tree);
    let before = open(&locations, ".").await;
    assert_eq!(before.info().project.id.as_str(), "global");
    tree.git("project", &["init", "-q"]);
    tree.git("project", &["commit", "-q", "--allow-empty", "-m", "x"]);
    before.services.forget_check();
    let after = open(&locations, ".").await;
    assert_eq!(after.info().project.directory, tree.path("project").display().to_string());
    assert_eq!(after.info().project.id.as_str(), tree.git("project", &["rev-parse", "HEAD"]));
}

#[tokio::test]
async fn attachments() {
    let tree = Tree::new(&[("project/a b.txt", "1\n2\n3\n4\n"), ("project/dir/x", ""), ("project/dir/y/z", "")]);
    tree.write("project/pic.dat", b"\x89PNG\r\n\x1a\n....");
    tree.write("project/bin", [0, 1, 2]);
    let location = open(&locations(&tree), ".").await;
    let file = format!("file://{}", tree.path("project/a%20b.txt").display());
    let text = |text: &str| Some(Attachment::Text(text.to_owned()));
    for (uri, mime, expect) in [
        (file.as_str(), "text/plain", text("1\n2\n3\n4\n")),
        (&format!("{file}?start=2&end=3"), "text/plain", text("2\n3")),
        ("a b.txt", "text/plain", text("1\n2\n3\n4\n")),
        ("dir", "application/x-directory", text("x\ny/")),
        ("gone", "text/plain", None),
        ("https://example.invalid/x", "text/plain", None),
        ("data:text/plain,a%20b", "text/plain", text("a b")),
        ("data:text/plain;base64,aGk=", "text/plain", text("hi")),
        (
            "data:image/png;base64,AAAA",
            "image/png",
            Some(Attachment::Media { mime: "image/png".to_owned(), data: "AAAA".to_owned() }),
        ),
        (
            "pic.dat",
            "application/octet-stream",
            Some(Attachment::Media { mime: "image/png".to_owned(), data: "iVBORw0KGgouLi4u".to_owned() }),
        ),
        // A provider would refuse the whole request for such a picture.
        ("data:image/bmp;base64,Qk0AAA==", "image/bmp", text("[an attached image/bmp file, which no model can read]")),
        ("bin", "image/bmp", text(&format!("[{} is a binary file]", tree.path("project/bin").display()))),
        (
            "bin",
            "application/octet-stream",
            text(&format!("[{} is a binary file]", tree.path("project/bin").display())),
        ),
    ] {
        assert_eq!(location.attachment(uri, mime).await, expect, "{uri}");
    }
}
