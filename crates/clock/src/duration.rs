//! Durations as text.

use std::time::Duration;

/// Expected syntax of a duration, for error messages.
pub const DURATION_SYNTAX: &str = "a duration such as \"500ms\", \"60s\", \"5min\", \"2h\" or \"1d\"";

/// Parses `500ms`, `60s`, `5min` or `1h30m`. A number without a unit is invalid.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(length);
        let after = after.trim_start();
        let length = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at(length);
        let one = match unit {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" | "min" => Duration::from_secs(60),
            "h" => Duration::from_secs(60 * 60),
            "d" => Duration::from_secs(24 * 60 * 60),
            _ => return None,
        };
        total = total.checked_add(one.checked_mul(number.parse().ok()?)?)?;
        rest = next.trim_start();
    }
    Some(total)
}

/// Formats a duration without loss, to the millisecond; [`parse_duration`] is the inverse.
pub fn format_duration(duration: Duration) -> String {
    let mut millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)] {
        if millis >= size {
            text.push_str(&format!("{}{unit}", millis / size));
            millis %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_duration_reads_back_as_itself() {
        for millis in [0, 1, 999, 60_000, 3_661_001, 86_400_000] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(&format_duration(duration)), Some(duration));
        }
    }

    #[test]
    fn durations_need_a_unit() {
        for (text, millis) in [("500ms", 500), ("60s", 60_000), ("1h30m", 5_400_000), ("1 d", 86_400_000)] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "60", "s", "1.5s", "-1s", "1 fortnight", "1h30", "99999999999d"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
