//! Routes: `docs/http-api.md` lists exactly those that are served, with an example for each.

use crate::document::{Command, Document};
use std::collections::BTreeSet;

const DOCUMENT: &str = "docs/http-api.md";

/// Routes that are served, such as `GET /api/crawls/{id}`.
fn served() -> BTreeSet<String> {
    let openapi = serde_json::to_value(crawlway_gateway::document()).unwrap();
    let mut routes = BTreeSet::new();
    for (path, operations) in openapi["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            if ["get", "post", "put", "patch", "delete"].contains(&method.as_str()) {
                routes.insert(format!("{} {path}", method.to_uppercase()));
            }
        }
    }
    routes
}

/// Routes in the first cells of the tables.
fn documented() -> BTreeSet<String> {
    let text = Document::read(DOCUMENT).text;
    let first_cells = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let routes = first_cells.map(|(cell, _)| cell).filter(|cell| cell.contains(" /"));
    routes.map(str::to_owned).collect()
}

/// Method and path of an example, without the query.
fn request_of(command: &Command) -> Option<(String, String)> {
    let (_, rest) = command.text.strip_prefix("curl ")?.split_once("localhost:8081")?;
    let path: String = rest.chars().take_while(|c| !"?'\" \\\n".contains(*c)).collect();
    let method = match command.text.split_once("-X ") {
        Some((_, rest)) => rest.split_whitespace().next()?,
        None if command.text.contains("-d ") => "POST",
        None => "GET",
    };
    Some((method.to_owned(), path))
}

fn matches(route: &str, (method, path): &(String, String)) -> bool {
    let Some((of_method, template)) = route.split_once(' ') else { return false };
    let (wanted, given): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
    let same =
        |(wanted, given): (&&str, &&str)| wanted == given || wanted.starts_with('{') && !given.is_empty();
    of_method == method && wanted.len() == given.len() && wanted.iter().zip(&given).all(same)
}

#[test]
fn documented_routes_are_the_served_ones() {
    assert_eq!(documented(), served());
}

#[test]
fn every_route_has_an_example() {
    let examples: Vec<_> = Document::read(DOCUMENT).commands().iter().filter_map(request_of).collect();
    let missing: Vec<_> = served()
        .into_iter()
        .filter(|route| !examples.iter().any(|request| matches(route, request)))
        .collect();
    assert!(missing.is_empty(), "{DOCUMENT} has no example of {missing:?}");
}
