//! Cases: groups are independent, and handles share their state.

use super::fixture::*;

pub(super) async fn odd_names_are_kept_apart(t: Fixture<'_>) {
    let unique = group("odd");
    let long = "x".repeat(Group::MAX_BYTES - unique.as_str().len());
    let ends: Vec<String> = [
        "", "a", "A", "a ", "ä", "a\u{308}", "東京", "🦀", "a:b", "a/b", "{a}", "a'b", "a\"b", "a%b", "a*b",
        "a\\b", "%", "$1", "NULL",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([long.clone(), format!("{}y", &long[1..])])
    .collect();
    let mut groups = Vec::new();
    for end in &ends {
        let name = format!("{unique}{end}");
        groups.push(Group::new(&name).unwrap_or_else(|error| panic!("an odd name is a name: {error}")));
    }
    let mut held = Vec::new();
    for g in &groups {
        held.push(t.goes(g, &ALONE, &format!("`{g}` is a group of its own")).await);
    }
    for (g, permit) in groups.iter().zip(&held) {
        t.waits(g, &ALONE, "one is in flight").await;
        t.finish(permit, RequestOutcome::Success).await;
    }
    Group::new("").expect_err("an empty name is refused");
    Group::new(&"x".repeat(Group::MAX_BYTES + 1)).expect_err("a name too long is refused");
}
