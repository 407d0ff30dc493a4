//! Sitemaps in XML: `urlset`, `sitemapindex`, RSS and Atom.
//!
//! Elements are known by their names without prefixes, since authors leave namespaces out or misspell them.
//! What an extension brings, such as `image:loc`, is told apart by having another prefix than its entry.

use super::{ChangeFrequency, Child, Entry, Links, Problem, SitemapError, entries::Entries};
use quick_xml::{
    Reader, XmlVersion,
    escape::resolve_predefined_entity,
    events::{BytesRef, BytesStart, Event},
    name::QName,
};

/// How deep elements may be nested. Sitemaps need four levels, pages in feeds some more.
const MAX_NESTING: usize = 256;

/// How much of a name or a message of a document is repeated in ours.
const MAX_QUOTED: usize = 100;

pub(super) fn links(document: &str, problems: &mut Vec<Problem>) -> Result<Links, SitemapError> {
    let mut reader = Reader::from_str(document);
    let config = reader.config_mut();
    config.expand_empty_elements = true;
    // A bare `&` in a URL is the most common mistake of all, and what it means is clear.
    config.allow_dangling_amp = true;

    let mut walk = Walk::default();
    let broken = loop {
        match reader.read_event() {
            Ok(Event::Start(tag)) => {
                walk.start(&tag)?;
                if walk.depth > MAX_NESTING {
                    let reason = format!("elements are nested more than {MAX_NESTING} deep");
                    break Some(Problem::BrokenXml { at: reader.buffer_position(), reason });
                }
            }
            Ok(Event::End(_)) => walk.end(),
            Ok(Event::Text(text)) => walk.text(&text),
            Ok(Event::CData(text)) => walk.text(&text),
            Ok(Event::GeneralRef(reference)) => walk.reference(&reference),
            Ok(Event::DocType(doctype)) if declares_entities(&doctype) => {
                return Err(SitemapError::DeclaresEntities);
            }
            Ok(Event::Eof) if walk.depth > 0 => {
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
    walk.finish(problems)
}

/// What the root element makes of a document.
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
            // The second is the root of RSS 1.0.
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
        fields.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|&(_, field)| field)
    }
}

#[derive(Clone, Copy)]
enum Field {
    Loc,
    LastMod,
    ChangeFreq,
    Priority,
}

/// Where in the document we are, and what has been read so far.
#[derive(Default)]
struct Walk {
    depth: usize,
    kind: Option<Kind>,
    entry: Option<OpenEntry>,
    entries: Entries,
}

/// An entry whose end has not been seen.
struct OpenEntry {
    depth: usize,
    prefix: String,
    field: Option<Field>,
    text: String,
    entry: Entry,
}

impl Walk {
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
            // `?a=1&b=2;` is a URL with a bare `&` rather than one with the entity `b=2`.
            None => self.text(&format!("&{};", &**reference)),
        }
    }

    fn finish(mut self, problems: &mut Vec<Problem>) -> Result<Links, SitemapError> {
        // What is broken within an entry but behind its URL has not broken the URL.
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
    /// Of a field that is given twice the first counts.
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

/// The address of an Atom link, if it leads to the page that the entry is about.
fn alternate(link: &BytesStart<'_>) -> Option<String> {
    let mut address = None;
    for attribute in link.attributes().with_checks(false).flatten() {
        let value = || match attribute.normalized_value(XmlVersion::Implicit1_0) {
            Ok(value) => value.trim().to_owned(),
            // A bare `&`: the value as it stands.
            Err(_) => attribute.value.trim().to_owned(),
        };
        match attribute.key.as_ref() {
            "rel" if value() != "alternate" => return None,
            "href" => address = Some(value()),
            _ => {}
        }
    }
    address
}

fn declares_entities(doctype: &str) -> bool {
    doctype.to_ascii_lowercase().contains("<!entity")
}

fn quoted(text: &str) -> String {
    text.chars().take(MAX_QUOTED).collect()
}
