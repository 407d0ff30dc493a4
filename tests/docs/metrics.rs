//! Metrics: `docs/operations.md` lists exactly those that are served.

use crate::{document::Document, environment::Environment};
use std::collections::BTreeSet;

/// Name in `# TYPE`, which has no `_total`.
fn declared(name: &str) -> String {
    name.strip_suffix("_total").unwrap_or(name).to_owned()
}

#[test]
fn documented_metrics_are_the_served_ones() {
    let text = Document::read("docs/operations.md").text;
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `crawlway_")?.split_once('`'));
    let documented: BTreeSet<String> = cells.map(|(name, _)| declared(&format!("crawlway_{name}"))).collect();
    let served = Environment::new().get("/metrics");
    let types = served.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    assert_eq!(documented, types.map(|(name, _)| name.to_owned()).collect::<BTreeSet<_>>());
}
