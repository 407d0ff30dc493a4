//! Fail points: places at which a test lets the process kill itself, as by `kill -9`.
//!
//! The environment variable `FAIL_POINT_OF_CRAWLWAY` names one: `stage.step`, or `stage.step#n` for its n-th pass. Release
//! builds ignore it.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// Environment variable that names the fail point.
pub const VARIABLE: &str = "FAIL_POINT_OF_CRAWLWAY";

/// Declares the fail points of a stage: an enum whose variants have a name in
/// [`VARIABLE`], with all of them in `ALL`.
#[macro_export]
macro_rules! fail_points {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// All fail points, in order.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// Name in the environment variable.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

fail_points! {
    /// Steps of the runner, each with a fail point after it.
    Step {
        /// The item is received.
        Received = "taken",
        /// The stage has run.
        Ran = "ran",
        /// The output is published.
        Published = "published",
        /// The effects are applied.
        EffectsApplied = "applied",
        /// The trail is written.
        TrailWritten = "trailed",
        /// The item is settled.
        Settled = "settled",
    }
}

/// Kills this process if [`VARIABLE`] names this fail point.
pub fn passed(stage: &str, step: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    let Some(point) = configured() else { return };
    if point.stage == stage && point.step == step && point.passes_left.fetch_sub(1, Ordering::SeqCst) == 1 {
        // SIGKILL, so that no clean-up runs.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[derive(Debug)]
struct FailPoint {
    stage: String,
    step: String,
    passes_left: AtomicU64,
}

fn configured() -> Option<&'static FailPoint> {
    static CONFIGURED: OnceLock<Option<FailPoint>> = OnceLock::new();
    CONFIGURED.get_or_init(|| parse(&std::env::var(VARIABLE).ok()?)).as_ref()
}

fn parse(text: &str) -> Option<FailPoint> {
    let (place, pass) = text.split_once('#').unwrap_or((text, "1"));
    let (stage, step) = place.split_once('.')?;
    Some(FailPoint {
        stage: stage.into(),
        step: step.into(),
        passes_left: AtomicU64::new(pass.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fail_point_is_parsed_with_and_without_its_number() {
        let point = parse("crawl.published").unwrap();
        assert_eq!((point.stage.as_str(), point.step.as_str()), ("crawl", "published"));
        assert_eq!(point.passes_left.into_inner(), 1);
        assert_eq!(parse("index.ran#7").unwrap().passes_left.into_inner(), 7);
        for wrong in ["", "crawl", "crawl.ran#x"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
