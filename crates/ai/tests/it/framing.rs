//! Bytes to frames: the same frames however the bytes arrive, within limits, and never a panic.

use std::collections::VecDeque;

use abide_ai::route::framing::{Frame, Framing, MAX_FRAME_BYTES};
use abide_ai::{AIError, AIErrorKind};
use bytes::Bytes;
use proptest::prelude::*;

fn frames(framing: Framing, pieces: &[&[u8]]) -> Result<Vec<Frame>, AIError> {
    let mut decoder = framing.decoder();
    let mut out = VecDeque::new();
    for piece in pieces {
        decoder.push(&Bytes::copy_from_slice(piece), &mut out)?;
    }
    decoder.finish(&mut out)?;
    Ok(out.into())
}

fn texts(framing: Framing, body: &str) -> Vec<(String, String)> {
    let whole = frames(framing, &[body.as_bytes()]).unwrap();
    let bytes: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
    assert_eq!(frames(framing, &bytes).unwrap(), whole, "byte by byte");
    let name = |frame: &Frame| String::from_utf8(frame.name.to_vec()).unwrap();
    whole.iter().map(|frame| (name(frame), frame.text().into_owned())).collect()
}

#[track_caller]
fn check(framing: Framing, body: &str, wanted: &[(&str, &str)]) {
    let wanted: Vec<_> = wanted.iter().map(|(name, data)| ((*name).to_owned(), (*data).to_owned())).collect();
    assert_eq!(texts(framing, body), wanted);
}

#[test]
fn events() {
    check(Framing::Sse, "data: a\n\ndata: b\n\n", &[("", "a"), ("", "b")]);
    check(Framing::Sse, "data:a\r\n\r\ndata:  b\r\rdata: c\n\r\n", &[("", "a"), ("", " b"), ("", "c")]);
    check(Framing::Sse, "\u{feff}data: a\n\n", &[("", "a")]);
    check(Framing::Sse, "data: a\ndata: b\ndata:\ndata: c\n\n", &[("", "a\nb\n\nc")]);
    check(Framing::Sse, ": c\n\nid: 1\n\ndata:\n\nretry: 5\ndata: a\nother: x\n\n", &[("", "a")]);
    check(Framing::Sse, "data: : keep-alive\n\ndata: a\n\n", &[("", "a")]);
    check(Framing::Sse, "event: ping\n\ndata: a\n\n", &[("", "a")]);
    check(Framing::Sse, "data: é😀\n\n", &[("", "é😀")]);
    check(Framing::Sse, "data: [DONE]\n\n", &[]);
    check(Framing::SseWithDone, "data: a\n\ndata: [DONE]\n\n", &[("", "a"), ("", "[DONE]")]);
    let named = Framing::SseEvents(&["message", "delta"]);
    check(named, "event: delta\ndata: a\n\nevent: ping\ndata: b\n\ndata: c\n\n", &[("delta", "a"), ("", "c")]);
    check(Framing::Lines, "{\"a\":1}\r\n\n{\"b\":2}", &[("", "{\"a\":1}"), ("", "{\"b\":2}")]);
    check(Framing::Document, " {\n}\n", &[("", " {\n}\n")]);
}

#[test]
fn the_last_event_may_lack_its_end() {
    let cut = frames(Framing::Sse, &[b"data: a\n\ndata: b"]).unwrap();
    assert_eq!(
        cut.iter().map(|frame| (frame.text(), frame.is_cut)).collect::<Vec<_>>(),
        [("a".into(), false), ("b".into(), true)]
    );
}

#[test]
fn invalid_text_is_replaced() {
    let found = frames(Framing::Sse, &[b"data: a\xffb\n\n"]).unwrap();
    assert_eq!(found[0].text(), "a\u{fffd}b");
}

#[test]
fn a_frame_points_into_its_piece() {
    let piece = Bytes::from_static(b"data: abc\n\n");
    let mut out = VecDeque::new();
    Framing::Sse.decoder().push(&piece, &mut out).unwrap();
    assert_eq!(out[0].data.as_ptr(), piece[6..].as_ptr(), "no copy");
}

#[test]
fn frames_are_bounded() {
    for framing in [Framing::Sse, Framing::Lines, Framing::Document] {
        let mut decoder = framing.decoder();
        let mut out = VecDeque::new();
        let piece = Bytes::from(vec![b'x'; 1024 * 1024]);
        let error = (0..=MAX_FRAME_BYTES / piece.len()).find_map(|_| decoder.push(&piece, &mut out).err());
        let error = error.expect("an endless frame fails");
        assert!(matches!(error.kind(), AIErrorKind::InvalidProviderOutput { .. }), "{framing:?}");
    }
    // Many data lines of one event are bounded too.
    let mut decoder = Framing::Sse.decoder();
    let line = Bytes::from([b"data: ".as_slice(), &vec![b'x'; 1024 * 1024], b"\n"].concat());
    let mut out = VecDeque::new();
    assert!((0..20).any(|_| decoder.push(&line, &mut out).is_err()));
}

proptest! {
    #[test]
    fn any_split_gives_the_same_frames(
        body in proptest::collection::vec(
            prop_oneof![
                Just("data: a"), Just("data:"), Just("\n"), Just("\r"), Just("\r\n"), Just(": c"), Just("event: e"),
                Just("é"), Just("data: {\"x\":1}"), Just("\u{feff}"), Just(" "), Just("\n\n"),
            ],
            0..40,
        ),
        cuts in proptest::collection::vec(0_usize..200, 0..12),
    ) {
        let body = body.concat();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(body.len())).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts {
            pieces.push(&body.as_bytes()[from..cut]);
            from = cut;
        }
        pieces.push(&body.as_bytes()[from..]);
        let whole = frames(Framing::SseWithDone, &[body.as_bytes()]).unwrap();
        prop_assert_eq!(frames(Framing::SseWithDone, &pieces).unwrap(), whole);
    }

    #[test]
    fn any_bytes_give_valid_text(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for framing in [Framing::Sse, Framing::SseEvents(&["message"]), Framing::Lines, Framing::Document] {
            for frame in frames(framing, &[&bytes]).unwrap() {
                prop_assert!(std::str::from_utf8(&frame.data).is_ok());
            }
        }
    }
}
