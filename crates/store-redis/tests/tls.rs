//! TLS to Redis, with a server that asks for client certificates.

mod harness;

use crawlway_store::{SeenUrls, StoreError, seen::Claim};
use crawlway_store_redis::{RedisOptions, RedisStore};
use crawlway_testkit::{
    certificates::{Certificates, HOST},
    private_redis::PrivateRedis,
};
use harness::options;
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_server_with_tls() {
    let certificates = Certificates::new();
    let (mut server, port) = PrivateRedis::start_with_tls(&certificates);
    let with = |host: &str, ca: &str, identity: &str| RedisOptions {
        tls: certificates.tls("redis.tls", ca, identity),
        ..options(&format!("rediss://{host}:{port}/1"))
    };

    let store = RedisStore::connect(with(HOST, "ca.pem", "client")).await.expect("it fits");
    let claim = async || {
        let claimed = store.claim(&[Claim::new("https://a.example/", "one")], Duration::from_secs(60)).await;
        claimed.map(drop)
    };
    claim().await.expect("a claim");
    assert_eq!(store.contains(&["https://a.example/".to_owned()]).await, Ok(vec![true]));

    for (options, says) in [
        (with(HOST, "other-ca.pem", "client"), "`redis.tls.ca`"),
        (with(HOST, "", "client"), "set `redis.tls.ca`"),
        (with("127.0.0.1", "ca.pem", "client"), "other names than the host"),
        (with(HOST, "ca.pem", ""), "set `redis.tls.certificate` and `redis.tls.key`"),
        (with(HOST, "ca.pem", "other"), "refuses the client certificate in `redis.tls.certificate`"),
    ] {
        let began = Instant::now();
        let refused = RedisStore::connect(options).await.expect_err(says);
        assert!(matches!(refused, StoreError::Invalid { .. }), "{refused:?}");
        assert!(refused.to_string().contains(says), "{says}: {refused}");
        assert!(began.elapsed() < Duration::from_secs(10), "it is not tried again");
    }

    let plain = RedisOptions {
        url: format!("rediss://{HOST}:{}", server.port()),
        open_timeout: Duration::ZERO,
        connect_timeout: Duration::from_millis(500),
        ..with(HOST, "ca.pem", "client")
    };
    let refused = RedisStore::connect(plain).await.expect_err("a port without TLS").to_string();
    assert!(refused.contains("check that this port has TLS"), "{refused}");

    // After a restart the connection is made anew.
    server.kill();
    assert!(matches!(claim().await, Err(StoreError::Unavailable { .. })));
    server.restart();
    let began = Instant::now();
    while let Err(error) = claim().await {
        assert!(began.elapsed() < Duration::from_secs(60), "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_url_decides_about_tls() {
    let certificates = Certificates::new();
    let tls = certificates.tls("redis.tls", "ca.pem", "client");
    let refused = |url: &str| {
        RedisOptions { tls: tls.clone(), ..RedisOptions::new(url) }.check().map_err(|e| e.to_string())
    };
    refused("rediss://redis:6380/0").expect("TLS");
    let plain = refused("redis://redis:6380/0").expect_err("no TLS");
    assert!(plain.contains("`redis.tls.ca`") && plain.contains("rediss://"), "{plain}");
    let insecure = refused("rediss://redis:6380/#insecure").expect_err("verified");
    assert!(insecure.contains("always verified"), "{insecure}");
}
