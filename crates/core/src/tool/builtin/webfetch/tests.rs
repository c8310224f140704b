use std::fmt::Write as _;
use std::io;
use std::net::IpAddr;

use abide_schema::permission::Rule;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::tool::builtin::bench::{Outcome, Project, rules};

/// Answers connections one by one with these bytes, and keeps what was asked.
struct Server {
    address: String,
    asked: tokio::task::JoinHandle<Vec<String>>,
}

#[expect(clippy::disallowed_methods, reason = "a server of a test ends with it")]
async fn serve(answers: Vec<Vec<u8>>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in answers {
            let Ok((mut stream, _)) = listener.accept().await else { break };
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut piece = [0; 1024];
                match stream.read(&mut piece).await {
                    Ok(0) | Err(_) => break,
                    Ok(n) => request.extend_from_slice(&piece[..n]),
                }
            }
            asked.push(String::from_utf8_lossy(&request).into_owned());
            // The other side may have enough.
            let _gone: io::Result<()> = stream.write_all(&answer).await;
            if answer.is_empty() {
                // Says nothing, for as long as the other side waits.
                let _closed = stream.read(&mut [0; 1]).await;
            }
        }
        asked
    });
    Server { address, asked }
}

fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        let _ok = write!(text, "{name}: {value}\r\n");
    }
    [text.as_bytes(), b"\r\n", body].concat()
}

fn page(mime: &str, body: &[u8]) -> Vec<u8> {
    answer(200, &[("content-type", mime)], body)
}

/// Allows what lies on this machine by name.
fn local() -> Vec<Rule> {
    rules(&[("*", "*", Effect::Allow), ("webfetch", "http://127.0.0.1:*", Effect::Allow)])
}

async fn run(given: Vec<Rule>, input: Value) -> Result<Outcome, String> {
    let project = Project::new(given);
    let tool = WebFetch::new(project.bench.permissions.clone());
    project.call(&tool, "call", input).await
}

async fn get(answers: Vec<Vec<u8>>, format: &str) -> (Result<Outcome, String>, Vec<String>) {
    let server = serve(answers).await;
    let url = format!("http://{}/a", server.address);
    let outcome = run(local(), json!({ "url": url, "format": format })).await;
    let outcome = outcome.map_err(|error| error.replace(&server.address, "HOST"));
    (outcome, server.asked.await.unwrap())
}

const HTML: &str = "<html><head><title>T</title><style>p{}</style><script>no()</script></head><body><h1>Head <em>x</em></h1>\
<p>One <a href=\"/b\">two</a> &amp; three</p><ul><li>a</li><li>b</li></ul><pre><code class=\"language-rs\">fn a() {}\n</code></pre>\
<noscript>hidden</noscript></body></html>";

/// WB3.
#[tokio::test]
async fn html_becomes_markdown_or_text() {
    let (outcome, asked) = get(vec![page("text/html; charset=utf-8", HTML.as_bytes())], "markdown").await;
    let outcome = outcome.unwrap();
    assert_eq!(outcome.text, "T\n\n# Head *x*\n\nOne [two](/b) & three\n\n- a\n- b\n\n```rs\nfn a() {}\n```");
    assert_eq!(outcome.structured["contentType"], "text/html; charset=utf-8");
    assert_eq!(outcome.structured["output"], outcome.text);
    assert_eq!(outcome.metadata, json!({ "contentType": "text/html; charset=utf-8" }));
    let asked = asked[0].to_ascii_lowercase();
    assert!(asked.contains("accept: text/markdown;q=1.0"), "{asked}");
    assert!(asked.contains("user-agent: mozilla/5.0 (compatible; abide/"), "{asked}");
    assert!(asked.contains("accept-language: en-us,en;q=0.9"), "{asked}");

    let (outcome, _) = get(vec![page("text/html", HTML.as_bytes())], "text").await;
    assert_eq!(outcome.unwrap().text, "T\nHead x\nOne two & three\na\nb\nfn a() {}");
    let (outcome, _) = get(vec![page("text/html", HTML.as_bytes())], "html").await;
    assert_eq!(outcome.unwrap().text, HTML);
    // What is no HTML comes as it is.
    let (outcome, _) = get(vec![page("application/json", b"{\"a\": \"<b>\"}")], "markdown").await;
    assert_eq!(outcome.unwrap().text, "{\"a\": \"<b>\"}");
}

#[tokio::test]
async fn deep_pages_are_given_as_text() {
    let n = 50_000;
    // The second hides its depth from whoever looks at the last child only, the third from whoever counts tags.
    for open in ["<div>", "<table><div>", "<div><table></div></table>"] {
        let html = format!("<script>hidden</script>{}deep &amp; low<style>p {{}}</style>", open.repeat(n));
        for format in ["markdown", "text"] {
            let (outcome, _) = get(vec![page("text/html", html.as_bytes())], format).await;
            assert_eq!(outcome.unwrap().text, "deep & low", "{open}, {format}");
        }
    }
}

/// WB2: charset, sizes, types, time.
#[tokio::test]
async fn charsets() {
    for (mime, body, expected) in [
        ("text/plain; charset=iso-8859-1", &b"caf\xE9"[..], "café"),
        ("text/plain; charset=\"shift_jis\"", b"\x93\xFA", "日"),
        ("text/plain", b"caf\xE9!", "caf\u{FFFD}!"),
        ("text/plain", b"\xFF\xFEa\0", "a"),
        ("text/html", b"<meta charset='windows-1252'><p>\x93x\x94", "\u{201C}x\u{201D}"),
        ("", b"plain", "plain"),
    ] {
        let (outcome, _) = get(vec![page(mime, body)], "text").await;
        assert_eq!(outcome.unwrap().text, expected, "{mime}");
    }
}

#[tokio::test]
async fn limits() {
    let over = "Could not fetch http://HOST/a: the body is over the limit of 5242880 bytes";
    let mut declared = b"HTTP/1.1 200 X\r\ncontent-type: text/plain\r\ncontent-length: 5242881\r\n\r\n".to_vec();
    declared.extend_from_slice(b"a");
    let (outcome, _) = get(vec![declared], "text").await;
    assert_eq!(outcome.unwrap_err(), format!("{over} (5242881 bytes announced)"));
    let mut streamed = b"HTTP/1.1 200 X\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n".to_vec();
    streamed.resize(streamed.len() + web::MAX_BODY_BYTES + 1, b'a');
    let (outcome, _) = get(vec![streamed], "text").await;
    assert_eq!(outcome.unwrap_err(), over);
    for (mime, shown) in [("image/png", "image/png"), ("application/octet-stream", "application/octet-stream")] {
        let (outcome, _) = get(vec![page(mime, b"x")], "text").await;
        assert_eq!(outcome.unwrap_err(), format!("Unsupported content type: {shown}"));
    }
    let (outcome, _) = get(vec![answer(404, &[("content-type", "text/plain")], b"no")], "text").await;
    assert_eq!(outcome.unwrap_err(), "Could not fetch http://HOST/a: the server answered with status 404");

    let server = serve(vec![Vec::new()]).await;
    let input = json!({ "url": format!("http://{}/", server.address), "timeout": 0.2 });
    let error = run(local(), input).await.unwrap_err();
    assert!(error.ends_with(": it took longer than 0.2 seconds"), "{error}");
    for timeout in [json!(0), json!(121), json!(-1)] {
        let error = run(local(), json!({ "url": "http://127.0.0.1:1/", "timeout": timeout })).await.unwrap_err();
        assert_eq!(error, format!("timeout must be over 0 and at most 120 seconds, not {timeout}"));
    }
}

/// WB4.
#[tokio::test]
async fn a_challenge_is_answered_once_by_the_plain_name() {
    let challenge = || answer(403, &[("cf-mitigated", "challenge")], b"");
    let (outcome, asked) = get(vec![challenge(), page("text/plain", b"in")], "text").await;
    assert_eq!(outcome.unwrap().text, "in");
    assert!(asked[1].to_ascii_lowercase().contains("user-agent: abide/"), "{}", asked[1]);
    let (outcome, _) = get(vec![challenge(), challenge()], "text").await;
    assert_eq!(outcome.unwrap_err(), "Could not fetch http://HOST/a: the server answered with status 403");
}

#[tokio::test]
async fn redirects() {
    let to = |place: &str| answer(302, &[("location", place)], b"");
    let (outcome, asked) = get(vec![to("/b?c"), page("text/plain", b"there")], "text").await;
    let outcome = outcome.unwrap();
    assert_eq!(outcome.text, "there");
    assert!(outcome.structured["url"].as_str().unwrap().ends_with("/b?c"));
    assert!(asked[1].starts_with("GET /b?c HTTP/1.1\r\n"));
    // Another host is asked about like any page: here nothing allows it.
    let (outcome, _) = get(vec![to("http://localhost:9/x")], "text").await;
    assert_eq!(outcome.unwrap().text, "Redirects to http://localhost:9/x; fetch that URL if wanted");
    let (outcome, _) = get(vec![to("http://169.254.169.254/latest/meta-data")], "text").await;
    let refused = "169.254.169.254 is a link-local or metadata address, from which nothing is fetched";
    assert_eq!(outcome.unwrap_err(), format!("Could not fetch http://HOST/a: {refused}"));
    let (outcome, _) = get(vec![to("file:///etc/passwd")], "text").await;
    let refused = "it redirects to \"file:///etc/passwd\", which cannot be fetched";
    assert_eq!(outcome.unwrap_err(), format!("Could not fetch http://HOST/a: {refused}"));
    let (outcome, _) = get(vec![to("/a"); 11], "text").await;
    assert_eq!(outcome.unwrap_err(), "Could not fetch http://HOST/a: it redirects more than 10 times");
}

/// WB1.
#[tokio::test]
async fn addresses_are_judged_before_anything_is_sent() {
    let allow = rules(&[("*", "*", Effect::Allow)]);
    for url in ["ftp://a/", "a", "", "file:///etc/passwd", "javascript:1", "http://"] {
        let error = run(allow.clone(), json!({ "url": url })).await.unwrap_err();
        assert_eq!(error, "URL must start with http:// or https://", "{url}");
    }
    for url in [
        "http://169.254.169.254/latest",
        "http://[fe80::1]/",
        "http://metadata.google.internal/x",
        "http://0xA9FEA9FE/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://100.100.100.200/",
    ] {
        let error = run(allow.clone(), json!({ "url": url })).await.unwrap_err();
        assert!(
            error.ends_with("is a link-local or metadata address, from which nothing is fetched"),
            "{url}: {error}"
        );
    }
    // A deny holds in any spelling.
    let denied = rules(&[("*", "*", Effect::Allow), ("webfetch", "http://127.0.0.1/*", Effect::Deny)]);
    for url in ["http://127.0.0.1/x", "HTTP://127.0.0.1/x", "http://127.1/x", "http://2130706433/x"] {
        assert_eq!(
            run(denied.clone(), json!({ "url": url })).await.unwrap_err(),
            "Permission denied: webfetch",
            "{url}"
        );
    }
}

/// What lies on this machine or in a private network is asked about, unless a rule names it.
#[tokio::test]
async fn private_addresses_are_asked_about() {
    let server = serve(vec![page("text/plain", b"in")]).await;
    let project = Project::new(rules(&[("*", "*", Effect::Allow)]));
    let tool = WebFetch::new(project.bench.permissions.clone());
    let input = json!({ "url": format!("http://{}/a", server.address) });
    let (outcome, asked) = project.call_asked(&tool, input, |_| {}).await;
    assert_eq!(outcome.unwrap().text, "in");
    assert_eq!(asked, [format!("webfetch: http://{}/a", server.address)]);
}

#[test]
fn standings() {
    use Standing::{Private, Public, Refused};
    for (address, expected) in [
        ("8.8.8.8", Public),
        ("172.32.0.1", Public),
        ("2606:4700::1111", Public),
        ("127.0.0.1", Private),
        ("0.0.0.0", Private),
        ("10.1.2.3", Private),
        ("172.16.0.1", Private),
        ("192.168.1.1", Private),
        ("100.64.0.1", Private),
        ("224.0.0.1", Private),
        ("::1", Private),
        ("::", Private),
        ("fd12::1", Private),
        ("::ffff:10.0.0.1", Private),
        ("2002:7f00:1::", Private),
        ("64:ff9b::7f00:1", Private),
        ("169.254.1.1", Refused),
        ("fe80::1", Refused),
        ("fd00:ec2::254", Refused),
        ("168.63.129.16", Refused),
        ("192.0.0.192", Refused),
    ] {
        assert_eq!(address::standing_of(address.parse::<IpAddr>().unwrap()), expected, "{address}");
    }
}
