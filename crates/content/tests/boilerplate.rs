//! Boilerplate removal, rule by rule, on small pages.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use crawlway_content::{NormalUrl, ParseOptions, parse};

fn text(html: &str) -> String {
    let base: NormalUrl = "https://example.com/a/page".parse().unwrap();
    parse(html, &base, &ParseOptions::default()).text
}

const PROSE: &str = "<p>The ferry left the pier at nine, an hour late, with forty passengers and a goat on board.</p>\
    <p>Nobody could say whose goat it was. It had walked up the ramp behind the post van, and there it stayed.</p>\
    <p>By noon the wind had turned, and the captain, who had seen worse, went below to make the tea.</p>";

#[test]
fn names_of_custom_elements_are_hints() {
    let text = text(&format!(
        "<title>A goat</title><x-app><x-menu><x-link href=/1>News</x-link><x-link href=/2>Sport</x-link></x-menu>\
         <x-story><x-title>A goat</x-title><x-text>Seen <x-time>on Monday</x-time> at the pier.</x-text>{PROSE}\
         <x-buy-button>Buy a goat</x-buy-button></x-story><x-footer><p>Made in a shed, with tea.</p></x-footer></x-app>"
    ));
    assert!(text.contains("Seen on Monday at the pier."), "{text}");
    assert!(text.starts_with("A goat\nSeen"), "{text}");
    for other in ["News", "Buy", "shed"] {
        assert!(!text.contains(other), "{other}: {text}");
    }
}

#[test]
fn two_line_breaks_separate_paragraphs() {
    let text = text("<title>x</title><div>The first one,<br>in two lines.<br><br>The second one.</div>");
    assert_eq!(text, "The first one,\nin two lines.\nThe second one.");
}

#[test]
fn button_rows_are_dropped_but_not_sentences_or_times() {
    let text = text(&format!(
        "<title>A goat</title><div><h1>A goat</h1><div>06:41 PM</div><div><span>Share</span><span>Save</span></div>{PROSE}\
         <div>reply | parent</div><div>Share what you have.</div></div>"
    ));
    assert!(!text.contains("Save") && !text.contains("parent"), "{text}");
    assert!(text.contains("06:41 PM") && text.contains("Share what you have."), "{text}");
}

#[test]
fn the_name_in_an_author_box_stays() {
    let posts: String = ["Ada", "Bo", "Cy"]
        .iter()
        .map(|name| {
            format!(
                "<div class=p><div class=l><b>{name}</b> <span>Regular</span><p>Posts: 41</p><p>Joined: May 2009</p></div>\
                 <div class=r><p>3 May, 18:20</p><p>{name} says that the goat was fine, and that the sea was not.</p><p>7 points</p></div></div>"
            )
        })
        .collect();
    let text = text(&format!("<title>A goat</title><div><h1>A goat</h1>{posts}</div>"));
    assert!(text.contains("Ada\n3 May, 18:20\nAda says"), "{text}");
    for other in ["Regular", "Posts", "Joined", "points"] {
        assert!(!text.contains(other), "{other}: {text}");
    }
}

#[test]
fn the_heading_of_a_thread_may_be_a_link() {
    let posts: String = (0..4)
        .map(|n| format!("<tr><td><table><tr><td><a>▲</a></td><td><div><a>user{n}</a> <a>{n} hours ago</a></div><div>The goat was fine, said number {n}, and so were we.</div></td></tr></table></td></tr>"))
        .collect();
    let text = text(&format!(
        "<title>A goat on the ferry | Boards</title><table><tr><td><a href=/>Boards</a> <a href=/n>new</a> <a href=/o>old</a></td></tr>\
         <tr><td><table><tr><td><a href=//x.example>A goat on the ferry</a> (x.example)</td></tr><tr><td><div>It stood there, all the way, and said nothing.</div></td></tr></table>\
         <table>{posts}</table></td></tr></table>"
    ));
    assert!(text.starts_with("A goat on the ferry"), "{text}");
    assert!(text.contains("all the way") && text.contains("user3 3 hours ago"), "{text}");
    assert!(!text.contains("new"), "{text}");
}

#[test]
fn links_in_a_layout_table_are_no_data() {
    let text = text(&format!(
        "<title>A goat</title><table role=presentation><tr><td><h1>A goat</h1>{PROSE}</td></tr>\
         <tr><td><a href=/1>Issue 1</a> <a href=/3>Issue 3</a></td></tr></table>"
    ));
    assert!(text.contains("whose goat") && !text.contains("Issue"), "{text}");
}

#[test]
fn e_mail_forms_are_dropped() {
    let text = text(&format!(
        "<title>A goat</title><div><h1>A goat</h1>{PROSE}<div><b>The goat letter</b><div>All that goats did, every Friday.</div><div><input type=email></div></div></div>"
    ));
    assert!(text.contains("make the tea") && !text.contains("Friday"), "{text}");
}

#[test]
fn reviews_are_an_appendix() {
    let text = text(&format!(
        "<title>Goat</title><div><h1>Goat</h1>{PROSE}</div><div><div><p>★★★★★</p><p>Came on time, eats well, and does not smell much.</p></div>\
         <div><p>★★</p><p>Ate the curtains, and then it ate the cord as well.</p></div></div>"
    ));
    assert!(!text.contains("on time, eats") && !text.contains("curtains"), "{text}");
}

#[test]
fn lists_of_links_in_the_text_stay() {
    let text = text(&format!(
        "<title>Calls</title><div><h1>Calls</h1>{PROSE}<p>These can be made again:</p><ul><li><a href=/g>get</a><li><a href=/l>list</a><li><a href=/p>put</a></ul>\
         <p>All others cannot.</p></div>"
    ));
    assert!(text.contains("get\nlist\nput"), "{text}");
}

#[test]
fn entries_of_a_link_and_a_remark_stay() {
    let text = text(
        "<title>Links of the week</title><div><h1>Links of the week</h1><p>A thin week for goats, but a fat one for ferries, and a few for those who like neither.</p>\
         <p><a href=/1>Why the ferry was late, and why it will be</a><br>Long, but worth it, and with pictures of the whole crew.</p>\
         <p><a href=/2>The goat, in its own words, as told to us</a><br>You were warned.</p><p><a href=/3>A map of all piers</a><br>With most of the piers, at a scale that fits on a wall.</p></div>",
    );
    assert!(text.contains("The goat, in its own words") && text.contains("You were warned."), "{text}");
}

#[test]
fn author_boxes_are_dropped() {
    let text = text(&format!(
        "<title>A goat</title><div><h1>A goat</h1><div>By Ada Reed</div>{PROSE}<div><div>Ada Reed</div><div>Ada covers the piers and lives with two dogs.</div></div></div>"
    ));
    assert!(text.contains("By Ada Reed") && !text.contains("two dogs"), "{text}");
}

#[test]
fn single_numbers_are_dropped_and_tables_without_markup_stay() {
    let votes = text(&format!("<title>A goat</title><div><h1>A goat</h1><div>31</div>{PROSE}</div>"));
    assert!(!votes.contains("31"), "{votes}");
    let rows: String = (0..9).map(|n| format!("<div>Goat {n}</div><div>{n}</div><div>4</div>")).collect();
    let table = text(&format!("<title>Goats</title><div><h1>Goats</h1>{rows}</div>"));
    assert!(table.contains("Goat 3\n3\n4"), "{table}");
}

#[test]
fn post_numbers_are_trimmed() {
    let text = text(&format!(
        "<title>A goat</title><div><h1>A goat</h1><div>3 May <a href=#p12>#12</a></div>{PROSE}</div>"
    ));
    assert!(text.contains("3 May\n"), "{text}");
}

#[test]
fn a_class_of_most_paragraphs_is_no_boilerplate() {
    let paragraph = |n: usize| {
        format!(
            "<p class='paywall'>Paragraph {n} of the report goes on for a while, with clauses, and with some facts in it.</p>"
        )
    };
    let body: String = (0..8).map(paragraph).collect();
    let text = text(&format!("<title>The report</title><h1>The report</h1><div>{body}</div>"));
    assert!(text.contains("Paragraph 0") && text.contains("Paragraph 7"), "{text}");
}

#[test]
fn posts_with_an_author_class_are_posts() {
    let post = |n: usize| {
        format!(
            "<div class='message'><div class='message-userContent'>Post number {n} explains, at some length, how the stove was \
             lit, and why it smoked.</div></div>"
        )
    };
    let posts: String = (0..4).map(post).collect();
    let text = text(&format!("<title>Smoking stove</title><h1>Smoking stove</h1>{posts}"));
    assert!(text.contains("Post number 0") && text.contains("Post number 3"), "{text}");
}

#[test]
fn a_long_discussion_of_a_short_opening_stays() {
    let opening = "<p>I found the hive quiet this morning, with a pile of bees on the board, and wonder what it is.</p>";
    let comment = |n: usize| {
        format!(
            "<div class='comment'><p>Answer {n} says that it is poisoning, most likely, and tells in detail what to do about it now.</p></div>"
        )
    };
    let comments: String = (0..6).map(comment).collect();
    let text = text(&format!(
        "<title>Quiet hive</title><h1>Quiet hive</h1><div>{opening}</div><div class='comments'>{comments}</div>"
    ));
    assert!(text.contains("I found the hive") && text.contains("Answer 5"), "{text}");
}

#[test]
fn an_index_of_teasers_under_a_lead_is_the_content() {
    let teaser = |n: usize| {
        format!(
            "<div class='card'><h3><a href='/{n}'>Story number {n} about energy</a></h3><p>What the story number {n} is about, told in a \
             sentence or so.</p></div>"
        )
    };
    let teasers: String = (0..8).map(teaser).collect();
    let lead = "<p>The grid had its hardest week in years, and the bills that follow will be felt well into the next winter, say those who \
                run it. We look at what went wrong, who pays, and what could be done before the cold comes back next year.</p>";
    let text = text(&format!("<title>Energy</title><main><h1>Energy</h1>{lead}<div>{teasers}</div></main>"));
    assert!(text.contains("The grid had") && text.contains("Story number 7"), "{text}");
}

#[test]
fn the_name_of_the_site_is_not_the_heading_of_the_thread() {
    let html = "<title>Hive went quiet overnight, what now : apiary</title>\
        <div><h1>apiary</h1><p>A friendly place for keepers. Please say where you live, since that matters a lot to everyone who answers.</p></div>\
        <div><p><a href='#'>Hive went quiet overnight, what now</a></p>\
        <p>Yesterday the hive was roaring, with pollen coming in by the bucket, and this morning at six it was silent, with the board black.</p>\
        <p>I lifted the lid, and there is a good cluster still, with eggs, and with stores that look fine to me for the time of the year.</p></div>";
    let text = text(html);
    assert!(text.contains("Yesterday the hive") && !text.contains("A friendly place"), "{text}");
}
