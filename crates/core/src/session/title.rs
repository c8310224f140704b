//! Titles: the first words of the first prompt, without a hidden model request (docs/decisions.md, "titles").

/// Longest title in characters.
const MAX_CHARACTERS: usize = 100;

/// Returns a title for a prompt: its first non-empty line, at most 100 characters; `None` when there is no text.
pub fn from_prompt(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= MAX_CHARACTERS {
        return Some(line);
    }
    let kept: String = line.chars().take(MAX_CHARACTERS - 3).collect();
    Some(format!("{}...", kept.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(from_prompt(text).as_deref(), expected);
    }

    #[test]
    fn the_first_words_become_the_title() {
        check("", None);
        check(" \n\t\n", None);
        check("\n  fix   the\ttest \nmore", Some("fix the test"));
        let long = "word ".repeat(40);
        assert_eq!(from_prompt(&long).map(|title| title.chars().count() <= 100), Some(true));
        assert!(from_prompt(&long).is_some_and(|title| title.ends_with("...")));
    }
}
