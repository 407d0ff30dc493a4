//! `shop.localhost`: products in categories, a basket that robots.txt disallows, sold-out products.

use super::{SHOP, blocks, columns, slug};
use crate::{
    draft::{Draft, Place},
    ground_truth::NotIndexed,
    html::{Html, Link},
    random::Random,
    response::PageResponse,
};
use hyper::{StatusCode, header::SET_COOKIE};

const SITE: &str = "The Quayside Store";

const COLOURS: [&str; 6] = ["navy", "moss green", "brick red", "sand", "charcoal", "cream"];

/// Name and description of each category, then its products with name, price in cents and description, then sentences
/// about all of them.
const CATEGORIES: &str = include_str!("texts/shop.tsv");

pub(super) fn fill(draft: &mut Draft, random: &mut Random) {
    draft.robots(SHOP, "User-agent: *\nDisallow: /basket\nDisallow: /checkout\nCrawl-delay: 0.1\n");
    let mut front: Vec<Link> = Vec::new();
    for (head, lines) in blocks(CATEGORIES) {
        let [name, description] = columns(head);
        front.push(Link::to(category_path(name), name));
        add_category(draft, random, name, description, &lines);
    }
    front.push(Link::to("/search?q=lamp", "Search for lamps"));
    front.push(Link::to("/basket", "Basket"));
    front.push(Link::to("/sold-out", "Last year's lamp"));
    let lead = "Useful things that last: lamps, bags, tools and toys, chosen by people who use them.";
    let html = styled(SITE.to_owned(), vec![lead.to_owned()], front);
    let (place, which) = (Place::new(SHOP, "/"), draft.hosts[SHOP].pages.len());
    let answer = PageResponse::html(html.render()).conditional(which);
    draft.put(&place, answer.with(SET_COOKIE, "basket=empty; Path=/; HttpOnly; SameSite=Lax"));
    draft.expect(&place, &html.title, None, None);
    draft.status(&Place::new(SHOP, "/sold-out"), StatusCode::GONE);
    // Search results are not indexed.
    let results = super::styled("Search: lamp", vec!["Eight lamps were found.".to_owned()], Vec::new())
        .robots("noindex");
    let place = Place::new(SHOP, "/search?q=lamp");
    draft.put(&place, PageResponse::html(results.render()));
    draft.deny(&place, NotIndexed::Noindex);
    let basket = super::styled("Your basket", vec!["Your basket is empty.".to_owned()], Vec::new());
    draft.forbidden(&Place::new(SHOP, "/basket"), &basket);
}

fn add_category(
    draft: &mut Draft,
    random: &mut Random,
    category: &str,
    description: &str,
    lines: &[&'static str],
) {
    let path = category_path(category);
    let (products, care): (Vec<&str>, Vec<&str>) = lines.iter().partition(|line| line.contains('\t'));
    let products: Vec<[&str; 3]> = products.into_iter().map(columns).collect();
    let mut links = vec![Link::to("/", SITE)];
    for (at, [name, cents, about]) in products.iter().enumerate() {
        let product = format!("{path}/{}", slug(name));
        links.push(Link::to(product.clone(), *name));
        let colour = random.pick(&COLOURS);
        let (euros, cents) = cents.split_at(cents.len() - 2);
        let mut paragraphs = vec![
            (*about).to_owned(),
            format!("The {} costs {euros}.{cents} euros and is in stock in {colour}.", name.to_lowercase()),
        ];
        paragraphs.extend(care.iter().map(|care| (*care).to_owned()));
        let next = products[(at + 1) % products.len()][0];
        let mut around = vec![
            Link::to("/", SITE),
            Link::to(path.clone(), category),
            Link::to(format!("{path}/{}", slug(next)), next),
            Link::to("/basket", "Put into the basket"),
        ];
        if at == 0 {
            // The URL of a campaign has the product as canonical URL.
            let alias = Place::new(SHOP, format!("{product}?campaign=spring"));
            around.push(Link::to(alias.path.clone(), "Spring offer"));
            let html = super::styled(*name, paragraphs.clone(), Vec::new());
            draft.alias(&alias, html, &Place::new(SHOP, product.clone()));
        }
        page(draft, &product, format!("{name} in {colour}"), paragraphs, around);
    }
    page(draft, &path, format!("{category} at the Quayside Store"), vec![description.to_owned()], links);
}

fn category_path(category: &str) -> String {
    format!("/{}", category.to_lowercase())
}

fn page(draft: &mut Draft, path: &str, title: String, paragraphs: Vec<String>, links: Vec<Link>) {
    draft.page(&Place::new(SHOP, path), &styled(title, paragraphs, links), None);
}

fn styled(title: String, paragraphs: Vec<String>, links: Vec<Link>) -> Html {
    let description = paragraphs.first().cloned().unwrap_or_default();
    Html { description, site: SITE.to_owned(), ..super::styled(title, paragraphs, links) }
}
