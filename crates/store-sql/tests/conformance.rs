//! The seen URLs, the trails, the frontier and the inventory records pass their suites, on SQLite and on PostgreSQL; the page
//! index and the gate on PostgreSQL.

mod harness;
mod suites;

use suites::{Backend, SqlHarness};

mod sqlite {
    use super::{Backend::Sqlite, SqlHarness};

    mod seen {
        use super::*;
        crawlway_store::seen_conformance_suite!(SqlHarness::on(Sqlite).await);
    }
    mod trails {
        use super::*;
        crawlway_store::trails_conformance_suite!(SqlHarness::on(Sqlite).await);
    }
    mod frontier {
        use super::*;
        crawlway_store::frontier_conformance_suite!(SqlHarness::on(Sqlite).await);
    }
    mod inventory {
        use super::*;
        crawlway_store::inventory_conformance_suite!(SqlHarness::on(Sqlite).await);
    }
}

mod postgres {
    use super::{Backend::Postgres, SqlHarness};

    mod seen {
        use super::*;
        crawlway_store::seen_conformance_suite!(SqlHarness::on(Postgres).await);
    }
    mod trails {
        use super::*;
        crawlway_store::trails_conformance_suite!(SqlHarness::on(Postgres).await);
    }
    mod frontier {
        use super::*;
        crawlway_store::frontier_conformance_suite!(SqlHarness::on(Postgres).await);
    }
    mod inventory {
        use super::*;
        crawlway_store::inventory_conformance_suite!(SqlHarness::on(Postgres).await);
    }
    mod gate {
        use super::*;
        crawlway_store::gate_conformance_suite!(SqlHarness::on(Postgres).await);
    }
    mod pages {
        use super::*;
        crawlway_store::pages_conformance_suite!(SqlHarness::on(Postgres).await);
    }
    mod finding {
        use super::*;
        crawlway_store::finding_conformance_suite!(SqlHarness::on(Postgres).await);
    }
}
