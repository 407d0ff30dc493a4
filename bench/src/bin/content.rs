//! Content extraction (decode, parse, links, main text, SimHash), compared with `scraper` for title, links and text.
//!
//! Both run on one core in alternating rounds. The results are medians of CPU time, so that other load changes them little.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use crawlway_bench::median;
use crawlway_content::{NormalUrl, ParseOptions, UrlOptions, parse_bytes};
use rustix::time::{ClockId, clock_gettime};
use scraper::{Html, Selector};

#[derive(Parser)]
#[command(about = "Pages per second of content extraction, compared with scraper")]
struct Arguments {
    /// Size of the generated page in KB.
    #[arg(long, default_value_t = 60)]
    page_kb: usize,
    /// Rounds of each.
    #[arg(long, default_value_t = 21)]
    rounds: usize,
    /// Pages per round.
    #[arg(long, default_value_t = 100)]
    pages: u32,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let page = generated_page(arguments.page_kb * 1000);
    let base: NormalUrl = "https://news.example/2026/11/page.html".parse()?;
    let options = ParseOptions::default();
    let reader = Scraper::new();
    let found = parse_bytes(page.as_bytes(), Some("text/html"), &base, &options);
    let (_, links, _) = reader.read(page.as_bytes(), &base);
    if found.links.len() != links {
        anyhow::bail!("expected the same number of links, got {} and {links}", found.links.len());
    }

    let mut crawlway = Vec::new();
    let mut scraper = Vec::new();
    for _ in 0..arguments.rounds {
        crawlway.push(cpu_time(|| {
            for _ in 0..arguments.pages {
                black_box(parse_bytes(black_box(page.as_bytes()), Some("text/html"), &base, &options));
            }
        }));
        scraper.push(cpu_time(|| {
            for _ in 0..arguments.pages {
                black_box(reader.read(black_box(page.as_bytes()), &base));
            }
        }));
    }
    let rate = |times: &[Duration]| f64::from(arguments.pages) / median(times).as_secs_f64();
    let (crawlway, scraper) = (rate(&crawlway), rate(&scraper));
    let mb = f64::from(u32::try_from(page.len())?) / 1e6;
    println!(
        "page of {} bytes, {links} links, one core, CPU time, medians of {} rounds\n",
        page.len(),
        arguments.rounds
    );
    println!("{:<56} {:>8} {:>7} {:>6}", "", "pages/s", "MB/s", "ratio");
    let row = |label: &str, rate: f64| {
        println!("{label:<56} {rate:>8.0} {:>7.1} {:>6.2}", rate * mb, rate / scraper);
    };
    row("crawlway: decode, parse, links, main text, SimHash", crawlway);
    row("scraper: title, links, text", scraper);
    Ok(())
}

/// Title, absolute links and all text with `scraper`.
struct Scraper {
    title: Selector,
    link: Selector,
    body: Selector,
}

impl Scraper {
    fn new() -> Self {
        let selector = |css| Selector::parse(css).expect("a selector written here");
        Self { title: selector("title"), link: selector("a[href]"), body: selector("body") }
    }

    fn read(&self, bytes: &[u8], base: &NormalUrl) -> (String, usize, String) {
        let html = String::from_utf8_lossy(bytes);
        let document = Html::parse_document(&html);
        let title =
            document.select(&self.title).next().map(|title| title.text().collect()).unwrap_or_default();
        let links: Vec<NormalUrl> = document
            .select(&self.link)
            .filter_map(|link| base.join(link.value().attr("href")?, &UrlOptions::default()).ok())
            .collect();
        let mut text = String::new();
        for part in document.select(&self.body).flat_map(|body| body.text()) {
            for word in part.split_whitespace() {
                text.push_str(word);
                text.push(' ');
            }
        }
        let count = links.len();
        black_box(links);
        (title, count, text)
    }
}

fn cpu_time(work: impl FnOnce()) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    };
    let start = now();
    work();
    now().saturating_sub(start)
}

/// Deterministic random number generator.
struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % limit
    }

    fn words(&mut self, count: usize) -> String {
        let mut text = String::new();
        for at in 0..count {
            if at > 0 {
                text.push_str(if self.below(12) == 0 { ", " } else { " " });
            }
            text.push_str(WORDS[self.below(WORDS.len())]);
        }
        text
    }
}

#[rustfmt::skip]
const WORDS: [&str; 50] = [
    "the", "harbour", "of", "council", "and", "a", "river", "to", "in", "bridge", "was", "with", "engineer",
    "for", "opened", "on", "morning", "that", "it", "by", "water", "level", "from", "people", "had", "at",
    "station", "were", "new", "their", "line", "which", "said", "caf&eacute;", "stone", "built", "after", "years",
    "who", "market", "evening", "plan", "against", "workers", "across", "winter", "small", "question", "answered",
    "letter",
];

/// Page like that of a news site: styles, scripts, menus, an article, cards, comments and a footer.
fn generated_page(bytes: usize) -> String {
    let mut rng = Rng(7);
    let mut page = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Bridge reopens after the flood | Example News</title>\n<meta name=\"description\" content=\"The bridge over the river is open again.\">\n<link rel=\"canonical\" href=\"https://news.example/bridge\">\n<style>",
    );
    for at in 0..60 {
        let _ = write!(page, ".c{at}-{}{{margin:{}px;padding:4px 8px;color:#{:06x}}}", at * 7, at, at * 4321);
    }
    page.push_str("</style>\n<script>window.dataLayer=window.dataLayer||[];");
    for at in 0..40 {
        let _ = write!(page, "dataLayer.push({{\"event\":\"load{at}\",\"value\":{},\"ok\":a<b}});", at * 13);
    }
    page.push_str("</script></head>\n<body class=\"article-page\">\n<header class=\"site-header\"><a class=\"logo\" href=\"/\">Example News</a><nav class=\"main-nav\"><ul>");
    for at in 0..45 {
        let words = rng.words(2);
        let _ = writeln!(
            page,
            "<li class=\"nav-item item-{at}\"><a class=\"nav-link\" href=\"/section/{at}?ref=nav\" data-track=\"nav-{at}\">{words}</a></li>"
        );
    }
    page.push_str("</ul></nav></header>\n<main id=\"content\"><article class=\"story\"><h1 class=\"headline\">Bridge reopens after the flood</h1><p class=\"byline\">By <a href=\"/authors/a-writer\" rel=\"author\">A. Writer</a>, 14 November 2026</p>\n");
    while page.len() < bytes * 11 / 20 {
        let (first, second) = (rng.words(30), rng.words(35));
        let number = rng.below(9000);
        let _ = writeln!(
            page,
            "<p class=\"paragraph\">{first}. It was <a href=\"/2026/story-{number}.html\">{}</a>, <em>as they said</em>; {second}.</p>",
            rng.words(4)
        );
        if rng.below(6) == 0 {
            let _ = writeln!(
                page,
                "<h2 id=\"h{number}\">{}</h2>\n<figure class=\"image\"><img src=\"/img/{number}.jpg\" srcset=\"/img/{number}-2x.jpg 2x\" alt=\"{}\" width=\"800\" height=\"450\" loading=\"lazy\"><figcaption>{}.</figcaption></figure>",
                rng.words(5),
                rng.words(6),
                rng.words(9)
            );
        }
    }
    page.push_str("</article>\n<aside class=\"related\"><h3>Related stories</h3>");
    while page.len() < bytes * 7 / 10 {
        let number = rng.below(9000);
        let (title, teaser) = (rng.words(8), rng.words(16));
        let _ = writeln!(
            page,
            "<div class=\"card card--small\" data-id=\"{number}\"><a href=\"https://news.example/2026/11/{number}/story.html\" class=\"card__link\"><img src=\"/t/{number}.jpg\" alt=\"\" class=\"card__image\"><h4 class=\"card__title\">{title}</h4></a><p class=\"card__teaser\">{teaser}</p><span class=\"card__meta\">{} min read</span></div>",
            number % 9
        );
    }
    page.push_str("</aside><section class=\"comments\" id=\"comments\"><h3>Comments</h3>");
    while page.len() < bytes * 17 / 20 {
        let number = rng.below(900);
        let text = rng.words(28);
        let _ = writeln!(
            page,
            "<div class=\"comment depth-{}\"><div class=\"comment__author\"><a href=\"/users/{number}\" rel=\"nofollow ugc\">user{number}</a> <time datetime=\"2026-11-14T10:00:00Z\">2 hours ago</time></div><div class=\"comment__body\"><p>{text}.</p></div><button class=\"reply\" type=\"button\">Reply</button></div>",
            number % 4
        );
    }
    page.push_str("</section></main>\n<footer class=\"site-footer\"><div class=\"columns\">");
    while page.len() < bytes - 200 {
        let number = rng.below(900);
        let _ = writeln!(
            page,
            "<a class=\"footer__link\" href=\"https://partner{}.example/info/{number}?utm_source=news&amp;x={number}\">{}</a>",
            number % 7,
            rng.words(2)
        );
    }
    page.push_str("</div><p class=\"legal\">&copy; 2026 Example News. All rights reserved.</p></footer>\n<script>init();</script></body></html>\n");
    page
}
