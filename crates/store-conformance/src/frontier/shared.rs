//! Cases: handles share their state, and it survives a reopening.

use super::fixture::*;

pub(super) async fn everything_survives_a_reopening((mut t, id): Crawling<'_>) {
    let policy = t.store.policy();
    let budget = UrlBudget { kind: "calendar".to_owned(), max: 6, reason: "too many".to_owned() };
    let charged = |host: &str, path: &str| NewUrl { budget: Some(budget.clone()), ..url(host, path) };
    let hosts = ["done", "dead", "retried", "deferred", "deferred", "waiting", "over"];
    for (number, host) in hosts.iter().enumerate() {
        t.add(&id, &[charged(&format!("{host}.example"), &number.to_string())]).await;
    }
    let validators = Validators { etag: Some("\"tag\"".to_owned()), last_modified: None };
    let facts = PageFacts { fetched: true, validators: validators.clone(), ..PageFacts::default() };
    let facts = PageFacts { crawled_at: due_at(t.now() + WHILE * 3), ..facts };
    for taken in t.next(10, 1).await {
        match taken.host.as_str() {
            "done.example" => t.settle(&taken, done_with(facts.clone())).await,
            "dead.example" => t.settle(&taken, dead()).await,
            "retried.example" => t.settle(&taken, retry(WHILE)).await,
            "deferred.example" => t.settle(&taken, UrlVerdict::Defer { until: t.now() + WHILE * 2 }).await,
            _ => t.settle(&taken, UrlVerdict::Defer { until: t.now() }).await,
        };
    }
    let (crawl, listed) = (t.crawl(&id).await, t.dead(None, 10).await);
    t = t.reopened().await;
    assert_eq!(t.store.policy(), policy, "the policy");
    assert_eq!(t.crawl(&id).await, crawl, "the crawl and its counts");
    assert_eq!(t.dead(None, 10).await, listed, "the dead");
    assert_eq!(t.add(&id, &[charged("new.example", "")]).await, [AddOutcome::OverBudget], "the budget");
    assert_eq!(t.add(&id, &[charged("done.example", "0")]).await, [AddOutcome::Duplicate], "what is known");
    assert_eq!(t.take("one waits").await.host, "waiting.example", "what is due");
    t.pass(WHILE).await;
    let retried = t.take("the retry is due").await;
    assert_eq!((retried.host.as_str(), retried.attempt), ("retried.example", 2), "the retry");
    t.settle(&retried, done()).await;
    t.pass(WHILE).await;
    assert_eq!(t.next(10, 2).await.len(), 2, "the deferred host");
    t.pass(WHILE).await;
    assert_eq!(t.reopen_crawl(&id).await, 1, "one is due again");
    let taken = t.next(10, 1).await;
    let again = taken.iter().find(|taken| taken.host == "done.example");
    assert_eq!(again.map(|taken| &taken.validators), Some(&validators), "its validators");
}
