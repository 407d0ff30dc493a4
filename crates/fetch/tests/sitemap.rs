//! Sitemap parser: valid, sloppy and hostile files.

use crawlway_fetch::sitemap::{
    ChangeFrequency, Child, Entry, Links, MAX_BYTES, MAX_URL_BYTES, MAX_URLS, Problem, Sitemap, SitemapError,
};
use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use std::io::Write;

fn parse(document: &str) -> Sitemap {
    Sitemap::parse(document.as_bytes(), None).expect("a sitemap")
}

fn refused(bytes: impl AsRef<[u8]>) -> SitemapError {
    Sitemap::parse(bytes.as_ref(), None).expect_err("no sitemap")
}

/// URLs of the listed pages.
fn locs(sitemap: &Sitemap) -> Vec<&str> {
    match &sitemap.links {
        Links::Urls(entries) => entries.iter().map(|entry| entry.loc.as_str()).collect(),
        Links::Index(_) => panic!("expected pages, found {sitemap:?}"),
    }
}

fn urlset(entries: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">{entries}</urlset>"
    )
}

fn loc(text: &str) -> String {
    urlset(&format!("<url><loc>{text}</loc></url>"))
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

#[test]
fn pages_with_all_fields() {
    let sitemap = parse(&urlset(
        "<url>
            <loc>https://a.example/1</loc><lastmod>2005-01-01</lastmod>
            <changefreq>monthly</changefreq><priority>0.8</priority>
         </url>
         <url><loc>https://a.example/2</loc><lastmod> 2004-12-23T18:00:15+00:00 </lastmod></url>
         <url><loc>https://a.example/3</loc><changefreq>Sometimes</changefreq><priority>7</priority></url>
         <url><priority>NaN</priority><lastmod/><loc>/relative</loc><changefreq>NEVER</changefreq></url>",
    ));
    let entry = |loc: &str| Entry { loc: loc.to_owned(), ..Entry::default() };
    let expected = vec![
        Entry {
            lastmod: Some("2005-01-01".to_owned()),
            changefreq: Some(ChangeFrequency::Monthly),
            priority: Some(0.8),
            ..entry("https://a.example/1")
        },
        Entry { lastmod: Some("2004-12-23T18:00:15+00:00".to_owned()), ..entry("https://a.example/2") },
        entry("https://a.example/3"),
        Entry { changefreq: Some(ChangeFrequency::Never), ..entry("/relative") },
    ];
    assert_eq!(sitemap, Sitemap { links: Links::Urls(expected), problems: vec![] });
    assert!(!sitemap.truncated());
}

#[test]
fn an_index_lists_sitemaps() {
    let sitemap = parse(
        "<sitemapindex xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>
            <sitemap><loc>https://a.example/1.xml.gz</loc><lastmod>2004-10-01</lastmod></sitemap>
            <sitemap><loc>https://a.example/index2.xml</loc></sitemap>
         </sitemapindex>",
    );
    let expected = vec![
        Child { loc: "https://a.example/1.xml.gz".to_owned(), lastmod: Some("2004-10-01".to_owned()) },
        Child { loc: "https://a.example/index2.xml".to_owned(), lastmod: None },
    ];
    assert_eq!(sitemap, Sitemap { links: Links::Index(expected), problems: vec![] });
}

#[test]
fn a_sitemap_may_be_empty() {
    assert_eq!(parse(&urlset("")), Sitemap { links: Links::Urls(vec![]), problems: vec![] });
    assert_eq!(parse("<urlset/>").links, Links::Urls(vec![]));
    assert_eq!(parse("<sitemapindex></sitemapindex>").links, Links::Index(vec![]));
}

#[test]
fn urls_are_trimmed_and_their_entities_resolved() {
    for (text, url) in [
        ("\n   https://a.example/  \r\n\t", "https://a.example/"),
        ("https://a.example/?a=1&amp;b=2", "https://a.example/?a=1&b=2"),
        ("https://a.example/&lt;&gt;&quot;&apos;", "https://a.example/<>\"'"),
        ("https://a.example/&#233;&#xE9;", "https://a.example/éé"),
        ("<![CDATA[https://a.example/?a=1&b=2]]>", "https://a.example/?a=1&b=2"),
        ("https://a.example/<![CDATA[a]]>b&amp;<!-- c -->d<?e?>f", "https://a.example/ab&df"),
        ("https://a.example/ü", "https://a.example/ü"),
        // Common unambiguous mistakes.
        ("https://a.example/?a=1&b=2", "https://a.example/?a=1&b=2"),
        ("https://a.example/?a=1&b=2;c", "https://a.example/?a=1&b=2;c"),
        ("https://a.example/?a=1&", "https://a.example/?a=1&"),
        ("https://a.example/&nbsp;&#0;", "https://a.example/&nbsp;&#0;"),
    ] {
        let sitemap = parse(&loc(text));
        assert_eq!(locs(&sitemap), [url], "{text}");
        assert_eq!(sitemap.problems, [], "{text}");
    }
}

#[test]
fn prefixes_are_accepted_and_extensions_ignored() {
    let prefixed = "<sm:urlset xmlns:sm='http://www.sitemaps.org/schemas/sitemap/0.9'>
        <sm:url><sm:loc>https://a.example/1</sm:loc></sm:url></sm:urlset>";
    assert_eq!(locs(&parse(prefixed)), ["https://a.example/1"]);
    for namespace in ["", "xmlns='https://wrong.example'", "xmlns='x' xmlns:y='y' schemaLocation='z'"] {
        let document = format!("<urlset {namespace}><url><loc>https://a.example/1</loc></url></urlset>");
        assert_eq!(locs(&parse(&document)), ["https://a.example/1"]);
    }
    assert_eq!(locs(&parse("<UrlSet><URL><Loc>https://a.example/1</Loc></URL></UrlSet>")).len(), 1);

    let extended = urlset(
        "<url>
            <image:loc>https://a.example/astray.jpg</image:loc>
            <image:image><image:loc>https://a.example/1.jpg</image:loc></image:image>
            <image><loc>https://a.example/2.jpg</loc></image>
            <xhtml:link rel='alternate' hreflang='de' href='https://a.example/de'/>
            <loc>https://a.example/page</loc>
            <video:video><video:url><video:loc>https://a.example/v</video:loc></video:url></video:video>
            <news:news><news:publication_date>2008-12-23</news:publication_date></news:news>
            <loc>https://a.example/second</loc>
         </url>",
    );
    assert_eq!(locs(&parse(&extended)), ["https://a.example/page"]);
}

#[test]
fn feeds_count_as_sitemaps() {
    let rss = "<rss version='2.0' xmlns:atom='http://www.w3.org/2005/Atom'><channel>
        <title>News</title><link>https://a.example/</link><atom:link href='https://a.example/feed' rel='self'/>
        <item><title>1</title><atom:link href='x'/><link>https://a.example/1?a&amp;b</link>
            <pubDate>Tue, 03 Jun 2003 09:39:21 GMT</pubDate></item>
        <item><link><![CDATA[https://a.example/2]]></link></item></channel></rss>";
    let sitemap = parse(rss);
    assert_eq!(locs(&sitemap), ["https://a.example/1?a&b", "https://a.example/2"]);
    let Links::Urls(entries) = &sitemap.links else { unreachable!("these are pages") };
    assert_eq!(entries[0].lastmod.as_deref(), Some("Tue, 03 Jun 2003 09:39:21 GMT"));

    let rdf = "<rdf:RDF xmlns:rdf='r' xmlns='http://purl.org/rss/1.0/'><channel><link>https://a.example/</link></channel>
        <item><link>https://a.example/1</link></item></rdf:RDF>";
    assert_eq!(locs(&parse(rdf)), ["https://a.example/1"]);

    let atom = "<feed xmlns='http://www.w3.org/2005/Atom'><link href='https://a.example/'/>
        <entry><link rel='enclosure' href='https://a.example/x.mp3'/><link href='https://a.example/1?a=1&amp;b=2'/>
            <updated>2003-12-13T18:30:02Z</updated></entry>
        <entry><link rel='alternate' href='https://a.example/2?a=1&b=2'/></entry>
        <entry><content><link href='https://a.example/no'/></content></entry></feed>";
    let sitemap = parse(atom);
    assert_eq!(locs(&sitemap), ["https://a.example/1?a=1&b=2", "https://a.example/2?a=1&b=2"]);
    assert_eq!(sitemap.problems, [Problem::NoUrl { left_out: 1 }]);
}

#[test]
fn lists_in_plain_text() {
    let list =
        "\u{FEFF}https://a.example/1\r\nHTTP://a.example/2\n\n  https://a.example/3\t\rhttps://a.example/ü";
    let expected =
        ["https://a.example/1", "HTTP://a.example/2", "https://a.example/3", "https://a.example/ü"];
    let sitemap = parse(list);
    assert_eq!(locs(&sitemap), expected);
    assert_eq!(sitemap.problems, []);

    let mixed = parse("# my pages\nhttps://a.example/1\nftp://a.example/2\nhttps://a.example/with space");
    assert_eq!(locs(&mixed), ["https://a.example/1"]);
    assert_eq!(mixed.problems, [Problem::NoUrl { left_out: 3 }]);
    assert!(!mixed.truncated());
}

#[test]
fn the_format_is_detected_from_the_content() {
    let xml = loc("https://a.example/1");
    let list = "https://a.example/1";
    for content_type in
        ["text/html", "text/plain; charset=utf-8", "application/octet-stream", "", ";;=", "image/png"]
    {
        for document in [xml.as_bytes(), list.as_bytes(), &gzip(xml.as_bytes()), &gzip(list.as_bytes())] {
            let sitemap = Sitemap::parse(document, Some(content_type)).expect("a sitemap");
            assert_eq!(locs(&sitemap), ["https://a.example/1"], "{content_type}");
        }
    }
}

#[test]
fn charsets() {
    let latin1 = b"https://a.example/caf\xE9".as_slice();
    let declared = b"<?xml version='1.0' encoding = 'iso-8859-1'?><urlset><url><loc>https://a.example/caf\xE9</loc></url></urlset>";
    let label = Some("text/plain; charset=\"ISO-8859-1\"");
    let cafe = ["https://a.example/café"];
    assert_eq!(locs(&Sitemap::parse(latin1, label).expect("a list")), cafe);
    assert_eq!(locs(&Sitemap::parse(declared, None).expect("a sitemap")), cafe);
    // A charset label of a UTF-8 file is ignored.
    assert_eq!(locs(&Sitemap::parse(cafe[0].as_bytes(), label).expect("a list")), cafe);
    let utf16: Vec<u8> =
        "\u{FEFF}https://a.example/café\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(locs(&Sitemap::parse(&utf16, None).expect("a list")), cafe);
    // Without a label the file is decoded as UTF-8.
    assert_eq!(locs(&Sitemap::parse(latin1, None).expect("a list")), ["https://a.example/caf\u{FFFD}"]);
    let bom = format!("\u{FEFF}\n {}", loc("https://a.example/1"));
    assert_eq!(locs(&parse(&bom)), ["https://a.example/1"]);
}

#[test]
fn other_documents_are_rejected_with_their_type() {
    for (document, expected) in [
        ("<!DOCTYPE html><html><body>Not found</body></html>", "a `html` document"),
        ("<?xml version='1.0'?><x:opml/>", "a `opml` document"),
        ("<!-- nothing -->", "XML without an element"),
        ("", "nothing"),
        (" \n\t", "nothing"),
        ("Not found", "text without a URL on a line of its own"),
        ("{\"urls\": [\"https://a.example/\"]}", "text without a URL on a line of its own"),
    ] {
        assert_eq!(refused(document), SitemapError::NotASitemap { found: expected.to_owned() }, "{document}");
    }
    assert_eq!(
        refused("<html></html>").to_string(),
        "expected a urlset, a sitemapindex, a feed or a list of URLs, but found a `html` document"
    );
}

#[test]
fn broken_xml_is_read_up_to_the_error() {
    let two = "<urlset><url><loc>https://a.example/1</loc></url><url><loc>https://a.example/2</loc>";
    for (end, readable) in [
        ("", 2),
        ("</url>", 2),
        ("</ur", 2),
        ("</wrong></url></urlset>", 2),
        ("</url><url><loc>https://a.exam", 2),
        ("</url><url><loc>https://a.example/3<", 2),
        ("</url><url><loc>https://a.example/3</url>", 2),
        ("</url><url><![CDATA[", 2),
        ("</url><!-- ", 2),
        ("</url></urlset></urlset>", 2),
    ] {
        let sitemap = parse(&format!("{two}{end}"));
        assert_eq!(locs(&sitemap).len(), readable, "{end}: {sitemap:?}");
        assert!(sitemap.truncated(), "{end}");
        assert!(
            matches!(sitemap.problems[..], [Problem::BrokenXml { at, .. }] if at >= 80),
            "{end}: {sitemap:?}"
        );
    }
    assert!(matches!(refused("<?xml version="), SitemapError::Unreadable(Problem::BrokenXml { .. })));
    assert!(matches!(refused("<"), SitemapError::Unreadable(Problem::BrokenXml { .. })));
}

#[test]
fn entries_without_a_url_and_too_long_urls_are_skipped() {
    let fits = format!("https://a.example/{}", "x".repeat(MAX_URL_BYTES - 18));
    let sitemap = parse(&urlset(&format!(
        "<url/><url><loc> </loc></url><url><loc>{fits}</loc></url><url><loc>{fits}x</loc></url>"
    )));
    assert_eq!(locs(&sitemap), [fits.as_str()]);
    assert_eq!(sitemap.problems, [Problem::LongUrls { left_out: 1 }, Problem::NoUrl { left_out: 2 }]);
    assert!(!sitemap.truncated());
    assert_eq!(locs(&parse(&format!("{fits}\n{fits}x"))), [fits.as_str()]);
}

#[test]
fn too_many_urls_are_truncated_and_reported() {
    let list = "https://a.example/\n".repeat(MAX_URLS + 3);
    let xml = urlset(&"<url><loc>https://a.example/</loc></url>".repeat(MAX_URLS + 3));
    for document in [list, xml] {
        let sitemap = parse(&document);
        assert_eq!(locs(&sitemap).len(), MAX_URLS);
        assert_eq!(sitemap.problems, [Problem::TooManyUrls { left_out: 3 }]);
        assert!(sitemap.truncated());
    }
}

#[test]
fn the_rest_beyond_the_size_limit_is_ignored() {
    let mut list = b"https://a.example/1\n".to_vec();
    list.resize(MAX_BYTES, b'#');
    let whole = Sitemap::parse(&list, None).expect("a list");
    assert_eq!((locs(&whole).len(), whole.truncated()), (1, false));
    list.extend_from_slice(b"\nhttps://a.example/2\n");
    let cut = Sitemap::parse(&list, None).expect("a list");
    assert_eq!((locs(&cut).len(), cut.problems), (1, vec![Problem::TooLong]));
    // A truncated URL would be the URL of another page.
    let url = b"https://a.example/long";
    list.truncate(MAX_BYTES - 20);
    list.push(b'\n');
    list.extend_from_slice(url);
    let cut = Sitemap::parse(&list, None).expect("a list");
    assert_eq!(locs(&cut), ["https://a.example/1"]);
}

#[test]
fn compressed_sitemaps() {
    let compressed = gzip(loc("https://a.example/1").as_bytes());
    assert_eq!(locs(&Sitemap::parse(&compressed, None).expect("a sitemap")), ["https://a.example/1"]);

    // Several gzip members, as appending makes them.
    let parts = [gzip(b"https://a.example/1\n"), gzip(b"https://a.example/2\n")].concat();
    assert_eq!(locs(&Sitemap::parse(&parts, None).expect("a list")).len(), 2);

    let many: String = (0..2000).map(|n| format!("https://a.example/{}\n", n * n % 7919)).collect();
    let compressed = gzip(many.as_bytes());
    let cut = Sitemap::parse(&compressed[..compressed.len() / 2], None).expect("half a list");
    let readable = locs(&cut);
    assert!(readable.len() > 100 && many.starts_with(&readable.join("\n")), "{}", readable.len());
    assert!(many[readable.join("\n").len()..].starts_with('\n'), "the last one is whole");
    assert!(matches!(cut.problems[0], Problem::BrokenGzip { .. }));
    assert!(cut.truncated());

    assert!(matches!(refused(&compressed[..5]), SitemapError::Unreadable(Problem::BrokenGzip { .. })));
    assert!(matches!(refused([0x1F, 0x8B]), SitemapError::Unreadable(Problem::BrokenGzip { .. })));
}

#[test]
fn a_gzip_bomb_is_unpacked_only_as_far_as_the_limit() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(b"https://a.example/1\n").expect("memory takes it");
    for _ in 0..100 {
        encoder.write_all(&[b'#'; 1024 * 1024]).expect("memory takes it");
    }
    let bomb = encoder.finish().expect("memory takes it");
    assert!(bomb.len() < 1024 * 1024);
    let sitemap = Sitemap::parse(&bomb, None).expect("a list");
    assert_eq!((locs(&sitemap).len(), sitemap.problems), (1, vec![Problem::TooLong]));

    // A nested bomb is not unpacked.
    assert!(matches!(refused(gzip(&bomb)), SitemapError::NotASitemap { .. }));
}

#[test]
fn entity_bombs_are_refused() {
    let mut doctype = "<!DOCTYPE urlset [<!ENTITY lol0 'lol'>".to_owned();
    for n in 1..10 {
        doctype += &format!("<!ENTITY lol{n} '{}'>", format!("&lol{};", n - 1).repeat(10));
    }
    let bomb = format!("<?xml version='1.0'?>{doctype}]><urlset><url><loc>&lol9;</loc></url></urlset>");
    assert_eq!(refused(&bomb), SitemapError::DeclaresEntities);
    let external = "<!DOCTYPE urlset [<!entity x SYSTEM 'file:///etc/passwd'>]><urlset/>";
    assert_eq!(refused(external), SitemapError::DeclaresEntities);
    // A document type without entities is accepted.
    let harmless = "<!DOCTYPE urlset SYSTEM 'sitemap.dtd'><urlset><url><loc>/a&lol;</loc></url></urlset>";
    assert_eq!(locs(&parse(harmless)), ["/a&lol;"]);
}

#[test]
fn hostile_documents() {
    let nested = parse(&format!("<urlset>{}", "<a>".repeat(1_000_000)));
    assert!(nested.truncated());
    for hostile in
        ["&", "&a;", "<a/>", "<!---->", "<url>", "<url/>", "<![CDATA[&]]>", "<url><loc>&</loc></url>"]
    {
        let document = urlset(&format!("<url><loc>{}", hostile.repeat(200_000)));
        assert!(parse(&document).truncated(), "{hostile}");
    }
    let name = "x".repeat(1_000_000);
    let SitemapError::NotASitemap { found } = refused(format!("<{name}>")) else {
        panic!("expected that it is no sitemap")
    };
    assert!(found.len() < 200);
    let long_reason = parse(&format!("<urlset><{name}></y>"));
    assert!(long_reason.problems[0].to_string().len() < 300);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..500), content_type in ".*") {
        let _ = Sitemap::parse(&bytes, Some(&content_type));
        let _ = Sitemap::parse(&[&[0x1F, 0x8B, 8][..], &bytes].concat(), None);
    }

    #[test]
    fn no_document_makes_it_panic(pieces in prop::collection::vec(
        prop_oneof!["</?(urlset|url|loc|a:b|lastmod|feed|entry|rss)/?>", "<link href='?a&b' rel=?>", "&[a#0-9;]{0,4}", "[<>!?\\[\\]-]{1,4}", ".{0,5}"],
        0..40,
    )) {
        let document = format!("<urlset>{}", pieces.concat());
        let _ = Sitemap::parse(document.as_bytes(), None);
    }

    #[test]
    fn each_cut_of_a_sitemap_gives_the_entries_before_it(cut in 0..400_usize) {
        let entries: String = (0..10).map(|n| format!("<url><loc>https://a.example/{n}</loc></url>")).collect();
        let document = format!("<urlset>{entries}</urlset>");
        let cut = (8 + cut).min(document.len());
        let sitemap = parse(&document[..cut]);
        let whole = document[..cut].matches("</loc>").count();
        prop_assert_eq!(locs(&sitemap).len(), whole);
        prop_assert_eq!(sitemap.truncated(), cut < document.len());
    }
}
