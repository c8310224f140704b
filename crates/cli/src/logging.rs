//! Logs go to stderr, never to stdout.

use tracing_subscriber::EnvFilter;

use crate::args::Global;

/// Starts logging when a level was asked for; warnings and errors are shown otherwise.
pub(crate) fn start(global: &Global) {
    let level = global.log_level.as_deref().unwrap_or("error");
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("error"));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).compact();
    // A second start, in tests, keeps the first.
    let _kept = subscriber.try_init();
}
