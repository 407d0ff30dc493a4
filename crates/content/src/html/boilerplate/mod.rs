//! Boilerplate removal: selects the blocks of a page that are its main text.
//!
//! General rules on structure, names and text density, in order of application:
//!
//! 1. [`markup`]: elements, roles, classes and ids of boilerplate, unless they have much of the page's prose.
//! 2. [`cues`]: sections that begin with a cue phrase, and [`notices`] about cookies, subscriptions and law.
//! 3. [`widgets`]: button rows, repeated lines at the posts of a thread, e-mail forms, reviews.
//! 4. [`container`]: blocks outside `<main>`, the only `<article>`, or the container of the page's heading.
//! 5. [`lists`]: lists of links and of teasers, unless they are the main content.
//! 6. [`cleanup`]: author boxes, headings without text, footers.

mod button_words;
mod cleanup;
mod container;
mod cue_phrases;
mod cues;
mod lists;
mod markup;
mod notices;
mod phrase_matcher;
mod phrases;
mod widgets;

use super::hints::Hints;
use super::outline::{Block, Outline, ROOT, Section};
use super::tag::Tag;
use super::text::{self, Measure};

/// Main text, one line per block.
pub(crate) fn main_text(outline: &Outline, title: &str) -> String {
    let mut page = Extraction::new(outline);
    markup::drop_hidden(&mut page);
    markup::drop_named(&mut page);
    let heading = container::heading(&page, title);
    cues::drop_announced(&mut page, heading);
    notices::drop_notices(&mut page, title);
    widgets::drop_widgets(&mut page, heading);
    container::drop_outside(&mut page, heading);
    lists::drop_lists(&mut page, heading);
    cleanup::drop_leftovers(&mut page, heading);
    let text = page.text();
    // A page of boilerplate only: all visible text is better than none.
    if text.is_empty() { visible_text(outline) } else { text }
}

/// All visible text, one line per block.
pub(crate) fn visible_text(outline: &Outline) -> String {
    let mut page = Extraction::new(outline);
    markup::drop_hidden(&mut page);
    page.text()
}

/// Totals of blocks or sections.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    words: u32,
    link_words: u32,
    links: u32,
    /// Words in sentences, outside links.
    prose: u32,
}

impl Totals {
    fn add(&mut self, other: Self) {
        self.words += other.words;
        self.link_words += other.link_words;
        self.links += other.links;
        self.prose += other.prose;
    }

    fn plain(self) -> u32 {
        self.words - self.link_words
    }

    /// Link density: whether more than `tenths` tenths of the words are in links.
    fn is_linked(self, tenths: u32) -> bool {
        self.link_words * 10 > self.words * tenths
    }
}

/// State of the extraction: the blocks of a page, and which are dropped.
struct Extraction<'a> {
    outline: &'a Outline,
    blocks: Vec<Totals>,
    block_dropped: Vec<bool>,
    /// End of the kept part of each block.
    ends: Vec<u32>,
    section_dropped: Vec<bool>,
    hidden: Vec<bool>,
    /// End of the kept blocks at the last update of the totals.
    kept_end: usize,
    /// Totals of the kept blocks of each section, nested ones included.
    totals: Vec<Totals>,
    /// Block range of each section.
    ranges: Vec<(usize, usize)>,
    /// Tag of each section, with `Div` for layout tables and their parts.
    tags: Vec<Tag>,
}

impl<'a> Extraction<'a> {
    fn new(outline: &'a Outline) -> Self {
        let blocks = outline.blocks.iter().map(|block| block_totals(outline, block)).collect();
        let mut page = Self {
            outline,
            blocks,
            block_dropped: vec![false; outline.blocks.len()],
            ends: outline.blocks.iter().map(|block| block.end).collect(),
            section_dropped: vec![false; outline.sections.len()],
            hidden: Vec::new(),
            kept_end: 0,
            totals: Vec::new(),
            ranges: block_ranges(outline),
            tags: tags(outline),
        };
        page.update_totals();
        page
    }

    fn section(&self, at: usize) -> &'a Section {
        &self.outline.sections[at]
    }

    fn parent(&self, section: usize) -> usize {
        self.section(section).parent as usize
    }

    fn block_section(&self, block: usize) -> usize {
        self.outline.blocks[block].section as usize
    }

    fn block_tag(&self, block: usize) -> Tag {
        self.tags[self.block_section(block)]
    }

    fn block_text(&self, block: usize) -> &'a [u8] {
        slice(self.outline, &self.outline.blocks[block])
    }

    fn block_str(&self, block: usize) -> &'a str {
        std::str::from_utf8(self.block_text(block)).unwrap_or_default()
    }

    fn is_kept(&self, block: usize) -> bool {
        !self.block_dropped[block] && !self.section_dropped[self.block_section(block)]
    }

    /// Whether the block is in a hidden section.
    fn is_hidden(&self, block: usize) -> bool {
        self.hidden.get(self.block_section(block)).copied().unwrap_or(false)
    }

    /// Updates the totals of the kept blocks, from the blocks to the root.
    fn update_totals(&mut self) {
        let mut totals = vec![Totals::default(); self.outline.sections.len()];
        self.kept_end = 0;
        for (at, block) in self.blocks.iter().enumerate() {
            if !self.block_dropped[at] && !self.section_dropped[self.block_section(at)] {
                self.kept_end = at + 1;
                totals[self.block_section(at)].add(*block);
            }
        }
        for at in (1..totals.len()).rev() {
            let own = totals[at];
            totals[self.parent(at)].add(own);
        }
        self.totals = totals;
    }

    /// Totals of the kept blocks from `start` to `end`.
    fn between(&self, start: usize, end: usize) -> Totals {
        let mut totals = Totals::default();
        for at in (start..end).filter(|&at| self.is_kept(at)) {
            totals.add(self.blocks[at]);
        }
        totals
    }

    /// Drops the sections for which `drops` is true, with their contents.
    fn drop_sections(&mut self, drops: impl Fn(&Self, usize) -> bool) {
        for at in 1..self.section_dropped.len() {
            let parent = self.parent(at);
            self.section_dropped[at] =
                self.section_dropped[at] || self.section_dropped[parent] || drops(self, at);
        }
        self.update_totals();
    }

    /// Whether each section or one of its ancestors satisfies the condition.
    fn inside(&self, condition: impl Fn(&Section) -> bool) -> Vec<bool> {
        let mut inside = vec![false; self.outline.sections.len()];
        for (at, section) in self.outline.sections.iter().enumerate() {
            inside[at] = inside[section.parent as usize] || condition(section);
        }
        inside
    }

    /// Keeps a block of a dropped section; the other blocks of the section stay dropped.
    fn restore(&mut self, block: usize) {
        self.block_dropped[block] = false;
        let mut outermost = None;
        let mut at = self.block_section(block);
        while at != ROOT {
            if std::mem::take(&mut self.section_dropped[at]) {
                outermost = Some(at);
            }
            at = self.parent(at);
        }
        let Some(outermost) = outermost else { return };
        let (start, end) = self.ranges[outermost];
        for other in (start..end).filter(|&other| other != block) {
            self.block_dropped[other] = true;
        }
    }

    fn text(&self) -> String {
        let mut out = Vec::new();
        for at in (0..self.blocks.len()).filter(|&at| self.is_kept(at)) {
            if !out.is_empty() {
                out.push(b'\n');
            }
            let start = self.outline.blocks[at].start as usize;
            out.extend_from_slice(self.outline.text.get(start..self.ends[at] as usize).unwrap_or_default());
        }
        text::into_string(out)
    }
}

/// Minimum prose outside a discussion that makes the discussion an appendix.
const ARTICLE_WORDS: u32 = 60;

/// The same for a discussion more than twice as long: fewer words only open it.
const OPENING_WORDS: u32 = 100;

/// Whether a discussion with this much prose is an appendix, not the main content.
fn is_appendix(discussion: u32, all: u32) -> bool {
    let others = all.saturating_sub(discussion);
    let article = if discussion > 2 * others { OPENING_WORDS } else { ARTICLE_WORDS };
    others >= article || others * 2 > all
}

fn is_article(section: &Section) -> bool {
    section.tag == Tag::Article || section.hints.has(Hints::ARTICLE)
}

fn is_main(section: &Section) -> bool {
    section.tag == Tag::Main || section.hints.has(Hints::MAIN)
}

fn slice<'a>(outline: &'a Outline, block: &Block) -> &'a [u8] {
    outline.text.get(block.start as usize..block.end as usize).unwrap_or_default()
}

fn block_totals(outline: &Outline, block: &Block) -> Totals {
    let Measure { words, clauses } = text::measure(slice(outline, block));
    let linked =
        u64::from(words) * u64::from(block.link_bytes) / u64::try_from(block.len().max(1)).unwrap_or(1);
    let link_words = u32::try_from(linked).unwrap_or(words).min(words);
    let plain = words - link_words;
    let tag = outline.sections[block.section as usize].tag;
    let prose = if tag.heading_level().is_some() || link_words * 2 > words {
        0
    } else if (plain >= 10 && clauses > 0) || plain >= 20 {
        plain
    } else {
        plain / 4
    };
    Totals { words, link_words, links: block.links, prose }
}

fn block_ranges(outline: &Outline) -> Vec<(usize, usize)> {
    let mut ranges = vec![(usize::MAX, 0); outline.sections.len()];
    for (at, block) in outline.blocks.iter().enumerate() {
        let range = &mut ranges[block.section as usize];
        *range = (range.0.min(at), at + 1);
    }
    for at in (1..ranges.len()).rev() {
        let (start, end) = ranges[at];
        let parent = &mut ranges[outline.sections[at].parent as usize];
        *parent = (parent.0.min(start), parent.1.max(end));
    }
    for range in &mut ranges {
        range.0 = range.0.min(range.1);
    }
    ranges
}

/// Tags of all sections, with `Div` for layout tables and their parts: tables with a layout role, with nested tables or
/// headings, or with one row.
fn tags(outline: &Outline) -> Vec<Tag> {
    let sections = &outline.sections;
    let mut table_of = vec![usize::MAX; sections.len()];
    let mut is_layout = vec![false; sections.len()];
    let mut rows = vec![0_u32; sections.len()];
    for (at, section) in sections.iter().enumerate().skip(1) {
        let outer = table_of[section.parent as usize];
        table_of[at] = outer;
        if section.tag == Tag::Table {
            table_of[at] = at;
            is_layout[at] = section.hints.has(Hints::LAYOUT);
        }
        if section.tag == Tag::Tr && outer != usize::MAX {
            rows[outer] += 1;
        }
        let is_big = section.tag == Tag::Table || section.tag.heading_level().is_some_and(|level| level <= 3);
        if is_big && outer != usize::MAX {
            is_layout[outer] = true;
        }
    }
    let tag = |(at, section): (usize, &Section)| {
        let table = table_of[at];
        let places =
            section.tag.is_table_part() && table != usize::MAX && (is_layout[table] || (rows[table] == 1));
        if places { Tag::Div } else { section.tag }
    };
    sections.iter().enumerate().map(tag).collect()
}
