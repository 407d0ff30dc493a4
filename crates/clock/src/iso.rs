//! Timestamps in ISO 8601.
//!
//! Calendar arithmetic for the proleptic Gregorian calendar, after Howard Hinnant's `civil_from_days`.

use crate::Timestamp;

const MILLIS_PER_DAY: u64 = 86_400_000;

impl Timestamp {
    /// Formats as `2026-11-15T09:30:00.250Z`.
    pub fn to_iso(self) -> String {
        let (days, millis) = (self.as_millis() / MILLIS_PER_DAY, self.as_millis() % MILLIS_PER_DAY);
        let (year, month, day) = civil(days);
        let (seconds, millis) = (millis / 1000, millis % 1000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }

    /// Parses a date, or a date and time, from 1970 on: extended format (`2026-11-16T12:00:00Z`) or basic format
    /// (`20261116T120000Z`), with any offset notation (`Z`, `+01:00`, `+0100`, `+01`). The default offset is UTC.
    pub fn from_iso(text: &str) -> Option<Self> {
        parse_iso(text).map(Self::from_millis)
    }

    /// Year, month (from 1) and day (from 1), in UTC.
    pub fn civil(self) -> (u64, u64, u64) {
        civil(self.as_millis() / MILLIS_PER_DAY)
    }
}

fn parse_iso(text: &str) -> Option<u64> {
    let (date, clock) = match text.split_once(['T', 't', ' ']) {
        Some((date, clock)) => (date, Some(clock)),
        None => (text, None),
    };
    let [year, month, day] = fields(date, '-', &[4, 2, 2])?;
    let midnight = days_to(year, month, day)? * MILLIS_PER_DAY;
    let Some(clock) = clock else { return Some(midnight) };
    let (clock, offset_minutes) = split_offset(clock)?;
    // ISO 8601 allows both decimal signs.
    let (clock, millis) = match clock.split_once(['.', ',']) {
        Some((clock, fraction)) => (clock, parse_fraction(fraction)?),
        None => (clock, 0),
    };
    let [hour, minute, second] = match clock.len() {
        // Fractions of hours and minutes are not supported.
        2 | 4 | 5 if millis > 0 => return None,
        2 => fields::<1>(clock, ':', &[2]).map(|[hour]| [hour, 0, 0])?,
        4 | 5 => fields::<2>(clock, ':', &[2, 2]).map(|[hour, minute]| [hour, minute, 0])?,
        _ => fields(clock, ':', &[2, 2, 2])?,
    };
    // A leap second becomes the second after it, and 24:00 the end of the day.
    let end_of_day = (hour, minute, second, millis) == (24, 0, 0, 0);
    if (hour > 23 && !end_of_day) || minute > 59 || second > 60 {
        return None;
    }
    let local = midnight + ((hour * 60 + minute) * 60 + second) * 1000 + millis;
    local.checked_add_signed(-offset_minutes * 60_000)
}

/// Splits off the UTC offset, in minutes east.
fn split_offset(clock: &str) -> Option<(&str, i64)> {
    if let Some(clock) = clock.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    // An unescaped plus in a query string arrives as a space.
    let Some(at) = clock.rfind(['+', '-', ' ']) else { return Some((clock, 0)) };
    let (clock, offset) = clock.split_at(at);
    let (is_west, offset) = (offset.starts_with('-'), &offset[1..]);
    let [hours, minutes] = match offset.len() {
        2 => fields::<1>(offset, ':', &[2]).map(|[hours]| [hours, 0])?,
        _ => fields(offset, ':', &[2, 2])?,
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    let minutes = i64::try_from(hours * 60 + minutes).ok()?;
    // There may be a space before the offset.
    Some((clock.trim_end_matches(' '), if is_west { -minutes } else { minutes }))
}

fn parse_fraction(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let first_three: String = digits.chars().chain("000".chars()).take(3).collect();
    first_three.parse().ok()
}

/// Parses numbers of these widths, either all separated (extended format) or none (basic format).
fn fields<const N: usize>(text: &str, separator: char, widths: &[usize; N]) -> Option<[u64; N]> {
    let separated = text.contains(separator);
    let mut numbers = [0; N];
    let mut rest = text;
    for (place, (number, width)) in numbers.iter_mut().zip(widths).enumerate() {
        if separated && place > 0 {
            rest = rest.strip_prefix(separator)?;
        }
        let (part, after) = rest.split_at_checked(*width)?;
        if !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
        rest = after;
    }
    rest.is_empty().then_some(numbers)
}

/// Days since 1970-01-01; `None` for an invalid or earlier date.
fn days_to(year: u64, month: u64, day: u64) -> Option<u64> {
    if year < 1970 || !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    // An invalid day such as February 30 maps to another date.
    (civil(days) == (year, month, day)).then_some(days)
}

fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        Timestamp::from_iso(text).map(Timestamp::to_iso)
    }

    #[test]
    fn times_are_read_and_written() {
        for (text, written) in [
            ("1970-01-01", "1970-01-01T00:00:00.000Z"),
            ("2024-02-29T23:59:60Z", "2024-03-01T00:00:00.000Z"),
            ("2026-11-15T09:30Z", "2026-11-15T09:30:00.000Z"),
            ("2026-11-15 09:30:01", "2026-11-15T09:30:01.000Z"),
            ("2026-11-15T09:30:01.2+01:00", "2026-11-15T08:30:01.200Z"),
            ("2026-11-15T23:30:01.123456-05:30", "2026-11-16T05:00:01.123Z"),
        ] {
            assert_eq!(read(text).as_deref(), Some(written), "{text}");
        }
    }

    #[test]
    fn every_spelling_of_iso_8601_that_programs_write_is_read() {
        for (text, written) in [
            ("2026-11-16T12:00:00+0000", "2026-11-16T12:00:00.000Z"),
            ("2026-11-16T12:00:00-0530", "2026-11-16T17:30:00.000Z"),
            ("2026-11-16T12:00:00+01", "2026-11-16T11:00:00.000Z"),
            ("2026-11-16 12:00:00 +0100", "2026-11-16T11:00:00.000Z"),
            ("2026-11-16T12:00:00 01:00", "2026-11-16T11:00:00.000Z"),
            ("20261116T120000Z", "2026-11-16T12:00:00.000Z"),
            ("20261116T120000.5+0100", "2026-11-16T11:00:00.500Z"),
            ("20261116T1200", "2026-11-16T12:00:00.000Z"),
            ("20261116", "2026-11-16T00:00:00.000Z"),
            ("2026-11-16t12:00:00.123456789z", "2026-11-16T12:00:00.123Z"),
            ("2026-11-16T12:00:00,25Z", "2026-11-16T12:00:00.250Z"),
            ("2026-11-16T12Z", "2026-11-16T12:00:00.000Z"),
            ("2026-11-16T24:00:00Z", "2026-11-17T00:00:00.000Z"),
        ] {
            assert_eq!(read(text).as_deref(), Some(written), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "today",
            "2026-02-29",
            "2026-13-01",
            "2026-1-1",
            "1969-12-31",
            "2026-11-15T25:00:00Z",
            "2026-11-15T09:30:00+1",
            "1970-01-01T00:00:00+01:00",
            "2026-11-15T",
            "+026-11-15",
            "2026-11-15T09:30:00.Z",
            "2026-11-15T09:3000Z",
            "2026-1115",
            "202611",
            "2026-11-15T09:30.5Z",
            "2026-11-15T24:00:01Z",
            "2026-11-15T09:30:00+01:0",
            "2026-11-1é",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_of_a_long_time_survives_the_round_trip() {
        for days in 0..200_000 {
            let (year, month, day) = civil(days);
            assert_eq!(days_to(year, month, day), Some(days));
        }
    }
}
