//! Suite of the page index as a search: queries, ranking, pagination and near-duplicates.

mod fixture;
mod languages;
mod parts;
mod queries;

pub use fixture::page;

use crate::pages::Fixture;
use crawlway_store::PageIndex;

suite! { ($) search for dyn PageIndex:
    queries {
        a_word_counts_more_in_the_title_and_when_it_is_rare,
        words_phrases_operators_and_titles,
        hosts_and_their_subdomains,
        dates_include_whole_days,
        a_filter_says_nothing_of_how_well_a_page_fits,
        a_query_that_cannot_be_asked_is_explained,
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
