//! Case: random schedules of messages, redeliveries and late ends, beside a model.

use super::trial::*;

/// What the store must know of a URL.
#[derive(Debug)]
struct Known {
    message: (u64, String),
    number: u64,
    status: Status,
    retries: u32,
    error: Option<String>,
    page: Option<Fetched>,
}

pub(super) async fn any_schedule_agrees_with_the_model(t: Trial<'_>) {
    for seed in 0..4 {
        let dice = Jitter::seeded(seed);
        let roll = |sides: u64| dice.number() % sides;
        let mut model: HashMap<String, Known> = HashMap::new();
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
                works(marked, "queueing");
                expect_queued(&mut model, &url, message);
            } else if roll(2) == 0 || handed_out.is_empty() {
                let told = t.begin(&about(&url, &message.1, message.0), now).await;
                expect_begun(&mut model, &url, message, &told, &place);
                if let Begun::Yours { attempt, .. } = told {
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
        for (url, known) in model {
            let record = t.record_of(&url).await;
            assert_eq!(
                (record.status, record.processing.retry_count),
                (known.status, known.retries),
                "{url}"
            );
            assert_eq!(record.processing.error_message, known.error, "the error of {url}");
            let page = known.page.unwrap_or_default();
            assert_eq!(record.metadata.page_source, page.page_source.into(), "the page of {url}");
            assert_eq!(record.additional_details.unwrap_or_default(), page.additional_details, "its details");
            let work = record.work.map(|work| (work.requested_at, work.message_id, work.attempt));
            assert_eq!(
                work,
                Some((at(known.message.0), known.message.1, known.number)),
                "whose it is: {url}"
            );
        }
    }
}

fn expect_queued(model: &mut HashMap<String, Known>, url: &str, message: (u64, String)) {
    let queued = |message, number, page| Known {
        message,
        number,
        status: Status::Queued,
        retries: 0,
        error: None,
        page,
    };
    match model.get_mut(url) {
        None => drop(model.insert(url.to_owned(), queued(message, 0, None))),
        Some(known) if known.status.is_finished() && known.message < message => {
            *known = queued(message, known.number, known.page.take());
        }
        Some(_) => {}
    }
}

fn index(number: u64, of: usize) -> usize {
    usize::try_from(number).unwrap_or(0) % of
}

fn expect_begun(
    model: &mut HashMap<String, Known>,
    url: &str,
    message: (u64, String),
    told: &Begun,
    place: &str,
) {
    let last = model.get(url);
    let same = last.filter(|known| known.message == message);
    let expected = match (last, same) {
        (_, Some(known)) if known.status.is_finished() => {
            Some(Begun::Finished { status: known.status, retry_count: known.retries })
        }
        (Some(known), None) if known.message > message => {
            Some(Begun::Superseded { by: known.message.1.clone() })
        }
        _ => None,
    };
    if let Some(expected) = expected {
        assert_eq!(*told, expected, "{place}: {message:?}");
        return;
    }
    let Begun::Yours { attempt, retry_count } = told else {
        panic!("{place}: {message:?} must begin, and is told {told:?}")
    };
    assert_eq!(*retry_count, same.map_or(0, |known| known.retries), "{place}: {message:?}");
    assert!(attempt.number > last.map_or(0, |known| known.number), "{place}: the number of the attempt");
    let known = Known {
        number: attempt.number,
        status: Status::InProgress,
        retries: *retry_count,
        error: same.and_then(|known| known.error.clone()),
        page: last.and_then(|known| known.page.clone()),
        message,
    };
    model.insert(url.to_owned(), known);
}

fn expect_ended(
    model: &mut HashMap<String, Known>,
    url: &str,
    attempt: &Attempt,
    fetched: Option<Fetched>,
    step: u64,
    told: &Ended,
    place: &str,
) {
    let known = model.get_mut(url).unwrap_or_else(|| panic!("{place}: it was begun"));
    if known.number != attempt.number || known.message.1 != attempt.message_id {
        assert_eq!(*told, Ended::Overtaken, "{place}");
        return;
    }
    if known.status == Status::InProgress {
        match fetched {
            Some(fetched) => {
                (known.status, known.error, known.page) = (Status::Completed, None, Some(fetched));
            }
            None => {
                known.retries += 1;
                known.error = Some(step.to_string());
                known.status = if known.retries < MOST_TRIES {
                    Status::FailedRetryable
                } else {
                    Status::FailedPermanent
                };
            }
        }
    }
    assert_eq!(*told, Ended::As { status: known.status, retry_count: known.retries }, "{place}");
}
