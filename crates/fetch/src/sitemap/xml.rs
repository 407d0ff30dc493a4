//! XML sitemaps: `urlset`, `sitemapindex`, RSS and Atom.
//!
//! Elements are matched by local name, since authors omit or misspell namespaces. Elements of extensions, such as
//! `image:loc`, have another prefix than their entry.

use super::{ChangeFrequency, Child, Entry, Links, Problem, SitemapError, entries::Entries};
use quick_xml::{
    Reader, XmlVersion,
    escape::resolve_predefined_entity,
    events::{BytesRef, BytesStart, Event},
    name::QName,
};

/// Maximum nesting of elements. Sitemaps need four levels, HTML in feeds some more.
const MAX_NESTING: usize = 256;

/// Maximum length of quotes from a document in messages.
const MAX_QUOTED: usize = 100;

pub(super) fn links(document: &str, problems: &mut Vec<Problem>) -> Result<Links, SitemapError> {
    let mut reader = Reader::from_str(document);
    let config = reader.config_mut();
    config.expand_empty_elements = true;
    // A bare `&` in a URL is the most common mistake, and unambiguous.
    config.allow_dangling_amp = true;

    let mut parser = Parser::default();
    let broken = loop {
        match reader.read_event() {
            Ok(Event::Start(tag)) => {
                parser.start(&tag)?;
                if parser.depth > MAX_NESTING {
                    let reason = format!("elements are nested more than {MAX_NESTING} deep");
                    break Some(Problem::BrokenXml { at: reader.buffer_position(), reason });
                }
            }
            Ok(Event::End(_)) => parser.end(),
            Ok(Event::Text(text)) => parser.text(&text),
            Ok(Event::CData(text)) => parser.text(&text),
            Ok(Event::GeneralRef(reference)) => parser.reference(&reference),
            Ok(Event::DocType(doctype)) if declares_entities(&doctype) => {
                return Err(SitemapError::DeclaresEntities);
            }
            Ok(Event::Eof) if parser.depth > 0 => {
                let reason = "the document ends within an element".to_owned();
                break Some(Problem::BrokenXml { at: reader.buffer_position(), reason });
            }
            Ok(Event::Eof) => break None,
            Ok(_) => {}
            Err(error) => {
                let reason = quoted(&error.to_string());
                break Some(Problem::BrokenXml { at: reader.error_position(), reason });
            }
        }
    };
    problems.extend(broken);
    parser.finish(problems)
}

/// Document type, by the root element.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    UrlSet,
    Index,
    Rss,
    Atom,
}

impl Kind {
    fn of_root(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "urlset" => Some(Self::UrlSet),
            "sitemapindex" => Some(Self::Index),
            // `rdf` is the root of RSS 1.0.
            "rss" | "rdf" => Some(Self::Rss),
            "feed" => Some(Self::Atom),
            _ => None,
        }
    }

    fn entry(self) -> &'static str {
        match self {
            Self::UrlSet => "url",
            Self::Index => "sitemap",
            Self::Rss => "item",
            Self::Atom => "entry",
        }
    }

    fn field(self, name: &str) -> Option<Field> {
        let fields: &[(&str, Field)] = match self {
            Self::UrlSet => &[
                ("loc", Field::Loc),
                ("lastmod", Field::LastMod),
                ("changefreq", Field::ChangeFreq),
                ("priority", Field::Priority),
            ],
            Self::Index => &[("loc", Field::Loc), ("lastmod", Field::LastMod)],
            Self::Rss => &[("link", Field::Loc), ("pubDate", Field::LastMod)],
            Self::Atom => &[("updated", Field::LastMod)],
        };
        fields.iter().find(|(text, _)| name.eq_ignore_ascii_case(text)).map(|&(_, field)| field)
    }
}

#[derive(Clone, Copy)]
enum Field {
    Loc,
    LastMod,
    ChangeFreq,
    Priority,
}

/// Position in the document and the entries so far.
#[derive(Default)]
struct Parser {
    depth: usize,
    kind: Option<Kind>,
    entry: Option<OpenEntry>,
    entries: Entries,
}

/// Entry whose end tag has not been read.
struct OpenEntry {
    depth: usize,
    prefix: String,
    field: Option<Field>,
    text: String,
    entry: Entry,
}

impl Parser {
    fn start(&mut self, tag: &BytesStart<'_>) -> Result<(), SitemapError> {
        self.depth += 1;
        let qualified = tag.name();
        let name = qualified.local_name().into_inner();
        let Some(kind) = self.kind else {
            let found = || format!("a `{}` document", quoted(name));
            self.kind =
                Some(Kind::of_root(name).ok_or_else(|| SitemapError::NotASitemap { found: found() })?);
            return Ok(());
        };
        match &mut self.entry {
            None if name.eq_ignore_ascii_case(kind.entry()) => {
                self.entry = Some(OpenEntry {
                    depth: self.depth,
                    prefix: prefix(qualified).to_owned(),
                    field: None,
                    text: String::new(),
                    entry: Entry::default(),
                });
            }
            Some(open) if self.depth == open.depth + 1 && open.prefix == prefix(qualified) => {
                open.field = kind.field(name);
                open.text.clear();
                let is_link = kind == Kind::Atom && name.eq_ignore_ascii_case("link");
                if is_link && open.entry.loc.is_empty() {
                    open.entry.loc = alternate(tag).unwrap_or_default();
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self) {
        if let Some(open) = &mut self.entry {
            if self.depth == open.depth + 1 {
                open.end_field();
            }
            if self.depth == open.depth
                && let Some(open) = self.entry.take()
            {
                self.entries.add(open.entry);
            }
        }
        self.depth = self.depth.saturating_sub(1);
    }

    fn text(&mut self, text: &str) {
        if let Some(open) = &mut self.entry
            && open.field.is_some()
            && self.depth == open.depth + 1
        {
            open.text.push_str(text);
        }
    }

    fn reference(&mut self, reference: &BytesRef<'_>) {
        if let Ok(Some(character)) = reference.resolve_char_ref() {
            return self.text(character.encode_utf8(&mut [0; 4]));
        }
        match resolve_predefined_entity(reference) {
            Some(text) => self.text(text),
            // `?a=1&b=2;` is a URL with a bare `&`, not one with the entity `b=2`.
            None => self.text(&format!("&{};", &**reference)),
        }
    }

    fn finish(mut self, problems: &mut Vec<Problem>) -> Result<Links, SitemapError> {
        // An entry that is broken after its URL still counts.
        if let Some(open) = self.entry.take_if(|open| !open.entry.loc.is_empty()) {
            self.entries.add(open.entry);
        }
        let Some(kind) = self.kind else {
            return Err(SitemapError::NotASitemap { found: "XML without an element".to_owned() });
        };
        let entries = self.entries.finish(problems);
        Ok(match kind {
            Kind::Index => {
                let child = |entry: Entry| Child { loc: entry.loc, lastmod: entry.lastmod };
                Links::Index(entries.into_iter().map(child).collect())
            }
            Kind::UrlSet | Kind::Rss | Kind::Atom => Links::Urls(entries),
        })
    }
}

impl OpenEntry {
    /// Stores a field; the first of duplicates counts.
    fn end_field(&mut self) {
        let Some(field) = self.field.take() else {
            return;
        };
        let text = self.text.trim();
        if text.is_empty() {
            return;
        }
        let entry = &mut self.entry;
        match field {
            Field::Loc if entry.loc.is_empty() => entry.loc = text.to_owned(),
            Field::LastMod if entry.lastmod.is_none() && text.len() <= MAX_QUOTED => {
                entry.lastmod = Some(text.to_owned());
            }
            Field::ChangeFreq if entry.changefreq.is_none() => {
                entry.changefreq = ChangeFrequency::from_word(text);
            }
            Field::Priority if entry.priority.is_none() => {
                entry.priority = text.parse().ok().filter(|priority| (0.0..=1.0).contains(priority));
            }
            _ => {}
        }
    }
}

fn prefix(name: QName<'_>) -> &str {
    name.prefix().map_or("", |prefix| prefix.into_inner())
}

/// `href` of an Atom link with `rel="alternate"` or none.
fn alternate(link: &BytesStart<'_>) -> Option<String> {
    let mut href = None;
    for attribute in link.attributes().with_checks(false).flatten() {
        let value = || match attribute.normalized_value(XmlVersion::Implicit1_0) {
            Ok(value) => value.trim().to_owned(),
            // A bare `&`: the value verbatim.
            Err(_) => attribute.value.trim().to_owned(),
        };
        match attribute.key.as_ref() {
            "rel" if value() != "alternate" => return None,
            "href" => href = Some(value()),
            _ => {}
        }
    }
    href
}

fn declares_entities(doctype: &str) -> bool {
    doctype.to_ascii_lowercase().contains("<!entity")
}

fn quoted(text: &str) -> String {
    text.chars().take(MAX_QUOTED).collect()
}
