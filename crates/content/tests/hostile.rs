//! Hostile input: time must be linear.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::time::Duration;

use crawlway_content::{NormalUrl, Page, ParseOptions, parse};
use rustix::time::{ClockId, clock_gettime};

fn page(html: &str) -> Page {
    let base: NormalUrl = format!("https://example.com/{}", "d/".repeat(1000)).parse().unwrap();
    parse(html, &base, &ParseOptions { full_text: true, ..ParseOptions::default() })
}

/// CPU time of this thread, independent of other load.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap())
}

/// Each input has about 1 MB. Linear time is at most a second, even unoptimised, and quadratic time many minutes; the limit is
/// far from both.
#[test]
fn time_is_linear() {
    let repeated = |piece: &str| piece.repeat(1_000_000 / piece.len());
    let opened = |piece: &str| {
        let count = 500_000 / piece.len();
        format!("{}{}", piece.repeat(count), "</div></b></p></zz>".repeat(count / 4))
    };
    for (name, html) in [
        ("unclosed blocks", repeated("<div>")),
        ("unclosed inline", repeated("<b>")),
        ("unclosed with text", repeated("<p>x<b>y")),
        ("unclosed unknown", repeated("<zz>")),
        ("end tags only", repeated("</div></b>")),
        ("opened then closed", opened("<div><b>")),
        ("unknown against end tags", opened("<zz><div>")),
        ("lists", repeated("<ul><li>x")),
        ("tables", repeated("<table><tr><td>x")),
        ("cells", repeated("<td>x")),
        ("templates", repeated("<template>")),
        ("noscript", repeated("<noscript>x")),
        ("svg", repeated("<svg><title>")),
        ("links", repeated("<a href=x>y")),
        ("headings", repeated("<h2>x")),
        ("cues", repeated("<div><h3>Related</h3>x")),
        ("cues in one part", format!("<div>{}", repeated("<h3>Related</h3><p>x"))),
        ("cues in a row", repeated("<h3>Related</h3><p>x")),
        ("cards", repeated("<div class=c><a href=x>y</a><p>z</p></div>")),
        ("posts", repeated("<div class=p><b>x</b><p>Posts: 1</p><p>a b c d e f g h i j k.</p></div>")),
        ("nested posts", repeated("<div><p>Joined x<p>Posts: 1<p>a b c d e f g h i j k.")),
        ("posts in tables", repeated("<table><tr><td>x<td>Posts: 1<tr><td>a, b c d e f g h i j k.")),
        ("stars", repeated("<div>★<p>x")),
        ("stars in one part", format!("<div>{}", repeated("<p>★★★</p><p>x</p>"))),
        ("mail fields", repeated("<div><input type=email>x")),
        ("mail fields in a row", repeated("<p>x<input type=email></p>")),
        (
            "lists in text",
            repeated("<p>x:</p><ul><li><a href=x>y</a><li><a href=x>y</a><li><a href=x>y</a></ul>"),
        ),
        (
            "bylines",
            format!(
                "<title>x</title><h1>x</h1><p>Ada Reed</p>{}",
                repeated("<div><p>Ada Reed</p><p>x</div>")
            ),
        ),
        ("custom elements", repeated("<x-a href=x>y")),
        ("custom against end tags", opened("<x-a><div>").replace("</zz>", "</x-a>")),
        ("line breaks", repeated("x<br><br>")),
        ("numbers", repeated("<p>1</p><p>x</p>")),
        ("entities", repeated("&amp;&notanentity;&#1;")),
        ("ampersands", repeated("&")),
        ("angles", repeated("<")),
        ("comments", repeated("<!--")),
        ("scripts", repeated("<script></scrip")),
        ("cdata", format!("<svg>{}", repeated("<![CDATA["))),
        ("one attribute", format!("<a href=\"{}\" class=\"{}\">x</a>", repeated("x"), repeated("y "))),
        ("attributes", format!("<a {}>x", repeated("a=b "))),
        ("long tag name", format!("<{}>", repeated("x"))),
        ("title", format!("<title>{}", repeated("x"))),
        ("spaces", repeated(" \n")),
        ("one word", repeated("x")),
        ("han", repeated("漢")),
        ("forms", repeated("<form><select><option>x")),
        ("paragraphs in buttons", repeated("<button><p>x")),
        ("anchors in headings", repeated("<h1><a href=#>[")),
        ("bases", repeated("<base href=//x/y/>")),
        ("metas", repeated("<meta name=robots content=noindex>")),
    ] {
        let start = cpu_time();
        let found = page(&html);
        let took = cpu_time() - start;
        assert!(took < Duration::from_secs(30), "{name} took {took:?} of CPU time");
        assert!(found.text.len() <= html.len() * 2, "{name} grew");
    }
}

#[test]
fn links_do_not_multiply_the_base() {
    let found = page(&"<a href=x>y</a>".repeat(100_000));
    assert_eq!(found.links.len() + found.dropped_links, 100_000);
    assert!(found.links.iter().map(|link| link.url.as_str().len()).sum::<usize>() < 50 << 20);
}
