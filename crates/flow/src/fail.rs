//! Fail points: places at which a test has the process killed, as by `kill -9`.
//!
//! The variable `FAIL_POINT_OF_CRAWLWAY` names one, `stage.step` or `stage.step#n` for the n-th time it is passed. Only debug
//! builds heed it.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// The variable that names where to die.
pub const VARIABLE: &str = "FAIL_POINT_OF_CRAWLWAY";

/// The steps of an item's way through any stage, in order. A process may die after each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It was taken from its source.
    Taken,
    /// The stage has done its work.
    Ran,
    /// What came out is published.
    Published,
    /// The effects are applied.
    Applied,
    /// The trail is written.
    Trailed,
    /// The item is settled.
    Settled,
}

impl Step {
    /// All of them, in order.
    pub const ALL: [Step; 6] =
        [Step::Taken, Step::Ran, Step::Published, Step::Applied, Step::Trailed, Step::Settled];

    /// Its name in [`VARIABLE`].
    pub const fn name(self) -> &'static str {
        match self {
            Step::Taken => "taken",
            Step::Ran => "ran",
            Step::Published => "published",
            Step::Applied => "applied",
            Step::Trailed => "trailed",
            Step::Settled => "settled",
        }
    }
}

/// Kills this process at once if it was to die here.
pub fn passed(stage: &str, step: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    let Some(plan) = plan() else { return };
    if plan.stage == stage && plan.step == step && plan.left.fetch_sub(1, Ordering::SeqCst) == 1 {
        // SIGKILL, so that nothing is tidied up, exactly as when somebody else sends it.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[derive(Debug)]
struct Plan {
    stage: String,
    step: String,
    left: AtomicU64,
}

fn plan() -> Option<&'static Plan> {
    static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
    PLAN.get_or_init(|| read(&std::env::var(VARIABLE).ok()?)).as_ref()
}

fn read(text: &str) -> Option<Plan> {
    let (place, time) = text.split_once('#').unwrap_or((text, "1"));
    let (stage, step) = place.split_once('.')?;
    Some(Plan { stage: stage.into(), step: step.into(), left: AtomicU64::new(time.parse().ok()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_with_and_without_its_number() {
        let plan = read("crawl.published").unwrap();
        assert_eq!((plan.stage.as_str(), plan.step.as_str()), ("crawl", "published"));
        assert_eq!(plan.left.into_inner(), 1);
        assert_eq!(read("index.ran#7").unwrap().left.into_inner(), 7);
        for wrong in ["", "crawl", "crawl.ran#x"] {
            assert!(read(wrong).is_none(), "{wrong}");
        }
    }
}
