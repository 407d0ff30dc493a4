//! Drops sections that begin with a cue phrase: *Related stories*, *3 comments*.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::super::outline::ROOT;
use super::super::tag::Tag;
use super::super::text::index_text;
use super::cue_phrases::CUE_PHRASES;
use super::phrases::DISCUSSIONS;
use super::{ARTICLE_WORDS, Extraction, is_appendix};

/// Maximum number of words of a cue.
const MAX_CUE_WORDS: u32 = 14;

/// Maximum prose of a box with a cue and few links, in words.
const MAX_BOX_PROSE: u32 = 60;

/// Maximum prose under a heading with a cue, in words.
const MAX_APPENDIX_PROSE: u32 = 40;

/// Drops sections that begin with a cue, and the blocks under a heading that is one.
pub(super) fn drop_announced(page: &mut Extraction<'_>, heading: Option<usize>) {
    let all = page.totals[ROOT].prose;
    let mut before = Before::default();
    let mut at = 0;
    while at < page.blocks.len() {
        let end = end_of_announced(page, at, heading, all, before).unwrap_or(at);
        page.block_dropped[at..end].fill(true);
        if end > at {
            at = end;
            continue;
        }
        if page.is_kept(at) {
            before = Before { last: Some(at), prose: before.prose + page.blocks[at].prose };
        }
        at += 1;
    }
    page.update_totals();
}

/// Kept text before the current block.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    last: Option<usize>,
    prose: u32,
}

/// End of the section that the block at `at` announces, if it is to be dropped.
fn end_of_announced(
    page: &Extraction<'_>,
    at: usize,
    heading: Option<usize>,
    all: u32,
    before: Before,
) -> Option<usize> {
    if !page.is_kept(at) || Some(at) == heading || page.blocks[at].words > MAX_CUE_WORDS {
        return None;
    }
    let tag = page.block_tag(at);
    let is_title = tag.heading_level().is_some()
        || matches!(tag, Tag::Div | Tag::P | Tag::Section | Tag::Summary | Tag::Dt | Tag::Caption);
    if !is_title && tag != Tag::Li {
        return None;
    }
    let cue = cue(page.block_str(at), tag.heading_level().is_some())?;
    let Some(section) = announced_section(page, at, heading, before) else {
        return match tag.heading_level() {
            Some(level) => next_heading(page, at, level, cue, before),
            None => (is_title && is_label(page.block_text(at))).then_some(at + 1),
        };
    };
    let prose = page.totals[section].prose;
    if !is_title && prose > 5 {
        return None;
    }
    let is_appendix = cue == Cue::Discussion && is_appendix(prose, all);
    let is_box = prose * 2 <= all && (prose <= MAX_BOX_PROSE || page.totals[section].is_linked(2));
    (is_box || is_appendix).then(|| page.ranges[section].1)
}

/// Largest section that begins with `block` and has more blocks, but not the heading.
fn announced_section(
    page: &Extraction<'_>,
    block: usize,
    heading: Option<usize>,
    before: Before,
) -> Option<usize> {
    let mut largest = None;
    let mut at = page.block_section(block);
    while at != ROOT {
        let (start, end) = page.ranges[at];
        let is_first = before.last.is_none_or(|last| last < start);
        if !is_first || heading.is_some_and(|heading| (start..end).contains(&heading)) {
            break;
        }
        if end > block + 1 {
            largest = Some(at);
        }
        at = page.parent(at);
    }
    largest
}

/// Whether a cue without content is a label, and no sentence.
fn is_label(text: &[u8]) -> bool {
    !text.ends_with(b".") && !text.ends_with("。".as_bytes())
}

/// End of the blocks under a heading, if they have little prose or follow an article.
fn next_heading(page: &Extraction<'_>, heading: usize, level: u8, cue: Cue, before: Before) -> Option<usize> {
    let end = page.ranges[page.parent(page.block_section(heading))].1;
    let next = (heading + 1..end)
        .find(|&at| page.block_tag(at).heading_level().is_some_and(|next_level| next_level <= level))
        .unwrap_or(end);
    let is_appendix = cue == Cue::Discussion && before.prose >= ARTICLE_WORDS;
    (is_appendix || page.between(heading + 1, next).prose <= MAX_APPENDIX_PROSE).then_some(next)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cue {
    Boilerplate,
    Discussion,
}

/// Cue phrases by their first byte, since every short block of every page is looked up.
static CUE_PHRASES_BY_BYTE: LazyLock<HashMap<u8, Vec<&str>>> = LazyLock::new(|| {
    let mut by_byte: HashMap<u8, Vec<&str>> = HashMap::new();
    for phrase in CUE_PHRASES {
        by_byte.entry(phrase.as_bytes()[0]).or_default().push(phrase);
    }
    by_byte
});

fn cue(text: &str, is_heading: bool) -> Option<Cue> {
    let text = index_text(text);
    let candidates = text.bytes().next().and_then(|byte| CUE_PHRASES_BY_BYTE.get(&byte));
    if candidates.is_some_and(|phrases| phrases.iter().any(|phrase| text.starts_with(phrase))) {
        return Some(Cue::Boilerplate);
    }
    let words = || text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let starts_with_count = text.starts_with(|c: char| c.is_ascii_digit());
    let has_count = text.bytes().any(|byte| byte.is_ascii_digit());
    let near_start = if starts_with_count { 3 } else { 4 };
    let may_announce = starts_with_count || ((is_heading || has_count) && words().count() <= 4);
    let names_discussion = may_announce
        && DISCUSSIONS.iter().any(|name| {
            if name.is_ascii() {
                words().take(near_start).any(|word| word == *name)
            } else {
                text.contains(name)
            }
        });
    names_discussion.then_some(Cue::Discussion)
}
