//! Drops leftovers between and after the main text.

use super::super::outline::ROOT;
use super::super::tag::Tag;
use super::Extraction;
use super::lists::series_items;

/// Maximum words of an imprint at the end.
const MAX_IMPRINT_WORDS: u32 = 40;

/// Maximum distance of the byline from the heading, in blocks.
const MAX_BYLINE_DISTANCE: usize = 6;

/// Maximum words of a byline, and of the first line of an author box.
const MAX_BYLINE_WORDS: u32 = 8;

/// Maximum number of searches for an author box, so that the time stays linear.
const MAX_BIOGRAPHY_SEARCHES: usize = 8;

/// Maximum words of an author box.
const MAX_BIOGRAPHY_WORDS: u32 = 90;

pub(super) fn drop_leftovers(page: &mut Extraction<'_>, heading: Option<usize>) {
    drop_bare_numbers(page);
    drop_before_heading(page, heading);
    drop_behind_rule(page);
    drop_biography(page, heading);
    drop_orphaned_headings(page);
    page.update_totals();
}

/// Drops numbers without words: votes, ratings, positions. Prices, dates, tables and lists stay.
fn drop_bare_numbers(page: &mut Extraction<'_>) {
    let kept = (0..page.blocks.len()).filter(|&at| page.is_kept(at));
    let (kept, bare): (Vec<_>, Vec<_>) = kept.partition(|&at| !is_bare_number(page, at));
    // Many numbers, or several in a row, are a table without table markup.
    if bare.len() * 3 > kept.len() {
        return;
    }
    let stands_alone = |at: usize| {
        let is_bare = |other: usize| bare.binary_search(&other).is_ok();
        !is_bare(at + 1) && !at.checked_sub(1).is_some_and(is_bare)
    };
    for &at in bare.iter().filter(|&&at| bare.len() * 8 <= kept.len() || stands_alone(at)) {
        page.block_dropped[at] = true;
    }
}

fn is_bare_number(page: &Extraction<'_>, at: usize) -> bool {
    let is_number =
        |byte: &u8| byte.is_ascii_digit() || matches!(byte, b' ' | b'.' | b',' | b'(' | b')' | b'/' | b'+');
    matches!(page.block_tag(at), Tag::Div | Tag::P | Tag::Section | Tag::Article)
        && page.blocks[at].words <= 3
        && page.block_text(at).iter().all(is_number)
}

/// Drops blocks before the page's heading, except those right beside it: a date, a category.
fn drop_before_heading(page: &mut Extraction<'_>, heading: Option<usize>) {
    let Some(heading) = heading else { return };
    let beside = page.parent(page.block_section(heading));
    // Prose stays, unless far more of it follows.
    let is_preface = page.between(0, heading).prose * 3 < page.between(heading, page.blocks.len()).prose;
    for at in 0..heading {
        let section = page.block_section(at);
        let is_text = page.blocks[at].prose >= 20 && !is_preface;
        if section != beside && page.parent(section) != beside && !is_text {
            page.block_dropped[at] = true;
        }
    }
}

/// Drops the blocks after the last horizontal rule, if they have links and no headings: a footer.
fn drop_behind_rule(page: &mut Extraction<'_>) {
    let count = page.blocks.len();
    let Some(rule) = page.outline.blocks.iter().rposition(|block| block.after_rule) else { return };
    let is_line = page.between(rule, count).words <= MAX_IMPRINT_WORDS;
    let has_links =
        (rule..count).any(|at| page.blocks[at].is_linked(5) || (is_line && page.blocks[at].links > 0));
    let has_heading = (rule..count).any(|at| page.block_tag(at).heading_level().is_some());
    let is_small = page.between(rule, count).prose * 4 < page.between(0, rule).prose;
    if has_links && !has_heading && is_small {
        page.block_dropped[rule..].fill(true);
    }
}

/// Drops headings whose text was dropped.
fn drop_orphaned_headings(page: &mut Extraction<'_>) {
    let mut next_kept: Option<usize> = None;
    for at in (0..page.blocks.len()).rev() {
        if !page.is_kept(at) {
            continue;
        }
        if let Some(level) = page.block_tag(at).heading_level()
            && level > 1
            && at + 1 < page.blocks.len()
            && !page.is_kept(at + 1)
        {
            let announces = next_kept.is_some_and(|next| {
                page.block_tag(next).heading_level().is_none_or(|next_level| next_level > level)
            });
            if !announces {
                page.block_dropped[at] = true;
                continue;
            }
        }
        next_kept = Some(at);
    }
}

/// Drops author boxes after the text: boxes that begin with the name in the byline.
fn drop_biography(page: &mut Extraction<'_>, heading: Option<usize>) {
    let Some(heading) = heading else { return };
    let behind = (heading + 1..page.blocks.len()).filter(|&at| page.is_kept(at));
    let bylines: Vec<usize> = behind.take(MAX_BYLINE_DISTANCE).collect();
    let is_short = |page: &Extraction<'_>, at: usize| page.blocks[at].words <= MAX_BYLINE_WORDS;
    let names: Vec<(usize, &str)> = bylines
        .into_iter()
        .filter(|&at| is_short(page, at))
        .filter_map(|at| Some((at, name_in_byline(page.block_str(at))?)))
        .collect();
    if names.is_empty() {
        return;
    }
    let all = page.between(heading, page.blocks.len()).prose;
    let mut passed = 0;
    let mut searches = MAX_BIOGRAPHY_SEARCHES;
    let items = series_items(page);
    for at in heading + 1..page.blocks.len() {
        if !page.is_kept(at) {
            continue;
        }
        passed += page.blocks[at].prose;
        let is_named = searches > 0
            && passed * 10 >= all * 6
            && is_short(page, at)
            && names.iter().any(|&(byline, name)| byline < at && page.block_str(at).contains(name));
        searches -= usize::from(is_named);
        if let Some((start, end)) = is_named.then(|| box_starting_with(page, at, &items)).flatten() {
            page.block_dropped[start..end].fill(true);
        }
    }
}

/// Blocks of the largest small section that begins with `block` and has more blocks, unless it is an item of a series,
/// such as a post.
fn box_starting_with(page: &Extraction<'_>, block: usize, items: &[bool]) -> Option<(usize, usize)> {
    let mut found = None;
    let mut at = page.block_section(block);
    while at != ROOT {
        let (start, end) = page.ranges[at];
        let begins = (start..block).all(|before| !page.is_kept(before));
        if !begins || page.between(start, end).words > MAX_BIOGRAPHY_WORDS {
            break;
        }
        if end > block + 1 {
            found = Some(at);
        }
        at = page.parent(at);
    }
    found.filter(|&at| !items[at]).map(|at| page.ranges[at])
}

/// Name in *By Ada Reed*, *Ada Reed, 3 May* or *Von Ada Reed*: two to four capitalised words.
fn name_in_byline(text: &str) -> Option<&str> {
    let lowered = text.get(..8.min(text.len())).unwrap_or(text).to_lowercase();
    let skipped = BY.iter().find(|by| lowered.starts_with(**by)).map_or(0, |by| by.len());
    let rest = text.get(skipped..)?;
    let mut end = 0;
    let mut count = 0;
    let mut offset = 0;
    for word in rest.split_inclusive(' ') {
        let name = word.trim_end();
        let is_last = name.ends_with([',', '·', '|', ';']);
        let name = name.trim_end_matches([',', '·', '|', ';']);
        if !name.starts_with(char::is_uppercase) || name.chars().any(|c| c.is_ascii_digit()) {
            break;
        }
        count += 1;
        end = offset + name.len();
        offset += word.len();
        if is_last {
            break;
        }
    }
    (2..=4).contains(&count).then(|| &rest[..end])
}

/// First words of a byline.
const BY: [&str; 12] =
    ["by ", "von ", "par ", "por ", "di ", "da ", "door ", "av ", "af ", "od ", "автор: ", "текст: "];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_bylines() {
        for (byline, name) in [
            ("By Ada Reed", "Ada Reed"),
            ("Ada Reed, 3 May", "Ada Reed"),
            ("Von Ada van Reed", "Ada"),
            ("by Ada M. Reed · 3 May", "Ada M. Reed"),
            ("Por María Núñez 3 de mayo", "María Núñez"),
        ] {
            assert_eq!(name_in_byline(byline), (name != "Ada").then_some(name), "{byline}");
        }
        for other in ["3 May 2020", "by the sea", "", "é"] {
            assert_eq!(name_in_byline(other), None, "{other}");
        }
    }
}
