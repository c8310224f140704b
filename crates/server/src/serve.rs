//! Serving until told to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::Request;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::Layer as _;
use tower::util::MapRequestLayer;

use crate::app::{router, without_trailing_slash};
use crate::backend::Backend;
use crate::limit::Limited;
use crate::options::ServeOptions;

/// Why the server cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address can be reached from other machines, and anybody there could run commands here.
    #[error("{0} can be reached from other machines: set ABIDE_SERVER_PASSWORD, or listen on 127.0.0.1")]
    PasswordRequired(SocketAddr),
    /// The network failed.
    #[error("the server failed: {0}")]
    Io(#[from] io::Error),
}

/// Serves the API on a listener until `shutdown` is cancelled; then streams and waits end, running requests go on for
/// [`ServeOptions::grace`] at most.
///
/// # Errors
/// [`ServeError::PasswordRequired`] when the listener is not on loopback and no password is set.
///
/// # Cancel safety
/// Dropping the future closes all connections.
pub async fn serve(
    options: ServeOptions,
    backend: Arc<dyn Backend>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let address = listener.local_addr()?;
    let loopback = address.ip().is_loopback();
    if !loopback && options.credentials.is_none() {
        return Err(ServeError::PasswordRequired(address));
    }
    let grace = options.grace;
    let listener = Limited::new(listener, options.max_connections);
    let router = router(options, backend, loopback, shutdown.clone());
    let service = MapRequestLayer::new(without_trailing_slash::<axum::body::Body>).layer(router);
    let served = axum::serve(listener, axum::ServiceExt::<Request>::into_make_service(service))
        .with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let served = served.into_future();
    tokio::pin!(served);
    tokio::select! {
        done = &mut served => return Ok(done?),
        () = shutdown.cancelled() => {}
    }
    if let Ok(done) = tokio::time::timeout(grace, served).await {
        return Ok(done?);
    }
    tracing::warn!(grace_ms = grace.as_millis(), "requests were still running when the server stopped");
    Ok(())
}
