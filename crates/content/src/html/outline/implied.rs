//! Implied end tags.

use super::super::tag::Tag;
use super::Outline;

impl Outline {
    /// Closes open elements with an optional end tag that cannot contain `tag`.
    pub(super) fn close_implied(&mut self, tag: Tag) {
        match tag {
            Tag::Li => self.close_up_to(&[Tag::Li], |open| open.is_list() || open.is_cell()),
            Tag::Dt | Tag::Dd => {
                self.close_up_to(&[Tag::Dt, Tag::Dd], |open| open.is_list() || open.is_cell());
            }
            Tag::Td | Tag::Th => {
                self.close_up_to(&[Tag::Td, Tag::Th], |open| matches!(open, Tag::Tr | Tag::Table));
            }
            Tag::Tr => self.close_up_to(&[Tag::Tr], |open| open == Tag::Table),
            Tag::Tbody | Tag::Thead | Tag::Tfoot => {
                self.close_up_to(&[Tag::Tbody, Tag::Thead, Tag::Tfoot], |open| open == Tag::Table);
            }
            _ => {}
        }
        if self.is_open(Tag::P) && !tag.is_control() {
            self.close_up_to(&[Tag::P], |open| open != Tag::P && (open.is_block() || open.is_control()));
        }
        if tag.heading_level().is_some()
            && let Some(at) = self.stack.iter().rposition(|open| open.outer_section.is_some())
            && self.stack[at].tag.heading_level().is_some()
        {
            self.pop_to(at);
        }
    }

    /// Closes the innermost of `tags`, unless an element that `stops` is inside it.
    fn close_up_to(&mut self, tags: &[Tag], stops: impl Fn(Tag) -> bool) {
        if !tags.iter().any(|&tag| self.is_open(tag)) {
            return;
        }
        for at in (0..self.stack.len()).rev() {
            let open = self.stack[at].tag;
            if tags.contains(&open) {
                return self.pop_to(at);
            }
            if stops(open) {
                return;
            }
        }
    }
}
