//! Cases: settling a URL, and what is counted.

use super::fixture::*;
use super::script::scripts;

scripts! {
    done_is_done: "
        add a/1 a/2; take a/1; done a/1 crawled canonical=proper
        entry a/1 state done attempts 1 outcome published canonical proper due none crawled now
        pass 4000s; next 10 10 = a/2                # a done URL is not handed out, though it is old
    ";
    a_retry_waits_and_counts: "
        add a/1 a/2; take a/1; retry a/1 20s = retrying 2
        entry a/1 state pending attempts 1 due 20s outcome timed_out
        take a/2; done a/2                          # a retry delays no other URL of its host
        pass 20s-1ms; none; pass 1ms; take a/1; taken a/1 attempt 2 error timed_out item a/1
    ";
    a_deferral_counts_nothing: "
        add a; take a; fail a timed_out
        repeat 9: take a; taken a attempt 2 error timed_out; defer a 1s = deferred; entry a state pending due 1s attempts 1; pass 1s
        take a; defer a 0s; take a; defer a -20s; take a; defer a 0s   # a deferral into the past is due now
        counts 1 0 0 0; outcomes
    ";
    a_deferral_holds_its_host_back: "
        add a/1 a/2; pass 1ms; add b; next 1 1 = a/1; defer a/1 20s; take b
        add a/3; pass 20s-1ms; none                 # new URLs of the host included
        pass 1ms; next 10 3 = 3
    ";
    a_deferred_url_comes_first_of_its_host: "
        add a/1 a/2 a/3; pass 1s; take a/1
        repeat 3: defer a/1 20s; pass 20s; take a/1 # the others would only be deferred behind it
        done a/1; take a/2; defer a/2 1s; pass 20s; next 10 3 = ordered a/2 a/3
    ";
    a_url_that_waits_by_itself_delays_no_other: "
        add a/1 a/2; next 1 1 = a/1; wait a/1 20s = deferred; take a/2; done a/2
        pass 20s-1ms; none; pass 1ms; take a/1; taken a/1 attempt 1
    ";
    the_last_attempt_is_dead_with_its_errors: "
        add a
        take a; taken a attempt 1; pass 1s; fail a error_1 = retrying 2
        take a; taken a attempt 2; pass 1s; fail a error_2 = retrying 3
        take a; taken a attempt 3; pass 1s; fail a error_3 = dead
        none; entry a state dead; dead a; deadinfo a item a attempts 3 at now first error_1 last error_3
    ";
    a_dead_verdict_is_final: "
        add a; take a; fail a timed_out; take a; reject a = dead; pass 20s; none
        dead a; deadinfo a reason gone attempts 2 first timed_out last gone; counts 0 0 0 1
    ";
    settling_twice_has_no_effect: "
        add a w; take a w; done a; fenced a
        add b x; take b x; retry b 20s; fenced b
        add c y; take c y; reject c; fenced c
        add d z; take d z; defer d 20s; fenced d
    ";
    counts_follow_every_step: "
        counts 0 0 0 0; add a b c d e; counts 5 0 0 0; next 4 1 -> p q r s; counts 1 4 0 0
        done p; counts 1 3 1 0; retry q 1s; counts 2 2 1 0; defer r 1s; counts 3 1 1 0; reject s; counts 3 0 1 1
        fetched 1; pass 1s; end_all; counts 0 0 4 1; is finished
    ";
    outcomes_are_counted: "
        add a b c; next 3 1 -> p q r
        done p fetched=no crawled=-19s; done q fetched=no outcome=left_out; done r fetched=no
        outcomes left_out 1 published 2; pass 1s; reopen due = 1
        next 10 1 -> p; done p fetched=no outcome=unchanged
        outcomes left_out 1 published 2 unchanged 1; counts 0 0 3 0
    ";
}

pub(super) async fn a_made_up_receipt_has_no_effect((t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    let taken = t.take("one waits").await;
    let Receipt { entry, claim: taking } = taken.receipt;
    let before = t.counts(&id).await;
    let other_taking = Receipt { entry, claim: taking.wrapping_add(1000) };
    for made_up in
        [other_taking, Receipt { entry: entry + 1000, claim: taking }, Receipt { entry: u64::MAX, claim: 0 }]
    {
        let answer = expect_ok(t.store.settle(&[(made_up, done())]).await, "settling what is made up");
        assert_eq!(answer, [None], "{made_up:?} is made up, {:?} is real", taken.receipt);
        let held = expect_ok(t.store.extend(&[made_up]).await, "extending what is made up");
        assert_eq!(held, [false], "{made_up:?} is made up");
    }
    assert_eq!(t.counts(&id).await, before, "nothing has changed");
    t.settle(&taken, done()).await;
}
