//! Redirects of the crash web: each status, chains, other hosts, a loop.

use super::{Crash, HOSTS};
use crate::{draft::Place, ground_truth::NotIndexed, response::PageResponse};
use hyper::StatusCode;

const STATUSES: [StatusCode; 4] = [
    StatusCode::MOVED_PERMANENTLY,
    StatusCode::FOUND,
    StatusCode::TEMPORARY_REDIRECT,
    StatusCode::PERMANENT_REDIRECT,
];

pub(super) fn add(crash: &mut Crash<'_>) {
    for status in STATUSES {
        // Chains of one to three redirects to a page without other links.
        for hops in 1..=3 {
            let mut places = Vec::new();
            for _ in 0..hops {
                places.push(crash.place("/moved/{}"));
            }
            let target = crash.place("/arrived/{}");
            crash.page(&target);
            places.push(target);
            crash.draft.redirects(status, &places);
            crash.link_twice(&places[0], "It has moved");
        }
        within_one_host(crash, status);
        to_an_ordinary_page(crash, status);
    }
    redirect_loop(crash);
}

fn within_one_host(crash: &mut Crash<'_>, status: StatusCode) {
    let from = crash.place("/old/{}?ref=1");
    let to = Place::new(from.host, crash.place("/new/{}").path);
    crash.page(&to);
    crash.draft.redirects(status, &[from.clone(), to]);
    crash.link_twice(&from, "An old address");
}

/// Two redirects to a page with other links, which must be indexed once.
fn to_an_ordinary_page(crash: &mut Crash<'_>, status: StatusCode) {
    let target = crash.ordinary[HOSTS + crash.random.below(crash.ordinary.len() - HOSTS)].clone();
    for _ in 0..2 {
        let from = crash.place("/short/{}");
        crash.draft.redirects(status, &[from.clone(), target.clone()]);
        crash.link_twice(&from, "A short address");
    }
}

fn redirect_loop(crash: &mut Crash<'_>) {
    let (one, other) = (crash.place("/circle/{}"), crash.place("/circle/{}"));
    for (from, to) in [(&one, &other), (&other, &one)] {
        let to = crash.draft.url(to);
        crash.draft.put(from, PageResponse::redirect(StatusCode::FOUND, &to));
        crash.draft.deny(from, NotIndexed::RedirectLoop);
    }
    crash.link_twice(&one, "Round and round");
}
