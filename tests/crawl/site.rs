//! A web made by hand, page by page, for what no plan has: answers of any kind, which may change between two crawls.

use std::{
    collections::HashMap,
    fmt::Write as _,
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_crawlway");
/// No test waits longer than this for anything.
const LIMIT: Duration = Duration::from_secs(60);

/// How a path is answered.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
    /// So long after the request.
    late: Duration,
}

impl Answer {
    pub(crate) fn page(body: &str) -> Self {
        Self::status(200).with("content-type", "text/html").body(body)
    }

    pub(crate) fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: String::new(), late: Duration::ZERO }
    }

    pub(crate) fn redirect(to: &str) -> Self {
        Self::status(302).with("location", to)
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn late(self, late: Duration) -> Self {
        Self { late, ..self }
    }

    fn body(self, body: &str) -> Self {
        Self { body: body.to_owned(), ..self }
    }
}

#[derive(Debug, Default)]
struct State {
    /// By host and path.
    answers: HashMap<String, Answer>,
    visits: Vec<String>,
}

/// Hosts 127.0.0.2, 127.0.0.3 and so on, all with one port, and the program with a data directory of its own.
pub(crate) struct Site {
    state: Arc<Mutex<State>>,
    first: Ipv4Addr,
    pub(crate) port: u16,
    pub(crate) home: TempDir,
    /// Settings for every program, besides those that suit a test.
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl Site {
    pub(crate) fn new() -> Self {
        // Any port that is free for all hosts.
        let (port, listeners) = (0..100)
            .find_map(|_| {
                let first = TcpListener::bind((host(2), 0)).ok()?;
                let port = first.local_addr().ok()?.port();
                Some((port, vec![first, TcpListener::bind((host(3), port)).ok()?]))
            })
            .unwrap();
        Self::serving(host(2), port, listeners)
    }

    /// One host of this address, with this port.
    pub(crate) fn at(address: [u8; 4], port: u16) -> Self {
        let first = Ipv4Addr::from(address);
        Self::serving(first, port, vec![TcpListener::bind((first, port)).unwrap()])
    }

    /// The same site, for a program with another data directory.
    pub(crate) fn with_new_home(self) -> Self {
        Self { home: tempfile::tempdir().unwrap(), ..self }
    }

    fn serving(first: Ipv4Addr, port: u16, listeners: Vec<TcpListener>) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        for listener in listeners {
            let state = state.clone();
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let state = state.clone();
                    std::thread::spawn(move || serve(&stream, &state));
                }
            });
        }
        Self { state, first, port, home: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    /// The URL of a path of the first host.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}:{}{path}", self.first, self.port)
    }

    pub(crate) fn url_of(&self, number: u8, path: &str) -> String {
        format!("http://{}:{}{path}", host(number), self.port)
    }

    pub(crate) fn put(&self, path: &str, answer: Answer) {
        self.state.lock().unwrap().answers.insert(format!("{}{path}", self.first), answer);
    }

    pub(crate) fn put_at(&self, number: u8, path: &str, answer: Answer) {
        self.state.lock().unwrap().answers.insert(format!("{}{path}", host(number)), answer);
    }

    /// A page of this text with these links; what is put into its head, if anything.
    pub(crate) fn page(&self, path: &str, head: &str, text: &str, links: &[&str]) {
        let mut body = format!("<html><head><title>{text}</title>{head}</head><body><p>{text}</p>");
        for link in links {
            write!(body, "<a href=\"{link}\">{link}</a> ").unwrap();
        }
        self.put(path, Answer::page(&body));
    }

    /// A page that names another as the proper one.
    pub(crate) fn canonical(&self, path: &str, proper: &str, text: &str) {
        self.page(path, &format!("<link rel=canonical href=\"{proper}\">"), text, &[]);
    }

    /// How often this path of the first host was asked for.
    pub(crate) fn visits(&self, path: &str) -> usize {
        let wanted = format!("{}{path}", self.first);
        self.state.lock().unwrap().visits.iter().filter(|visit| **visit == wanted).count()
    }

    pub(crate) fn all_visits(&self) -> usize {
        self.state.lock().unwrap().visits.len()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// The program, with waits that suit a test.
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

    /// `crawlway crawl` from `/`, or from elsewhere if that is said.
    pub(crate) fn crawl(&self, arguments: &[&str]) -> Command {
        let mut crawl = self.program(&["crawl", "--json", "--allow", &format!("127.0.0.0/8:{}", self.port)]);
        if !arguments.iter().any(|argument| argument.starts_with("http://")) {
            crawl.arg(self.url("/"));
        }
        crawl.args(arguments);
        crawl
    }

    /// Crawls to the end, and says what came of it.
    #[track_caller]
    pub(crate) fn crawled(&self, arguments: &[&str]) -> serde_json::Value {
        json(&ended(self.crawl(arguments)), 0)
    }

    /// The URLs that are found, in the order of the index, hosts of the site left out.
    #[track_caller]
    pub(crate) fn found(&self, query: &str) -> Vec<String> {
        let found = ended(self.program(&["search", query, "--json", "--all", "--limit", "100"]));
        let code = found.status.code().unwrap();
        let hits = json(&found, code)["hits"].as_array().unwrap().clone();
        let mut urls: Vec<String> =
            hits.iter().map(|hit| hit["url"].as_str().unwrap().replace(&self.url(""), "")).collect();
        assert_eq!(code, i32::from(urls.is_empty()), "the exit code says whether something was found");
        urls.sort();
        urls
    }

    /// The dead of the frontier.
    pub(crate) fn dead(&self) -> Vec<serde_json::Value> {
        let listed = json(&ended(self.program(&["dead", "list", "frontier", "--json"])), 0);
        listed["dead"].as_array().unwrap().clone()
    }
}

/// Runs a program to its end.
#[track_caller]
pub(crate) fn ended(mut command: Command) -> Output {
    finish(command.spawn().unwrap())
}

/// Waits for a program to end.
#[track_caller]
pub(crate) fn finish(child: Child) -> Output {
    let pid = rustix::process::Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    let (ended, watched) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if watched.recv_timeout(LIMIT).is_err() {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::ABORT);
        }
    });
    let output = child.wait_with_output().unwrap();
    let _ = ended.send(());
    watch.join().unwrap();
    output
}

/// Asks a program to end.
pub(crate) fn terminate(child: &Child) {
    let pid = rustix::process::Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

/// What was printed, if the program ended with this code.
#[track_caller]
pub(crate) fn json(output: &Output, code: i32) -> serde_json::Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{:?}\n{stdout}\n{stderr}", output.status);
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

/// Waits for something to come true.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, number)
}

fn serve(stream: &TcpStream, state: &Mutex<State>) {
    let Ok(address) = stream.local_addr() else { return };
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(request) = lines.next() {
        let path = request.split(' ').nth(1).unwrap_or("/").to_owned();
        let mut validator = None;
        for line in lines.by_ref().take_while(|line| !line.is_empty()) {
            if let Some((name, value)) = line.split_once(": ")
                && name.eq_ignore_ascii_case("if-none-match")
            {
                validator = Some(value.to_owned());
            }
        }
        let key = format!("{}{path}", address.ip());
        let mut answer = {
            let mut state = state.lock().unwrap();
            state.visits.push(key.clone());
            state.answers.get(&key).cloned().unwrap_or_else(|| Answer::status(404))
        };
        std::thread::sleep(answer.late);
        let etag = answer.headers.iter().find(|(name, _)| name == "etag").map(|(_, value)| value.clone());
        if etag.is_some() && etag == validator {
            answer = Answer { body: String::new(), status: 304, ..answer };
        }
        let mut text = format!("HTTP/1.1 {} X\r\n", answer.status);
        for (name, value) in &answer.headers {
            write!(text, "{name}: {value}\r\n").unwrap();
        }
        if answer.status != 304 {
            write!(text, "content-length: {}\r\n", answer.body.len()).unwrap();
        }
        write!(text, "\r\n{}", answer.body).unwrap();
        let mut stream = stream;
        if stream.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}
