//! Invalid values under the keys of seen URLs, written by another program: each affects its own URL only.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    SeenUrls, Timestamp,
    seen::{Claim, ClaimOutcome},
};
use crawlway_store_redis::RedisStore;
use crawlway_testkit::servers;
use sha2::{Digest, Sha256};
use std::time::Duration;

const CLAIM_TTL: Duration = Duration::from_secs(300);

/// The key of a URL, as the contract has it.
fn key(prefix: &str, url: &str) -> String {
    let hash: String = Sha256::digest(url).iter().take(16).map(|octet| format!("{octet:02x}")).collect();
    format!("{{{prefix}}}:seen:{hash}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_values_affect_their_own_urls_only_and_are_replaced_when_they_expire() {
    let options = harness::options(&servers::redis());
    let prefix = options.prefix.clone();
    let store = RedisStore::connect(options).await.unwrap();
    let client = redis::Client::open(servers::redis()).unwrap();
    let mut other_client = client.get_multiplexed_async_connection().await.unwrap();
    let urls: Vec<String> = (0..30).map(|n| format!("https://a.example/{n}")).collect();
    let invalid: [&[u8]; 5] = [b"junk", b"", b"s:", b"c12x:owner", b"\xff\xfe:"];
    for (url, value) in urls.iter().zip(invalid) {
        let () =
            redis::cmd("SET").arg(key(&prefix, url)).arg(value).query_async(&mut other_client).await.unwrap();
    }
    let () = redis::cmd("RPUSH")
        .arg(key(&prefix, &urls[5]))
        .arg("a")
        .query_async(&mut other_client)
        .await
        .unwrap();
    let soon = redis::cmd("SET").arg(key(&prefix, &urls[6])).arg("x").arg("PX").arg(500).to_owned();
    let () = soon.query_async(&mut other_client).await.unwrap();

    let claims: Vec<Claim> = urls.iter().map(|url| Claim::new(url, "one")).collect();
    let before = Timestamp::now();
    let claimed = store.claim(&claims, CLAIM_TTL).await.unwrap();
    for (number, claimed) in claimed.iter().enumerate() {
        match claimed {
            ClaimOutcome::Seen { until, .. } if number < 6 => {
                assert!(*until <= Timestamp::now() + CLAIM_TTL && *until >= before, "{number}: {claimed:?}");
            }
            ClaimOutcome::Seen { .. } if number == 6 => {}
            ClaimOutcome::Granted if number > 6 => {}
            other => panic!("{}: {other:?}", urls[number]),
        }
    }
    for url in &urls[..6] {
        let left: i64 =
            redis::cmd("PTTL").arg(key(&prefix, url)).query_async(&mut other_client).await.unwrap();
        assert!((1..=300_000).contains(&left), "a key without a TTL gets one: {left} ms");
    }
    let begun = Timestamp::now();
    while store.claim(&claims[6..7], CLAIM_TTL).await.unwrap() != [ClaimOutcome::Granted] {
        assert!(Timestamp::now().since(begun) < Duration::from_secs(60), "an expired value is replaced");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let fresh = Claim { max_age: Duration::ZERO, ..Claim::new(&urls[2], "one") };
    assert_eq!(
        store.claim(&[fresh], CLAIM_TTL).await.unwrap(),
        [ClaimOutcome::Granted],
        "a claim that ignores marks replaces it"
    );
    // The other calls accept them too.
    store.release(&claims).await.unwrap();
    assert_eq!(store.forget(&urls[..2]).await, Ok(2));
    assert_eq!(
        store.claim(&claims[..2], CLAIM_TTL).await.unwrap(),
        [ClaimOutcome::Granted, ClaimOutcome::Granted]
    );
}
