//! From bytes to text: charset, and pages of HTML as Markdown or as their text.

use std::rc::Rc;

use encoding_rs::Encoding;
use htmd::options::{BrStyle, BulletListMarker, Options};
use htmd::{HtmlToMarkdown, Node};
use markup5ever_rcdom::NodeData;

use super::parse;

/// Deeper pages are given as text: converting them needs stack for each level.
const MAX_DEPTH: usize = 256;
/// Where a page may say what its charset is.
const CHARSET_WITHIN: usize = 1024;

/// Elements whose text nobody reads.
pub(super) const SILENT: &[&str] = &["script", "style", "noscript", "iframe", "object", "embed", "template"];
/// Elements that end a line.
pub(super) const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "option",
    "p",
    "pre",
    "section",
    "table",
    "title",
    "tr",
    "ul",
];

/// Says whether a media type (without parameters, lower case) is text.
pub(super) fn is_text(mime: &str) -> bool {
    let named = matches!(
        mime,
        "" | "application/json"
            | "application/xml"
            | "application/javascript"
            | "application/x-javascript"
            | "application/ecmascript"
            | "application/x-ndjson"
            | "application/yaml"
            | "application/toml"
    );
    named || mime.starts_with("text/") || mime.ends_with("+json") || mime.ends_with("+xml")
}

/// Says whether a media type is HTML.
pub(super) fn is_html(mime: &str) -> bool {
    matches!(mime, "text/html" | "application/xhtml+xml")
}

/// Decodes a body: by its byte order mark, by the charset of its header, in HTML by what the page says, else as UTF-8.
/// What does not fit becomes U+FFFD.
pub(super) fn decode(body: &[u8], content_type: &str, is_html: bool) -> String {
    let named = parameter(content_type, "charset");
    let named = named.or_else(|| if is_html { charset_of_page(body) } else { None });
    let encoding = named.and_then(|label| Encoding::for_label(label.as_bytes())).unwrap_or(encoding_rs::UTF_8);
    encoding.decode(body).0.into_owned()
}

/// Returns a parameter of a media type.
fn parameter(content_type: &str, wanted: &str) -> Option<String> {
    content_type.split(';').skip(1).find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case(wanted).then(|| value.trim().trim_matches('"').to_owned())
    })
}

/// Finds what a page says about its charset in its first bytes.
fn charset_of_page(body: &[u8]) -> Option<String> {
    let head = body.get(..CHARSET_WITHIN.min(body.len()))?;
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let (_, rest) = head.split_once("charset")?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let end = rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || "-_.:".contains(letter)))?;
    rest.get(..end).map(str::to_owned)
}

/// Converts a page to Markdown. Blocks for as long as the page is large.
pub(super) fn markdown(html: &str) -> String {
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        br_style: BrStyle::Backslash,
        ..Options::default()
    };
    let converter = HtmlToMarkdown::builder()
        .options(options)
        .skip_tags(vec!["script", "style", "meta", "link", "noscript", "iframe", "object", "embed", "template"])
        .build();
    match parse::tree(html) {
        Some(tree) if parse::depth(&tree) <= MAX_DEPTH => converter.tree_to_markdown(&tree),
        Some(tree) => text_of(&tree),
        None => tidy(&parse::flat_text(html)),
    }
}

/// Returns the text of a page. Blocks for as long as the page is large.
pub(super) fn text(html: &str) -> String {
    parse::tree(html).map_or_else(|| tidy(&parse::flat_text(html)), |tree| text_of(&tree))
}

/// Collects text nodes; blank lines and blanks at ends of lines are dropped.
fn text_of(tree: &Rc<Node>) -> String {
    enum Step {
        Enter(Rc<Node>),
        EndLine,
    }
    let mut out = String::new();
    let mut open = vec![Step::Enter(Rc::clone(tree))];
    while let Some(step) = open.pop() {
        let node = match step {
            Step::Enter(node) => node,
            Step::EndLine => {
                out.push('\n');
                continue;
            }
        };
        match &node.data {
            NodeData::Text { contents } => out.push_str(&contents.borrow()),
            NodeData::Element { name, .. } => {
                let name: &str = &name.local;
                if SILENT.contains(&name) {
                    continue;
                }
                if BLOCKS.contains(&name) {
                    out.push('\n');
                    open.push(Step::EndLine);
                } else if matches!(name, "td" | "th") {
                    out.push('\t');
                }
            }
            NodeData::Document
            | NodeData::Doctype { .. }
            | NodeData::Comment { .. }
            | NodeData::ProcessingInstruction { .. } => {}
        }
        open.extend(node.children.borrow().iter().rev().map(|child| Step::Enter(Rc::clone(child))));
    }
    tidy(&out)
}

/// Drops blank lines, and blanks at ends of lines.
fn tidy(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}
