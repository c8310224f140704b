//! The patch text: operations on files, and chunks of lines (spec/tools.md 11.4). Every line between the markers has a
//! meaning or is an error: nothing is skipped in silence.

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// The longest piece of a line that a message repeats, in characters.
const MAX_SHOWN: usize = 120;

/// What is done to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// A new file with this content.
    Add {
        path: String,
        content: String,
    },
    Delete {
        path: String,
    },
    Update {
        path: String,
        /// Its new name.
        to: Option<String>,
        chunks: Vec<Chunk>,
    },
}

/// Lines that stay, go and come at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    /// A line from which on the place is looked for.
    pub(super) context: Option<String>,
    pub(super) lines: Vec<Line>,
    /// Whether the place is the end of the file.
    pub(super) at_end: bool,
}

/// A line of a chunk, without its mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Keep(String),
    Remove(String),
    Insert(String),
}

/// Why a text is no patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPatch {
    #[error("The patch is empty")]
    Empty,
    #[error("The first line of the patch must be '{BEGIN}'")]
    NoBegin,
    #[error("The last line of the patch must be '{END}'")]
    NoEnd,
    #[error("Line {0} is not an operation header: {1}")]
    NotAHeader(usize, String),
    #[error("Line {0} names no path")]
    NoPath(usize),
    #[error("Line {0} updates {1} without any chunk; begin one with '@@' (alone, it moves a file as it is)")]
    NoChunk(usize, String),
    #[error("Line {line} does not begin with {expected}: {text}")]
    Stray { line: usize, expected: &'static str, text: String },
}

/// Reads a patch. Line numbers count from the first line of the text as it was given.
pub(super) fn parse(text: &str) -> Result<Vec<Operation>, NoPatch> {
    if text.trim().is_empty() {
        return Err(NoPatch::Empty);
    }
    let lines: Vec<&str> = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let (begin, is_indented) = marker(&lines, 0, BEGIN).ok_or(NoPatch::NoBegin)?;
    let (end, _) = marker(&lines, begin + 1, END).ok_or(NoPatch::NoEnd)?;
    let body = lines.get(begin + 1..end).unwrap_or_default();
    let mut reader = Reader { lines: body, first: begin + 2, at: 0, is_indented };
    let mut operations = Vec::new();
    while let Some(operation) = reader.operation()? {
        operations.push(operation);
    }
    if operations.is_empty() { Err(NoPatch::Empty) } else { Ok(operations) }
}

/// Finds a marker from a line on, and says whether it is indented. One that is not goes before one that is: that may
/// be a line of a file.
fn marker(lines: &[&str], from: usize, marker: &str) -> Option<(usize, bool)> {
    let after = || lines.iter().enumerate().skip(from);
    let plain = after().find(|(_, line)| line.trim_end() == marker);
    plain.map(|(at, _)| (at, false)).or_else(|| {
        let indented = after().find(|(_, line)| line.trim() == marker);
        indented.map(|(at, _)| (at, true))
    })
}

struct Reader<'a> {
    lines: &'a [&'a str],
    /// The number of the first line.
    first: usize,
    at: usize,
    /// Whether the whole patch is indented, and with it its headers.
    is_indented: bool,
}

/// The beginning of an operation.
enum Header<'a> {
    Add(&'a str),
    Delete(&'a str),
    Update(&'a str),
}

impl<'a> Reader<'a> {
    fn operation(&mut self) -> Result<Option<Operation>, NoPatch> {
        self.skip_blank();
        let Some(line) = self.peek() else { return Ok(None) };
        let number = self.number();
        let Some(header) = header(line.trim()) else {
            return Err(NoPatch::NotAHeader(number, shown(line)));
        };
        self.at += 1;
        let named = |path: &str| {
            let path = path.trim();
            if path.is_empty() { Err(NoPatch::NoPath(number)) } else { Ok(path.to_owned()) }
        };
        Ok(Some(match header {
            Header::Add(path) => Operation::Add { path: named(path)?, content: self.content()? },
            Header::Delete(path) => {
                let path = named(path)?;
                self.expect_header("an operation header ('*** …')")?;
                Operation::Delete { path }
            }
            Header::Update(path) => {
                let path = named(path)?;
                let to = self.move_to()?;
                let chunks = self.chunks()?;
                if chunks.is_empty() {
                    return Err(NoPatch::NoChunk(number, path));
                }
                Operation::Update { path, to, chunks }
            }
        }))
    }

    /// The lines of a new file.
    fn content(&mut self) -> Result<String, NoPatch> {
        let mut content = String::new();
        while let Some(text) = self.peek().and_then(|line| line.strip_prefix('+')) {
            content.push_str(text);
            content.push('\n');
            self.at += 1;
        }
        self.expect_header("'+'")?;
        Ok(content)
    }

    fn move_to(&mut self) -> Result<Option<String>, NoPatch> {
        let Some(path) = self.peek().and_then(|line| line.trim().strip_prefix(MOVE)) else { return Ok(None) };
        let path = path.trim();
        if path.is_empty() {
            return Err(NoPatch::NoPath(self.number()));
        }
        self.at += 1;
        Ok(Some(path.to_owned()))
    }

    fn chunks(&mut self) -> Result<Vec<Chunk>, NoPatch> {
        let mut chunks: Vec<Chunk> = Vec::new();
        while let Some(line) = self.peek() {
            if self.is_header(line) {
                break;
            }
            if let Some(chunk) = chunk_start(line) {
                chunks.push(chunk);
                self.at += 1;
                continue;
            }
            if self.is_end_of_file(line) {
                match chunks.last_mut() {
                    Some(chunk) if !chunk.at_end => chunk.at_end = true,
                    Some(_) | None => return Err(self.stray("'@@', ' ', '-' or '+'", line)),
                }
                self.at += 1;
                continue;
            }
            let mut characters = line.chars();
            let (mark, rest) = (characters.next(), characters.as_str().to_owned());
            let line = match mark {
                None => Line::Keep(rest),
                Some(' ') => Line::Keep(rest),
                Some('-') => Line::Remove(rest),
                Some('+') => Line::Insert(rest),
                Some(_) => return Err(self.stray("'@@', ' ', '-' or '+'", line)),
            };
            match chunks.last_mut() {
                // Nothing comes after the end of the file but empty lines between operations.
                Some(chunk) if chunk.at_end => {
                    if line != Line::Keep(String::new()) {
                        return Err(
                            self.stray("'@@' (the chunk before ends the file)", self.peek().unwrap_or_default())
                        );
                    }
                }
                Some(chunk) => chunk.lines.push(line),
                None => chunks.push(Chunk { lines: vec![line], ..Chunk::default() }),
            }
            self.at += 1;
        }
        // The empty line that separates an operation from the next one can be no more than an empty line of context.
        Ok(chunks)
    }

    /// Skips empty lines; anything but a header after them is an error.
    fn expect_header(&mut self, expected: &'static str) -> Result<(), NoPatch> {
        let before = self.at;
        self.skip_blank();
        match self.peek() {
            Some(line) if header(line.trim()).is_none() => {
                // Empty lines in the middle would be lost.
                let blank_first = self.at > before && line.starts_with('+');
                if blank_first {
                    self.at = before;
                }
                Err(self.stray(expected, self.peek().unwrap_or_default()))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Says whether a line inside a chunk is the header of the next operation. A line that begins with a blank is a line
    /// of the file, unless the patch is indented as a whole.
    fn is_header(&self, line: &str) -> bool {
        self.may_be_header(line) && header(line.trim()).is_some()
    }

    fn is_end_of_file(&self, line: &str) -> bool {
        self.may_be_header(line) && line.trim() == END_OF_FILE
    }

    fn may_be_header(&self, line: &str) -> bool {
        self.is_indented || line.starts_with("***")
    }

    fn stray(&self, expected: &'static str, text: &str) -> NoPatch {
        NoPatch::Stray { line: self.number(), expected, text: shown(text) }
    }

    fn skip_blank(&mut self) {
        while self.peek().is_some_and(|line| line.trim().is_empty()) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn number(&self) -> usize {
        self.first + self.at
    }
}

fn header(line: &str) -> Option<Header<'_>> {
    let path = |prefix: &str| line.strip_prefix(prefix);
    path(ADD).map(Header::Add).or_else(|| path(DELETE).map(Header::Delete)).or_else(|| path(UPDATE).map(Header::Update))
}

/// Reads the first line of a chunk, with its context.
fn chunk_start(line: &str) -> Option<Chunk> {
    let rest = line.strip_prefix("@@")?;
    let context = rest.strip_prefix(' ').unwrap_or_default().trim_end();
    let is_start = rest.starts_with(' ') || rest.trim().is_empty();
    is_start.then(|| Chunk { context: Some(context.to_owned()).filter(|text| !text.is_empty()), ..Chunk::default() })
}

fn shown(line: &str) -> String {
    let mut text: String = line.chars().take(MAX_SHOWN).collect();
    if text.len() < line.len() {
        text.push('…');
    }
    text
}
