//! Macro that expands a list of cases to the suite's table and to a macro for the tests of a backend.

/// The list of a suite: functions of a module by name, and scripts. The macro that it defines takes an expression for a
/// harness, which may `await` and is evaluated once per case, and expands to one test per case. The `$` is for that macro's own
/// argument.
macro_rules! suite {
    (@start $harness:ident $module:ident $case:ident) => {
        $crate::fixture::start($harness, $module::$case)
    };
    (@start $harness:ident $module:ident $case:ident $script:literal) => {
        Box::pin(script::run($harness, $script))
    };
    (($d:tt) $suite:ident for $contract:ty: $($module:ident { $($case:ident $(: $script:literal)?,)* })*) => {
        /// Every case, in the order of the list.
        pub const CASES: &[crawlway_conformance::Case<dyn $crate::Harness<$contract>>] =
            &[$($(crawlway_conformance::Case {
                module: stringify!($module),
                name: stringify!($case),
                start: |harness| suite!(@start harness $module $case $($script)?),
            },)*)*];

        /// Runs one case on its own runtime; panics if it fails.
        pub fn run<H>(module: &str, name: &str, make: impl AsyncFnOnce() -> H)
        where
            H: $crate::Harness<$contract> + 'static,
        {
            let make = async || Box::new(make().await) as Box<dyn $crate::Harness<$contract>>;
            crawlway_conformance::run(CASES, module, name, make);
        }

        /// Expands to one test per case of the suite of the same name, for the harness of the expression.
        #[macro_export]
        macro_rules! $suite {
            ($d make:expr) => {
                mod $suite {
                    #[allow(unused_imports)]
                    use super::*;
                    $(mod $module {
                        #[allow(unused_imports)]
                        use super::*;
                        $(#[test]
                        fn $case() {
                            $crate::$suite::run(stringify!($module), stringify!($case), async || $d make);
                        })*
                    })*
                }
            };
        }
    };
}
