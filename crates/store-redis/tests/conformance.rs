//! Conformance suites of the seen-URL store and the rate limiter, on a manual clock and on the server's clock.

mod harness;

mod manual_clock {
    use crate::harness::RedisHarness;

    crawlway_store_conformance::seen!(RedisHarness::manual());
    crawlway_store_conformance::rate_limiter!(RedisHarness::manual());
}

mod server_clock {
    use crate::harness::RedisHarness;

    crawlway_store_conformance::seen!(RedisHarness::server());
    crawlway_store_conformance::rate_limiter!(RedisHarness::server());
}
