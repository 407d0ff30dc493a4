//! An index of an older version is rebuilt from the pages stored in it.

use crate::support::page;
use crawlway_search_index::{IndexOptions, TantivyIndex};
use crawlway_store::{IndexedPage, PageIndex, pages::SearchRequest};
use std::{fs, path::Path};
use tantivy::{
    Index, IndexWriter, Term, doc,
    schema::{STORED, STRING, Schema, TEXT},
};

/// An index with another schema: no column of URLs, no domains, another tokenizer.
fn make_old(folder: &Path, pages: &[IndexedPage]) {
    let mut schema = Schema::builder();
    let url = schema.add_text_field("url", STRING | STORED);
    let [title, text] = ["title", "text"].map(|name| schema.add_text_field(name, TEXT | STORED));
    let [item, host] = ["item", "host"].map(|name| schema.add_text_field(name, STORED));
    let [at, status, hash] =
        ["crawled_at", "status_code", "simhash"].map(|name| schema.add_u64_field(name, STORED));
    let index = Index::create_in_dir(folder, schema.build()).expect("created");
    let mut writer: IndexWriter = index.writer_with_num_threads(1, 16 << 20).expect("a writer");
    for page in pages {
        let document = doc!(
            url => page.url.as_str(), title => page.title.as_str(), text => page.text.as_str(),
            item => page.item.as_str(), host => page.host.as_str(), at => page.crawled_at.as_millis(),
            status => u64::from(page.status_code), hash => page.simhash,
        );
        writer.add_document(document).expect("added");
    }
    writer.add_document(doc!(url => "http://a.org/removed", text => "word")).expect("added");
    writer.commit().expect("committed");
    writer.delete_term(Term::from_field_text(url, "http://a.org/removed"));
    writer.commit().expect("committed");
}

#[tokio::test]
async fn an_index_of_an_older_version_is_rebuilt() {
    let directory = tempfile::tempdir().unwrap();
    let folder = |number| directory.path().join(format!("pages-{number}"));
    fs::create_dir(folder(4)).unwrap();
    let pages =
        vec![page("http://a.org/1", "Crème", "北京大学 word"), page("http://www.a.org/2", "x", "word")];
    make_old(&folder(4), &pages);
    fs::write(directory.path().join("index.json"), "{\"version\":0,\"folder\":4}").unwrap();
    // Left by a killed rebuild.
    fs::create_dir(folder(5)).unwrap();
    fs::write(folder(5).join("meta.json"), "half").unwrap();

    for _ in 0..2 {
        let index = TantivyIndex::open(directory.path(), IndexOptions::default()).unwrap();
        assert_eq!(
            index.scan(None, 10).await.unwrap(),
            pages,
            "all that was stored, and nothing that was removed"
        );
        for query in ["creme", "京大", "host:a.org"] {
            assert!(index.search(&SearchRequest::new(query)).await.unwrap().total > 0, "{query}");
        }
        index.close().await.unwrap();
        assert!(!folder(4).exists() && folder(5).exists());
    }
}
