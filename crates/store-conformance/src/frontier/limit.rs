//! Cases: a crawl fetches no more pages than its limit.

use super::fixture::*;
use super::script::scripts;

scripts! {
    no_more_than_may_be_fetched_are_in_flight: "
        crawl limited max 3; add a b c d e f; next 2 1 -> p q; next 10 1 = 1; none; done p; none
        crawl other; add other:a; take other:a; is running              # a limit is of one crawl
    ";
    a_url_that_was_not_fetched_uses_up_no_limit: "
        crawl limited max 1; add a b c; next 10 1 -> p; done p fetched=no; fetched 0
        next 10 1 -> p; reject p; next 10 1 -> p; done p; fetched 1; is finished
    ";
    a_url_that_comes_back_makes_room_in_the_limit: "
        crawl limited max 1; add a b c; next 10 1 -> p; retry p 540s; next 10 1 -> q; defer q 540s; next 10 1 -> r; none
        pass 60s+1ms; next 10 1 -> s; taken s item r losses 1
    ";
    a_crawl_that_has_fetched_all_it_may_is_limited: "
        crawl limited max 2; add a b c d e; next 1 1 -> p; is running; done p; fetched 1; next 1 1 -> p; is running; done p
        fetched 2; is limited; counts 3 0 2 0; none
    ";
    a_limit_of_nothing_fetches_nothing: "
        crawl limited max 0; add a b; none; pass 3600s; none; counts 2 0 0 0
    ";
    a_used_up_limit_keeps_a_crawl_limited: "
        crawl limited max 1; add a b c; next 10 1 -> gone; reject gone
        next 10 1 -> again; done again fetched=no crawled; next 10 1 -> only; done only
        add new; is limited; replay gone = yes; is limited; insist gone = yes; is limited
        pass 20s; reopen due = 1; is limited; none; counts 3 0 1 0
        insist only = yes; is running; next 10 1 = 1                    # the fetched page makes room
    ";
    a_raised_limit_goes_on_with_waiting_urls: "
        crawl limited max 1; add a b c d e; next 1 1 -> p; done p; is limited
        limit 3 = running; next 10 1 -> p q; done p; done q; limit none = running; next 10 1 -> p q; done p; done q
        is finished; add new; limit 2 = limited; none                   # it has fetched more than it may now
    ";
}
