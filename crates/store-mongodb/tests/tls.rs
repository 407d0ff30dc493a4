//! TLS to MongoDB, with a server that asks for client certificates.

mod harness;

use crawlway_store::{
    StoreError, Timestamp, UrlRecords,
    inventory::{RecordId, RecordRequest},
};
use crawlway_store_mongodb::{MongoOptions, MongoStore};
use crawlway_testkit::{
    certificates::{Certificates, HOST},
    private_mongodb::PrivateMongoDb,
};
use harness::options;
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_server_with_tls() {
    let certificates = Certificates::new();
    let server = PrivateMongoDb::start_with_tls(&certificates);
    let with = |host: &str, ca: &str, identity: &str| MongoOptions {
        tls: certificates.tls("inventory.mongodb.tls", ca, identity),
        ..options(&format!("mongodb://{host}:{}/?tls=true", server.port()))
    };

    let store = MongoStore::open(with(HOST, "ca.pem", "client")).await.expect("it fits");
    let request = RecordRequest {
        url: "https://a.example/".to_owned(),
        message_id: "m-1".to_owned(),
        requested_at: Timestamp::now(),
    };
    store.begin(&request, Timestamp::now()).await.expect("a record");
    let record = store.get(RecordId::of_url(&request.url)).await.expect("an answer").expect("the record");
    assert_eq!(record.url, request.url);
    store.close().await;

    for (options, says) in [
        (with(HOST, "other-ca.pem", "client"), "`inventory.mongodb.tls.ca`"),
        (with(HOST, "", "client"), "set `inventory.mongodb.tls.ca`"),
        (with("127.0.0.1", "ca.pem", "client"), "other names than the host"),
    ] {
        let began = Instant::now();
        let refused = MongoStore::open(options).await.expect_err(says);
        assert!(matches!(refused, StoreError::Invalid { .. }), "{refused:?}");
        assert!(refused.to_string().contains(says), "{says}: {refused}");
        assert!(began.elapsed() < Duration::from_secs(15), "it is not tried until the timeout");
    }
    // The server closes the connection without a reason, as it does when it ends.
    for (identity, says) in [
        ("", "set `inventory.mongodb.tls.certificate` and `inventory.mongodb.tls.key`"),
        ("other", "refuse the client certificate in `inventory.mongodb.tls.certificate`"),
    ] {
        let options = MongoOptions { open_timeout: Duration::ZERO, ..with(HOST, "ca.pem", identity) };
        let refused = MongoStore::open(options).await.expect_err(says).to_string();
        assert!(refused.contains(says), "{says}: {refused}");
    }
}

#[test]
fn a_url_decides_about_tls() {
    let certificates = Certificates::new();
    let tls = certificates.tls("inventory.mongodb.tls", "ca.pem", "client");
    let check = |url: &str| {
        MongoOptions { tls: tls.clone(), ..MongoOptions::new(url) }.check().map_err(|error| error.to_string())
    };
    check("mongodb://mongo/?tls=true").expect("TLS");
    for (url, says) in [
        ("mongodb://mongo/", "tls=true"),
        ("mongodb://mongo/?tls=false", "tls=true"),
        ("mongodb://mongo/?tls=true&tlsInsecure=true", "always verified"),
        ("mongodb://mongo/?tls=true&tlsAllowInvalidCertificates=true", "always verified"),
        ("mongodb://mongo/?tls=true&tlsCAFile=ca.pem", "in the TLS settings instead"),
        ("mongodb://mongo/?tls=true&tlsCertificateKeyFile=both.pem", "in the TLS settings instead"),
    ] {
        let refused = check(url).expect_err(url);
        assert!(refused.contains(says), "{url}: {refused}");
    }
}
