//! The conformance suites: frontier, seen URLs, tokens, trails, inventory records, ledger, requests and runs on both databases, page index and
//! rate limiter on PostgreSQL.

mod harness;
mod suites;

mod sqlite {
    use super::suites::{Database::Sqlite, SqlHarness};

    crawlway_store_conformance::seen!(SqlHarness::on(Sqlite).await);
    crawlway_store_conformance::tokens!(SqlHarness::on(Sqlite).await);
    crawlway_store_conformance::trails!(SqlHarness::on(Sqlite).await);
    crawlway_store_conformance::frontier!(SqlHarness::on(Sqlite).await);
    crawlway_store_conformance::inventory!(SqlHarness::on(Sqlite).await);
    crawlway_store_conformance::ledger!(SqlHarness::on(Sqlite).await);
    crawlway_store_conformance::requests!(SqlHarness::on(Sqlite).await);
    crawlway_store_conformance::runs!(SqlHarness::on(Sqlite).await);
}

mod postgres {
    use super::suites::{Database::Postgres, SqlHarness};

    crawlway_store_conformance::seen!(SqlHarness::on(Postgres).await);
    crawlway_store_conformance::tokens!(SqlHarness::on(Postgres).await);
    crawlway_store_conformance::trails!(SqlHarness::on(Postgres).await);
    crawlway_store_conformance::frontier!(SqlHarness::on(Postgres).await);
    crawlway_store_conformance::inventory!(SqlHarness::on(Postgres).await);
    crawlway_store_conformance::ledger!(SqlHarness::on(Postgres).await);
    crawlway_store_conformance::requests!(SqlHarness::on(Postgres).await);
    crawlway_store_conformance::runs!(SqlHarness::on(Postgres).await);
    crawlway_store_conformance::rate_limiter!(SqlHarness::on(Postgres).await);
    crawlway_store_conformance::pages!(SqlHarness::on(Postgres).await);
    crawlway_store_conformance::search!(SqlHarness::on(Postgres).await);
}
