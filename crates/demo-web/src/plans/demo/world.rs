//! `world.localhost`: letters from abroad in French, German and Japanese.

use super::{WORLD, blocks, columns, styled};
use crate::{
    draft::{Draft, Place},
    html::Link,
};

/// Language, path and title of each letter, then its paragraphs.
const LETTERS: &str = include_str!("texts/letters.tsv");

pub(super) fn fill(draft: &mut Draft) {
    let letters: Vec<([&str; 3], Vec<&str>)> =
        blocks(LETTERS).map(|(head, paragraphs)| (columns(head), paragraphs)).collect();
    let mut links = Vec::new();
    for (at, ([language, path, title], paragraphs)) in letters.iter().enumerate() {
        let [_, next, next_title] = letters[(at + 1) % letters.len()].0;
        let around = vec![Link::to("/", "World"), Link::to(next, next_title)];
        let mut html = styled(*title, paragraphs.iter().map(|text| (*text).to_owned()).collect(), around);
        html.language = language;
        paragraphs[0].clone_into(&mut html.description);
        draft.page(&Place::new(WORLD, *path), &html, None);
        links.push(Link::to(*path, *title));
    }
    let lead = "Letters from abroad, in French, German and Japanese: on bread, trains, harbours and stars.";
    draft.page(&Place::new(WORLD, "/"), &styled("Letters from abroad", vec![lead.to_owned()], links), None);
}
