//! Tests of the query language and of its error messages.

use super::{super::SearchError, *};
use crate::Timestamp;
use proptest::prelude::*;

fn word(text: &str) -> Query {
    Query::Word(text.into())
}

fn phrase(text: &str) -> Query {
    Query::Phrase(text.into())
}

fn not(query: Query) -> Query {
    Query::Not(Box::new(query))
}

fn read(text: &str) -> Query {
    Query::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> (usize, String) {
    match Query::parse(text) {
        Err(SearchError::Query { at, problem }) => (at, problem),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn words_phrases_and_operators() {
    assert_eq!(read("rust"), word("rust"));
    assert_eq!(read(" rust  AND crawler "), read("rust crawler"));
    assert_eq!(read("rust crawler"), Query::All(vec![word("rust"), word("crawler")]));
    assert_eq!(read("\"a  polite crawler\""), phrase("a polite crawler"));
    assert_eq!(read("“a polite crawler”"), phrase("a polite crawler"));
    assert_eq!(
        read("a b OR c"),
        Query::Any(vec![Query::All(vec![word("a"), word("b")]), word("c")]),
        "AND binds closer than OR"
    );
    assert_eq!(read("a && b || c"), read("a b OR c"));
    assert_eq!(read("a (b OR c)"), Query::All(vec![word("a"), Query::Any(vec![word("b"), word("c")])]));
    assert_eq!(read("a -b"), Query::All(vec![word("a"), not(word("b"))]));
    assert_eq!(read("a NOT b"), read("a -b"));
    assert_eq!(read("a -\"b c\""), Query::All(vec![word("a"), not(phrase("b c"))]));
    assert_eq!(read("a (-b -c)"), Query::All(vec![word("a"), not(word("b")), not(word("c"))]));
    assert_eq!(read("NOT NOT a"), word("a"));
    assert_eq!(read("and or not"), Query::All(vec![word("and"), word("or"), word("not")]));
    assert_eq!(read("\"AND\""), phrase("AND"));
}

#[test]
fn fields() {
    assert_eq!(read("title:rust"), Query::TitleWord("rust".into()));
    assert_eq!(read("Title:\"polite crawler\""), Query::TitlePhrase("polite crawler".into()));
    assert_eq!(read("host:Example.ORG."), Query::Host("example.org".into()));
    assert_eq!(read("host:*.example.org"), Query::Host("example.org".into()));
    assert_eq!(read("host:müller.example"), Query::Host("xn--mller-kva.example".into()));
    assert_eq!(read("a -host:x.org"), Query::All(vec![word("a"), not(Query::Host("x.org".into()))]));
}

#[test]
fn dates_include_their_last_day() {
    let day = |month, day| Day::new(2026, month, day).map(Moment::Day);
    assert_eq!(read("date:2026-01-01..2026-02-01"), Query::Crawled { from: day(1, 1), to: day(2, 1) });
    assert_eq!(read("date:2026-01-01.."), Query::Crawled { from: day(1, 1), to: None });
    assert_eq!(read("date:..2026-01-01"), Query::Crawled { from: None, to: day(1, 1) });
    assert_eq!(read("date:2026-01-05"), Query::Crawled { from: day(1, 5), to: day(1, 5) });
    assert_eq!(read("date:2026-02"), Query::Crawled { from: day(2, 1), to: day(2, 28) });
    assert_eq!(read("date:2026"), Query::Crawled { from: day(1, 1), to: day(12, 31) });
    assert_eq!(read("after:2026-02"), Query::Crawled { from: day(2, 1), to: None });
    assert_eq!(read("before:2026-02"), Query::Crawled { from: None, to: day(2, 28) });
}

#[test]
fn filters_read_every_spelling_of_iso_8601() {
    let day = |month, day| Day::new(2026, month, day).map(Moment::Day);
    assert_eq!(read("after:20260201"), Query::Crawled { from: day(2, 1), to: None });
    let noon = Timestamp::from_iso("2026-02-01T12:00:00Z").map(Moment::Time);
    for time in
        ["2026-02-01T12:00:00Z", "2026-02-01t13:00+0100", "20260201T120000Z", "2026-02-01T12:00:00.000Z"]
    {
        assert_eq!(read(&format!("after:{time}")), Query::Crawled { from: noon, to: None }, "{time}");
        let range = Query::Crawled { from: day(1, 1), to: noon };
        assert_eq!(read(&format!("date:2026-01-01..{time}")), range, "{time}");
        assert_eq!(read(&range.to_string()), range, "it reads as what it is printed as");
    }
    assert!(Query::parse("date:2026-02-01T12:00Z..2026-01-31").is_err(), "it ends before it starts");
}

#[test]
fn pasted_text_is_accepted() {
    for text in [
        "C++",
        "e-mail@x.org",
        "12:30",
        "https://example.org/a?b=c#d",
        "std::vec",
        "note:",
        "+rust",
        "--help",
        "日本語",
    ] {
        assert_eq!(read(text), word(text));
    }
    assert_eq!(read("R & D"), Query::All(vec![word("R"), word("D")]));
    assert_eq!(read("rust - crawler"), Query::All(vec![word("rust"), word("crawler")]));
    assert_eq!(read("well-known"), word("well-known"));
    let wiki = read("https://en.example.org/wiki/Rust_(language)");
    assert_eq!(wiki, Query::All(vec![word("https://en.example.org/wiki/Rust_"), word("language")]));
}

#[test]
fn invalid_queries_are_explained() {
    let deep = format!("{}a{}", "(".repeat(21), ")".repeat(21));
    let many = "a ".repeat(101);
    let long = "a".repeat(1001);
    let lines: Vec<String> = [
        "",
        "  ",
        "&&&",
        "\"...\"",
        "a \"b",
        "a \"b c d",
        "(a",
        "a (b",
        "a)",
        ")",
        "()",
        "a (",
        "-a",
        "NOT a",
        "a OR -b",
        "-a -b",
        "a AND",
        "AND a",
        "a OR OR b",
        "a NOT",
        "(a OR)",
        "a -& b",
        "NOT & a",
        "foo:bar",
        "site:example.org",
        "intitle:x",
        "foo:\"bar baz\"",
        "title:",
        "title: rust",
        "title:(a b)",
        "host:",
        "host:http://x.org",
        "host:\"a b\"",
        "host:*",
        "date:",
        "date:yesterday",
        "date:2026-02-30",
        "date:2026-13",
        "date:1066",
        "date:..",
        "date:2026-02-01..2026-01-01",
        "a date:2026-1-1",
        "after:",
        &deep,
        &many,
        &long,
    ]
    .into_iter()
    .map(|text| {
        let (at, problem) = refused(text);
        let shown: String = text.chars().take(40).collect();
        format!("{shown:<40} {at:>4}: {problem}")
    })
    .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn depth_is_bounded_whatever_makes_it_deep() {
    for unit in ["(", "NOT ", "(-", "-("] {
        let text: String = unit.repeat(2000 / unit.len());
        let _ = refused(&text.chars().take(MAX_CHARACTERS - 1).chain(['a']).collect::<String>());
    }
}

fn holds(text: &str) -> Result<(), TestCaseError> {
    match Query::parse(text) {
        Ok(query) => {
            let printed = query.to_string();
            prop_assert_eq!(Query::parse(&printed), Ok(query), "printed as {}", printed);
        }
        Err(SearchError::Query { at, problem }) => {
            let length = text.chars().count();
            prop_assert!((1..=length.max(1)).contains(&at), "{} in {} characters: {}", at, length, problem);
        }
        Err(other) => prop_assert!(false, "{}", other),
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_in_place(text in any::<String>()) {
        holds(&text)?;
    }

    #[test]
    fn anything_like_a_query_is_read_or_refused_in_place(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "a", "bc", "é", "日本", "AND", "OR", "NOT", "-", "--", "(", ")", "\"", "“", " ", " ", " ", ":", "::", "/", ".",
                "host:", "title:", "date:", "after:", "before:", "x.org", "2026-01-01", "2026", "..", "&", "&&", "||", "*", "foo:",
            ]),
            0..24,
        )
    ) {
        holds(&parts.concat())?;
    }
}
