//! Prompts as callers give them: media types are found when a prompt is admitted (spec/session.md 4).

use std::path::Path;

use abide_schema::prompt::{AgentAttachment, FileAttachment, Prompt, PromptSource};

use crate::fs::media;

/// Makes the prompt of an admitted request: fills in media types that the caller left out.
pub(crate) fn prepared_prompt(
    text: String,
    files: Option<Vec<FileInput>>,
    agents: Option<Vec<AgentAttachment>>,
) -> Prompt {
    let files = files.map(|files| files.into_iter().map(FileInput::resolve).collect());
    Prompt { text, files, agents }
}

/// An attachment as a caller gives it, without media type.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct FileInput {
    /// A `file:`, `data:` or `http(s):` URI.
    pub uri: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The place in the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PromptSource>,
}

impl FileInput {
    fn resolve(self) -> FileAttachment {
        let mime = media_type(&self.uri, self.name.as_deref());
        FileAttachment { uri: self.uri, mime, name: self.name, description: self.description, source: self.source }
    }
}

/// Returns the media type of an attachment: from a `data:` URI, a trailing slash, or the file name.
pub fn media_type(uri: &str, name: Option<&str>) -> String {
    if let Some(rest) = uri.strip_prefix("data:") {
        let head = rest.split_once(',').map_or(rest, |(head, _)| head);
        let mime = head.split(';').next().unwrap_or_default();
        return if mime.is_empty() { media::TEXT.to_owned() } else { mime.to_owned() };
    }
    let path = uri.split(['?', '#']).next().unwrap_or(uri);
    if path.ends_with('/') {
        return "application/x-directory".to_owned();
    }
    // The name counts where the target has no extension, as in a link to a download.
    let extended = |path: &&Path| path.extension().is_some();
    let target = Some(Path::new(path)).filter(extended).or_else(|| name.map(Path::new));
    target.and_then(media::by_name).unwrap_or(media::TEXT).to_owned()
}
