//! Drops notices about cookies, appeals to subscribe and legal notices: they are on every page and about none.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::super::text::index_text;
use super::phrases::{APPEALS, COOKIE_COMPANY, LEGAL};
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

/// How many of the legal phrases a text has. One pass looks for all of them, since most texts have none.
fn legal_cues(text: &str) -> u32 {
    static LEGAL_CUES: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| all_of(LEGAL));
    // The phrases are constants, and there is room for them: a test says so.
    let Some(phrases) = &*LEGAL_CUES else { return 0 };
    // Whether there is any is told sooner than which.
    if !phrases.is_match(text) {
        return 0;
    }
    let found = phrases.find_overlapping_iter(text);
    found.fold(0_u128, |bits, phrase| bits | 1 << phrase.pattern().as_usize()).count_ones()
}

const _: () = assert!(LEGAL.len() <= 128, "a bit each");

fn appeals_to_subscribe(text: &str) -> bool {
    static ALL_APPEALS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| all_of(APPEALS));
    ALL_APPEALS.as_ref().is_some_and(|phrases| phrases.is_match(text))
}

fn all_of(phrases: &[&str]) -> Option<AhoCorasick> {
    AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).build(phrases).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one_by_one(phrases: &[&str], text: &str) -> u32 {
        phrases.iter().map(|phrase| u32::from(text.contains(phrase))).sum()
    }

    #[test]
    fn every_phrase_is_found() {
        for phrase in LEGAL {
            assert!(legal_cues(&format!("so {phrase}.")) > 0, "{phrase}");
        }
        for phrase in APPEALS {
            assert!(appeals_to_subscribe(&format!("so {phrase}.")), "{phrase}");
        }
    }

    proptest! {
        #[test]
        fn one_pass_finds_what_each_search_finds(places in prop::collection::vec((0usize..200, 0usize..3), 0..6)) {
            let all = [LEGAL, APPEALS, &["cookies", "we", "the "]].concat();
            let text: String = places
                .iter()
                .map(|(place, gap)| format!("{}{}", all[place % all.len()], ["", " ", ", and "][*gap]))
                .collect();
            prop_assert_eq!(legal_cues(&text), one_by_one(LEGAL, &text));
            prop_assert_eq!(appeals_to_subscribe(&text), one_by_one(APPEALS, &text) > 0);
        }
    }
}
