//! Timestamps, durations, exponential back-off, and clocks: the system clock and a manual one for tests.

mod backoff;
mod clock;
mod duration;
mod iso;
mod steady;
mod suspension;
mod timestamp;

pub use backoff::{Backoff, jittered};
pub use clock::{Clock, ManualClock};
pub use duration::{DURATION_SYNTAX, format_duration, parse_duration};
pub use steady::{Anchor, OFFSET_VARIABLE};
pub use suspension::{was_suspended_since, watch_for_suspensions};
pub use timestamp::Timestamp;
