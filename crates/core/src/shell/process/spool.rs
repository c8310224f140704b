//! The file that a command writes into: read as it grows, and its end afterwards.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::tool::output::OutputLimits;

/// The most bytes of live output between two looks; what is more is left out of the live output, not of the file.
const MAX_LIVE_BYTES: u64 = 64 * 1024;

/// Reads a growing file for people who watch.
#[derive(Debug)]
pub(crate) struct Follower {
    path: PathBuf,
    at: u64,
    /// The start of a character that is not complete yet.
    pending: Vec<u8>,
}

impl Follower {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path, at: 0, pending: Vec::new() }
    }

    /// Makes a follower of what comes from now on.
    pub(crate) fn at_end(path: PathBuf) -> Self {
        let at = std::fs::metadata(&path).map_or(0, |found| found.len());
        Self { path, at, pending: Vec::new() }
    }

    /// Reads what came since the last look. Blocks.
    pub(crate) fn read(&mut self) -> io::Result<Growth> {
        let mut file = File::open(&self.path)?;
        let size = file.metadata()?.len();
        let mut text = String::new();
        let skipped = size.saturating_sub(self.at).saturating_sub(MAX_LIVE_BYTES);
        if skipped > 0 {
            self.at += skipped;
            self.pending.clear();
            text = format!("[{skipped} bytes not shown]\n");
        }
        file.seek(SeekFrom::Start(self.at))?;
        let mut bytes = std::mem::take(&mut self.pending);
        let n_read = file.take(MAX_LIVE_BYTES).read_to_end(&mut bytes)?;
        self.at += n_read as u64;
        let n_complete = complete_len(&bytes);
        self.pending = bytes.split_off(n_complete);
        text.push_str(&String::from_utf8_lossy(&bytes));
        Ok(Growth { text, size })
    }
}

/// What a look at a growing file brought.
#[derive(Debug)]
pub(crate) struct Growth {
    pub(crate) text: String,
    pub(crate) size: u64,
}

/// Returns how many bytes are no start of an unfinished character.
fn complete_len(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    for at in (tail..bytes.len()).rev() {
        let Some(byte) = bytes.get(at) else { break };
        let needed = match byte {
            0b1100_0000..=0b1101_1111 => 2,
            0b1110_0000..=0b1110_1111 => 3,
            0b1111_0000..=0b1111_0111 => 4,
            0b1000_0000..=0b1011_1111 => continue,
            _ => return bytes.len(),
        };
        return if at + needed > bytes.len() { at } else { bytes.len() };
    }
    bytes.len()
}

/// The end of a file, within limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// The text; bytes that are no UTF-8 are replaced.
    pub text: String,
    /// How many bytes were left out.
    pub bytes_cut: u64,
}

/// Reads the end of a file: at most so many bytes, and of these at most so many lines. A file that does not exist is
/// empty. Blocks.
pub(crate) fn tail(path: &Path, limits: OutputLimits) -> io::Result<Tail> {
    let max_bytes = limits.bytes as u64;
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Tail::default()),
        Err(error) => return Err(error),
    };
    let size = file.metadata()?.len();
    let start = size.saturating_sub(max_bytes);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes)?;
    let mut cut = 0;
    if start > 0 {
        // At a character, not inside one.
        while cut < 3 && bytes.get(cut).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {
            cut += 1;
        }
    }
    let kept = bytes.get(cut..).unwrap_or_default();
    let body = kept.strip_suffix(b"\n").unwrap_or(kept);
    let mut n_lines = 1;
    let mut line_start = 0;
    for (at, byte) in body.iter().enumerate().rev() {
        if *byte == b'\n' {
            if n_lines == limits.lines {
                line_start = at + 1;
                break;
            }
            n_lines += 1;
        }
    }
    let kept = kept.get(line_start..).unwrap_or_default();
    let bytes_cut = start + cut as u64 + line_start as u64;
    Ok(Tail { text: String::from_utf8_lossy(kept).into_owned(), bytes_cut })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &[u8], bytes: usize, lines: usize, expected: (&str, u64)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("spool");
        std::fs::write(&path, content).unwrap();
        let found = tail(&path, OutputLimits { lines, bytes }).unwrap();
        assert_eq!((found.text.as_str(), found.bytes_cut), expected);
    }

    #[test]
    fn the_end_is_kept() {
        check(b"a\nb\nc\n", 100, 100, ("a\nb\nc\n", 0));
        check(b"a\nb\nc\n", 100, 2, ("b\nc\n", 2));
        check(b"a\nb\nc", 100, 1, ("c", 4));
        check(b"a\nb\nc\n", 4, 100, ("b\nc\n", 2));
        check("日本".as_bytes(), 4, 100, ("本", 3));
        check(b"\xff\xfeA\n", 100, 100, ("\u{fffd}\u{fffd}A\n", 0));
        check(b"a\0b", 100, 100, ("a\0b", 0));
        check(b"", 100, 100, ("", 0));
    }

    #[test]
    fn a_character_that_grows_is_read_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("spool");
        let mut follower = Follower::new(path.clone());
        let mut seen = String::new();
        let all = "é日😀x".as_bytes();
        for end in 1..=all.len() {
            std::fs::write(&path, &all[..end]).unwrap();
            seen.push_str(&follower.read().unwrap().text);
        }
        assert_eq!(seen, "é日😀x");
        assert_eq!(complete_len(b"\xff\xff"), 2);
    }
}
