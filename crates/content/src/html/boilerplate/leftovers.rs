//! Drops what is left over between and behind the main text.

use super::super::tag::Tag;
use super::Judged;

pub(super) fn drop_leftovers(page: &mut Judged<'_>, heading: Option<usize>) {
    drop_bare_numbers(page);
    drop_before_heading(page, heading);
    drop_behind_rule(page);
    drop_orphaned_headings(page);
    page.add_up();
}

/// Counts without words beside the text: votes, marks, places in a series. Prices, dates and what
/// is in tables and lists stay.
fn drop_bare_numbers(page: &mut Judged<'_>) {
    let kept = (0..page.blocks.len()).filter(|&at| page.is_kept(at));
    let (kept, bare): (Vec<_>, Vec<_>) = kept.partition(|&at| !is_bare_number(page, at));
    // Where there are many they are a table made without one.
    if bare.len() * 8 > kept.len() {
        return;
    }
    for at in bare {
        page.block_dropped[at] = true;
    }
}

fn is_bare_number(page: &Judged<'_>, at: usize) -> bool {
    let is_number =
        |byte: &u8| byte.is_ascii_digit() || matches!(byte, b' ' | b'.' | b',' | b'(' | b')' | b'/' | b'+');
    matches!(page.block_tag(at), Tag::Div | Tag::P | Tag::Section | Tag::Article)
        && page.blocks[at].words <= 3
        && page.block_text(at).iter().all(is_number)
}

/// What stands before the page's heading is not its text, except right beside it: a date, a rubric.
fn drop_before_heading(page: &mut Judged<'_>, heading: Option<usize>) {
    let Some(heading) = heading else { return };
    let beside = page.parent(page.block_section(heading));
    for at in 0..heading {
        let section = page.block_section(at);
        if section != beside && page.parent(section) != beside && page.blocks[at].prose < 20 {
            page.block_dropped[at] = true;
        }
    }
}

/// What a last rule sets off at the end, with links and without headings, is a footer.
fn drop_behind_rule(page: &mut Judged<'_>) {
    let count = page.blocks.len();
    let Some(rule) = page.outline.blocks.iter().rposition(|block| block.after_rule) else { return };
    let has_links = (rule..count).any(|at| page.blocks[at].is_linked(5));
    let has_heading = (rule..count).any(|at| page.block_tag(at).heading_level().is_some());
    let is_small = page.between(rule, count).prose * 4 < page.between(0, rule).prose;
    if has_links && !has_heading && is_small {
        page.block_dropped[rule..].fill(true);
    }
}

/// A heading whose own text was dropped announces nothing.
fn drop_orphaned_headings(page: &mut Judged<'_>) {
    let mut next_kept: Option<usize> = None;
    for at in (0..page.blocks.len()).rev() {
        if !page.is_kept(at) {
            continue;
        }
        if let Some(level) = page.block_tag(at).heading_level()
            && level > 1
            && at + 1 < page.blocks.len()
            && !page.is_kept(at + 1)
        {
            let announces = next_kept.is_some_and(|next| {
                page.block_tag(next).heading_level().is_none_or(|next_level| next_level > level)
            });
            if !announces {
                page.block_dropped[at] = true;
                continue;
            }
        }
        next_kept = Some(at);
    }
}
