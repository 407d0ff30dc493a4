//! Sizes and durations as text.

pub(crate) use crawlway_clock::{DURATION_SYNTAX, format_duration, parse_duration};

use std::time::Duration;

/// Expected form of a size, for error messages.
pub(crate) const SIZE: &str = "a size such as \"64MiB\" or \"10MB\", or a whole number of bytes";

/// Parses `64MiB`, `10 MB` or a number of bytes. Units are case-insensitive.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split_number(text.trim())?;
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "kib" => 1 << 10,
        "mb" => 1_000_000,
        "mib" => 1 << 20,
        "gb" => 1_000_000_000,
        "gib" => 1 << 30,
        "tb" => 1_000_000_000_000,
        "tib" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// Duration in its largest unit, rounded down.
pub(crate) fn rough_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (number, unit) = match seconds {
        0 => (u64::try_from(duration.as_millis()).unwrap_or(u64::MAX), "ms"),
        1..60 => (seconds, "s"),
        60..3600 => (seconds / 60, "min"),
        3600..172_800 => (seconds / 3600, "h"),
        _ => (seconds / 86_400, "days"),
    };
    format!("{number} {unit}")
}

fn split_number(text: &str) -> Option<(u64, &str)> {
    let length = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(length);
    Some((number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_an_optional_unit() {
        for (text, bytes) in [("0", 0), ("1048576", 1 << 20), ("64MiB", 64 << 20), ("10 mb", 10_000_000)] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "64M", "1.5MiB", "-1", "64MiB 2", "99999999999TiB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn a_rough_duration_has_one_unit() {
        for (seconds, text) in
            [(0, "0 ms"), (59, "59 s"), (200, "3 min"), (90_000, "25 h"), (864_000, "10 days")]
        {
            assert_eq!(rough_duration(Duration::from_secs(seconds)), text);
        }
    }
}
