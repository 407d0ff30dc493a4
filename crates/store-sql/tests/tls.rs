//! TLS to PostgreSQL, with a server that asks for client certificates.

mod harness;

use crawlway_store::StoreError;
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use crawlway_testkit::{
    certificates::{Certificates, HOST},
    private_postgres::PrivatePostgres,
};
use harness::{crawl, look};
use std::time::{Duration, Instant};

const TABLE: &str = "records.postgresql.tls";

#[tokio::test]
async fn a_server_with_tls() {
    let certificates = Certificates::new();
    let server = PrivatePostgres::start_with_tls(&certificates);
    let with = |host: &str, ca: &str, identity: &str| {
        let url = format!("postgres://postgres@{host}:{}/postgres?sslmode=verify-full", server.port());
        SqlOptions { tls: certificates.tls(TABLE, ca, identity), ..SqlOptions::new(Database::Postgres(url)) }
    };

    let store = SqlStore::open(with(HOST, "ca.pem", "client")).await.expect("it fits");
    let id = crawl(&store, "tls", Some(7)).await;
    assert_eq!(look(&store, &id).await.max_pages, Some(7));
    store.close().await;

    for (options, says) in [
        (with(HOST, "other-ca.pem", "client"), "`records.postgresql.tls.ca`"),
        (with(HOST, "", "client"), "set `records.postgresql.tls.ca`"),
        (with("127.0.0.1", "ca.pem", "client"), "other names than the host"),
        (
            with(HOST, "ca.pem", ""),
            "set `records.postgresql.tls.certificate` and `records.postgresql.tls.key`",
        ),
        (
            with(HOST, "ca.pem", "other"),
            "refuses the client certificate in `records.postgresql.tls.certificate`",
        ),
    ] {
        let began = Instant::now();
        let refused = SqlStore::open(options).await.expect_err(says);
        assert!(matches!(refused, StoreError::Invalid { .. }), "{refused:?}");
        assert!(refused.to_string().contains(says), "{says}: {refused}");
        assert!(began.elapsed() < Duration::from_secs(10), "it is not tried until the timeout");
    }
}

#[test]
fn an_address_decides_about_tls() {
    let certificates = Certificates::new();
    let tls = certificates.tls(TABLE, "ca.pem", "client");
    let check = |parameters: &str, with_files: bool| {
        let mut options =
            SqlOptions::new(Database::Postgres(format!("postgres://crawl@db/crawl{parameters}")));
        if with_files {
            options.tls = tls.clone();
        }
        options.check().map_err(|error| error.to_string())
    };
    check("?sslmode=verify-full", true).expect("TLS");
    for without in ["", "?sslmode=disable", "?sslmode=prefer", "?sslmode=verify-full"] {
        check(without, false).expect(without);
    }
    for (parameters, says) in [
        ("", "add `sslmode=verify-full`"),
        ("?sslmode=prefer", "add `sslmode=verify-full`"),
        ("?sslmode=require", "any server could answer"),
        ("?sslmode=verify-ca", "any server could answer"),
        ("?sslmode=verify-full&sslrootcert=ca.pem", "in the TLS settings instead"),
        ("?sslmode=verify-full&sslcert=a.pem&sslkey=b.pem", "in the TLS settings instead"),
    ] {
        let refused = check(parameters, true).expect_err(parameters);
        assert!(refused.contains(says), "{parameters}: {refused}");
    }
}
