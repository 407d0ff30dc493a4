//! How a suite is proved: an oracle with faults that can be switched on, and which case finds which of them.

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

/// Makes the enum `Fault` of these deliberate breaches of a contract, and `Nothing`, and the list `Fault::ALL`.
#[macro_export]
macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One deliberate breach of the contract.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(dead_code, reason = "each test crate uses its own part")]
        pub(crate) enum Fault {
            /// None: the oracle itself.
            Nothing,
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            #[allow(dead_code, reason = "each test crate uses its own part")]
            pub(crate) const ALL: &[Fault] = &[Fault::Nothing, $(Fault::$name),*];
        }
    };
}

/// Says which case finds which faults, and writes the tests of that: each is found there, every case finds one, and
/// every fault is found. Needs in scope `Fault`, `CASES`, and `is_found`, which runs a case on the oracle with a
/// fault.
#[macro_export]
macro_rules! finds {
    ($($module:ident { $($case:ident: $($fault:ident),*;)* })*) => {
        /// Which case finds which faults.
        const FINDS: &[(&str, &str, &[Fault])] =
            &[$($((stringify!($module), stringify!($case), &[$(Fault::$fault),*]),)*)*];

        $(mod $module {
            use super::*;
            $(#[test]
            fn $case() {
                for fault in [$(Fault::$fault),*] {
                    is_found(fault, stringify!($module), stringify!($case));
                }
            })*
        })*

        #[test]
        fn every_case_finds_a_fault() {
            for case in CASES {
                let finds = FINDS.iter().find(|(module, name, _)| (*module, *name) == (case.module, case.name));
                let faults = finds.map_or(0, |(_, _, faults)| faults.len());
                assert!(faults > 0, "{}::{} needs a fault that it finds", case.module, case.name);
            }
        }

        #[test]
        fn every_fault_is_found() {
            for fault in Fault::ALL {
                let found = FINDS.iter().any(|(_, _, faults)| faults.contains(fault));
                assert_eq!(found, *fault != Fault::Nothing, "{fault:?} needs a case that finds it");
            }
        }
    };
}
