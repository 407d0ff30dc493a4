//! Snippets: excerpts of a page's text with the terms of the query highlighted, as HTML.

use super::{
    Query,
    tokenizer::{tokenize, tokens},
};
use std::collections::HashMap;

/// Target length of a snippet, in characters.
const TARGET_LENGTH: usize = 200;

/// Maximum number of characters before the first highlight.
const MAX_LEAD: usize = 40;

/// Maximum number of matches considered; a text with more has a good excerpt among the first.
const MAX_MATCHES: usize = 2_000;

/// Excerpt with the most matches of these terms, each a sequence of words; without a match the start of the text.
pub fn snippet(text: &str, terms: &[Vec<String>]) -> String {
    let (tokens, matches) = find(text, terms);
    let start = best_match(text, &matches).map_or(0, |best| start_before(text, &tokens, best.first));
    let (from, to) = excerpt(text, &tokens, start);
    let mut html = String::with_capacity(to - from + 64);
    if !text[..from].trim().is_empty() {
        html.push_str("… ");
    }
    let mut at = from;
    for (match_from, match_to) in highlights(&matches, from, to) {
        escape(&text[at..match_from], &mut html);
        html.push_str("<mark>");
        escape(&text[match_from..match_to], &mut html);
        html.push_str("</mark>");
        at = match_to;
    }
    escape(&text[at..to], &mut html);
    if !text[to..].trim().is_empty() {
        html.push_str(" …");
    }
    html
}

/// Terms that a snippet highlights: the words and phrases of the query, except negated ones and those of the title.
pub fn highlighted_terms(query: &Query) -> Vec<Vec<String>> {
    let mut terms = Vec::new();
    collect_terms(query, &mut terms);
    terms.sort();
    terms.dedup();
    terms
}

fn collect_terms(query: &Query, terms: &mut Vec<Vec<String>>) {
    match query {
        Query::Word(text) | Query::Phrase(text) => {
            let words = tokens(text);
            if !words.is_empty() {
                terms.push(words);
            }
        }
        Query::All(parts) | Query::Any(parts) => parts.iter().for_each(|part| collect_terms(part, terms)),
        Query::Not(_)
        | Query::TitleWord(_)
        | Query::TitlePhrase(_)
        | Query::Host(_)
        | Query::Crawled { .. } => {}
    }
}

/// A token of the text, with the number of the query word that it equals.
struct Token {
    from: usize,
    to: usize,
    word: Option<usize>,
}

/// An occurrence of a term.
#[derive(Clone, Copy)]
struct Match {
    /// Index of its first token.
    first: usize,
    from: usize,
    to: usize,
    term: usize,
}

fn find(text: &str, terms: &[Vec<String>]) -> (Vec<Token>, Vec<Match>) {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut number_of = |word| {
        let next = numbers.len();
        *numbers.entry(word).or_insert(next)
    };
    let terms: Vec<Vec<usize>> =
        terms.iter().map(|words| words.iter().map(|word| number_of(word.as_str())).collect()).collect();
    let mut tokens = Vec::new();
    let (mut stream, mut word) = (tokenize(text), String::new());
    while let Some(range) = stream.next_into(&mut word) {
        let word = numbers.get(word.as_str()).copied();
        tokens.push(Token { from: range.start, to: range.end, word });
    }
    let mut matches = Vec::new();
    for (first, token) in tokens.iter().enumerate() {
        let Some(word) = token.word else { continue };
        for (term, words) in terms.iter().enumerate() {
            let Some(candidate) = tokens.get(first..first + words.len()) else { continue };
            if words[0] == word && candidate.iter().zip(words).all(|(token, word)| token.word == Some(*word))
            {
                let to = candidate.last().map_or(token.to, |last| last.to);
                matches.push(Match { first, from: token.from, to, term });
            }
        }
        if matches.len() >= MAX_MATCHES {
            break;
        }
    }
    (tokens, matches)
}

/// The match that is followed by the most different terms within a snippet; then by the most matches; then the first.
fn best_match(text: &str, matches: &[Match]) -> Option<Match> {
    let mut best: Option<((usize, usize), Match)> = None;
    for (index, candidate) in matches.iter().enumerate() {
        let end = forward(text, candidate.from, TARGET_LENGTH - MAX_LEAD);
        let within =
            matches[index..].iter().take_while(|other| other.from < end).filter(|other| other.to <= end);
        let mut terms: Vec<usize> = within.map(|other| other.term).collect();
        let count = terms.len();
        terms.sort_unstable();
        terms.dedup();
        let score = (terms.len(), count);
        if best.is_none_or(|(best_score, _)| score > best_score) {
            best = Some((score, *candidate));
        }
    }
    best.map(|(_, best)| best)
}

/// Start of the excerpt for a match that begins with this token: the start of an earlier token.
fn start_before(text: &str, tokens: &[Token], first: usize) -> usize {
    let earliest = backward(text, tokens[first].from, MAX_LEAD);
    let before = tokens[..first].iter().rev().take_while(|token| token.from >= earliest);
    before.last().map_or(tokens[first].from, |token| token.from)
}

/// Range of the excerpt from this start to the end of the last token that fits.
fn excerpt(text: &str, tokens: &[Token], start: usize) -> (usize, usize) {
    // A short piece of text before the first token belongs to it.
    let first = tokens.first().map_or(0, |token| token.from);
    let from = if start == first && backward(text, first, MAX_LEAD) == 0 { 0 } else { start };
    let latest = forward(text, from, TARGET_LENGTH);
    if latest == text.len() {
        return (from, latest);
    }
    let last = tokens.iter().rev().find(|token| token.to <= latest && token.to > from);
    // Punctuation right after the last token is included.
    let to = last.map_or(latest, |token| {
        let after = text[token.to..].chars().take_while(|c| !c.is_whitespace() && !c.is_alphanumeric());
        token.to + after.take(3).map(char::len_utf8).sum::<usize>()
    });
    (from, to)
}

/// Highlighted ranges within the excerpt, in order, with overlapping matches merged.
fn highlights(matches: &[Match], from: usize, to: usize) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for inside in matches.iter().filter(|inside| inside.from >= from && inside.to <= to) {
        match ranges.last_mut() {
            Some((_, end)) if inside.from <= *end => *end = inside.to.max(*end),
            _ => ranges.push((inside.from, inside.to)),
        }
    }
    ranges
}

fn forward(text: &str, from: usize, characters: usize) -> usize {
    text[from..].char_indices().nth(characters).map_or(text.len(), |(at, _)| from + at)
}

fn backward(text: &str, from: usize, characters: usize) -> usize {
    text[..from].char_indices().rev().take(characters).last().map_or(from, |(at, _)| at)
}

/// Appends escaped text, with runs of white space as one space.
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
        let terms: Vec<Vec<String>> = query.iter().map(|part| tokens(part)).collect();
        snippet(text, &terms)
    }

    #[test]
    fn everything_but_the_highlights_is_escaped() {
        assert_eq!(of("a <b> & \"c\"", &["b"]), "a &lt;<mark>b</mark>&gt; &amp; &quot;c&quot;");
        assert_eq!(of("", &["b"]), "");
        assert_eq!(of("<<<>>>", &["b"]), "&lt;&lt;&lt;&gt;&gt;&gt;");
        assert_eq!(of("two\n\n lines", &["two lines"]), "<mark>two lines</mark>");
    }

    #[test]
    fn folded_and_cjk_words_are_highlighted_in_place() {
        assert_eq!(
            of("der GROẞE Café-Tisch", &["grosse", "cafe"]),
            "der <mark>GROẞE</mark> <mark>Café</mark>-Tisch"
        );
        assert_eq!(of("我在東京塔下等你", &["東京塔"]), "我在<mark>東京塔</mark>下等你");
        assert_eq!(of("東の京、東京", &["東京"]), "東の京、<mark>東京</mark>", "only as a sequence");
    }

    #[test]
    fn the_excerpt_has_the_most_terms_and_ends_at_words() {
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
            prop_assert!(plain.chars().count() <= TARGET_LENGTH + 8, "{}", html);
        }
    }
}
