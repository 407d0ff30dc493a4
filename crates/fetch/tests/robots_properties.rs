//! robots.txt: properties of all files, and hostile files.

use crawlway_fetch::robots::{AGENT, MAX_BYTES, Robots};
use proptest::prelude::*;

/// Reference implementation of matching by backtracking; exponential.
fn naively_matches(pattern: &[u8], path: &[u8]) -> bool {
    match (pattern, path) {
        ([], _) => true,
        ([b'$'], _) => path.is_empty(),
        ([b'*', rest @ ..], _) => (0..=path.len()).any(|skipped| naively_matches(rest, &path[skipped..])),
        ([wanted, pattern @ ..], [found, path @ ..]) => wanted == found && naively_matches(pattern, path),
        (_, []) => false,
    }
}

/// Valid and invalid lines.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        "User-agent: (crawlway|other|\\*)",
        "(Allow|Disallow|dissalow): /[ab/*$%]{0,6}",
        "Crawl-delay: [0-9.]{0,4}",
        "Sitemap: https://a\\.example/[ab]",
        "[ -~]{0,12}",
    ]
}

fn file() -> impl Strategy<Value = String> {
    prop::collection::vec(line(), 0..20).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000), agent in ".*", target in ".*") {
        let robots = Robots::parse(&bytes);
        robots.check(&agent, &target);
        robots.crawl_delay(&agent);
    }

    #[test]
    fn no_rules_make_it_panic(file in file(), agent in ".*", target in ".*") {
        let robots = Robots::parse(file.as_bytes());
        for agent in [&agent, AGENT] {
            let decision = robots.check(agent, &target);
            if let Some(rule) = decision.rule {
                let line = file.split('\n').nth(rule.line - 1).expect("a line of the file");
                prop_assert_eq!(line.trim(), rule.text);
                prop_assert_eq!(decision.allowed, line.starts_with("Allow"));
            } else {
                prop_assert!(decision.allowed);
            }
        }
    }

    #[test]
    fn matching_is_what_the_naive_definition_says(pattern in "[/*][ab/*]{0,8}\\$?", path in "/[ab/]{0,10}") {
        let file = format!("User-agent: *\nDisallow: {pattern}");
        let allowed = Robots::parse(file.as_bytes()).check(AGENT, &path).allowed;
        prop_assert_eq!(!allowed, naively_matches(pattern.as_bytes(), path.as_bytes()));
    }

    #[test]
    fn the_longest_of_the_matching_rules_decides(
        rules in prop::collection::vec((any::<bool>(), "/[ab*]{0,4}\\$?"), 0..8),
        path in "/[ab]{0,6}",
    ) {
        let mut file = "User-agent: *\n".to_owned();
        for (allow, pattern) in &rules {
            file += &format!("{}: {pattern}\n", if *allow { "Allow" } else { "Disallow" });
        }
        let best = rules
            .iter()
            .filter(|(_, pattern)| naively_matches(pattern.as_bytes(), path.as_bytes()))
            .map(|(allow, pattern)| (pattern.len(), *allow))
            .max();
        let decision = Robots::parse(file.as_bytes()).check(AGENT, &path);
        prop_assert_eq!(decision.allowed, best.is_none_or(|(_, allow)| allow));
        prop_assert_eq!(decision.rule.is_some(), best.is_some());
    }

    #[test]
    fn how_a_path_is_encoded_does_not_matter(file in file(), path in "/[ab~-]{0,8}") {
        let encoded: String = path.bytes().skip(1).map(|octet| format!("%{octet:02x}")).collect();
        let robots = Robots::parse(file.as_bytes());
        prop_assert_eq!(robots.check(AGENT, &path), robots.check(AGENT, &format!("/{encoded}")));
        prop_assert_eq!(robots.check(AGENT, &path), robots.check(AGENT, &format!("https://a.example{path}#{path}")));
    }

    #[test]
    fn a_group_of_another_agent_changes_nothing(file in file(), path in "/[ab/]{0,8}") {
        let before = Robots::parse(file.as_bytes());
        let after = Robots::parse(format!("{file}\nAllow:\nUser-agent: stranger\nDisallow: /\nCrawl-delay: 7\n").as_bytes());
        prop_assert_eq!(before.check(AGENT, &path), after.check(AGENT, &path));
        prop_assert_eq!(before.crawl_delay(AGENT), after.crawl_delay(AGENT));
        prop_assert_eq!(before.sitemaps(), after.sitemaps());
    }
}

/// File of the maximum size with this line repeated.
fn full_of(head: &str, line: &str) -> String {
    head.to_owned() + &line.repeat((MAX_BYTES - head.len()) / line.len())
}

// Exponential with backtracking.

#[test]
fn many_wildcards_in_one_pattern() {
    let pattern = "*a".repeat(100_000);
    let path = format!("/{}", "a".repeat(100_000));
    for (end, allowed) in [("", false), ("$", false), ("b", true), ("*b$", true)] {
        let robots = Robots::parse(format!("User-agent: *\nDisallow: /{pattern}{end}").as_bytes());
        assert_eq!(robots.check(AGENT, &path).allowed, allowed, "{end}");
    }
}

#[test]
fn many_patterns_with_wildcards() {
    let path = format!("/{}", "a".repeat(2000));
    let robots = Robots::parse(full_of("User-agent: *\n", "Disallow: /*a*a*a*a*a*a*a*a*a*a*ab\n").as_bytes());
    assert!(robots.check(AGENT, &path).allowed);
}

#[test]
fn a_literal_that_almost_fits_everywhere() {
    let rule = format!("Disallow: /*{}b\n", "a".repeat(4000));
    let robots = Robots::parse(full_of("User-agent: *\n", &rule).as_bytes());
    assert!(robots.check(AGENT, &format!("/{}", "a".repeat(8000))).allowed);
}

#[test]
fn many_lines_of_every_kind() {
    for line in [
        "\n",
        "\r",
        ":\n",
        "User-agent: a\nCrawl-delay: 1\n",
        "Allow:/\n",
        "Sitemap:a\n",
        "*\n",
        "Disallow: *%\n",
    ] {
        let robots = Robots::parse(full_of("User-agent: crawlway\n", line).as_bytes());
        assert!(robots.check("other", "/").allowed, "{line:?}");
    }
    // As many agents as delays, and as many as rules.
    for line in ["Crawl-delay: 1\n", "Disallow: /x\n"] {
        let half = full_of("", "User-agent: crawlway\nUser-agent: b\n");
        let file = format!("{}{}", &half[..half.len() / 2], full_of("\n", line));
        assert!(Robots::parse(file.as_bytes()).check(AGENT, "/").allowed);
    }
}
