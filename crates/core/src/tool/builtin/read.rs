//! The tool `read`: shows a file or a directory (spec/tools.md 11.1).

mod directory;
mod missing;
mod nearby;
mod page;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;

use abide_schema::json::sha256_hex;
use abide_schema::tool::Content;
use base64::Engine as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::files::{FileTools, READ_ACTION, blocking, seen_part};
use crate::fs::access::{Kind, Target, Wanted};
use crate::fs::browse::Entry;
use crate::fs::disk::{self, Facts};
use crate::fs::media;
use crate::fs::reads::Seen;
use crate::fs::text::{Encoding, NotText, SNIFF_BYTES, Text};
use crate::tool::failure::caused;
use crate::tool::leaf::{ToolContext, ToolReturn, TypedTool};
use crate::tool::outcome::ToolFailure;
use page::{Page, Window};

/// The largest picture or document.
const MAX_MEDIA_BYTES: u64 = 20 * 1024 * 1024;

/// The largest file in another encoding than UTF-8, which has to be decoded whole.
const MAX_DECODED_BYTES: u64 = 20 * 1024 * 1024;

/// Files up to this size are given whole.
const MAX_WHOLE_BYTES: u64 = 50 * 1024;

/// Lines or entries of one call.
const MAX_LIMIT: u64 = 2000;

/// Names of files that hold no text, whatever their first bytes are.
const BINARY_EXTENSIONS: &[&str] = &[
    "zip", "tar", "gz", "exe", "dll", "so", "class", "jar", "war", "7z", "doc", "docx", "xls", "xlsx", "ppt", "pptx",
    "odt", "ods", "odp", "bin", "dat", "obj", "o", "a", "lib", "wasm", "pyc", "pyo",
];

/// The tool.
#[derive(Debug)]
pub struct Read {
    files: FileTools,
}

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadInput {
    /// The file or directory, absolute or relative to the working directory.
    path: String,
    /// The first line or entry, from 1.
    #[serde(default)]
    offset: Option<u64>,
    /// How many lines or entries, at most 2000.
    #[serde(default)]
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

/// What it gets.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ReadOutput {
    /// A whole file.
    File(FileOutput),
    /// Some lines of a file.
    Page(PageOutput),
    /// Entries of a directory.
    List(ListOutput),
}

/// A whole file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileOutput {
    uri: String,
    name: String,
    /// The text. Absent for media, whose bytes are in the content of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    encoding: OutputEncoding,
    mime: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum OutputEncoding {
    Utf8,
    Base64,
}

/// Some lines of a file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageOutput {
    content: String,
    mime: String,
    offset: u64,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// Entries of a directory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ListOutput {
    entries: Vec<Entry>,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

impl Read {
    /// Makes the tool.
    pub fn new(files: FileTools) -> Self {
        Self { files }
    }
}

impl TypedTool for Read {
    type Input = ReadInput;
    type Output = ReadOutput;

    fn name(&self) -> &'static str {
        "read"
    }

    fn description(&self) -> String {
        "Reads a text file with line numbers, an image or PDF, or the entries of a directory. At most 2000 lines and \
         50 KiB come at a time, and lines are cut at 2000 characters; go on with offset. Use grep to search."
            .to_owned()
    }

    fn limits(&self) -> Vec<String> {
        vec![
            format!("{MAX_LIMIT} lines or entries and 50 KiB a page; lines are cut at 2000 characters"),
            format!(
                "images and PDF files up to {MAX_MEDIA_BYTES} bytes; files that are no UTF-8 up to {MAX_DECODED_BYTES} bytes"
            ),
            "images over the limits of `media.image` are made smaller, or left out and told".to_owned(),
        ]
    }

    async fn execute(&self, ctx: ToolContext, input: ReadInput) -> Result<ToolReturn<ReadOutput>, ToolFailure> {
        let files = &self.files;
        let mut target = files.resolve(&ctx, &input.path, Wanted::File).await?;
        files.authorize(&ctx, READ_ACTION, &target, None).await?;
        if target.kind == Kind::Missing {
            target = self.other_spelling(&ctx, &target).await?;
        }
        let files = &self.files;
        files.access.recheck(&target).await.map_err(super::files::access_failure)?;
        let place = target.clone();
        let mut returned = match target.kind {
            Kind::Directory => directory::read(files, &target, &Window::of(&input)).await?,
            Kind::File => {
                self.file(&ctx, target, Window::of(&input), input.offset.is_some() || input.limit.is_some()).await?
            }
            Kind::Other | Kind::Missing => {
                return Err(ToolFailure::new(format!("Neither a file nor a directory: {}", target.resource)));
            }
        };
        returned.content.extend(self.instructions(&ctx, &place).await);
        Ok(returned)
    }
}

impl Read {
    /// Finds instructions beside what was read that the session was not given yet. What cannot be read is passed over.
    async fn instructions(&self, ctx: &ToolContext, target: &Target) -> Vec<Content> {
        let files = &self.files;
        if target.external.is_some() {
            return Vec::new();
        }
        let places = nearby::places(&target.real, target.kind == Kind::Directory, files.access.real_directory());
        let mut found = Vec::new();
        for path in places {
            let looked = path.clone();
            let text = blocking(move || Ok(nearby::text(&looked))).await.ok().flatten();
            let (Some(text), Some(name)) = (text, files.access.relative(&path)) else { continue };
            if files.may_read(ctx, std::slice::from_ref(&name)).await && files.reads.tells(&ctx.session_id, &path) {
                let directory = name.rsplit_once('/').map_or(".", |(directory, _)| directory);
                found.push(Content::text(format!("Instructions of {name}, for everything below {directory}:\n{text}")));
            }
        }
        found
    }

    /// Finds the file that a name means which differs from its own only in the spelling of accents, spaces and quotes.
    async fn other_spelling(&self, ctx: &ToolContext, target: &Target) -> Result<Target, ToolFailure> {
        let missing = target.clone();
        let found = blocking(move || Ok(missing::look(&missing.requested, &missing.real))).await;
        match found {
            Ok(missing::Found::Spelled(path)) => {
                let found =
                    self.files.access.resolve(&path, Wanted::File).await.map_err(super::files::access_failure)?;
                // The directory was allowed; a link from it to another place was not.
                let same_directory = found.external.as_ref().map(|border| &border.directory)
                    == target.external.as_ref().map(|border| &border.directory);
                if !same_directory || found.real.parent() != target.real.parent() {
                    return Err(missing::failure(&target.requested, &[]));
                }
                self.files.authorize(ctx, READ_ACTION, &found, None).await?;
                Ok(found)
            }
            Ok(missing::Found::Alike(names)) => Err(missing::failure(&target.requested, &names)),
            Err(error) => Err(caused(format!("Could not read {}", target.requested), &error)),
        }
    }

    async fn file(
        &self,
        ctx: &ToolContext,
        target: Target,
        window: Window,
        is_part_wanted: bool,
    ) -> Result<ToolReturn<ReadOutput>, ToolFailure> {
        let (real, resource) = (target.real.clone(), target.resource.clone());
        let read = blocking(move || Ok(read_file(&real, &resource, &window, is_part_wanted))).await;
        let failed = |error: io::Error| caused(format!("Could not read {}", target.requested), &error);
        let (shown, seen) = read.map_err(failed)?.map_err(|failure| failure.into_failure(&target.requested))?;
        self.files.reads.note(&ctx.session_id, &target.real, seen);
        Ok(match shown {
            Shown::Media { mime, data } => {
                let name = name_of(&target.real);
                let what = if mime == "application/pdf" { "PDF read" } else { "Image read" };
                let uri = format!("data:{mime};base64,{data}");
                ToolReturn::new(ReadOutput::File(FileOutput {
                    uri: uri_of(&target.absolute),
                    name: name.clone(),
                    content: None,
                    encoding: OutputEncoding::Base64,
                    mime: mime.to_owned(),
                }))
                .with_text(what)
                .with_content(Content::File { uri, mime: mime.to_owned(), name: Some(name) })
                .bounded(false)
            }
            Shown::Whole { text, mime, page } => {
                let note = page.note();
                ToolReturn::new(ReadOutput::File(FileOutput {
                    uri: uri_of(&target.absolute),
                    name: name_of(&target.real),
                    content: Some(text),
                    encoding: OutputEncoding::Utf8,
                    mime: mime.to_owned(),
                }))
                .with_text(page.render(&target.resource, note.as_deref()))
                .bounded(false)
            }
            Shown::Page { mime, page } => {
                let note = page.note();
                let rendered = page.render(&target.resource, note.as_deref());
                let truncated = page.next.is_some();
                ToolReturn::new(ReadOutput::Page(PageOutput {
                    content: page.lines.join("\n"),
                    mime: mime.to_owned(),
                    offset: page.offset,
                    truncated,
                    next: page.next,
                }))
                .with_text(rendered)
                .bounded(truncated)
            }
        })
    }
}

/// What is shown of a file.
enum Shown {
    Media { mime: &'static str, data: String },
    Whole { text: String, mime: &'static str, page: Page },
    Page { mime: &'static str, page: Page },
}

/// Why a file is not shown.
enum NotShown {
    Said(String),
    Io(io::Error),
}

impl From<io::Error> for NotShown {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl NotShown {
    fn into_failure(self, path: &str) -> ToolFailure {
        match self {
            Self::Said(text) => ToolFailure::new(text),
            Self::Io(error) => caused(format!("Could not read {path}"), &error),
        }
    }
}

fn read_file(real: &Path, resource: &str, window: &Window, is_part_wanted: bool) -> Result<(Shown, Seen), NotShown> {
    let said = |text: String| Err(NotShown::Said(text));
    let Some((mut file, facts)) = disk::open_regular(real)? else {
        return said(format!("Neither a file nor a directory: {resource}"));
    };
    let mut head = Vec::new();
    file.by_ref().take(SNIFF_BYTES as u64).read_to_end(&mut head)?;
    if let Some(mime) = media::by_content(&head) {
        return media(&mut file, head, facts, mime, resource);
    }
    let extension = real.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_ascii_lowercase();
    if BINARY_EXTENSIONS.contains(&extension.as_str()) {
        return said(format!("Binary file, not readable as text: {resource}"));
    }
    let mime = media::of(real, &[]);
    let mime = if mime == media::BYTES { media::TEXT } else { mime };
    let encoding = Encoding::of(&head);
    let is_utf16 = matches!(encoding, Encoding::Utf16Le | Encoding::Utf16Be);
    if is_utf16 || (facts.length <= MAX_WHOLE_BYTES && !is_part_wanted) {
        if facts.length > MAX_DECODED_BYTES {
            return said(format!(
                "{} file over the {MAX_DECODED_BYTES} byte limit: {resource}; convert it to UTF-8 to read it",
                encoding.name()
            ));
        }
        file.take(MAX_DECODED_BYTES.saturating_sub(head.len() as u64)).read_to_end(&mut head)?;
        return whole(&head, mime, resource, window, is_part_wanted);
    }
    file.rewind()?;
    let page = page::read(io::BufReader::with_capacity(SNIFF_BYTES, file), window);
    let page = page.map_err(|error| not_page(error, resource))?;
    Ok((Shown::Page { mime, page }, seen_part(&facts)))
}

fn whole(
    content: &[u8],
    mime: &'static str,
    resource: &str,
    window: &Window,
    is_part_wanted: bool,
) -> Result<(Shown, Seen), NotShown> {
    let seen = Seen::Content(sha256_hex(content));
    let text = Text::decode(content).map_err(|error| not_text(error, resource))?;
    if text.encoding == Encoding::Utf8 && crate::fs::text::looks_binary(content) {
        return Err(NotShown::Said(format!("Binary file, not readable as text: {resource}")));
    }
    let mut page = page::read(text.text.as_bytes(), window).map_err(|error| not_page(error, resource))?;
    if matches!(text.encoding, Encoding::Utf16Le | Encoding::Utf16Be) {
        page.encoding = Some(text.encoding.name());
    }
    // What does not fit with its line numbers goes in pages.
    let is_whole = page.next.is_none() && !is_part_wanted && content.len() as u64 <= MAX_WHOLE_BYTES;
    Ok((if is_whole { Shown::Whole { text: text.text, mime, page } } else { Shown::Page { mime, page } }, seen))
}

fn media(
    file: &mut File,
    head: Vec<u8>,
    facts: Facts,
    mime: &'static str,
    resource: &str,
) -> Result<(Shown, Seen), NotShown> {
    let over = || NotShown::Said(format!("Media file over the {MAX_MEDIA_BYTES} byte limit: {resource}"));
    if facts.length > MAX_MEDIA_BYTES {
        return Err(over());
    }
    let mut content = head;
    // It may grow while it is read.
    file.take(MAX_MEDIA_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_MEDIA_BYTES {
        return Err(over());
    }
    let seen = Seen::Content(sha256_hex(&content));
    Ok((Shown::Media { mime, data: base64::engine::general_purpose::STANDARD.encode(&content) }, seen))
}

fn not_page(error: page::NotAPage, resource: &str) -> NotShown {
    match error {
        page::NotAPage::Binary => not_text(NotText::Binary, resource),
        page::NotAPage::NotUtf8 { offset, byte } => not_text(NotText::UnknownEncoding { offset, byte }, resource),
        page::NotAPage::PastEnd { offset, n_lines } => {
            let plural = if n_lines == 1 { "" } else { "s" };
            NotShown::Said(format!("Offset {offset} is past the end: {resource} has {n_lines} line{plural}"))
        }
        page::NotAPage::Io(error) => NotShown::Io(error),
    }
}

fn not_text(error: NotText, resource: &str) -> NotShown {
    NotShown::Said(match error {
        NotText::Binary => format!("Binary file, not readable as text: {resource}"),
        NotText::UnknownEncoding { offset, byte } => format!(
            "Not valid UTF-8 text: {resource} (byte 0x{byte:02X} at offset {offset}). Convert it to see it whole; edit can replace ASCII text in it."
        ),
        NotText::DamagedUtf16 => format!("Not valid UTF-16 text, though its byte order mark says so: {resource}"),
    })
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn uri_of(path: &Path) -> String {
    Url::from_file_path(path).map_or_else(|()| format!("file://{}", path.display()), String::from)
}
