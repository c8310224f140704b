//! From HTML to a tree, in bounded time: the parser looks through all open elements at many tags, so a page that opens tens
//! of thousands and closes none would keep it busy for hours.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use htmd::Node;
use html5ever::driver::{ParseOpts, parse_document};
use html5ever::tendril::{StrTendril, TendrilSink as _};
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use markup5ever_rcdom::RcDom;

use super::page::{BLOCKS, SILENT};

/// A tree that is deeper than this is given up.
const MAX_LEVELS: usize = 1024;
/// The depth is looked at each time that so much has been parsed.
const LOOK_EVERY: usize = 32 * 1024;

/// A page that takes longer is given up: misplaced elements cost the tree a search each.
const MAX_TIME: Duration = Duration::from_secs(3);

/// Parses a page; `None` when its elements nest too deep or it takes too long. Blocks meanwhile.
pub(super) fn tree(html: &str) -> Option<Rc<Node>> {
    let mut parser = parse_document(RcDom::default(), ParseOpts::default());
    let begun = Instant::now();
    let mut rest = html;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.floor_char_boundary(LOOK_EVERY));
        parser.process(StrTendril::from_slice(piece));
        if begun.elapsed() > MAX_TIME || depth(&parser.tokenizer.sink.sink.document) > MAX_LEVELS {
            return None;
        }
        rest = behind;
    }
    Some(parser.finish().document)
}

/// Returns how deep a tree is.
pub(super) fn depth(tree: &Rc<Node>) -> usize {
    let mut deepest = 0;
    let mut open = vec![(Rc::clone(tree), 0)];
    while let Some((node, level)) = open.pop() {
        deepest = deepest.max(level);
        open.extend(node.children.borrow().iter().map(|child| (Rc::clone(child), level + 1)));
    }
    deepest
}

/// Returns the text of a page without a tree: what stands between its tags.
pub(super) fn flat_text(html: &str) -> String {
    let tokenizer = Tokenizer::new(Flat::default(), TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(html));
    let _done = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.text.take()
}

#[derive(Default)]
struct Flat {
    text: RefCell<String>,
    /// Whether the text that comes is that of an element nobody reads.
    is_silent: Cell<bool>,
}

impl TokenSink for Flat {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        match token {
            Token::CharacterTokens(text) if !self.is_silent.get() => self.text.borrow_mut().push_str(&text),
            Token::TagToken(tag) => {
                let name: &str = &tag.name;
                if BLOCKS.contains(&name) {
                    self.text.borrow_mut().push('\n');
                } else if matches!(name, "td" | "th") && tag.kind == TagKind::StartTag {
                    self.text.borrow_mut().push('\t');
                }
                let raw = match name {
                    "script" => Some(RawKind::ScriptData),
                    "style" | "noscript" | "iframe" | "noembed" | "noframes" | "xmp" => Some(RawKind::Rawtext),
                    "title" | "textarea" => Some(RawKind::Rcdata),
                    _ => None,
                };
                if let Some(raw) = raw {
                    let begins = tag.kind == TagKind::StartTag;
                    self.is_silent.set(begins && SILENT.contains(&name));
                    if begins {
                        return TokenSinkResult::RawData(raw);
                    }
                }
            }
            Token::CharacterTokens(_)
            | Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::NullCharacterToken
            | Token::EOFToken
            | Token::ParseError(_) => {}
        }
        TokenSinkResult::Continue
    }
}
