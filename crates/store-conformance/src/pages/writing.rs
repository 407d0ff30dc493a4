//! Cases: a page is stored once per URL, in its latest version.

use super::fixture::*;

const URL: &str = "https://a.example/";

pub(super) async fn every_field_comes_back(t: Fixture<'_>) {
    let full = IndexedPage {
        item: "item-1".to_owned(),
        url: "https://b.example:8080/path?query=1".to_owned(),
        host: "b.example".to_owned(),
        title: "A Title, with Case".to_owned(),
        description: Some("What it is about".to_owned()),
        text: "the text  of the page\n\nas it is".to_owned(),
        crawled_at: Timestamp::from_millis(1_700_000_000_001),
        status_code: 203,
        simhash: u64::MAX - 1,
    };
    let bare = IndexedPage { title: String::new(), text: String::new(), simhash: 0, ..page(URL, "") };
    let empty = IndexedPage { description: Some(String::new()), ..page("https://c.example/", "x") };
    for page in [full, bare, empty] {
        t.write(from_ref(&page)).await;
        assert_eq!(t.get(&page.url).await, Some(page), "the page as it was written");
    }
}

pub(super) async fn a_page_replaces_the_one_of_its_url(t: Fixture<'_>) {
    t.write(&[page(URL, "before"), page("https://b.example/", "another")]).await;
    let new = IndexedPage { item: "another item".to_owned(), status_code: 206, ..page(URL, "after") };
    t.write(from_ref(&new)).await;
    assert_eq!(t.get(URL).await.as_ref(), Some(&new), "the later one");
    assert_eq!(t.count().await, 2, "each URL counts once");
    assert_eq!(t.scan(None, 10).await, [new, page("https://b.example/", "another")], "each is there once");
}

pub(super) async fn of_two_crawled_at_one_time_the_later_arrival_counts(t: Fixture<'_>) {
    t.write(&[page(URL, "first"), page("https://b.example/", "x"), page(URL, "second"), page(URL, "third")])
        .await;
    assert_eq!(t.get(URL).await, Some(page(URL, "third")), "the last one of the batch");
    assert_eq!(t.count().await, 2, "each URL counts once");
    assert_eq!(t.scan(None, 10).await.len(), 2, "each is there once");
    assert_eq!(t.with_word("first").await, [""; 0], "the first one cannot be found");
    t.write(&[page(URL, "fourth")]).await;
    assert_eq!(t.get(URL).await, Some(page(URL, "fourth")), "the later batch");
}

pub(super) async fn writing_again_changes_nothing(t: Fixture<'_>) {
    let pages = [page(URL, "one"), page("https://b.example/", "two")];
    for _ in 0..3 {
        t.write(&pages).await;
        assert_eq!((t.count().await, t.scan(None, 10).await), (2, pages.to_vec()), "the same as before");
    }
}

pub(super) async fn a_page_can_be_found_once_it_is_written(t: Fixture<'_>) {
    for number in 0..5 {
        let url = format!("https://a.example/{number}");
        t.write(&[page(&url, &format!("marker{number} lighthouse"))]).await;
        assert_eq!(t.with_word(&format!("marker{number}")).await, [url], "at once");
    }
    assert_eq!(t.with_word("lighthouse").await.len(), 5, "all of them");
    assert_eq!(t.with_word("submarine").await, [""; 0], "no page has this word");
}

pub(super) async fn a_replaced_page_is_found_by_what_it_says_now(t: Fixture<'_>) {
    t.write(&[page(URL, "lighthouse"), page("https://b.example/", "lighthouse")]).await;
    t.write(&[page(URL, "submarine")]).await;
    assert_eq!(t.with_word("lighthouse").await, ["https://b.example/"], "not by what it said before");
    assert_eq!(t.with_word("submarine").await, [URL], "by what it says now");
    t.remove(&["https://b.example/"]).await;
    assert_eq!(t.with_word("lighthouse").await, [""; 0], "not at all once it is removed");
}
