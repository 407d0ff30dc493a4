//! Metadata of a page: title, description, language, canonical URL, robots directives.

use super::attributes::{Attributes, Name};
use super::text;

/// Maximum size of a title in bytes of source.
const MAX_TITLE_BYTES: usize = 4096;

/// Robots directives of a page or a response header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Robots {
    /// `noindex`.
    pub noindex: bool,
    /// `nofollow`.
    pub nofollow: bool,
}

impl Robots {
    /// Parses directives such as `noindex, nofollow`; unknown ones are ignored.
    #[must_use]
    pub fn from_directives(directives: &str) -> Self {
        let mut robots = Self::default();
        for directive in directives.split([',', ' ', ';', '\t', '\n']) {
            let directive = directive.trim();
            let none = directive.eq_ignore_ascii_case("none");
            robots.noindex |= none || directive.eq_ignore_ascii_case("noindex");
            robots.nofollow |= none || directive.eq_ignore_ascii_case("nofollow");
        }
        robots
    }

    /// Parses an `X-Robots-Tag` header. Directives of another agent, such as `otherbot: noindex`, are ignored.
    #[must_use]
    pub fn from_header(value: &str, agent: &str) -> Self {
        let mut robots = Self::default();
        let mut applies = true;
        for part in value.split(',') {
            let mut directives = part;
            if let Some((name, rest)) = part.split_once(':') {
                // `unavailable_after` and the `max-` directives have a colon too.
                let name = name.trim();
                if !name.eq_ignore_ascii_case("unavailable_after") && !name.starts_with("max-") {
                    applies = name.eq_ignore_ascii_case(agent);
                    directives = rest;
                }
            }
            if applies {
                robots = robots.or(Self::from_directives(directives));
            }
        }
        robots
    }

    /// Union of both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { noindex: self.noindex || other.noindex, nofollow: self.nofollow || other.nofollow }
    }
}

/// Collected metadata.
#[derive(Debug, Default)]
pub(crate) struct Meta {
    title: Vec<u8>,
    title_is_read: bool,
    description: Option<String>,
    og_description: Option<String>,
    html_language: Option<String>,
    header_language: Option<String>,
    og_locale: Option<String>,
    pub(crate) base: Option<String>,
    pub(crate) canonical: Option<String>,
    pub(crate) agent: Vec<u8>,
    pub(crate) robots: Robots,
}

impl Meta {
    /// Whether a `<title>` that starts now counts: the first that is not empty does.
    pub(crate) fn wants_title(&mut self) -> bool {
        self.title_is_read = !self.title.trim_ascii().is_empty();
        !self.title_is_read
    }

    pub(crate) fn push_title(&mut self, run: &[u8]) {
        let room = MAX_TITLE_BYTES.saturating_sub(self.title.len());
        self.title.extend_from_slice(&run[..run.len().min(room)]);
    }

    pub(crate) fn title(&self) -> String {
        text::collapsed(&self.title).trim_end_matches('\u{fffd}').trim_end().to_owned()
    }

    pub(crate) fn description(&mut self) -> Option<String> {
        self.description.take().or_else(|| self.og_description.take())
    }

    pub(crate) fn language(&mut self) -> Option<String> {
        self.html_language.take().or_else(|| self.header_language.take()).or_else(|| self.og_locale.take())
    }

    pub(crate) fn language_attribute(&mut self, attributes: &Attributes) {
        if self.html_language.is_none() {
            self.html_language = attributes.get(Name::Lang).and_then(language_tag);
        }
    }

    /// Only the first `<base href>` counts.
    pub(crate) fn base(&mut self, attributes: &Attributes) {
        if self.base.is_none() {
            self.base = attributes.get(Name::Href).map(utf8_text);
        }
    }

    pub(crate) fn link(&mut self, attributes: &Attributes) {
        let (Some(rel), Some(href)) = (attributes.get(Name::Rel), attributes.get(Name::Href)) else { return };
        let is_canonical =
            rel.split(u8::is_ascii_whitespace).any(|word| word.eq_ignore_ascii_case(b"canonical"));
        if is_canonical && self.canonical.is_none() && !href.trim_ascii().is_empty() {
            self.canonical = Some(utf8_text(href));
        }
    }

    pub(crate) fn meta(&mut self, attributes: &Attributes) {
        let Some(content) = attributes.get(Name::Content) else { return };
        if let Some(name) = attributes.get(Name::Named).or_else(|| attributes.get(Name::Property)) {
            self.named(&name.trim_ascii().to_ascii_lowercase(), content);
        }
        if let Some(property) = attributes.get(Name::Property) {
            match property.trim_ascii().to_ascii_lowercase().as_slice() {
                b"og:description" => set_once(&mut self.og_description, text::collapsed(content)),
                b"og:locale" if self.og_locale.is_none() => self.og_locale = language_tag(content),
                _ => {}
            }
        }
        if let Some(header) = attributes.get(Name::HttpEquiv)
            && header.trim_ascii().eq_ignore_ascii_case(b"content-language")
            && self.header_language.is_none()
        {
            self.header_language =
                language_tag(content.split(|&byte| byte == b',').next().unwrap_or_default());
        }
    }

    fn named(&mut self, name: &[u8], content: &[u8]) {
        if name == b"description" {
            set_once(&mut self.description, text::collapsed(content));
        } else if name == b"og:description" {
            set_once(&mut self.og_description, text::collapsed(content));
        } else if name == b"robots" || (!self.agent.is_empty() && name == self.agent) {
            self.robots = self.robots.or(Robots::from_directives(&utf8_text(content)));
        }
    }
}

fn set_once(slot: &mut Option<String>, value: String) {
    if slot.is_none() && !value.is_empty() {
        *slot = Some(value);
    }
}

/// Language tag such as `pt-BR`, if valid.
fn language_tag(value: &[u8]) -> Option<String> {
    let value = value.trim_ascii();
    let is_tag = (2..=35).contains(&value.len())
        && value[0].is_ascii_alphabetic()
        && value.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    is_tag.then(|| utf8_text(value).replace('_', "-"))
}

fn utf8_text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.trim_ascii()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_may_name_an_agent() {
        let robots = |value| Robots::from_header(value, "crawlway");
        assert_eq!(robots("noindex"), Robots { noindex: true, nofollow: false });
        assert_eq!(robots("otherbot: noindex, nofollow"), Robots::default());
        assert_eq!(robots("otherbot: noindex, Crawlway: none"), Robots { noindex: true, nofollow: true });
        assert!(robots("unavailable_after: 25 Jun 2030, noindex").noindex);
    }
}
