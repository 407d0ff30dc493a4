//! Crawler traps beside 50 ordinary pages that must still be found: an endless calendar, faceted search, session ids in
//! paths and queries, and relative links of growing depth. Pages are generated from their paths.

use crate::{
    draft::{Draft, Place},
    html::{Html, Link},
    random::{Random, fingerprint},
    response::PageResponse,
    text,
};

const PAGES: usize = 50;

pub(super) fn fill(draft: &mut Draft, seed: u64) {
    let host = draft.host("maze.test");
    let mut random = Random::new(seed);
    draft.robots(host, "User-agent: *\nDisallow:\n");
    let path = |page: usize| if page == 0 { "/".to_owned() } else { format!("/page-{page}") };
    for page in 0..PAGES {
        let word = format!("zq{page:05}x");
        let mut paragraphs = text::paragraphs(&mut random, 200);
        paragraphs.push(format!("They call it {word}."));
        let mut links: Vec<Link> = (2 * page + 1..=2 * page + 2)
            .filter(|next| *next < PAGES)
            .map(|next| Link::to(path(next), text::title(&mut random)))
            .collect();
        // Traps come first on every page, so that a trapped crawler does not reach the rest.
        links.splice(0..0, trap_links(page));
        let title = format!("{} {page}", text::title(&mut random));
        draft.page(&Place::new(host, path(page)), &Html::new(title, paragraphs, links), Some(word));
    }
    let origin = draft.origin(host);
    draft.truth.start.push(format!("{origin}/"));
    draft.truth.endless =
        ["/calendar/", "/find", "/visit", "/deeper/"].map(|start| format!("{origin}{start}")).to_vec();
    draft.hosts[host].generator = Some(Box::new(move |path| generate(seed, path)));
}

fn trap_links(page: usize) -> Vec<Link> {
    vec![
        Link::to("/calendar/2024/1", "Calendar"),
        Link::to("/find?colour=red", "Find"),
        Link::to(format!("/visit/hall;jsessionid={page:08X}"), "Visit"),
        Link::to(format!("/visit?room=hall&sid={page:08x}"), "Visit again"),
        Link::to("/deeper/", "Deeper"),
    ]
}

fn generate(seed: u64, path: &str) -> Option<PageResponse> {
    let (title, text_seed, links) = if let Some(month) = path.strip_prefix("/calendar/") {
        calendar(month)?
    } else if let Some(query) = path.strip_prefix("/find?") {
        facets(query)
    } else if let Some(rest) = path.strip_prefix("/visit") {
        session(rest)
    } else if let Some(rest) = path.strip_prefix("/deeper/") {
        deeper(rest)?
    } else {
        return None;
    };
    let mut random = Random::of(seed, fingerprint(text_seed.as_bytes()));
    let paragraphs = text::paragraphs(&mut random, 120);
    Some(PageResponse::html(Html::new(title, paragraphs, links).render()))
}

/// Title, seed of the text, and links.
type TrapPage = (String, String, Vec<Link>);

/// Calendar without end: `2024/1` and every month before and after it.
fn calendar(month: &str) -> Option<TrapPage> {
    let (year, month) = month.split_once('/')?;
    let (year, month): (i64, i64) = (year.parse().ok()?, month.parse().ok()?);
    if !(1..=12).contains(&month) || year.abs() > 1_000_000 {
        return None;
    }
    let link = |months: i64, text: &str| {
        let at = year * 12 + month - 1 + months;
        Link::to(format!("/calendar/{}/{}", at.div_euclid(12), at.rem_euclid(12) + 1), text)
    };
    let links = vec![
        link(1, "Next month"),
        link(-1, "Previous month"),
        link(12, "Next year"),
        link(-12, "Last year"),
    ];
    Some((format!("Calendar of {year}-{month:02}"), format!("calendar {year} {month}"), links))
}

/// Faceted search: every link adds or changes one filter, in the order of clicks.
fn facets(query: &str) -> TrapPage {
    const FACETS: [(&str, [&str; 4]); 6] = [
        ("colour", ["red", "green", "blue", "black"]),
        ("size", ["s", "m", "l", "xl"]),
        ("brand", ["north", "south", "east", "west"]),
        ("price", ["10", "20", "50", "100"]),
        ("sort", ["price", "name", "new", "best"]),
        ("page", ["1", "2", "3", "4"]),
    ];
    let mut links = Vec::new();
    for (name, values) in FACETS {
        let others: Vec<&str> =
            query.split('&').filter(|part| part.split('=').next() != Some(name)).collect();
        for value in values {
            let mut parts = others.clone();
            let part = format!("{name}={value}");
            parts.push(&part);
            links.push(Link::to(format!("/find?{}", parts.join("&")), part.clone()));
        }
    }
    (format!("Found with {query}"), format!("facets {query}"), links)
}

/// Session ids: five pages with another URL on every request.
fn session(rest: &str) -> TrapPage {
    let rooms = ["hall", "kitchen", "attic", "cellar", "garden"];
    let room = rooms.into_iter().find(|room| rest.contains(room)).unwrap_or("hall");
    let mut next = Random::new(fingerprint(rest.as_bytes()));
    let mut links = Vec::new();
    for to in rooms {
        let id = next.next() >> 32;
        links.push(Link::to(format!("/visit/{to};jsessionid={id:08X}"), format!("To the {to}")));
        links.push(Link::to(format!("/visit?room={to}&sid={id:08x}"), format!("To the {to} again")));
    }
    (format!("In the {room}"), format!("room {room}"), links)
}

/// Relative links without a leading slash.
fn deeper(rest: &str) -> Option<TrapPage> {
    // Maximum length of a path.
    if rest.len() > 8000 || !(rest.is_empty() || rest.ends_with('/')) {
        return None;
    }
    let depth = rest.matches('/').count();
    let links = vec![Link::to("a/", "Down"), Link::to("b/", "Down another way"), Link::to("/", "Out")];
    Some((format!("At depth {depth}"), "the same at every depth".to_owned(), links))
}
