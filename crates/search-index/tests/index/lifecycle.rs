//! Opening, merging, closing, reopening; and reading while writing.

use crate::support::{page, with};
use crawlway_search_index::{IndexOptions, OpenError, TantivyIndex};
use crawlway_store::{PageIndex, StoreError, pages::SearchRequest};
use std::{fs, sync::Arc};

fn open(directory: &std::path::Path) -> Result<TantivyIndex, OpenError> {
    TantivyIndex::open(directory, IndexOptions::default())
}

/// Number of searchable segments.
fn segments(directory: &std::path::Path) -> usize {
    let meta = fs::read(directory.join("pages-1/meta.json")).expect("an index has one");
    let meta: serde_json::Value = serde_json::from_slice(&meta).expect("it is JSON");
    meta["segments"].as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn segments_are_merged_when_idle() {
    let set = with(vec![page("http://a.org/0", "x", "word")]).await;
    for n in 1..12 {
        set.index.write([page(&format!("http://a.org/{n}"), "x", "word")].into()).await.unwrap();
    }
    let began = std::time::Instant::now();
    // Fewer than ten of a size stay as they are.
    while segments(set.directory.path()) >= 10 {
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "not merged");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(set.index.count().await, Ok(12));
    let later = page("http://a.org/3", "x", "another");
    set.index.write([later.clone()].into()).await.unwrap();
    assert_eq!(set.index.count().await, Ok(12));
    assert_eq!(set.index.get("http://a.org/3").await, Ok(Some(later)));
}

#[tokio::test]
async fn pages_are_there_after_reopening() {
    let set = with(vec![page("http://a.org/1", "x", "word")]).await;
    let error = open(set.directory.path()).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    set.index.close().await.unwrap();
    set.index.close().await.unwrap();
    assert_eq!(set.index.count().await, Err(StoreError::Closed));
    assert_eq!(set.index.write([page("http://a.org/2", "x", "y")].into()).await, Err(StoreError::Closed));
    assert_eq!(set.index.get("http://a.org/1").await, Err(StoreError::Closed));
    let again = open(set.directory.path()).unwrap();
    assert_eq!(again.count().await, Ok(1));
    drop(again);
    let again = open(set.directory.path()).unwrap();
    assert_eq!(again.search(&SearchRequest::new("word")).await.unwrap().total, 1);
}

#[tokio::test]
async fn a_newer_or_damaged_index_is_refused_with_advice() {
    let set = with(vec![page("http://a.org/1", "x", "word")]).await;
    set.index.close().await.unwrap();
    let directory = set.directory.path();
    let description = fs::read_to_string(directory.join("index.json")).unwrap();
    fs::write(directory.join("index.json"), description.replace("\"version\":1", "\"version\":99")).unwrap();
    let error = open(directory).unwrap_err().to_string();
    assert!(error.contains("version 99") && error.contains("newer program"), "{error}");
    fs::write(directory.join("index.json"), "{").unwrap();
    let error = open(directory).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    fs::write(directory.join("index.json"), &description).unwrap();
    let folder = directory.join("pages-1");
    let meta = fs::read(folder.join("meta.json")).unwrap();
    fs::write(folder.join("meta.json"), "not json").unwrap();
    let error = open(directory).unwrap_err().to_string();
    assert!(error.contains("is damaged") && error.contains("move the directory away"), "{error}");
    fs::write(folder.join("meta.json"), meta).unwrap();
    let segment = fs::read_dir(&folder)
        .unwrap()
        .flatten()
        .find(|entry| entry.path().extension().is_some_and(|e| e == "store"));
    fs::write(segment.unwrap().path(), "").unwrap();
    let error = open(directory).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn unusable_options_and_urls_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for options in [
        IndexOptions { memory: 1 << 20, ..IndexOptions::default() },
        IndexOptions { threads: 0, ..IndexOptions::default() },
    ] {
        let error = TantivyIndex::open(directory.path(), options).unwrap_err();
        assert!(matches!(error, OpenError::InvalidOptions { .. }), "{error}");
    }
    let index = open(directory.path()).unwrap();
    for url in [String::new(), "x".repeat(40_000)] {
        let error = index.write([page(&url, "x", "y")].into()).await.unwrap_err();
        assert!(matches!(error, StoreError::Invalid { .. }), "{error}");
    }
    let long = "x".repeat(32_000);
    index.write([page(&long, "x", "y")].into()).await.unwrap();
    assert!(index.get(&long).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_goes_on_while_many_write() {
    let set = Arc::new(with(vec![]).await);
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let set = Arc::clone(&set);
            tokio::spawn(async move {
                for n in 0..12 {
                    // Half of the URLs are everyone's.
                    let own = if n % 2 == 0 { writer } else { 99 };
                    let url = format!("http://a.org/{own}-{n}");
                    set.index.write([page(&url, "x", "word")].into()).await.unwrap();
                    assert!(set.index.get(&url).await.unwrap().is_some(), "found as soon as it is written");
                }
            })
        })
        .collect();
    let reader = tokio::spawn({
        let set = Arc::clone(&set);
        async move {
            let mut last = 0;
            while last < 8 * 6 + 6 {
                let results = set.search(&SearchRequest { limit: 100, ..SearchRequest::new("word") }).await;
                assert!(results.total >= last, "pages do not go away");
                last = results.total;
            }
        }
    });
    for writer in writers {
        writer.await.unwrap();
    }
    reader.await.unwrap();
    assert_eq!(set.index.count().await, Ok(8 * 6 + 6));
}
