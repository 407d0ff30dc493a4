//! Finds the page's heading and the main container, and drops the blocks outside.

use std::collections::HashSet;

use super::super::hints::Hints;
use super::super::outline::ROOT;
use super::super::tag::Tag;
use super::super::text::index_text;
use super::lists::series_items;
use super::{Extraction, Totals, is_article, is_main};

/// Minimum words outside links of a container that is more than a heading with its byline.
const MIN_CONTAINER_WORDS: u32 = 40;

/// Maximum words that a mere wrapper adds to a container.
const MAX_WRAPPER_WORDS: u32 = 6;

/// Maximum words of a short text, which continues if half as much follows; a longer one if as much follows.
const MAX_SHORT_WORDS: u32 = 120;

/// Minimum links in rows of a footer.
const MIN_FOOTER_LINKS: u32 = 3;

/// Maximum words of the page's heading.
const MAX_HEADING_WORDS: u32 = 30;

/// Maximum words of a site's name as a heading.
const MAX_SITE_NAME_WORDS: usize = 2;

/// Maximum bytes of a first line as the page's heading.
const MAX_HEADING_BYTES: usize = 160;

/// Block of the page's heading: the one most similar to the title, otherwise an `<h1>`.
pub(super) fn heading(page: &Extraction<'_>, title: &str) -> Option<usize> {
    let title = index_text(title);
    let segments: Vec<HashSet<&str>> = segments(&title).map(|segment| words(segment).collect()).collect();
    let longest = longest_segment(&title);
    // An `<h1>` that is no link is preferred,
    let has_h1 = (0..page.blocks.len())
        .any(|at| page.is_kept(at) && page.block_tag(at) == Tag::H1 && !page.blocks[at].is_linked(5));
    // unless it only has the site's name in common with the title.
    let has_h1 = has_h1 && !longest.is_some_and(|longest| has_title_outside_h1(page, &segments, longest));
    let all = page.totals[ROOT].prose;
    let mut passed = 0;
    let mut best = None;
    let mut best_score = 59;
    for at in 0..page.blocks.len() {
        let is_late = if all == 0 { at * 10 > page.blocks.len() * 7 } else { passed * 10 > all * 7 };
        passed += if page.is_kept(at) { page.blocks[at].prose } else { 0 };
        let Some(line) = first_line(page, at) else { continue };
        let level = page.block_tag(at).heading_level();
        if has_h1 && level.is_none_or(|level| level > 3) {
            continue;
        }
        // The site's name at the top resembles the title too, but it is a link or dropped.
        let is_linked = page.blocks[at].is_linked(5);
        if page.is_hidden(at) {
            continue;
        }
        let text = index_text(line);
        // A thread about another page links its heading there.
        let is_linked_heading = is_linked && longest.is_some_and(|longest| is_mostly(&text, longest));
        if (level.is_none() && is_linked && !is_linked_heading)
            || (!page.is_kept(at) && (level != Some(1) || is_linked))
        {
            continue;
        }
        let similarity = similarity(&title, &segments, &text);
        let score = match level {
            Some(1) if has_h1 => 125 + similarity / 2,
            _ if is_linked_heading && !has_h1 => similarity + 60,
            Some(2 | 3) if similarity >= 60 => similarity + 25,
            None if is_late => 0,
            _ => similarity,
        };
        let score = score - if is_linked { 30 } else { 0 } - if page.is_kept(at) { 0 } else { 50 };
        if score > best_score {
            best_score = score;
            best = Some(at);
        }
    }
    best
}

/// Whether the longest part of the title is a block of the page, but in no `<h1>`.
fn has_title_outside_h1(page: &Extraction<'_>, segments: &[HashSet<&str>], longest: &str) -> bool {
    let longest_words: HashSet<&str> = words(longest).collect();
    let mut elsewhere = false;
    for at in (0..page.blocks.len()).filter(|&at| !page.is_hidden(at)) {
        if page.block_tag(at) == Tag::H1 {
            let text = index_text(page.block_str(at));
            let count = words(&text).count();
            if count > MAX_SITE_NAME_WORDS
                || longest_words.len() < 2 * MAX_SITE_NAME_WORDS
                || segments.len() < 2
            {
                return false;
            }
        } else if page.blocks[at].words <= MAX_HEADING_WORDS && page.is_kept(at) {
            elsewhere |= is_mostly(&index_text(page.block_str(at)), longest);
        }
    }
    elsewhere
}

/// Candidate for the page's heading: a short block, or the first line of a longer one.
fn first_line<'a>(page: &Extraction<'a>, at: usize) -> Option<&'a str> {
    if page.blocks[at].words <= MAX_HEADING_WORDS {
        return Some(page.block_str(at));
    }
    let (line, _) = page.block_str(at).split_once('\n')?;
    (line.len() <= MAX_HEADING_BYTES).then_some(line)
}

fn is_mostly(text: &str, longest: &str) -> bool {
    let count = words(longest).count();
    text.contains(longest) && words(text).count() <= count + (count / 2).max(3)
}

/// Longest part of the title, if it has enough words to be more than a site's name.
fn longest_segment(title: &str) -> Option<&str> {
    let longest = segments(title).map(str::trim).max_by_key(|segment| segment.len())?;
    (words(longest).count() >= 3).then_some(longest)
}

/// Similarity of `text` to the title by common words, from 0 to 100; 120 if the title starts with it.
fn similarity(title: &str, segments: &[HashSet<&str>], text: &str) -> i32 {
    if text.is_empty() || title.is_empty() {
        return 0;
    }
    if title.starts_with(text) {
        return 120;
    }
    if text.chars().count() >= 4 && title.contains(text) {
        return 100;
    }
    let text_words: HashSet<&str> = words(text).collect();
    let shares = segments.iter().map(|segment| {
        let common = segment.intersection(&text_words).count();
        // A long sentence with the words of the title is no heading.
        let shorter = segment.len().min(text_words.len()).max(text_words.len() / 2);
        if common < 2 { 0 } else { common * 100 / shorter.max(1) }
    });
    shares.max().and_then(|share| i32::try_from(share).ok()).unwrap_or(0)
}

/// Parts of a title such as `Page | Site` or `Site: Page`.
fn segments(title: &str) -> impl Iterator<Item = &str> {
    let parts =
        title.split(['|', '–', '—', '·', '»', '«', '｜', '•', '：']).flat_map(|part| part.split(" - "));
    parts.flat_map(|part| part.split(": ")).filter(|part| !part.trim().is_empty())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Drops the blocks outside the main container, except the heading and code.
pub(super) fn drop_outside(page: &mut Extraction<'_>, heading: Option<usize>) {
    drop_footer(page, heading);
    let (start, end) = page.ranges[main_container(page, heading)];
    for at in (0..page.blocks.len()).filter(|at| !(start..end).contains(at)) {
        // Code in a column beside the text is content.
        let is_code = at >= end && page.block_tag(at) == Tag::Pre;
        page.block_dropped[at] |= !is_code;
    }
    if let Some(heading) = heading {
        page.restore(heading);
    }
    page.update_totals();
}

/// Section with the main text; the root if none stands out.
fn main_container(page: &Extraction<'_>, heading: Option<usize>) -> usize {
    let all = page.totals[ROOT];
    let main = (1..page.outline.sections.len())
        .filter(|&at| is_main(page.section(at)))
        .max_by_key(|&at| (page.totals[at].prose, page.totals[at].words));
    if let Some(main) = main
        && holds_third(page.totals[main], all)
    {
        return only_article(page, main).unwrap_or(main);
    }
    if let Some(article) = only_article(page, ROOT) {
        return article;
    }
    match heading {
        Some(heading) => container_of_heading(page, heading),
        None => densest(page),
    }
}

fn holds_third(part: Totals, all: Totals) -> bool {
    part.words > 0 && (part.prose * 3 > all.prose || part.words * 3 > all.words)
}

/// Article inside `container` with most of its prose.
fn only_article(page: &Extraction<'_>, container: usize) -> Option<usize> {
    let (start, end) = page.ranges[container];
    (1..page.outline.sections.len()).find(|&at| {
        let range = page.ranges[at];
        is_article(page.section(at))
            && page.section(at).tag == Tag::Article
            && range.0 >= start
            && range.1 <= end
            && page.totals[at].prose * 10 > page.totals[container].prose * 6
    })
}

/// Container of the heading: the innermost ancestor with enough text after which little text follows.
fn container_of_heading(page: &Extraction<'_>, heading: usize) -> usize {
    let heading_words = page.blocks[heading].words;
    let mut at = page.block_section(heading);
    while at != ROOT {
        let parent = page.parent(at);
        let own = page.totals[at];
        let (start, end) = (page.ranges[at].1, page.ranges[parent].1);
        let following = page.between(start, footer_start(page, parent, start, end));
        let has_enough = own.plain() >= MIN_CONTAINER_WORDS + heading_words;
        let is_wrapper = page.totals[parent].words < own.words + MAX_WRAPPER_WORDS;
        let weight = if own.plain() < MAX_SHORT_WORDS { 2 } else { 1 };
        let continues = following.plain() * weight >= own.plain() && !following.is_linked(4);
        if has_enough && !is_wrapper && !continues {
            return at;
        }
        at = parent;
    }
    ROOT
}

/// Start of the footer among the blocks from `start` to `end` of `parent`; `end` without one.
fn footer_start(page: &Extraction<'_>, parent: usize, start: usize, end: usize) -> usize {
    let Some(last) = end.checked_sub(1).filter(|last| *last >= start) else { return end };
    let mut at = page.block_section(last);
    while at != ROOT && page.parent(at) != parent {
        at = page.parent(at);
    }
    if at == ROOT || !is_footer(page, at) { end } else { page.ranges[at].0.max(start) }
}

/// Drops the largest footer after the text. The last of several similar sections is the last post of a thread, not a footer.
fn drop_footer(page: &mut Extraction<'_>, heading: Option<usize>) {
    let Some(heading) = heading else { return };
    let Some(last) = page.kept_end.checked_sub(1) else { return };
    let items = series_items(page);
    let mut footer = None;
    let mut at = page.block_section(last);
    while at != ROOT && page.ranges[at].0 > heading {
        // The last post of a thread.
        if items[at] {
            return;
        }
        let is_after_text = page.between(heading + 1, page.ranges[at].0).plain() >= MIN_CONTAINER_WORDS;
        if is_after_text
            && row_links(page, at) >= MIN_FOOTER_LINKS
            && is_footer(page, at)
            && !has_similar_sibling(page, at)
            && !is_part_of_main(page, at)
        {
            footer = Some(at);
        }
        at = page.parent(at);
    }
    if let Some(footer) = footer {
        page.section_dropped[footer] = true;
        page.drop_sections(|_, _| false);
    }
}

/// Whether the section is inside `<main>` and has a name of content itself.
fn is_part_of_main(page: &Extraction<'_>, at: usize) -> bool {
    let hints = page.section(at).hints;
    let mut above = at;
    while above != ROOT && !is_main(page.section(above)) {
        above = page.parent(above);
    }
    above != ROOT && above != at && (hints.has(Hints::CONTENT) || hints.has(Hints::ARTICLE))
}

fn has_similar_sibling(page: &Extraction<'_>, at: usize) -> bool {
    let own = page.section(at);
    page.outline.sections.iter().enumerate().any(|(other, section)| {
        other != at
            && (section.parent, section.tag, section.class_hash) == (own.parent, own.tag, own.class_hash)
            && page.totals[other].words > 0
    })
}

/// Number of links in rows, not in sentences.
fn row_links(page: &Extraction<'_>, at: usize) -> u32 {
    let (start, end) = page.ranges[at];
    (start..end).filter(|&block| page.blocks[block].is_linked(5)).map(|block| page.blocks[block].links).sum()
}

/// Whether the section ends the page, without headings or code, and has rows of links or follows boilerplate.
fn is_footer(page: &Extraction<'_>, at: usize) -> bool {
    let (start, end) = page.ranges[at];
    let ends_page = end >= page.kept_end;
    let is_structured = (start..end).any(|block| {
        let tag = page.block_tag(block);
        tag == Tag::Pre || tag.heading_level().is_some_and(|level| level <= 3)
    });
    let after_boilerplate = start.checked_sub(1).is_some_and(|before| !page.is_kept(before));
    ends_page && !is_structured && (row_links(page, at) >= MIN_FOOTER_LINKS || after_boilerplate)
}

/// Innermost container with at least 70 % of the prose of its parent, without footers; for pages without a heading.
fn densest(page: &Extraction<'_>) -> usize {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); page.outline.sections.len()];
    for section in 1..page.outline.sections.len() {
        if page.totals[section].words > 0 {
            children[page.parent(section)].push(section);
        }
    }
    let mut at = ROOT;
    loop {
        let is_container = |&section: &usize| page.section(section).tag != Tag::P;
        let densest = children[at]
            .iter()
            .copied()
            .filter(is_container)
            .max_by_key(|&section| page.totals[section].prose);
        let Some(child) = densest else { return at };
        let last = children[at].last().copied().filter(|&last| last != child && is_footer(page, last));
        let footer = last.map_or(0, |last| page.totals[last].prose);
        let within = page.totals[at].prose.saturating_sub(footer);
        if page.totals[child].prose * 10 <= within * 7 {
            return at;
        }
        at = child;
    }
}
