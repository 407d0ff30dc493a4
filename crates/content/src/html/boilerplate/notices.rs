//! Drops notices about cookies, appeals to subscribe and legal notices: they are on every page and about none.

use std::sync::LazyLock;

use super::super::text::index_text;
use super::phrases::{APPEALS, COOKIE_COMPANY, LEGAL};
use super::sieve::Sieve;
use super::{Judged, is_article, is_main};

/// Longest appeal to subscribe, in words.
const MAX_APPEAL_WORDS: u32 = 40;

/// Longest legal notice, in words.
const MAX_NOTICE_WORDS: u32 = 300;

/// Drops notices about cookies near the start or the end, and legal ones near the end.
pub(super) fn drop_notices(page: &mut Judged<'_>, title: &str) {
    let title = index_text(title);
    let count = page.blocks.len();
    let is_about_cookies = title.contains("cookie");
    let is_legal = legal_cues(&title) > 0 || title.contains("terms") || title.contains("privacy");
    let in_content = page.inside(|section| is_main(section) || is_article(section));
    let mut cookies = Vec::new();
    let mut appeals = Vec::new();
    for at in 0..count {
        let is_near_end = at * 10 >= count * 6;
        let is_near_start = at * 10 <= count * 2;
        if !page.is_kept(at) || page.blocks[at].words > MAX_NOTICE_WORDS || !(is_near_end || is_near_start) {
            continue;
        }
        let text = index_text(page.block_str(at));
        if page.blocks[at].words <= MAX_APPEAL_WORDS && appeals_to_subscribe(&text) {
            appeals.push(at);
        }
        if text.contains("cookies") && COOKIE_COMPANY.iter().any(|word| text.contains(word)) {
            cookies.push(at);
        }
        if is_near_end && !is_legal {
            let cues = legal_cues(&text);
            let enough = if in_content[page.block_section(at)] { 3 } else { 2 };
            if cues >= enough || (cues == 1 && text.starts_with(['©', 'ⓒ'])) {
                page.block_dropped[at] = true;
            }
        }
    }
    // A page that asks for it all over is about it.
    if appeals.len() <= 2 && !appeals_to_subscribe(&title) {
        for at in appeals {
            page.block_dropped[at] = true;
        }
    }
    if !is_about_cookies && cookies.len() <= 3 {
        for at in cookies {
            page.block_dropped[at] = true;
        }
    }
    page.add_up();
}

/// How many of the legal phrases a text has.
fn legal_cues(text: &str) -> u32 {
    // The phrases are constants, and there is room for them: a test says so.
    static CUES: LazyLock<Option<Sieve>> = LazyLock::new(|| Sieve::new(LEGAL));
    CUES.as_ref().map_or(0, |phrases| phrases.count(text))
}

fn appeals_to_subscribe(text: &str) -> bool {
    static PHRASES: LazyLock<Option<Sieve>> = LazyLock::new(|| Sieve::new(APPEALS));
    PHRASES.as_ref().is_some_and(|phrases| phrases.finds_any(text))
}
