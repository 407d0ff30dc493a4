//! Outline of a page: sections (block-level elements), blocks (runs of text), links and metadata, instead of a DOM.
//!
//! Every tag takes constant time. The stack of open elements has at most [`MAX_DEPTH`] entries; deeper elements belong to
//! the deepest entry.

mod implied;
mod trim;

use html5gum::State;

use super::attributes::{Attributes, Name};
use super::hints::{self, Hints};
use super::links::{RawLink, Rel};
use super::meta::Meta;
use super::tag::{TAG_COUNT, Tag};
use super::text::{Gap, append_collapsed};

/// Maximum nesting of elements.
pub(crate) const MAX_DEPTH: usize = 256;

/// Maximum number of sections, and of blocks; the rest belongs to the last one. Otherwise a page of tiny blocks would take
/// thirty times its size.
pub(crate) const MAX_PARTS: usize = 100_000;

/// Maximum number of links of one page.
pub(crate) const MAX_LINKS: usize = 10_000;

/// Index of the section of the body.
pub(crate) const ROOT: usize = 0;

/// Block-level element. Parents come before their children.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section {
    pub parent: u32,
    pub tag: Tag,
    pub hints: Hints,
    /// Hash of the class; equal for similar items of a list.
    pub class_hash: u32,
}

/// Run of text without a block boundary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub start: u32,
    pub end: u32,
    pub section: u32,
    /// Bytes in links.
    pub link_bytes: u32,
    pub links: u32,
    /// Bytes up to the end of the first inline element or line, such as a name before a rank; 0 if there is only one.
    pub lead: u32,
    /// Whether a horizontal rule precedes it.
    pub after_rule: bool,
}

impl Block {
    pub(crate) fn len(&self) -> usize {
        (self.end - self.start) as usize
    }
}

#[derive(Debug, Clone, Copy)]
struct OpenElement {
    tag: Tag,
    /// Hash of the name of an `Other` or `Custom` element.
    name_hash: u32,
    /// Outer section, if this element opened one.
    outer_section: Option<u32>,
    /// Whether its text is not visible.
    invisible: bool,
    /// Whether it is a link other than `<a>`.
    is_link: bool,
}

/// Outline under construction.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(crate) text: Vec<u8>,
    pub(crate) sections: Vec<Section>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) links: Vec<RawLink>,
    pub(crate) hrefs: Vec<u8>,
    pub(crate) dropped_links: usize,
    pub(crate) meta: Meta,

    stack: Vec<OpenElement>,
    open_count: [u16; TAG_COUNT],
    /// Open elements beyond [`MAX_DEPTH`].
    too_deep: usize,
    section: u32,
    block: Option<Block>,
    gap: Gap,
    link: Option<usize>,
    link_has_text: bool,
    in_title: bool,
    invisible: u32,
    after_rule: bool,
    /// Whether the last token was the end of an inline element.
    after_inline_end: bool,
}

impl Outline {
    pub(crate) fn new(input_bytes: usize) -> Self {
        let root = Section { parent: 0, tag: Tag::Body, hints: Hints::NONE, class_hash: 0 };
        Self {
            text: Vec::with_capacity(input_bytes / 2),
            sections: vec![root],
            blocks: Vec::new(),
            links: Vec::new(),
            hrefs: Vec::new(),
            dropped_links: 0,
            meta: Meta::default(),
            stack: Vec::with_capacity(64),
            open_count: [0; TAG_COUNT],
            too_deep: 0,
            section: 0,
            block: None,
            gap: Gap::None,
            link: None,
            link_has_text: false,
            in_title: false,
            invisible: 0,
            after_rule: false,
            after_inline_end: false,
        }
    }

    /// Whether text at this point is used.
    #[inline]
    pub(crate) fn wants_text(&self) -> bool {
        self.invisible == 0 || self.in_title
    }

    /// Whether an `<svg>` or `<math>` is open, where CDATA sections are text.
    pub(crate) fn in_foreign_content(&self) -> bool {
        self.is_open(Tag::Svg) || self.is_open(Tag::Math)
    }

    pub(crate) fn text(&mut self, run: &[u8]) {
        self.after_inline_end = false;
        if self.in_title {
            self.meta.push_title(run);
            return;
        }
        if self.invisible > 0 {
            return;
        }
        let start = self.block.map_or(self.text.len(), |block| block.start as usize);
        let before = self.text.len();
        let keep_lines = self.is_open(Tag::Pre) || self.is_open(Tag::Plaintext) || self.is_open(Tag::Xmp);
        append_collapsed(&mut self.text, start, &mut self.gap, run, keep_lines);
        let added = offset(self.text.len() - before);
        if added == 0 {
            return;
        }
        let block = self.block.get_or_insert(Block {
            start: offset(before),
            end: 0,
            section: self.section,
            link_bytes: 0,
            links: 0,
            lead: 0,
            after_rule: self.after_rule,
        });
        if self.link.is_some() {
            block.link_bytes += added;
            block.links += u32::from(!std::mem::replace(&mut self.link_has_text, true));
        }
    }

    /// Processes a start tag, and returns the next tokenizer state if it is not markup.
    pub(crate) fn start_tag(
        &mut self,
        tag: Tag,
        name: &[u8],
        attributes: &Attributes,
        self_closing: bool,
    ) -> Option<State> {
        let foreign = self.in_foreign_content();
        self.separate_inline_labels(tag);
        if self.is_open(Tag::Template) {
            // Template content is not part of the page.
            return self.push_inline(tag, name, attributes, foreign && self_closing);
        }
        match tag {
            Tag::Html | Tag::Body => {
                self.meta.language_attribute(attributes);
                return None;
            }
            Tag::Head => return None,
            Tag::Base if !foreign => self.meta.base(attributes),
            Tag::Link if !foreign => self.meta.link(attributes),
            Tag::Meta if !foreign => self.meta.meta(attributes),
            Tag::Title if !foreign => {
                self.in_title = self.meta.wants_title();
                return self.push_inline(tag, name, attributes, false);
            }
            Tag::Area => self.add_link(attributes, None),
            Tag::Br => self.line_break(),
            Tag::Hr => {
                self.end_block();
                self.after_rule = true;
            }
            Tag::A => self.start_link(attributes),
            Tag::Input if hints::is_email_field(attributes) => {
                self.sections[self.section as usize].hints.add(Hints::EMAIL_FIELD);
            }
            _ => {}
        }
        if tag.is_void() || (foreign && self_closing) {
            return None;
        }
        // The text of a button inside a heading belongs to the heading.
        let is_heading_text = tag.is_control() && self.in_heading();
        if (tag.is_block() || tag.is_control()) && !is_heading_text {
            self.close_implied(tag);
            self.push_section(tag, name, attributes);
            return tag.text_state();
        }
        if tag == Tag::Custom && self.begins_block() {
            self.push_section(tag, name, attributes);
            return None;
        }
        if tag == Tag::Option {
            self.end_block();
        }
        self.push_inline(tag, name, attributes, false)
    }

    pub(crate) fn end_tag(&mut self, tag: Tag, name: &[u8]) {
        self.after_inline_end = is_inline_label(tag);
        if self.after_inline_end {
            self.end_lead();
        }
        match tag {
            Tag::A => self.end_link(),
            Tag::Br => return self.line_break(),
            Tag::Title => self.in_title = false,
            Tag::P if !self.is_open(Tag::P) => return self.end_block(),
            Tag::Html | Tag::Body | Tag::Head => return,
            _ => {}
        }
        if self.too_deep > 0 && !(tag.is_invisible() && self.is_open(tag)) {
            self.too_deep -= 1;
            return;
        }
        if !self.is_open(tag) {
            return;
        }
        let name_hash = hash_name(tag, name);
        let crosses_cells = tag.is_table_part() || tag == Tag::Template;
        let crosses_blocks =
            crosses_cells || tag.is_block() || tag.is_control() || tag.is_invisible() || tag == Tag::Custom;
        for at in (0..self.stack.len()).rev() {
            let open = self.stack[at];
            if open.tag == tag && open.name_hash == name_hash {
                self.pop_to(at);
                return;
            }
            if open.tag == Tag::Template
                || (open.tag.is_cell() && !crosses_cells)
                || (open.outer_section.is_some() && !crosses_blocks)
            {
                return;
            }
        }
    }

    pub(crate) fn finish(&mut self) {
        self.end_link();
        self.end_block();
    }

    /// Whether a custom element at this point is treated as a block: it is not in the middle of text.
    fn begins_block(&self) -> bool {
        let section = self.sections[self.section as usize].tag;
        self.block.is_none() && !self.in_heading() && !matches!(section, Tag::P | Tag::Pre)
    }

    fn in_heading(&self) -> bool {
        self.sections[self.section as usize].tag.heading_level().is_some()
    }

    fn is_open(&self, tag: Tag) -> bool {
        self.open_count[tag as usize] > 0
    }

    fn push_inline(&mut self, tag: Tag, name: &[u8], attributes: &Attributes, closed: bool) -> Option<State> {
        if closed || tag.is_void() {
            return None;
        }
        let invisible = tag.is_invisible() || hints::is_hidden(attributes);
        let state = if self.in_foreign_content() { None } else { tag.text_state() };
        let is_link = self.start_custom_link(tag, attributes);
        self.push(OpenElement {
            tag,
            name_hash: hash_name(tag, name),
            outer_section: None,
            invisible,
            is_link,
        });
        state
    }

    fn push_section(&mut self, tag: Tag, name: &[u8], attributes: &Attributes) {
        self.end_block();
        if self.stack.len() >= MAX_DEPTH {
            self.too_deep += 1;
            return;
        }
        let hints = match tag {
            Tag::Custom => hints::of_custom(name, attributes),
            _ => hints::of_block(attributes),
        };
        let is_link = self.start_custom_link(tag, attributes);
        let name_hash = hash_name(tag, name);
        self.push(OpenElement {
            tag,
            name_hash,
            outer_section: Some(self.section),
            invisible: false,
            is_link,
        });
        if self.sections.len() >= MAX_PARTS {
            return;
        }
        let class_hash = attributes.get(Name::Class).map_or(name_hash, hash);
        self.sections.push(Section { parent: self.section, tag, hints, class_hash });
        self.section = offset(self.sections.len() - 1);
    }

    fn push(&mut self, open: OpenElement) {
        // Elements with invisible text are tracked at any depth.
        if self.stack.len() >= MAX_DEPTH && !open.tag.is_invisible() {
            self.too_deep += 1;
            return;
        }
        if self.stack.len() >= 2 * MAX_DEPTH {
            self.too_deep += 1;
            return;
        }
        self.invisible += u32::from(open.invisible);
        self.open_count[open.tag as usize] += 1;
        self.stack.push(open);
    }

    /// Closes the open elements from position `at` on.
    fn pop_to(&mut self, at: usize) {
        while self.stack.len() > at {
            let Some(open) = self.stack.pop() else { return };
            self.open_count[open.tag as usize] -= 1;
            self.invisible -= u32::from(open.invisible);
            if open.is_link {
                self.end_link();
            }
            if let Some(outer) = open.outer_section {
                self.end_block();
                self.section = outer;
            }
        }
    }

    /// Adjacent inline elements such as `<span>Size</span><span>XL</span>` are separate words far more often than one.
    fn separate_inline_labels(&mut self, tag: Tag) {
        let neighbours = std::mem::take(&mut self.after_inline_end) && is_inline_label(tag);
        if neighbours && self.gap == Gap::None && !self.is_open(Tag::Pre) && !self.is_open(Tag::Code) {
            self.gap = Gap::Space;
        }
    }

    fn line_break(&mut self) {
        if self.block.is_none() {
            return;
        }
        // Two line breaks in a row separate paragraphs.
        if self.gap == Gap::Line && !self.in_heading() && !self.is_open(Tag::Pre) {
            return self.end_block();
        }
        self.end_lead();
        self.gap = Gap::Line;
    }

    fn end_lead(&mut self) {
        if let Some(block) = &mut self.block
            && block.lead == 0
        {
            block.lead = offset(self.text.len()) - block.start;
        }
    }

    fn end_block(&mut self) {
        self.gap = Gap::None;
        let Some(mut block) = self.block.take() else { return };
        if block.link_bytes > 0 && self.sections[block.section as usize].tag.heading_level().is_some() {
            let kept = trim::without_heading_suffix(&self.text[block.start as usize..]);
            self.text.truncate(block.start as usize + kept);
            block.link_bytes = block.link_bytes.min(offset(kept));
        } else if block.link_bytes > 0 && self.text.last().is_some_and(u8::is_ascii_digit) {
            let kept = trim::without_post_number(&self.text[block.start as usize..]);
            self.text.truncate(block.start as usize + kept);
            block.link_bytes = block.link_bytes.min(offset(kept));
        }
        block.end = offset(self.text.len());
        let is_full = self.blocks.len() >= MAX_PARTS;
        match self.blocks.last_mut().filter(|_| is_full) {
            Some(last) => last.end = block.end,
            None => self.blocks.push(block),
        }
        self.text.push(b'\n');
        self.after_rule = false;
    }

    fn start_link(&mut self, attributes: &Attributes) {
        self.end_link();
        if attributes.get(Name::Href).is_none() {
            // A link without a target still counts for link density.
            self.link = Some(usize::MAX);
        }
        let text_start = self.text.len();
        self.add_link(attributes, Some(text_start));
        self.link_has_text = false;
    }

    /// Starts a link for a custom element with a target: it counts for link density, but is not among the page's links.
    fn start_custom_link(&mut self, tag: Tag, attributes: &Attributes) -> bool {
        if tag != Tag::Custom || self.link.is_some() || attributes.get(Name::Href).is_none() {
            return false;
        }
        self.link = Some(usize::MAX);
        self.link_has_text = false;
        true
    }

    fn add_link(&mut self, attributes: &Attributes, text_start: Option<usize>) {
        let Some(href) = attributes.get(Name::Href) else { return };
        if text_start.is_some() {
            self.link = Some(usize::MAX);
        }
        let href = href.trim_ascii();
        // Fragment-only links stay on the page.
        if href.starts_with(b"#") || href.len() > crate::url::MAX_URL_BYTES {
            return;
        }
        if self.links.len() >= MAX_LINKS {
            self.dropped_links += 1;
            return;
        }
        if text_start.is_some() {
            self.link = Some(self.links.len());
        }
        let start = offset(self.hrefs.len());
        self.hrefs.extend_from_slice(href);
        let text_start = offset(text_start.unwrap_or(self.text.len()));
        self.links.push(RawLink {
            href: (start, offset(self.hrefs.len())),
            rel: attributes.get(Name::Rel).map(Rel::from_attribute).unwrap_or_default(),
            text: (text_start, text_start),
        });
    }

    fn end_link(&mut self) {
        let Some(at) = self.link.take() else { return };
        let end = offset(self.text.len());
        if let Some(link) = self.links.get_mut(at) {
            link.text.1 = end;
        }
    }
}

/// Inline elements that are separate words when adjacent.
fn is_inline_label(tag: Tag) -> bool {
    matches!(tag, Tag::A | Tag::Other | Tag::Custom)
}

fn hash_name(tag: Tag, name: &[u8]) -> u32 {
    if !matches!(tag, Tag::Other | Tag::Custom) {
        return 0;
    }
    hash(name)
}

fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Converts an offset; the input limit is well below 4 GiB.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
