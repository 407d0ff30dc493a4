//! `slow.localhost`: a travel journal on a host that takes its time.

use super::{SLOW, slug, styled};
use crate::{
    draft::{Draft, Place},
    html::Link,
};
use std::time::Duration;

const DELAY: Duration = Duration::from_millis(400);

const DAYS: [(&str, &str); 12] = [
    (
        "On foot to the border",
        "We left before sunrise with two apples and a map on which our village is misspelled. By noon the road had become a path.",
    ),
    (
        "The ferryman",
        "There is no bridge for thirty kilometres. One rings a bell, waits, and after a while an old man rows over and asks for news.",
    ),
    (
        "A day without walking",
        "It rained. We mended socks, played chess with olives and listened to the roof.",
    ),
    (
        "The monastery of clocks",
        "The monks repair clocks for the whole valley. At twelve it strikes for a quarter of an hour.",
    ),
    (
        "Over the pass",
        "Snow lay in the shade although it was June. At the top a tin box holds a book in which everybody writes one line.",
    ),
    (
        "The village of bakers",
        "Four bakeries for two hundred people, and each of them says that the others use too much salt.",
    ),
    ("Donkeys", "We hired a donkey called Minister. He carried the tent and had an opinion about bridges."),
    (
        "The salt road",
        "Traders carried salt along this road for a thousand years. Their steps are worn into the rock.",
    ),
    (
        "The night in the lighthouse",
        "The keeper gave us soup and the lamp room. We slept in a light that swept over forty kilometres of sea.",
    ),
    (
        "The slow train",
        "The train stops wherever somebody waves. In four hours it covered sixty kilometres, and nobody minded.",
    ),
    ("The island", "Nine houses, one telephone, and a library in a boat. We stayed for three days."),
    ("Home", "The way back took five hours by bus. Nothing had changed, except that we walked more slowly."),
];

pub(super) fn fill(draft: &mut Draft) {
    draft.hosts[SLOW].delay = DELAY;
    draft.robots(SLOW, "User-agent: *\nDisallow:\nCrawl-delay: 0.5\n");
    let path = |day: usize| format!("/day-{}-{}", day + 1, slug(DAYS[day].0));
    let mut links = Vec::new();
    for (day, (title, text)) in DAYS.into_iter().enumerate() {
        let mut around = vec![Link::to("/", "Slow travel")];
        if day + 1 < DAYS.len() {
            around.push(Link::to(path(day + 1), DAYS[day + 1].0));
        }
        let paragraphs =
            vec![text.to_owned(), format!("Day {} of twelve, written the same evening.", day + 1)];
        draft.page(
            &Place::new(SLOW, path(day)),
            &styled(format!("{title} (day {})", day + 1), paragraphs, around),
            None,
        );
        links.push(Link::to(path(day), title));
    }
    let lead =
        "Twelve days on foot, by donkey, by ferry and by the slowest train. The server is a donkey too.";
    draft.page(&Place::new(SLOW, "/"), &styled("Slow travel", vec![lead.to_owned()], links), None);
}
