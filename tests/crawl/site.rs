//! Web site with scripted responses, which may change between two crawls.

use crawlway_testkit::{
    process,
    web::{self, Request},
};
use std::{
    collections::HashMap,
    fmt::Write as _,
    net::Ipv4Addr,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_crawlway");
/// Upper bound for every wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Response to a path.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
    /// Delay after the request.
    delay: Duration,
}

impl Response {
    pub(crate) fn page(body: &str) -> Self {
        Self::status(200).with("content-type", "text/html").body(body)
    }

    pub(crate) fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: String::new(), delay: Duration::ZERO }
    }

    pub(crate) fn redirect(to: &str) -> Self {
        Self::status(302).with("location", to)
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn delayed(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    fn body(self, body: &str) -> Self {
        Self { body: body.to_owned(), ..self }
    }
}

#[derive(Debug, Default)]
struct State {
    /// Responses by host and path.
    responses: HashMap<String, Response>,
    requests: Vec<String>,
}

/// Hosts 127.0.0.2 and 127.0.0.3 on the same port, and the program with a private data directory.
pub(crate) struct Site {
    state: Arc<Mutex<State>>,
    first: Ipv4Addr,
    pub(crate) port: u16,
    pub(crate) home: TempDir,
    /// Additional settings, as environment variables.
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::serving(&[host(2), host(3)], 0)
    }

    /// One host with this address and port.
    pub(crate) fn at(address: [u8; 4], port: u16) -> Self {
        Self::serving(&[Ipv4Addr::from(address)], port)
    }

    /// The same site with another data directory.
    pub(crate) fn with_new_home(self) -> Self {
        Self { home: tempfile::tempdir().unwrap(), ..self }
    }

    fn serving(hosts: &[Ipv4Addr], port: u16) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let served = state.clone();
        let port = web::serve(hosts, port, move |request| respond(request, &served));
        Self { state, first: hosts[0], port, home: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    /// The URL of a path of the first host.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}:{}{path}", self.first, self.port)
    }

    pub(crate) fn url_of(&self, number: u8, path: &str) -> String {
        format!("http://{}:{}{path}", host(number), self.port)
    }

    pub(crate) fn put(&self, path: &str, response: Response) {
        self.state.lock().unwrap().responses.insert(format!("{}{path}", self.first), response);
    }

    pub(crate) fn put_at(&self, number: u8, path: &str, response: Response) {
        self.state.lock().unwrap().responses.insert(format!("{}{path}", host(number)), response);
    }

    /// Sets a page with this text and these links, and additional elements for its head.
    pub(crate) fn page(&self, path: &str, head: &str, text: &str, links: &[&str]) {
        let mut body = format!("<html><head><title>{text}</title>{head}</head><body><p>{text}</p>");
        for link in links {
            write!(body, "<a href=\"{link}\">{link}</a> ").unwrap();
        }
        self.put(path, Response::page(&body));
    }

    /// Sets a page with this canonical URL.
    pub(crate) fn canonical(&self, path: &str, canonical: &str, text: &str) {
        self.page(path, &format!("<link rel=canonical href=\"{canonical}\">"), text, &[]);
    }

    /// Number of requests for a path of the first host.
    pub(crate) fn requests(&self, path: &str) -> usize {
        let key = format!("{}{path}", self.first);
        self.state.lock().unwrap().requests.iter().filter(|request| **request == key).count()
    }

    pub(crate) fn all_requests(&self) -> usize {
        self.state.lock().unwrap().requests.len()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// The program with short delays.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        let mut program = Command::new(PROGRAM);
        program
            .args(arguments)
            .arg("--data")
            .arg(self.data())
            .current_dir(self.home.path())
            .env_clear()
            .envs([
                ("CRAWLWAY_RATE_LIMIT__BACKOFF_DELAY", "5ms"),
                ("CRAWLWAY_RATE_LIMIT__MAX_BACKOFF_DELAY", "10ms"),
                ("CRAWLWAY_RATE_LIMIT__BREAKER_FAILURES", "0"),
                ("CRAWLWAY_SEARCH__RETRY_DELAY", "5ms"),
                ("CRAWLWAY_SEARCH__MAX_RETRY_DELAY", "10ms"),
                ("CRAWLWAY_SEARCH__MAX_ATTEMPTS", "2"),
                ("CRAWLWAY_SEARCH__INDEX_LINGER", "5ms"),
                ("CRAWLWAY_FETCH__MIN_DELAY", "0s"),
            ])
            .envs(self.variables.iter().map(|(name, value)| (*name, value.as_str())))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        program
    }

    /// `crawlway crawl` from `/`, or from the URL in the arguments.
    pub(crate) fn crawl(&self, arguments: &[&str]) -> Command {
        let mut crawl = self.program(&["crawl", "--json", "--allow", &format!("127.0.0.0/8:{}", self.port)]);
        if !arguments.iter().any(|argument| argument.starts_with("http://")) {
            crawl.arg(self.url("/"));
        }
        crawl.args(arguments);
        crawl
    }

    /// Crawls to the end, which must succeed. Returns the report.
    #[track_caller]
    pub(crate) fn crawl_to_end(&self, arguments: &[&str]) -> serde_json::Value {
        json(&output_of(self.crawl(arguments)), 0)
    }

    /// Sorted URLs of the hits, without scheme and host if it is the first host.
    #[track_caller]
    pub(crate) fn search(&self, query: &str) -> Vec<String> {
        let found = output_of(self.program(&["search", query, "--json", "--all", "--limit", "100"]));
        let code = found.status.code().unwrap();
        let hits = json(&found, code)["hits"].as_array().unwrap().clone();
        let mut urls: Vec<String> =
            hits.iter().map(|hit| hit["url"].as_str().unwrap().replace(&self.url(""), "")).collect();
        assert_eq!(code, i32::from(urls.is_empty()), "the exit code is 1 without hits");
        urls.sort();
        urls
    }

    /// Dead letters of the frontier.
    pub(crate) fn dead(&self) -> Vec<serde_json::Value> {
        let listed = json(&output_of(self.program(&["dead", "list", "frontier", "--json"])), 0);
        listed["dead"].as_array().unwrap().clone()
    }
}

/// Runs a program to its end.
#[track_caller]
pub(crate) fn output_of(mut command: Command) -> Output {
    finish(command.spawn().unwrap())
}

/// Waits for a program to end.
pub(crate) fn finish(child: Child) -> Output {
    process::output(child, TIMEOUT)
}

/// Sends SIGTERM.
pub(crate) fn terminate(child: &Child) {
    process::signal(child, rustix::process::Signal::TERM);
}

/// Standard output as JSON; the exit code must be this one.
#[track_caller]
pub(crate) fn json(output: &Output, code: i32) -> serde_json::Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{:?}\n{stdout}\n{stderr}", output.status);
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

/// Polls a condition until it holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    process::wait_until(what, TIMEOUT, condition);
}

fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, number)
}

fn respond(request: &Request, state: &Mutex<State>) -> Vec<u8> {
    let key = format!("{}{}", request.host, request.path);
    let response = {
        let mut state = state.lock().unwrap();
        state.requests.push(key.clone());
        state.responses.get(&key).cloned().unwrap_or_else(|| Response::status(404))
    };
    std::thread::sleep(response.delay);
    let mut headers = String::new();
    for (name, value) in &response.headers {
        write!(headers, "{name}: {value}\r\n").unwrap();
    }
    let header = |name: &str, all: &[(String, String)]| all.iter().find(|(known, _)| known == name).cloned();
    let etag = header("etag", &response.headers).map(|(_, value)| value);
    if etag.is_some() && etag == header("if-none-match", &request.headers).map(|(_, value)| value) {
        return format!("HTTP/1.1 304 X\r\n{headers}\r\n").into_bytes();
    }
    web::response(&format!("{} X", response.status), &headers, response.body.as_bytes())
}
