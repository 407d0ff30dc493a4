//! Cases: pages are read one by one, scanned, counted and removed.

use super::fixture::*;

fn urls_of(pages: &[IndexedPage]) -> Vec<&str> {
    pages.iter().map(|page| page.url.as_str()).collect()
}

pub(super) async fn an_unknown_url_is_none(t: Fixture<'_>) {
    assert_eq!(t.get("https://a.example/").await, None, "there is no page");
    t.write(&[page("https://a.example/path", "x")]).await;
    for unknown in ["https://a.example/", "https://a.example/Path", "https://a.example/path/", "path", ""] {
        assert_eq!(t.get(unknown).await, None, "`{unknown}` was not written");
    }
}

pub(super) async fn pages_are_counted(t: Fixture<'_>) {
    assert_eq!(t.count().await, 0, "there is none");
    for number in 0..5 {
        t.write(&[page(&format!("https://a.example/{number}"), "x")]).await;
        assert_eq!(t.count().await, number + 1, "one more");
    }
    t.remove(&["https://a.example/3"]).await;
    assert_eq!(t.count().await, 4, "one less");
}

pub(super) async fn a_scan_is_in_order_of_url_and_goes_on(t: Fixture<'_>) {
    assert_eq!(t.scan(None, 10).await, [], "there is none");
    let paths = ["-", "0", "10", "9", "B", "Z", "_", "a", "a-b", "aB", "ab", "b", "\u{e9}"];
    let pages = paths.map(|path| page(&format!("https://a.example/{path}"), path));
    // Several writes, so that an index that keeps them apart has to merge them.
    for page in pages.iter().rev() {
        t.write(from_ref(page)).await;
    }
    assert_eq!(t.scan(None, 100).await, pages, "in order of URL, as octets have it");
    for most in [1, 4, 13] {
        assert_eq!(t.scan_all(most).await, pages, "the same, {most} at a time");
    }
    assert_eq!(t.scan(None, 0).await, [], "none were asked for");
}

pub(super) async fn a_scan_goes_on_after_what_is_gone(t: Fixture<'_>) {
    let pages = ["1", "2", "3", "4"].map(|path| page(&format!("https://a.example/{path}"), path));
    t.write(&pages).await;
    t.remove(&["https://a.example/2"]).await;
    let rest = t.scan(Some("https://a.example/2"), 10).await;
    assert_eq!(urls_of(&rest), ["https://a.example/3", "https://a.example/4"], "what comes after it");
    assert_eq!(t.scan(Some("https://a.example/4"), 10).await, [], "nothing comes after the last one");
    assert_eq!(
        urls_of(&t.scan(Some(""), 1).await),
        ["https://a.example/1"],
        "everything comes after nothing"
    );
}

pub(super) async fn removing_says_how_many_there_were(t: Fixture<'_>) {
    t.write(&["1", "2", "3"].map(|path| page(&format!("https://a.example/{path}"), path))).await;
    let removed = t.remove(&["https://a.example/1", "https://a.example/x", "https://a.example/3"]).await;
    assert_eq!(removed, 2, "one of three was not there");
    assert_eq!(t.remove(&["https://a.example/1"]).await, 0, "it was removed before");
    let removed = t.remove(&["https://a.example/2", "https://a.example/2"]).await;
    assert_eq!(removed, 1, "named twice, it was there once");
    assert_eq!(t.count().await, 0, "none is left");
}

pub(super) async fn a_removed_page_is_gone_and_may_come_again(t: Fixture<'_>) {
    let (one, two) = (page("https://a.example/1", "lighthouse"), page("https://a.example/2", "lighthouse"));
    t.write(&[one.clone(), two.clone()]).await;
    t.remove(&[&one.url]).await;
    assert_eq!(t.get(&one.url).await, None, "it is gone");
    assert_eq!(t.scan(None, 10).await, from_ref(&two), "only the other is left");
    let again = crawled_anew(one);
    t.write(from_ref(&again)).await;
    assert_eq!(t.scan(None, 10).await, [again, two], "it has come again");
}

pub(super) async fn pages_that_match_are_listed_in_order_of_url(t: Fixture<'_>) {
    let at = |host: &str, path: &str, text: &str| IndexedPage {
        host: host.to_owned(),
        ..page(&format!("https://{host}/{path}"), text)
    };
    let pages = [
        at("b.example", "2", "the lighthouse"),
        at("a.example", "9", "a submarine"),
        at("a.example", "10", "Lighthouse"),
        at("www.b.example", "1", "lighthouse and submarine"),
        at("a.example", "B", "no such word, lighthouse keeper"),
        at("a.example", "gone", "lighthouse"),
    ];
    // Several writes, so that an index that keeps them apart has to merge them.
    for page in &pages {
        t.write(from_ref(page)).await;
    }
    t.remove(&["https://a.example/gone"]).await;
    let lighthouses =
        ["https://a.example/10", "https://a.example/B", "https://b.example/2", "https://www.b.example/1"];
    for most in [1, 3, 100] {
        assert_eq!(t.matching("lighthouse", most).await, lighthouses, "{most} at a time");
    }
    let of_host = ["https://b.example/2", "https://www.b.example/1"];
    assert_eq!(t.matching("host:b.example", 1).await, of_host, "a host and those below it");
    assert_eq!(t.matching("absent", 10).await, [""; 0], "no page has this word");
}
