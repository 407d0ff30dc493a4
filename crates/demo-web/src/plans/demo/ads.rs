//! The small ads of `news.localhost`: no page links to them, only the sitemap does.

use super::{NEWS, slug, styled};
use crate::{
    draft::{Draft, Place},
    html::{Html, Link},
};

const ADS: [(&str, &str); 8] = [
    (
        "Tandem for sale",
        "A green tandem bicycle from 1974, two new saddles, one old quarrel about who steers. 180 euros.",
    ),
    (
        "Lost parrot",
        "Grey parrot, answers to Admiral, whistles the first half of the anthem. Reward: the second half.",
    ),
    (
        "Piano to be fetched",
        "Upright piano, in tune up to the highest octave, free for whoever carries it down four floors.",
    ),
    (
        "Beehives for rent",
        "Three beehives for orchards, from April to June. The bees know the way home and need no fetching.",
    ),
    (
        "Telescope wanted",
        "Pupil looks for a used telescope that shows the rings of Saturn. Pays in lawns mown.",
    ),
    (
        "Room with a view of the lighthouse",
        "Small room at the harbour, the lighthouse shines in every eleven seconds. Curtains included.",
    ),
    (
        "Sourdough to give away",
        "Our sourdough starter has grown again. Bring a jar with a lid; it is livelier than it looks.",
    ),
    (
        "Choir seeks bass",
        "Nineteen sopranos look for a bass. Reading music is welcome and not required. Thursdays at eight.",
    ),
];

/// Adds the ads; their places, for the sitemap.
pub(super) fn fill(draft: &mut Draft) -> Vec<Place> {
    let mut places = Vec::new();
    for (title, text) in ADS {
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
