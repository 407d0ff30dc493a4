//! Relevant attributes of the current tag, with limits on their size.

/// Relevant attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Name {
    AriaHidden,
    Charset,
    Class,
    Content,
    Hidden,
    Href,
    HttpEquiv,
    Id,
    ItemProp,
    Lang,
    Named,
    Property,
    Rel,
    Role,
    Style,
    Type,
}

const NAME_COUNT: usize = Name::Type as usize + 1;

impl Name {
    fn from_bytes(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"aria-hidden" => Self::AriaHidden,
            b"charset" => Self::Charset,
            b"class" => Self::Class,
            b"content" => Self::Content,
            b"hidden" => Self::Hidden,
            b"href" => Self::Href,
            b"http-equiv" => Self::HttpEquiv,
            b"id" => Self::Id,
            b"itemprop" => Self::ItemProp,
            b"lang" | b"xml:lang" => Self::Lang,
            b"name" => Self::Named,
            b"property" => Self::Property,
            b"rel" => Self::Rel,
            b"role" => Self::Role,
            b"style" => Self::Style,
            b"type" => Self::Type,
            _ => return None,
        })
    }

    /// Maximum size of a value in bytes; longer ones are truncated. A truncated `href` is no link.
    fn max_bytes(self) -> usize {
        match self {
            Self::Href => crate::url::MAX_URL_BYTES + 1,
            Self::Content => 8192,
            _ => 512,
        }
    }
}

/// Maximum size of a relevant attribute name.
const MAX_NAME_BYTES: usize = 16;

/// Attributes of one tag; the buffers are reused.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    name: Vec<u8>,
    name_too_long: bool,
    current: Option<Name>,
    name_is_read: bool,
    present: u16,
    values: [Vec<u8>; NAME_COUNT],
}

impl Attributes {
    pub(crate) fn clear(&mut self) {
        self.present = 0;
        self.finish_attribute();
    }

    /// Value of `name`, possibly empty; `None` if absent.
    pub(crate) fn get(&self, name: Name) -> Option<&[u8]> {
        (self.present & bit(name) != 0).then(|| self.values[name as usize].as_slice())
    }

    /// Whether there is no relevant attribute, as for most tags.
    pub(crate) fn is_empty(&self) -> bool {
        self.present == 0
    }

    pub(crate) fn push_name(&mut self, part: &[u8]) {
        if self.name.len() + part.len() > MAX_NAME_BYTES {
            self.name_too_long = true;
            return;
        }
        self.name.extend_from_slice(part);
    }

    pub(crate) fn push_value(&mut self, part: &[u8]) {
        if !self.name_is_read {
            self.read_name();
        }
        let Some(name) = self.current else { return };
        let value = &mut self.values[name as usize];
        let room = name.max_bytes().saturating_sub(value.len());
        value.extend_from_slice(&part[..part.len().min(room)]);
    }

    /// Finishes the current attribute. The first of duplicates counts.
    pub(crate) fn finish_attribute(&mut self) {
        if !self.name_is_read && !self.name.is_empty() {
            self.read_name();
        }
        self.name.clear();
        self.name_too_long = false;
        self.name_is_read = false;
        self.current = None;
    }

    fn read_name(&mut self) {
        self.name_is_read = true;
        self.current = None;
        if self.name_too_long {
            return;
        }
        let Some(name) = Name::from_bytes(&self.name) else { return };
        if self.present & bit(name) != 0 {
            return;
        }
        self.present |= bit(name);
        self.values[name as usize].clear();
        self.current = Some(name);
    }
}

fn bit(name: Name) -> u16 {
    1 << name as u16
}
