//! Generated English-like text from word lists.

use crate::{
    random::Random,
    words::{ADJECTIVES, ADVERBS, NOUNS, OPENINGS, PLACES, VERBS},
};

/// Sentence with few frequent word pairs, so that long texts are no near-duplicates.
pub(crate) fn mixed_sentence(random: &mut Random) -> String {
    const DETERMINERS: &[&str] =
        &["the", "a", "every", "this", "some", "no", "her", "our", "that", "another"];
    const PREPOSITIONS: &[&str] = &["near", "in", "from", "beyond", "behind", "towards", "without", "above"];
    let mut next = |list: &[&'static str]| random.pick(list);
    format!(
        "{} {} {} {} {} {} {} {} {} {}.",
        capital(next(DETERMINERS)),
        next(ADJECTIVES),
        next(NOUNS),
        next(ADVERBS),
        next(VERBS),
        next(DETERMINERS),
        next(ADJECTIVES),
        next(NOUNS),
        next(PREPOSITIONS),
        next(PLACES)
    )
}

/// Paragraphs of about `words` words in total.
pub(crate) fn paragraphs(random: &mut Random, words: usize) -> Vec<String> {
    let mut all = Vec::new();
    let mut written = 0;
    while written < words {
        let mut paragraph = String::with_capacity(400);
        for _ in 0..random.between(3, 6) {
            if written >= words {
                break;
            }
            if !paragraph.is_empty() {
                paragraph.push(' ');
            }
            let from = paragraph.len();
            push_sentence(random, &mut paragraph);
            written += paragraph[from..].split(' ').count();
        }
        all.push(paragraph);
    }
    all
}

/// Two to four words in title case.
pub(crate) fn title(random: &mut Random) -> String {
    let (adjective, noun, place) = (random.pick(ADJECTIVES), random.pick(NOUNS), random.pick(PLACES));
    let pattern = random.below(3);
    match pattern {
        0 => format!("The {} {}", capital(adjective), capital(noun)),
        1 => format!("{} {} {place}", capital(adjective), capital(noun)),
        _ => format!("{} and {}", capital(noun), capital(random.pick(NOUNS))),
    }
}

/// Slug for a path.
pub(crate) fn slug(random: &mut Random) -> String {
    format!("{}-{}", random.pick(ADJECTIVES), random.pick(NOUNS))
}

pub(crate) fn capital(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

fn push_sentence(random: &mut Random, out: &mut String) {
    let start = out.len();
    let pattern = random.below(6);
    let mut put = |words: &[&str]| {
        for word in words {
            if out.len() > start {
                out.push(' ');
            }
            out.push_str(word);
        }
    };
    let mut noun = || [random.pick(ADJECTIVES), random.pick(NOUNS), random.pick(VERBS)];
    let ([a1, n1, v1], [a2, n2, _], [a3, n3, v3]) = (noun(), noun(), noun());
    let (adverb, place, opening) = (random.pick(ADVERBS), random.pick(PLACES), random.pick(OPENINGS));
    match pattern {
        0 => put(&["the", a1, n1, v1, "the", n2, "near", place]),
        1 => put(&[opening, "a", n1, adverb, v1, "every", a2, n2, "and", v3, "some", n3]),
        2 => put(&[a1, n1, "from", place, v1, n2, "with", a3, n3]),
        3 => put(&[opening, place, "had", a1, n1, "while", "its", n2, adverb, v1, a2, n3]),
        4 => put(&["no", n1, v1, "as", adverb, "as", "this", a2, n2]),
        _ => put(&["her", n1, "and", "his", a2, n2, v1, "our", n3, "in", place]),
    }
    if let Some(first) = out.get(start..=start) {
        let first = first.to_ascii_uppercase();
        out.replace_range(start..=start, &first);
    }
    out.push('.');
}
