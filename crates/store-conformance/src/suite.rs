//! What a list of cases becomes: the suite's table, and a macro of the suite's name that writes a backend's tests.

/// The list of a suite. The macro it makes takes an expression for a harness, which may `await` and is evaluated once
/// per case, and writes one test per case in modules by theme. The `$` is for that macro's own argument.
macro_rules! suite {
    (($d:tt) $suite:ident for $contract:ty: $($module:ident { $($case:ident,)* })*) => {
        /// Every case, in the order of the list.
        pub const CASES: &[crawlway_conformance::Case<dyn $crate::Harness<$contract>>] =
            &[$($(crawlway_conformance::Case {
                module: stringify!($module),
                name: stringify!($case),
                start: |harness| $crate::trial::start(harness, $module::$case),
            },)*)*];

        /// Runs one case on its own runtime and panics, saying what was expected, if it fails.
        pub fn run<H>(module: &str, name: &str, make: impl AsyncFnOnce() -> H)
        where
            H: $crate::Harness<$contract> + 'static,
        {
            let make = async || Box::new(make().await) as Box<dyn $crate::Harness<$contract>>;
            crawlway_conformance::run(CASES, module, name, make);
        }

        /// Writes one test per case of the suite of the same name, for the harness that the expression makes.
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
