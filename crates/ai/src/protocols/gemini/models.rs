//! What differs between generations of models, by their names. An unknown name counts as new.

/// The number of a generation; `None` for a name without one.
fn generation(id: &str) -> Option<u32> {
    let (_, rest) = id.split_once("gemini-")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    if !digits.is_empty() {
        return digits.parse().ok();
    }
    let is_first = matches!(rest, "pro" | "pro-vision") || rest.starts_with("robotics-er-1.5");
    is_first.then_some(1)
}

/// Whether the model refuses replayed calls without a signature.
pub(super) fn needs_signatures(id: &str) -> bool {
    id.contains("gemini-") && generation(id).is_none_or(|number| number > 2)
}

/// Whether media may stand inside a function response.
pub(super) fn nests_media(id: &str) -> bool {
    generation(id).is_none_or(|number| number > 2)
}

#[cfg(test)]
mod tests {
    use super::{needs_signatures, nests_media};

    #[test]
    fn generations() {
        #[track_caller]
        fn check(id: &str, signatures: bool, nested: bool) {
            assert_eq!((needs_signatures(id), nests_media(id)), (signatures, nested), "{id}");
        }
        check("gemini-1.5-flash", false, false);
        check("gemini-2.0-flash", false, false);
        check("gemini-2.5-pro", false, false);
        check("gemini-pro", false, false);
        check("gemini-pro-vision", false, false);
        check("gemini-robotics-er-1.5-preview", false, false);
        check("gemini-3-pro-preview", true, true);
        check("gemini-3.5-flash", true, true);
        check("gemini-10-pro", true, true);
        check("gemini-flash-latest", true, true);
        check("publishers/google/models/gemini-3-pro", true, true);
        check("gemma-3-27b-it", false, true);
    }
}
