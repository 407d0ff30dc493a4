//! Sample data directory: queues with ready, delayed and dead messages.

use crate::home::Home;
use crawlway_broker::{
    ExchangeName, MaxLength, Outgoing, QueueBackend, QueueName, QueueSpec, Timestamp, TopicPattern, Verdict,
};
use crawlway_broker_embedded::{Clock, ManualClock, Options};
use std::time::Duration;

/// Age of everything in the sample, so that printed ages are stable for a while.
const AGE: Duration = Duration::from_secs(3 * 60 + 5);

pub(crate) fn name(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

/// Clock that stands still about three minutes ago.
pub(crate) fn three_minutes_ago() -> Options {
    at(Timestamp::now() - AGE)
}

pub(crate) fn at(time: Timestamp) -> Options {
    Options { clock: Clock::Manual(ManualClock::at(time)), ..Options::default() }
}

/// Four queues; `crawler_queue` has two ready, one delayed and three dead messages, `url_inventory` is paused.
pub(crate) fn filled(options: Options) -> Home {
    let home = Home::new();
    home.with_broker(options, async |broker| {
        broker.declare(&specs()).await.unwrap();
        let crawler = name("crawler_queue");
        for (id, body) in [
            ("page-1", &b"{\"url\":\"https://example.com/1\"}"[..]),
            ("page-2", b""),
            ("page-3", b"\x00\xff\xfe"),
        ] {
            let message =
                Outgoing::to_queue(&crawler, body.to_vec()).id(id).header("trail", format!("of {id}"));
            publish(broker, message.key(format!("key of {id}")).group("example.com")).await;
        }
        make_dead_letters(broker, &crawler).await;
        for number in 4..7 {
            let later = Timestamp::now() + Duration::from_secs(3600);
            let message = Outgoing::to_queue(&crawler, "{}").id(format!("page-{number}").as_str());
            publish(broker, if number == 6 { message.not_before(later) } else { message }).await;
        }
        publish(broker, Outgoing::to_queue(&name("url_inventory"), "{}")).await;
        broker.pause(&name("url_inventory")).await.unwrap();
    });
    home
}

pub(crate) async fn publish(broker: &dyn QueueBackend, message: Outgoing) {
    for result in broker.publish(vec![message]).await {
        result.unwrap();
    }
}

/// Makes dead letters of all messages: with a reason, after two failures, and with control characters in the reason.
async fn make_dead_letters(broker: &dyn QueueBackend, queue: &QueueName) {
    loop {
        let deliveries = broker.receive(queue, 10, Duration::ZERO).await.unwrap();
        if deliveries.is_empty() {
            return;
        }
        for delivery in deliveries {
            let verdict = match delivery.message.id.as_str() {
                "page-1" => Verdict::Dead { reason: "not valid: `text` is missing".to_owned() },
                "page-2" => {
                    Verdict::Retry { after: Duration::ZERO, error: format!("timeout {}", delivery.attempt) }
                }
                _ => Verdict::Dead { reason: format!("boom \u{1b}[31m\nred {}", "very ".repeat(20)) },
            };
            for result in broker.settle(vec![(delivery.receipt, verdict)]).await {
                result.unwrap();
            }
        }
    }
}

fn specs() -> [QueueSpec; 4] {
    let pattern = TopicPattern::new("kijiji.#").unwrap();
    [
        QueueSpec::new(name("crawler_queue")).max_attempts(2),
        QueueSpec::new(name("url_inventory")).prefetch(1).max_length(MaxLength::Exact(1000)),
        QueueSpec::new(name("CrawlerQueue.fifo"))
            .ordering(crawlway_broker::Ordering::PerGroup)
            .lease(Duration::from_secs(90)),
        QueueSpec::new(name("scraped.kijiji"))
            .bind(ExchangeName::new("scraped").unwrap(), pattern)
            .max_length(MaxLength::Approximate { limit: 500, slack: 64 }),
    ]
}
