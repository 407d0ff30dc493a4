//! Any bytes become a page: no panic, links in normal form, main text taken from the visible text.
#![no_main]

use crawlway_content::simhash::simhash;
use crawlway_content::url::normalise;
use crawlway_content::{NormalUrl, ParseOptions, UrlOptions, index_text, parse_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(base) = "https://example.com/dir/page?x=1".parse::<NormalUrl>() else { return };
    let options =
        ParseOptions { full_text: true, agent: Some("crawlway".to_owned()), ..ParseOptions::default() };
    let page = parse_bytes(bytes, None, &base, &options);
    for link in &page.links {
        assert_eq!(normalise(link.url.as_str(), &UrlOptions::default()).as_ref(), Ok(&link.url));
    }
    let full_text = page.full_text.unwrap_or_default();
    assert!(page.text.lines().all(|line| full_text.contains(line)));
    assert_eq!(page.simhash, simhash(&page.text));
    assert!(!index_text(&page.text).contains("  "));
});
