//! Traps: sites that make up URLs without end, mostly without meaning to.
//!
//! | trap | what is done |
//! |---|---|
//! | session ids | taken out of the URL, so that one page has one URL |
//! | ever longer paths (`a/a/a/…`) | a segment four times, or too many segments, is left out |
//! | endless calendars | a year further ahead or back than a site can mean, reached by paging; and any paging that goes on too long |
//! | query explosions | a budget of URLs per path for combinations of parameters, a larger one for a single parameter |

use crawlway_content::{NormalUrl, UrlOptions, url::normalise};
use crawlway_store::frontier::Budget;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::HashMap};

/// How much is put up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traps {
    /// How many links in a row may lead to URLs that differ in their numbers or values only.
    pub longest_chain: u32,
    /// How many URLs of one path may differ in the values of one parameter.
    pub queries_per_path: u64,
    /// How many URLs of one path may differ in several parameters.
    pub combinations_per_path: u64,
    /// How many segments a path may have.
    pub most_segments: usize,
    /// How long a URL may be, in bytes.
    pub longest_url: usize,
}

impl Default for Traps {
    fn default() -> Self {
        Self {
            longest_chain: 200,
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

/// Why a URL looks like a trap, if it does.
pub(super) fn caught(url: &NormalUrl, chain: u32, this_year: u64, traps: &Traps) -> Option<&'static str> {
    if url.as_str().len() > traps.longest_url {
        return Some("trap.long_url");
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
        && let Some(year) = year(url.path_and_query())
        && (year > this_year + YEARS_AHEAD || year + YEARS_BACK < this_year)
    {
        return Some("trap.calendar");
    }
    None
}

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
    let kind = format!("{}{}{mark}", url.origin(), path(url));
    Some(Budget { kind, most, reason: reason.to_owned() })
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

/// The year of a calendar's page. A number alone is none, or else pages that are merely numbered would be left out: it
/// takes a month behind it, or a word that says so.
fn year(text: &str) -> Option<u64> {
    let named = || text.split(|c: char| !c.is_ascii_alphabetic()).any(is_calendar_word);
    let mut numbers = numbers(text).peekable();
    while let Some((at, number)) = numbers.next() {
        let Some(year) = starts_with_year(number) else { continue };
        let end = at + number.len();
        let has_month = number.len() == 4
            && numbers.peek().is_some_and(|next| next.0 == end + 1 && is_padded_month(next.1));
        if has_month || named() {
            return Some(year);
        }
    }
    None
}

/// The numbers in a text, and where they begin.
fn numbers(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split(|character: char| !character.is_ascii_digit()).filter_map(move |number| {
        let start = at;
        // What ends a number may be more than a byte, which only matters to who looks for a month right behind it.
        at += number.len() + text[at + number.len()..].chars().next().map_or(0, char::len_utf8);
        (!number.is_empty()).then_some((start, number))
    })
}

/// The year that a number is, or begins with as 202611 and 20261115 do.
fn starts_with_year(number: &str) -> Option<u64> {
    if !matches!(number.len(), 4 | 6 | 8) {
        return None;
    }
    let year: u64 = number[..4].parse().ok()?;
    let month: u64 = if number.len() > 4 { number[4..6].parse().ok()? } else { 1 };
    ((1000..3000).contains(&year) && (1..=12).contains(&month)).then_some(year)
}

/// `01` to `09`: two digits without the zero could be the twelfth page of something.
fn is_padded_month(number: &str) -> bool {
    matches!(number.as_bytes(), [b'0', b'1'..=b'9'])
}

fn is_calendar_word(word: &str) -> bool {
    const WORDS: [&str; 13] = [
        "agenda",
        "cal",
        "calendar",
        "calendario",
        "calendrier",
        "date",
        "day",
        "events",
        "kalender",
        "month",
        "schedule",
        "week",
        "year",
    ];
    WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))
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
            ("http://a.test/2031/05", 3, Some("trap.calendar")),
            ("http://a.test/item/99990001", 50, None),
            ("http://a.test/list?page=201", 201, Some("trap.chain")),
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
    }
}
