//! Main-content extraction on small pages of several kinds, with snapshots.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use crawlway_content::{NormalUrl, Page, ParseOptions, parse};

fn page(html: &str) -> Page {
    let base: NormalUrl = "https://example.com/a/page".parse().unwrap();
    parse(html, &base, &ParseOptions::default())
}

const PROSE: &str = "<p>The ferry left the pier at nine, an hour late, with forty passengers and a goat on board.</p>\
    <p>Nobody could say whose goat it was. It had walked up the ramp behind the post van, and there it stayed.</p>\
    <p>By noon the wind had turned, and the captain, who had seen worse, went below to make the tea.</p>";

#[test]
fn article_among_everything_that_surrounds_it() {
    let html = format!(
        "<!doctype html><html lang=en><title>A goat on the ferry | The Gazette</title><body>\
         <header><a href=/>The Gazette</a><nav><ul><li><a href=/news>News</a><li><a href=/sport>Sport</a></ul></nav></header>\
         <div class=breadcrumbs><a href=/>Home</a> / <a href=/news>News</a></div>\
         <main><article><header><h1>A goat on the ferry</h1><p class=byline>By Ada Reed, 3 May</p></header>{PROSE}\
         <div class=share-buttons>Share: <a href=#>Mail</a></div>\
         <aside><h3>Related</h3><ul><li><a href=/1>Sheep on the bus</a><li><a href=/2>Cow in the bank</a></ul></aside>\
         <div class=ad-slot>Buy our cheese, the best in town, while stocks last!</div></article>\
         <section id=comments><h3>2 comments</h3><p>Goats are fine sailors, I always said so, and now you see it.</p></section></main>\
         <footer><p>© 2026 The Gazette. All rights reserved.</p></footer>\
         <div class=cookie-banner>We use cookies. <button>Accept</button></div></body></html>"
    );
    insta::assert_debug_snapshot!(page(&html));
}

#[test]
fn article_without_any_names() {
    let menu: String = (0..30).map(|n| format!("<div><a href=/{n}>Entry {n}</a></div>")).collect();
    let html = format!(
        "<title>A goat on the ferry - Gazette</title><div><div>{menu}</div><div><div>A goat on the ferry</div><div>{PROSE}</div></div>\
         <div><div>Have you seen this? <a href=/x>Prizes</a></div></div></div>"
    );
    insta::assert_snapshot!(page(&html).text);
}

#[test]
fn a_page_of_links_is_content() {
    let entries: String =
        (0..20).map(|n| format!("<li><a href=/doc/{n}>Minutes of meeting {n}</a></li>")).collect();
    let html = format!(
        "<title>Minutes</title><nav><a href=/>Home</a></nav><main><h1>Minutes</h1><ul>{entries}</ul></main>"
    );
    let text = page(&html).text;
    assert!(text.starts_with("Minutes\nMinutes of meeting 0\n"), "{text}");
    assert_eq!(text.lines().count(), 21);
}

#[test]
fn documentation_keeps_code_and_notes() {
    let html = "<title>Reading files</title><nav class=toc><a href=#a>Opening</a><a href=#b>Closing</a></nav>\
        <main><h1>Reading files<a class=headerlink href=#x>¶</a></h1><p>To read a file, open it first, and close it when done.</p>\
        <pre><code>let f = open(path);\nclose(f);</code></pre><aside class='admonition note'><p>Closing twice is harmless, but it is a sign of confusion.</p></aside>\
        <p>Errors are returned, never thrown, so check them.</p><nav><a href=/prev>Previous</a><a href=/next>Next</a></nav></main>";
    insta::assert_snapshot!(page(html).text);
}

#[test]
fn product_page_keeps_price_and_table() {
    let html = format!(
        "<title>Blue kettle | Shop</title><header>Shop <a href=/cart>Cart</a></header><main><h1>Blue kettle</h1><div class=price>£48.00</div>\
         <form><label>Colour</label><select><option>Blue</select><button>Add to basket</button></form>{PROSE}\
         <table><tr><th>Volume<td>1.4 l<tr><th>Weight<td>1.1 kg</table>\
         <section class=recommendations><h2>You may also like</h2><a href=/1>Red kettle</a><a href=/2>Green kettle</a></section></main>"
    );
    insta::assert_snapshot!(page(&html).text);
}

#[test]
fn a_form_around_the_page_is_content() {
    let html = format!(
        "<title>Old page</title><form id=aspnetForm><div class=content><h1>Old page</h1>{PROSE}</div></form>"
    );
    assert!(page(&html).text.contains("whose goat it was"));
}

#[test]
fn unspaced_scripts_are_measured_too() {
    let html = "<title>港の朝 | 町の新聞</title><div class=menu><a href=/1>天気</a><a href=/2>暮らし</a><a href=/3>催し</a></div>\
        <div class=kiji><h1>港の朝</h1><p>船は九時に港を出た。四十人の客と、一頭の山羊が乗っていた。</p><p>山羊が誰のものか、知る人はいなかった。郵便車のあとから歩いて乗り込み、そのまま居座ったのである。</p></div>\
        <div class=footer>© 2026 町の新聞</div>";
    insta::assert_snapshot!(page(html).text);
}

#[test]
fn empty_pages_have_no_text() {
    for html in ["", " ", "<html></html>", "<script>x</script>", "<p></p>", "<!-- x -->"] {
        assert_eq!(page(html).text, "", "{html:?}");
        assert_eq!(page(html).simhash, 0);
    }
}

#[test]
fn a_thread_of_comments_is_content() {
    let comments: String = (0..5)
        .map(|n| format!("<div class=comment><a href=/u{n}>user{n}</a><p>Comment number {n} says that the goat was fine, and so were we.</p></div>"))
        .collect();
    let text = page(&format!("<title>A goat</title><h1>A goat</h1><div id=comments>{comments}</div>")).text;
    assert_eq!(text.matches("says that the goat was fine").count(), 5, "{text}");
    assert!(text.contains("user3"), "{text}");
}

#[test]
fn a_heading_with_a_button_is_a_heading() {
    let html = "<title>Questions</title><h1>Questions</h1><div><h3 class=accordion-header><button>May goats board?</button></h3>\
        <div>They may, on a lead, if the captain does not mind, and he has never been heard to mind.</div></div>";
    assert!(page(html).text.contains("May goats board?"));
}

#[test]
fn repeated_links_are_dropped_from_an_index() {
    let posts: String = (0..4)
        .map(|n| format!("<article><h2><a href=/{n}>Post {n}</a></h2><p>Goats again, and more of them.</p><a href=/{n}>Read on</a></article>"))
        .collect();
    let text = page(&format!("<title>Blog</title><main>{posts}</main>")).text;
    assert!(text.contains("Post 2") && !text.contains("Read on"), "{text}");
}
