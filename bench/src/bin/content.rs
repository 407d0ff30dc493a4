//! The full pass over a page (decode, parse, links, main text, SimHash) beside `scraper` doing less:
//! title, links and text.
//!
//! Both run on one core in alternating rounds; the figures are medians of CPU time, so that other
//! load on the machine moves them little.

// The table is the point of the program.
#![allow(clippy::print_stdout)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use crawlway_content::{NormalUrl, ParseOptions, UrlOptions, parse_bytes};
use rustix::time::{ClockId, clock_gettime};
use scraper::{Html, Selector};
use serde_json::json;

#[derive(Parser)]
#[command(about = "Pages per second of the content pass, beside scraper")]
struct Arguments {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Size of the generated page in KB.
    #[arg(long, default_value_t = 60)]
    page_kb: usize,
    /// Rounds of each side.
    #[arg(long, default_value_t = 21)]
    rounds: usize,
    /// Pages in a round.
    #[arg(long, default_value_t = 100)]
    pages: u32,
    /// Run only our side, for a profiler.
    #[arg(long)]
    only_ours: bool,
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
        anyhow::bail!("the two sides found {} and {links} links, expected as many", found.links.len());
    }

    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for _ in 0..arguments.rounds {
        ours.push(cpu_time(|| {
            for _ in 0..arguments.pages {
                black_box(parse_bytes(black_box(page.as_bytes()), Some("text/html"), &base, &options));
            }
        }));
        if arguments.only_ours {
            continue;
        }
        theirs.push(cpu_time(|| {
            for _ in 0..arguments.pages {
                black_box(reader.read(black_box(page.as_bytes()), &base));
            }
        }));
    }
    let rate = |times: &mut Vec<Duration>| f64::from(arguments.pages) / median(times).as_secs_f64();
    let ours = rate(&mut ours);
    let theirs = if theirs.is_empty() { f64::NAN } else { rate(&mut theirs) };
    let mb = f64::from(u32::try_from(page.len())?) / 1e6;
    if arguments.json {
        println!(
            "{}",
            json!({
                "page_bytes": page.len(),
                "links": links,
                "crawlway": { "pages_per_s": ours, "mb_per_s": ours * mb },
                "scraper": { "pages_per_s": theirs, "mb_per_s": theirs * mb },
                "ratio": ours / theirs,
            })
        );
        return Ok(());
    }
    println!(
        "page of {} bytes, {links} links, one core, CPU time, medians of {} rounds\n",
        page.len(),
        arguments.rounds
    );
    println!("{:<56} {:>8} {:>7} {:>6}", "", "pages/s", "MB/s", "ratio");
    let row = |label: &str, rate: f64| {
        println!("{label:<56} {rate:>8.0} {:>7.1} {:>6.2}", rate * mb, rate / theirs);
    };
    row("crawlway: decode, parse, links, main text, SimHash", ours);
    row("scraper: title, links, text", theirs);
    Ok(())
}

/// What a crawler would do with `scraper`: title, absolute links and all text.
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

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// A small generator of numbers that are the same on every machine.
struct Numbers(u64);

impl Numbers {
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

const WORDS: &[&str] = &[
    "the",
    "harbour",
    "of",
    "council",
    "and",
    "a",
    "river",
    "to",
    "in",
    "bridge",
    "was",
    "with",
    "engineer",
    "for",
    "opened",
    "on",
    "morning",
    "that",
    "it",
    "by",
    "water",
    "level",
    "from",
    "people",
    "had",
    "at",
    "station",
    "were",
    "new",
    "their",
    "line",
    "which",
    "said",
    "caf&eacute;",
    "stone",
    "built",
    "after",
    "years",
    "who",
    "market",
    "evening",
    "plan",
    "against",
    "workers",
    "across",
    "winter",
    "small",
    "question",
    "answered",
    "letter",
];

/// A page as a news site serves it: styles and scripts, menus, an article, cards, comments, footer.
fn generated_page(bytes: usize) -> String {
    let mut numbers = Numbers(7);
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
        let words = numbers.words(2);
        let _ = writeln!(
            page,
            "<li class=\"nav-item item-{at}\"><a class=\"nav-link\" href=\"/section/{at}?ref=nav\" data-track=\"nav-{at}\">{words}</a></li>"
        );
    }
    page.push_str("</ul></nav></header>\n<main id=\"content\"><article class=\"story\"><h1 class=\"headline\">Bridge reopens after the flood</h1><p class=\"byline\">By <a href=\"/authors/a-writer\" rel=\"author\">A. Writer</a>, 14 November 2026</p>\n");
    while page.len() < bytes * 11 / 20 {
        let (first, second) = (numbers.words(30), numbers.words(35));
        let number = numbers.below(9000);
        let _ = writeln!(
            page,
            "<p class=\"paragraph\">{first}. It was <a href=\"/2026/story-{number}.html\">{}</a>, <em>as they said</em>; {second}.</p>",
            numbers.words(4)
        );
        if numbers.below(6) == 0 {
            let _ = writeln!(
                page,
                "<h2 id=\"h{number}\">{}</h2>\n<figure class=\"image\"><img src=\"/img/{number}.jpg\" srcset=\"/img/{number}-2x.jpg 2x\" alt=\"{}\" width=\"800\" height=\"450\" loading=\"lazy\"><figcaption>{}.</figcaption></figure>",
                numbers.words(5),
                numbers.words(6),
                numbers.words(9)
            );
        }
    }
    page.push_str("</article>\n<aside class=\"related\"><h3>Related stories</h3>");
    while page.len() < bytes * 7 / 10 {
        let number = numbers.below(9000);
        let (title, teaser) = (numbers.words(8), numbers.words(16));
        let _ = writeln!(
            page,
            "<div class=\"card card--small\" data-id=\"{number}\"><a href=\"https://news.example/2026/11/{number}/story.html\" class=\"card__link\"><img src=\"/t/{number}.jpg\" alt=\"\" class=\"card__image\"><h4 class=\"card__title\">{title}</h4></a><p class=\"card__teaser\">{teaser}</p><span class=\"card__meta\">{} min read</span></div>",
            number % 9
        );
    }
    page.push_str("</aside><section class=\"comments\" id=\"comments\"><h3>Comments</h3>");
    while page.len() < bytes * 17 / 20 {
        let number = numbers.below(900);
        let text = numbers.words(28);
        let _ = writeln!(
            page,
            "<div class=\"comment depth-{}\"><div class=\"comment__author\"><a href=\"/users/{number}\" rel=\"nofollow ugc\">user{number}</a> <time datetime=\"2026-11-14T10:00:00Z\">2 hours ago</time></div><div class=\"comment__body\"><p>{text}.</p></div><button class=\"reply\" type=\"button\">Reply</button></div>",
            number % 4
        );
    }
    page.push_str("</section></main>\n<footer class=\"site-footer\"><div class=\"columns\">");
    while page.len() < bytes - 200 {
        let number = numbers.below(900);
        let _ = writeln!(
            page,
            "<a class=\"footer__link\" href=\"https://partner{}.example/info/{number}?utm_source=news&amp;x={number}\">{}</a>",
            number % 7,
            numbers.words(2)
        );
    }
    page.push_str("</div><p class=\"legal\">&copy; 2026 Example News. All rights reserved.</p></footer>\n<script>init();</script></body></html>\n");
    page
}
