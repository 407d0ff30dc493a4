//! Drops lists of links and of teasers, unless they are what the page is about.

use std::collections::HashMap;

use super::super::outline::ROOT;
use super::super::tag::Tag;
use super::{Judged, Totals};

/// Fewest alike children that make a list of teasers.
const FEWEST_TEASERS: usize = 3;

/// Most words of a teaser.
const MAX_TEASER_WORDS: u32 = 60;

/// Most words of a line with the author and the date.
const MAX_BYLINE_WORDS: u32 = 6;

/// Most words of a link that is only a label.
const MAX_LABEL_WORDS: u32 = 4;

/// Elements that are used for the items of a list.
const ITEMS: [Tag; 6] = [Tag::Div, Tag::Li, Tag::Article, Tag::Section, Tag::Td, Tag::Table];

/// The same and rows of tables, which can be posts but are no teasers: links in tables are data.
pub(super) const ITEMS_AND_ROWS: [Tag; 7] =
    [Tag::Div, Tag::Li, Tag::Article, Tag::Section, Tag::Td, Tag::Table, Tag::Tr];

/// Fewest words outside of links, on average, of an item that is more than a link.
const FEWEST_ITEM_WORDS: u32 = 5;

/// Fewest words of prose, on average, of an item of a series.
const FEWEST_SERIES_PROSE: u32 = 6;

/// How far from a list, in sections, its siblings are looked for.
const MAX_LOOK: usize = 64;

/// Fewest other words that make lists a side matter.
const FEWEST_OTHER_WORDS: u32 = 40;

pub(super) fn drop_lists(page: &mut Judged<'_>, heading: Option<usize>) {
    let leads = item_leads(page);
    let lists = list_sections(page, heading, &leads);
    let listed: u32 = lists.iter().map(|&at| page.totals[at].words).sum();
    let other =
        page.totals[ROOT].plain().saturating_sub(lists.iter().map(|&at| page.totals[at].plain()).sum());
    drop_repeated_links(page, heading);
    if other < FEWEST_OTHER_WORDS || other < listed {
        return;
    }
    for at in lists {
        page.section_dropped[at] = true;
    }
    page.drop_sections(|_, _| false);
    for (at, is_lead) in leads.into_iter().enumerate() {
        if page.is_kept(at) && !is_lead && Some(at) != heading && is_row_of_links(page, at) {
            page.block_dropped[at] = true;
        }
    }
    page.add_up();
}

/// A link alone in its block that says the same several times, such as *Read more*, says nothing.
fn drop_repeated_links(page: &mut Judged<'_>, heading: Option<usize>) {
    let mut texts: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for at in 0..page.blocks.len() {
        let is_label = page.blocks[at].is_linked(8) && page.blocks[at].words <= MAX_LABEL_WORDS;
        if page.is_kept(at) && Some(at) != heading && is_label && page.block_tag(at).heading_level().is_none()
        {
            texts.entry(page.block_text(at)).or_default().push(at);
        }
    }
    for at in texts.into_values().filter(|blocks| blocks.len() >= FEWEST_TEASERS).flatten() {
        page.block_dropped[at] = true;
    }
}

/// The outermost sections that are little but links, or are teasers for other pages.
fn list_sections(page: &Judged<'_>, heading: Option<usize>, leads: &[bool]) -> Vec<usize> {
    let teasers = teasers(page);
    let mut found = Vec::new();
    let mut covered = vec![false; page.outline.sections.len()];
    for at in 1..page.outline.sections.len() {
        covered[at] = covered[page.parent(at)];
        if covered[at] || page.section_dropped[at] || page.totals[at].words == 0 {
            continue;
        }
        let (start, end) = page.ranges[at];
        if heading.is_some_and(|heading| (start..end).contains(&heading)) {
            continue;
        }
        let is_lead = end == start + 1 && leads[start];
        if teasers[at] || (!is_lead && is_list_of_links(page, at) && !is_in_text(page, at)) {
            covered[at] = true;
            found.push(at);
        }
    }
    found
}

fn is_list_of_links(page: &Judged<'_>, at: usize) -> bool {
    let tag = page.tags[at];
    let is_item = matches!(tag, Tag::P | Tag::Li | Tag::Tr | Tag::Td | Tag::Th | Tag::Dt | Tag::Dd);
    let totals = page.totals[at];
    !is_item
        && tag.heading_level().is_none()
        && totals.is_linked(6)
        && totals.prose < 10
        && totals.links >= if tag.is_list() { 3 } else { 2 }
}

/// Whether a list stands in the flow of the text: a line that ends with a colon introduces it, or it is
/// one of several lists that headings set apart and of which others are more than links.
fn is_in_text(page: &Judged<'_>, at: usize) -> bool {
    if !page.tags[at].is_list() {
        return false;
    }
    let start = page.ranges[at].0;
    let before = (start.saturating_sub(4)..start).rev().find(|&block| page.is_kept(block));
    let Some(before) = before.filter(|&before| page.parent(page.block_section(before)) == page.parent(at))
    else {
        return false;
    };
    let is_heading = page.block_tag(before).heading_level().is_some();
    let is_colon = |text: &[u8]| text.ends_with(b":") || text.ends_with("：".as_bytes());
    (is_colon(page.block_text(before)) && !is_heading) || (is_heading && has_list_with_text(page, at))
}

/// Whether another list of the same parent has words beside its links.
fn has_list_with_text(page: &Judged<'_>, at: usize) -> bool {
    let parent = page.parent(at);
    let (start, end) = (at.saturating_sub(MAX_LOOK), (at + MAX_LOOK).min(page.outline.sections.len()));
    (start..end).any(|other| {
        let totals = page.totals[other];
        other != at
            && page.parent(other) == parent
            && page.tags[other] == page.tags[at]
            && totals.links > 0
            && !totals.is_linked(6)
    })
}

/// A block of links side by side, as in a row of buttons or a trail of crumbs.
fn is_row_of_links(page: &Judged<'_>, at: usize) -> bool {
    let tag = page.block_tag(at);
    let stands_alone =
        !matches!(tag, Tag::Li | Tag::Td | Tag::Th | Tag::Dt | Tag::Dd) && tag.heading_level().is_none();
    stands_alone && page.blocks[at].is_linked(6) && page.blocks[at].prose < 10
}

/// Sections of one tag and class under one parent, where there are several.
pub(super) fn alike(page: &Judged<'_>, tags: &[Tag]) -> Vec<Vec<usize>> {
    let mut groups: HashMap<(usize, Tag, u32), Vec<usize>> = HashMap::new();
    for at in 1..page.outline.sections.len() {
        let section = page.section(at);
        if tags.contains(&page.tags[at]) && !page.section_dropped[at] && page.totals[at].words > 0 {
            groups.entry((page.parent(at), section.tag, section.class_hash)).or_default().push(at);
        }
    }
    let mut groups: Vec<Vec<usize>> =
        groups.into_values().filter(|group| group.len() >= FEWEST_TEASERS).collect();
    groups.sort_unstable();
    groups
}

/// Marks items of a series: several alike, also in how they begin, and with prose in them, such as the
/// posts of a thread.
pub(super) fn items_of_series(page: &Judged<'_>) -> Vec<bool> {
    let mut items = vec![false; page.outline.sections.len()];
    let beginning = |at: usize| {
        let child = |at: usize| page.outline.sections.get(at).map(|section| section.tag);
        (child(at + 1), child(at + 2))
    };
    for group in alike(page, &ITEMS_AND_ROWS) {
        let mut alike: HashMap<_, Vec<usize>> = HashMap::new();
        for at in group {
            alike.entry(beginning(at)).or_default().push(at);
        }
        for series in alike.into_values().filter(|series| series.len() >= FEWEST_TEASERS) {
            let prose: u32 = series.iter().map(|&at| page.totals[at].prose).sum();
            if prose / u32::try_from(series.len()).unwrap_or(u32::MAX) >= FEWEST_SERIES_PROSE {
                for at in series {
                    items[at] = true;
                }
            }
        }
    }
    items
}

/// Marks sections that are alike, short, and led by a link.
fn teasers(page: &Judged<'_>) -> Vec<bool> {
    let mut teasers = vec![false; page.outline.sections.len()];
    for group in alike(page, &ITEMS) {
        let count = group.iter().filter(|&&at| is_teaser(page, at)).count();
        if count >= FEWEST_TEASERS && count * 10 >= group.len() * 7 {
            for at in group {
                teasers[at] = true;
            }
        }
    }
    teasers
}

/// Marks blocks that lead an item of several alike: the author and the date of a post, the name of an
/// entry. Such a link alone in its block belongs to the item.
fn item_leads(page: &Judged<'_>) -> Vec<bool> {
    let mut leads = vec![false; page.blocks.len()];
    // Paragraphs that are each a link and a remark on it are entries too.
    for group in alike(page, &[Tag::P]) {
        let entries: Vec<usize> =
            group.iter().map(|&at| page.ranges[at].0).filter(|&at| is_entry(page, at)).collect();
        if entries.len() >= FEWEST_TEASERS && entries.len() * 10 >= group.len() * 7 {
            for at in entries {
                leads[at] = true;
            }
        }
    }
    for group in alike(page, &ITEMS_AND_ROWS) {
        let plain: u32 = group.iter().map(|&at| page.totals[at].plain()).sum();
        let count = u32::try_from(group.len()).unwrap_or(u32::MAX);
        if plain / count < FEWEST_ITEM_WORDS {
            continue;
        }
        for at in group {
            let (start, end) = page.ranges[at];
            let kept = (start..end).filter(|&block| page.is_kept(block));
            for (place, block) in kept.take(2).enumerate() {
                let Totals { words, links, .. } = page.blocks[block];
                leads[block] |= links == 1 || (links == 2 && place == 0 && words <= MAX_BYLINE_WORDS);
            }
        }
    }
    leads
}

fn is_entry(page: &Judged<'_>, at: usize) -> bool {
    let totals = page.blocks[at];
    totals.links == 1 && totals.plain() >= 2
}

fn is_teaser(page: &Judged<'_>, at: usize) -> bool {
    let totals = page.totals[at];
    if totals.words > MAX_TEASER_WORDS || totals.link_words == 0 {
        return false;
    }
    let (start, end) = page.ranges[at];
    let Some(first) = (start..end).find(|&block| page.is_kept(block)) else { return false };
    let led_by_link = page.blocks[first].is_linked(8);
    led_by_link && (page.block_tag(first).heading_level().is_some() || totals.is_linked(3)) && end - start > 1
        || totals.is_linked(4) && totals.prose < 10 && end - start > 1
}
