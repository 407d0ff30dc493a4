//! How a suite is proved: it fails on a backend with a fault.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs an attempt at a case and expects it to fail for a reason that it states, rather than to pass or to hang.
pub fn must_fail(what: &str, attempt: impl FnOnce()) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(attempt)) else {
        panic!("{what} passes in spite of the fault");
    };
    let text = panic.downcast_ref::<String>().cloned();
    let text =
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
    assert!(!text.contains("hangs"), "{what} hangs instead of failing");
}
