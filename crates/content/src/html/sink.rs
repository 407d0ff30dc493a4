//! Emitter of the tokenizer that feeds the [`Outline`].
//!
//! The callback emitter of the tokenizer checks every byte for parse errors and copies every attribute, which would cost more
//! than the rest of the parser.

use html5gum::{Emitter, Error, State};

use super::attributes::Attributes;
use super::outline::Outline;
use super::tag::Tag;

/// Maximum size of a tag name; longer ones are truncated.
const MAX_TAG_NAME_BYTES: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagKind {
    Start,
    End,
}

/// Receiver of tokens.
#[derive(Debug)]
pub(crate) struct Sink<'a> {
    outline: &'a mut Outline,
    attributes: Attributes,
    text: Vec<u8>,
    tag_name: Vec<u8>,
    tag_kind: TagKind,
    self_closing: bool,
    last_start_tag: Vec<u8>,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(outline: &'a mut Outline) -> Self {
        Self {
            outline,
            attributes: Attributes::default(),
            text: Vec::new(),
            tag_name: Vec::new(),
            tag_kind: TagKind::Start,
            self_closing: false,
            last_start_tag: Vec::new(),
        }
    }

    fn flush_text(&mut self) {
        if self.text.is_empty() {
            return;
        }
        self.outline.text(&self.text);
        self.text.clear();
    }
}

impl Emitter for Sink<'_> {
    type Token = std::convert::Infallible;

    fn set_last_start_tag(&mut self, last_start_tag: Option<&[u8]>) {
        self.last_start_tag.clear();
        self.last_start_tag.extend_from_slice(last_start_tag.unwrap_or_default());
    }

    fn emit_eof(&mut self) {
        self.flush_text();
        self.outline.finish();
    }

    fn emit_error(&mut self, _: Error) {}

    #[inline]
    fn should_emit_errors(&mut self) -> bool {
        false
    }

    #[inline]
    fn pop_token(&mut self) -> Option<Self::Token> {
        None
    }

    #[inline]
    fn emit_string(&mut self, text: &[u8]) {
        if self.outline.wants_text() {
            self.text.extend_from_slice(text);
        }
    }

    fn init_start_tag(&mut self) {
        self.tag_kind = TagKind::Start;
        self.tag_name.clear();
        self.attributes.clear();
        self.self_closing = false;
    }

    fn init_end_tag(&mut self) {
        self.tag_kind = TagKind::End;
        self.tag_name.clear();
        self.attributes.clear();
        self.self_closing = false;
    }

    fn emit_current_tag(&mut self) -> Option<State> {
        self.flush_text();
        self.attributes.finish_attribute();
        let tag = Tag::from_name(&self.tag_name);
        match self.tag_kind {
            TagKind::Start => {
                std::mem::swap(&mut self.last_start_tag, &mut self.tag_name);
                let name = &self.last_start_tag;
                self.outline.start_tag(tag, name, &self.attributes, self.self_closing)
            }
            TagKind::End => {
                self.outline.end_tag(tag, &self.tag_name);
                None
            }
        }
    }

    fn set_self_closing(&mut self) {
        self.self_closing = true;
    }

    #[inline]
    fn push_tag_name(&mut self, part: &[u8]) {
        let room = MAX_TAG_NAME_BYTES.saturating_sub(self.tag_name.len());
        self.tag_name.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn init_attribute(&mut self) {
        self.attributes.finish_attribute();
    }

    #[inline]
    fn push_attribute_name(&mut self, part: &[u8]) {
        self.attributes.push_name(part);
    }

    #[inline]
    fn push_attribute_value(&mut self, part: &[u8]) {
        self.attributes.push_value(part);
    }

    fn current_is_appropriate_end_tag_token(&mut self) -> bool {
        self.tag_kind == TagKind::End
            && !self.last_start_tag.is_empty()
            && self.last_start_tag == self.tag_name
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&mut self) -> bool {
        self.outline.in_foreign_content()
    }

    // Comments and doctypes are ignored.
    fn init_comment(&mut self) {}
    fn emit_current_comment(&mut self) {}
    fn push_comment(&mut self, _: &[u8]) {}
    fn init_doctype(&mut self) {}
    fn emit_current_doctype(&mut self) {}
    fn set_force_quirks(&mut self) {}
    fn push_doctype_name(&mut self, _: &[u8]) {}
    fn set_doctype_public_identifier(&mut self, _: &[u8]) {}
    fn set_doctype_system_identifier(&mut self, _: &[u8]) {}
    fn push_doctype_public_identifier(&mut self, _: &[u8]) {}
    fn push_doctype_system_identifier(&mut self, _: &[u8]) {}
}
