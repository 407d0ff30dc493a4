//! A child under load on SQLite is killed with SIGKILL at random times; everything it confirmed must be stored.
//!
//! The child prints what returned ok: `A` URLs that were added, `S` URLs that were marked as seen and settled as done, `T`
//! items whose trail was recorded. Nothing of that may be lost, and nothing settled may be handed out again.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it prints what libtest would")]

mod harness;

use crawlway_store::{
    AttemptEnd, Frontier, SeenUrls, Timestamp, TrailEntry, Trails,
    frontier::{AddOutcome, EntryState, PageFacts, UrlVerdict},
    seen::{Claim, ClaimOutcome, SeenUrl},
};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use harness::{crawl, id, look, trail_entry, url};
use sqlx::{Connection, SqliteConnection};
use std::{
    collections::HashSet,
    io::{Read, Write},
    path::Path,
    process::Stdio,
    time::Duration,
};

const KILLS: u64 = 40;

fn main() {
    harness::run_or_be_child(
        "a_killed_store_loses_nothing_that_it_confirmed",
        async || kill_many_times().await,
        async |arguments| work(Path::new(&arguments[0]), arguments[1].parse().unwrap()).await,
    );
}

async fn open(path: &Path) -> SqlStore {
    // No cache and small batches of keys, so that both are exercised.
    let options = SqlOptions {
        url_cache_capacity: 0,
        key_batch: 40,
        ..SqlOptions::new(Database::Sqlite(path.to_owned()))
    };
    SqlStore::open(options).await.expect("what a kill leaves can be opened")
}

async fn kill_many_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let mut chance = Timestamp::now().as_millis();
    println!("seed {chance}");
    let (mut added, mut settled, mut recorded) = (HashSet::new(), HashSet::new(), HashSet::new());
    for run in 0..KILLS {
        let mut child = harness::child(&[path.to_str().unwrap(), &run.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut output = String::new();
            stdout.read_to_string(&mut output).map(|_| output)
        });
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis(5 + (chance >> 33) % 150));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), None, "run {run}: the child ended by itself, with {status}");
        let output = reader.join().unwrap().unwrap();
        // A last line without its end was not printed completely.
        let whole = output.rfind('\n').map_or("", |end| &output[..end]);
        for line in whole.lines() {
            let (what, word) = line.split_at(1);
            match what {
                "A" => drop(added.insert(word.to_owned())),
                "T" => drop(recorded.insert(word.to_owned())),
                "S" => assert!(settled.insert(word.to_owned()), "run {run}: {word} was settled twice"),
                _ => panic!("run {run}: the child said {line:?}"),
            }
        }
    }
    println!("{KILLS} kills, {} added, {} settled, {} recorded", added.len(), settled.len(), recorded.len());
    assert!(settled.len() as u64 > KILLS, "the children got to work");
    check(&path, &added, &settled, &recorded).await;
}

async fn check(path: &Path, added: &HashSet<String>, settled: &HashSet<String>, recorded: &HashSet<String>) {
    let store = open(path).await;
    store.reclaim_all().await.unwrap();
    let mut done = 0;
    for word in added {
        let found = store.find(&url("h", word).url).await.unwrap();
        let entry = found.first().unwrap_or_else(|| panic!("{word} was added and is lost"));
        assert_ne!(entry.state, EntryState::InFlight);
        done += u64::from(entry.state == EntryState::Done);
        if settled.contains(word) {
            assert_eq!(entry.state, EntryState::Done, "{word} was settled");
        }
    }
    for item in recorded {
        assert_eq!(store.of_item(item).await.unwrap().len(), 1, "the trail of {item}");
        let about = store.of_item(item).await.unwrap()[0].subject.clone().unwrap();
        assert_eq!(store.of_subject(&about, 9).await.unwrap().len(), 1, "the trail about {about}");
    }
    for word in settled {
        let claim = Claim::new(url("h", word).url, "other");
        let claimed = store.claim(&[claim], Duration::from_secs(1)).await.unwrap();
        assert!(
            matches!(claimed[..], [ClaimOutcome::Seen { .. }]),
            "{word} was marked, and now is {claimed:?}"
        );
    }
    let again: Vec<_> = added.iter().map(|word| url("h", word)).collect();
    let answers = store.add(&id("c"), &again).await.unwrap();
    assert!(answers.iter().all(|answer| *answer == AddOutcome::Duplicate), "what was added is known");
    let counts = look(&store, &id("c")).await.counts;
    assert_eq!((counts.in_flight, counts.dead), (0, 0));
    assert!(counts.done >= done && counts.total() >= added.len() as u64, "{counts:?}");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    let found: String =
        sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut connection).await.unwrap();
    assert_eq!(found, "ok");
    let twice: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM (SELECT 1 FROM entries GROUP BY hash, crawl HAVING count(*) > 1)",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    assert_eq!(twice, 0, "no URL is there twice");
}

/// The child.
async fn work(path: &Path, run: u64) {
    let confirm = |what: &str, words: &[String]| {
        let lines: String = words.iter().map(|word| format!("{what}{word}\n")).collect();
        std::io::stdout().write_all(lines.as_bytes()).unwrap();
    };
    let store = open(path).await;
    store.reclaim_all().await.unwrap();
    let c = crawl(&store, "c", None).await;
    for round in 0.. {
        let words: Vec<String> = (0..8).map(|n| format!("{run}-{round}-{n}")).collect();
        let urls: Vec<_> = words.iter().map(|word| url("h", word)).collect();
        store.add(&c, &urls).await.unwrap();
        confirm("A", &words);
        let taken = store.claim_next(6, 100).await.unwrap();
        let endings: Vec<_> = taken
            .iter()
            .map(|taken| {
                let facts = PageFacts::default();
                (
                    taken.receipt,
                    UrlVerdict::Done { outcome: "ok".to_owned(), facts, host_delay: Duration::ZERO },
                )
            })
            .collect();
        let marks: Vec<SeenUrl> = taken.iter().map(|taken| seen(&taken.url, &taken.item)).collect();
        store.mark(&marks).await.unwrap();
        let settled = store.settle(&endings).await.unwrap();
        assert!(settled.iter().all(Option::is_some));
        let words: Vec<String> =
            taken.iter().map(|taken| taken.url.trim_start_matches("https://h/").to_owned()).collect();
        confirm("S", &words);
        let now = Timestamp::now().as_millis();
        let entries: Vec<TrailEntry> = taken
            .iter()
            .map(|taken| trail_entry(&taken.item, Some(&taken.url), now, AttemptEnd::Done))
            .collect();
        store.append(&entries).await.unwrap();
        confirm("T", &taken.iter().map(|taken| taken.item.clone()).collect::<Vec<_>>());
    }
}

fn seen(url: &str, owner: &str) -> SeenUrl {
    SeenUrl { url: url.to_owned(), owner: owner.to_owned(), ttl: Duration::from_secs(3600) }
}
