//! URL normalisation, case by case.

use crawlway_content::url::{MAX_URL_BYTES, UrlError, normalise};
use crawlway_content::{NormalUrl, UrlOptions};

fn normal(input: &str) -> String {
    match normalise(input, &UrlOptions::default()) {
        Ok(url) => url.into_string(),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn normal_forms() {
    for (input, expected) in [
        ("HTTP://Example.COM", "http://example.com/"),
        ("https://example.com:443/", "https://example.com/"),
        ("http://example.com:80/a", "http://example.com/a"),
        ("http://example.com:8080/a", "http://example.com:8080/a"),
        ("https://example.com:80/a", "https://example.com:80/a"),
        ("http://example.com/a#frag", "http://example.com/a"),
        ("http://example.com/a?#frag", "http://example.com/a"),
        ("http://example.com/a?", "http://example.com/a"),
        ("http://example.com/?b=2&a=1", "http://example.com/?b=2&a=1"),
        ("http://example.com/a/./b/../c", "http://example.com/a/c"),
        ("http://example.com/../../x", "http://example.com/x"),
        ("http://example.com/a/%2e%2E/c", "http://example.com/c"),
        ("http://example.com/a/..", "http://example.com/"),
        ("http://example.com/Case/KEPT", "http://example.com/Case/KEPT"),
        ("http://example.com/%7euser/%41%2d%5f%2e", "http://example.com/~user/A-_."),
        ("http://example.com/a%2fb%2Fc", "http://example.com/a%2Fb%2Fc"),
        ("http://example.com/100%25", "http://example.com/100%25"),
        ("http://example.com/%2541", "http://example.com/%2541"),
        ("http://example.com/%zz%4", "http://example.com/%zz%4"),
        ("http://example.com/%zz%41", "http://example.com/%zzA"),
        ("http://example.com/a b", "http://example.com/a%20b"),
        ("http://example.com/a+b?c+d", "http://example.com/a+b?c+d"),
        ("http://example.com/?q=%e4%bd%a0", "http://example.com/?q=%E4%BD%A0"),
        ("http://example.com/你", "http://example.com/%E4%BD%A0"),
        ("http://example.com/a//b/", "http://example.com/a//b/"),
        ("http://example.com./a", "http://example.com/a"),
        ("http://Bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://bu\u{308}cher.example/", "http://xn--bcher-kva.example/"),
        ("  http://example.com/a\n", "http://example.com/a"),
        ("http:\\\\example.com\\a", "http://example.com/a"),
        ("http://[2001:DB8::0:1]:80/", "http://[2001:db8::1]/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://example.com/?a=b&&c", "http://example.com/?a=b&&c"),
    ] {
        assert_eq!(normal(input), expected, "for {input:?}");
    }
}

#[test]
fn errors() {
    for (input, expected) in [
        ("", "error: url is empty, expected an absolute http or https url"),
        (" \t", "error: url is empty, expected an absolute http or https url"),
        ("/path", "error: url \"/path\" is relative, expected an absolute http or https url"),
        ("example.com", "error: url \"example.com\" is relative, expected an absolute http or https url"),
        ("ftp://example.com/", "error: url scheme \"ftp\" is not supported, expected http or https"),
        ("mailto:a@example.com", "error: url scheme \"mailto\" is not supported, expected http or https"),
        ("javascript:void(0)", "error: url scheme \"javascript\" is not supported, expected http or https"),
        ("http://", "error: url \"http://\" has no valid host"),
        ("http://exa mple.com/", "error: url \"http://exa mple.com/\" has no valid host"),
        ("http://1.2.3.400/", "error: url \"http://1.2.3.400/\" has no valid host"),
        (
            "http://example.com:99999/",
            "error: url \"http://example.com:99999/\" is invalid: invalid port number",
        ),
        (
            "https://user:secret@example.com/",
            "error: url with credentials for host \"example.com\" is refused, expected none before the host",
        ),
    ] {
        assert_eq!(normal(input), expected, "for {input:?}");
    }
    for dots in ["http://.../", "http://1../3", "http://a../", "http://./"] {
        assert!(normal(dots).starts_with("error"), "{dots} gives {}", normal(dots));
    }
}

#[test]
fn too_long_urls_before_and_after_normalisation() {
    let long = format!("http://example.com/{}", "a".repeat(MAX_URL_BYTES));
    assert!(matches!(normalise(&long, &UrlOptions::default()), Err(UrlError::TooLong { .. })));
    let grows = format!("http://example.com/{}", "é".repeat(1000));
    assert!(matches!(normalise(&grows, &UrlOptions::default()), Err(UrlError::TooLong { length: 6019 })));
}

#[test]
fn tracking_parameters_are_optional() {
    let options = UrlOptions::without_tracking();
    let with = |input| normalise(input, &options).unwrap().into_string();
    assert_eq!(normal("http://h/?utm_source=x&a=1"), "http://h/?utm_source=x&a=1");
    assert_eq!(with("http://h/?utm_source=x&a=1&UTM_Medium=y&fbclid=z"), "http://h/?a=1");
    assert_eq!(with("http://h/?a=1&utm_x"), "http://h/?a=1");
    assert_eq!(with("http://h/?utm_source=x"), "http://h/");
    assert_eq!(with("http://h/?&utm_source=x"), "http://h/");
    assert_eq!(with("http://h/?utm%5Fsource=x&b=2"), "http://h/?b=2");
    assert_eq!(with("http://h/?autm_source=x&utm=1"), "http://h/?autm_source=x&utm=1");
}

#[test]
fn lower_case_paths_are_optional() {
    let options = UrlOptions { lowercase_paths: true, ..UrlOptions::default() };
    let lowered = normalise("http://h/Some/%4Dix%2fEd?Q=Kept", &options).unwrap();
    assert_eq!(lowered.as_str(), "http://h/some/mix%2Fed?Q=Kept");
}

#[test]
fn references_are_resolved() {
    let base: NormalUrl = "https://example.com/a/b?c".parse().unwrap();
    for (reference, expected) in [
        ("d", "https://example.com/a/d"),
        ("?d", "https://example.com/a/b?d"),
        ("#x", "https://example.com/a/b?c"),
        ("", "https://example.com/a/b?c"),
        ("//other.example/x", "https://other.example/x"),
        ("/x/../y", "https://example.com/y"),
        ("HTTP://OTHER.example", "http://other.example/"),
    ] {
        assert_eq!(
            base.join(reference, &UrlOptions::default()).unwrap().as_str(),
            expected,
            "for {reference:?}"
        );
    }
    assert!(matches!(base.join("tel:123", &UrlOptions::default()), Err(UrlError::Scheme { .. })));
}
