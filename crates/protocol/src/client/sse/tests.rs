//! Frames come out alike however the bytes are cut.

use super::{Frame, Frames};

#[track_caller]
fn check(text: &str, expected: &[(Option<&str>, &str)]) {
    let expected: Vec<Frame> =
        expected.iter().map(|(id, data)| Frame { id: id.map(str::to_owned), data: (*data).to_owned() }).collect();
    for size in 1..=text.len() {
        let mut frames = Frames::default();
        let mut got = Vec::new();
        for chunk in text.as_bytes().chunks(size) {
            got.extend(frames.push(chunk).unwrap());
        }
        assert_eq!(got, expected, "in chunks of {size}");
    }
}

#[test]
fn frames() {
    check("data: a\n\n", &[(None, "a")]);
    check(": heartbeat\n\nid: 4\ndata: {\"x\":1}\n\n", &[(Some("4"), "{\"x\":1}")]);
    check("data:a\r\ndata: b\r\n\r\ndata: ü\r\r", &[(None, "a\nb"), (None, "ü")]);
    check("event: message\nretry: 3\nid\ndata: x\n\nid: 9\n\ndata: unfinished", &[(Some(""), "x")]);
}
