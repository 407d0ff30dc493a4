//! The embedded queue passes the whole conformance suite.

mod support;

use std::{sync::Arc, time::Duration};
use support::EmbeddedHarness;

crawlway_broker_conformance::conformance_suite!(EmbeddedHarness::new(Duration::from_secs(30), |broker| {
    Arc::new(broker)
}));
