//! Texts that are hard to store.

/// Different URLs that a careless store confuses or cannot store.
pub(super) fn odd_urls() -> Vec<String> {
    let long = format!("https://a.example/{}", "long/".repeat(800));
    let plain = [
        "https://a.example/",
        "https://a.example/A",
        "https://a.example/a",
        "https://a.example/a/",
        "https://a.example/a?",
        "https://a.example/a%20",
        "https://a.example/a%",
        "https://a.example/a_",
        "https://a.example/ab",
        "https://a.example/'; drop table urls; --",
        "https://a.example/\"quoted\"",
        "https://a.example/back\\slash",
        "https://a.example/back\\\\slash",
        "https://a.example/{1}$1?1:1",
        "https://a.example/e\u{301}",
        "https://a.example/\u{e9}",
        "https://a.example/STRASSE",
        "https://a.example/stra\u{df}e",
        "https://a.example/\u{6f22}\u{5b57}",
        "https://a.example/\u{1f577}\u{fe0f}",
        "https://a.example/\u{202e}desrever",
        "https://a.example/*[a-z]?",
        "https://a.example/a:b:c",
        "https://a.example/a,b|c;d",
    ];
    // Two of 4 KB that differ in their last letter only, since some stores truncate long keys.
    plain.iter().map(|url| (*url).to_owned()).chain([format!("{long}1"), format!("{long}2")]).collect()
}

/// Texts of errors, outcomes and the like, which have to be stored unchanged.
pub(super) fn odd_texts() -> Vec<String> {
    let plain = [
        "",
        " ",
        "it's \"quoted\" -- /* and */ more; \\n is no new line",
        "line\nline\r\n\ttabbed",
        "na\u{ef}ve \u{6f22}\u{5b57} \u{1f577}\u{fe0f} \u{202e}desrever\u{202c}",
        "\u{1}\u{7f}\u{feff}\u{fffd}\u{10ffff}",
        "$1 ?1 :name %s {}",
        "null",
    ];
    plain.iter().map(|text| (*text).to_owned()).chain(["long ".repeat(13_000)]).collect()
}

/// A text with a NUL, which some databases refuse. It may be stored changed, but must not fail the call.
pub(super) const WITH_NUL: &str = "before\0after";
