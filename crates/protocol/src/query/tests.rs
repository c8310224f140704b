//! Queries are read as they are written, and what does not fit is named.

use super::*;

#[track_caller]
fn check<Q: Query + std::fmt::Debug + PartialEq>(text: &str, expected: &Q) {
    let raw = RawQuery::parse(text);
    assert_eq!(&Q::parse(&raw).unwrap(), expected);
    let written = expected
        .pairs()
        .iter()
        .map(|(name, value)| format!("{name}={}", crate::route::encode(value)))
        .collect::<Vec<_>>()
        .join("&");
    assert_eq!(&Q::parse(&RawQuery::parse(&written)).unwrap(), expected, "{written}");
}

#[track_caller]
fn fails<Q: Query + std::fmt::Debug>(text: &str, message: &str) {
    let error = Q::parse(&RawQuery::parse(text)).unwrap_err();
    assert_eq!(error.message(), message);
    assert_eq!(error.body()["kind"], "Query");
}

#[test]
fn queries() {
    check("", &NoQuery);
    check("limit=7&after=0", &HistoryQuery { limit: Some(7), after: Some(Seq(0)), ..HistoryQuery::default() });
    check("view=full", &EventsQuery { after: None, view: ViewKind::Full });
    check("after=4&follow=true", &LogQuery { after: Some(Seq(4)), follow: true });
    check(
        "order=asc&cursor=abc",
        &MessagesQuery { order: Some(ListOrder::Asc), cursor: Some("abc".to_owned()), ..MessagesQuery::default() },
    );
    check(
        "search=a%20b+c&directory=%2Fx",
        &SessionsQuery {
            search: Some("a b c".to_owned()),
            directory: Some("/x".to_owned()),
            ..SessionsQuery::default()
        },
    );
    check(
        "query=&type=directory",
        &FindFilesQuery { kind: Some(crate::wire::EntryKind::Directory), ..FindFilesQuery::default() },
    );
    check("cursor=-1&ticket=t", &ConnectQuery { cursor: Some(-1), ticket: Some("t".to_owned()) });
}

#[test]
fn what_does_not_fit() {
    fails::<HistoryQuery>("limit=0", "Expected a value greater than 0, got 0\n  at [\"limit\"]");
    fails::<HistoryQuery>("limit=101", "Expected a value less than or equal to 100, got 101\n  at [\"limit\"]");
    fails::<HistoryQuery>("limit=abc", "Expected a number, got \"abc\"\n  at [\"limit\"]");
    fails::<HistoryQuery>("after=-1", "Expected a value greater than or equal to 0, got -1\n  at [\"after\"]");
    fails::<HistoryQuery>("after=1.5", "Expected an integer, got 1.5\n  at [\"after\"]");
    fails::<MessagesQuery>("order=sideways", "Expected \"asc\" | \"desc\", got \"sideways\"\n  at [\"order\"]");
    fails::<SessionsQuery>("directory=relative", "Expected an absolute path, got \"relative\"\n  at [\"directory\"]");
    fails::<FindFilesQuery>("", "Expected a string, got undefined\n  at [\"query\"]");
    let error = location(&RawQuery::parse("location=%7B%7D")).unwrap_err();
    assert_eq!(error.body()["kind"], "Query");
}

#[test]
fn locations() {
    let raw = RawQuery::parse("location%5Bdirectory%5D=%2Fa%20b&location[workspace]=wrk_1");
    let (directory, workspace) = location(&raw).unwrap();
    assert_eq!((directory.as_deref(), workspace.unwrap().as_str()), (Some("/a b"), "wrk_1"));
}
