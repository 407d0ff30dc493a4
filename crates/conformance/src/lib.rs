//! Runner for conformance suites: test cases, their execution, and the tests generated from them.
//!
//! A contract lists its cases once, in a macro that calls [`suite!`] to generate the table of cases and each backend's
//! tests. [`must_fail`] tests a suite itself, on a backend with an injected fault.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    time::Duration,
};

/// A test case for a harness.
#[derive(Debug)]
pub struct Case<H: ?Sized> {
    /// Theme: the module of its test.
    pub module: &'static str,
    /// Name: what must hold.
    pub name: &'static str,
    /// Runs the case.
    #[doc(hidden)]
    pub start: for<'h> fn(&'h mut H) -> Running<'h>,
}

/// A running case. Not `Send`, since it runs on the thread that started it.
#[doc(hidden)]
pub type Running<'h> = Pin<Box<dyn Future<Output = ()> + 'h>>;

/// Timeout of a case.
const CASE_TIMEOUT: Duration = Duration::from_secs(300);

/// Runs a case on its own runtime; panics if it fails.
pub fn run<H: ?Sized>(cases: &[Case<H>], module: &str, name: &str, make: impl AsyncFnOnce() -> Box<H>) {
    let case = cases
        .iter()
        .find(|case| case.module == module && case.name == name)
        .unwrap_or_else(|| panic!("the suite has no case {module}::{name}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime for the case");
    runtime.block_on(async {
        let mut harness = make().await;
        if tokio::time::timeout(CASE_TIMEOUT, (case.start)(&mut harness)).await.is_err() {
            panic!("{module}::{name} hangs: it did not end within {CASE_TIMEOUT:?}");
        }
    });
}

/// Runs a case on a backend with an injected fault and expects it to fail with a message, neither pass nor hang.
pub fn must_fail(what: &str, attempt: impl FnOnce()) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(attempt)) else {
        panic!("{what} passes in spite of the fault");
    };
    let text = panic.downcast_ref::<String>().cloned();
    let text =
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
    assert!(!text.contains("hangs"), "{what} hangs instead of failing");
}

/// Expands a list of cases. `table` defines `Case`, `CASES` and `run` for the `Harness` in scope; `tests` defines one test
/// per case, in modules by theme below a module `conformance`.
#[macro_export]
macro_rules! suite {
    (tests ($run:path, $make:expr) $($module:ident { $($case:ident,)* })*) => {
        mod conformance {
            #[allow(unused_imports)]
            use super::*;
            $(mod $module {
                #[allow(unused_imports)]
                use super::*;
                $(#[test]
                fn $case() {
                    $run(stringify!($module), stringify!($case), async || $make);
                })*
            })*
        }
    };
    (table () $($module:ident { $($case:ident,)* })*) => {
        /// A test case of the suite.
        pub type Case = $crate::Case<dyn Harness>;

        /// All cases, in the order of the list.
        pub const CASES: &[Case] = &[$($(Case {
            module: stringify!($module),
            name: stringify!($case),
            start: |harness| Box::pin($module::$case(harness)),
        },)*)*];

        /// Runs a case on its own runtime; panics if it fails. Body of every generated test.
        pub fn run<H: Harness + 'static>(module: &str, name: &str, make: impl AsyncFnOnce() -> H) {
            $crate::run(CASES, module, name, async || Box::new(make().await) as Box<dyn Harness>);
        }
    };
}
