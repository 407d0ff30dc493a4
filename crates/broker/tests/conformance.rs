//! The oracle passes the whole suite in every manner, so that what the suite asks for can be had, and
//! what it allows is allowed.

mod oracle;

use oracle::{Fault, Manner, OracleHarness};

mod native {
    use super::*;
    crawlway_broker::conformance_suite!(OracleHarness::new(Manner::Native, Fault::Nothing));
}

mod emulated {
    use super::*;
    crawlway_broker::conformance_suite!(OracleHarness::new(Manner::Emulated, Fault::Nothing));
}

mod refusing {
    use super::*;
    crawlway_broker::conformance_suite!(OracleHarness::new(Manner::Refusing, Fault::Nothing));
}
