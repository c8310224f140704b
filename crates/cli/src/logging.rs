//! Logs go to stderr, never to stdout.

use std::io::{self, Write};

use abide_core::secret::Secrets;
use tracing_subscriber::EnvFilter;

use crate::args::Global;

/// Starts logging when a level was asked for; warnings and errors are shown otherwise.
pub(crate) fn start(global: &Global) {
    let level = global.log_level.as_deref().unwrap_or("error");
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("error"));
    let secrets = global.secrets.clone();
    let writer = move || Redacting { out: io::stderr(), secrets: secrets.clone() };
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).compact();
    // A second start, in tests, keeps the first.
    let _kept = subscriber.try_init();
}

/// Writes lines without the values of keys. Each event comes in one piece.
struct Redacting<W> {
    out: W,
    secrets: Secrets,
}

impl<W: Write> Write for Redacting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.out.write_all(self.secrets.redact(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_not_logged() {
        let secrets = Secrets::default();
        secrets.add(["sk-0123456789".to_owned()]);
        let mut writer = Redacting { out: Vec::new(), secrets };
        writer.write_all(b"a sk-0123456789 b\n").unwrap();
        assert_eq!(writer.out, b"a [redacted] b\n");
    }
}
