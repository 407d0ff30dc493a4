//! Cases: pagination is consistent, and near-duplicates are folded alike on each page.

use super::fixture::*;

/// Pages with equal scores, in three commits.
async fn many(t: &Fixture<'_>, count: usize, simhash: impl Fn(usize) -> u64) {
    let pages: Vec<IndexedPage> = (0..count)
        .map(|n| IndexedPage {
            simhash: simhash(n),
            ..page(&format!("http://a.org/{n:04}"), "x", "the same words")
        })
        .collect();
    for start in 0..3 {
        t.write(&pages.iter().skip(start).step_by(3).cloned().collect::<Vec<_>>()).await;
    }
}

/// All hits, with this page size.
async fn in_parts(t: &Fixture<'_>, search: &SearchRequest, limit: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut offset = 0;
    loop {
        let results = t.search(&SearchRequest { offset, limit, ..search.clone() }).await;
        assert!(results.hits.len() <= limit);
        found.extend(names(&results));
        assert!(found.len() < 10_000, "a list must end");
        match results.next_offset {
            Some(next) => offset = next,
            None => return found,
        }
    }
}

fn spread(n: usize) -> u64 {
    (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

pub(super) async fn equal_scores_are_in_order_of_url_and_parts_fit_together(t: Fixture<'_>) {
    many(&t, 300, spread).await;
    let expected: Vec<String> = (0..300).map(|n| format!("{n:04}")).collect();
    for query in ["same", "host:a.org"] {
        for limit in [7, 100, 300, 1000] {
            for fold in [false, true] {
                let search = SearchRequest { collapse_duplicates: fold, ..SearchRequest::new(query) };
                assert_eq!(in_parts(&t, &search, limit).await, expected, "{query} by {limit}");
            }
        }
    }
    let nothing = t.search(&SearchRequest { limit: 0, ..SearchRequest::new("same") }).await;
    assert_eq!((nothing.total, nothing.hits.len(), nothing.next_offset), (300, 0, None));
    let beyond = t.search(&SearchRequest { offset: 300, ..SearchRequest::new("same") }).await;
    assert_eq!((beyond.total, beyond.hits.len(), beyond.next_offset), (300, 0, None));
}

pub(super) async fn near_duplicates_are_folded_alike_in_every_part(t: Fixture<'_>) {
    // Ten families of thirty: each page within a bit of its family's first.
    many(&t, 300, |n| spread(n % 10) ^ if n < 10 { 0 } else { 1 << (n % 64) }).await;
    let expected: Vec<String> = (0..10).map(|n| format!("{n:04}")).collect();
    for limit in [1, 3, 10, 50] {
        assert_eq!(in_parts(&t, &SearchRequest::new("same"), limit).await, expected, "by {limit}");
    }
    let results = t.search(&SearchRequest::new("same")).await;
    assert_eq!(results.total, 300, "all that match");
    let first = &results.hits[0];
    let duplicates: Vec<String> = first.duplicates.iter().map(|duplicate| name(&duplicate.url)).collect();
    assert_eq!(duplicates, ["0010", "0020", "0030", "0040", "0050"]);
    assert!(first.duplicates.iter().all(|duplicate| duplicate.distance == 1));
    let plain = t.search(&SearchRequest { collapse_duplicates: false, ..SearchRequest::new("same") }).await;
    assert!(plain.hits.iter().all(|hit| hit.duplicates.is_empty()));
    assert_eq!(names(&plain)[9], "0009");
}

pub(super) async fn three_bits_are_near_four_are_not_and_no_text_is_like_no_other(t: Fixture<'_>) {
    let of = |url: &str, text: &str, simhash| IndexedPage { simhash, ..page(url, "word", text) };
    t.write(&[
        of("http://a.org/1", "some text", 0),
        of("http://a.org/2", "some text", 0b111),
        of("http://a.org/3", "some text", 0b1111),
        of("http://a.org/4", "", 0),
        of("http://a.org/5", "", 0),
    ])
    .await;
    let results = t.search(&SearchRequest::new("word")).await;
    let mut found = names(&results);
    found.sort();
    assert_eq!(found, ["1", "3", "4", "5"]);
}

pub(super) async fn a_page_of_nothing_but_duplicates_ends(t: Fixture<'_>) {
    many(&t, 400, |_| 42).await;
    let results = t.search(&SearchRequest { limit: 3, ..SearchRequest::new("same") }).await;
    assert_eq!((results.total, results.hits.len(), results.next_offset), (400, 1, None));
}
