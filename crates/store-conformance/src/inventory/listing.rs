//! Cases: lists by creation time with pagination, and counts.

use super::fixture::*;

/// A record made at this second.
async fn made(t: &Fixture<'_>, url: &str, second: u64) -> RecordId {
    t.attempt(&about(url, "m", second), second).await.id
}

fn all() -> RecordQuery {
    RecordQuery { limit: MAX_PAGE_SIZE, ..RecordQuery::default() }
}

fn ids(records: &[InventoryRecord]) -> Vec<RecordId> {
    records.iter().map(|record| record.id).collect()
}

pub(super) async fn the_newest_comes_first(t: Fixture<'_>) {
    assert_eq!(t.list(all()).await.records, [], "nothing is there");
    let mut expected = Vec::new();
    for second in [3, 1, 4, 2, 5] {
        expected.push((second, made(&t, &format!("https://a.example/{second}"), second).await));
    }
    // What happens to one later does not move it.
    t.completed(&about("https://a.example/1", "m-2", 9), &page("hello"), 9).await;
    expected.sort_by_key(|(second, _)| std::cmp::Reverse(*second));
    let expected: Vec<RecordId> = expected.into_iter().map(|(_, id)| id).collect();
    let listed = t.list(all()).await;
    assert_eq!(ids(&listed.records), expected, "by when they were made");
    assert_eq!(listed.next, None, "that is all");
    let urls = listed.records.iter().map(|record| record.url.clone());
    assert_eq!(urls.collect::<Vec<_>>()[0], "https://a.example/5", "with what they are");
}

pub(super) async fn records_of_one_time_are_in_order_of_their_ids(t: Fixture<'_>) {
    let mut expected = Vec::new();
    for number in 0..20 {
        expected.push(made(&t, &format!("https://a.example/{number}"), 1).await);
    }
    expected.sort();
    expected.reverse();
    assert_eq!(ids(&t.list(all()).await.records), expected, "the greatest id first");
}

pub(super) async fn a_range_has_its_start_and_not_its_end(t: Fixture<'_>) {
    for second in 1..=5 {
        made(&t, &format!("https://a.example/{second}"), second).await;
    }
    let times = async |from: Option<u64>, to: Option<u64>| {
        let wanted = RecordQuery { from: from.map(at), to: to.map(at), ..all() };
        let listed = t.list(wanted).await;
        let times = listed.records.iter().map(|record| record.created_at.since(at(0)).as_secs());
        times.collect::<Vec<u64>>()
    };
    assert_eq!(times(Some(2), Some(4)).await, [3, 2], "from its start to before its end");
    assert_eq!(times(Some(4), None).await, [5, 4], "from its start on");
    assert_eq!(times(None, Some(3)).await, [2, 1], "up to before its end");
    assert_eq!(times(Some(3), Some(3)).await, [0; 0], "a range without any time");
    assert_eq!(times(Some(4), Some(2)).await, [0; 0], "a range that ends before it starts");
}

pub(super) async fn a_status_is_picked(t: Fixture<'_>) {
    for second in 1..=9 {
        let url = format!("https://a.example/{second}");
        let attempt = t.attempt(&about(&url, "m", second), second).await;
        match second % 3 {
            0 => {
                t.complete(&attempt, &page("hello"), second).await;
            }
            1 => {
                t.fail(&attempt, "timed out", second).await;
            }
            _ => {}
        }
    }
    for (status, expected) in [
        (RecordStatus::Completed, vec![9, 6, 3]),
        (RecordStatus::FailedRetryable, vec![7, 4, 1]),
        (RecordStatus::InProgress, vec![8, 5, 2]),
        (RecordStatus::FailedPermanent, vec![]),
    ] {
        let mut found = Vec::new();
        let mut wanted = RecordQuery { status: Some(status), limit: 2, ..RecordQuery::default() };
        loop {
            let listed = t.list(wanted.clone()).await;
            assert!(listed.records.iter().all(|record| record.status == status), "only those {status}");
            found.extend(listed.records.iter().map(|record| record.created_at.since(at(0)).as_secs()));
            wanted.after = listed.next;
            if wanted.after.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "those {status}, over several pages");
    }
}

pub(super) async fn pages_have_every_record_once(t: Fixture<'_>) {
    let mut there = Vec::new();
    for number in 0..23 {
        // Several of one time, so that pages end among them.
        there.push(made(&t, &format!("https://a.example/{number}"), 10 + number / 5).await);
    }
    for limit in [1, 3, 23] {
        let mut found = Vec::new();
        let mut wanted = RecordQuery { limit, ..RecordQuery::default() };
        for page in 0.. {
            let listed = t.list(wanted.clone()).await;
            assert!(listed.records.len() <= limit, "no more than {limit}");
            found.extend(ids(&listed.records));
            let Some(next) = listed.next else { break };
            let text = next.to_string();
            wanted.after = Some(text.parse::<Cursor>().unwrap_or_else(|error| panic!("{error}")));
            // Newer ones and older ones come meanwhile, in front of the pages seen and behind.
            made(&t, &format!("https://b.example/{limit}/{page}"), 100 + page).await;
            assert!(page < 200, "the pages of {limit} come to an end");
        }
        let known: Vec<RecordId> = found.iter().filter(|id| there.contains(id)).copied().collect();
        let mut distinct = known.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(
            (known.len(), distinct.len()),
            (there.len(), there.len()),
            "each once, in pages of {limit}"
        );
    }
}

pub(super) async fn a_page_has_no_more_than_asked(t: Fixture<'_>) {
    let many = MAX_PAGE_SIZE_WITH_SOURCE + 3;
    for number in 0..many {
        made(&t, &format!("https://a.example/{number}"), 1).await;
    }
    let look = async |limit, with_source| {
        let listed = t.list(RecordQuery { limit, with_source, ..RecordQuery::default() }).await;
        (listed.records.len(), listed.next.is_some())
    };
    assert_eq!(look(0, false).await, (0, false), "nothing was asked for");
    assert_eq!(look(1, false).await, (1, true), "one, and there is more");
    assert_eq!(look(many - 1, false).await, (many - 1, true), "all but one, and there is more");
    assert_eq!(look(many, false).await, (many, false), "all, and no more");
    assert_eq!(look(usize::MAX, false).await, (many, false), "as many as there are");
    assert_eq!(look(usize::MAX, true).await, (MAX_PAGE_SIZE_WITH_SOURCE, true), "fewer with their sources");
}

pub(super) async fn sources_are_left_out_unless_asked_for(t: Fixture<'_>) {
    let full = t.completed(&about("https://a.example/", "m", 1), &page("hello"), 1).await;
    made(&t, "https://b.example/", 2).await;
    let without = t.list(all()).await.records;
    for record in &without {
        assert_eq!(record.metadata.page_source, PageSource::Omitted, "not asked for: {}", record.url);
    }
    assert_eq!(without[1].metadata.headers, full.metadata.headers, "the rest is there");
    assert_eq!(without[1].additional_details, full.additional_details, "and so are the details");
    let with = t.list(RecordQuery { with_source: true, ..all() }).await.records;
    assert_eq!(with[1], full, "asked for");
    assert_eq!(with[0].metadata.page_source, PageSource::Absent, "there is none yet");
}

pub(super) async fn records_are_counted_by_status(t: Fixture<'_>) {
    let counts = async || expect_ok(t.store.counts().await, "counting");
    assert_eq!(counts().await.total(), 0, "there is nothing");
    for number in 0..7 {
        let attempt = t.attempt(&about(&format!("https://a.example/{number}"), "m", 1), 1).await;
        match number {
            0 => {
                t.complete(&attempt, &page("hello"), 2).await;
            }
            1 | 2 => {
                t.fail(&attempt, "timed out", 2).await;
            }
            3 => {
                expect_ok(t.store.fail(&attempt, "no", 1, at(2)).await, "failing");
            }
            _ => {}
        }
    }
    let counts = counts().await;
    let expected = [
        (RecordStatus::Queued, 0),
        (RecordStatus::InProgress, 3),
        (RecordStatus::Completed, 1),
        (RecordStatus::FailedRetryable, 2),
        (RecordStatus::FailedPermanent, 1),
    ];
    assert_eq!(counts.iter().collect::<Vec<_>>(), expected, "each record under its status");
}
