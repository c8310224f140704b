use serde_json::json;

use super::*;

#[test]
fn values_are_not_shown() {
    let secrets = Secrets::default();
    assert!(secrets.is_empty());
    assert_eq!(secrets.redact("sk-0123456789"), "sk-0123456789");
    secrets.add(["sk-0123456789", " sk-0123456789abc\n", "short", "", "sk-0123456789"].map(str::to_owned));
    // The longer one goes first, and short ones are no secrets.
    assert_eq!(secrets.redact("a sk-0123456789abc b sk-0123456789 short"), "a [redacted] b [redacted] short");
    assert!(matches!(secrets.redact("nothing"), Cow::Borrowed(_)));
    // What was known stays known.
    secrets.add(["key-98765432".to_owned()]);
    let mut value = json!({ "a": ["key-98765432", 1, null], "b": { "c": "=sk-0123456789;" }, "d": "e" });
    secrets.redact_json(&mut value);
    assert_eq!(value, json!({ "a": ["[redacted]", 1, null], "b": { "c": "=[redacted];" }, "d": "e" }));
    assert_eq!(format!("{secrets:?}"), "Secrets(3)");
}

#[test]
fn files_that_hold_secrets() {
    for path in [
        ".env",
        "a/.env",
        ".env.local",
        "prod.env",
        "/home/u/.ssh/id_rsa",
        "id_ed25519_sk",
        "certs/server.key",
        "a.pem",
        "/home/u/.aws/credentials",
        "/home/u/.gnupg/private-keys-v1.d/x.key",
        "/home/u/.config/gcloud/legacy/adc.json",
        "~/.docker/config.json",
        ".netrc",
        "/data/abide/credentials.json",
    ] {
        assert!(SecretFiles::default().has(path), "{path}");
    }
    for path in [
        "",
        ".",
        ".env.example",
        "env",
        "src/env.rs",
        "id_rsa.pub",
        "config.json",
        "credentials",
        "docs/keys.md",
        ".gnupg",
        "a.pub.pem",
        "environment",
    ] {
        assert!(!SecretFiles::default().has(path), "{path}");
    }
    let own = SecretFiles::new(["*.tfvars", "private/*", "!.npmrc", "!*.pem", "ca.pem"].map(str::to_owned));
    for (path, expected) in [
        ("a.tfvars", true),
        ("x/private/y/z", true),
        ("private", false),
        (".npmrc", false),
        ("a.pem", false),
        ("ca.pem", true),
        (".env", true),
    ] {
        assert_eq!(own.has(path), expected, "{path}");
    }
}

/// A rule for everything does not show them; one that names them does, and a deny stands.
#[test]
fn who_may_see_them() {
    use Effect::{Allow, Ask, Deny};
    let rule = |resource: &str, effect| Rule::new("read", resource, effect);
    let decide = |paths: &[&str], configured: &[Rule], saved: &[Rule]| {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        SensitiveJudge::of(&SecretFiles::default(), "read", &paths, Path::new("/p"))
            .map(|judge| judge.decide(configured, saved))
    };
    assert_eq!(decide(&["src/a.rs"], &[rule("*", Ask)], &[]), None);
    assert_eq!(decide(&[".env"], &[], &[]), Some(Ask));
    assert_eq!(decide(&[".env"], &[rule("*", Allow)], &[]), Some(Ask));
    assert_eq!(decide(&[".env"], &[rule("*", Allow)], &[rule("*", Allow)]), Some(Ask));
    assert_eq!(decide(&[".env"], &[rule("*", Allow), rule("*.env", Allow)], &[]), Some(Allow));
    assert_eq!(decide(&["a.pem"], &[rule("*", Allow)], &[rule("a.pem", Allow)]), Some(Allow));
    assert_eq!(decide(&["a.pem", "b.pem"], &[rule("a.pem", Allow)], &[]), Some(Ask));
    assert_eq!(decide(&["a.pem"], &[rule("*", Deny)], &[rule("a.pem", Allow)]), Some(Deny));
    assert_eq!(decide(&["a.pem"], &[rule("*", Allow), rule("*.pem", Ask)], &[]), Some(Ask));
    // By its absolute name too, and together with a file that is none.
    assert_eq!(decide(&["a.pem"], &[rule("/p/a.pem", Allow)], &[]), Some(Allow));
    assert_eq!(decide(&["a.pem", "real.txt"], &[rule("*", Allow), rule("*.pem", Allow)], &[]), Some(Allow));
}
