//! Drops widgets between the text: button rows, repeated lines at every post of a thread, e-mail forms, reviews.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::super::hints::Hints;
use super::super::outline::{Block, ROOT};
use super::super::tag::Tag;
use super::super::text::index_text;
use super::button_words::{BUTTON_WORDS, FILLER_WORDS};
use super::lists::{ITEMS_AND_ROWS, similar_siblings};
use super::phrases::{AUTHOR_FACTS, TIMES};
use super::{Extraction, Totals, is_article, is_main};

/// Maximum words of a button row.
const MAX_BUTTON_ROW_WORDS: u32 = 9;

/// Maximum words of a line that is repeated at every post.
const MAX_REPEATED_WORDS: u32 = 6;

/// Maximum words of a line about the author of a post.
const MAX_AUTHOR_FACT_WORDS: u32 = 14;

/// Minimum average prose of a post, in words.
const MIN_POST_WORDS: u32 = 8;

/// Maximum words of a review.
const MAX_REVIEW_WORDS: u32 = 200;

/// Minimum prose of the page beside its reviews, in words.
const MIN_OTHER_WORDS: u32 = 30;

/// Maximum words of a box with an e-mail field.
const MAX_EMAIL_FORM_WORDS: u32 = 60;

pub(super) fn drop_widgets(page: &mut Extraction<'_>, heading: Option<usize>) {
    drop_reviews(page, heading);
    drop_symbols(page);
    drop_button_rows(page, heading);
    drop_email_forms(page, heading);
    page.update_totals();
    drop_repeated(page, heading);
    page.update_totals();
}

/// Drops boxes with stars, which are reviews, from a page with text of its own.
fn drop_reviews(page: &mut Extraction<'_>, heading: Option<usize>) {
    let all = page.totals[ROOT].prose;
    let mut starred = Vec::new();
    let mut prose = 0;
    let mut covered = 0;
    for at in 0..page.blocks.len() {
        if at < covered || !page.is_kept(at) || !is_stars(page.block_str(at)) {
            continue;
        }
        let mut found = page.block_section(at);
        while found != ROOT && page.totals[found].prose == 0 {
            found = page.parent(found);
        }
        let (start, end) = page.ranges[found];
        let is_review = found != ROOT
            && page.totals[found].words <= MAX_REVIEW_WORDS
            && !heading.is_some_and(|heading| (start..end).contains(&heading))
            && !is_main(page.section(found));
        if is_review && start >= covered {
            starred.push((start, end));
            prose += page.totals[found].prose;
            covered = end;
        }
    }
    if all.saturating_sub(prose) < MIN_OTHER_WORDS {
        return;
    }
    for (start, end) in starred {
        page.block_dropped[start..end].fill(true);
    }
    page.update_totals();
}

fn is_stars(text: &str) -> bool {
    text.starts_with(['★', '☆', '⭐']) && !text.chars().any(char::is_alphabetic)
}

/// Drops blocks without letters and digits: arrows, stars, bullets.
fn drop_symbols(page: &mut Extraction<'_>) {
    for at in 0..page.blocks.len() {
        let text = page.block_text(at);
        let is_symbol = text.len() <= 64
            && !text.iter().any(u8::is_ascii_alphanumeric)
            && !page.block_str(at).chars().any(char::is_alphanumeric);
        if is_symbol && !matches!(page.block_tag(at), Tag::Td | Tag::Th | Tag::Pre) {
            page.block_dropped[at] = true;
        }
    }
}

static BUTTON_WORD_SET: LazyLock<HashSet<&str>> = LazyLock::new(|| BUTTON_WORDS.iter().copied().collect());

/// Drops blocks of button words only: *Share Save Print*, *reply | parent*.
fn drop_button_rows(page: &mut Extraction<'_>, heading: Option<usize>) {
    for at in 0..page.blocks.len() {
        if page.blocks[at].words > MAX_BUTTON_ROW_WORDS || Some(at) == heading || !page.is_kept(at) {
            continue;
        }
        let tag = page.block_tag(at);
        let is_data = matches!(tag, Tag::Td | Tag::Th | Tag::Dt | Tag::Dd | Tag::Pre | Tag::Caption);
        if !is_data && tag.heading_level().is_none() && is_button_row(page.block_str(at)) {
            page.block_dropped[at] = true;
        }
    }
}

fn is_button_row(text: &str) -> bool {
    let mut has_button = false;
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        if word.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let word = word.to_lowercase();
        if BUTTON_WORD_SET.contains(word.as_str()) {
            has_button = true;
        } else if !FILLER_WORDS.contains(&word.as_str()) {
            return false;
        }
    }
    has_button
}

/// Drops the largest small box around each e-mail field: a form to subscribe.
fn drop_email_forms(page: &mut Extraction<'_>, heading: Option<usize>) {
    let all = page.totals[ROOT].prose;
    let mut covered = 0;
    for field in 1..page.outline.sections.len() {
        if !page.section(field).hints.has(Hints::EMAIL_FIELD) || page.ranges[field].0 < covered {
            continue;
        }
        let mut found = None;
        let mut at = field;
        while at != ROOT {
            let (start, end) = page.ranges[at];
            let section = page.section(at);
            let has_heading = heading.is_some_and(|heading| (start..end).contains(&heading));
            let is_content = is_main(section) || is_article(section);
            let totals = page.totals[at];
            if has_heading || is_content || totals.words > MAX_EMAIL_FORM_WORDS || totals.prose * 3 > all {
                break;
            }
            found = Some(at);
            at = page.parent(at);
        }
        if let Some(found) = found {
            let (start, end) = page.ranges[found];
            page.block_dropped[start..end].fill(true);
            covered = end;
        }
    }
}

/// Drops, from the posts of a thread, lines that most of them have and lines about their authors. The first line of a
/// post, such as its author's name, and dates stay.
fn drop_repeated(page: &mut Extraction<'_>, heading: Option<usize>) {
    // Groups are nested: the budget keeps the time linear.
    let mut budget = page.blocks.len() * 16;
    for group in similar_siblings(page, &ITEMS_AND_ROWS) {
        let visits: usize = group.iter().map(|&at| page.ranges[at].1 - page.ranges[at].0).sum();
        let Some(left) = budget.checked_sub(visits) else { return };
        budget = left;
        let count = u32::try_from(group.len()).unwrap_or(u32::MAX);
        let prose: u32 = group.iter().map(|&at| page.totals[at].prose).sum();
        if prose / count < MIN_POST_WORDS {
            continue;
        }
        let mut repeated: HashMap<String, (usize, Vec<usize>)> = HashMap::new();
        for &item in &group {
            keep_author_name(page, item);
            let (start, end) = page.ranges[item];
            let kept = (start..end).filter(|&at| page.is_kept(at));
            let rest: Vec<usize> = kept.skip(1).filter(|&at| Some(at) != heading).collect();
            for at in rest {
                if page.blocks[at].words > MAX_AUTHOR_FACT_WORDS || page.block_tag(at) == Tag::Pre {
                    continue;
                }
                let text = index_text(page.block_str(at));
                if is_author_fact(&text) {
                    page.block_dropped[at] = true;
                } else if page.blocks[at].words <= MAX_REPEATED_WORDS && !is_time(&text) {
                    let (last_item, blocks) = repeated.entry(without_digits(&text)).or_default();
                    // A line counts once per post.
                    if *last_item != item || blocks.is_empty() {
                        *last_item = item;
                        blocks.push(at);
                    }
                }
            }
        }
        for (_, blocks) in repeated.into_values() {
            if blocks.len() >= 3 && blocks.len() * 10 >= group.len() * 6 {
                for at in blocks {
                    page.block_dropped[at] = true;
                }
            }
        }
    }
}

/// Drops the author box of a post except its first line, the name.
fn keep_author_name(page: &mut Extraction<'_>, item: usize) {
    let (start, end) = page.ranges[item];
    let Some(fact) = (start..end).find(|&at| is_about_author(page, at)) else { return };
    let is_fact = |page: &Extraction<'_>, at: usize| {
        page.blocks[at].words <= MAX_AUTHOR_FACT_WORDS && is_author_fact(&index_text(page.block_str(at)))
    };
    let mut member = None;
    let mut at = page.block_section(fact);
    while at != item && at != ROOT && within(page, at).prose < MIN_POST_WORDS {
        member = Some(at);
        at = page.parent(at);
    }
    let Some(member) = member else { return };
    let (start, end) = page.ranges[member];
    let Some(name) = (start..end).find(|&at| page.blocks[at].words > 0 && !is_fact(page, at)) else { return };
    page.block_dropped[start..end].fill(true);
    page.restore(name);
    let Block { start, lead, .. } = page.outline.blocks[name];
    if lead > 0 {
        page.ends[name] = page.ends[name].min(start + lead);
    }
}

fn is_author_fact(text: &str) -> bool {
    AUTHOR_FACTS.iter().any(|fact| text.starts_with(fact))
}

/// Whether the block is about the author of a post.
fn is_about_author(page: &Extraction<'_>, at: usize) -> bool {
    let is_named = page.section(page.block_section(at)).hints.has(Hints::AUTHOR_BOX);
    let is_short = page.blocks[at].words <= MAX_AUTHOR_FACT_WORDS && page.block_tag(at) != Tag::Pre;
    is_short && (is_named || is_author_fact(&index_text(page.block_str(at))))
}

/// Totals of all blocks of a section, dropped ones included.
fn within(page: &Extraction<'_>, at: usize) -> Totals {
    let (start, end) = page.ranges[at];
    let mut totals = Totals::default();
    for block in start..end {
        totals.add(page.blocks[block]);
    }
    totals
}

/// Whether `text` has a date, a time, an age or a price.
fn is_time(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let is_short_age = digits > 0 && text.len() > digits && text.len() <= digits + 2;
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    let has_clock = text.as_bytes().windows(3).any(|part| {
        part[0].is_ascii_digit() && matches!(part[1], b':' | b'/' | b'.' | b'-') && part[2].is_ascii_digit()
    });
    has_clock
        || is_short_age
        || text.contains(['$', '€', '£', '¥', '₽', '₹'])
        || (has_digit && TIMES.iter().any(|time| text.contains(time)))
}

fn without_digits(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn button_rows_and_sentences() {
        for text in [
            "Share Save Listen 4 min",
            "reply",
            "Upvote · 402",
            "Teilen | Drucken",
            "Follow us on Mastodon",
            "分享",
        ] {
            assert!(is_button_row(text), "{text}");
        }
        for text in ["Share prices fell", "We print books", "4 min", "", "Anonymous"] {
            assert!(!is_button_row(text), "{text}");
        }
    }

    #[test]
    fn times_prices_and_counts() {
        for text in ["3 hours ago", "answered 2 years ago", "02/03/2015", "18:40", "3 may", "12d", "£ 40"] {
            assert!(is_time(text), "{text}");
        }
        for text in ["118 points", "posts: 41", "upvote · 402", "regular"] {
            assert!(!is_time(text), "{text}");
        }
    }
}
