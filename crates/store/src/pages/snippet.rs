//! A part of a page's text with the words of the query marked, as HTML.

use super::{
    Query,
    words::{list, words},
};
use std::collections::HashMap;

/// About how long a snippet is, in characters.
const LENGTH: usize = 200;

/// How many characters may stand before the first mark.
const BEFORE: usize = 40;

/// Matches that are looked at; a text full of them has a good place among the first.
const MOST_MATCHES: usize = 2_000;

/// The part of the text in which most of these sequences of words occur, or its beginning.
pub fn snippet(text: &str, marked: &[Vec<String>]) -> String {
    let (places, matches) = find(text, marked);
    let start = best_match(text, &matches).map_or(0, |found| start_before(text, &places, found.first));
    let (from, to) = cut(text, &places, start);
    let mut html = String::with_capacity(to - from + 64);
    if !text[..from].trim().is_empty() {
        html.push_str("… ");
    }
    let mut at = from;
    for (mark_from, mark_to) in marks(&matches, from, to) {
        escape(&text[at..mark_from], &mut html);
        html.push_str("<mark>");
        escape(&text[mark_from..mark_to], &mut html);
        html.push_str("</mark>");
        at = mark_to;
    }
    escape(&text[at..to], &mut html);
    if !text[to..].trim().is_empty() {
        html.push_str(" …");
    }
    html
}

/// What a snippet marks: each a sequence of words that the text may contain. What must not be there is not looked
/// for, and neither is what was asked of the title.
pub fn marked(query: &Query) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    collect_marked(query, &mut found);
    found.sort();
    found.dedup();
    found
}

fn collect_marked(query: &Query, found: &mut Vec<Vec<String>>) {
    match query {
        Query::Word(text) | Query::Phrase(text) => {
            let words = list(text);
            if !words.is_empty() {
                found.push(words);
            }
        }
        Query::All(parts) | Query::Any(parts) => parts.iter().for_each(|part| collect_marked(part, found)),
        Query::Not(_)
        | Query::TitleWord(_)
        | Query::TitlePhrase(_)
        | Query::Host(_)
        | Query::Crawled { .. } => {}
    }
}

/// A word of the text: where it is, and which word of the query it is, if any.
struct Place {
    from: usize,
    to: usize,
    word: Option<usize>,
}

/// A sequence that was found.
#[derive(Clone, Copy)]
struct Match {
    /// Its first word among the places.
    first: usize,
    from: usize,
    to: usize,
    sequence: usize,
}

fn find(text: &str, marked: &[Vec<String>]) -> (Vec<Place>, Vec<Match>) {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let sequences: Vec<Vec<usize>> = marked
        .iter()
        .map(|words| {
            words
                .iter()
                .map(|word| {
                    let next = numbers.len();
                    *numbers.entry(word.as_str()).or_insert(next)
                })
                .collect()
        })
        .collect();
    let mut places = Vec::new();
    let (mut stream, mut word) = (words(text), String::new());
    while let Some(place) = stream.next_into(&mut word) {
        let word = numbers.get(word.as_str()).copied();
        places.push(Place { from: place.start, to: place.end, word });
    }
    let mut matches = Vec::new();
    for (first, place) in places.iter().enumerate() {
        let Some(word) = place.word else { continue };
        for (sequence, words) in sequences.iter().enumerate() {
            let Some(here) = places.get(first..first + words.len()) else { continue };
            if words[0] == word && here.iter().zip(words).all(|(place, word)| place.word == Some(*word)) {
                let to = here.last().map_or(place.to, |last| last.to);
                matches.push(Match { first, from: place.from, to, sequence });
            }
        }
        if matches.len() >= MOST_MATCHES {
            break;
        }
    }
    (places, matches)
}

/// The match after which most different sequences follow within a snippet; then the most matches; then the first.
fn best_match(text: &str, matches: &[Match]) -> Option<Match> {
    let mut best: Option<((usize, usize), Match)> = None;
    for (index, found) in matches.iter().enumerate() {
        let end = forward(text, found.from, LENGTH - BEFORE);
        let within =
            matches[index..].iter().take_while(|other| other.from < end).filter(|other| other.to <= end);
        let mut sequences: Vec<usize> = within.map(|other| other.sequence).collect();
        let count = sequences.len();
        sequences.sort_unstable();
        sequences.dedup();
        let merit = (sequences.len(), count);
        if best.is_none_or(|(least, _)| merit > least) {
            best = Some((merit, *found));
        }
    }
    best.map(|(_, found)| found)
}

/// The start of the word from which a snippet with this word begins.
fn start_before(text: &str, places: &[Place], first: usize) -> usize {
    let earliest = backward(text, places[first].from, BEFORE);
    let before = places[..first].iter().rev().take_while(|place| place.from >= earliest);
    before.last().map_or(places[first].from, |place| place.from)
}

/// From here to the end of the last word that fits.
fn cut(text: &str, places: &[Place], start: usize) -> (usize, usize) {
    // What stands before the first word belongs to it, unless it is much.
    let first = places.first().map_or(0, |place| place.from);
    let from = if start == first && backward(text, first, BEFORE) == 0 { 0 } else { start };
    let latest = forward(text, from, LENGTH);
    if latest == text.len() {
        return (from, latest);
    }
    let fitting = places.iter().rev().find(|place| place.to <= latest && place.to > from);
    // A full stop right after the last word may come along.
    let to = fitting.map_or(latest, |place| {
        let after = text[place.to..].chars().take_while(|c| !c.is_whitespace() && !c.is_alphanumeric());
        place.to + after.take(3).map(char::len_utf8).sum::<usize>()
    });
    (from, to)
}

/// What is marked of this part, in order, overlapping matches as one.
fn marks(matches: &[Match], from: usize, to: usize) -> Vec<(usize, usize)> {
    let mut marks: Vec<(usize, usize)> = Vec::new();
    let inside = matches.iter().filter(|found| found.from >= from && found.to <= to);
    for found in inside {
        match marks.last_mut() {
            Some((_, end)) if found.from <= *end => *end = found.to.max(*end),
            _ => marks.push((found.from, found.to)),
        }
    }
    marks
}

fn forward(text: &str, from: usize, characters: usize) -> usize {
    text[from..].char_indices().nth(characters).map_or(text.len(), |(at, _)| from + at)
}

fn backward(text: &str, from: usize, characters: usize) -> usize {
    text[..from].char_indices().rev().take(characters).last().map_or(from, |(at, _)| at)
}

/// Adds text to HTML, with runs of white space as one space.
fn escape(text: &str, html: &mut String) {
    let mut spaced = false;
    for c in text.chars() {
        if c.is_whitespace() {
            if !spaced {
                html.push(' ');
            }
            spaced = true;
            continue;
        }
        spaced = false;
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str, query: &[&str]) -> String {
        let marked: Vec<Vec<String>> = query.iter().map(|part| list(part)).collect();
        snippet(text, &marked)
    }

    #[test]
    fn marks_are_html_and_the_rest_is_escaped() {
        assert_eq!(of("a <b> & \"c\"", &["b"]), "a &lt;<mark>b</mark>&gt; &amp; &quot;c&quot;");
        assert_eq!(of("", &["b"]), "");
        assert_eq!(of("<<<>>>", &["b"]), "&lt;&lt;&lt;&gt;&gt;&gt;");
        assert_eq!(of("two\n\n lines", &["two lines"]), "<mark>two lines</mark>");
    }

    #[test]
    fn folded_and_cjk_words_are_marked_where_they_stand() {
        assert_eq!(
            of("der GROẞE Café-Tisch", &["grosse", "cafe"]),
            "der <mark>GROẞE</mark> <mark>Café</mark>-Tisch"
        );
        assert_eq!(of("我在東京塔下等你", &["東京塔"]), "我在<mark>東京塔</mark>下等你");
        assert_eq!(
            of("東の京、東京", &["東京"]),
            "東の京、<mark>東京</mark>",
            "only where they follow each other"
        );
    }

    #[test]
    fn the_part_with_most_words_is_shown_and_cut_at_words() {
        let filler = "lorem ipsum dolor sit amet ".repeat(20);
        let text = format!("{filler}alpha {filler}alpha beta. {filler}");
        insta::assert_snapshot!(of(&text, &["alpha", "beta"]), @"… sit amet lorem ipsum dolor sit amet <mark>alpha</mark> <mark>beta</mark>. lorem ipsum dolor sit amet lorem ipsum dolor sit amet lorem ipsum dolor sit amet lorem ipsum dolor sit amet lorem ipsum dolor sit amet lorem ipsum dolor …");
        insta::assert_snapshot!(of(&text, &["absent"]), @"lorem ipsum dolor sit amet lorem ipsum dolor sit amet lorem ipsum dolor sit amet lorem ipsum dolor sit amet lorem ipsum dolor sit amet lorem ipsum dolor sit amet lorem ipsum dolor sit amet lorem ipsum …");
    }

    proptest! {
        #[test]
        fn any_text_gives_clean_html_of_bounded_length(
            text in "(\\PC|[ab<&東한é \n]){0,400}", query in prop::collection::vec("[ab東한é]{1,3}", 0..3)
        ) {
            let query: Vec<&str> = query.iter().map(String::as_str).collect();
            let html = of(&text, &query);
            let rest = html.replace("<mark>", "").replace("</mark>", "");
            prop_assert!(!rest.contains(['<', '>', '"', '\'']), "{}", html);
            let plain = ["&lt;", "&gt;", "&quot;", "&#39;", "&amp;"].iter().fold(rest, |rest, escape| rest.replace(escape, "x"));
            prop_assert!(plain.chars().count() <= LENGTH + 8, "{}", html);
        }
    }
}
