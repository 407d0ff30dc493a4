//! Drops what its element, role, class or id calls boilerplate.

use std::collections::HashMap;

use super::super::hints::Hints;
use super::super::outline::ROOT;
use super::super::tag::Tag;
use super::{Judged, is_appendix, is_article, is_main};

pub(super) fn drop_hidden(page: &mut Judged<'_>) {
    page.drop_sections(|page, at| page.section(at).hints.has(Hints::HIDDEN));
    if page.totals[ROOT].words == 0 {
        // A page that scripts are meant to unveil: better its hidden text than none.
        page.section_dropped.fill(false);
        page.add_up();
    }
    page.hidden.clone_from(&page.section_dropped);
}

pub(super) fn drop_named(page: &mut Judged<'_>) {
    let in_content = page.inside(|section| is_main(section) || is_article(section));
    let all = page.totals[ROOT].prose;
    let by_class = prose_by_class(page);
    page.drop_sections(|page, at| {
        let section = page.section(at);
        // A name that many parts share is weighed by what all of them hold.
        let shared = by_class.get(&(section.tag, section.class_hash)).copied().unwrap_or(0);
        let is_shared =
            section.hints.has(Hints::MEMBER) || matches!(section.tag, Tag::P | Tag::Blockquote | Tag::Form);
        let prose = page.totals[at].prose.max(if is_shared { shared } else { 0 });
        is_named_boilerplate(page, at, in_content[at], prose * 2 > all, prose * 3 > all)
    });
    drop_comments(page);
}

/// How much prose the elements of each tag and class hold together.
fn prose_by_class(page: &Judged<'_>) -> HashMap<(Tag, u32), u32> {
    let mut prose = HashMap::new();
    for (section, totals) in page.outline.sections.iter().zip(&page.totals) {
        *prose.entry((section.tag, section.class_hash)).or_insert(0) += totals.prose;
    }
    prose
}

/// Comments are an appendix to an article, but a thread that is nothing but comments is the content.
fn drop_comments(page: &mut Judged<'_>) {
    let is_comments = |page: &Judged<'_>, at: usize| {
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

/// `most` and `much` tell whether the section holds half or a third of the page's prose: then its
/// name must mean something else, as with a form around the whole page.
fn is_named_boilerplate(page: &Judged<'_>, at: usize, in_content: bool, most: bool, much: bool) -> bool {
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

/// A class that says *header* says it of the site when it is at the top and has links.
fn is_site_header(page: &Judged<'_>, at: usize) -> bool {
    let (start, end) = page.ranges[at];
    let has_links = (start..end).any(|block| page.blocks[block].links > 0);
    opens_page(page, at) && has_links && page.section(at).tag.heading_level().is_none()
}

/// Whether the section stands in the first quarter of the page: a header further down is that of a
/// part of the text.
fn opens_page(page: &Judged<'_>, at: usize) -> bool {
    page.ranges[at].0 * 4 <= page.blocks.len()
}
