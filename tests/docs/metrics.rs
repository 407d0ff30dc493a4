//! `docs/operations.md` has every metric and no other.

use crate::{document::Document, scene::Scene};
use std::collections::BTreeSet;

/// A counter is declared without its ending.
fn declared(name: &str) -> String {
    name.strip_suffix("_total").unwrap_or(name).to_owned()
}

#[test]
fn the_metrics_in_the_document_are_those_that_are_served() {
    let text = Document::read("docs/operations.md").text;
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `crawlway_")?.split_once('`'));
    let documented: BTreeSet<String> = cells.map(|(name, _)| declared(&format!("crawlway_{name}"))).collect();
    let served = Scene::new().served("/metrics");
    let types = served.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    assert_eq!(documented, types.map(|(name, _)| name.to_owned()).collect::<BTreeSet<_>>());
}
