//! Conformance suites of the seen-URL store, the rate limiter, the ledger, the requests and the tokens, on a manual clock and on the server's clock.

mod harness;

mod manual_clock {
    use crate::harness::RedisHarness;

    crawlway_store_conformance::seen!(RedisHarness::manual());
    crawlway_store_conformance::rate_limiter!(RedisHarness::manual());
    crawlway_store_conformance::ledger!(RedisHarness::manual());
    crawlway_store_conformance::requests!(RedisHarness::manual());
    crawlway_store_conformance::tokens!(RedisHarness::manual());
}

mod server_clock {
    use crate::harness::RedisHarness;

    crawlway_store_conformance::seen!(RedisHarness::server());
    crawlway_store_conformance::rate_limiter!(RedisHarness::server());
    crawlway_store_conformance::ledger!(RedisHarness::server());
    crawlway_store_conformance::requests!(RedisHarness::server());
}
