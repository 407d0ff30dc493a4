//! Cases: leases are kept, extended and lost.

use super::fixture::*;
use super::script::scripts;

scripts! {
    a_lease_is_stated_and_kept_and_extended: "
        add a; take a; taken a lease 60s
        repeat 4: pass 60s-1ms; none; extend a = yes
        pass 60s-1ms; none; done a; entry a state done attempts 1
    ";
    a_lost_lease_comes_back_and_fences_its_worker: "
        add a; take a; pass 60s+1ms; take a; taken a item a losses 1 error * lease 60s; counts 0 1 0 0
        fenced a~; extend a~ a = no yes; done a; fenced a~; entry a state done
    ";
    settling_after_the_lease_counts_until_it_is_taken_over: "
        add a; take a; pass 180s; done a; counts 0 0 1 0; is finished
    ";
    extending_a_lost_lease_is_refused: "
        add a b; next 1 1 -> p; pass 30s; next 1 1 -> q; pass 30s+1ms; next 10 1 -> r; taken r item p
        extend q p r = yes no yes
    ";
    taking_back_returns_all_at_once: "
        back = 0; add a b c d; next 3 1 -> p q r; done p; pass 1ms; back = 2; counts 3 0 1 0
        fenced q; extend r = no; next 10 1 -> x y z; losses x y z = 0 1 1
    ";
}
