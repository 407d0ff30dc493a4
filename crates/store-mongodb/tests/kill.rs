//! Kill test: a worker on MongoDB is killed with SIGKILL at random times. Confirmed writes must be there, counted once.
//!
//! Without a test harness, since the test starts itself.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it prints what a test harness would")]

mod harness;

use crawlway_store_conformance::inventory::kill::{KilledWorkers, work};
use crawlway_store_mongodb::{MongoOptions, MongoStore};
use std::{io::Write, process::Command};

const KILLS: u64 = 20;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("--child") => child(&arguments[2], arguments[3].parse().unwrap()),
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

fn options(database: &str) -> MongoOptions {
    let url = crawlway_testkit::servers::mongodb();
    MongoOptions { database: database.to_owned(), ..MongoOptions::new(url) }
}

fn kill_many_times() {
    let options = harness::options(&crawlway_testkit::servers::mongodb());
    let confirmed = KilledWorkers::kill_repeatedly(KILLS, |from| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--child", &options.database, &from.to_string()]);
        child
    });
    println!("{KILLS} kills, {} messages", confirmed.acknowledged());
    runtime().block_on(async {
        let store = MongoStore::open(options.clone()).await.unwrap();
        confirmed.check(&store).await;
        harness::database(&options).await.drop().await.unwrap();
    });
}

fn child(database: &str, from: u64) {
    runtime().block_on(async {
        let store = MongoStore::open(options(database)).await.unwrap();
        let report = |line| std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
        work(&store, from, report).await;
    });
}
