//! A worker on SQLite is killed with SIGKILL at random times; everything it confirmed must be stored, and counted once.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it prints what libtest would")]

mod harness;

use crawlway_store_conformance::inventory::kill::{KilledWorkers, work};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use std::{io::Write, path::Path};

const KILLS: u64 = 40;

fn main() {
    harness::run_or_be_child(
        "a_killed_worker_counts_every_failure_once",
        async || kill_many_times().await,
        async |arguments| {
            let store = open(Path::new(&arguments[0])).await;
            let print = |line| std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
            work(&store, arguments[1].parse().unwrap(), print).await;
        },
    );
}

async fn open(path: &Path) -> SqlStore {
    let options = SqlOptions::new(Database::Sqlite(path.to_owned()));
    SqlStore::open(options).await.expect("what a kill leaves can be opened")
}

async fn kill_many_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let child = |from: u64| harness::child(&[path.to_str().unwrap(), &from.to_string()]);
    let told = KilledWorkers::kill_repeatedly(KILLS, child);
    println!("{KILLS} kills, {} messages", told.acknowledged());
    told.check(&open(&path).await).await;
}
