//! Which blocks of a page are its main text.
//!
//! General rules on structure, names and density, in the order in which they are applied:
//!
//! 1. [`named`]: elements, roles, classes and ids that stand for boilerplate. A name is not
//!    believed when much of the page's prose is inside.
//! 2. [`cues`]: parts that their own first words call boilerplate, and [`notices`], legal ones among them.
//! 3. [`furniture`]: words on buttons, what stands at every post of a thread, boxes that ask for a
//!    mail address, starred reviews.
//! 4. [`frame`]: what is outside `<main>`, the only `<article>`, or else the container that the
//!    page's heading opens.
//! 5. [`lists`]: lists of links and of teasers, unless they are what the page is about.
//! 6. [`leftovers`]: the box about the author, headings whose section is gone, what trails behind.

mod beginnings;
mod cues;
mod frame;
mod furniture;
mod leftovers;
mod lists;
mod named;
mod notices;
mod phrases;
mod sieve;
mod tools;

use super::hints::Hints;
use super::outline::{Block, Outline, ROOT, Section};
use super::tag::Tag;
use super::text::{self, Measure};

/// The main text, one line per block.
pub(crate) fn main_text(outline: &Outline, title: &str) -> String {
    let mut page = Judged::new(outline);
    named::drop_hidden(&mut page);
    named::drop_named(&mut page);
    let heading = frame::heading(&page, title);
    cues::drop_announced(&mut page, heading);
    notices::drop_notices(&mut page, title);
    furniture::drop_furniture(&mut page, heading);
    frame::drop_outside(&mut page, heading);
    lists::drop_lists(&mut page, heading);
    leftovers::drop_leftovers(&mut page, heading);
    let text = page.text();
    // A page that is nothing but what looks like boilerplate: better that than nothing.
    if text.is_empty() { visible_text(outline) } else { text }
}

/// All visible text, one line per block.
pub(crate) fn visible_text(outline: &Outline) -> String {
    let mut page = Judged::new(outline);
    named::drop_hidden(&mut page);
    page.text()
}

/// What blocks or sections hold together.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    words: u32,
    link_words: u32,
    links: u32,
    /// Words in sentences outside of links.
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

    /// Whether more than `tenths` of ten words are in links.
    fn is_linked(self, tenths: u32) -> bool {
        self.link_words * 10 > self.words * tenths
    }
}

/// A page under judgement: what is there, and what has been dropped so far.
struct Judged<'a> {
    outline: &'a Outline,
    blocks: Vec<Totals>,
    block_dropped: Vec<bool>,
    /// Where the kept part of each block ends.
    ends: Vec<u32>,
    section_dropped: Vec<bool>,
    hidden: Vec<bool>,
    /// One more than the last block that was kept when the totals were added up.
    kept_end: usize,
    /// For each section, what is kept in it and in all sections inside it.
    totals: Vec<Totals>,
    /// For each section, its first block and the one after its last.
    ranges: Vec<(usize, usize)>,
    /// For each section its tag, with `Div` for the parts of tables that are there for the layout.
    tags: Vec<Tag>,
}

impl<'a> Judged<'a> {
    fn new(outline: &'a Outline) -> Self {
        let blocks = outline.blocks.iter().map(|block| weigh(outline, block)).collect();
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
        page.add_up();
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

    /// Whether the block is in a section that is not shown.
    fn is_hidden(&self, block: usize) -> bool {
        self.hidden.get(self.block_section(block)).copied().unwrap_or(false)
    }

    /// Adds up what is kept, from the blocks to the root.
    fn add_up(&mut self) {
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

    /// What is kept among the blocks from `start` up to `end`.
    fn between(&self, start: usize, end: usize) -> Totals {
        let mut totals = Totals::default();
        for at in (start..end).filter(|&at| self.is_kept(at)) {
            totals.add(self.blocks[at]);
        }
        totals
    }

    /// Drops sections for which `drops` holds, and all that is inside them.
    fn drop_sections(&mut self, drops: impl Fn(&Self, usize) -> bool) {
        for at in 1..self.section_dropped.len() {
            let parent = self.parent(at);
            self.section_dropped[at] =
                self.section_dropped[at] || self.section_dropped[parent] || drops(self, at);
        }
        self.add_up();
    }

    /// For each section whether it or an ancestor satisfies `holds`.
    fn inside(&self, holds: impl Fn(&Section) -> bool) -> Vec<bool> {
        let mut inside = vec![false; self.outline.sections.len()];
        for (at, section) in self.outline.sections.iter().enumerate() {
            inside[at] = inside[section.parent as usize] || holds(section);
        }
        inside
    }

    /// Keeps a block although a section that it is in is dropped; what else is in there stays dropped.
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

/// Words of prose outside a discussion from which on it is an appendix to them.
const ARTICLE_WORDS: u32 = 60;

/// The same where the discussion is more than twice as long: fewer words only open it.
const OPENING_WORDS: u32 = 100;

/// Whether a discussion with so much of all prose is an appendix, and not what the page is about.
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

fn weigh(outline: &Outline, block: &Block) -> Totals {
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

/// The tags of all sections, with `Div` for tables, rows and cells that only place things: tables that
/// say so, that hold other tables or headings, or that have but one row.
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
