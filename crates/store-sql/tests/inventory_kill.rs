//! A worker on SQLite is killed with SIGKILL at random times; what it was told must be there, and be counted once.
//!
//! Without a test harness, since the test starts itself.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it prints what a test harness would")]

use crawlway_store_conformance::inventory::killed::{Told, work};
use crawlway_store_sql::{Place, SqlOptions, SqlStore};
use std::{io::Write, path::Path, process::Command};

const KILLS: u64 = 40;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("--child") => child(Path::new(&arguments[2]), arguments[3].parse().unwrap()),
        Some("--list") => {}
        _ => {
            println!("\nrunning 1 test");
            kill_many_times();
            println!("test a_killed_worker_counts_every_failure_once ... ok");
            println!("\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

async fn open(path: &Path) -> SqlStore {
    let options = SqlOptions::new(Place::Sqlite(path.to_owned()));
    SqlStore::open(options).await.expect("what a kill leaves can be opened")
}

fn kill_many_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let told = Told::by_killed(KILLS, |from| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--child".as_ref(), path.as_os_str(), from.to_string().as_ref()]);
        child
    });
    println!("{KILLS} kills, {} messages", told.acknowledged());
    runtime().block_on(async { told.check(&open(&path).await).await });
}

fn child(path: &Path, from: u64) {
    runtime().block_on(async {
        let store = open(path).await;
        let tell = |line| std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
        work(&store, from, tell).await;
    });
}
