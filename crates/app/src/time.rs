//! Points in time as text: ISO 8601 in UTC, and ages.

use crate::quantity::{parse_duration, rough_duration};
use crawlway_broker::Timestamp;

/// Expected form of a point in time, for error messages.
const TIME: &str = "a time such as 2026-11-15, 2026-11-15T09:30:00Z or 2026-11-15T10:30:00+01:00, \
                    or an age such as 30min or 2d";

/// Age of a time, such as `3 min ago`.
pub(crate) fn ago(time: Timestamp, now: Timestamp) -> String {
    let age = now.since(time);
    if age.as_secs() == 0 { "just now".to_owned() } else { format!("{} ago", rough_duration(age)) }
}

/// Age of a time in ISO 8601.
pub(crate) fn ago_text(time: &str, now: Timestamp) -> String {
    Timestamp::from_iso(time).map_or_else(|| "at an unknown time".to_owned(), |time| ago(time, now))
}

/// Parses a date, a date with a time, or an age. The default offset is UTC.
fn parse_time(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let text = text.trim();
    let age = parse_duration(text.strip_suffix("ago").unwrap_or(text));
    age.map(|age| now - age).or_else(|| Timestamp::from_iso(text)).ok_or_else(|| format!("expected {TIME}"))
}

/// Value parser of flags that take a time.
pub(crate) fn parse_time_flag(text: &str) -> Result<Timestamp, String> {
    parse_time(text, Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_ages_are_parsed() {
        let read =
            |text| parse_time(text, Timestamp::from_millis(1_000_000_000_000)).ok().map(Timestamp::to_iso);
        assert_eq!(read("2026-11-15T09:30Z").as_deref(), Some("2026-11-15T09:30:00.000Z"));
        for age in ["1h", "1h ago"] {
            assert_eq!(read(age).as_deref(), Some("2001-09-09T00:46:40.000Z"), "{age}");
        }
        assert_eq!(read("today"), None);
    }

    #[test]
    fn ages_are_rough() {
        let now = Timestamp::from_millis(10_000_000);
        assert_eq!(ago(now, now), "just now");
        assert_eq!(ago(Timestamp::from_millis(10_000_000 - 200_000), now), "3 min ago");
        assert_eq!(ago(Timestamp::from_millis(20_000_000), now), "just now");
    }
}
