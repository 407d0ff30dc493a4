//! robots.txt matching: a file, an agent, paths, and the expected decisions.

use crawlway_fetch::robots::{AGENT, Decision, MAX_BYTES, MAX_CRAWL_DELAY, Robots, Rule};
use std::time::Duration;

fn allowed(file: &str, agent: &str, target: &str) -> bool {
    Robots::parse(file.as_bytes()).check(agent, target).allowed
}

/// Checks targets for our own agent: `+/path` must be allowed, `-/path` disallowed.
fn probe(file: &str, targets: &[&str]) {
    probe_as(AGENT, file, targets);
}

fn probe_as(agent: &str, file: &str, targets: &[&str]) {
    for target in targets {
        let (expected, target) = target.split_at(1);
        let is_allowed = allowed(file, agent, target);
        assert_eq!(is_allowed, expected == "+", "{agent:?} at {target:?} with\n{file}");
    }
}

/// File with these rules for all agents.
fn rules(rules: &str) -> String {
    format!("User-agent: *\n{rules}\n")
}

#[test]
fn the_simple_example_of_the_rfc() {
    let file = "User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\n\
                User-Agent: foobot\nDisallow:/\nAllow:/example/page.html\nAllow:/example/allowed.gif\n\n\
                User-Agent: barbot\nUser-Agent: bazbot\nDisallow: /example/page.html\n\n\
                User-Agent: quxbot\n";
    probe_as(
        "otherbot",
        file,
        &["-/a.gif", "+/a.gif?b", "-/example/", "+/publications/", "+/publications/a.gif"],
    );
    probe_as("foobot", file, &["-/", "+/example/page.html", "+/example/allowed.gif", "-/example/other"]);
    probe_as("barbot", file, &["+/", "-/example/page.html", "+/example/", "+/a.gif"]);
    probe_as("bazbot", file, &["+/", "-/example/page.html"]);
    probe_as("quxbot", file, &["+/", "+/example/page.html", "+/a.gif"]);
}

#[test]
fn the_longest_match_example_of_the_rfc() {
    let file = "User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n";
    probe_as("foobot", file, &["+/example/page/", "-/example/page/disallowed.gif", "+/other"]);
}

#[test]
fn the_agent_examples_of_the_rfc() {
    let merged =
        "user-agent: ExampleBot\ndisallow: /foo\ndisallow: /bar\n\nuser-agent: ExampleBot\ndisallow: /baz\n";
    probe_as("examplebot", merged, &["-/foo", "-/bar", "-/baz", "+/qux"]);

    let others = "user-agent: *\ndisallow: /foo\ndisallow: /bar\n\nuser-agent: BazBot\ndisallow: /baz\n";
    probe_as("ExampleBot", others, &["-/foo", "-/bar", "+/baz"]);
    probe_as("BazBot", others, &["+/foo", "+/bar", "-/baz"]);
}

#[test]
fn the_encoding_examples_of_the_rfc() {
    for (rule, same) in [
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz"),
        ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar"),
        ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https://foo.bar"),
        ("/foo/bar?baz=https%3A%2F%2Ffoo.bar", "/foo/bar?baz=https://foo.bar"),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%e3%83%84", "/foo/bar/ツ"),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
        ("/foo/bar/baz", "/foo/bar/%62%61%7A"),
        ("/path/file-with-a-%2A.html", "https://www.example.com/path/file-with-a-*.html"),
        ("/path/foo-%24", "https://www.example.com/path/foo-$"),
    ] {
        assert!(!allowed(&rules(&format!("Disallow: {rule}")), AGENT, same), "{rule} and {same}");
    }
}

#[test]
fn the_special_character_examples_of_the_rfc() {
    probe(
        &rules("Disallow: /\nallow: /this/path/exactly$"),
        &["+/this/path/exactly", "-/this/path/exactly/not"],
    );
    probe(
        &rules("Disallow: /\nallow: /this/*/exactly"),
        &["+/this/a/b/exactly", "+/this//exactly", "-/this/exactly"],
    );
    probe(&rules("Disallow: /\nallow: /x # comment in line\n# comment on its own line"), &["+/x", "-/y"]);
}

#[test]
fn the_path_examples_of_google() {
    for (rule, targets) in [
        (
            "/fish",
            &[
                "-/fish",
                "-/fish.html",
                "-/fish/salmon",
                "-/fish.php?id=x",
                "+/Fish.asp",
                "+/cat",
                "+/?id=fish",
            ][..],
        ),
        ("/fish*", &["-/fish", "-/fishheads", "+/desert/fish"]),
        ("/fish/", &["-/fish/", "-/fish/?id=x", "+/fish", "+/fish.html", "+/Fish/Salmon.asp"]),
        ("/*.php", &["-/index.php", "-/a/b.php/", "-/b.php?p", "+/", "+/windows.PHP"]),
        ("/*.php$", &["-/f.php", "-/a/f.php", "+/f.php?p", "+/f.php/", "+/f.php5", "+/windows.PHP"]),
        ("/fish*.php", &["-/fish.php", "-/fishheads/cat.php?p", "+/Fish.PHP"]),
        ("*/fish", &["-/fish", "-/a/fish", "+/cat"]),
    ] {
        probe(&rules(&format!("Disallow: {rule}")), targets);
    }
}

#[test]
fn the_most_specific_rule_decides_and_allow_wins_a_tie() {
    probe(&rules("Allow: /p\nDisallow: /"), &["+/page", "-/other"]);
    probe(&rules("Allow: /folder\nDisallow: /folder"), &["+/folder/page"]);
    probe(&rules("Disallow: /folder\nAllow: /folder"), &["+/folder/page"]);
    probe(&rules("Allow: /page\nDisallow: /*.htm"), &["-/page.htm", "+/page.php"]);
    probe(&rules("Allow: /page\nDisallow: /*.ph"), &["+/page.php5"]);
    probe(&rules("Allow: /$\nDisallow: /"), &["+/", "-/page.htm", "-/?"]);
    probe(
        &rules("Disallow: /a/b/c\nAllow: /a\nDisallow: /a/b/\nAllow: /a/b/c/d"),
        &["+/a/b", "-/a/b/", "-/a/b/c", "+/a/b/c/d"],
    );
    // Length is measured in octets once encoded: nine for the first, eight for the second.
    probe(&rules("Disallow: /ツ\nAllow: /*aaaaaa"), &["-/ツaaaaaa"]);
    // `%61` is one octet, as `a` is.
    probe(&rules("Disallow: /%61%61\nAllow: /aaa"), &["+/aaa", "-/aab"]);
}

#[test]
fn wildcards_and_ends() {
    probe(&rules("Disallow: /a*b*c$"), &["-/abc", "-/a-b-b-c-c", "+/abcd", "+/acb", "-/abcbc"]);
    probe(&rules("Disallow: /**"), &["-/", "-/a"]);
    probe(&rules("Disallow: *"), &["-/", "-/a"]);
    probe(&rules("Disallow: /a$b"), &["-/a$b", "-/a$bc", "-/a%24b", "+/a", "+/ab"]);
    probe(&rules("Disallow: /a$$"), &["-/a$", "+/a$a", "+/a"]);
    probe(&rules("Disallow: /a*$"), &["-/a", "-/abc"]);
    probe(&rules("Disallow: /*?"), &["-/a?", "-/?b", "+/a"]);
    probe(&rules("Disallow: /*ab$"), &["-/ab", "-/abab", "-/aab", "+/aba"]);
    probe(&rules("Disallow: /ab*ab$"), &["+/ab", "-/abab", "+/aab"]);
    probe(&rules("Disallow: $"), &["+/", "+/a"]);
}

#[test]
fn percent_encoding() {
    probe(&rules("Disallow: /%7ejoe"), &["-/~joe", "-/%7Ejoe", "-/%7ejoe"]);
    probe(&rules("Disallow: /~joe"), &["-/~joe", "-/%7Ejoe"]);
    probe(&rules("Disallow: /a%2fb"), &["-/a%2Fb", "-/a%2fb", "+/a/b"]);
    probe(&rules("Disallow: /a/b"), &["-/a/b", "+/a%2Fb"]);
    probe(&rules("Disallow: /a%3Fb"), &["-/a%3fb", "+/a?b"]);
    probe(&rules("Disallow: /a b"), &["-/a%20b", "-/a b", "+/a+b"]);
    probe(&rules("Disallow: /{a|b}"), &["-/%7Ba%7Cb%7D", "-/{a|b}"]);
    probe(&rules("Disallow: /100%"), &["-/100%", "-/100%25", "-/100%zz"]);
    probe(&rules("Disallow: /%"), &["-/%2", "-/%25", "+/%20"]);
    probe(&rules("Disallow: /é"), &["-/%C3%A9", "-/%c3%a9", "+/e", "+/%E9"]);
    // The digits of an encoded octet do not match.
    probe(&rules("Disallow: /*4"), &["+/$", "+/%24", "-/24"]);
    probe(&rules("Disallow: /*://"), &["-/go?to=https://other.example/", "-/go/https://other.example/"]);

    // A file in Latin-1 matches by octets.
    let robots = Robots::parse(b"User-agent: *\nDisallow: /caf\xE9");
    assert!(!robots.check(AGENT, "/caf%E9").allowed);
    assert!(robots.check(AGENT, "/caf%C3%A9").allowed);
}

#[test]
fn product_tokens() {
    let file = "User-agent: CrawlWay/2.0 (something)\nDisallow: /x\n\nUser-agent: *\nDisallow: /";
    for agent in ["crawlway", "CRAWLWAY", "Crawlway/0.1", "crawlway (+https://example.com)", " crawlway"] {
        probe_as(agent, file, &["-/x", "+/y"]);
    }
    for agent in
        ["crawl", "crawlway-news", "crawlway_2", "crawlway2", "Mozilla/5.0 (compatible; crawlway)", "", "*"]
    {
        probe_as(agent, file, &["-/x", "-/y"]);
    }
    probe_as("MJ12bot/v1.4", "User-agent: MJ12bot\nDisallow: /", &["-/"]);
    probe_as("foo_bar-baz", "User-agent: FOO_bar-BAZ\nDisallow: /", &["-/"]);
    probe_as("foo", "User-agent: foo bar\nDisallow: /", &["-/"]);
}

#[test]
fn group_selection() {
    // Our group, otherwise the group `*`, otherwise none.
    let file = "User-agent: other\nDisallow: /\n\nUser-agent: *\nDisallow: /all\n\nUser-agent: crawlway\nDisallow: /us";
    probe(file, &["-/us", "+/all"]);
    probe_as("third", file, &["+/us", "-/all"]);
    probe("User-agent: other\nDisallow: /", &["+/"]);
    // Groups of `*` are merged too; words after the star are ignored.
    probe(
        "User-agent: *\nDisallow: /a\nUser-agent: x\nAllow: /\nUser-agent: * everyone\nDisallow: /b",
        &["-/a", "-/b", "+/c"],
    );
    probe("User-agent: *bot\nDisallow: /", &["+/"]);
    // An empty group of ours still applies.
    probe("User-agent: *\nDisallow: /\n\nUser-agent: crawlway\n", &["+/"]);
    probe("User-agent: *\nDisallow: /\n\nUser-agent: crawlway\nDisallow:", &["+/"]);
    // A line without an agent.
    probe("User-agent: crawlway\nDisallow: /a\nUser-agent:\nDisallow: /b", &["-/a", "+/b"]);
    // Rules before the first group apply to no agent.
    probe("Disallow: /\nUser-agent: crawlway\nDisallow: /a", &["+/", "-/a"]);
    probe("Disallow: /", &["+/"]);
    probe("", &["+/", "+/any"]);
}

#[test]
fn several_agents_in_a_group() {
    for between in [
        "",
        "\n\n",
        "# comment\n",
        "Sitemap: https://a.example/s.xml\n",
        "Crawl-delay: 3\n",
        "Host: a\n",
        "noise\n",
    ] {
        let file = format!(
            "User-agent: crawlway\n{between}User-agent: other\n{between}Disallow: /x\n{between}Disallow: /y\n"
        );
        probe(&file, &["-/x", "-/y", "+/z"]);
        probe_as("other", &file, &["-/x", "-/y", "+/z"]);
    }
    // Rules end the run of agents, even those that match nothing.
    for end in ["Allow: /a", "Disallow: /a", "Disallow:", "Allow:", "Disallow: relative"] {
        let file = format!("User-agent: crawlway\n{end}\nUser-agent: other\nDisallow: /x\n");
        probe(&file, &["+/x"]);
        probe_as("other", &file, &["-/x"]);
    }
}

#[test]
fn rules_that_match_nothing() {
    probe(&rules("Disallow:"), &["+/", "+/a"]);
    probe(&rules("Disallow: # nothing"), &["+/", "+/a"]);
    probe(&rules("Disallow:\nDisallow: /a"), &["+/", "-/a"]);
    probe(&rules("Disallow: relative"), &["+/relative"]);
    probe(&rules("Disallow: https://example.com/a"), &["+/a"]);
    probe(&rules("Disallow: /\nAllow:"), &["-/a"]);
}

#[test]
fn robots_txt_itself_is_always_allowed() {
    probe(
        &rules("Disallow: /\nDisallow: /robots.txt$"),
        &["+/robots.txt", "+https://a.example/robots.txt", "-/robots.txt2", "-/a/robots.txt"],
    );
    assert_eq!(Robots::closed().check(AGENT, "/robots.txt"), Decision { allowed: true, rule: None });
}

#[test]
fn urls_and_paths_are_equivalent() {
    let file = rules("Disallow: /a\nDisallow: /*?q\nAllow: /$");
    probe(
        &file,
        &[
            "-https://example.com/a",
            "-http://user@example.com:8080/a/b#c",
            "-https://example.com?q",
            "-https://example.com/?q=1",
            "+https://example.com",
            "+https://example.com/",
            "+https://example.com#/a",
            "+/#/a",
            "+",
            "-a",
            "-?q",
            "+/b#?q",
            "-/a?u=https://example.com/b",
            "+/b?u=https://example.com/a",
            "+//a",
        ],
    );
    probe(&rules("Disallow: /"), &["-", "-https://example.com", "-?"]);
}

#[test]
fn keys_in_any_case_and_with_the_common_mistakes() {
    for agent in [
        "User-agent:",
        "USER-AGENT:",
        "user-agent :",
        "  User-Agent\t:",
        "useragent:",
        "user agent:",
        "User-agent",
    ] {
        probe(&format!("{agent} crawlway\nDisallow: /x"), &["-/x", "+/y"]);
    }
    for disallow in [
        "Disallow:",
        "DISALLOW:",
        "disallow :",
        "\tDisallow:\t",
        "Disallow",
        "Disallow \t",
        "dissallow:",
        "Dissalow:",
        "disalow:",
        "diasllow:",
        "disallaw:",
        "disallaw",
    ] {
        probe(&rules(&format!("{disallow} /x")), &["-/x", "+/y"]);
    }
    probe(&rules("Disallow: /\nallow /x\nALLOW:/y"), &["+/x", "+/y", "-/z"]);
    probe(&rules("Disallow /x?to=http://a.example/"), &["-/x?to=http://a.example/"]);
    // Prose and unknown keys are no rules.
    probe(
        &rules("Disallow /x and /y\nDisallowed: /x\nNoindex: /x\nDisallow-this: /x\n: /x\n:\nDisallow"),
        &["+/x"],
    );
    // Paths keep their case.
    probe(&rules("Disallow: /X"), &["-/X", "+/x"]);
}

#[test]
fn lines_may_end_in_any_way() {
    let lines =
        ["User-agent: other", "Disallow: /", "", "User-agent: crawlway", "Disallow: /x", "Allow: /x/y"];
    for ending in ["\n", "\r", "\r\n", "\n\r", "\r\r\n", " \t \r\n"] {
        for bom in ["", "\u{FEFF}"] {
            let file = format!("{bom}{}", lines.join(ending));
            probe(&file, &["-/x", "+/x/y", "+/z"]);
        }
    }
    probe(
        "\u{FEFF}User-agent: *\rDisallow: /a\nDisallow: /b\r\nDisallow: /c\n\nDisallow: /d",
        &["-/a", "-/b", "-/c", "-/d", "+/e"],
    );
}

#[test]
fn the_matching_rule_is_quoted() {
    let file = "# hello\r\nUser-agent: *\r\n\r\n  Disallow: /a  # private \nAllow: /a/b\rDisallow: /%63\n";
    let robots = Robots::parse(file.as_bytes());
    let rule = |line, text: &str| Some(Rule { line, text: text.to_owned() });
    assert_eq!(
        robots.check(AGENT, "/a"),
        Decision { allowed: false, rule: rule(4, "Disallow: /a  # private") }
    );
    assert_eq!(robots.check(AGENT, "/a/b"), Decision { allowed: true, rule: rule(5, "Allow: /a/b") });
    assert_eq!(robots.check(AGENT, "/c"), Decision { allowed: false, rule: rule(6, "Disallow: /%63") });
    assert_eq!(robots.check(AGENT, "/d"), Decision { allowed: true, rule: None });

    let twice = Robots::parse(b"User-agent: *\nDisallow: /a\nDisallow: /a");
    assert_eq!(twice.check(AGENT, "/a").rule, rule(2, "Disallow: /a"));
}

#[test]
fn crawl_delays() {
    let delay = |file: &str, agent: &str| {
        Robots::parse(file.as_bytes()).crawl_delay(agent).map(|delay| delay.as_secs_f64())
    };
    for (value, expected) in [
        ("10", Some(10.0)),
        ("0.5", Some(0.5)),
        (".25", Some(0.25)),
        ("2.", Some(2.0)),
        ("0", Some(0.0)),
        ("3 # seconds", Some(3.0)),
        ("99999999999999999999999", Some(MAX_CRAWL_DELAY.as_secs_f64())),
        ("", None),
        (".", None),
        ("-1", None),
        ("+1", None),
        ("1e3", None),
        ("inf", None),
        ("NaN", None),
        ("soon", None),
        ("10s", None),
        ("1,5", None),
        ("1.2.3", None),
        ("1 2", None),
    ] {
        assert_eq!(delay(&rules(&format!("Crawl-delay: {value}")), AGENT), expected, "{value}");
    }
    assert_eq!(delay("User-agent: *\nDisallow: /\nCRAWL-DELAY 4", AGENT), Some(4.0));
    assert_eq!(delay("Crawl-delay: 4\nUser-agent: *\nDisallow: /", AGENT), None);

    let file = "User-agent: a\nUser-agent: b\nCrawl-delay: 1\nDisallow: /\n\nUser-agent: b\nCrawl-delay: 3\n\n\
                User-agent: c\nDisallow: /\n\nUser-agent: *\nCrawl-delay: 9";
    for (agent, expected) in [("a", Some(1.0)), ("b", Some(3.0)), ("c", None), ("d", Some(9.0))] {
        assert_eq!(delay(file, agent), expected, "{agent}");
    }
    // One group of rules, but each delay applies to the agents above it.
    let file = "User-agent: a\nCrawl-delay: 20\n\nUser-agent: *\nCrawl-delay: 1\nDisallow: /x";
    assert_eq!((delay(file, "a"), delay(file, "b")), (Some(20.0), Some(1.0)));
    probe_as("a", file, &["-/x"]);
    // An invalid delay does not separate agents.
    let file = "User-agent: a\nCrawl-delay: soon\nUser-agent: b\nCrawl-delay: 2";
    assert_eq!((delay(file, "a"), delay(file, "b")), (Some(2.0), Some(2.0)));
    assert_eq!(Robots::default().crawl_delay(AGENT), None);
}

#[test]
fn sitemaps_apply_to_all_agents() {
    let file = "Sitemap: https://a.example/1.xml\nUser-agent: other\nsitemap:https://a.example/2.xml # two\nDisallow: /\n\
                site-map: https://a.example/3.xml\nSITEMAP https://a.example/4.xml\nSitemap: https://a.example/1.xml\n\
                Sitemap:\nSitemap: /relative.xml\n";
    let robots = Robots::parse(file.as_bytes());
    let expected: Vec<String> =
        (1..=4).map(|n| format!("https://a.example/{n}.xml")).chain(["/relative.xml".to_owned()]).collect();
    assert_eq!(robots.sitemaps(), expected);
}

#[test]
fn only_complete_lines_within_the_limit_count() {
    let head = "User-agent: *\nDisallow: /a\n";
    let filler = |tail: &str, beyond: usize| {
        "#".repeat(MAX_BYTES + beyond - head.len() - tail.len() - 1) + "\n" + tail
    };
    let file = |tail: &str, beyond: usize| format!("{head}{}", filler(tail, beyond));

    // The file fits to the byte; then its line end is beyond the limit; then its last letter.
    probe(&file("Disallow: /bcd", 0), &["-/a", "-/bcd"]);
    probe(&file("Disallow: /bcd\n", 1), &["-/a", "-/bcd"]);
    probe(&file("Disallow: /bcd", 1), &["-/a", "+/bcd", "+/bc"]);
    probe(&file("Disallow: /bcd\nDisallow: /e", 8), &["-/a", "-/bcd", "+/e"]);
    // A single line that is too long.
    probe(&format!("User-agent: *{}", " ".repeat(MAX_BYTES)), &["+/"]);
    assert_eq!(Robots::parse("x".repeat(2 * MAX_BYTES).as_bytes()).sitemaps(), [""; 0]);
}

#[test]
fn default_allows_everything_and_closed_nothing() {
    assert!(Robots::default().check(AGENT, "/a").allowed);
    assert!(!Robots::closed().check(AGENT, "/a").allowed);
    assert_eq!(Robots::closed().crawl_delay(AGENT), None::<Duration>);
}
