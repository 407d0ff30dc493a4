//! Drops cookie notices, requests to subscribe and legal notices.

use std::sync::LazyLock;

use super::super::text::index_text;
use super::phrase_matcher::PhraseMatcher;
use super::phrases::{COOKIE_CONTEXT, LEGAL, SUBSCRIBE_PHRASES};
use super::{Extraction, is_article, is_main};

/// Maximum words of a request to subscribe.
const MAX_SUBSCRIBE_WORDS: u32 = 40;

/// Maximum words of a legal notice.
const MAX_NOTICE_WORDS: u32 = 300;

/// Drops cookie notices near the start or the end, and legal notices near the end.
pub(super) fn drop_notices(page: &mut Extraction<'_>, title: &str) {
    let title = index_text(title);
    let count = page.blocks.len();
    let is_about_cookies = title.contains("cookie");
    let is_legal = legal_cues(&title) > 0 || title.contains("terms") || title.contains("privacy");
    let in_content = page.inside(|section| is_main(section) || is_article(section));
    let mut cookies = Vec::new();
    let mut requests = Vec::new();
    for at in 0..count {
        let is_near_end = at * 10 >= count * 6;
        let is_near_start = at * 10 <= count * 2;
        if !page.is_kept(at) || page.blocks[at].words > MAX_NOTICE_WORDS || !(is_near_end || is_near_start) {
            continue;
        }
        let text = index_text(page.block_str(at));
        if page.blocks[at].words <= MAX_SUBSCRIBE_WORDS && asks_to_subscribe(&text) {
            requests.push(at);
        }
        if text.contains("cookies") && COOKIE_CONTEXT.iter().any(|word| text.contains(word)) {
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
    // A page with many of them is about subscriptions.
    if requests.len() <= 2 && !asks_to_subscribe(&title) {
        for at in requests {
            page.block_dropped[at] = true;
        }
    }
    if !is_about_cookies && cookies.len() <= 3 {
        for at in cookies {
            page.block_dropped[at] = true;
        }
    }
    page.update_totals();
}

/// Number of legal phrases in a text.
fn legal_cues(text: &str) -> u32 {
    // The constants fit into the matcher; a test checks it.
    static CUES: LazyLock<Option<PhraseMatcher>> = LazyLock::new(|| PhraseMatcher::new(LEGAL));
    CUES.as_ref().map_or(0, |phrases| phrases.count(text))
}

fn asks_to_subscribe(text: &str) -> bool {
    static PHRASES: LazyLock<Option<PhraseMatcher>> = LazyLock::new(|| PhraseMatcher::new(SUBSCRIBE_PHRASES));
    PHRASES.as_ref().is_some_and(|phrases| phrases.contains_any(text))
}
