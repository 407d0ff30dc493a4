//! Cases: matching and ranking of queries.

use super::fixture::*;

pub(super) async fn a_word_counts_more_in_the_title_and_when_it_is_rare(t: Fixture<'_>) {
    let filler = "many other words stand here and make the text about as long";
    let mut pages = vec![
        page("http://a.org/text", "other things", &format!("crawler {filler}")),
        page("http://a.org/title", "crawler", filler),
    ];
    for n in 0..20 {
        pages.push(page(&format!("http://a.org/common{n}"), "x", &format!("common {filler}")));
    }
    pages.push(page("http://a.org/rare", "x", &format!("rare {filler}")));
    t.write(&pages).await;
    assert_eq!(t.find("crawler").await, ["title", "text"]);
    let results = t.search(&SearchRequest { limit: 30, ..SearchRequest::new("common OR rare") }).await;
    assert_eq!(results.hits[0].url, "http://a.org/rare");
    assert_eq!(results.total, 21);
}

pub(super) async fn words_phrases_operators_and_titles(t: Fixture<'_>) {
    t.write(&[
        page("http://a.org/1", "Polite crawlers", "the quick brown fox"),
        page("http://a.org/2", "Crawlers", "polite is the brown quick fox"),
        page("http://a.org/3", "Foxes", "a fox, and C++ at 12:30; mail e-mail@x.org"),
    ])
    .await;
    for (query, expected) in [
        ("quick brown", "1 2"),
        ("\"quick brown\"", "1"),
        ("\"QUICK   brown fox\"", "1"),
        ("polite crawlers", "1 2"),
        ("\"polite crawlers\"", "1"),
        ("title:polite", "1"),
        ("title:\"polite crawlers\"", "1"),
        ("title:\"crawlers polite\"", ""),
        ("title:fox", ""),
        ("fox -quick", "3"),
        ("fox NOT (brown OR nothing)", "3"),
        ("fox -\"quick brown\"", "2 3"),
        ("fox AND (brown OR mail)", "1 2 3"),
        ("fox (NOT brown OR title:crawlers)", "1 2 3"),
        ("fox (-brown -nothing)", "3"),
        ("absent OR mail", "3"),
        ("absent", ""),
        ("c++", "3"),
        ("e-mail@x.org", "3"),
        ("org@x", ""),
        ("12:30", "3"),
        ("30:12", ""),
        ("fo", ""),
    ] {
        assert_eq!(t.found(query).await, expected, "{query}");
    }
}

pub(super) async fn hosts_and_their_subdomains(t: Fixture<'_>) {
    t.write(&[
        page("http://example.org/1", "x", "word"),
        page("http://www.example.org/2", "x", "word"),
        page("http://notexample.org/3", "x", "word"),
        page("http://127.0.0.1/4", "x", "word"),
    ])
    .await;
    assert_eq!(t.found("host:example.org").await, "1 2");
    assert_eq!(t.found("word host:WWW.example.org").await, "2");
    assert_eq!(t.found("word -host:example.org").await, "3 4");
    assert_eq!(t.found("host:org").await, "1 2 3");
    assert_eq!(t.found("host:127.0.0.1").await, "4");
    assert_eq!(t.found("word (host:notexample.org OR host:127.0.0.1)").await, "3 4");
}

pub(super) async fn dates_include_whole_days(t: Fixture<'_>) {
    let at = |url: &str, millis: u64| {
        let mut page = page(url, "x", "word");
        page.crawled_at = Timestamp::from_millis(millis);
        page
    };
    let first_of_january = 1_767_225_600_000;
    t.write(&[
        at("http://a.org/old", first_of_january - 1),
        at("http://a.org/first", first_of_january),
        at("http://a.org/last", first_of_january + 86_399_999),
        at("http://a.org/next", first_of_january + 86_400_000),
        at("http://a.org/never", u64::MAX),
    ])
    .await;
    for (query, expected) in [
        ("date:2026-01-01", "first last"),
        ("date:2026-01-01..2026-01-02", "first last next"),
        ("date:..2026-01-01", "first last old"),
        ("date:2026-01-02..", "never next"),
        ("after:2026-01-01 before:2026-01-01", "first last"),
        ("word -after:2026-01-01", "old"),
        ("date:2025", "old"),
    ] {
        assert_eq!(t.found(query).await, expected, "{query}");
    }
}

pub(super) async fn a_filter_says_nothing_of_how_well_a_page_fits(t: Fixture<'_>) {
    t.write(&[page("http://a.org/1", "x", "word"), page("http://b.org/2", "x", "word")]).await;
    let plain = t.search(&SearchRequest::new("word")).await.hits[0].score;
    let filtered = t.search(&SearchRequest::new("word host:a.org date:2026-01-01")).await.hits[0].score;
    assert_eq!(plain, filtered);
}

pub(super) async fn a_query_that_cannot_be_asked_is_explained(t: Fixture<'_>) {
    let ask = async |search: SearchRequest| t.refused(&search).await;
    assert!(matches!(ask(SearchRequest::new("\"open")).await, SearchError::Query { at: 1, .. }));
    for search in [
        SearchRequest { limit: 1001, ..SearchRequest::new("a") },
        SearchRequest { offset: 9_995, ..SearchRequest::new("a") },
        SearchRequest { offset: usize::MAX, ..SearchRequest::new("a") },
    ] {
        let error = ask(search).await;
        assert!(matches!(error, SearchError::Store(StoreError::Invalid { .. })), "{error}");
    }
}
