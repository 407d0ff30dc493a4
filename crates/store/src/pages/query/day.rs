//! Dates and times in queries.

use crate::Timestamp;
use std::fmt;

const MILLIS_PER_DAY: u64 = 86_400_000;

/// Calendar day in UTC, from 1970 to 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day {
    year: u16,
    month: u8,
    day: u8,
}

impl Day {
    /// A day; `None` if it does not exist.
    pub fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let exists = (1970..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_of_month(year, month)).contains(&day);
        exists.then_some(Self { year, month, day })
    }

    /// First millisecond.
    pub fn start(self) -> Timestamp {
        Timestamp::from_millis(self.number() * MILLIS_PER_DAY)
    }

    /// Last millisecond.
    pub fn end(self) -> Timestamp {
        Timestamp::from_millis((self.number() + 1) * MILLIS_PER_DAY - 1)
    }

    /// Days since 1970-01-01.
    fn number(self) -> u64 {
        const LEAP_DAYS_BEFORE_1970: u64 = 477;
        let year = u64::from(self.year);
        let before = year - 1;
        let leap_days = before / 4 - before / 100 + before / 400;
        let months: u64 = (1..self.month).map(|month| u64::from(days_of_month(self.year, month))).sum();
        (year - 1970) * 365 + leap_days - LEAP_DAYS_BEFORE_1970 + months + u64::from(self.day) - 1
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// End of a time range: a whole day or a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// A whole day.
    Day(Day),
    /// A point in time.
    Time(Timestamp),
}

impl Moment {
    /// First millisecond.
    pub fn start(self) -> Timestamp {
        match self {
            Self::Day(day) => day.start(),
            Self::Time(time) => time,
        }
    }

    /// Last millisecond.
    pub fn end(self) -> Timestamp {
        match self {
            Self::Day(day) => day.end(),
            Self::Time(time) => time,
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Day(day) => day.fmt(f),
            Self::Time(time) => f.write_str(&time.to_iso()),
        }
    }
}

/// Parses an ISO 8601 date or time into its first and last moment: `2026-01-31`, `20260131`, `2026-01`, `2026`,
/// `2026-01-31T12:00:00Z`.
pub(super) fn parse_moments(text: &str) -> Result<(Moment, Moment), String> {
    if text.contains(['T', 't', ' ']) {
        let time = Timestamp::from_iso(text).map(Moment::Time).ok_or_else(|| not_a_date(text))?;
        return Ok((time, time));
    }
    let (first, last) = match text.as_bytes() {
        digits if digits.len() == 8 && digits.iter().all(u8::is_ascii_digit) => {
            parse_days(&format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..]))?
        }
        _ => parse_days(text)?,
    };
    Ok((Moment::Day(first), Moment::Day(last)))
}

/// Parses `2026-01-31`, `2026-01` or `2026` into its first and last day.
fn parse_days(text: &str) -> Result<(Day, Day), String> {
    let mut parts = text.split('-');
    let year = parts.next().and_then(|part| number(part, 4));
    let month = parts.next().map(|part| number(part, 2));
    let day = parts.next().map(|part| number(part, 2));
    let (Some(year), None) = (year, parts.next()) else { return Err(not_a_date(text)) };
    if !(1970..=9999).contains(&year) {
        return Err(format!("the year {year} is out of range; years go from 1970 to 9999"));
    }
    let (first_month, last_month) = match month {
        None => (1, 12),
        Some(Some(month @ 1..=12)) => (month, month),
        Some(Some(month)) => {
            return Err(format!("there is no month {month} in `{text}`; months are 01 to 12"));
        }
        Some(None) => return Err(not_a_date(text)),
    };
    let (first_month, last_month) = (narrow(first_month), narrow(last_month));
    let month_length = days_of_month(year, last_month);
    let (first_day, last_day) = match day {
        None => (1, month_length),
        Some(Some(day)) if (1..=u16::from(month_length)).contains(&day) => (narrow(day), narrow(day)),
        Some(Some(_)) => {
            return Err(format!(
                "there is no day `{text}`; {year:04}-{last_month:02} has the days 01 to {month_length}"
            ));
        }
        Some(None) => return Err(not_a_date(text)),
    };
    let first = Day { year, month: first_month, day: first_day };
    Ok((first, Day { year, month: last_month, day: last_day }))
}

fn not_a_date(text: &str) -> String {
    format!(
        "`{text}` is not a date; write a day such as 2026-01-31, a month such as 2026-01, a year, or \
         a time such as 2026-01-31T12:00:00Z"
    )
}

fn number(text: &str, digits: usize) -> Option<u16> {
    let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

fn narrow(number: u16) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn days_of_month(year: u16, month: u8) -> u8 {
    let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    match month {
        2 => 28 + u8::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_as_the_calendar_does() {
        for (day, number) in [
            ((1970, 1, 1), 0),
            ((1970, 12, 31), 364),
            ((1972, 2, 29), 789),
            ((2000, 3, 1), 11_017),
            ((2026, 11, 15), 20_772),
            ((9999, 12, 31), 2_932_896),
        ] {
            let (year, month, date) = day;
            let day = Day::new(year, month, date).unwrap();
            assert_eq!(day.number(), number, "{day}");
            assert_eq!(day.end().as_millis() + 1, (number + 1) * MILLIS_PER_DAY);
        }
    }

    #[test]
    fn invalid_days_are_refused() {
        assert_eq!(Day::new(2026, 2, 29), None);
        assert_eq!(
            parse_days("2026-02-30").unwrap_err(),
            "there is no day `2026-02-30`; 2026-02 has the days 01 to 28"
        );
        for text in
            ["", "26-01-01", "2026-1-1", "2026-01-01-01", "2026-00", "2026-13", "+026", "1969", "2026-01-"]
        {
            assert!(parse_days(text).is_err(), "{text}");
        }
    }
}
