//! Points in time as contracts store them, and the clock they are read from: the system's, or one moved by hand.

mod backoff;
mod clock;
mod iso;
mod span;
mod steady;
mod suspension;
mod timestamp;

pub use backoff::{Backoff, jittered};
pub use clock::{Clock, ManualClock};
pub use span::{DURATION, exact_duration, parse_duration};
pub use steady::{Anchor, OFFSET_VARIABLE};
pub use suspension::{was_suspended_since, watch_for_suspensions};
pub use timestamp::Timestamp;
