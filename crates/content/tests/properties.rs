//! Properties of all inputs.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use crawlway_content::charset::decode;
use crawlway_content::simhash::simhash;
use crawlway_content::url::normalise;
use crawlway_content::{NormalUrl, ParseOptions, UrlOptions, index_text, parse, parse_bytes};
use proptest::prelude::*;

fn base() -> NormalUrl {
    "https://example.com/dir/page?x=1".parse().unwrap()
}

fn any_options() -> impl Strategy<Value = UrlOptions> {
    prop_oneof![
        Just(UrlOptions::default()),
        Just(UrlOptions::without_tracking()),
        Just(UrlOptions { lowercase_paths: true, ..UrlOptions::default() }),
    ]
}

/// URLs with the parts that normalisation changes.
fn url_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zA-Z0-9._~-]{0,6}",
        "%[0-9a-fA-F]{2}",
        "%[0-9a-zA-Z%]{0,2}",
        Just("..".to_owned()),
        Just(".".to_owned()),
        Just("%2e%2E".to_owned()),
        Just("/".to_owned()),
        Just("//".to_owned()),
        Just("?".to_owned()),
        Just("&".to_owned()),
        Just("utm_source=x".to_owned()),
        Just("#".to_owned()),
        "[ é你\\\\|^\"'<>`{}@:;=+$,!*()]",
    ];
    let host = prop_oneof![
        Just("Example.COM".to_owned()),
        Just("h.example:80".to_owned()),
        Just("h.example.:443".to_owned()),
        Just("bücher.example".to_owned()),
        Just("[::1]:8080".to_owned()),
        "[a-zA-Z0-9.-]{1,12}",
    ];
    ("(http|HTTPS|https)", host, prop::collection::vec(piece, 0..12))
        .prop_map(|(scheme, host, pieces)| format!("{scheme}://{host}/{}", pieces.concat()))
}

/// HTML with the difficult cases of parsers.
fn html_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[ a-zA-Z.,é你\u{200b}\u{a0}]{0,12}",
        "</?(div|p|a|b|span|li|ul|td|tr|table|h1|main|article|nav|svg|title|script|style|template|noscript|pre|form|select|option|head|body|br|title|textarea|plaintext)( class=(nav|content|comments))?( href=x)?( hidden)?/?>",
        "<(a|link|base|meta|html|area) (href|rel|name|content|lang|class|id|style|role)=[\"'a-z#/?:.%]{0,12}>?",
        "&[a-zA-Z#0-9;]{0,8}",
        "(<!--|-->|<!\\[CDATA\\[|\\]\\]>|<!|<\\?|</|<|>)",
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn normalisation_is_idempotent(input in prop_oneof![url_like(), any::<String>()], options in any_options()) {
        if let Ok(once) = normalise(&input, &options) {
            prop_assert_eq!(normalise(once.as_str(), &options), Ok(once), "from {}", input);
        }
    }

    #[test]
    fn equivalent_urls_agree(host in "[a-z]{1,8}\\.example", path in "[a-zA-Z0-9._~-]{1,8}", query in "[a-z]=[0-9]{1,3}", fragment in "[a-z]{0,5}") {
        let plain = normalise(&format!("http://{host}/dir/x{path}?{query}"), &UrlOptions::default()).unwrap();
        let encoded: String = path.bytes().map(|byte| format!("%{byte:02x}")).collect();
        for variant in [
            format!("HTTP://{}:80/dir/x{path}?{query}#{fragment}", host.to_uppercase()),
            format!("http://{host}./dir/./x{path}?{query}"),
            format!("http://{host}/other/../dir/x{path}?{query}#"),
            format!("http://{host}/dir/x{encoded}?{query}"),
            format!("  http:\\\\{host}\\dir/%78{path}?{query}\t"),
        ] {
            prop_assert_eq!(&normalise(&variant, &UrlOptions::default()).unwrap(), &plain, "for {}", variant);
        }
    }

    #[test]
    fn joining_equals_normalising(reference in url_like(), options in any_options()) {
        prop_assert_eq!(base().join(&reference, &options).ok(), normalise(&reference, &options).ok());
    }

    #[test]
    fn relative_references_are_normal_once_joined(reference in "[a-zA-Z0-9./?&=:;,%+~_@-]{0,24}", options in any_options()) {
        if let Ok(url) = base().join(&reference, &options) {
            prop_assert_eq!(normalise(url.as_str(), &options), Ok(url), "for {}", reference);
        }
    }

    #[test]
    fn parts_make_the_whole(input in url_like()) {
        if let Ok(url) = normalise(&input, &UrlOptions::default()) {
            prop_assert_eq!(format!("{}{}", url.origin(), url.path_and_query()), url.as_str());
            prop_assert!(!url.host().is_empty());
            prop_assert!(url.port() > 0 || input.contains(":0"));
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), header in prop::option::of("[a-z/]{0,10}; ?charset=[a-z0-9-]{0,12}")) {
        let _ = decode(&bytes, header.as_deref());
        let _ = parse_bytes(&bytes, header.as_deref(), &base(), &ParseOptions { full_text: true, ..ParseOptions::default() });
    }

    #[test]
    fn no_markup_panics_and_links_are_normal(html in html_like()) {
        let page = parse(&html, &base(), &ParseOptions { full_text: true, ..ParseOptions::default() });
        for link in &page.links {
            prop_assert_eq!(normalise(link.url.as_str(), &UrlOptions::default()), Ok(link.url.clone()));
        }
        let full = page.full_text.unwrap();
        for line in page.text.lines() {
            prop_assert!(full.contains(line), "main text {:?} is not in the page's text {:?}", line, full);
        }
        prop_assert_eq!(page.simhash, simhash(&page.text));
    }

    #[test]
    fn decoding_utf8_changes_nothing(text in any::<String>()) {
        let marked = text.starts_with('\u{feff}');
        let decoded = decode(text.as_bytes(), Some("text/html; charset=utf-8"));
        prop_assert_eq!(decoded.text.as_ref(), if marked { &text[3..] } else { text.as_str() });
        prop_assert!(!decoded.had_errors);
    }

    #[test]
    fn index_text_is_collapsed_and_stays_so(text in any::<String>()) {
        let once = index_text(&text);
        let is_collapsed = !once.contains("  ") && !once.contains(['\n', '\t', '\u{a0}']);
        prop_assert!(is_collapsed, "{:?}", once);
        prop_assert_eq!(once.trim(), &once);
    }
}
