//! Our program as it is measured: its gateway, on embedded stores or on servers, and its worker, on or off.

use crate::{Broker, bare, load, request::Request};
use anyhow::{Context, bail, ensure};
use crawlway_bench::{
    database::Database,
    program::{self, Running},
    servers::{postgres, rabbitmq},
};
use serde_json::Value;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

const QUEUE: &str = "url_inventory";

/// How long the worker may take for what it is given.
const PATIENCE: Duration = Duration::from_secs(120);

/// A gateway with its stores; the worker is off until it is asked for.
pub(crate) struct Gateway {
    program: PathBuf,
    data: PathBuf,
    settings: Vec<(&'static str, String)>,
    database: Option<Database>,
    pub(crate) process: Running,
    /// A process of its own, on servers.
    worker: Option<Running>,
    pub(crate) address: SocketAddr,
}

impl Gateway {
    /// Starts it on fresh stores. A worker may fetch from this address.
    pub(crate) fn start(
        program: &Path,
        place: &Path,
        broker: Broker,
        most_waiting: usize,
        pages: SocketAddr,
    ) -> anyhow::Result<Self> {
        let data = place.join("data");
        std::fs::create_dir_all(&data)?;
        let mut settings = vec![
            ("CRAWLWAY_GATEWAY__LISTEN", "127.0.0.1:0".to_owned()),
            ("CRAWLWAY_INVENTORY__MAX_LENGTH", most_waiting.to_string()),
            ("CRAWLWAY_FETCH__ALLOW", format!("[\"{}/32:{}\"]", pages.ip(), pages.port())),
            ("CRAWLWAY_FETCH__GAP", "0s".to_owned()),
            // What is refused is counted here.
            ("CRAWLWAY_LOG__LEVEL", "error".to_owned()),
        ];
        let mut database = None;
        let mut only: &[&str] = &[];
        if broker == Broker::Rabbitmq {
            bare::delete_queue(QUEUE)?;
            let run = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let fresh = Database::create(&run)?;
            settings.extend(rabbitmq());
            settings.extend(postgres(&fresh));
            settings.push(("CRAWLWAY_GATE__KIND", "postgresql".to_owned()));
            database = Some(fresh);
            only = &["--only", "gateway"];
        }
        let mut command = program::command(program, "up", &data, &settings);
        command.args(only);
        let process = Running::start(command)?;
        let address = address(&process)?;
        let program = program.to_owned();
        let gateway = Self { program, data, settings, database, process, worker: None, address };
        if broker == Broker::Embedded {
            gateway.tell_queue("pause")?;
        }
        Ok(gateway)
    }

    /// Has URLs fetched from here on.
    pub(crate) fn start_worker(&mut self) -> anyhow::Result<()> {
        if self.database.is_none() {
            return self.tell_queue("resume");
        }
        let mut command = program::command(&self.program, "up", &self.data, &self.settings);
        command.args(["--only", "worker:inventory"]);
        self.worker = Some(Running::start(command)?);
        Ok(())
    }

    /// Nothing is fetched from here on.
    pub(crate) fn stop_worker(&mut self) -> anyhow::Result<()> {
        match self.worker.take() {
            Some(worker) => worker.end(),
            None => self.tell_queue("pause"),
        }
    }

    /// How many messages wait.
    pub(crate) fn waiting(&self) -> anyhow::Result<u64> {
        let (_, told) = self.get(&format!("/api/queues/{QUEUE}"))?;
        Ok(told["ready"].as_u64().unwrap_or(0) + told["in_flight"].as_u64().unwrap_or(0))
    }

    /// Has a page fetched, and answers the path of its finished record.
    pub(crate) fn fetch_one(&mut self, url: &str) -> anyhow::Result<String> {
        self.start_worker()?;
        let mut request = Request::post(self.address, url);
        let posted = load::one(self.address, request.next())?;
        let told: Value = serde_json::from_slice(&posted.1).context("what a POST was told is not JSON")?;
        ensure!(posted.0 == 202, "expected a URL to be accepted; it was told {told}");
        let path = told["location"].as_str().context("an accepted URL has a location")?.to_owned();
        let began = Instant::now();
        loop {
            let (status, record) = self.get(&path)?;
            if status == 200 && record["status"] == "COMPLETED" {
                break;
            }
            ensure!(began.elapsed() < PATIENCE, "expected {path} to be completed; it is {record}");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.stop_worker()?;
        Ok(path)
    }

    /// How many records there are that are completed, by the list.
    pub(crate) fn completed(&self) -> anyhow::Result<u64> {
        let (mut count, mut cursor) = (0, String::new());
        loop {
            let (status, list) = self.get(&format!("/api/urls?status=COMPLETED&limit=1000{cursor}"))?;
            ensure!(status == 200, "expected a list of records; it is {list}");
            count += list["urls"].as_array().map_or(0, Vec::len) as u64;
            match list["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(count),
            }
        }
    }

    /// Waits until nothing is waiting any more.
    pub(crate) fn drained(&self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        while self.waiting()? > 0 {
            ensure!(began.elapsed() < PATIENCE, "the queue was not empty after {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(began.elapsed())
    }

    /// Ends everything, and removes what it has left.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        if let Some(worker) = self.worker.take() {
            worker.end()?;
        }
        self.process.end()?;
        if let Some(database) = self.database.take() {
            database.drop()?;
            bare::delete_queue(QUEUE)?;
        }
        Ok(std::fs::remove_dir_all(&self.data)?)
    }

    fn get(&self, path: &str) -> anyhow::Result<(u16, Value)> {
        let (status, body) = load::one(self.address, Request::get(self.address, path).next())?;
        Ok((status, serde_json::from_slice(&body).context("an answer of the gateway is not JSON")?))
    }

    fn tell_queue(&self, word: &str) -> anyhow::Result<()> {
        let mut command = program::command(&self.program, "queues", &self.data, &self.settings);
        let output = command.args(["--gateway", self.process.url()?, word, QUEUE]).output()?;
        if !output.status.success() {
            bail!("`crawlway queues {word}` failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}

/// Where a process listens.
pub(crate) fn address(process: &Running) -> anyhow::Result<SocketAddr> {
    Ok(process.url()?.trim_start_matches("http://").parse()?)
}
