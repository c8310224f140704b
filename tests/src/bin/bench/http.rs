//! Just enough HTTP to ask a server on loopback, over connections that are kept.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// The longest that one request may take.
const LIMIT: Duration = Duration::from_secs(10);

/// A connection.
pub(crate) struct Connection {
    host: String,
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects to a base URL.
    pub(crate) async fn open(url: &str) -> Result<Self, String> {
        let host = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let stream = TcpStream::connect(&host).await.map_err(|error| format!("{host}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| format!("{host}: {error}"))?;
        Ok(Self { host, stream, buffer: Vec::new() })
    }

    /// Asks; returns the body of an answer with a status of success.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<Vec<u8>, String> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        );
        let answer = tokio::time::timeout(LIMIT, self.exchange(request.as_bytes())).await;
        answer
            .map_err(|_| "no answer in time".to_owned())
            .flatten()
            .map_err(|reason| format!("{method} {path}: {reason}"))
    }

    async fn exchange(&mut self, request: &[u8]) -> Result<Vec<u8>, String> {
        self.stream.write_all(request).await.map_err(|error| error.to_string())?;
        self.buffer.clear();
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await?;
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).to_ascii_lowercase();
        if !head.starts_with("http/1.1 2") {
            return Err(head.lines().next().unwrap_or_default().to_owned());
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = match length {
            Some(length) => length.trim().parse().map_err(|_| "a strange content-length")?,
            None if head.starts_with("http/1.1 204") => 0,
            None => return Err("an answer without content-length".to_owned()),
        };
        while self.buffer.len() < end + length {
            self.more().await?;
        }
        Ok(self.buffer[end..end + length].to_vec())
    }

    async fn more(&mut self) -> Result<(), String> {
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) => Err("the connection was closed".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Asks for a path over `n` connections at once, again and again for a while; returns the time of each request.
pub(crate) async fn load(url: &str, path: &str, n: usize, period: Duration) -> Result<Vec<Duration>, String> {
    let mut connections = Vec::new();
    for _ in 0..n {
        connections.push(Connection::open(url).await?);
    }
    let deadline = Instant::now() + period;
    let mut tasks = JoinSet::new();
    for mut connection in connections {
        let path = path.to_owned();
        tasks.spawn(async move {
            let mut times = Vec::new();
            loop {
                let started = Instant::now();
                if started >= deadline {
                    return Ok::<_, String>(times);
                }
                connection.ask("GET", &path, "").await?;
                times.push(started.elapsed());
            }
        });
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.extend(done.map_err(|error| error.to_string())??);
    }
    Ok(all)
}
