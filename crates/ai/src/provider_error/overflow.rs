//! The many wordings of "the prompt does not fit the context window".

/// One element of a phrase.
enum Bit {
    /// This text.
    Text(&'static str),
    /// One of these texts, or nothing.
    Maybe(&'static [&'static str]),
    /// A number; commas are allowed.
    Number,
    /// Anything.
    Gap,
}

use Bit::{Gap, Maybe, Number, Text};

/// Phrases in lower case. `Maybe` and `Gap` match the shortest text that lets the rest match.
const PHRASES: &[&[Bit]] = &[
    &[Text("prompt is too long")],
    &[Text("input is too long for requested model")],
    &[Text("exceeds the context window")],
    &[
        Text("exceeds "),
        Maybe(&["the "]),
        Maybe(&["model's ", "models "]),
        Text("maximum context length of "),
        Number,
        Text(" tokens"),
    ],
    &[
        Text("exceeds "),
        Maybe(&["the "]),
        Maybe(&["model's ", "models "]),
        Text("maximum context length ("),
        Number,
        Text(")"),
    ],
    &[Text("input token count"), Gap, Text("exceeds the maximum")],
    &[Text("tokens in request more than max tokens allowed")],
    &[Text("maximum prompt length is "), Number],
    &[Text("reduce the length of the messages")],
    &[Text("maximum context length is "), Number, Text(" tokens")],
    &[Text("exceeds "), Maybe(&["the "]), Text("maximum allowed input length of "), Number, Text(" tokens")],
    &[
        Text("input ("),
        Number,
        Text(" tokens) is longer than the model"),
        Maybe(&["'s", "’s"]),
        Text(" context length ("),
        Number,
        Text(" tokens)"),
    ],
    &[Text("exceeds the limit of "), Number],
    &[Text("exceeds the available context size")],
    &[Text("greater than the context length")],
    &[Text("context window exceeds limit")],
    &[Text("exceeded model token limit")],
    &[Text("context length exceeded")],
    &[Text("context_length_exceeded")],
    &[Text("context length is only "), Number, Text(" tokens")],
    &[Text("input length"), Gap, Text("exceeds"), Gap, Text("context length")],
    &[Text("prompt too long; exceeded "), Maybe(&["max "]), Text("context length")],
    &[Text("too large for model with "), Number, Text(" maximum context length")],
    &[Text("prompt has "), Number, Text(" tokens, but the configured context size is "), Number, Text(" tokens")],
    &[Text("model_context_window_exceeded")],
    &[Text("too many tokens")],
    &[Text("token limit exceeded")],
];

/// Whether a text says that the prompt does not fit the context window. A throttling or rate-limit
/// text never does.
pub fn is_overflow_text(text: &str) -> bool {
    if is_excluded(text) {
        return false;
    }
    let text = text.to_lowercase();
    let trimmed = text.trim();
    if trimmed == "400 (no body)" || trimmed == "400 status code (no body)" {
        return true;
    }
    PHRASES.iter().any(|phrase| contains_phrase(trimmed, phrase))
}

/// Whether a text is about throttling, whatever else it says.
pub(super) fn is_excluded(text: &str) -> bool {
    let text = text.to_lowercase();
    let text = text.trim();
    text.starts_with("throttling error:")
        || text.starts_with("service unavailable:")
        || text.contains("rate limit")
        || text.contains("too many requests")
}

fn contains_phrase(text: &str, phrase: &[Bit]) -> bool {
    let Some((Text(head), rest)) = phrase.split_first() else { return false };
    text.match_indices(head).any(|(at, _)| matches_here(text.get(at + head.len()..).unwrap_or_default(), rest))
}

fn matches_here(text: &str, phrase: &[Bit]) -> bool {
    let Some((bit, rest)) = phrase.split_first() else { return true };
    match bit {
        Text(word) => text.strip_prefix(word).is_some_and(|text| matches_here(text, rest)),
        Maybe(words) => {
            matches_here(text, rest)
                || words.iter().any(|word| text.strip_prefix(word).is_some_and(|text| matches_here(text, rest)))
        }
        Number => {
            let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != ',').unwrap_or(text.len());
            digits > 0 && matches_here(text.get(digits..).unwrap_or_default(), rest)
        }
        Gap => match rest.split_first() {
            None => true,
            Some((Text(_), _)) => contains_phrase(text, rest),
            Some((Maybe(_) | Number | Gap, _)) => false,
        },
    }
}
