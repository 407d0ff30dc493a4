//! `docs.localhost`: the manual of Lantern, an invented site generator, in two versions; the old one has the new one as
//! canonical URL.

use super::{DOCS, blocks, columns, sitemap, slug};
use crate::{
    draft::{Draft, Place},
    html::{Html, Link},
};
use hyper::StatusCode;

const SITE: &str = "Lantern documentation";

/// Name and description of each command, then its options with their effects, then a note.
const COMMANDS: &str = include_str!("texts/commands.tsv");

/// Title of each guide, then its paragraphs.
const GUIDES: &str = include_str!("texts/guides.txt");

pub(super) fn fill(draft: &mut Draft) {
    let mut places = vec![Place::new(DOCS, "/")];
    let mut links = Vec::new();
    let guides: Vec<(&str, Vec<&str>)> = blocks(GUIDES).collect();
    for (at, (title, paragraphs)) in guides.iter().enumerate() {
        let path = format!("/guide/{}", slug(title));
        let next = guides[(at + 1) % guides.len()].0;
        let around = vec![Link::to("/", SITE), Link::to(format!("/guide/{}", slug(next)), next)];
        let paragraphs = paragraphs.iter().map(|text| (*text).to_owned()).collect();
        page(draft, &path, (*title).to_owned(), paragraphs, around);
        links.push(Link::to(path.clone(), *title));
        places.push(Place::new(DOCS, path));
    }
    for (head, lines) in blocks(COMMANDS) {
        let [name, description] = columns(head);
        add_command(draft, name, description, &lines, &mut places);
        links.push(Link::to(command_path(name), format!("lantern {name}")));
    }
    links.push(Link::to("/latest", "The latest version"));
    links.push(Link::to("/guide/plugins", "Plug-ins"));
    draft.status(&Place::new(DOCS, "/guide/plugins"), StatusCode::NOT_FOUND);
    draft.redirects(StatusCode::FOUND, &[Place::new(DOCS, "/latest"), Place::new(DOCS, "/")]);
    let lead = "Lantern builds small web sites from text files. This is its manual: guides first, then every command.";
    page(draft, "/", SITE.to_owned(), vec![lead.to_owned()], links);
    let map = sitemap(draft, DOCS, &places);
    draft.robots(DOCS, &format!("User-agent: *\nDisallow:\n\nSitemap: {map}\n"));
}

/// Adds a page for the command, one for each option, and the page of the old version.
fn add_command(
    draft: &mut Draft,
    name: &str,
    description: &str,
    lines: &[&'static str],
    places: &mut Vec<Place>,
) {
    let path = command_path(name);
    let mut paragraphs = vec![description.to_owned()];
    let mut links = vec![Link::to("/", SITE)];
    let (note, options) = lines.split_last().unwrap_or((&"", &[]));
    for [option, effect] in options.iter().map(|line| columns(line)) {
        paragraphs.push(format!("The option {option} {effect}."));
        let option_path = format!("{path}/{}", slug(option));
        links.push(Link::to(option_path.clone(), option));
        let text = vec![
            format!("lantern {name} {option} {effect}."),
            format!("The command itself: {description}"),
            format!(
                "Give {option} on the command line, or set it in lantern.toml under [{name}]. The command line wins."
            ),
        ];
        let back = vec![Link::to(path.clone(), format!("lantern {name}"))];
        page(draft, &option_path, format!("{option} of lantern {name}"), text, back);
        places.push(Place::new(DOCS, option_path));
    }
    paragraphs.push((*note).to_owned());
    let old = Place::new(DOCS, format!("/v1{path}"));
    links.push(Link::to(old.path.clone(), "In version 1"));
    let place = Place::new(DOCS, path);
    let old_page = super::styled(format!("lantern {name} (version 1)"), paragraphs.clone(), Vec::new());
    draft.alias(&old, old_page, &place);
    page(draft, &place.path, format!("lantern {name}"), paragraphs, links);
    places.push(place);
}

fn command_path(name: &str) -> String {
    format!("/command/{name}")
}

fn page(draft: &mut Draft, path: &str, title: String, paragraphs: Vec<String>, links: Vec<Link>) {
    let description = paragraphs.first().cloned().unwrap_or_default();
    let html = Html { description, site: SITE.to_owned(), ..super::styled(title, paragraphs, links) };
    draft.page(&Place::new(DOCS, path), &html, None);
}
