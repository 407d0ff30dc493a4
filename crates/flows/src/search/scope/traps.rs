//! Traps: sites that make up URLs without end, mostly without meaning to.
//!
//! | trap | what is done |
//! |---|---|
//! | session ids | taken out of the URL, so that one page has one URL |
//! | ever longer paths (`a/a/a/…`) | a segment four times, or too many segments, is left out |
//! | endless calendars | a date further ahead or back than a site can mean, reached by paging; and any paging that goes on too long |
//! | query explosions | a budget of URLs per path for combinations of parameters, a larger one for a single parameter; what has an id among its parameters, as topics and products have, has many times as much |
//!
//! Ordinary sites must not be taken for traps: ids look like years, and every topic of a forum is `?f=2&t=1234`.

use crawlway_content::{NormalUrl, UrlOptions, url::normalise};
use crawlway_store::{Ticket, frontier::Budget};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::HashMap};

/// How much is put up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traps {
    /// How many links in a row may lead to URLs that differ in their numbers or values only.
    pub longest_chain: u32,
    /// How many URLs of one path may differ in the values of one parameter; a hundred times as many if that is an id.
    pub queries_per_path: u64,
    /// How many URLs of one path may differ in several parameters; a hundred times as many if one of them is an id.
    pub combinations_per_path: u64,
    /// How many segments a path may have.
    pub most_segments: usize,
    /// How long a URL may be, in bytes.
    pub longest_url: usize,
}

impl Default for Traps {
    fn default() -> Self {
        Self {
            longest_chain: 500,
            queries_per_path: 10_000,
            combinations_per_path: 500,
            most_segments: 24,
            longest_url: 2_000,
        }
    }
}

/// A segment that comes so often leads nowhere.
const SAME_SEGMENT: usize = 4;
/// Years ahead and back that a page reached by paging may be about.
const YEARS_AHEAD: u64 = 1;
const YEARS_BACK: u64 = 40;
/// Paging is so many links of one kind in a row.
const PAGING: u32 = 3;
/// Parameters that hold a session, whatever their value.
const SESSION: &[&str] = &[
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
/// Parameters that hold a session if their value looks like one.
const PERHAPS_SESSION: &[&str] = &["sid", "s", "session"];

/// The URL without session ids.
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
    let mut drop: Vec<String> = SESSION.iter().map(|name| (*name).to_owned()).collect();
    for (name, value) in parameters(&cleaned) {
        if PERHAPS_SESSION.iter().any(|perhaps| name.eq_ignore_ascii_case(perhaps)) && looks_random(value) {
            drop.push(name.to_owned());
        }
    }
    let options = UrlOptions { drop_parameters: drop, ..UrlOptions::default() };
    normalise(&cleaned, &options).unwrap_or(url)
}

/// Why a URL is left out that is too long.
pub(super) const TOO_LONG: &str = "trap.long_url";

/// Whether a URL is longer than the frontier is to keep.
pub(super) fn is_too_long(url: &NormalUrl, traps: &Traps) -> bool {
    url.as_str().len() > traps.longest_url
}

/// Why a URL looks like a trap, if it does.
pub(super) fn caught(url: &NormalUrl, chain: u32, this_year: u64, traps: &Traps) -> Option<&'static str> {
    if is_too_long(url, traps) {
        return Some(TOO_LONG);
    }
    let path = path(url);
    let mut times: HashMap<&str, usize> = HashMap::new();
    let mut segments = 0;
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        segments += 1;
        let seen = times.entry(segment).or_default();
        *seen += 1;
        // Numbers may well repeat, as in dates and coordinates.
        if *seen >= SAME_SEGMENT && !segment.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some("trap.repeated_path");
        }
    }
    if segments > traps.most_segments {
        return Some("trap.deep_path");
    }
    if chain > traps.longest_chain {
        return Some("trap.chain");
    }
    if chain >= PAGING
        && let Some(year) = year(url)
        && (year > this_year + YEARS_AHEAD || year + YEARS_BACK < this_year)
    {
        return Some("trap.calendar");
    }
    None
}

/// Things that have an id are charged to so many budgets, by their id.
const PARTS: u64 = 100;

/// The budget that a URL is charged to, if it has a query.
pub(super) fn budget(url: &NormalUrl, traps: &Traps) -> Option<Budget> {
    let several = match parameters(url.as_str()).take(2).count() {
        0 => return None,
        count => count > 1,
    };
    let (mark, most, reason) = if several {
        ("&", traps.combinations_per_path, "trap.combinations")
    } else {
        ("?", traps.queries_per_path, "trap.queries")
    };
    let mut kind = format!("{}{}{mark}", url.origin(), path(url));
    // Filters have few values each; an id has one for every topic or product, and all of them are wanted.
    let ids: Vec<&str> =
        parameters(url.as_str()).filter(|(name, value)| is_id(name, value)).map(|(_, value)| value).collect();
    if !ids.is_empty() {
        let part = Ticket::of(&ids.join(" ")).as_u128() % u128::from(PARTS);
        kind = format!("{kind}{part}");
    }
    Some(Budget { kind, most, reason: reason.to_owned() })
}

/// Three digits or more, and not where in a list one is.
fn is_id(name: &str, value: &str) -> bool {
    const PLACES: &[&str] = &["page", "p", "pg", "start", "offset", "skip", "from", "limit"];
    value.len() >= 3
        && value.bytes().all(|byte| byte.is_ascii_digit())
        && !PLACES.iter().any(|place| name.eq_ignore_ascii_case(place))
}

/// What a URL is like: numbers and values left out, so that the pages of a list or a calendar are of one kind.
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

/// 16 letters and digits or more, some of each.
fn looks_random(value: &str) -> bool {
    let count = |fits: fn(&u8) -> bool| value.bytes().filter(fits).count();
    let (digits, letters) = (count(u8::is_ascii_digit), count(u8::is_ascii_alphabetic));
    value.len() >= 16 && digits >= 3 && letters >= 3 && digits + letters >= value.len() - 2
}

/// Words for things that go by dates.
const DATED: &[&str] = &[
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

/// The year that a URL is about. A number alone may be anything, such as the id of a topic: it is a year if it is the
/// start of a whole date such as 2026/11/15 or 2026-11, or if the URL says that it goes by dates.
fn year(url: &NormalUrl) -> Option<u64> {
    let text = url.path_and_query();
    let mut words = text.split(|character: char| !character.is_ascii_alphabetic());
    let dated = words.any(|word| DATED.iter().any(|dated| word.eq_ignore_ascii_case(dated)));
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

/// The year of a number, given what comes after it.
fn year_of(number: &str, after: &str, dated: bool) -> Option<u64> {
    let year: u64 = number.get(..4)?.parse().ok().filter(|year| (1000..3000).contains(year))?;
    let is_month = |text: &str| text.parse().is_ok_and(|month: u64| (1..=12).contains(&month));
    let fits = match number.len() {
        4 => {
            dated || {
                // Only a month with its zero: `/2031/5` and `/2031/12` may well be pages of something. A calendar has to pass
                // the others too.
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
    fn session_ids_are_taken_out_and_nothing_else() {
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
            assert_eq!(caught(&url(text), chain, 2026, &traps), expected, "{text}");
        }
        assert_eq!(
            caught(&url(&format!("http://a.test/{}", "x".repeat(2000))), 0, 2026, &traps),
            Some("trap.long_url")
        );
    }

    #[test]
    fn pages_that_are_numbered_in_the_thousands_are_no_calendar() {
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
            assert_eq!(caught(&url(text), 50, 2026, &traps), None, "{text}");
        }
    }

    #[test]
    fn pages_of_a_list_are_of_one_kind() {
        assert_eq!(kind(&url("http://a.test/c/2026/11?v=1")), kind(&url("http://a.test/c/2027/1?v=2")));
        assert_ne!(kind(&url("http://a.test/c/2026")), kind(&url("http://a.test/d/2026")));
        assert_ne!(kind(&url("http://a.test/c?v=1")), kind(&url("http://a.test/c?w=1")));
    }

    #[test]
    fn queries_are_charged_by_path_and_by_how_many_parameters_they_have() {
        let traps = Traps::default();
        let budget = |text| budget(&url(text), &traps).map(|budget| (budget.kind, budget.most));
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
            *used <= budget.most
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
