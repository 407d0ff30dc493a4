//! Cases: a permit is valid until it is finished or its lease ends, and fenced after that.

use super::fixture::*;

pub(super) async fn a_made_up_permit_is_fenced(t: Fixture<'_>) {
    let g = group("forged");
    let real = t.goes(&g, &ALONE, "the group is free").await;
    let other = t.goes(&group("forged-too"), &ALONE, "the group is free").await;
    let forged = [
        Permit { id: real.id ^ 1 << 40, ..real.clone() },
        Permit { id: 0, ..real.clone() },
        Permit { id: u64::MAX, ..real.clone() },
        Permit { group: other.group.clone(), ..real.clone() },
        Permit { group: group("unheard-of"), ..real.clone() },
    ];
    for permit in &forged {
        if permit.group == other.group && permit.id == other.id {
            continue;
        }
        t.fenced(permit, RequestOutcome::Success, "no permit is like that").await;
        let fenced = Err(RateLimiterError::Fenced { group: permit.group.clone() });
        assert_eq!(t.store.extend(from_ref(permit)).await, [fenced], "no permit is like that");
    }
    t.waits(&g, &ALONE, "the real one is in flight").await;
    t.finish(&real, RequestOutcome::Success).await;
}
