//! Wildcards of rules.

/// Says whether the whole of `value` matches `pattern`: `*` is any run of characters, `?` one character, `\` and `/`
/// are the same; a pattern that ends in `" *"` also matches without that tail. Case counts, except on Windows.
///
/// Takes time in proportion to the product of the lengths at worst, and no limit on length: a limit would let a long
/// command slip past a deny rule.
pub fn matches(value: &str, pattern: &str) -> bool {
    let value: Vec<char> = value.chars().map(fold).collect();
    let pattern: Vec<char> = pattern.chars().map(fold).collect();
    if let Some(head) = pattern.strip_suffix(&[' ', '*'])
        && glob(&value, head)
    {
        return true;
    }
    glob(&value, &pattern)
}

fn fold(char: char) -> char {
    let char = if char == '\\' { '/' } else { char };
    if cfg!(windows) { char.to_lowercase().next().unwrap_or(char) } else { char }
}

/// The two-pointer loop: on a mismatch it goes back to the last `*` and lets that take one character more.
fn glob(value: &[char], pattern: &[char]) -> bool {
    let (mut at, mut rule) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while let Some(char) = value.get(at) {
        match pattern.get(rule) {
            Some('*') => {
                retry = Some((rule + 1, at));
                rule += 1;
            }
            Some(expected) if *expected == '?' || expected == char => {
                at += 1;
                rule += 1;
            }
            Some(_) | None => {
                let Some((after_star, taken)) = retry else { return false };
                retry = Some((after_star, taken + 1));
                at = taken + 1;
                rule = after_star;
            }
        }
    }
    pattern.iter().skip(rule).all(|char| *char == '*')
}
