use proptest::prelude::*;

use super::*;

fn describe(text: &str, old: &str, new: &str, all: bool) -> String {
    match replace(text, old, new, all) {
        Ok(Replaced { text, replacements, rung }) => format!("{rung:?} {replacements}: {text}"),
        Err(NoReplacement::OnlyLineEnds) => "only line ends".into(),
        Err(NoReplacement::NotFound { hint }) => format!("not found; {}", hint.unwrap_or_default()),
        Err(NoReplacement::Several { count, lines }) => format!("{count} times, at {lines:?}"),
    }
}

#[track_caller]
fn check(text: &str, old: &str, new: &str, expect: &str) {
    assert_eq!(describe(text, old, new, false), expect);
}

#[track_caller]
fn check_all(text: &str, old: &str, new: &str, expect: &str) {
    assert_eq!(describe(text, old, new, true), expect);
}

#[test]
fn exact_text() {
    check("one two", "two", "$1 \\n", "Exact 1: one $1 \\n");
    check("a = 1\na = 2\na = 1\n", "a = 1", "b", "2 times, at [1, 3]");
    check_all("a = 1\na = 2\na = 1\n", "a = 1", "b", "Exact 2: b\na = 2\nb\n");
    check_all("aaaaa", "aa", "b", "Exact 2: bba");
    check("a\nb\n", "b\n", "", "Exact 1: a\n");
    // An exact match counts even when another form would be unique.
    check("x 'y'\nx \u{2018}y\u{2019}\nx 'y'\n", "x 'y'", "z", "2 times, at [1, 3]");
}

#[test]
fn line_ends_stay() {
    check("one\r\ntwo\r\nx", "one\ntwo\n", "uno\ndos\ntres\n", "Exact 1: uno\r\ndos\r\ntres\r\nx");
    check("a\rb\rc", "a\nb", "x\ny\nz", "Exact 1: x\ry\rz\rc");
    check("a\r\nb\nc\r\nd\n", "b\nc", "b\nnew\nc", "Exact 1: a\r\nb\nnew\r\nc\r\nd\n");
    check("a\r\nb\nc\r\nd\n", "a\nb\nc\nd\n", "a\nB\nc\nd\n", "Exact 1: a\r\nB\nc\r\nd\n");
    check("a\nb\n", "a\r\nb", "c\r\nd", "Exact 1: c\nd\n");
    check("a\r\nend", "end", "end\nmore", "Exact 1: a\r\nend\r\nmore");
    check("a\r\nb\r\n", "a\nb", "a", "Exact 1: a\r\n");
    check("a\r\nb\r\n", "a\r\n", "a\n", "only line ends");
    check("a\rb\nc", "a\rb", "x\ry", "Exact 1: x\ry\nc");
}

#[test]
fn no_line_end_is_added() {
    check("first\nlast", "last", "final", "Exact 1: first\nfinal");
    check("first\nlast  ", "first\nlast\n", "x\ny\n", "Lines 1: x\ny");
    check("a\nlast", "last\n", "final\n", "Lines 1: a\nfinal");
}

#[test]
fn quotes_and_dashes() {
    check("\u{e9}\u{1F600} say \u{201C}x\u{201D} \u{2014} y", "say \"x\" - y", "z", "Plain 1: \u{e9}\u{1F600} z");
    check("say \"x\"", "say \u{201C}x\u{201D}", "\u{201C}y\u{201D}", "Plain 1: \u{201C}y\u{201D}");
    check_all("\u{2018}a\u{2019} \u{2018}a\u{2019}", "'a'", "b", "Plain 2: b b");
}

#[test]
fn trailing_white_space() {
    check("a  \n\tb\t\nc\n", "a\n\tb", "x\ny", "Lines 1: x\ny\nc\n");
    check("a  \r\nb \r\nc\r\n", "a\nb\n", "x\ny\n", "Lines 1: x\r\ny\r\nc\r\n");
    check("a\nb\n", "a  \nb  ", "x", "Lines 1: x\n");
    check_all("a \nb\nb\na \nb\n", "a\nb", "x", "Lines 2: x\nb\nx\n");
    check("it\u{2019}s \nb\n", "it's\nb", "x", "Lines 1: x\n");
    check("\n \n", "  \n\t", "x", "not found; ");
}

#[test]
fn one_other_indentation() {
    check(
        "{\n    if a {\n\n        b();\n    }\n}\n",
        "if a {\n\n    b();\n}",
        "if c {\n\n    d();\n}",
        "Indent 1: {\n    if c {\n\n        d();\n    }\n}\n",
    );
    check("a\n  b\n", "  a\n    b\n", "  x\n\n    y\n", "Indent 1: x\n\n  y\n");
    check("\ta\n\tb\n", "a\nb", "x\ny", "Indent 1: \tx\n\ty\n");
    // Two places, one line only, uneven shifts, all matches, a new line that cannot lose the indentation.
    check(
        " a\n b\n\n  a\n  b\n",
        "a\nb",
        "x",
        "not found; The nearest place is line 1: line 1 differs in white space or in characters that look alike. The file has: ` a`; oldString has: `a`",
    );
    check(
        "\tx = 1;\n",
        "    x = 1;",
        "y",
        "not found; The nearest place is line 1: line 1 differs in white space or in characters that look alike. The file has: `\\tx = 1;`; oldString has: `    x = 1;`",
    );
    assert!(describe(" a\n  b\n", "a\nb", "x", false).starts_with("not found"));
    assert!(describe(" a\n b\n", "a\nb", "x", true).starts_with("not found"));
    assert!(describe("a\nb\n", " a\n b", "x", false).starts_with("not found"));
}

#[test]
fn the_nearest_place_is_shown() {
    check(
        "one\u{A0}two",
        "one two",
        "x",
        "not found; The nearest place is line 1: line 1 differs in white space or in characters that look alike. The file has: `one<U+00A0>two`; oldString has: `one two`",
    );
    check(
        "a\nb\nc\n",
        "b\nd\n",
        "x",
        "not found; The nearest place is line 2: line 3 is another one. The file has: `c`; oldString has: `d`",
    );
    check("a\nb", "a\nb\nc", "x", "not found; The nearest place is line 1, but the file ends before oldString does.");
    check("abc", "xyz", "q", "not found; ");
}

#[test]
fn bytes_of_an_unknown_encoding_stay() {
    let file = b"title = caf\xE9\r\nport = 80\r\n";
    assert_eq!(replace_bytes(file, "80", "81", false), Ok((b"title = caf\xE9\r\nport = 81\r\n".to_vec(), 1)));
    assert_eq!(replace_bytes(file, "port = 80\n", "a\nb\n", false), Ok((b"title = caf\xE9\r\na\r\nb\r\n".to_vec(), 1)));
    assert_eq!(
        replace_bytes(file, "caf\u{e9}", "th\u{e9}", false),
        Ok((b"title = th\xE9\r\nport = 80\r\n".to_vec(), 1))
    );
    assert_eq!(replace_bytes(file, "80", "\u{e9}", false), Err(BytesFailure::Encoding));
    assert_eq!(replace_bytes(file, "caf\u{e9}", "\u{4e2d}", false), Err(BytesFailure::Encoding));
    assert_eq!(replace_bytes(b"\xE9a a", "a", "b", true), Ok((b"\xE9b b".to_vec(), 2)));
    assert_eq!(
        replace_bytes(b"\xE9a a", "a", "b", false),
        Err(BytesFailure::No(NoReplacement::Several { count: 2, lines: vec![1, 1] }))
    );
    // UTF-8 with one broken place: the old text vouches for UTF-8.
    assert_eq!(replace_bytes(b"\xFF \xC3\xA9", "\u{e9}", "\u{e8}", false), Ok((b"\xFF \xC3\xA8".to_vec(), 1)));
}

fn with_ends(text: &str, end: &str) -> String {
    text.replace('\n', end)
}

proptest! {
    /// With exact text, an edit is a literal replacement, whatever the line ends of the file are.
    #[test]
    fn an_exact_edit_is_literal(
        before in "[ab\n\u{e9}]{0,12}", old in "[xy\n]{0,4}[xy]", new in "[ab\n$\\\\]{0,8}", after in "[ab\n\u{e9}]{0,12}",
        end in prop_oneof![Just("\n"), Just("\r\n"), Just("\r")],
    ) {
        let (before, after) = (before + "|", format!("|{after}"));
        let file = with_ends(&format!("{before}{old}{after}"), end);
        let end = if file.contains(['\n', '\r']) { end } else { "\n" };
        let expect = with_ends(&format!("{before}{new}{after}"), end);
        match replace(&file, &old, &new, false) {
            Ok(found) => {
                prop_assert_eq!(found.text, expect);
                prop_assert_eq!((found.replacements, found.rung), (1, Rung::Exact));
            }
            Err(error) => prop_assert!(old == new, "{:?}", error),
        }
    }

    /// In a file with mixed line ends, every line that the edit does not touch keeps its bytes.
    #[test]
    fn other_lines_keep_their_bytes(
        lines in prop::collection::vec(("[ab]{0,3}", prop_oneof![Just("\n"), Just("\r\n")]), 1..8),
        at in any::<prop::sample::Index>(), new in "[cd]{1,3}(\n[cd]{1,3}){0,2}",
    ) {
        let at = at.index(lines.len());
        let mut file = String::new();
        let (mut head, mut tail) = (String::new(), String::new());
        for (n, (line, end)) in lines.iter().enumerate() {
            let line = if n == at { "XX".to_owned() } else { line.clone() };
            file.extend([line.as_str(), end]);
            if n < at { head.extend([line.as_str(), end]); }
            if n > at { tail.extend([line.as_str(), end]); }
        }
        let end = lines[at].1;
        let found = replace(&file, "XX", &new, false).unwrap();
        prop_assert_eq!(found.text, format!("{head}{}{end}{tail}", with_ends(&new, end)));
    }

    /// Nothing makes it panic, and what it reports as changed is changed.
    #[test]
    fn any_input(text in "[ab \t\r\n'\u{2019}\u{A0}]{0,30}", old in "[ab \t\r\n'\u{2019}]{1,8}", new in "[ab \t\r\n']{0,8}", all in any::<bool>()) {
        if let Ok(found) = replace(&text, &old, &new, all) {
            prop_assert!(found.replacements > 0);
            prop_assert!(all || found.replacements == 1);
        }
        let _any = replace_bytes(text.as_bytes(), &old, &new, all);
    }
}
