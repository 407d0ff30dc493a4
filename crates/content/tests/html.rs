//! HTML parser: text, links and metadata.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use crawlway_content::html::Robots;
use crawlway_content::{NormalUrl, Page, ParseOptions, parse};

fn page_with(html: &str, options: &ParseOptions) -> Page {
    let base: NormalUrl = "https://example.com/dir/page.html?q=1".parse().unwrap();
    parse(html, &base, options)
}

fn page(html: &str) -> Page {
    page_with(
        html,
        &ParseOptions { full_text: true, agent: Some("Crawlway".to_owned()), ..ParseOptions::default() },
    )
}

/// All visible text with line breaks as `|`.
fn visible(html: &str) -> String {
    page(html).full_text.unwrap().replace('\n', "|")
}

fn links(html: &str) -> Vec<String> {
    page(html).links.into_iter().map(|link| link.url.into_string()).collect()
}

#[test]
fn entities_are_decoded() {
    assert_eq!(
        visible("<p>a &amp; b &lt;c&gt; &eacute;&#233;&#xE9; &notin; &copy 2020 &unknown; &#0; &"),
        "a & b <c> ééé ∉ © 2020 &unknown; \u{fffd} &"
    );
}

#[test]
fn white_space_and_invisible_characters() {
    assert_eq!(visible("<p> a\t\nb&nbsp;&nbsp;c&#8203;d&shy;e &#x3000; f "), "a b cde f");
}

#[test]
fn block_boundaries_separate_and_inline_ones_do_not() {
    assert_eq!(visible("<div>a</div><div>b</div>c<b>d</b>e<p>f"), "a|b|cde|f");
    assert_eq!(visible("one<br>two<hr>three"), "one|two|three");
    assert_eq!(visible("<span>Size</span><span>XL</span>"), "Size XL");
    assert_eq!(visible("<ul><li>a<li>b</ul>"), "a|b");
}

#[test]
fn scripts_and_styles_are_no_text() {
    let html = "a<script>if (a</b>) '</p>' </script>b<style>p{}</style>c<template><p>d</template>e\
        <noscript>f<p>g</noscript>h<iframe>i</iframe>j<textarea>k</textarea>l<object>m</object>n<video>o</video>p";
    assert_eq!(visible(html).replace('|', ""), "abcehjlnp");
}

#[test]
fn a_script_may_contain_end_tags() {
    assert_eq!(visible("<script><!-- <script> </script> --></script>x"), "x");
    assert_eq!(visible("<style></p></style><p>y</p>"), "y");
}

#[test]
fn comments_and_cdata() {
    assert_eq!(visible("a<!-- b --><!doctype x>c<![CDATA[d]]>e<!-->f<!--g"), "acef");
    assert_eq!(visible("<svg><![CDATA[</svg>]]></svg>a"), "a");
}

#[test]
fn the_title_is_the_pages_own() {
    assert_eq!(
        page("<svg><title>icon</title></svg><title> The\n page </title><title>other</title>").title,
        "The page"
    );
    assert_eq!(page("<title></title><body><title>Second &amp; last</title>").title, "Second & last");
    assert_eq!(page("<p>none").title, "");
    assert_eq!(page("<title>a<b>c</title>").title, "a<b>c");
    assert_eq!(page("<template><title>t</title></template>").title, "");
}

#[test]
fn description_language_and_canonical() {
    let found = page(
        "<html lang=' en-GB '><meta name=Description content=' A  page '><meta property=og:description content=other>\
         <link rel='alternate canonical' href='../Canon?b=1#x'>",
    );
    assert_eq!(found.description.as_deref(), Some("A page"));
    assert_eq!(found.language.as_deref(), Some("en-GB"));
    assert_eq!(found.canonical.unwrap().as_str(), "https://example.com/Canon?b=1");
    let found = page("<meta property=og:description content=x><meta property=og:locale content=pt_BR>");
    assert_eq!((found.description.as_deref(), found.language.as_deref()), (Some("x"), Some("pt-BR")));
    let found =
        page("<html lang='<script>'><link rel=canonical href='mailto:x'><meta name=description content=''>");
    assert_eq!((found.description, found.language, found.canonical), (None, None, None));
}

#[test]
fn robots_directives() {
    let robots = |html: &str| page(html).robots;
    assert_eq!(
        robots("<meta name=ROBOTS content='NoIndex, follow'>"),
        Robots { noindex: true, nofollow: false }
    );
    assert_eq!(robots("<meta name=robots content=none>"), Robots { noindex: true, nofollow: true });
    assert_eq!(robots("<meta name=crawlway content=nofollow>"), Robots { noindex: false, nofollow: true });
    assert_eq!(robots("<meta name=otherbot content=noindex>"), Robots::default());
    assert_eq!(robots("<meta name=robots content='index,follow'>"), Robots::default());
}

#[test]
fn links_are_absolute_and_normal() {
    assert_eq!(
        links(
            "<a href=x>1</a><a href='/Y?'>2</a><a href='//H.example:80/'>3</a><a href='#top'>4</a>\
             <a href='mailto:a@b'>5</a><a href='javascript:x()'>6</a><a>7</a><a href=' ../z '>8</a><area href=map>\
             <a href='?p=2&amp;q=3'>9</a><a href='http://u:p@h/'>10</a>"
        ),
        [
            "https://example.com/dir/x",
            "https://example.com/Y",
            "https://h.example:80/",
            "https://example.com/z",
            "https://example.com/dir/map",
            "https://example.com/dir/page.html?p=2&q=3",
        ]
    );
}

#[test]
fn the_first_base_counts_for_all_links() {
    let html = "<a href=a>1</a><base target=x><base href='/other/'><base href='/third/'><a href=b>2</a>";
    assert_eq!(links(html), ["https://example.com/other/a", "https://example.com/other/b"]);
    assert_eq!(links("<base href='javascript:1'><a href=b>"), ["https://example.com/dir/b"]);
}

#[test]
fn rel_and_text_of_links() {
    let found = page(
        "<a href=a rel='NoFollow ugc noopener'> The <b>anchor</b>\n<div>text</div></a><a rel=next href=b>n<a href=c>m",
    );
    let shapes: Vec<_> = found
        .links
        .iter()
        .map(|link| (link.text.as_str(), link.rel.nofollow, link.rel.ugc, link.rel.next))
        .collect();
    assert_eq!(
        shapes,
        [("The anchor text", true, true, false), ("n", false, false, true), ("m", false, false, false)]
    );
}

#[test]
fn links_in_noscript_count_and_in_templates_do_not() {
    assert_eq!(
        links(
            "<noscript><a href=a>x</a></noscript><template><a href=b>y</a><template></template><a href=b2></template><a href=c>z</a>"
        ),
        ["https://example.com/dir/a", "https://example.com/dir/c"]
    );
}

#[test]
fn hidden_text_is_dropped() {
    let html = "<p>seen</p><p hidden>a</p><div style='color:red;display:none'><p>b</div><div aria-hidden=true>c</div>\
        <p>also <span hidden>d</span><span class='x sr-only'>e</span>seen</p><p hidden=until-found>found</p>";
    assert_eq!(visible(html), "seen|also seen|found");
    assert_eq!(page("<div style='visibility:hidden'><p>Only this is here</div>").text, "Only this is here");
}

#[test]
fn controls_are_visible_but_no_content() {
    let found = page("<p>Text.</p><button>Buy</button><select><option>A<option>B</select>");
    assert_eq!(found.full_text.unwrap().replace('\n', "|"), "Text.|Buy|A|B");
    assert_eq!(found.text, "Text.");
}

#[test]
fn tables_nested_and_unclosed() {
    let html = "<table><tr><td>a<table><tr><td>b<td>c</table>d<td>e<tr><th>f</table>g";
    assert_eq!(visible(html), "a|b|c|d|e|f|g");
    assert_eq!(visible("<table><tr><td>a</div></p></td><td>b</table>"), "a|b");
}

#[test]
fn misnested_and_unclosed_tags() {
    assert_eq!(visible("<b><p>a</b>b</p>c"), "ab|c");
    assert_eq!(visible("<p>a<div>b</p>c"), "a|b|c");
    assert_eq!(visible("</div></p>a</span></b>b"), "ab");
    assert_eq!(visible("<div><div><div>a"), "a");
    assert_eq!(visible("a<"), "a<");
    assert_eq!(visible("a<b"), "a");
    assert_eq!(visible("a<b c='d"), "a");
    assert_eq!(visible("a < b <3"), "a < b <3");
}

#[test]
fn code_keeps_its_lines() {
    assert_eq!(visible("<pre>\nfn main() {\n    x();\n}</pre>"), "fn main() {|x();|}");
    assert_eq!(visible("<pre><span>fn</span><span>main</span></pre>"), "fnmain");
}

#[test]
fn heading_suffixes_are_trimmed() {
    assert_eq!(
        visible("<h2>History <span>[<a href=e>edit</a>]</span></h2><h2>API<a href='#api'>¶</a></h2>"),
        "History|API"
    );
    assert_eq!(visible("<h2><a href=x>Whole link</a></h2>"), "Whole link");
}

#[test]
fn other_scripts_stay_as_they_are() {
    assert_eq!(
        visible("<p dir=rtl>שלום&rlm; <b>עולם</b></p><p>東京　タワー</p><p>می‌خواهم</p>"),
        "שלום עולם|東京 タワー|می\u{200c}خواهم"
    );
}

#[test]
fn there_are_at_most_ten_thousand_links() {
    let found = page(&"<a href=x>y</a>".repeat(10_003));
    assert_eq!((found.links.len(), found.dropped_links), (10_000, 3));
}

#[test]
fn deep_nesting_keeps_the_text() {
    let html = format!("{}deep{}after", "<div>".repeat(5000), "</div>".repeat(5000));
    assert_eq!(visible(&html), "deep|after");
    let html = format!("{}<script>no</script>deep", "<b>".repeat(5000));
    assert_eq!(visible(&html), "deep");
}
