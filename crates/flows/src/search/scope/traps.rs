//! Crawler traps: sites that generate URLs without end, mostly by accident.
//!
//! | trap | measure |
//! |---|---|
//! | session ids | removed from the URL, so that one page has one URL |
//! | growing paths (`a/a/a/…`) | a segment four times, or too many segments, is not followed |
//! | endless calendars | implausible years reached by pagination, and long pagination of any kind, are not followed |
//! | query explosions | a budget of URLs per path for combinations of parameters, a larger one for a single parameter, and a hundred times as much for URLs with an id |
//!
//! Ordinary sites must not be mistaken for traps: ids look like years, and every topic of a forum is `?f=2&t=1234`.

use crawlway_content::{NormalUrl, UrlOptions, url::normalise};
use crawlway_store::{Ticket, frontier::UrlBudget};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::HashMap};

/// Limits against crawler traps. Crawls of older versions are stored with the names in the aliases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traps {
    /// Maximum number of consecutive links to URLs that differ in numbers or values only.
    #[serde(alias = "longest_chain")]
    pub max_chain: u32,
    /// Maximum number of URLs of a path that differ in one parameter; a hundred times as many if it is an id.
    #[serde(alias = "queries_per_path")]
    pub max_queries_per_path: u64,
    /// Maximum number of URLs of a path that differ in several parameters; a hundred times as many if one is an id.
    #[serde(alias = "combinations_per_path")]
    pub max_combinations_per_path: u64,
    /// Maximum number of path segments.
    #[serde(alias = "most_segments")]
    pub max_segments: usize,
    /// Maximum length of a URL, in bytes.
    #[serde(alias = "longest_url")]
    pub max_url_length: usize,
}

impl Default for Traps {
    fn default() -> Self {
        Self {
            max_chain: 500,
            max_queries_per_path: 10_000,
            max_combinations_per_path: 500,
            max_segments: 24,
            max_url_length: 2_000,
        }
    }
}

/// Repetitions of a segment from which on a path is a trap.
const REPEATED_SEGMENT: usize = 4;
/// Range of plausible years of a page reached by pagination.
const MAX_YEARS_AHEAD: u64 = 1;
const MAX_YEARS_BACK: u64 = 40;
/// Number of consecutive similar links that is pagination.
const MIN_PAGINATION: u32 = 3;
/// Parameters that are session ids.
const SESSION_PARAMETERS: &[&str] = &[
    "phpsessid",
    "jsessionid",
    "aspsessionid*",
    "sessionid",
    "session_id",
    "cfid",
    "cftoken",
    "zenid",
    "oscsid",
];
/// Parameters that are session ids if their value looks random.
const POSSIBLE_SESSION_PARAMETERS: &[&str] = &["sid", "s", "session"];

/// Removes session ids from a URL.
pub(super) fn without_session(url: NormalUrl) -> NormalUrl {
    let text = url.as_str();
    if !text.contains([';', '?']) {
        return url;
    }
    let lower = text.to_ascii_lowercase();
    let mut cleaned = Cow::Borrowed(text);
    if let Some(at) = lower.find(";jsessionid=") {
        let end = text[at..].find(['/', '?']).map_or(text.len(), |end| at + end);
        cleaned = Cow::Owned(format!("{}{}", &text[..at], &text[end..]));
    }
    let mut drop: Vec<String> = SESSION_PARAMETERS.iter().map(|name| (*name).to_owned()).collect();
    for (name, value) in parameters(&cleaned) {
        if POSSIBLE_SESSION_PARAMETERS.iter().any(|known| name.eq_ignore_ascii_case(known))
            && looks_random(value)
        {
            drop.push(name.to_owned());
        }
    }
    let options = UrlOptions { drop_parameters: drop, ..UrlOptions::default() };
    normalise(&cleaned, &options).unwrap_or(url)
}

/// Reason for URLs that are too long.
pub(super) const TOO_LONG: &str = "trap.long_url";

/// Whether a URL exceeds the maximum length.
pub(super) fn is_too_long(url: &NormalUrl, traps: &Traps) -> bool {
    url.as_str().len() > traps.max_url_length
}

/// Reason why a URL is a trap, if it is one.
pub(super) fn detect(url: &NormalUrl, chain: u32, this_year: u64, traps: &Traps) -> Option<&'static str> {
    if is_too_long(url, traps) {
        return Some(TOO_LONG);
    }
    let path = path(url);
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut segments = 0;
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        segments += 1;
        let count = counts.entry(segment).or_default();
        *count += 1;
        // Numbers may repeat, as in dates and coordinates.
        if *count >= REPEATED_SEGMENT && !segment.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some("trap.repeated_path");
        }
    }
    if segments > traps.max_segments {
        return Some("trap.deep_path");
    }
    if chain > traps.max_chain {
        return Some("trap.chain");
    }
    if chain >= MIN_PAGINATION
        && let Some(year) = year(url)
        && (year > this_year + MAX_YEARS_AHEAD || year + MAX_YEARS_BACK < this_year)
    {
        return Some("trap.calendar");
    }
    None
}

/// Number of budgets of a path among which URLs with an id are distributed.
const ID_BUDGETS: u64 = 100;

/// Budget of a URL with a query.
pub(super) fn budget(url: &NormalUrl, traps: &Traps) -> Option<UrlBudget> {
    let several = match parameters(url.as_str()).take(2).count() {
        0 => return None,
        count => count > 1,
    };
    let (mark, max, reason) = if several {
        ("&", traps.max_combinations_per_path, "trap.combinations")
    } else {
        ("?", traps.max_queries_per_path, "trap.queries")
    };
    let mut kind = format!("{}{}{mark}", url.origin(), path(url));
    // A filter has few values; an id has one per topic or product, and all of them are to be crawled.
    let ids: Vec<&str> =
        parameters(url.as_str()).filter(|(name, value)| is_id(name, value)).map(|(_, value)| value).collect();
    if !ids.is_empty() {
        let part = Ticket::of(&ids.join(" ")).as_u128() % u128::from(ID_BUDGETS);
        kind = format!("{kind}{part}");
    }
    Some(UrlBudget { kind, max, reason: reason.to_owned() })
}

/// Three digits or more, and no position in a list.
fn is_id(name: &str, value: &str) -> bool {
    const POSITIONS: &[&str] = &["page", "p", "pg", "start", "offset", "skip", "from", "limit"];
    value.len() >= 3
        && value.bytes().all(|byte| byte.is_ascii_digit())
        && !POSITIONS.iter().any(|position| name.eq_ignore_ascii_case(position))
}

/// URL pattern without numbers and values, equal for all pages of a list or a calendar.
pub(super) fn kind(url: &NormalUrl) -> String {
    let mut kind = url.origin().to_owned();
    let mut in_number = false;
    for character in path(url).chars() {
        if character.is_ascii_digit() {
            if !in_number {
                kind.push('#');
            }
            in_number = true;
        } else {
            kind.push(character);
            in_number = false;
        }
    }
    for (name, _) in parameters(url.as_str()) {
        kind.push('&');
        kind.push_str(name);
    }
    kind
}

fn path(url: &NormalUrl) -> &str {
    let text = url.path_and_query();
    text.split_once('?').map_or(text, |(path, _)| path)
}

fn parameters(url: &str) -> impl Iterator<Item = (&str, &str)> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split('&').filter(|part| !part.is_empty()).map(|part| part.split_once('=').unwrap_or((part, "")))
}

/// At least 16 letters and digits, three of each.
fn looks_random(value: &str) -> bool {
    let count = |fits: fn(&u8) -> bool| value.bytes().filter(fits).count();
    let (digits, letters) = (count(u8::is_ascii_digit), count(u8::is_ascii_alphabetic));
    value.len() >= 16 && digits >= 3 && letters >= 3 && digits + letters >= value.len() - 2
}

/// Words in URLs that contain dates.
const DATE_WORDS: &[&str] = &[
    "agenda",
    "archive",
    "archives",
    "cal",
    "calendar",
    "calendario",
    "calendrier",
    "date",
    "day",
    "event",
    "events",
    "kalender",
    "month",
    "schedule",
    "week",
    "year",
];

/// Year in a URL. A number alone may be an id: it is a year only at the start of a date such as 2026/11/15 or 2026-11, or in
/// a URL with a word for dates.
fn year(url: &NormalUrl) -> Option<u64> {
    let text = url.path_and_query();
    let mut words = text.split(|character: char| !character.is_ascii_alphabetic());
    let dated = words.any(|word| DATE_WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)));
    let mut rest = text;
    while let Some(start) = rest.find(|character: char| character.is_ascii_digit()) {
        rest = &rest[start..];
        let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        if let Some(year) = year_of(number, after, dated) {
            return Some(year);
        }
        rest = after;
    }
    None
}

/// Year of a number, given the text after it.
fn year_of(number: &str, after: &str, dated: bool) -> Option<u64> {
    let year: u64 = number.get(..4)?.parse().ok().filter(|year| (1000..3000).contains(year))?;
    let is_month = |text: &str| text.parse().is_ok_and(|month: u64| (1..=12).contains(&month));
    let fits = match number.len() {
        4 => {
            dated || {
                // Only months with a leading zero: `/2031/5` and `/2031/12` may be other pages. An endless calendar reaches
                // the former too.
                let month = after.strip_prefix(['-', '/', '.', '_']).and_then(|after| after.get(..2));
                let more = |character: char| character.is_ascii_digit();
                month.is_some_and(|month| month.starts_with('0') && is_month(month))
                    && !after.get(3..).is_some_and(|after| after.starts_with(more))
            }
        }
        6 | 8 => dated && is_month(&number[4..6]),
        _ => false,
    };
    fits.then_some(year)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> NormalUrl {
        text.parse().unwrap()
    }

    #[test]
    fn only_session_ids_are_removed() {
        for (with, without) in [
            ("http://a.test/x;jsessionid=AB12?q=1", "http://a.test/x?q=1"),
            ("http://a.test/x;JSESSIONID=AB12/y", "http://a.test/x/y"),
            ("http://a.test/x?PHPSESSID=0a1b2c&q=1", "http://a.test/x?q=1"),
            ("http://a.test/x?sid=0a1b2c3d4e5f60718293", "http://a.test/x"),
            ("http://a.test/x?sid=12", "http://a.test/x?sid=12"),
            ("http://a.test/x?s=shoes", "http://a.test/x?s=shoes"),
            ("http://a.test/x;v=1", "http://a.test/x;v=1"),
            ("http://a.test/x", "http://a.test/x"),
        ] {
            assert_eq!(without_session(url(with)).as_str(), without);
        }
    }

    #[test]
    fn traps_are_recognised_and_ordinary_urls_are_not() {
        let traps = Traps::default();
        for (text, chain, expected) in [
            ("http://a.test/a/b/c", 0, None),
            ("http://a.test/2024/05/05/05/05/05", 0, None),
            ("http://a.test/x/a/x/a/x/a/x", 0, Some("trap.repeated_path")),
            (
                "http://a.test/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21/22/23/24/25",
                0,
                Some("trap.deep_path"),
            ),
            ("http://a.test/calendar/2031/05", 3, Some("trap.calendar")),
            ("http://a.test/calendar?month=203105", 3, Some("trap.calendar")),
            ("http://a.test/calendar?d=1950-05-01", 3, Some("trap.calendar")),
            ("http://a.test/vision-2050", 0, None),
            ("http://a.test/calendar/2027/05", 9, None),
            ("http://a.test/event?d=2031-05", 3, Some("trap.calendar")),
            ("http://a.test/x/2031/05/01", 3, Some("trap.calendar")),
            ("http://a.test/list?page=501", 501, Some("trap.chain")),
            // Ids of shops and forums, whatever they look like.
            ("http://a.test/item/99990001", 50, None),
            ("http://a.test/item/1500", 50, None),
            ("http://a.test/product/150012", 50, None),
            ("http://a.test/viewtopic.php?f=12&t=1234", 50, None),
            ("http://a.test/viewtopic.php?f=12&t=2900&start=15", 50, None),
            ("http://a.test/forum/2031/5", 50, None),
            ("http://a.test/forum/2031/123", 50, None),
            ("http://a.test/list?page=1200", 50, None),
        ] {
            assert_eq!(detect(&url(text), chain, 2026, &traps), expected, "{text}");
        }
        assert_eq!(
            detect(&url(&format!("http://a.test/{}", "x".repeat(2000))), 0, 2026, &traps),
            Some("trap.long_url")
        );
    }

    #[test]
    fn page_numbers_above_a_thousand_are_no_calendar() {
        let traps = Traps::default();
        for text in [
            "http://a.test/page/1112",
            "http://a.test/page/2031",
            "http://a.test/100105",
            "http://a.test/item?id=203105",
            "http://a.test/thread/1234/5",
            "http://a.test/thread/1234/12",
            "http://a.test/é1234é05",
        ] {
            assert_eq!(detect(&url(text), 50, 2026, &traps), None, "{text}");
        }
    }

    #[test]
    fn pages_of_a_list_have_one_pattern() {
        assert_eq!(kind(&url("http://a.test/c/2026/11?v=1")), kind(&url("http://a.test/c/2027/1?v=2")));
        assert_ne!(kind(&url("http://a.test/c/2026")), kind(&url("http://a.test/d/2026")));
        assert_ne!(kind(&url("http://a.test/c?v=1")), kind(&url("http://a.test/c?w=1")));
    }

    #[test]
    fn budgets_depend_on_path_and_number_of_parameters() {
        let traps = Traps::default();
        let budget = |text| budget(&url(text), &traps).map(|budget| (budget.kind, budget.max));
        assert_eq!(budget("http://a.test/x"), None);
        assert_eq!(budget("http://a.test/x?a=1"), Some(("http://a.test/x?".to_owned(), 10_000)));
        assert_eq!(budget("http://a.test/x?a=1&b=2"), Some(("http://a.test/x&".to_owned(), 500)));
        assert_eq!(budget("http://a.test/x?b=1&a=2&c=3"), Some(("http://a.test/x&".to_owned(), 500)));
        assert_eq!(budget("http://a.test/x?a=1&page=200"), Some(("http://a.test/x&".to_owned(), 500)));
    }

    #[test]
    fn a_large_forum_is_no_query_explosion() {
        let traps = Traps::default();
        let mut used: HashMap<String, u64> = HashMap::new();
        let mut charge = |text: String| {
            let budget = budget(&url(&text), &traps).unwrap();
            let used = used.entry(budget.kind).or_default();
            *used += 1;
            *used <= budget.max
        };
        for topic in 0..30_000 {
            assert!(
                charge(format!("http://a.test/viewtopic.php?f={}&t={topic}", topic % 20)),
                "topic {topic}"
            );
            assert!(charge(format!("http://a.test/showthread.php?t={topic}")), "thread {topic}");
        }
        let colours =
            (0..1000).filter(|colour| charge(format!("http://a.test/find?colour=c{colour}&size=m")));
        assert_eq!(colours.count(), 500, "filters are still bounded");
    }
}
