//! Contents of the plans.

mod bench;
mod crash;
mod demo;
mod tiny;
mod traps;

use crate::{
    draft::Draft,
    plan::{Kind, Plan},
};

/// Fills a draft with the contents of a plan.
pub(crate) fn fill(draft: &mut Draft, plan: &Plan) {
    match plan.kind {
        Kind::Crash { pages } => crash::fill(draft, plan.seed, pages),
        Kind::Traps => traps::fill(draft, plan.seed),
        Kind::Bench { pages } => bench::fill(draft, plan.seed, pages),
        Kind::Tiny { pages } => tiny::fill(draft, plan.seed, pages),
        Kind::Demo => demo::fill(draft, plan.seed),
    }
    debug_assert_eq!(draft.hosts.len(), host_count(plan), "the number of hosts of {plan:?}");
}

/// Number of hosts of a plan, to find a port that is free on all of them.
pub(crate) fn host_count(plan: &Plan) -> usize {
    match plan.kind {
        Kind::Crash { .. } => crash::HOSTS + 1,
        Kind::Traps | Kind::Bench { .. } | Kind::Tiny { .. } => 1,
        Kind::Demo => demo::HOSTS.len(),
    }
}

/// Number of a generated page; `/` is page 0.
fn page_number(path: &str, prefix: &str) -> Option<usize> {
    if path == "/" {
        return Some(0);
    }
    let digits = path.strip_prefix(prefix)?;
    // `007` would be a duplicate URL.
    if digits.starts_with(['0', '+']) {
        return None;
    }
    digits.parse().ok()
}
