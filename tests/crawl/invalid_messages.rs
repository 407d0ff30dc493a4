//! Invalid messages on `crawler_queue` become dead letters with a reason, valid ones are indexed.

use crate::lab::Lab;
use crawlway_broker::{Broker, DeadLetterFilter, DeadLetters, Outgoing, QueueName, QueueSpec};
use crawlway_broker_embedded::{EmbeddedBroker, Options};
use crawlway_demo_web::Plan;
use serde_json::json;
use std::time::Duration;

fn page(number: usize) -> Vec<u8> {
    json!({
        "url": format!("https://foreign.test/{number}"),
        "text": format!("a page from elsewhere with the word foreign{number}"),
        "metadata": { "title": format!("Foreign {number}"), "timestamp": "2026-11-15T09:30:00Z", "status_code": 200 }
    })
    .to_string()
    .into_bytes()
}

#[test]
fn valid_messages_are_indexed_and_invalid_ones_become_dead_letters() {
    let lab = Lab::new(Plan::crash_of(200), Duration::from_millis(2));
    let queue = QueueName::new("crawler_queue").unwrap();
    let open = || EmbeddedBroker::open(&lab.data().join("queue"), Options::default()).unwrap();
    let huge = {
        let mut message = json!({ "url": "https://foreign.test/huge", "text": "x".repeat(50_000_000) });
        message["metadata"] = json!({ "title": "", "timestamp": "2026-11-15T09:30:00Z", "status_code": 200 });
        message.to_string().into_bytes()
    };
    let mut wrong_type = serde_json::from_slice::<serde_json::Value>(&page(0)).unwrap();
    wrong_type["metadata"]["status_code"] = json!("200");
    let bad: Vec<(Vec<u8>, &str)> = vec![
        (b"not json at all".to_vec(), "not JSON"),
        (b"".to_vec(), "not JSON"),
        (b"[1,2,3]".to_vec(), "expected an object"),
        (wrong_type.to_string().into_bytes(), "`metadata.status_code` is \"200\""),
        (br#"{"url":"https://foreign.test/x","metadata":{}}"#.to_vec(), "`text` is missing"),
        (b"{\"url\":\"\xff\xfe\"}".to_vec(), "not UTF-8"),
        (huge, "the limit is 16777216"),
    ];
    lab.runtime.block_on(async {
        let broker = open();
        broker.declare(&[QueueSpec::new(queue.clone())]).await.unwrap();
        let mut batch = Vec::new();
        for number in 0..40 {
            batch.push(Outgoing::to_queue(&queue, page(number)));
            if let Some((body, _)) = bad.get(number) {
                batch.push(Outgoing::to_queue(&queue, body.clone()));
            }
        }
        for answer in broker.publish(batch).await {
            answer.unwrap();
        }
        broker.close().await.unwrap();
    });
    let report = lab.crawl_to_end();
    assert_eq!(report["not_indexed"], bad.len(), "the report counts dead letters: {report}");

    let found = lab.indexed();
    for number in 0..40 {
        let url = format!("https://foreign.test/{number}");
        assert_eq!(found.iter().filter(|found| **found == url).count(), 1, "{url}");
    }
    lab.runtime.block_on(async {
        let broker = open();
        let letters = broker.dead_letters(&queue, &DeadLetterFilter::all(), None, 100).await.unwrap().letters;
        let reasons: Vec<&str> = letters.iter().map(|letter| letter.reason.as_str()).collect();
        assert_eq!(letters.len(), bad.len(), "{reasons:#?}");
        for (body, expected) in &bad {
            let letter = letters.iter().find(|letter| letter.message.body == *body).unwrap();
            assert!(letter.reason.contains(expected), "expected `{expected}` in `{}`", letter.reason);
            assert_eq!(letter.attempts, 1, "an invalid message is not retried");
        }
        broker.close().await.unwrap();
    });
}
