//! `slow.localhost`: a travel journal on a slow host.

use super::{SLOW, columns, slug, styled};
use crate::{
    draft::{Draft, Place},
    html::Link,
};
use std::time::Duration;

const DELAY: Duration = Duration::from_millis(400);

/// Title and text of each day.
const DAYS: &str = include_str!("texts/journal.tsv");

pub(super) fn fill(draft: &mut Draft) {
    draft.hosts[SLOW].delay = DELAY;
    draft.robots(SLOW, "User-agent: *\nDisallow:\nCrawl-delay: 0.5\n");
    let days: Vec<[&str; 2]> = DAYS.lines().map(columns).collect();
    let path = |day: usize| format!("/day-{}-{}", day + 1, slug(days[day][0]));
    let mut links = Vec::new();
    for (day, [title, text]) in days.iter().enumerate() {
        let mut around = vec![Link::to("/", "Slow travel")];
        if day + 1 < days.len() {
            around.push(Link::to(path(day + 1), days[day + 1][0]));
        }
        let paragraphs =
            vec![(*text).to_owned(), format!("Day {} of twelve, written the same evening.", day + 1)];
        draft.page(
            &Place::new(SLOW, path(day)),
            &styled(format!("{title} (day {})", day + 1), paragraphs, around),
            None,
        );
        links.push(Link::to(path(day), *title));
    }
    let lead =
        "Twelve days on foot, by donkey, by ferry and by the slowest train. The server is a donkey too.";
    draft.page(&Place::new(SLOW, "/"), &styled("Slow travel", vec![lead.to_owned()], links), None);
}
