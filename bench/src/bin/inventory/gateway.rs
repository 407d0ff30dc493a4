//! Gateway and worker of `crawlway`, on embedded stores or on servers.

use crate::{Broker, baseline, load, request::Request};
use anyhow::{Context, bail, ensure};
use crawlway_bench::{
    database::Database,
    program::{self, Running},
    server_settings::{postgres, rabbitmq},
};
use serde_json::Value;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

const QUEUE: &str = "url_inventory";

/// Timeout of the worker.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Gateway with its stores; the worker is off at first.
pub(crate) struct Gateway {
    program: PathBuf,
    data: PathBuf,
    settings: Vec<(&'static str, String)>,
    database: Option<Database>,
    pub(crate) process: Running,
    /// Worker process, on servers only.
    worker: Option<Running>,
    pub(crate) address: SocketAddr,
}

impl Gateway {
    /// Starts a gateway on fresh stores. The worker may fetch from the address `pages`.
    pub(crate) fn start(
        program: &Path,
        directory: &Path,
        broker: Broker,
        max_length: usize,
        pages: SocketAddr,
    ) -> anyhow::Result<Self> {
        let data = directory.join("data");
        std::fs::create_dir_all(&data)?;
        let mut settings = vec![
            ("CRAWLWAY_GATEWAY__LISTEN", "127.0.0.1:0".to_owned()),
            ("CRAWLWAY_INVENTORY__MAX_LENGTH", max_length.to_string()),
            ("CRAWLWAY_FETCH__ALLOW", format!("[\"{}/32:{}\"]", pages.ip(), pages.port())),
            ("CRAWLWAY_FETCH__MIN_DELAY", "0s".to_owned()),
            // Refused requests would be logged as warnings.
            ("CRAWLWAY_LOG__LEVEL", "error".to_owned()),
        ];
        let mut database = None;
        let mut only: &[&str] = &[];
        if broker == Broker::Rabbitmq {
            baseline::delete_queue(QUEUE)?;
            let run = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let fresh = Database::create(&run)?;
            settings.extend(rabbitmq());
            settings.extend(postgres(&fresh));
            settings.push(("CRAWLWAY_RATE_LIMIT__KIND", "postgresql".to_owned()));
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
            gateway.change_queue("pause")?;
        }
        Ok(gateway)
    }

    /// Starts to fetch URLs.
    pub(crate) fn start_worker(&mut self) -> anyhow::Result<()> {
        if self.database.is_none() {
            return self.change_queue("resume");
        }
        let mut command = program::command(&self.program, "up", &self.data, &self.settings);
        command.args(["--only", "inventory"]);
        self.worker = Some(Running::start(command)?);
        Ok(())
    }

    /// Stops to fetch URLs.
    pub(crate) fn stop_worker(&mut self) -> anyhow::Result<()> {
        match self.worker.take() {
            Some(worker) => worker.stop(),
            None => self.change_queue("pause"),
        }
    }

    /// Number of messages that are pending or in flight.
    pub(crate) fn pending(&self) -> anyhow::Result<u64> {
        let (_, queue) = self.get(&format!("/api/queues/{QUEUE}"))?;
        Ok(queue["ready"].as_u64().unwrap_or(0) + queue["in_flight"].as_u64().unwrap_or(0))
    }

    /// Fetches a page, and returns the path of its completed record.
    pub(crate) fn fetch_one(&mut self, url: &str) -> anyhow::Result<String> {
        self.start_worker()?;
        let mut request = Request::post(self.address, url);
        let (status, body) = load::send(self.address, request.next())?;
        let accepted: Value = serde_json::from_slice(&body).context("the response to a POST is not JSON")?;
        ensure!(status == 202, "expected status 202, got {status}: {accepted}");
        let path = accepted["location"].as_str().context("an accepted URL without a location")?.to_owned();
        let began = Instant::now();
        loop {
            let (status, record) = self.get(&path)?;
            if status == 200 && record["status"] == "COMPLETED" {
                break;
            }
            ensure!(began.elapsed() < TIMEOUT, "timed out waiting for the completion of {path}: {record}");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.stop_worker()?;
        Ok(path)
    }

    /// Number of completed records.
    pub(crate) fn completed(&self) -> anyhow::Result<u64> {
        let (mut count, mut cursor) = (0, String::new());
        loop {
            let (status, list) = self.get(&format!("/api/urls?status=COMPLETED&limit=1000{cursor}"))?;
            ensure!(status == 200, "expected a list of records, got {list}");
            count += list["urls"].as_array().map_or(0, Vec::len) as u64;
            match list["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(count),
            }
        }
    }

    /// Waits until the queue is empty, and returns the time.
    pub(crate) fn wait_until_drained(&self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        while self.pending()? > 0 {
            ensure!(began.elapsed() < TIMEOUT, "the queue was not empty after {TIMEOUT:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(began.elapsed())
    }

    /// Stops all processes, and removes their data.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        if let Some(worker) = self.worker.take() {
            worker.stop()?;
        }
        self.process.stop()?;
        if let Some(database) = self.database.take() {
            database.drop()?;
            baseline::delete_queue(QUEUE)?;
        }
        Ok(std::fs::remove_dir_all(&self.data)?)
    }

    fn get(&self, path: &str) -> anyhow::Result<(u16, Value)> {
        let (status, body) = load::send(self.address, Request::get(self.address, path).next())?;
        Ok((status, serde_json::from_slice(&body).context("a response of the gateway is not JSON")?))
    }

    fn change_queue(&self, action: &str) -> anyhow::Result<()> {
        let mut command = program::command(&self.program, "queues", &self.data, &self.settings);
        let output = command.args(["--gateway", self.process.url()?, action, QUEUE]).output()?;
        if !output.status.success() {
            bail!("`crawlway queues {action}` failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}

/// Address of a process.
pub(crate) fn address(process: &Running) -> anyhow::Result<SocketAddr> {
    Ok(process.url()?.trim_start_matches("http://").parse()?)
}
