//! HTML of a page: one layout with a head, an article and links.

use std::fmt::Write;

/// A link of a page.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) href: String,
    pub(crate) text: String,
    pub(crate) nofollow: bool,
}

impl Link {
    pub(crate) fn to(href: impl Into<String>, text: impl Into<String>) -> Self {
        Self { href: href.into(), text: text.into(), nofollow: false }
    }

    pub(crate) fn nofollow(mut self) -> Self {
        self.nofollow = true;
        self
    }
}

/// Contents of a page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Html {
    pub(crate) title: String,
    /// Heading of the article, if it differs from the title.
    pub(crate) heading: Option<String>,
    pub(crate) site: String,
    pub(crate) description: String,
    pub(crate) language: &'static str,
    /// Additional lines of the head, verbatim.
    pub(crate) head: String,
    pub(crate) paragraphs: Vec<String>,
    pub(crate) links: Vec<Link>,
}

impl Html {
    pub(crate) fn new(title: impl Into<String>, paragraphs: Vec<String>, links: Vec<Link>) -> Self {
        Self { title: title.into(), language: "en", paragraphs, links, ..Self::default() }
    }

    /// Adds a `<meta name="robots">`.
    pub(crate) fn robots(mut self, content: &str) -> Self {
        let _ = writeln!(self.head, "<meta name=\"robots\" content=\"{content}\">");
        self
    }

    pub(crate) fn canonical(mut self, to: &str) -> Self {
        let _ = writeln!(self.head, "<link rel=\"canonical\" href=\"{}\">", escaped(to));
        self
    }

    pub(crate) fn render(&self) -> String {
        let mut out = String::with_capacity(4096);
        out.push_str("<!DOCTYPE html>\n<html lang=\"");
        out.push_str(if self.language.is_empty() { "en" } else { self.language });
        out.push_str("\">\n<head>\n");
        // Pages in other charsets have their own declaration.
        if !self.head.contains("charset=") {
            out.push_str("<meta charset=\"utf-8\">\n");
        }
        out.push_str(&self.head);
        let title = escaped(&self.title);
        let _ = writeln!(out, "<title>{title}</title>");
        if !self.description.is_empty() {
            let _ = writeln!(out, "<meta name=\"description\" content=\"{}\">", escaped(&self.description));
        }
        out.push_str("</head>\n<body>\n");
        if !self.site.is_empty() {
            let _ = writeln!(out, "<header><p>{}</p></header>", escaped(&self.site));
        }
        let heading = self.heading.as_deref().map_or(title, escaped);
        let _ = writeln!(out, "<main>\n<article>\n<h1>{heading}</h1>");
        for paragraph in &self.paragraphs {
            let _ = writeln!(out, "<p>{}</p>", escaped(paragraph));
        }
        out.push_str("</article>\n</main>\n");
        push_links(&mut out, &self.links);
        out.push_str("</body>\n</html>\n");
        out
    }
}

fn push_links(out: &mut String, links: &[Link]) {
    if links.is_empty() {
        return;
    }
    out.push_str("<nav>\n<ul>\n");
    for link in links {
        let rel = if link.nofollow { " rel=\"nofollow\"" } else { "" };
        let _ =
            writeln!(out, "<li><a href=\"{}\"{rel}>{}</a></li>", escaped(&link.href), escaped(&link.text));
    }
    out.push_str("</ul>\n</nav>\n");
}

/// Text escaped for HTML and attributes.
pub(crate) fn escaped(text: &str) -> String {
    if !text.contains(['&', '<', '>', '"']) {
        return text.to_owned();
    }
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
