//! The case list, in one place: from it come the suite's table and every backend's tests.

use super::{Harness, languages, parts, queries};

/// Writes one test per conformance case of searching, in modules by theme below a module `conformance`.
///
/// The expression makes a [`Harness`]; it is evaluated once per case and
/// may `await`.
///
/// ```text
/// crawlway_store::finding_conformance_suite!(IndexHarness::new());
/// ```
#[macro_export]
macro_rules! finding_conformance_suite {
    ($make:expr) => {
        $crate::finding_conformance_suite! { @list tests ($crate::conformance::finding::run, $make) }
    };
    (@list $what:ident $arguments:tt) => {
        $crate::conformance::suite! { $what $arguments
            queries {
                a_word_counts_more_in_the_title_and_when_it_is_rare,
                words_phrases_operators_and_titles,
                hosts_and_their_subdomains,
                dates_include_whole_days,
                a_filter_says_nothing_of_how_well_a_page_fits,
                what_cannot_be_asked_is_explained,
            }
            languages {
                accents_do_not_count_either_way,
                chinese_japanese_korean_and_thai_by_any_part,
                very_long_words_are_kept_and_found,
            }
            parts {
                equal_scores_are_in_order_of_url_and_parts_fit_together,
                near_duplicates_are_folded_alike_in_every_part,
                three_bits_are_near_four_are_not_and_no_text_is_like_no_other,
                a_page_of_nothing_but_duplicates_ends,
            }
        }
    };
}

finding_conformance_suite! { @list table () }
