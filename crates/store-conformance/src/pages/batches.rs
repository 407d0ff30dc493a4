//! Cases: batches of any size, and pages of any kind.

use super::fixture::*;

pub(super) async fn empty_batches_are_allowed(t: Fixture<'_>) {
    t.write(&[]).await;
    assert_eq!((t.count().await, t.remove(&[]).await), (0, 0), "nothing was written, nothing removed");
    t.write(&[page("https://a.example/", "x")]).await;
    t.write(&[]).await;
    assert_eq!((t.remove(&[]).await, t.count().await), (0, 1), "what is there stays");
}

pub(super) async fn odd_urls_are_kept_apart(t: Fixture<'_>) {
    let mut urls = odd_urls();
    let pages: Vec<IndexedPage> = urls.iter().map(|url| page(url, url)).collect();
    t.write(&pages).await;
    assert_eq!(t.count().await, urls.len() as u64, "each is a page of its own");
    for page in &pages {
        assert_eq!(t.get(&page.url).await.as_ref(), Some(page), "the page of {:.80}", page.url);
    }
    urls.sort();
    let scanned: Vec<String> = t.scan_all(3).await.into_iter().map(|page| page.url).collect();
    assert_eq!(scanned, urls, "each is scanned once");
    for url in &urls {
        assert_eq!(t.remove(&[url]).await, 1, "only {url:.80} is removed");
    }
}

pub(super) async fn odd_texts_come_back(t: Fixture<'_>) {
    for (number, text) in odd_texts().into_iter().enumerate() {
        let odd = IndexedPage {
            item: format!("item-{number}"),
            title: text.clone(),
            description: Some(text.clone()),
            ..page(&format!("https://a.example/{number}"), &text)
        };
        t.write(from_ref(&odd)).await;
        assert_eq!(t.get(&odd.url).await, Some(odd), "the page as it was written");
    }
}

pub(super) async fn a_big_page_is_kept(t: Fixture<'_>) {
    let words: String = (0..).map(|number| format!("word{number} ")).take(500_000).collect();
    let text = format!("{words}lastword");
    let [big, small] = [page("https://a.example/big", &text), page("https://a.example/small", "lighthouse")];
    t.write(&[big.clone(), small.clone()]).await;
    let kept = t.get(&big.url).await.map(|page| page.text.len());
    assert_eq!(kept, Some(text.len()), "all of it is kept");
    assert!(t.get(&big.url).await.as_ref() == Some(&big), "and as it was");
    // One word of more octets than some indexes take must not fail the call or hide the rest of the page.
    let endless = page("https://a.example/endless", &format!("submarine {}", "x".repeat(1_000_000)));
    t.write(from_ref(&endless)).await;
    assert!(t.get(&endless.url).await.as_ref() == Some(&endless), "it is kept as it was");
    assert_eq!(t.with_word("submarine").await, [endless.url], "it is found by its other words");
    assert_eq!(t.with_word("lighthouse").await, [small.url], "the others are found");
}

pub(super) async fn a_large_batch_is_kept(t: Fixture<'_>) {
    const MANY: usize = 3000;
    let mut pages: Vec<IndexedPage> =
        (0..MANY).map(|number| page(&format!("https://a.example/{number:05}"), "the same for all")).collect();
    t.write(&pages).await;
    assert_eq!(t.count().await, MANY as u64, "all are there");
    assert_eq!(t.scan_all(700).await, pages, "all can be scanned");
    let last = pages.split_off(10);
    let urls: Vec<String> = last.into_iter().map(|page| page.url).collect();
    let removed = expect_ok(t.store.remove(&urls, None).await, "removing many");
    assert_eq!(removed, (MANY - 10) as u64, "all but ten are removed");
    assert_eq!(t.scan(None, MANY).await, pages, "ten are left");
}
