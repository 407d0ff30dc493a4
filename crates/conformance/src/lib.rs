//! What the conformance suites of all contracts share: how a case is found and run, and the tests it becomes.
//!
//! A contract writes its list of cases once, as a macro that hands it to [`suite!`], from which come both the
//! table of cases and every backend's tests. [`must_fail`] is for the tests of a suite itself.

mod mutants;

pub use mutants::must_fail;

use std::{future::Future, pin::Pin, time::Duration};

/// One case of a suite, for a harness of this type.
#[derive(Debug)]
pub struct Case<H: ?Sized> {
    /// The theme, which is also the module of its test.
    pub module: &'static str,
    /// What must hold.
    pub name: &'static str,
    /// Starts it.
    #[doc(hidden)]
    pub start: for<'h> fn(&'h mut H) -> Running<'h>,
}

/// A case on its way. It need not be `Send`: it runs where it was started.
#[doc(hidden)]
pub type Running<'h> = Pin<Box<dyn Future<Output = ()> + 'h>>;

/// No case takes this long on any backend, so one that does hangs.
const CASE_LIMIT: Duration = Duration::from_secs(300);

/// Runs one case on its own runtime and panics, saying what was expected, if it fails.
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
        if tokio::time::timeout(CASE_LIMIT, (case.start)(&mut harness)).await.is_err() {
            panic!("{module}::{name} hangs: it did not end within {CASE_LIMIT:?}");
        }
    });
}

/// What a list of cases becomes: with `table` the suite's own `Case`, `CASES` and `run`, for the `Harness` that is
/// in scope; with `tests` one test per case, in modules by theme below a module `conformance`.
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
        /// One case of the suite.
        pub type Case = $crate::Case<dyn Harness>;

        /// Every case, in the order of the list.
        pub const CASES: &[Case] = &[$($(Case {
            module: stringify!($module),
            name: stringify!($case),
            start: |harness| Box::pin($module::$case(harness)),
        },)*)*];

        /// Runs one case on its own runtime and panics, saying what was expected, if it fails.
        /// This is the body of every test that the suite's macro writes.
        pub fn run<H: Harness + 'static>(module: &str, name: &str, make: impl AsyncFnOnce() -> H) {
            $crate::run(CASES, module, name, async || Box::new(make().await) as Box<dyn Harness>);
        }
    };
}
