//! Requests in a hash that another program has written in its own way: without a deadline, in another form, or under a key of
//! another type; and what is left in Redis of a purged one.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    RequestPolicy, RequestStore, StoreError, Timestamp,
    requests::{Answer, ApplyOutcome, CrawlRequest, RequestKey, RequestQuery, RequestStatus},
};
use crawlway_store_redis::{RedisRequests, RedisStore};
use crawlway_testkit::servers;
use redis::aio::MultiplexedConnection;

async fn open() -> (RedisRequests, MultiplexedConnection) {
    let store = RedisStore::connect(harness::options(&servers::redis())).await.unwrap();
    let client = redis::Client::open(servers::redis()).unwrap();
    (store.requests(RequestPolicy::default()), client.get_multiplexed_async_connection().await.unwrap())
}

/// A user that no other test has, since keys of users have no namespace.
fn user(name: &str) -> String {
    format!("{name}.{}@example.com", uuid::Uuid::now_v7())
}

async fn write(client: &mut MultiplexedConnection, email: &str, id: &str, value: impl AsRef<[u8]>) {
    let key = format!("crawls:{email}");
    let () = redis::cmd("HSET").arg(key).arg(id).arg(value.as_ref()).query_async(client).await.unwrap();
}

fn failed(key: RequestKey) -> Answer {
    Answer { key, created_at: Timestamp::now().to_iso(), result: Err("404".to_owned()) }
}

#[tokio::test]
async fn a_pending_request_without_a_deadline_fails_once_it_is_read_past_its_timeout() {
    let (store, mut client) = open().await;
    for listed in [false, true] {
        let email = user("overdue");
        let old = CrawlRequest::pending(
            RequestKey::new(&*email, "old"),
            "https://a.example/",
            "2026-01-01T00:00:00Z",
        );
        let new = CrawlRequest::pending(
            RequestKey::new(&*email, "new"),
            "https://a.example/",
            Timestamp::now().to_iso(),
        );
        for request in [&old, &new] {
            write(&mut client, &email, &request.id, &request.to_json()).await;
        }
        if listed {
            assert_eq!(
                store
                    .list(&email, &RequestQuery { limit: 10, ..RequestQuery::default() })
                    .await
                    .unwrap()
                    .requests
                    .len(),
                2
            );
        } else {
            assert_eq!(store.get(&old.key()).await.unwrap().unwrap().status, RequestStatus::Pending);
            store.get(&new.key()).await.unwrap();
        }
        assert_eq!(store.expire("no answer", 10).await.unwrap(), 1);
        let status = async |request: &CrawlRequest| store.get(&request.key()).await.unwrap().unwrap().status;
        assert_eq!((status(&old).await, status(&new).await), (RequestStatus::Failed, RequestStatus::Pending));
    }
}

#[tokio::test]
async fn an_answer_replaces_a_value_that_is_not_text() {
    let (store, mut client) = open().await;
    let email = user("binary");
    let latin1 = b"{\"id\":\"latin\",\"url\":\"https://a.example/\xe9\",\"email\":\"x\",\"status\":\"pending\",\"result\":null}";
    for (id, value) in [("ff", &b"\xff"[..]), ("latin", latin1)] {
        write(&mut client, &email, id, value).await;
        let key = RequestKey::new(&*email, id);
        assert_eq!(store.apply(&[failed(key.clone())]).await.unwrap(), [ApplyOutcome::Created]);
        assert_eq!(store.get(&key).await.unwrap().unwrap().status, RequestStatus::Failed);
    }
}

#[tokio::test]
async fn an_answer_keeps_the_url_of_a_request_in_another_form() {
    let (store, mut client) = open().await;
    let email = user("form");
    write(&mut client, &email, "a", r#"{"id":"a","url":"https://a.example/","status":"queued"}"#).await;
    write(&mut client, &email, "b", "junk").await;
    let answers = ["a", "b"].map(|id| failed(RequestKey::new(&*email, id)));
    assert_eq!(store.apply(&answers).await.unwrap(), [ApplyOutcome::Created; 2]);
    for (id, url) in [("a", "https://a.example/"), ("b", "")] {
        let stored = store.get(&RequestKey::new(&*email, id)).await.unwrap().unwrap();
        assert_eq!((stored.status, &*stored.url), (RequestStatus::Failed, url));
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_an_error_that_no_retry_mends() {
    let (store, mut client) = open().await;
    let email = user("type");
    let () =
        redis::cmd("SET").arg(format!("crawls:{email}")).arg("x").query_async(&mut client).await.unwrap();
    let key = RequestKey::new(&*email, "a");
    let results = [store.apply(&[failed(key.clone())]).await.map(drop), store.get(&key).await.map(drop)];
    for result in results {
        assert!(
            matches!(&result, Err(StoreError::Invalid { problem }) if problem.contains("another type")),
            "{result:?}"
        );
    }
}

#[tokio::test]
async fn a_purged_request_leaves_the_change_feed_and_its_mark_alone() {
    let options = harness::options(&servers::redis());
    let prefix = options.prefix.clone();
    let store = RedisStore::connect(options).await.unwrap().requests(RequestPolicy::default());
    let client = redis::Client::open(servers::redis()).unwrap();
    let mut client = client.get_multiplexed_async_connection().await.unwrap();
    let email = user("purged");
    let keys = ["a", "b", "c"].map(|id| RequestKey::new(&*email, id));
    let at = Timestamp::now().to_iso();
    let requests = keys.clone().map(|key| CrawlRequest::pending(key, "https://a.example/", &*at));
    store.add(&requests).await.unwrap();
    store.published(&requests).await.unwrap();
    store.apply(&keys.map(failed)).await.unwrap();
    // Another program has deleted one of them.
    let () =
        redis::cmd("HDEL").arg(format!("crawls:{email}")).arg("b").query_async(&mut client).await.unwrap();
    assert_eq!(store.purge(std::time::Duration::ZERO, 10).await.unwrap(), 3);
    let mut left: Vec<String> = Vec::new();
    for pattern in [format!("*crawls:{email}*"), format!("{{{prefix}}}:*")] {
        let found: Vec<String> = redis::cmd("KEYS").arg(pattern).query_async(&mut client).await.unwrap();
        left.extend(found);
    }
    left.retain(|key| !key.contains(":requests:deleted:"));
    assert_eq!(left, [format!("{{crawls:{email}}}:changes")]);
}
