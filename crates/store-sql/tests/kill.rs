//! A child under load on SQLite is killed with SIGKILL at random times; what it was told must be there.
//!
//! The child says on standard output what it was told: `A` URLs that were added, `S` URLs whose mark as seen and
//! settle as done returned ok, `T` items whose trail was recorded. Nothing of that may be lost, and nothing settled may
//! be handed out again. Without a test harness, since the test starts itself.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it prints what a test harness would")]

mod harness;

use crawlway_store::{
    End, Frontier, SeenUrls, Timestamp, TrailEntry, Trails,
    frontier::{Added, Ending, EntryState, PageFacts},
    seen::{Claim, Claimed, Seen},
};
use crawlway_store_sql::{Place, SqlOptions, SqlStore};
use harness::{crawl, id, look, url};
use sqlx::{Connection, SqliteConnection};
use std::{
    collections::HashSet,
    io::{Read, Write},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

const KILLS: u64 = 40;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("--child") => child(Path::new(&arguments[2]), arguments[3].parse().unwrap()),
        Some("--list") => {}
        _ => {
            println!("\nrunning 1 test");
            kill_many_times();
            println!("test a_killed_store_loses_nothing_that_it_confirmed ... ok");
            println!("\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

async fn open(path: &Path) -> SqlStore {
    // Nothing is remembered and keys move often, so that both are put to the test.
    let options =
        SqlOptions { remembered: 0, keys_at_once: 40, ..SqlOptions::new(Place::Sqlite(path.to_owned())) };
    SqlStore::open(options).await.expect("what a kill leaves can be opened")
}

fn kill_many_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let mut chance = Timestamp::now().as_millis();
    println!("seed {chance}");
    let (mut added, mut settled, mut recorded) = (HashSet::new(), HashSet::new(), HashSet::new());
    for run in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--child".as_ref(), path.as_os_str(), run.to_string().as_ref()])
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
        // A last line without its end was not told.
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
    runtime().block_on(check(&path, &added, &settled, &recorded));
}

async fn check(path: &Path, added: &HashSet<String>, settled: &HashSet<String>, recorded: &HashSet<String>) {
    let store = open(path).await;
    store.take_back().await.unwrap();
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
        let claim = Claim::new(url("h", word).url, "nobody");
        let claimed = store.claim(&[claim], Duration::from_secs(1)).await.unwrap();
        assert!(matches!(claimed[..], [Claimed::Seen { .. }]), "{word} was marked, and now is {claimed:?}");
    }
    let again: Vec<_> = added.iter().map(|word| url("h", word)).collect();
    let answers = store.add(&id("c"), &again).await.unwrap();
    assert!(answers.iter().all(|answer| *answer == Added::Known), "what was added is known");
    let counts = look(&store, &id("c")).await.counts;
    assert_eq!((counts.in_flight, counts.dead), (0, 0));
    assert!(counts.done >= done && counts.known() >= added.len() as u64, "{counts:?}");
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

fn child(path: &Path, run: u64) {
    let told = |what: &str, words: &[String]| {
        let lines: String = words.iter().map(|word| format!("{what}{word}\n")).collect();
        std::io::stdout().write_all(lines.as_bytes()).unwrap();
    };
    runtime().block_on(async {
        let store = open(path).await;
        store.take_back().await.unwrap();
        let c = crawl(&store, "c", None).await;
        for round in 0.. {
            let words: Vec<String> = (0..8).map(|n| format!("{run}-{round}-{n}")).collect();
            let urls: Vec<_> = words.iter().map(|word| url("h", word)).collect();
            store.add(&c, &urls).await.unwrap();
            told("A", &words);
            let taken = store.next(6, 100).await.unwrap();
            let endings: Vec<_> = taken
                .iter()
                .map(|taken| {
                    let facts = PageFacts::default();
                    (taken.receipt, Ending::Done { outcome: "ok".to_owned(), facts, rest: Duration::ZERO })
                })
                .collect();
            let marks: Vec<Seen> = taken.iter().map(|taken| seen(&taken.url, &taken.item)).collect();
            store.mark(&marks).await.unwrap();
            let settled = store.settle(&endings).await.unwrap();
            assert!(settled.iter().all(Option::is_some));
            let words: Vec<String> =
                taken.iter().map(|taken| taken.url.trim_start_matches("https://h/").to_owned()).collect();
            told("S", &words);
            let entries: Vec<TrailEntry> = taken.iter().map(|taken| entry(&taken.item, &taken.url)).collect();
            store.record(&entries).await.unwrap();
            told("T", &taken.iter().map(|taken| taken.item.clone()).collect::<Vec<_>>());
        }
    });
}

fn seen(url: &str, owner: &str) -> Seen {
    Seen { url: url.to_owned(), owner: owner.to_owned(), ttl: Duration::from_secs(3600) }
}

fn entry(item: &str, subject: &str) -> TrailEntry {
    TrailEntry {
        item: item.to_owned(),
        subject: Some(subject.to_owned()),
        flow: "search".to_owned(),
        stage: "crawl".to_owned(),
        at: Timestamp::now(),
        end: End::Done,
        outcome: "published".to_owned(),
        attempt: 1,
        took_ms: 1,
        worker: "child".to_owned(),
        replays: 0,
        note: None,
        error: None,
    }
}
