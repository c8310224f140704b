//! `abide serve`: the HTTP API.

use abide_server::{Credentials, ServeError, ServeOptions};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::args::{Global, ServeArgs};
use crate::error::{CliError, Exit};
use crate::instance::{self, Instance};
use crate::output;

/// How long executions may take to settle when the server stops.
const SETTLE: std::time::Duration = std::time::Duration::from_secs(8);

pub(crate) async fn run(global: Global, args: ServeArgs) -> Result<Exit, CliError> {
    let address = args
        .address()
        .ok_or_else(|| CliError::usage(format!("{:?} is no address to listen on", args.host)).hint("use 127.0.0.1"))?;
    let listener = bind(address).await?;
    let directory = instance::directory(&global)?;
    let instance = Instance::open_with(&global, !args.no_resume).await?;
    let world = instance.app.world().clone();
    let mut options = ServeOptions::new(directory);
    options.credentials = Credentials::new(instance::server_user(&world), instance::server_password(&world));
    options.origins = args.cors;
    let bound = listener.local_addr()?;
    // Asked here, before anything is recovered or announced.
    if !bound.ip().is_loopback() && options.credentials.is_none() {
        return Err(CliError::failed(ServeError::PasswordRequired(bound).to_string()));
    }
    let shutdown = CancellationToken::new();
    let backend = abide_server::core_backend(instance.app.clone());
    // Settling comes before the first request; what goes on by itself runs beside them.
    instance.app.sessions().recover(None).await?;
    let (house, token) = (instance.app.clone(), shutdown.clone());
    let housekeeping = world.spawn(async move { house.keep_house(token).await });
    let (attending, token) = (instance.app.clone(), shutdown.clone());
    let attending = world.spawn(async move { attending.sessions().attend(token).await });
    output::line(&format!("abide listens on http://{bound}"));
    let served = abide_server::serve(options, backend, listener, shutdown.clone());
    tokio::pin!(served);
    let stopped = tokio::select! {
        done = &mut served => Some(done),
        () = stop_signal() => None,
    };
    let result = match stopped {
        Some(done) => done,
        None => {
            output::note("stopping; what runs goes on at the next start");
            instance.app.sessions().shutdown(SETTLE).await;
            shutdown.cancel();
            served.await
        }
    };
    shutdown.cancel();
    // It ends at once; a panic in it is logged by the runtime.
    let _ended = tokio::join!(housekeeping, attending);
    instance.close().await;
    result.map_err(|error| CliError::failed(error.to_string()))?;
    Ok(Exit::Done)
}

/// Binds the address. A server that was just killed may hold it for a moment, so a taken port is tried again for two
/// seconds.
async fn bind(address: std::net::SocketAddr) -> Result<TcpListener, CliError> {
    const TRIES: u32 = 20;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
    let mut last = None;
    for _ in 0..TRIES {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => last = Some(error),
            Err(error) => {
                last = Some(error);
                break;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    let reason = last.map(|error| error.to_string()).unwrap_or_default();
    Err(CliError::failed(format!("cannot listen on {address}: {reason}"))
        .hint("another server may use the port: choose one with --port, or 0 for any free one"))
}

/// Waits for an interrupt or a request to end.
pub(crate) fn stop_signal() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    // Registered now: a signal that comes before the first poll counts.
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    async move {
        let [Ok(mut interrupt), Ok(mut terminate)] = signals else { return std::future::pending().await };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
