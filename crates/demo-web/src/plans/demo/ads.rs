//! Small ads of `news.localhost`, which are only in the sitemap.

use super::{NEWS, columns, slug, styled};
use crate::{
    draft::{Draft, Place},
    html::{Html, Link},
};

/// Title and text of each ad.
const ADS: &str = include_str!("texts/ads.tsv");

/// Adds the ads, and returns their places for the sitemap.
pub(super) fn fill(draft: &mut Draft) -> Vec<Place> {
    let mut places = Vec::new();
    for [title, text] in ADS.lines().map(columns) {
        let place = Place::new(NEWS, format!("/small-ads/{}", slug(title)));
        let links = vec![Link::to("/", "The Coastal Courier")];
        let paragraphs =
            vec![text.to_owned(), "Replies go to the office of the Courier, by post.".to_owned()];
        let description = text.to_owned();
        let html = Html { description, site: "Small ads".to_owned(), ..styled(title, paragraphs, links) };
        draft.page(&place, &html, None);
        let url = draft.url(&place);
        draft.truth.only_in_sitemaps.insert(url);
        places.push(place);
    }
    places
}
