use super::*;
use crate::config::testing::Tree;

fn store(tree: &Tree) -> CredentialStore {
    CredentialStore::new(&tree.world(), &tree.directories())
}

fn key(text: &str) -> Secret {
    Secret::new(text)
}

/// The labels, the active one first.
async fn labels(store: &CredentialStore, integration: &str) -> Vec<String> {
    store
        .read()
        .await
        .unwrap()
        .connections(&integration.into())
        .into_iter()
        .map(|connection| match connection {
            ConnectionInfo::Credential { label, .. } => label,
            ConnectionInfo::Env { name } => name,
        })
        .collect()
}

async fn active(store: &CredentialStore, integration: &str) -> Option<String> {
    store.read().await.unwrap().key(&integration.into()).map(|key| key.expose().to_owned())
}

#[tokio::test]
async fn the_newest_key_is_active_and_removal_promotes_the_newest_of_the_rest() {
    let tree = Tree::new(&[]);
    let store = store(&tree);
    assert_eq!(active(&store, "a").await, None);
    let first = store.add_key("a".into(), &key(" k1 \n"), None).await.unwrap();
    let second = store.add_key("a".into(), &key("k2"), None).await.unwrap();
    store.add_key("b".into(), &key("other"), Some("named".to_owned())).await.unwrap();
    assert_eq!(labels(&store, "a").await, ["Default 2", "Default"]);
    assert_eq!(active(&store, "a").await.as_deref(), Some("k2"));
    store.activate(first.clone()).await.unwrap();
    assert_eq!(active(&store, "a").await.as_deref(), Some("k1"));
    store.relabel(second.clone(), "two".to_owned()).await.unwrap();
    assert_eq!(labels(&store, "a").await, ["Default", "two"]);
    store.remove(first).await.unwrap();
    assert_eq!(active(&store, "a").await.as_deref(), Some("k2"));
    store.remove(second.clone()).await.unwrap();
    store.remove(second).await.unwrap();
    assert_eq!(labels(&store, "a").await, Vec::<String>::new());
    assert_eq!(labels(&store, "b").await, ["named"]);
    assert!(matches!(store.add_key("a".into(), &key("  "), None).await, Err(CredentialError::Empty)));
}

#[cfg(unix)]
#[tokio::test]
async fn the_file_is_for_the_user_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let tree = Tree::new(&[]);
    let store = store(&tree);
    store.add_key("a".into(), &key("k"), None).await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(store.path()), 0o600);
    assert_eq!(mode(store.path().parent().unwrap()), 0o700);
}

#[tokio::test]
async fn a_file_that_is_not_understood_is_left_as_it_is() {
    for content in ["{", "{\"version\": 99}", "{\"version\":1,\"credentials\":[{\"value\":\"sk-secret\"}]}"] {
        let tree = Tree::new(&[("home/.local/share/abide/credentials.json", content)]);
        let store = store(&tree);
        let error = store.add_key("a".into(), &key("k"), None).await.unwrap_err();
        assert!(matches!(error, CredentialError::Corrupt { .. }), "{error}");
        assert!(!format!("{error:?}").contains("sk-secret"));
        assert_eq!(std::fs::read_to_string(store.path()).unwrap(), content);
    }
}

#[tokio::test]
async fn changes_of_several_tasks_are_all_kept() {
    let tree = Tree::new(&[]);
    let store = store(&tree);
    let adds = (0..8).map(|number| {
        let store = store.clone();
        async move { store.add_key("a".into(), &key(&format!("k{number}")), None).await }
    });
    for added in futures_util::future::join_all(adds).await {
        added.unwrap();
    }
    assert_eq!(labels(&store, "a").await.len(), 8);
}

#[tokio::test]
async fn given_credentials_win_and_are_not_stored() {
    let tree = Tree::new(&[]).with("OPENCODE_AUTH_CONTENT", r#"{ "a": { "type": "api", "key": "given" } }"#);
    let store = store(&tree);
    store.add_key("a".into(), &key("stored"), None).await.unwrap();
    assert_eq!(active(&store, "a").await.as_deref(), Some("given"));
    assert!(!std::fs::read_to_string(store.path()).unwrap().contains("given"));
}
