//! The suite of searching can fail: every case finds a deliberate breach of the contract, and every breach is found.

mod finding_oracle;

use crawlway_store::conformance::finding::{CASES, run};
use finding_oracle::{Fault, OracleHarness};

/// Runs the case on the oracle with this fault and expects it to fail for a reason that it states.
fn is_found(fault: Fault, module: &str, case: &str) {
    crawlway_conformance::must_fail(&format!("{module}::{case} on an index with {fault:?}"), || {
        run(module, case, async || OracleHarness::new(fault));
    });
}

crawlway_conformance::finds! {
    queries {
        a_word_counts_more_in_the_title_and_when_it_is_rare: NoTitleBoost, NoRarity;
        words_phrases_operators_and_titles: PhraseIsWords, PassesOverNot, TitleIsText, FindsByPrefix;
        hosts_and_their_subdomains: HostAlone, HostByItsEnd;
        dates_include_whole_days: DaysEndAtTheirStart;
        a_filter_says_nothing_of_how_well_a_page_fits: FiltersCount;
        what_cannot_be_asked_is_explained: AnyPart;
    }
    languages {
        accents_do_not_count_either_way: KeepsAccents;
        chinese_japanese_korean_and_thai_by_any_part: WordsBySpaces;
        very_long_words_are_kept_and_found: DropsLongWords;
    }
    parts {
        equal_scores_are_in_order_of_url_and_parts_fit_together: TiesBackwards, GoesOnForEver;
        near_duplicates_are_folded_alike_in_every_part: FoldsEachPart, NeverFolds, TotalOfGroups;
        three_bits_are_near_four_are_not_and_no_text_is_like_no_other: FoldsFour, FoldsEmpty;
        a_page_of_nothing_but_duplicates_ends: NeverFolds;
    }
}
