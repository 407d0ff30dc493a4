//! Errors of the crash web: gone, failing at first, failing always, cut off.

use super::{Crash, HOSTS};
use crate::{
    answer::{Answer, Trouble},
    draft::Place,
};
use hyper::StatusCode;

pub(super) fn add(crash: &mut Crash<'_>) {
    for status in [StatusCode::NOT_FOUND; 10].into_iter().chain([StatusCode::GONE; 2]) {
        let place = crash.place("/gone/{}");
        crash.draft.status(&place, status);
        crash.hang(&place, "What was there");
    }
    for number in 0..8 {
        // The first half answers at the second try, the others at the third.
        let place = crash.place("/moody/{}");
        let trouble = Trouble::Status(StatusCode::INTERNAL_SERVER_ERROR);
        moody(crash, &place, trouble, 1 + number / 4);
    }
    let broken = crash.place("/broken/{}");
    crash.draft.failing(&broken, Trouble::Status(StatusCode::INTERNAL_SERVER_ERROR));
    crash.hang(&broken, "Always broken");

    moody(crash, &Place::new(HOSTS, "/cut-off-once"), Trouble::Reset, 1);
    let cut_off = Place::new(HOSTS, "/cut-off");
    crash.draft.failing(&cut_off, Trouble::Reset);
    crash.hang(&cut_off, "Always cut off");
}

/// A page that fails so often and then answers.
fn moody(crash: &mut Crash<'_>, place: &Place, trouble: Trouble, times: u32) {
    let article = crash.ordinary_article();
    let links = crash.ways_back();
    let answer = Answer::html(article.html(links).render()).conditional(0);
    crash.draft.put_with(place, answer, Some((trouble, times)));
    crash.draft.expect(place, &article.title, Some(article.word), None);
    crash.hang(place, "Try again");
}
