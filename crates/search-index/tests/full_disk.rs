//! A full disk: writes fail cleanly, reads go on, and writes recover once there is room.
#![allow(clippy::print_stdout, reason = "it prints how full the disk was")]

use crawlway_search_index::{IndexOptions, TantivyIndex};
use crawlway_store::{IndexedPage, PageIndex, StoreError, Timestamp, pages::SearchRequest};
use std::path::PathBuf;

fn main() {
    crawlway_testkit::full_disk::run("writes_recover_from_a_full_disk", "16m", fill_and_go_on);
}

/// Text that does not compress well.
fn page(number: u64) -> IndexedPage {
    let mut seed = number;
    let words: Vec<String> = (0..400)
        .map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{:x}", seed >> 30)
        })
        .collect();
    IndexedPage {
        item: format!("{number}"),
        url: format!("http://a.org/{number:06}"),
        host: "a.org".into(),
        title: format!("page {number}"),
        description: None,
        text: words.join(" "),
        crawled_at: Timestamp::from_millis(number),
        status_code: 200,
        simhash: seed,
    }
}

async fn fill_and_go_on(disk: PathBuf) {
    let directory = disk.join("index");
    let index = TantivyIndex::open(&directory, IndexOptions::default()).expect("the directory opens");
    // Space to free later.
    let spare = disk.join("spare");
    std::fs::write(&spare, vec![1; 8 << 20]).expect("there is room");
    let mut stored = 0;
    let error = loop {
        match index.write((stored..stored + 50).map(page).collect()).await {
            Ok(()) => stored += 50,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(stored >= 100, "the disk was filled, with {stored}");
    // Retries of a failed write fail for as long as the disk is full.
    let rest = disk.join("rest");
    let mut file = std::fs::File::create(&rest).expect("a file");
    let mut failed = 0;
    while failed < 5 {
        // Refilled, since the next write first removes the files of the failed one.
        while std::io::Write::write_all(&mut file, &[1; 1024]).is_ok() {}
        match index.write((stored..stored + 50).map(page).collect()).await {
            Ok(()) => (stored, failed) = (stored + 50, 0),
            Err(StoreError::Unavailable { .. }) => failed += 1,
            Err(error) => panic!("{error}"),
        }
    }
    println!("filled with {stored} pages: {error}");
    // Searches go on.
    assert_eq!(index.search(&SearchRequest::new("host:a.org")).await.expect("searched").total, stored);
    assert!(index.get(&page(3).url).await.expect("read").is_some());

    drop(file);
    std::fs::remove_file(&rest).expect("removed");
    std::fs::remove_file(&spare).expect("removed");
    index.write((stored..stored + 50).map(page).collect()).await.expect("writes recover by themselves");
    stored += 50;
    check(&index, stored).await;
    index.close().await.expect("closed");
    let index = TantivyIndex::open(&directory, IndexOptions::default()).expect("it opens again");
    check(&index, stored).await;
}

async fn check(index: &TantivyIndex, stored: u64) {
    assert_eq!(index.count().await, Ok(stored));
    let all = index.scan(None, usize::MAX).await.expect("scanned");
    assert_eq!(all, (0..stored).map(page).collect::<Vec<_>>(), "nothing is lost");
}
