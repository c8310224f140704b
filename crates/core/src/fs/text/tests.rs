use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(bytes: &[u8], expect: Result<(&str, Encoding), NotText>) {
    let text = Text::decode(bytes);
    assert_eq!(text.as_ref().map(|text| (text.text.as_str(), text.encoding)).map_err(|error| *error), expect);
    if let Ok(text) = text {
        assert_eq!(text.encode(&text.text), bytes);
    }
}

#[test]
fn texts_come_back_byte_for_byte() {
    check(b"", Ok(("", Encoding::Utf8)));
    check("h\u{e9}\r\n".as_bytes(), Ok(("h\u{e9}\r\n", Encoding::Utf8)));
    check(b"\xEF\xBB\xBFhi", Ok(("hi", Encoding::Utf8Bom)));
    check(b"\xFF\xFEh\0i\0", Ok(("hi", Encoding::Utf16Le)));
    check(b"\xFE\xFF\0h\xD8\x3D\xDE\x00", Ok(("h\u{1F600}", Encoding::Utf16Be)));
}

#[test]
fn other_bytes_are_named() {
    check(b"caf\xE9\n", Err(NotText::UnknownEncoding { offset: 3, byte: 0xE9 }));
    check(b"a\0b", Err(NotText::Binary));
    check(b"\xE9\0", Err(NotText::Binary));
    check(b"\xFF\xFEh", Err(NotText::DamagedUtf16));
    check(b"\xFF\xFE\0\xD8", Err(NotText::DamagedUtf16));
    check(b"\xFF\xFE\0\0h\0\0\0", Err(NotText::Binary));
}

#[test]
fn one_mark_is_written() {
    assert_eq!(encode_over(None, "a"), b"a");
    assert_eq!(encode_over(None, "\u{FEFF}\u{FEFF}a"), b"\xEF\xBB\xBFa");
    assert_eq!(encode_over(Some(b"\xEF\xBB\xBFx"), "a"), b"\xEF\xBB\xBFa");
    assert_eq!(encode_over(Some(b"\xEF\xBB\xBF\xEF\xBB\xBFx"), "\u{FEFF}a"), b"\xEF\xBB\xBFa");
    assert_eq!(encode_over(Some(b"x"), "a"), b"a");
    assert_eq!(encode_over(Some(b"\xFF\xFEx\0"), "a"), b"\xFF\xFEa\0");
}

#[test]
fn line_ends_are_told_apart() {
    for (text, expect) in [
        ("a", LineEnds::None),
        ("a\nb", LineEnds::Lf),
        ("a\r\nb\r\n", LineEnds::CrLf),
        ("a\rb", LineEnds::Cr),
        ("a\r\nb\n", LineEnds::Mixed),
        ("a\rb\n", LineEnds::Lf),
    ] {
        assert_eq!(LineEnds::of(text), expect, "{text:?}");
    }
}

proptest! {
    #[test]
    fn every_encoding_round_trips(text in "[^\u{FEFF}\0]\\PC{0,20}[\r\n]{0,3}\\PC{0,20}") {
        prop_assume!(!text.contains('\0'));
        for encoding in [Encoding::Utf8, Encoding::Utf8Bom, Encoding::Utf16Le, Encoding::Utf16Be] {
            let bytes = encode(&text, encoding);
            prop_assert_eq!(Text::decode(&bytes), Ok(Text { text: text.clone(), encoding }));
        }
    }
}
