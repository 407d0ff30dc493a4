//! Case: random schedules of messages, redeliveries and late ends against a model.

use super::fixture::*;

/// Expected record of a URL.
#[derive(Debug)]
struct ModelRecord {
    message: (u64, String),
    number: u64,
    status: RecordStatus,
    retries: u32,
    error: Option<String>,
    page: Option<FetchedContent>,
}

pub(super) async fn any_schedule_agrees_with_the_model(t: Fixture<'_>) {
    for seed in 0..4 {
        let dice = Jitter::seeded(seed);
        let roll = |sides: u64| dice.next_u64() % sides;
        let mut model: HashMap<String, ModelRecord> = HashMap::new();
        let mut handed_out: Vec<(String, Attempt)> = Vec::new();
        for step in 1..=120 {
            let (url, now) = (format!("https://{seed}.example/{}", roll(3)), 1000 + step);
            let place = format!("seed {seed}, step {step}, {url}");
            // Few of them, so that they come again, and in any order.
            let time = 990 + roll(step / 20 + 2);
            let message = (time, format!("m-{time}-{}", roll(2)));
            if roll(4) == 0 {
                let request = about(&url, &message.1, message.0);
                let marked = t.store.mark_queued(&[request], at(now)).await;
                expect_ok(marked, "queueing");
                expect_queued(&mut model, &url, message);
            } else if roll(2) == 0 || handed_out.is_empty() {
                let told = t.begin(&about(&url, &message.1, message.0), now).await;
                expect_begun(&mut model, &url, message, &told, &place);
                if let BeginOutcome::Started { attempt, .. } = told {
                    handed_out.push((url, attempt));
                }
            } else {
                // Mostly the latest, else one that may be long overtaken.
                let place_of =
                    if roll(3) > 0 { handed_out.len() - 1 } else { index(roll(64), handed_out.len()) };
                let (url, attempt) = handed_out[place_of].clone();
                let place = format!("{place}: attempt {} at {url}", attempt.number);
                let (told, end) = if roll(3) == 0 {
                    let fetched = page(&step.to_string());
                    (t.complete(&attempt, &fetched, now).await, Some(fetched))
                } else {
                    (t.fail(&attempt, &step.to_string(), now).await, None)
                };
                expect_ended(&mut model, &url, &attempt, end, step, &told, &place);
            }
        }
        for (url, expected) in model {
            let record = t.record_of(&url).await;
            let state = (record.status, record.processing.retry_count, record.processing.error_message);
            assert_eq!(state, (expected.status, expected.retries, expected.error), "{url}");
            let page = expected.page.unwrap_or_default();
            assert_eq!(record.metadata.page_source, page.page_source.into(), "the page of {url}");
            assert_eq!(record.additional_details.unwrap_or_default(), page.additional_details, "its details");
            let work = record.latest_attempt.map(|work| (work.requested_at, work.message_id, work.attempt));
            let (second, message) = expected.message;
            assert_eq!(work, Some((at(second), message, expected.number)), "the message of {url}");
        }
    }
}

fn expect_queued(model: &mut HashMap<String, ModelRecord>, url: &str, message: (u64, String)) {
    let queued = |message, number, page| ModelRecord {
        message,
        number,
        status: RecordStatus::Queued,
        retries: 0,
        error: None,
        page,
    };
    match model.get_mut(url) {
        None => drop(model.insert(url.to_owned(), queued(message, 0, None))),
        Some(record) if record.status.is_finished() && record.message < message => {
            *record = queued(message, record.number, record.page.take());
        }
        Some(_) => {}
    }
}

fn index(number: u64, of: usize) -> usize {
    usize::try_from(number).unwrap_or(0) % of
}

fn expect_begun(
    model: &mut HashMap<String, ModelRecord>,
    url: &str,
    message: (u64, String),
    told: &BeginOutcome,
    place: &str,
) {
    let last = model.get(url);
    let same = last.filter(|record| record.message == message);
    let expected = match (last, same) {
        (_, Some(record)) if record.status.is_finished() => {
            Some(BeginOutcome::AlreadyFinished { status: record.status, retry_count: record.retries })
        }
        (Some(record), None) if record.message > message => {
            Some(BeginOutcome::Superseded { by: record.message.1.clone() })
        }
        _ => None,
    };
    if let Some(expected) = expected {
        assert_eq!(*told, expected, "{place}: {message:?}");
        return;
    }
    let BeginOutcome::Started { attempt, retry_count } = told else {
        panic!("{place}: {message:?} must begin, and is told {told:?}")
    };
    assert_eq!(*retry_count, same.map_or(0, |record| record.retries), "{place}: {message:?}");
    assert!(attempt.number > last.map_or(0, |record| record.number), "{place}: the number of the attempt");
    let record = ModelRecord {
        number: attempt.number,
        status: RecordStatus::InProgress,
        retries: *retry_count,
        error: same.and_then(|record| record.error.clone()),
        page: last.and_then(|record| record.page.clone()),
        message,
    };
    model.insert(url.to_owned(), record);
}

fn expect_ended(
    model: &mut HashMap<String, ModelRecord>,
    url: &str,
    attempt: &Attempt,
    fetched: Option<FetchedContent>,
    step: u64,
    told: &EndOutcome,
    place: &str,
) {
    let record = model.get_mut(url).unwrap_or_else(|| panic!("{place}: it was begun"));
    if record.number != attempt.number || record.message.1 != attempt.message_id {
        assert_eq!(*told, EndOutcome::Fenced, "{place}");
        return;
    }
    if record.status == RecordStatus::InProgress {
        match fetched {
            Some(fetched) => {
                (record.status, record.error, record.page) = (RecordStatus::Completed, None, Some(fetched));
            }
            None => {
                record.retries += 1;
                record.error = Some(step.to_string());
                record.status = if record.retries < MAX_ATTEMPTS {
                    RecordStatus::FailedRetryable
                } else {
                    RecordStatus::FailedPermanent
                };
            }
        }
    }
    assert_eq!(*told, EndOutcome::Recorded { status: record.status, retry_count: record.retries }, "{place}");
}
