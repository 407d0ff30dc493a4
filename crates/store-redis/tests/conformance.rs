//! The seen URLs and the gate pass their suites on a real server: by a clock that the suite moves, to the millisecond,
//! and by the server's own, which runs on by itself.

mod harness;

mod moved_by_hand {
    use crate::harness::RedisHarness;

    mod seen {
        use super::*;
        crawlway_store::seen_conformance_suite!(RedisHarness::by_hand());
    }
    mod gate {
        use super::*;
        crawlway_store::gate_conformance_suite!(RedisHarness::by_hand());
    }
}

mod the_servers_clock {
    use crate::harness::RedisHarness;

    mod seen {
        use super::*;
        crawlway_store::seen_conformance_suite!(RedisHarness::by_the_server());
    }
    mod gate {
        use super::*;
        crawlway_store::gate_conformance_suite!(RedisHarness::by_the_server());
    }
}
