//! Reference crawler over a web in memory: breadth first, without network.

use crawlway_demo_web::Web;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use url::Url;

/// Result of a crawl.
#[derive(Debug, Default)]
pub(crate) struct Crawl {
    /// Requested URLs.
    pub(crate) requested: BTreeSet<String>,
    /// Pages to be indexed, with their titles.
    pub(crate) indexed: BTreeMap<String, String>,
    /// URLs without a response.
    pub(crate) failed: BTreeSet<String>,
    /// URLs that robots.txt disallows.
    pub(crate) disallowed: BTreeSet<String>,
    /// Links before normalisation, made absolute.
    pub(crate) written: BTreeSet<String>,
    /// Discovered URLs of crawler traps.
    pub(crate) endless: BTreeSet<String>,
}

/// Crawls a web from its seeds, with a maximum number of URLs per trap.
pub(crate) fn crawl(web: &Web, max_endless: usize) -> Crawl {
    let mut crawl = Crawl::default();
    let mut queue: VecDeque<String> = web.ground_truth().start.iter().cloned().collect();
    queue.extend(web.ground_truth().start.iter().flat_map(|start| in_sitemap(web, &origin(start))));
    let mut seen: HashSet<String> = queue.iter().cloned().collect();
    let mut crawled_endless = vec![0; web.ground_truth().endless.len()];
    while let Some(url) = queue.pop_front() {
        if let Some(trap) =
            web.ground_truth().endless.iter().position(|start| url.starts_with(start.as_str()))
        {
            crawl.endless.insert(url.clone());
            crawled_endless[trap] += 1;
            if crawled_endless[trap] > max_endless {
                continue;
            }
        }
        if !allowed(web, &url) {
            crawl.disallowed.insert(url);
            continue;
        }
        crawl.requested.insert(url.clone());
        for link in visit(web, &url, &mut crawl) {
            if seen.insert(link.clone()) {
                queue.push_back(link);
            }
        }
    }
    crawl
}

/// Visits one page, and returns its links in normal form.
fn visit(web: &Web, url: &str, crawl: &mut Crawl) -> Vec<String> {
    let Some(answer) = web.response(url) else {
        crawl.failed.insert(url.to_owned());
        return Vec::new();
    };
    let header = |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    if answer.status.is_redirection() {
        return vec![normal(&Url::parse(header("location")).expect("an absolute location"))];
    }
    if answer.status != 200 || !header("content-type").starts_with("text/html") {
        return Vec::new();
    }
    let html = String::from_utf8_lossy(&answer.body).into_owned();
    let robots = after(&html, "<meta name=\"robots\" content=\"").unwrap_or("").to_ascii_lowercase();
    let canonical = after(&html, "<link rel=\"canonical\" href=\"").map(unescaped);
    let noindex = robots.contains("noindex") || header("x-robots-tag").contains("noindex");
    if !noindex && canonical.is_none_or(|to| to == url) {
        let title = html.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
        crawl.indexed.insert(url.to_owned(), unescaped(title.unwrap_or("")));
    }
    if robots.contains("nofollow") {
        return Vec::new();
    }
    let base = Url::parse(url).expect("a URL");
    let mut links = Vec::new();
    for anchor in html.split("<a ").skip(1) {
        let href = unescaped(after(anchor, "href=\"").expect("an address"));
        let written = if href.starts_with("http") { href.clone() } else { format!("{}{href}", origin(url)) };
        crawl.written.insert(written);
        if !anchor.split('>').next().unwrap_or("").contains("nofollow") {
            links.push(normal(&base.join(&href).expect("a link")));
        }
    }
    links
}

/// Pages in the sitemap of a host.
pub(crate) fn in_sitemap(web: &Web, origin: &str) -> Vec<String> {
    let Some(sitemap) = web.response(&format!("{origin}/sitemap.xml")) else { return Vec::new() };
    let xml = String::from_utf8_lossy(&sitemap.body).into_owned();
    xml.split("<loc>").skip(1).filter_map(|rest| Some(unescaped(rest.split("</loc>").next()?))).collect()
}

/// Whether robots.txt allows a URL, by the longest rule.
fn allowed(web: &Web, url: &str) -> bool {
    let origin = origin(url);
    let path = &url[origin.len()..];
    let Some(robots) = web.response(&format!("{origin}/robots.txt")).filter(|robots| robots.status == 200)
    else {
        return true;
    };
    let mut longest = (0, true);
    for line in String::from_utf8_lossy(&robots.body).lines() {
        let Some((name, start)) = line.split_once(':') else { continue };
        let start = start.trim();
        let allows = name.eq_ignore_ascii_case("allow");
        let is_rule = (allows || name.eq_ignore_ascii_case("disallow")) && !start.is_empty();
        if is_rule && path.starts_with(start) && start.len() > longest.0 {
            longest = (start.len(), allows);
        }
    }
    longest.1
}

pub(crate) fn origin(url: &str) -> String {
    let end = url["http://".len()..].find('/').map_or(url.len(), |end| end + "http://".len());
    url[..end].to_owned()
}

/// Normal form of a URL: no fragment, no empty query, unreserved characters decoded, upper-case escapes.
pub(crate) fn normal(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    if url.query() == Some("") {
        url.set_query(None);
    }
    let mut out = String::new();
    let mut parts = url.as_str().split('%');
    out.push_str(parts.next().unwrap_or(""));
    for part in parts {
        let code = u8::from_str_radix(&part[..2], 16).expect("an escape");
        if code.is_ascii_alphanumeric() || b"-._~".contains(&code) {
            out.push(char::from(code));
        } else {
            out.push_str(&format!("%{code:02X}"));
        }
        out.push_str(&part[2..]);
    }
    out
}

fn after<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.split_once(start)?.1.split('"').next()
}

fn unescaped(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}
