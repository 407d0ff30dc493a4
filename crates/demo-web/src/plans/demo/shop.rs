//! `shop.localhost`: products in categories, a basket that robots.txt closes, things that are sold out.

use super::{
    SHOP,
    shop_texts::{CATEGORIES, COLOURS, Category},
    slug,
};
use crate::{
    answer::Answer,
    draft::{Draft, Place},
    html::{Html, Link},
    random::Random,
    truth::Why,
};
use hyper::{StatusCode, header::SET_COOKIE};

const SITE: &str = "The Quayside Store";

pub(super) fn fill(draft: &mut Draft, random: &mut Random) {
    draft.robots(SHOP, "User-agent: *\nDisallow: /basket\nDisallow: /checkout\nCrawl-delay: 0.1\n");
    let mut front: Vec<Link> = Vec::new();
    for category in &CATEGORIES {
        let path = category_path(category);
        front.push(Link::to(path, category.name));
        add_category(draft, random, category);
    }
    front.push(Link::to("/search?q=lamp", "Search for lamps"));
    front.push(Link::to("/basket", "Basket"));
    front.push(Link::to("/sold-out", "Last year's lamp"));
    let lead = "Useful things that last: lamps, bags, tools and toys, chosen by people who use them.";
    let html = styled(SITE.to_owned(), vec![lead.to_owned()], front);
    let (place, which) = (Place::new(SHOP, "/"), draft.hosts[SHOP].pages.len());
    let answer = Answer::html(html.render()).conditional(which);
    draft.put(&place, answer.with(SET_COOKIE, "basket=empty; Path=/; HttpOnly; SameSite=Lax"));
    draft.expect(&place, &html.title, None, None);
    draft.status(&Place::new(SHOP, "/sold-out"), StatusCode::GONE);
    // A page with results of a search wants to stay out of other people's results.
    let results = super::styled("Search: lamp", vec!["Eight lamps were found.".to_owned()], Vec::new())
        .robots("noindex");
    let place = Place::new(SHOP, "/search?q=lamp");
    draft.put(&place, Answer::html(results.render()));
    draft.deny(&place, Why::Noindex);
    let basket = super::styled("Your basket", vec!["Your basket is empty.".to_owned()], Vec::new());
    draft.forbidden(&Place::new(SHOP, "/basket"), &basket);
}

fn add_category(draft: &mut Draft, random: &mut Random, category: &Category) {
    let path = category_path(category);
    let mut links = vec![Link::to("/", SITE)];
    for (at, (name, cents, about)) in category.products.iter().enumerate() {
        let product = format!("{path}/{}", slug(name));
        links.push(Link::to(product.clone(), *name));
        let colour = random.pick(&COLOURS);
        let price = format!("{}.{:02} euros", cents / 100, cents % 100);
        let mut paragraphs = vec![
            (*about).to_owned(),
            format!("The {} costs {price} and is in stock in {colour}.", name.to_lowercase()),
        ];
        paragraphs.extend(category.care.iter().map(|care| (*care).to_owned()));
        let next = category.products[(at + 1) % category.products.len()].0;
        let mut around = vec![
            Link::to("/", SITE),
            Link::to(path.clone(), category.name),
            Link::to(format!("{path}/{}", slug(next)), next),
            Link::to("/basket", "Put into the basket"),
        ];
        if at == 0 {
            // The campaign's address is the same product.
            let alias = Place::new(SHOP, format!("{product}?campaign=spring"));
            around.push(Link::to(alias.path.clone(), "Spring offer"));
            let html = super::styled(*name, paragraphs.clone(), Vec::new());
            draft.alias(&alias, html, &Place::new(SHOP, product.clone()));
        }
        page(draft, &product, format!("{name} in {colour}"), paragraphs, around);
    }
    page(
        draft,
        &path,
        format!("{} at the Quayside Store", category.name),
        vec![category.about.to_owned()],
        links,
    );
}

fn category_path(category: &Category) -> String {
    format!("/{}", category.name.to_lowercase())
}

fn page(draft: &mut Draft, path: &str, title: String, paragraphs: Vec<String>, links: Vec<Link>) {
    draft.page(&Place::new(SHOP, path), &styled(title, paragraphs, links), None);
}

fn styled(title: String, paragraphs: Vec<String>, links: Vec<Link>) -> Html {
    let description = paragraphs.first().cloned().unwrap_or_default();
    Html { description, site: SITE.to_owned(), ..super::styled(title, paragraphs, links) }
}
