//! Finds the page's heading and the container of its main text, and drops what is outside.

use std::collections::HashSet;

use super::super::outline::ROOT;
use super::super::tag::Tag;
use super::super::text::index_text;
use super::{Judged, Totals, is_article, is_main};

/// Words outside of links that make a container more than a heading with its byline.
const ENOUGH_WORDS: u32 = 40;

/// Most words that a mere wrapper adds around a container.
const WRAPPER_WORDS: u32 = 6;

/// A text with fewer words goes on if half as much follows, one with more if as much follows.
const SHORT_WORDS: u32 = 120;

/// Fewest links in rows that make the end of a page a footer.
const FOOTER_LINKS: u32 = 3;

/// Longest block, in words, that can be the page's heading.
const MAX_HEADING_WORDS: u32 = 30;

/// The block that is the page's heading: what resembles the title most, or else an `<h1>`.
pub(super) fn heading(page: &Judged<'_>, title: &str) -> Option<usize> {
    let title = index_text(title);
    let segments: Vec<HashSet<&str>> = segments(&title).map(|segment| words(segment).collect()).collect();
    // No other text can be more like a heading than an `<h1>` that is there and is no link.
    let has_h1 = (0..page.blocks.len())
        .any(|at| page.is_kept(at) && page.block_tag(at) == Tag::H1 && !page.blocks[at].is_linked(5));
    let mut best = None;
    let mut best_score = 59;
    for at in 0..page.blocks.len() {
        if page.blocks[at].words > MAX_HEADING_WORDS {
            continue;
        }
        let level = page.block_tag(at).heading_level();
        if has_h1 && level.is_none_or(|level| level > 3) {
            continue;
        }
        // The name of the site at the top is like the title too, but it is a link home or dropped.
        let is_linked = page.blocks[at].is_linked(5);
        if page.is_hidden(at) {
            continue;
        }
        if (level.is_none() && is_linked) || (!page.is_kept(at) && (level != Some(1) || is_linked)) {
            continue;
        }
        let text = index_text(page.block_str(at));
        let likeness = likeness(&title, &segments, &text);
        let score = match level {
            Some(1) => 125 + likeness / 2,
            Some(2 | 3) if likeness >= 60 => likeness + 25,
            None if at * 10 > page.blocks.len() * 7 => 0,
            _ => likeness,
        };
        let score = score - if is_linked { 30 } else { 0 } - if page.is_kept(at) { 0 } else { 50 };
        if score > best_score {
            best_score = score;
            best = Some(at);
        }
    }
    best
}

/// How much of `text` is in a part of the title or a part in `text`, from 0 to 100; 20 more when the
/// title starts with it.
fn likeness(title: &str, segments: &[HashSet<&str>], text: &str) -> i32 {
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
        let shorter = segment.len().min(text_words.len());
        if common < 2 { 0 } else { common * 100 / shorter.max(1) }
    });
    shares.max().and_then(|share| i32::try_from(share).ok()).unwrap_or(0)
}

/// Titles put the page and the site side by side: `Page | Site`, `Site: Page`.
fn segments(title: &str) -> impl Iterator<Item = &str> {
    let parts =
        title.split(['|', '–', '—', '·', '»', '«', '｜', '•', '：']).flat_map(|part| part.split(" - "));
    parts.flat_map(|part| part.split(": ")).filter(|part| !part.trim().is_empty())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Drops all blocks outside of the frame, except the heading and code.
pub(super) fn drop_outside(page: &mut Judged<'_>, heading: Option<usize>) {
    drop_footer(page, heading);
    let frame = frame(page, heading);
    let (start, end) = page.ranges[frame];
    for at in (0..page.blocks.len()).filter(|at| !(start..end).contains(at)) {
        // Code beside the text, as in a column of examples, is not boilerplate.
        let is_code = at >= end && page.block_tag(at) == Tag::Pre;
        page.block_dropped[at] |= !is_code;
    }
    if let Some(heading) = heading {
        restore(page, heading);
    }
    page.add_up();
}

/// Keeps a block although the section it is in is dropped.
fn restore(page: &mut Judged<'_>, block: usize) {
    let section = page.block_section(block);
    page.block_dropped[block] = false;
    if !page.section_dropped[section] {
        return;
    }
    let (start, end) = page.ranges[section];
    for other in (start..end).filter(|&other| other != block) {
        page.block_dropped[other] = true;
    }
    page.section_dropped[section] = false;
}

/// The section that holds the main text; the root if none stands out.
fn frame(page: &Judged<'_>, heading: Option<usize>) -> usize {
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
        Some(heading) => opened_by(page, heading),
        None => densest(page),
    }
}

fn holds_third(part: Totals, all: Totals) -> bool {
    part.words > 0 && (part.prose * 3 > all.prose || part.words * 3 > all.words)
}

/// The one article inside `frame` that holds most of its prose.
fn only_article(page: &Judged<'_>, frame: usize) -> Option<usize> {
    let (start, end) = page.ranges[frame];
    (1..page.outline.sections.len()).find(|&at| {
        let range = page.ranges[at];
        is_article(page.section(at))
            && page.section(at).tag == Tag::Article
            && range.0 >= start
            && range.1 <= end
            && page.totals[at].prose * 10 > page.totals[frame].prose * 6
    })
}

/// Climbs from the heading to the container that it opens: the first with enough text, and on as
/// long as much more text follows.
fn opened_by(page: &Judged<'_>, heading: usize) -> usize {
    let heading_words = page.blocks[heading].words;
    let mut at = page.block_section(heading);
    while at != ROOT {
        let parent = page.parent(at);
        let own = page.totals[at];
        let (start, end) = (page.ranges[at].1, page.ranges[parent].1);
        let following = page.between(start, footer_start(page, parent, start, end));
        let enough = own.plain() >= ENOUGH_WORDS + heading_words;
        let is_wrapper = page.totals[parent].words < own.words + WRAPPER_WORDS;
        let weight = if own.plain() < SHORT_WORDS { 2 } else { 1 };
        let goes_on = following.plain() * weight >= own.plain() && !following.is_linked(4);
        if enough && !is_wrapper && !goes_on {
            return at;
        }
        at = parent;
    }
    ROOT
}

/// Where, among the blocks from `start` to `end` of `parent`, a footer begins: the last child that
/// ends the page, without headings, and with rows of links or behind other boilerplate, however much
/// prose it has.
fn footer_start(page: &Judged<'_>, parent: usize, start: usize, end: usize) -> usize {
    let Some(last) = end.checked_sub(1).filter(|last| *last >= start) else { return end };
    let mut at = page.block_section(last);
    while at != ROOT && page.parent(at) != parent {
        at = page.parent(at);
    }
    if at == ROOT || !is_footer(page, at) { end } else { page.ranges[at].0.max(start) }
}

/// Drops the largest footer behind the text that the heading opens. The last of several sections that
/// are alike is no footer but the last post of a thread.
fn drop_footer(page: &mut Judged<'_>, heading: Option<usize>) {
    let Some(heading) = heading else { return };
    let Some(last) = page.kept_end.checked_sub(1) else { return };
    let mut found = None;
    let mut at = page.block_section(last);
    while at != ROOT && page.ranges[at].0 > heading {
        let is_behind_text = page.between(heading + 1, page.ranges[at].0).plain() >= ENOUGH_WORDS;
        if is_behind_text
            && row_links(page, at) >= FOOTER_LINKS
            && is_footer(page, at)
            && !has_alike(page, at)
        {
            found = Some(at);
        }
        at = page.parent(at);
    }
    if let Some(footer) = found {
        page.section_dropped[footer] = true;
        page.drop_sections(|_, _| false);
    }
}

fn has_alike(page: &Judged<'_>, at: usize) -> bool {
    let own = page.section(at);
    page.outline.sections.iter().enumerate().any(|(other, section)| {
        other != at
            && (section.parent, section.tag, section.class_hash) == (own.parent, own.tag, own.class_hash)
            && page.totals[other].words > 0
    })
}

/// Links that stand in rows rather than in sentences.
fn row_links(page: &Judged<'_>, at: usize) -> u32 {
    let (start, end) = page.ranges[at];
    (start..end).filter(|&block| page.blocks[block].is_linked(5)).map(|block| page.blocks[block].links).sum()
}

fn is_footer(page: &Judged<'_>, at: usize) -> bool {
    let (start, end) = page.ranges[at];
    let ends_page = end >= page.kept_end;
    let is_structured = (start..end).any(|block| {
        let tag = page.block_tag(block);
        tag == Tag::Pre || tag.heading_level().is_some_and(|level| level <= 3)
    });
    let after_boilerplate = start.checked_sub(1).is_some_and(|before| !page.is_kept(before));
    ends_page && !is_structured && (row_links(page, at) >= FOOTER_LINKS || after_boilerplate)
}

/// Without a heading: goes down from the root as long as one child holds nearly all prose.
fn densest(page: &Judged<'_>) -> usize {
    let mut at = ROOT;
    let mut within = page.totals[ROOT].prose;
    let mut footers = vec![false; page.outline.sections.len()];
    for (section, footer) in footers.iter_mut().enumerate().skip(1) {
        if page.parent(section) == ROOT && is_footer(page, section) {
            *footer = true;
            within = within.saturating_sub(page.totals[section].prose);
        }
    }
    for (section, &footer) in footers.iter().enumerate().skip(1) {
        let is_container = page.section(section).tag != Tag::P && !footer;
        if page.parent(section) == at && is_container && page.totals[section].prose * 10 > within * 7 {
            at = section;
            within = page.totals[section].prose;
        }
    }
    at
}
