//! Fixture of blobs: putting, reading and listing.

pub(super) use super::Fixture;
pub(super) use crate::prelude::*;
pub(super) use crawlway_store::blobs::*;

/// Largest blob that a case reads into memory.
const MAX: usize = 64 << 20;

pub(super) fn key(text: &str) -> BlobKey {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

pub(super) fn metadata(name: &str) -> BlobMetadata {
    BlobMetadata {
        content_type: Some("text/html; charset=utf-8".to_owned()),
        content_encoding: Some("identity".to_owned()),
        fetched_at: Some(at(7)),
        url: Some(format!("https://a.example/{name}?a=b&c=%20")),
    }
}

impl Fixture<'_> {
    pub(super) async fn put(&self, name: &str, content: &str) -> BlobInfo {
        let put = self.store.put(&key(name), &metadata("page"), once(content.to_owned())).await;
        expect_ok(put, "putting")
    }

    pub(super) async fn read(&self, name: &str) -> Option<String> {
        read(&*self.store, &key(name)).await
    }

    /// Keys of a page.
    pub(super) async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> (Vec<String>, bool) {
        let query = BlobQuery { prefix: prefix.to_owned(), after: after.map(key), limit };
        let page = expect_ok(self.store.list(&query).await, "listing");
        (page.entries.iter().map(|entry| entry.key.to_string()).collect(), page.more)
    }
}

/// Content of a blob as text.
pub(super) async fn read(store: &dyn crawlway_store::BlobStore, key: &BlobKey) -> Option<String> {
    let (info, content) = expect_ok(store.get(key).await, "reading")?;
    let bytes = expect_ok(collect(content, MAX).await, "reading the content");
    assert_eq!(info.size, bytes.len() as u64, "the size of `{key}`");
    Some(String::from_utf8(bytes).unwrap_or_else(|error| panic!("{error}")))
}
