//! `news.localhost`: articles by topic, an archive, printer versions, a sitemap.

use super::{NEWS, ads, blocks, fill_in, sitemap, slug, styled};
use crate::{
    draft::{Draft, Place},
    ground_truth::Duplicate,
    html::{Html, Link},
    random::Random,
    response::PageResponse,
};
use std::sync::LazyLock;

const SITE: &str = "The Coastal Courier";

#[rustfmt::skip]
const TOWNS: [&str; 20] = [
    "Ashford Bay", "Brindle", "Calder Mills", "Dunmore", "Elsby", "Farrow Point", "Glenhaven", "Harwick", "Inverly",
    "Kelmar", "Lindow", "Marwell", "Norbury Cross", "Pelham", "Redmire", "Selwick", "Thornby", "Ulverton", "Westmere", "Yarrow",
];

#[rustfmt::skip]
const PEOPLE: [&str; 14] = [
    "Ada Brook", "Tomas Vale", "Ines Corran", "Hugo Lindqvist", "Mara Okafor", "Peter Stone", "Yuki Arden", "Clara Whitlow",
    "Samir Haddad", "Nora Fell", "George Pask", "Lena Marsh", "Owen Tarrant", "Ruth Delacourt",
];

/// Topic with its headlines and sentences; `{place}`, `{person}`, `{number}` and `{year}` are placeholders.
struct Topic {
    name: &'static str,
    headlines: Vec<&'static str>,
    sentences: Vec<&'static str>,
}

const HEADLINES: usize = 5;

static TOPICS: LazyLock<Vec<Topic>> = LazyLock::new(|| {
    let topic = |(name, mut headlines): (&'static str, Vec<&'static str>)| {
        let sentences = headlines.split_off(HEADLINES);
        Topic { name, headlines, sentences }
    };
    blocks(include_str!("texts/news.txt")).map(topic).collect()
});

/// Articles per topic: each headline twice, in different towns.
const ARTICLES: usize = 10;

/// Interval of articles with a printer version.
const PRINT_INTERVAL: usize = 6;

const DAYS: [&str; 6] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

struct Article {
    topic: usize,
    place: Place,
    title: String,
    paragraphs: Vec<String>,
}

pub(super) fn fill(draft: &mut Draft, random: &mut Random) {
    let articles: Vec<Article> = (0..TOPICS.len())
        .flat_map(|topic| (0..ARTICLES).map(move |number| (topic, number)))
        .map(|(topic, number)| article(random, topic, number))
        .collect();
    let mut places = vec![Place::new(NEWS, "/")];
    for (at, article) in articles.iter().enumerate() {
        add_article(draft, &articles, at, article);
        places.push(article.place.clone());
    }
    for (topic, texts) in TOPICS.iter().enumerate() {
        let links = articles.iter().filter(|article| article.topic == topic).map(link).collect();
        let lead = format!("All that the Courier has written on {} lately.", texts.name.to_lowercase());
        let title = format!("{}: all articles", texts.name);
        add(draft, &section(texts), title, vec![lead], links);
    }
    front_page(draft, &articles);
    places.extend(ads::fill(draft));
    let map = sitemap(draft, NEWS, &places);
    draft.robots(NEWS, &format!("User-agent: *\nDisallow: /drafts/\n\nSitemap: {map}\n"));
    let secret = Place::new(NEWS, "/drafts/merger");
    let lead =
        vec!["Not to be published before Monday: the Courier and the Gazette become one paper.".to_owned()];
    draft.forbidden(&secret, &html("Draft: two papers become one".to_owned(), lead, Vec::new()));
}

fn article(random: &mut Random, topic: usize, number: usize) -> Article {
    let texts = &TOPICS[topic];
    let town = TOWNS[(topic * 7 + number * 3 + random.below(3)) % TOWNS.len()];
    let person = random.pick(&PEOPLE);
    let figure = random.between(12, 96).to_string();
    let year = random.between(1851, 1998).to_string();
    let placeholders = [("{place}", town), ("{person}", person), ("{number}", &figure), ("{year}", &year)];
    let headline = texts.headlines[number % texts.headlines.len()];
    let mut title = fill_in(headline, &placeholders);
    if number >= texts.headlines.len() {
        // The second article of a headline needs a title of its own.
        title = format!("{title}, says {}", PEOPLE[(topic + number) % PEOPLE.len()]);
    }
    let chosen = random.some(&texts.sentences, 7);
    let mut paragraphs = vec![format!("{}, {}.", town.to_uppercase(), DAYS[(topic + number) % DAYS.len()])];
    for pair in chosen.chunks(2) {
        let text: Vec<String> = pair.iter().map(|sentence| fill_in(sentence, &placeholders)).collect();
        paragraphs.push(text.join(" "));
    }
    paragraphs.push(format!("{person} can be reached at the office of the Courier in {town}."));
    let path = format!("/{}/{}", texts.name.to_lowercase(), slug(&title));
    Article { topic, place: Place::new(NEWS, path), title, paragraphs }
}

fn add_article(draft: &mut Draft, articles: &[Article], at: usize, article: &Article) {
    let near = [1, 5, 17].map(|step| link(&articles[(at + step) % articles.len()]));
    let mut links =
        vec![Link::to("/", SITE), Link::to(section(&TOPICS[article.topic]).path, TOPICS[article.topic].name)];
    links.extend(near);
    if at.is_multiple_of(PRINT_INTERVAL) {
        let print = Place::new(NEWS, format!("/print{}", article.place.path));
        links.push(Link::to(print.path.clone(), "Printer version"));
        add_printed(draft, article, &print, at);
    }
    if at % 40 == 7 {
        links.push(Link::to("/drafts/merger", "Draft"));
    }
    add(draft, &article.place, article.title.clone(), article.paragraphs.clone(), links);
}

/// Half of the printer versions have the article as canonical URL; the others are near-duplicates.
fn add_printed(draft: &mut Draft, article: &Article, print: &Place, at: usize) {
    let title = format!("{} (to print)", article.title);
    let links = vec![Link::to(article.place.path.clone(), "Back to the article")];
    let heading = Some(article.title.clone());
    let html = Html { heading, ..html(title.clone(), article.paragraphs.clone(), links) };
    if at.is_multiple_of(2 * PRINT_INTERVAL) {
        draft.alias(print, html, &article.place);
        return;
    }
    let of = draft.url(&article.place);
    draft.put(print, PageResponse::html(html.render()).conditional(0));
    draft.expect(print, &title, None, Some(Duplicate::Near(of)));
}

fn front_page(draft: &mut Draft, articles: &[Article]) {
    let mut links: Vec<Link> = TOPICS.iter().map(|topic| Link::to(section(topic).path, topic.name)).collect();
    links.extend(articles.iter().step_by(9).map(link));
    for (host, text) in [
        (super::SHOP, "The Quayside Store"),
        (super::DOCS, "Lantern documentation"),
        (super::WORLD, "Letters from abroad"),
        (super::SLOW, "Slow travel"),
        (super::OLD, "The old Courier"),
    ] {
        links.push(Link::to(draft.url(&Place::new(host, "/")), text));
    }
    let lead = "News from the coast and the hills: harbours, railways, bread, stars, and what the council has decided.";
    add(draft, &Place::new(NEWS, "/"), SITE.to_owned(), vec![lead.to_owned()], links);
}

fn section(topic: &Topic) -> Place {
    Place::new(NEWS, format!("/{}", topic.name.to_lowercase()))
}

fn link(article: &Article) -> Link {
    Link::to(article.place.path.clone(), article.title.clone())
}

fn add(draft: &mut Draft, place: &Place, title: String, paragraphs: Vec<String>, links: Vec<Link>) {
    draft.page(place, &html(title, paragraphs, links), None);
}

fn html(title: String, paragraphs: Vec<String>, links: Vec<Link>) -> Html {
    let description = paragraphs.get(1).or_else(|| paragraphs.first()).cloned().unwrap_or_default();
    Html { description, site: SITE.to_owned(), ..styled(title, paragraphs, links) }
}
