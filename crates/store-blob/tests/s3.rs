//! Conformance suite of the blobs on a server with the API of S3, and what is its own: presigned links, lifecycle rules.
#![cfg(feature = "s3")]
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod bucket;

use bucket::{Bucket, request};
use crawlway_store::{
    BlobStore, StoreError, Timestamp,
    blobs::{BlobKey, BlobMetadata, BlobQuery, LinkTarget, collect, once},
};
use crawlway_store_blob::S3Blobs;
use crawlway_store_conformance::{Backend, Harness};
use std::{sync::Arc, time::Duration};

struct S3Harness(Bucket);

#[async_trait::async_trait]
impl Backend for S3Harness {
    fn slack(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn expires_by_itself(&self) -> bool {
        true
    }
}

#[async_trait::async_trait]
impl Harness<dyn BlobStore> for S3Harness {
    async fn fresh(&mut self, (): ()) -> Arc<dyn BlobStore> {
        Arc::new(self.0.open(""))
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn BlobStore>> {
        Some(Arc::new(self.0.open("")))
    }
}

crawlway_store_conformance::blobs!(S3Harness(Bucket::new()));

fn key(text: &str) -> BlobKey {
    text.parse().unwrap()
}

async fn put(store: &S3Blobs, name: &str, content: &str) {
    let metadata = BlobMetadata { content_type: Some("text/html".to_owned()), ..Default::default() };
    store.put(&key(name), &metadata, once(content.to_owned())).await.unwrap();
}

#[tokio::test]
async fn a_presigned_link_serves_the_blob_with_its_type() {
    let bucket = Bucket::new();
    let store = bucket.open("");
    let name = "raw/a%20b/1.html";
    put(&store, name, "<p>linked</p>").await;
    let link = store.link(&key(name), Duration::from_secs(3600)).await.unwrap();
    let LinkTarget::Url(url) = link.target else { panic!("{link:?}") };
    assert!(url.contains("X-Amz-Expires=3600") && url.contains("a%2520b"), "{url}");
    let answer = request("GET", &url, "");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("<p>linked</p>"), "{answer}");
    assert!(answer.to_lowercase().contains("content-type: text/html"), "{answer}");
}

#[tokio::test]
async fn objects_of_other_programs_are_read_and_ours_by_them() {
    let bucket = Bucket::new();
    let store = bucket.open("");
    let answer = request("PUT", &format!("{}/raw/Acme%20Corp/1.html", bucket.url()), "<p>theirs</p>");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let theirs = key("raw/Acme Corp/1.html");
    let (info, content) = store.get(&theirs).await.unwrap().unwrap();
    assert_eq!(collect(content, 100).await, Ok(b"<p>theirs</p>".to_vec()));
    assert_eq!((info.sha256, info.metadata.url, info.metadata.fetched_at), (None, None, None));
    let page = store.list(&BlobQuery { prefix: "raw/Acme".into(), limit: 10, ..Default::default() }).await;
    assert_eq!(page.unwrap().entries[0].key, theirs);

    let metadata = BlobMetadata {
        content_type: Some("text/html".to_owned()),
        content_encoding: None,
        fetched_at: Some(Timestamp::from_millis(1_700_000_000_000)),
        url: Some("https://acme.example/2".to_owned()),
    };
    let ours = BlobKey::raw("Acme Corp", "2").unwrap();
    store.put(&ours, &metadata, once("<p>ours</p>")).await.unwrap();
    let answer = request("GET", &format!("{}/raw/Acme%2520Corp/2.html", bucket.url()), "");
    assert!(answer.ends_with("<p>ours</p>"), "{answer}");
    let answer = answer.to_lowercase();
    for header in [
        "content-type: text/html",
        "x-amz-meta-url: https://acme.example/2",
        "x-amz-meta-fetched-at: 2023-11-14t22:13:20.000z",
        "x-amz-meta-sha256: ",
    ] {
        assert!(answer.contains(header), "{header}: {answer}");
    }
}

#[tokio::test]
async fn a_prefix_separates_installations_in_one_bucket() {
    let bucket = Bucket::new();
    let (one, two) = (bucket.open("one"), bucket.open("/two/"));
    put(&one, "raw/a/1.html", "one").await;
    put(&two, "raw/a/2.html", "two").await;
    let keys = async |store: &S3Blobs| {
        let page = store.list(&BlobQuery { limit: 10, ..Default::default() }).await.unwrap();
        page.entries.into_iter().map(|entry| entry.key.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        (keys(&one).await, keys(&two).await),
        (vec!["raw/a/1.html".into()], vec!["raw/a/2.html".into()])
    );
    assert_eq!(keys(&bucket.open("")).await, ["one/raw/a/1.html", "two/raw/a/2.html"]);
    assert_eq!(two.location(), format!("s3://{}/two/", bucket.name));
}

#[tokio::test]
async fn lifecycle_rules_are_merged_with_those_of_others() {
    let bucket = Bucket::new();
    let url = format!("{}?lifecycle", bucket.url());
    let other = "<LifecycleConfiguration><Rule><ID>logs</ID><Filter><Prefix>logs/</Prefix></Filter>\
                 <Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>";
    let answer = request("PUT", &url, other);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for prefix in ["", "two"] {
        for _ in 0..2 {
            bucket.open(prefix).apply_retention().await.unwrap();
        }
    }
    let found = request("GET", &url, "");
    for id in ["logs", "crawlway raw/", "crawlway test/", "crawlway two/raw/", "crawlway two/test/"] {
        assert_eq!(found.matches(&format!("<ID>{id}</ID>")).count(), 1, "{id}: {found}");
    }
    assert_eq!(found.matches("<Days>30</Days>").count(), 4, "{found}");
}

#[tokio::test]
async fn where_writing_is_denied_the_rules_of_others_are_verified() {
    let rule = |days: u32| {
        let rule = |prefix: &str| {
            format!(
                "<Rule><ID>{prefix}</ID><Filter><Prefix>{prefix}</Prefix></Filter><Status>Enabled</Status>\
                 <Expiration><Days>{days}</Days></Expiration></Rule>"
            )
        };
        format!("<LifecycleConfiguration>{}{}</LifecycleConfiguration>", rule("raw/"), rule("test/"))
    };
    let applied = async |days| bucket::with_rules_of_others(rule(days)).open("").apply_retention().await;
    assert_eq!(applied(30).await, Ok(0));
    assert_eq!(applied(7).await, Ok(0));
    let error = applied(31).await.unwrap_err().to_string();
    for part in ["s3:PutLifecycleConfiguration", "AccessDenied", "`raw/` expire after 30 days"] {
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_missing_bucket_and_a_missing_server_are_named() {
    let mut bucket = Bucket::new();
    bucket.name = "there-is-no-such-bucket".to_owned();
    let store = bucket.open("");
    let error = store.ready().await.unwrap_err().to_string();
    assert!(error.contains("the bucket of S3 does not exist"), "{error}");
    let metadata = BlobMetadata::default();
    let error = store.put(&key("raw/a/1.html"), &metadata, once("a")).await.unwrap_err().to_string();
    assert!(error.contains("the bucket of S3 does not exist"), "{error}");
    bucket.endpoint = "http://127.0.0.1:1".to_owned();
    let error = bucket.open("").ready().await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
}
