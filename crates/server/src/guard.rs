//! Who may ask: `Host`, `Origin`, credentials (contract section 6). Pure decisions over parts of a request.

use abide_protocol::ApiError;
use abide_protocol::query::RawQuery;
use abide_schema::json::sha256_hex;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use subtle::ConstantTimeEq as _;

use crate::app::App;
use crate::options::Credentials;
use crate::reply;

/// The challenge of an answer without credentials.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"Secure Area\"");
/// How long a browser may remember a preflight, in seconds.
const PREFLIGHT_AGE: HeaderValue = HeaderValue::from_static("86400");
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, PUT, PATCH, POST, DELETE");

/// Checks a request before it is routed, and adds what browsers want to know to the answer.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if app.loopback && !is_local_host(headers, request.uri().host()) {
        return reply::error(&forbidden("the Host header names another machine than this one"));
    }
    let origin = headers.get(header::ORIGIN).cloned();
    let allowed = origin.as_ref().filter(|origin| is_allowed_origin(origin, &app.options.origins)).cloned();
    let is_preflight =
        request.method() == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if is_preflight {
        preflight(headers, allowed.is_some())
    } else if let Some(credentials) = &app.options.credentials
        && !is_authorized(headers, request.uri().query().unwrap_or_default(), credentials)
    {
        unauthorized()
    } else if origin.is_some() && allowed.is_none() && changes_state(request.method(), headers) {
        reply::error(&forbidden("a web page of another origin may not do this; allow it with --cors"))
    } else {
        next.run(request).await
    };
    if origin.is_some() {
        let headers = response.headers_mut();
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
        if let Some(origin) = allowed {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        }
    }
    response
}

fn forbidden(message: &str) -> ApiError {
    ApiError::Forbidden { message: message.to_owned() }
}

fn unauthorized() -> Response {
    let message = "a user name and a password are required (Basic authentication, or the query auth_token)".to_owned();
    let mut response = reply::error(&ApiError::Unauthorized { message });
    response.headers_mut().insert(header::WWW_AUTHENTICATE, CHALLENGE);
    response
}

fn preflight(headers: &HeaderMap, allowed: bool) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if allowed {
        let out = response.headers_mut();
        out.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        out.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_AGE);
        if let Some(wanted) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            out.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
        }
        out.append(header::VARY, HeaderValue::from(header::ACCESS_CONTROL_REQUEST_HEADERS));
    }
    response
}

/// A read changes nothing, except that a WebSocket gives the page a way to write.
fn changes_state(method: &Method, headers: &HeaderMap) -> bool {
    let is_read = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    !is_read || headers.contains_key(header::UPGRADE)
}

/// Says whether a request to a loopback address names this machine: a page of another host whose name was made to
/// point here (DNS rebinding) does not. No browser leaves the header out.
fn is_local_host(headers: &HeaderMap, uri_host: Option<&str>) -> bool {
    let host = match headers.get(header::HOST) {
        Some(value) => match value.to_str() {
            Ok(text) => without_port(text),
            Err(_) => return false,
        },
        None => match uri_host {
            Some(host) => host,
            None => return true,
        },
    };
    is_loopback_name(host)
}

fn is_loopback_name(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn without_port(authority: &str) -> &str {
    if let Some(end) = authority.find(']') {
        return authority.get(..=end).unwrap_or(authority);
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

/// Schemes and hosts of desktop shells, whose pages are local.
const SHELL_ORIGINS: &[&str] = &["tauri://localhost", "http://tauri.localhost", "https://tauri.localhost"];

fn is_allowed_origin(origin: &HeaderValue, configured: &[String]) -> bool {
    let Ok(origin) = origin.to_str() else { return false };
    if SHELL_ORIGINS.contains(&origin) || configured.iter().any(|allowed| allowed.trim_end_matches('/') == origin) {
        return true;
    }
    origin
        .strip_prefix("http://")
        .is_some_and(|authority| !authority.contains(['/', '@', '?', '#']) && is_loopback_name(without_port(authority)))
}

fn is_authorized(headers: &HeaderMap, query: &str, credentials: &Credentials) -> bool {
    let wanted = sha256_hex(format!("{}:{}", credentials.username, credentials.password).as_bytes());
    let is_right = |encoded: &str| {
        let text = encoded.trim();
        let decoded = STANDARD
            .decode(text)
            .or_else(|_| STANDARD_NO_PAD.decode(text))
            .or_else(|_| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')));
        // Hashes have one length, so that the comparison tells nothing of the password's.
        decoded.is_ok_and(|given| sha256_hex(&given).as_bytes().ct_eq(wanted.as_bytes()).into())
    };
    let basic = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, rest) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("basic").then_some(rest)
    });
    if basic.is_some_and(is_right) {
        return true;
    }
    // `+` of the base64 alphabet arrives as a space when the client did not encode it.
    RawQuery::parse(query).get("auth_token").is_some_and(|token| is_right(&token.replace(' ', "+")))
}
