//! Blobs: with a token, and with signed links, which expire.

use crate::harness::{TestGateway, TestResponse, request};
use axum::body::Body;
use crawlway_clock::{Clock, ManualClock, Timestamp};
use crawlway_gateway::{FlowRoutes, RouterOptions, Token, router};
use crawlway_store::{
    BlobStore,
    blobs::{BlobKey, BlobMetadata, LinkTarget, once},
};
use crawlway_store_blob::{DirectoryBlobs, DirectoryOptions};
use http::{Method, header};
use serde_json::json;
use std::{sync::Arc, time::Duration};

const ADMIN: &str = "a-token-of-the-test";

struct Fixture {
    gateway: TestGateway,
    store: DirectoryBlobs,
    clock: Arc<ManualClock>,
    _folder: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let options = || RouterOptions { token: Token::new(ADMIN), ..RouterOptions::default() };
        let mut gateway = TestGateway::with(options()).await;
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
        let store = DirectoryBlobs::new(DirectoryOptions {
            clock: Clock::Manual(clock.clone()),
            ..DirectoryOptions::new(folder.path())
        });
        let blobs = FlowRoutes::blobs(Arc::new(store.clone()));
        gateway.router = router(gateway.context.clone(), vec![blobs], options());
        Self { gateway, store, clock, _folder: folder }
    }

    async fn put(&self, company: &str, id: &str, content: &str) -> BlobKey {
        let key = BlobKey::raw(company, id).unwrap();
        let metadata = BlobMetadata {
            content_type: Some("text/html; charset=utf-8".to_owned()),
            url: Some("https://acme.example/1".to_owned()),
            ..BlobMetadata::default()
        };
        self.store.put(&key, &metadata, once(content.to_owned())).await.unwrap();
        key
    }

    /// Path and query of a link.
    async fn link(&self, key: &BlobKey) -> String {
        match self.store.link(key, Duration::from_secs(3600)).await.unwrap().target {
            LinkTarget::Gateway(target) => target,
            LinkTarget::Url(url) => panic!("{url}"),
        }
    }

    async fn get(&self, path: &str, token: Option<&str>) -> TestResponse {
        let mut request = request(Method::GET, path);
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        self.gateway.send(request.body(Body::empty()).unwrap()).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_serves_its_blob_without_a_token_until_it_expires() {
    let t = Fixture::new().await;
    let key = t.put("../Ben & Co 🚲", "a/1", "<script>alert(1)</script>").await;
    let link = t.link(&key).await;
    let served = t.get(&link, None).await;
    assert_eq!((served.status.as_u16(), served.text().as_str()), (200, "<script>alert(1)</script>"));
    assert_eq!(served.header(header::CONTENT_TYPE), "text/html; charset=utf-8");
    assert_eq!(served.header("x-crawlway-url"), "https://acme.example/1");
    assert!(served.header(header::CONTENT_SECURITY_POLICY).starts_with("sandbox; default-src 'none'"));
    assert_eq!(served.header(header::X_CONTENT_TYPE_OPTIONS), "nosniff");
    t.clock.advance(Duration::from_secs(3600));
    let problem = t.get(&link, None).await.problem(410, "expired-link");
    assert!(problem["detail"].as_str().unwrap().contains("expired at 2023-11-14T23:13:20.000Z"), "{problem}");
    t.gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_link_opens_nothing() {
    let t = Fixture::new().await;
    let (one, two) = (t.put("acme", "1", "one").await, t.put("acme", "2", "two").await);
    let link = t.link(&one).await;
    let (_, query) = link.split_once('?').unwrap();
    for changed in [
        format!("/api/blobs/{two}?{query}"),
        link.replace("expires=17", "expires=18"),
        format!("{}0", &link[..link.len() - 1]),
        format!("/api/blobs/{one}?expires=1800000000&signature="),
    ] {
        // The last digit may have been a zero.
        if changed != link {
            t.get(&changed, None).await.problem(403, "forged-link");
            t.get(&changed, Some(ADMIN)).await.problem(403, "forged-link");
        }
    }
    for (path, field) in [
        (format!("/api/blobs/{one}?signature=00"), "expires"),
        (format!("/api/blobs/raw/%2e%2e/x?{query}"), "key"),
    ] {
        assert_eq!(t.get(&path, None).await.problem(400, "invalid")["field"], field, "{path}");
    }
    for no_link in [
        format!("/api/blobs/{one}"),
        format!("/api/blobs/{one}?expires=1800000000"),
        format!("/api/blobs/{one}?Signature=00&expires=1800000000"),
        "/api/blobs?signature=00".to_owned(),
        "/api/queues?signature=00".to_owned(),
    ] {
        t.get(&no_link, None).await.problem(401, "unauthorised");
    }
    t.gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_lists_and_reads_blobs() {
    let t = Fixture::new().await;
    for id in ["1", "2", "3"] {
        t.put("acme", id, id).await;
    }
    let listed = t.get("/api/blobs?prefix=raw/acme/&limit=2", Some(ADMIN)).await.ok(200);
    assert_eq!(listed["next"], "raw/acme/2.html");
    assert_eq!(
        listed["blobs"][0],
        json!({ "key": "raw/acme/1.html", "size": 1, "stored_at": "2023-11-14T22:13:20.000Z" })
    );
    let rest = t.get("/api/blobs?after=raw/acme/2.html", Some(ADMIN)).await.ok(200);
    assert_eq!((rest["blobs"].as_array().unwrap().len(), &rest["next"]), (1, &json!(null)));
    assert_eq!(t.get("/api/blobs/raw/acme/3.html", Some(ADMIN)).await.text(), "3");
    t.get("/api/blobs/raw/acme/4.html", Some(ADMIN)).await.problem(404, "not-found");
    t.get("/api/blobs/raw/acme/a@b", Some(ADMIN)).await.problem(400, "invalid");
    t.get("/api/blobs?limit=0", Some(ADMIN)).await.refused("limit", "1 to 1000");
    t.gateway.shut_down().await;
}
