//! The search itself, on a thread that may block: files in the order of their paths, lines in order.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use globset::GlobMatcher;
use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkFinish, SinkMatch};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Submatch;
use crate::fs::{disk, search};

/// The longest shown line, in characters.
const MAX_LINE_CHARS: usize = 2000;

/// The most parts of one line.
const MAX_SUBMATCHES: usize = 100;

/// The longest line that is searched, in bytes.
const MAX_HEAP_BYTES: usize = 64 * 1024 * 1024;

/// What to search.
pub(super) struct Job {
    pub(super) root: PathBuf,
    pub(super) matcher: RegexMatcher,
    pub(super) include: Option<GlobMatcher>,
    /// The most lines of one file.
    pub(super) limit: usize,
    pub(super) stop: CancellationToken,
    pub(super) time: Duration,
}

/// The matching lines of a file; at least one.
pub(super) struct FileMatches {
    pub(super) path: PathBuf,
    pub(super) lines: Vec<FoundLine>,
}

/// A matching line.
pub(super) struct FoundLine {
    pub(super) number: u64,
    pub(super) offset: u64,
    pub(super) text: String,
    pub(super) submatches: Vec<Submatch>,
}

/// How a search ended.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) is_out_of_time: bool,
    pub(super) n_unreadable: usize,
}

impl Job {
    /// Searches, and sends the files with matches until nobody listens.
    pub(super) fn run(&self, found: &mpsc::Sender<FileMatches>) -> Report {
        let limits = Limits { deadline: Instant::now().checked_add(self.time), stop: self.stop.clone() };
        let mut report = Report::default();
        let mut searcher = SearcherBuilder::new()
            .line_number(true)
            .line_terminator(LineTerminator::crlf())
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_HEAP_BYTES))
            .build();
        for entry in search::walk(&self.root, true).build() {
            if limits.are_over() {
                report.is_out_of_time = true;
                break;
            }
            let Ok(entry) = entry else {
                report.n_unreadable += 1;
                continue;
            };
            let is_root = entry.depth() == 0;
            let path = entry.path();
            if !(search::is_file(&entry) && (is_root || self.is_included(path))) {
                continue;
            }
            match self.search(&mut searcher, path, &limits) {
                Ok(lines) if lines.is_empty() => {}
                Ok(lines) => {
                    if found.blocking_send(FileMatches { path: path.to_path_buf(), lines }).is_err() {
                        break;
                    }
                }
                Err(_) if limits.are_over() => {
                    report.is_out_of_time = true;
                    break;
                }
                Err(_) => report.n_unreadable += 1,
            }
        }
        report
    }

    fn is_included(&self, path: &Path) -> bool {
        let relative = path.strip_prefix(&self.root).unwrap_or(path);
        self.include.as_ref().is_none_or(|include| include.is_match(relative))
    }

    fn search(&self, searcher: &mut Searcher, path: &Path, limits: &Limits) -> io::Result<Vec<FoundLine>> {
        let Some((file, _)) = disk::open_regular(path)? else { return Ok(Vec::new()) };
        let mut sink = Collector { matcher: &self.matcher, limit: self.limit, found: Vec::new(), is_binary: false };
        searcher.search_reader(&self.matcher, Watched { file, limits }, &mut sink)?;
        Ok(if sink.is_binary { Vec::new() } else { sink.found })
    }
}

/// When a search has to end.
struct Limits {
    deadline: Option<Instant>,
    stop: CancellationToken,
}

impl Limits {
    fn are_over(&self) -> bool {
        self.stop.is_cancelled() || self.deadline.is_some_and(|deadline| Instant::now() > deadline)
    }
}

/// A file whose reading ends with the search.
struct Watched<'a> {
    file: File,
    limits: &'a Limits,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.limits.are_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}

/// Collects the matching lines of one file.
struct Collector<'a> {
    matcher: &'a RegexMatcher,
    limit: usize,
    found: Vec<FoundLine>,
    is_binary: bool,
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let bytes = found.bytes();
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let mut submatches = Vec::new();
        self.matcher
            .find_iter(bytes, |part| {
                let text = bytes.get(part.start()..part.end()).unwrap_or_default();
                let text = cut(&String::from_utf8_lossy(text));
                submatches.push(Submatch { text, start: part.start(), end: part.end() });
                submatches.len() < MAX_SUBMATCHES
            })
            .map_err(io::Error::other)?;
        self.found.push(FoundLine {
            number: found.line_number().unwrap_or_default(),
            offset: found.absolute_byte_offset(),
            text: cut(&String::from_utf8_lossy(bytes)),
            submatches,
        });
        Ok(self.found.len() < self.limit)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.is_binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.is_binary |= end.binary_byte_offset().is_some();
        Ok(())
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
