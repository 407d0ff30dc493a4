//! The seen URLs and the gate pass their suites on a real server: by a clock that the suite moves, to the millisecond,
//! and by the server's own, which runs on by itself.

mod harness;

mod moved_by_hand {
    use crate::harness::RedisHarness;

    crawlway_store_conformance::seen!(RedisHarness::by_hand());
    crawlway_store_conformance::gate!(RedisHarness::by_hand());
}

mod the_servers_clock {
    use crate::harness::RedisHarness;

    crawlway_store_conformance::seen!(RedisHarness::by_the_server());
    crawlway_store_conformance::gate!(RedisHarness::by_the_server());
}
