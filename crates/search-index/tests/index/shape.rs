//! Snapshots of results as JSON and of snippets.

use crate::support::{page, with};
use crawlway_store::{IndexedPage, pages::SearchRequest};

#[tokio::test]
async fn results_as_json() {
    let first = IndexedPage {
        description: Some("About <crawlers>".into()),
        simhash: u64::MAX,
        ..page("http://a.org/1", "Crawlers & robots", "a crawler reads pages, <politely>")
    };
    let second = IndexedPage {
        simhash: u64::MAX - 1,
        ..page("http://a.org/2", "Copy", "a crawler reads pages as well")
    };
    let third = page("http://b.org/3", "Other", "one more crawler, and many words that say other things");
    let set = with(vec![first, second, third]).await;
    let mut results =
        set.search(&SearchRequest { limit: 1, ..SearchRequest::new("crawler OR title:robots") }).await;
    // Scores may change with Tantivy.
    results.hits.iter_mut().for_each(|hit| hit.score = 1.5);
    insta::assert_snapshot!(serde_json::to_string_pretty(&results).unwrap());
}

#[tokio::test]
async fn snippets() {
    let filler = "filler words that say nothing of interest stand here. ".repeat(12);
    let text = format!("It begins with this. {filler}Here a polite crawler waits for its turn. {filler}");
    let set = with(vec![page("http://a.org/1", "Only the title says robots", &text)]).await;
    let mut shown = Vec::new();
    for query in [
        "crawler",
        "\"polite crawler\"",
        "polite turn",
        "robots",
        "host:a.org",
        "interest -absent",
        "title:robots",
    ] {
        shown.push(format!("{query}\n    {}", set.search(&SearchRequest::new(query)).await.hits[0].snippet));
    }
    insta::assert_snapshot!(shown.join("\n"));
}
