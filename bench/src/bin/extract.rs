//! Main-text extraction on the gold set, compared with the whole text and a readability library.
//!
//! The score of a page is the F1 of its 4-word shingles against those of the expected text.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use crawlway_content::{NormalUrl, ParseOptions, parse_bytes};
use dom_smoothie::{Config, Readability, TextMode};

/// Directory with pairs of NAME.html and NAME.txt.
const GOLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/gold");
/// Words in a shingle.
const SHINGLE: usize = 4;

#[derive(Parser)]
#[command(about = "Scores main-text extraction on pages whose main text is known")]
struct Arguments {
    /// Shows the missing and the superfluous lines of one page.
    #[arg(long, value_name = "PAGE")]
    diff: Option<String>,
    /// Scores the pages without their class and id attributes.
    #[arg(long)]
    strip_attributes: bool,
}

struct Scored {
    name: String,
    kind: String,
    main_text: Score,
    whole: Score,
    readability: Score,
}

#[derive(Clone, Copy, Default)]
struct Score {
    precision: f64,
    recall: f64,
}

impl Score {
    fn f1(self) -> f64 {
        let sum = self.precision + self.recall;
        if sum == 0.0 { 0.0 } else { 2.0 * self.precision * self.recall / sum }
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(name) = &arguments.diff {
        return show_difference(&arguments, name);
    }
    let mut pages = Vec::new();
    for name in page_names(Path::new(GOLD))? {
        pages.push(score_page(&arguments, &name)?);
    }
    if pages.is_empty() {
        bail!("no pair of NAME.html and NAME.txt in {GOLD}");
    }
    print_table(&pages);
    Ok(())
}

fn page_names(gold: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(gold).with_context(|| format!("cannot list {}", gold.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_pair = path.extension().is_some_and(|extension| extension == "html")
            && path.with_extension("txt").exists();
        if let Some(name) = path.file_stem().and_then(|stem| stem.to_str())
            && is_pair
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn read(arguments: &Arguments, name: &str) -> Result<(Vec<u8>, String)> {
    let gold = Path::new(GOLD);
    let html = gold.join(format!("{name}.html"));
    let text = gold.join(format!("{name}.txt"));
    let html = std::fs::read(&html).with_context(|| format!("cannot read {}", html.display()))?;
    let text = std::fs::read_to_string(&text).with_context(|| format!("cannot read {}", text.display()))?;
    Ok((if arguments.strip_attributes { without_names(&html) } else { html }, text))
}

/// Page without class and id attributes.
fn without_names(html: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(html.len());
    let mut in_tag = false;
    let mut at = 0;
    while at < html.len() {
        let rest = &html[at..];
        match rest[0] {
            b'<' => in_tag = rest.get(1).is_some_and(u8::is_ascii_alphabetic),
            b'>' => in_tag = false,
            byte if in_tag && byte.is_ascii_whitespace() => {
                let names: [&[u8]; 2] = [b"class=", b"id="];
                let name = names.into_iter().find(|name| {
                    rest.get(1..=name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
                });
                if let Some(name) = name {
                    at += 1 + name.len() + value_length(&rest[1 + name.len()..]);
                    continue;
                }
            }
            _ => {}
        }
        out.push(rest[0]);
        at += 1;
    }
    out
}

/// Length of an attribute value with its quotes.
fn value_length(text: &[u8]) -> usize {
    match text.first() {
        Some(&quote @ (b'"' | b'\'')) => {
            text[1..].iter().position(|&byte| byte == quote).map_or(text.len(), |end| end + 2)
        }
        _ => {
            let ends = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'>';
            text.iter().position(ends).unwrap_or(text.len())
        }
    }
}

fn texts(html: &[u8]) -> Result<(String, String)> {
    let base: NormalUrl = "https://gold.example/page".parse()?;
    let options = ParseOptions { full_text: true, ..ParseOptions::default() };
    let page = parse_bytes(html, None, &base, &options);
    Ok((page.text, page.full_text.unwrap_or_default()))
}

fn readability_text(html: &[u8]) -> String {
    let html = crawlway_content::charset::decode(html, None).text.into_owned();
    // The raw mode joins the last word of a block with the first of the next.
    let config = Config { text_mode: TextMode::Formatted, ..Config::default() };
    let article = Readability::new(html, Some("https://gold.example/page"), Some(config))
        .and_then(|mut page| page.parse());
    article.map(|article| article.text_content.to_string()).unwrap_or_default()
}

fn score_page(arguments: &Arguments, name: &str) -> Result<Scored> {
    let (html, expected) = read(arguments, name)?;
    let (main_text, whole) = texts(&html)?;
    let expected = shingles(&expected);
    Ok(Scored {
        name: name.to_owned(),
        kind: kind(&html, name),
        main_text: score(&expected, &shingles(&main_text)),
        whole: score(&expected, &shingles(&whole)),
        readability: score(&expected, &shingles(&readability_text(&html))),
    })
}

/// Kind from `<!-- kind: … -->` near the start, else from the name up to the first hyphen.
fn kind(html: &[u8], name: &str) -> String {
    let head = String::from_utf8_lossy(&html[..html.len().min(1024)]);
    let marked = head.split_once("<!-- kind:").and_then(|(_, rest)| rest.split_once("-->"));
    let kind = marked.map_or_else(|| name.split('-').next().unwrap_or(name), |(kind, _)| kind);
    kind.trim().to_owned()
}

/// Lower-case words without punctuation; each character of a script without spaces is a word.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for token in text.to_lowercase().split_whitespace() {
        let mut word = String::new();
        for c in token.chars().filter(|c| c.is_alphanumeric()) {
            if is_unspaced(c) {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                words.push(c.to_string());
            } else {
                word.push(c);
            }
        }
        if !word.is_empty() {
            words.push(word);
        }
    }
    words
}

fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c), 0xe00..=0xeff | 0x3040..=0x30ff | 0x3400..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff)
}

fn shingles(text: &str) -> HashMap<Vec<String>, u32> {
    let words = words(text);
    let mut counts = HashMap::new();
    if words.is_empty() {
        return counts;
    }
    for shingle in words.windows(SHINGLE.min(words.len())) {
        *counts.entry(shingle.to_vec()).or_default() += 1;
    }
    counts
}

fn score(expected: &HashMap<Vec<String>, u32>, found: &HashMap<Vec<String>, u32>) -> Score {
    let total =
        |counts: &HashMap<Vec<String>, u32>| counts.values().map(|count| f64::from(*count)).sum::<f64>();
    let common: f64 =
        expected.iter().map(|(shingle, count)| f64::from(*count.min(found.get(shingle).unwrap_or(&0)))).sum();
    let share = |of: f64| if of == 0.0 { 0.0 } else { common / of };
    Score { precision: share(total(found)), recall: share(total(expected)) }
}

fn show_difference(arguments: &Arguments, name: &str) -> Result<()> {
    let (html, expected) = read(arguments, name)?;
    let (main_text, _) = texts(&html)?;
    let lines = |text: &str| text.lines().map(|line| words(line).join(" ")).collect::<Vec<_>>();
    let (expected_lines, main_lines) = (lines(&expected), lines(&main_text));
    let (expected_all, main_all) = (words(&expected).join(" "), words(&main_text).join(" "));
    for line in expected_lines.iter().filter(|line| !main_all.contains(line.as_str())) {
        println!("missing:  {line}");
    }
    for line in main_lines.iter().filter(|line| !expected_all.contains(line.as_str())) {
        println!("superfluous: {line}");
    }
    Ok(())
}

fn mean(pages: &[&Scored], of: impl Fn(&Scored) -> Score) -> f64 {
    let count = u32::try_from(pages.len()).unwrap_or(u32::MAX);
    pages.iter().map(|page| of(page).f1()).sum::<f64>() / f64::from(count.max(1))
}

fn by_kind(pages: &[Scored]) -> BTreeMap<&str, Vec<&Scored>> {
    let mut kinds: BTreeMap<&str, Vec<&Scored>> = BTreeMap::new();
    for page in pages {
        kinds.entry(&page.kind).or_default().push(page);
    }
    kinds
}

fn print_table(pages: &[Scored]) {
    println!(
        "{:<34} {:<10} {:>6} {:>6} {:>6} | {:>6} {:>11}",
        "page", "kind", "prec", "recall", "F1", "whole", "readability"
    );
    for page in pages {
        println!(
            "{:<34} {:<10} {:>6.3} {:>6.3} {:>6.3} | {:>6.3} {:>11.3}",
            page.name,
            page.kind,
            page.main_text.precision,
            page.main_text.recall,
            page.main_text.f1(),
            page.whole.f1(),
            page.readability.f1()
        );
    }
    println!("\n{:<22} {:>5} {:>6} | {:>6} {:>11}", "kind", "pages", "F1", "whole", "readability");
    for (kind, pages) in by_kind(pages) {
        print_means(kind, &pages);
    }
    print_means("all", &pages.iter().collect::<Vec<_>>());
}

fn print_means(label: &str, pages: &[&Scored]) {
    println!(
        "{label:<22} {:>5} {:>6.3} | {:>6.3} {:>11.3}",
        pages.len(),
        mean(pages, |page| page.main_text),
        mean(pages, |page| page.whole),
        mean(pages, |page| page.readability)
    );
}
