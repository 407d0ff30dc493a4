//! Drops sections whose element, role, class or id marks them as boilerplate.

use std::collections::HashMap;

use super::super::hints::Hints;
use super::super::outline::{ROOT, Section};
use super::super::tag::Tag;
use super::{Extraction, is_appendix, is_article, is_main};

pub(super) fn drop_hidden(page: &mut Extraction<'_>) {
    page.drop_sections(|page, at| page.section(at).hints.has(Hints::HIDDEN));
    if page.totals[ROOT].words == 0 {
        // A page that scripts unhide: its hidden text is better than none.
        page.section_dropped.fill(false);
        page.update_totals();
    }
    page.hidden.clone_from(&page.section_dropped);
}

pub(super) fn drop_named(page: &mut Extraction<'_>) {
    let in_content = page.inside(|section| is_main(section) || is_article(section));
    let all = page.totals[ROOT].prose;
    let prose_by_kind = prose_by_kind(page);
    page.drop_sections(|page, at| {
        // Sections of one kind are judged by their total prose.
        let shared =
            kind_of(page.section(at)).and_then(|kind| prose_by_kind.get(&kind)).copied().unwrap_or(0);
        let prose = page.totals[at].prose.max(shared);
        is_named_boilerplate(page, at, in_content[at], prose * 2 > all, prose * 3 > all)
    });
    drop_comments(page);
}

/// Kind of sections that are judged together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// Paragraphs of one class: a class of most of the text is no sign of boilerplate.
    Paragraph(u32),
    /// Forms: some sites wrap every post in one.
    Form,
    /// Author boxes, of the page or of each post.
    Author,
}

fn kind_of(section: &Section) -> Option<Kind> {
    match section.tag {
        Tag::P | Tag::Blockquote => Some(Kind::Paragraph(section.class_hash)),
        Tag::Form => Some(Kind::Form),
        _ if section.hints.has(Hints::AUTHOR_BOX) => Some(Kind::Author),
        _ => None,
    }
}

/// Total prose of each kind.
fn prose_by_kind(page: &Extraction<'_>) -> HashMap<Kind, u32> {
    let mut prose = HashMap::new();
    for (section, totals) in page.outline.sections.iter().zip(&page.totals) {
        if let Some(kind) = kind_of(section) {
            *prose.entry(kind).or_insert(0) += totals.prose;
        }
    }
    prose
}

/// Drops the comments below an article. A thread that consists of comments is the content.
fn drop_comments(page: &mut Extraction<'_>) {
    let is_comments = |page: &Extraction<'_>, at: usize| {
        page.section(at).hints.has(Hints::COMMENTS) && !is_main(page.section(at)) && !page.section_dropped[at]
    };
    let mut covered = vec![false; page.outline.sections.len()];
    let mut prose = 0;
    for at in 1..covered.len() {
        covered[at] = covered[page.parent(at)];
        if !covered[at] && is_comments(page, at) {
            covered[at] = true;
            prose += page.totals[at].prose;
        }
    }
    let all = page.totals[ROOT].prose;
    if is_appendix(prose, all) {
        page.drop_sections(is_comments);
    }
}

/// `most` and `much`: the section has more than half, or a third, of the page's prose. Then its name is ignored, as for a
/// form around the whole page.
fn is_named_boilerplate(page: &Extraction<'_>, at: usize, in_content: bool, most: bool, much: bool) -> bool {
    let section = page.section(at);
    let hints = section.hints;
    if section.tag.is_control() {
        return true;
    }
    if is_main(section) || is_article(section) {
        return false;
    }
    match section.tag {
        Tag::Nav | Tag::Search | Tag::Dialog | Tag::Menu | Tag::Footer => return !most,
        Tag::Aside => return !hints.has(Hints::NOTE) && !much,
        Tag::Header => return !in_content && !much && opens_page(page, at),
        Tag::Form | Tag::Fieldset => return !much,
        _ => {}
    }
    if hints.has(Hints::CHROME_ROLE) || hints.has(Hints::CHROME) {
        return !most;
    }
    hints.has(Hints::HEADER) && !hints.has(Hints::CONTENT) && !in_content && !much && is_site_header(page, at)
}

/// Whether a section of class *header* is the site's header: at the top, with links.
fn is_site_header(page: &Extraction<'_>, at: usize) -> bool {
    let (start, end) = page.ranges[at];
    let has_links = (start..end).any(|block| page.blocks[block].links > 0);
    opens_page(page, at) && has_links && page.section(at).tag.heading_level().is_none()
}

/// Whether the section starts in the first quarter of the page; a header further down belongs to a part of the text.
fn opens_page(page: &Extraction<'_>, at: usize) -> bool {
    page.ranges[at].0 * 4 <= page.blocks.len()
}
