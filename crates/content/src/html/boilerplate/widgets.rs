//! Drops the furniture between the lines: buttons that are no buttons, what stands at every post of a
//! thread, boxes that ask for a mail address.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::super::hints::Hints;
use super::super::outline::{Block, ROOT};
use super::super::tag::Tag;
use super::super::text::index_text;
use super::lists::{ITEMS_AND_ROWS, alike};
use super::phrases::{MEMBER_FACTS, TIMES};
use super::tools::{TOOL_COMPANY, TOOLS};
use super::{Judged, Totals, is_article, is_main};

/// Most words of a row of tools.
const MAX_TOOL_WORDS: u32 = 9;

/// Most words of what is repeated at every post.
const MAX_FITTING_WORDS: u32 = 6;

/// Most words of a line that tells about the author of a post.
const MAX_FACT_WORDS: u32 = 14;

/// Fewest words of prose of a post, on average.
const FEWEST_POST_WORDS: u32 = 8;

/// Most words of a review.
const MAX_REVIEW_WORDS: u32 = 200;

/// Fewest words of prose beside the reviews.
const FEWEST_OTHER_WORDS: u32 = 30;

/// Most words of a box around a field for a mail address.
const MAX_MAIL_BOX_WORDS: u32 = 60;

pub(super) fn drop_furniture(page: &mut Judged<'_>, heading: Option<usize>) {
    drop_starred(page, heading);
    drop_signs(page);
    drop_tools(page, heading);
    drop_mail_boxes(page, heading);
    page.add_up();
    drop_fittings(page, heading);
    page.add_up();
}

/// Boxes that stars head or end are reviews: of a page with text of its own they are an appendix.
fn drop_starred(page: &mut Judged<'_>, heading: Option<usize>) {
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
    if all.saturating_sub(prose) < FEWEST_OTHER_WORDS {
        return;
    }
    for (start, end) in starred {
        page.block_dropped[start..end].fill(true);
    }
    page.add_up();
}

fn is_stars(text: &str) -> bool {
    text.starts_with(['★', '☆', '⭐']) && !text.chars().any(char::is_alphabetic)
}

/// Blocks without a single letter or digit: arrows, stars, bullets.
fn drop_signs(page: &mut Judged<'_>) {
    for at in 0..page.blocks.len() {
        let text = page.block_text(at);
        let is_sign = text.len() <= 64
            && !text.iter().any(u8::is_ascii_alphanumeric)
            && !page.block_str(at).chars().any(char::is_alphanumeric);
        if is_sign && !matches!(page.block_tag(at), Tag::Td | Tag::Th | Tag::Pre) {
            page.block_dropped[at] = true;
        }
    }
}

static TOOL_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| TOOLS.iter().copied().collect());

/// Blocks of nothing but names of tools: *Share Save Print*, *reply | parent*.
fn drop_tools(page: &mut Judged<'_>, heading: Option<usize>) {
    for at in 0..page.blocks.len() {
        if page.blocks[at].words > MAX_TOOL_WORDS || Some(at) == heading || !page.is_kept(at) {
            continue;
        }
        let tag = page.block_tag(at);
        let is_data = matches!(tag, Tag::Td | Tag::Th | Tag::Dt | Tag::Dd | Tag::Pre | Tag::Caption);
        if !is_data && tag.heading_level().is_none() && is_row_of_tools(page.block_str(at)) {
            page.block_dropped[at] = true;
        }
    }
}

fn is_row_of_tools(text: &str) -> bool {
    let mut has_tool = false;
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        if word.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let word = word.to_lowercase();
        if TOOL_WORDS.contains(word.as_str()) {
            has_tool = true;
        } else if !TOOL_COMPANY.contains(&word.as_str()) {
            return false;
        }
    }
    has_tool
}

/// The largest small box around a field for a mail address asks to subscribe.
fn drop_mail_boxes(page: &mut Judged<'_>, heading: Option<usize>) {
    let all = page.totals[ROOT].prose;
    let mut covered = 0;
    for field in 1..page.outline.sections.len() {
        if !page.section(field).hints.has(Hints::ASKS_MAIL) || page.ranges[field].0 < covered {
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
            if has_heading || is_content || totals.words > MAX_MAIL_BOX_WORDS || totals.prose * 3 > all {
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

/// Drops, from posts of a thread, what stands at most of them and what counts or describes their
/// authors. What leads a post, such as its author's name, and dates stay.
fn drop_fittings(page: &mut Judged<'_>, heading: Option<usize>) {
    // Groups are nested; what is deep inside many is looked at a few times only.
    let mut budget = page.blocks.len() * 16;
    for group in alike(page, &ITEMS_AND_ROWS) {
        let visits: usize = group.iter().map(|&at| page.ranges[at].1 - page.ranges[at].0).sum();
        let Some(left) = budget.checked_sub(visits) else { return };
        budget = left;
        let count = u32::try_from(group.len()).unwrap_or(u32::MAX);
        let prose: u32 = group.iter().map(|&at| page.totals[at].prose).sum();
        if prose / count < FEWEST_POST_WORDS {
            continue;
        }
        let mut fittings: HashMap<String, (usize, Vec<usize>)> = HashMap::new();
        for &item in &group {
            keep_name_of_member(page, item);
            let (start, end) = page.ranges[item];
            let kept = (start..end).filter(|&at| page.is_kept(at));
            let rest: Vec<usize> = kept.skip(1).filter(|&at| Some(at) != heading).collect();
            for at in rest {
                if page.blocks[at].words > MAX_FACT_WORDS || page.block_tag(at) == Tag::Pre {
                    continue;
                }
                let text = index_text(page.block_str(at));
                if is_member_fact(&text) {
                    page.block_dropped[at] = true;
                } else if page.blocks[at].words <= MAX_FITTING_WORDS && !is_time(&text) {
                    let (last_item, blocks) = fittings.entry(without_digits(&text)).or_default();
                    // Said twice in one post, it still counts once.
                    if *last_item != item || blocks.is_empty() {
                        *last_item = item;
                        blocks.push(at);
                    }
                }
            }
        }
        for (_, blocks) in fittings.into_values() {
            if blocks.len() >= 3 && blocks.len() * 10 >= group.len() * 6 {
                for at in blocks {
                    page.block_dropped[at] = true;
                }
            }
        }
    }
}

/// Of the box about the author of a post, the name stays: what leads it.
fn keep_name_of_member(page: &mut Judged<'_>, item: usize) {
    let (start, end) = page.ranges[item];
    let Some(fact) = (start..end).find(|&at| tells_of_member(page, at)) else { return };
    let is_fact = |page: &Judged<'_>, at: usize| {
        page.blocks[at].words <= MAX_FACT_WORDS && is_member_fact(&index_text(page.block_str(at)))
    };
    let mut member = None;
    let mut at = page.block_section(fact);
    while at != item && at != ROOT && within(page, at).prose < FEWEST_POST_WORDS {
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

fn is_member_fact(text: &str) -> bool {
    MEMBER_FACTS.iter().any(|fact| text.starts_with(fact))
}

/// Whether the block is about the author of a post rather than by him.
fn tells_of_member(page: &Judged<'_>, at: usize) -> bool {
    let is_named = page.section(page.block_section(at)).hints.has(Hints::MEMBER);
    let is_short = page.blocks[at].words <= MAX_FACT_WORDS && page.block_tag(at) != Tag::Pre;
    is_short && (is_named || is_member_fact(&index_text(page.block_str(at))))
}

/// What all blocks of a section hold, kept or not.
fn within(page: &Judged<'_>, at: usize) -> Totals {
    let (start, end) = page.ranges[at];
    let mut totals = Totals::default();
    for block in start..end {
        totals.add(page.blocks[block]);
    }
    totals
}

/// Whether `text` looks like a date, a time or an age, or names a price.
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
    fn rows_of_tools_are_told_from_sentences() {
        for text in [
            "Share Save Listen 4 min",
            "reply",
            "Upvote · 402",
            "Teilen | Drucken",
            "Follow us on Mastodon",
            "分享",
        ] {
            assert!(is_row_of_tools(text), "{text}");
        }
        for text in ["Share prices fell", "We print books", "4 min", "", "Anonymous"] {
            assert!(!is_row_of_tools(text), "{text}");
        }
    }

    #[test]
    fn times_and_prices_are_told_from_counts() {
        for text in ["3 hours ago", "answered 2 years ago", "02/03/2015", "18:40", "3 may", "12d", "£ 40"] {
            assert!(is_time(text), "{text}");
        }
        for text in ["118 points", "posts: 41", "upvote · 402", "regular"] {
            assert!(!is_time(text), "{text}");
        }
    }
}
