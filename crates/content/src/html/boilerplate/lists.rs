//! Drops lists of links and of teasers, unless they are the main content.

use std::collections::HashMap;

use super::super::outline::ROOT;
use super::super::tag::Tag;
use super::{Extraction, Totals};

/// Minimum number of similar siblings of a list.
const MIN_TEASERS: usize = 3;

/// Maximum words of a teaser.
const MAX_TEASER_WORDS: u32 = 60;

/// Maximum words of a byline.
const MAX_BYLINE_WORDS: u32 = 6;

/// Maximum words of a link that is only a label.
const MAX_LABEL_WORDS: u32 = 4;

/// Elements of list items.
const ITEMS: [Tag; 6] = [Tag::Div, Tag::Li, Tag::Article, Tag::Section, Tag::Td, Tag::Table];

/// [`ITEMS`] and table rows, which can be posts but no teasers: links in tables are data.
pub(super) const ITEMS_AND_ROWS: [Tag; 7] =
    [Tag::Div, Tag::Li, Tag::Article, Tag::Section, Tag::Td, Tag::Table, Tag::Tr];

/// Minimum average words outside links of an item that is more than a link.
const MIN_ITEM_WORDS: u32 = 5;

/// Minimum average prose of a series item, in words.
const MIN_SERIES_PROSE: u32 = 6;

/// Maximum distance of the siblings of a list that are compared, in sections.
const MAX_SIBLING_DISTANCE: usize = 64;

/// Minimum words outside lists of a page whose lists are dropped.
const MIN_OTHER_WORDS: u32 = 40;

pub(super) fn drop_lists(page: &mut Extraction<'_>, heading: Option<usize>) {
    let leads = item_leads(page);
    let lists = list_sections(page, heading, &leads);
    let listed: u32 = lists.iter().map(|&at| page.totals[at].words).sum();
    let other =
        page.totals[ROOT].plain().saturating_sub(lists.iter().map(|&at| page.totals[at].plain()).sum());
    drop_repeated_links(page, heading);
    if other < MIN_OTHER_WORDS || other < listed {
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
    page.update_totals();
}

/// Drops repeated links that are alone in their blocks, such as *Read more*.
fn drop_repeated_links(page: &mut Extraction<'_>, heading: Option<usize>) {
    let mut texts: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for at in 0..page.blocks.len() {
        let is_label = page.blocks[at].is_linked(8) && page.blocks[at].words <= MAX_LABEL_WORDS;
        if page.is_kept(at) && Some(at) != heading && is_label && page.block_tag(at).heading_level().is_none()
        {
            texts.entry(page.block_text(at)).or_default().push(at);
        }
    }
    for at in texts.into_values().filter(|blocks| blocks.len() >= MIN_TEASERS).flatten() {
        page.block_dropped[at] = true;
    }
}

/// Outermost sections that are lists of links or teasers.
fn list_sections(page: &Extraction<'_>, heading: Option<usize>, leads: &[bool]) -> Vec<usize> {
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

fn is_list_of_links(page: &Extraction<'_>, at: usize) -> bool {
    let tag = page.tags[at];
    let is_item = matches!(tag, Tag::P | Tag::Li | Tag::Tr | Tag::Td | Tag::Th | Tag::Dt | Tag::Dd);
    let totals = page.totals[at];
    !is_item
        && tag.heading_level().is_none()
        && totals.is_linked(6)
        && totals.prose < 10
        && totals.links >= if tag.is_list() { 3 } else { 2 }
}

/// Whether a list belongs to the text: after a line that ends with a colon, or below a heading beside lists with text.
fn is_in_text(page: &Extraction<'_>, at: usize) -> bool {
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

/// Whether a sibling list has words beside its links.
fn has_list_with_text(page: &Extraction<'_>, at: usize) -> bool {
    let parent = page.parent(at);
    let (start, end) = (
        at.saturating_sub(MAX_SIBLING_DISTANCE),
        (at + MAX_SIBLING_DISTANCE).min(page.outline.sections.len()),
    );
    (start..end).any(|other| {
        let totals = page.totals[other];
        other != at
            && page.parent(other) == parent
            && page.tags[other] == page.tags[at]
            && totals.links > 0
            && !totals.is_linked(6)
    })
}

/// Whether the block is a row of links, such as breadcrumbs.
fn is_row_of_links(page: &Extraction<'_>, at: usize) -> bool {
    let tag = page.block_tag(at);
    let stands_alone =
        !matches!(tag, Tag::Li | Tag::Td | Tag::Th | Tag::Dt | Tag::Dd) && tag.heading_level().is_none();
    stands_alone && page.blocks[at].is_linked(6) && page.blocks[at].prose < 10
}

/// Groups of sections with the same parent, tag and class.
pub(super) fn similar_siblings(page: &Extraction<'_>, tags: &[Tag]) -> Vec<Vec<usize>> {
    let mut groups: HashMap<(usize, Tag, u32), Vec<usize>> = HashMap::new();
    for at in 1..page.outline.sections.len() {
        let section = page.section(at);
        if tags.contains(&page.tags[at]) && !page.section_dropped[at] && page.totals[at].words > 0 {
            groups.entry((page.parent(at), section.tag, section.class_hash)).or_default().push(at);
        }
    }
    let mut groups: Vec<Vec<usize>> =
        groups.into_values().filter(|group| group.len() >= MIN_TEASERS).collect();
    groups.sort_unstable();
    groups
}

/// Marks series items: similar siblings with the same first elements and with prose, such as the posts of a thread.
pub(super) fn series_items(page: &Extraction<'_>) -> Vec<bool> {
    let mut items = vec![false; page.outline.sections.len()];
    let beginning = |at: usize| {
        let child = |at: usize| page.outline.sections.get(at).map(|section| section.tag);
        (child(at + 1), child(at + 2))
    };
    for group in similar_siblings(page, &ITEMS_AND_ROWS) {
        let mut by_beginning: HashMap<_, Vec<usize>> = HashMap::new();
        for at in group {
            by_beginning.entry(beginning(at)).or_default().push(at);
        }
        for series in by_beginning.into_values().filter(|series| series.len() >= MIN_TEASERS) {
            let prose: u32 = series.iter().map(|&at| page.totals[at].prose).sum();
            if prose / u32::try_from(series.len()).unwrap_or(u32::MAX) >= MIN_SERIES_PROSE {
                for at in series {
                    items[at] = true;
                }
            }
        }
    }
    items
}

/// Marks teasers: similar siblings that are short and begin with a link.
fn teasers(page: &Extraction<'_>) -> Vec<bool> {
    let mut teasers = vec![false; page.outline.sections.len()];
    for group in similar_siblings(page, &ITEMS) {
        let count = group.iter().filter(|&&at| is_teaser(page, at)).count();
        if count >= MIN_TEASERS && count * 10 >= group.len() * 7 {
            for at in group {
                teasers[at] = true;
            }
        }
    }
    teasers
}

/// Marks the first blocks of items among similar siblings: the author and date of a post, the name of an entry. A link
/// alone in such a block belongs to the item.
fn item_leads(page: &Extraction<'_>) -> Vec<bool> {
    let mut leads = vec![false; page.blocks.len()];
    // Paragraphs of a link and a remark are entries too.
    for group in similar_siblings(page, &[Tag::P]) {
        let entries: Vec<usize> =
            group.iter().map(|&at| page.ranges[at].0).filter(|&at| is_entry(page, at)).collect();
        if entries.len() >= MIN_TEASERS && entries.len() * 10 >= group.len() * 7 {
            for at in entries {
                leads[at] = true;
            }
        }
    }
    for group in similar_siblings(page, &ITEMS_AND_ROWS) {
        let plain: u32 = group.iter().map(|&at| page.totals[at].plain()).sum();
        let count = u32::try_from(group.len()).unwrap_or(u32::MAX);
        if plain / count < MIN_ITEM_WORDS {
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

fn is_entry(page: &Extraction<'_>, at: usize) -> bool {
    let totals = page.blocks[at];
    totals.links == 1 && totals.plain() >= 2
}

fn is_teaser(page: &Extraction<'_>, at: usize) -> bool {
    let totals = page.totals[at];
    if totals.words > MAX_TEASER_WORDS || totals.link_words == 0 {
        return false;
    }
    let (start, end) = page.ranges[at];
    let Some(first) = (start..end).find(|&block| page.is_kept(block)) else { return false };
    let begins_with_link = page.blocks[first].is_linked(8);
    begins_with_link
        && (page.block_tag(first).heading_level().is_some() || totals.is_linked(3))
        && end - start > 1
        || totals.is_linked(4) && totals.prose < 10 && end - start > 1
}
