//! Commands on a local data directory and through its gateway: same output, same exit code, same effect.

use crate::lab::{Lab, Up};
use crawlway_broker::{Broker, Outgoing, QueueAdmin, QueueName, Verdict};
use crawlway_broker_embedded::{EmbeddedBroker, Options};
use crawlway_demo_web::{Plan, Server, Web};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{path::Path, process::Output, time::Duration};
use tokio::runtime::Runtime;

/// A served web, and a test environment that may crawl it.
fn site(runtime: &Runtime, plan: Plan) -> (Server, Lab) {
    let server = runtime.block_on(Web::builder(plan).serve()).unwrap();
    let lab = lab(&server);
    (server, lab)
}

fn lab(server: &Server) -> Lab {
    let port = server.web().port();
    Lab::new(&format!(
        "[fetch]\nmin_delay = \"0s\"\nallow = [\"127.0.0.0/8:{port}\"]\n\
         [rate_limit]\nbackoff_delay = \"5ms\"\nmax_backoff_delay = \"10ms\"\nbreaker_failures = 0"
    ))
}

fn crawl<'a>(server: &'a Server, more: &[&'a str]) -> Vec<&'a str> {
    let mut line = vec!["crawl"];
    line.extend(server.web().ground_truth().start.iter().map(String::as_str));
    for host in server.web().hosts() {
        line.extend(["--host", host]);
    }
    line.extend(more);
    line
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json_of(ran: &Output) -> Value {
    serde_json::from_slice(&ran.stdout)
        .unwrap_or_else(|_| panic!("no JSON: {} {}", text(&ran.stdout), text(&ran.stderr)))
}

/// Publishes two messages and three dead letters to `crawler_queue`, which is paused so that they stay there.
fn fill(runtime: &Runtime, data: &Path) {
    let name = QueueName::new("crawler_queue").unwrap();
    runtime.block_on(async {
        let broker = EmbeddedBroker::open(&data.join("queue"), Options::default()).unwrap();
        for (body, dies) in
            [(&b"{}"[..], true), (b"\x00\xff", true), (b"", true), (b"{\"a\": 1}", false), (b"[]", false)]
        {
            broker.publish(vec![Outgoing::to_queue(&name, body.to_vec()).header("a", "b")]).await;
            if dies {
                let taken = broker.receive(&name, 1, Duration::from_secs(5)).await.unwrap().remove(0);
                let reason = format!("not valid\u{1b}[31m: {} bytes", body.len());
                broker.settle(vec![(taken.receipt, Verdict::Dead { reason })]).await;
            }
        }
        broker.pause(&name).await.unwrap();
        broker.close().await.unwrap();
    });
}

/// Printed words without ages and durations, which differ between two runs.
fn without_durations(printed: &str) -> Vec<String> {
    let bare = |word: &str| word.trim_matches(['(', ')', ',', ':']).to_owned();
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|octet| octet.is_ascii_digit());
    let is_unit = |word: &str| ["ms", "s", "min", "h", "days"].contains(&word);
    let words: Vec<&str> = printed.split_whitespace().collect();
    let mut kept = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let next = words.get(at + 1).map(|next| bare(next)).unwrap_or_default();
        if (is_number(&bare(word)) && is_unit(&next)) || (bare(word) == "just" && next == "now") {
            at += 2;
        } else if bare(word) == "ago" {
            at += 1;
        } else if *word == "\"oldest_age_ms\":" {
            at += 2;
        } else {
            kept.push((*word).to_owned());
            at += 1;
        }
    }
    kept
}

/// Exit code, standard output without durations, and standard error without the gateway's address.
fn normalized(ran: &Output, gateway: Option<&Up>) -> (Option<i32>, Vec<String>, String) {
    let mut stderr = text(&ran.stderr);
    if let Some(up) = gateway {
        let origin = format!(" (from the gateway at http://{})", up.address);
        assert!(stderr.is_empty() || stderr.contains(&origin), "{stderr}");
        stderr = stderr.replace(&origin, "");
    }
    // Printed only without a running worker.
    let hint = "no worker runs; `crawlway up`, or the same `crawlway crawl` command, processes them";
    (ran.status.code(), without_durations(&text(&ran.stdout).replace(hint, "")), stderr)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

#[test]
fn read_commands_have_the_same_output_locally_and_through_the_gateway() {
    let runtime = Runtime::new().unwrap();
    let (server, lab) = site(&runtime, Plan::crash_of(200));
    let crawled = lab.run(&crawl(&server, &["--json"]));
    assert_eq!(crawled.status.code(), Some(0), "{}", text(&crawled.stderr));
    // Declares the queues of all flows.
    let mut up = lab.up();
    up.signal(Signal::TERM);
    assert_eq!(up.wait_exit().code(), Some(0));
    fill(&runtime, &lab.data());
    let truth = server.web().ground_truth();
    let (url, page) = truth.indexed.iter().find(|(_, page)| page.word.is_some()).unwrap();
    let word = page.word.clone().unwrap();
    let common_word = page.title.split_whitespace().next().unwrap().to_owned();
    let letters = json_of(&lab.run(&["dead", "list", "--json"]))["dead"].as_array().unwrap().clone();
    let ids = |queue: &str| -> Vec<String> {
        let of = letters.iter().filter(|letter| letter["queue"] == queue);
        of.map(|letter| letter["id"].as_str().unwrap().to_owned()).collect()
    };
    let (dead, dead_urls) = (ids("crawler_queue"), ids("frontier"));
    assert!(dead.len() == 3 && dead_urls.len() > 2, "{letters:#?}");
    let crawl_name = json_of(&crawled)["crawl"].as_str().unwrap().to_owned();
    let mut lines: Vec<Vec<&str>> = vec![
        vec!["crawl", "list"],
        vec!["crawl", "list", "--limit", "0"],
        vec!["crawl", "show", &crawl_name],
        vec!["crawl", "show", &crawl_name, "--outcome", "dead", "--limit", "2"],
        vec!["crawl", "show", &crawl_name, "--urls", "--after", "nowhere"],
        vec!["crawl", "show", "none"],
        vec!["crawl", "pause", &crawl_name],
        vec!["crawl", "delete", "none", "--yes"],
        vec!["index", "remove", "--host", "a test", "--yes"],
        vec!["queues"],
        vec!["queues", "show", "crawler_queue"],
        vec!["queues", "show", "frontier"],
        vec!["queues", "show", "craler_queue"],
        vec!["queues", "pause", "frontier"],
        vec!["queues", "purge", "frontier", "--yes"],
        vec!["dead", "list"],
        vec!["dead", "list", "--limit", "5000"],
        vec!["dead", "list", "frontier", "--limit", "2"],
        vec!["dead", "list", "frontier", "--limit", "1", "--after", &dead_urls[0]],
        vec!["dead", "list", "frontier", "--after", "no such place"],
        vec!["dead", "list", "crawler_queue", "--reason", "2 bytes", "--since", "1h"],
        vec!["dead", "list", "crawler_queue", "--until", "2020-01-01T10:30:00+01:00"],
        vec!["dead", "list", "none"],
        vec!["dead", "show", "frontier", &dead_urls[0]],
        vec!["dead", "show", "crawler_queue", "a/b?c=d&e f"],
        vec!["dead", "replay", "crawler_queue", "d99"],
        vec!["dead", "replay", "crawler_queue", "--reason", "nothing like it"],
        vec!["dead", "drop", "crawler_queue", "d99", "--yes"],
        vec!["trail", url],
        vec!["trail", &dead_urls[0]],
        vec!["trail", "http://nowhere.test/a b?c=d#e"],
        vec!["trail", "http://"],
        vec!["search", &word],
        vec!["search", &common_word, "--limit", "3", "--offset", "2", "--all"],
        vec!["search", "\"no", "end"],
        vec!["search", "nothinglikethis&limit=1"],
        vec!["search", &word, "--limit", "100000"],
    ];
    lines.extend(dead.iter().map(|id| vec!["dead", "show", "crawler_queue", id.as_str()]));
    let lines: Vec<Vec<&str>> =
        lines.iter().flat_map(|line| [line.clone(), [line.as_slice(), &["--json"]].concat()]).collect();
    let local: Vec<_> = lines.iter().map(|line| normalized(&lab.run(line), None)).collect();
    let codes: Vec<i32> = local.iter().filter_map(|(code, ..)| *code).collect();
    assert!([0, 1, 2].iter().all(|code| codes.contains(code)), "the list covers the exit codes 0, 1 and 2");
    let up = lab.up();
    for (line, local) in lines.iter().zip(local) {
        let remote = normalized(&lab.run(line), Some(&up));
        assert_eq!(remote, local, "{line:?}: through the gateway, and on the data directory");
    }
}

#[test]
fn write_commands_have_the_same_effect_locally_and_through_the_gateway() {
    let runtime = Runtime::new().unwrap();
    let (local, remote) = (Lab::new(""), Lab::new(""));
    // Creates the stores.
    let mut up = local.up();
    up.signal(Signal::TERM);
    assert_eq!(up.wait_exit().code(), Some(0));
    fill(&runtime, &local.data());
    copy(&local.data(), &remote.data());
    let letters = json_of(&local.run(&["dead", "list", "--json"]))["dead"].as_array().unwrap().clone();
    let id = |at: usize| letters[at]["id"].as_str().unwrap().to_owned();
    let up = remote.up();
    let (first, second) = (id(0), id(1));
    for line in [
        &["queues", "pause", "crawler_queue"][..],
        &["crawl", "list"],
        &["index", "remove", "http://a.test/"],
        &["index", "remove", "--host", "a.test", "--yes", "--json"],
        &["dead", "replay", "crawler_queue", &first],
        &["dead", "drop", "crawler_queue", &second, "--yes", "--json"],
        &["queues", "show", "crawler_queue", "--json"],
        &["dead", "replay", "crawler_queue", "--reason", "0 bytes", "--since", "2h", "--json"],
        &["dead", "drop", "crawler_queue", "--error", "none of them", "--yes"],
        &["dead", "replay", "crawler_queue", "--all"],
        &["dead", "drop", "crawler_queue", "--all", "--yes"],
        &["queues", "--json"],
        &["queues", "purge", "crawler_queue"],
        &["queues", "purge", "crawler_queue", "--yes", "--json"],
        &["queues", "purge", "crawler_queue", "--yes"],
        &["queues", "--json"],
        &["queues", "resume", "crawler_queue", "--json"],
        &["queues", "show", "crawler_queue"],
    ] {
        let (by_local, by_remote) = (local.run(line), remote.run(line));
        // A usage error is reported before any request to the gateway.
        let gateway = (by_local.status.code() != Some(2)).then_some(&up);
        assert_eq!(normalized(&by_remote, gateway), normalized(&by_local, None), "{line:?}");
    }
}

#[test]
fn a_crawl_gives_the_same_report_and_index_locally_and_through_the_gateway() {
    let runtime = Runtime::new().unwrap();
    let (server, local) = site(&runtime, Plan::bench(60));
    let remote = lab(&server);
    let up = remote.up();
    let crawled = |lab: &Lab, more: &[&str]| {
        let ran = lab.run(&crawl(&server, &[&["--json"], more].concat()));
        assert_eq!((ran.status.code(), text(&ran.stderr)), (Some(0), String::new()), "{}", text(&ran.stdout));
        let mut report = json_of(&ran);
        assert!(report["seconds"].take().as_f64().is_some());
        report
    };
    let (by_local, by_remote) = (crawled(&local, &[]), crawled(&remote, &[]));
    assert_eq!(by_local, by_remote);
    assert!(by_local["indexed"].as_u64() > Some(10) && by_local["new"] == true, "{by_local}");
    let search = |lab: &Lab| {
        json_of(&lab.run(&["search", "host:127.0.0.1 OR page", "--json", "--all"]))["total"].clone()
    };
    assert_eq!(search(&remote), search(&local));
    let depth = up.get("/api/queues/crawler_queue").1;
    assert_eq!((&depth["ready"], &depth["in_flight"]), (&json!(0), &json!(0)), "{depth}");

    // The second run has nothing to do; its text output is the same, too.
    assert_eq!(crawled(&local, &[]), crawled(&remote, &[]));
    let texts = [&local, &remote].map(|lab| {
        let ran = lab.run(&crawl(&server, &["--pages", "3", "--depth", "2", "--recrawl-after", "90min"]));
        assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
        text(&ran.stdout).lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    });
    assert_eq!(texts[0], texts[1]);

    for (more, expected) in [
        (&["--allow", "10.0.0.0/8"][..], "`fetch.allow`"),
        (&["--no-robots"], "stop the gateway first"),
        (&["--per-host-concurrency", "4"], "`fetch.per_host_concurrency`"),
        (&["--min-delay", "0s"], "`fetch.min_delay`"),
        (&["--out", "pages.jsonl"], "another data directory"),
        (&["--host", "http://nowhere/"], "is no host"),
        (&["--exclude", "*"], "out of the crawl's own scope"),
    ] {
        let ran = remote.run(&crawl(&server, more));
        let stderr = text(&ran.stderr);
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(2), 0), "{more:?}: {stderr}");
        assert!(stderr.contains(expected) && stderr.contains(&up.address), "{more:?}: {stderr}");
    }
}

#[test]
fn ending_the_crawl_command_leaves_the_crawl_running_in_the_gateway() {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(Web::builder(Plan::bench(40)).serve()).unwrap();
    let port = server.web().port();
    let lab = Lab::new(&format!("[fetch]\nmin_delay = \"1h\"\nallow = [\"127.0.0.0/8:{port}\"]"));
    let up = lab.up();
    for (before, json, signal) in [(0, false, Signal::INT), (1, true, Signal::TERM)] {
        let mut line = crawl(&server, &["--name", if json { "second" } else { "first" }]);
        line.extend(json.then_some("--json"));
        let mut command = lab.program(&line);
        let command = command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The crawl exists before the command gets its signal.
        up.wait("/api/crawls", |list| list["crawls"].as_array().unwrap().len() > before);
        let pid = rustix::process::Pid::from_raw(command.id().try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        let output = command.wait_with_output().unwrap();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(3), "{stdout} {stderr}");
        let id = up.get("/api/crawls").1["crawls"][0]["name"].as_str().unwrap().to_owned();
        let pause = format!("crawlway crawl pause {id}");
        assert!(if json { stderr.contains(&pause) } else { stdout.contains(&pause) }, "{stdout} {stderr}");
        assert_eq!(up.get(&format!("/api/crawls/{id}")).1["state"], "running");
    }
}

#[test]
fn a_remote_gateway_requires_its_token() {
    let token = "a token of 16 bytes".replace(' ', "-");
    let lab = Lab::new(&format!("[gateway]\ntoken = \"{token}\""));
    let up = lab.up();
    let url = format!("http://{}", up.address);
    let elsewhere = tempfile::tempdir().unwrap();
    let run = |line: &[&str], variables: &[(&str, &str)]| {
        let mut program = lab.program(line);
        program.current_dir(elsewhere.path()).envs(variables.iter().copied());
        program.output().unwrap()
    };
    let with = ("CRAWLWAY_GATEWAY__TOKEN", token.as_str());
    for line in [&["queues", "--gateway", &url][..], &["--gateway", &format!("{url}/"), "dead", "list"]] {
        let ran = run(line, &[with]);
        assert_eq!(ran.status.code(), Some(0), "{line:?}: {}", text(&ran.stderr));
    }
    let named = run(&["queues", "show", "crawler_queue"], &[with, ("CRAWLWAY_GATEWAY__URL", &url)]);
    assert_eq!(named.status.code(), Some(0), "{}", text(&named.stderr));
    // In the working directory of the gateway, its address and token need no flags.
    assert_eq!(lab.run(&["queues"]).status.code(), Some(0));
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0, "no file is created");

    let wrong = ("CRAWLWAY_GATEWAY__TOKEN", "another-token-of-16-bytes");
    for (gateway, variables, code, expected) in [
        (url.as_str(), &[][..], 2, "send the token in `gateway.token`"),
        (&url, &[wrong], 2, "the token is not the one in `gateway.token`"),
        ("http://127.0.0.1:1", &[with], 1, "cannot reach the gateway at http://127.0.0.1:1"),
        ("127.0.0.1:8081", &[with], 2, "http://127.0.0.1:8081"),
        ("http://a:b@127.0.0.1:1", &[with], 2, "--gateway"),
    ] {
        let ran = run(&["queues", "--gateway", gateway], variables);
        let stderr = text(&ran.stderr);
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(code), 0), "{gateway}: {stderr}");
        assert!(stderr.contains(expected) && !stderr.contains(&token), "{gateway}: {stderr}");
    }
}

#[test]
fn a_server_that_is_no_gateway_is_reported_as_such() {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(Web::builder(Plan::bench(40)).serve()).unwrap();
    let url = server.web().ground_truth().start[0].clone();
    let ran = Lab::new("").run(&["queues", "--gateway", &url, "--json"]);
    let stderr = text(&ran.stderr);
    assert_eq!((ran.status.code(), ran.stdout.len()), (Some(1), 0), "{stderr}");
    let error: Value = serde_json::from_str(&stderr).unwrap();
    assert!(error["error"].as_str().unwrap().contains("unlike a gateway"), "{error}");
}

#[test]
fn commands_that_need_exclusive_access_name_the_running_gateway() {
    let lab = Lab::new("");
    let up = lab.up();
    for line in [&["up"][..], &["replay", "index"]] {
        let ran = lab.run(line);
        let stderr = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{line:?}: {stderr}");
        assert!(stderr.contains(&format!("the gateway at http://{}", up.address)), "{line:?}: {stderr}");
    }
}

#[test]
fn a_token_from_the_environment_is_not_sent_to_a_url_from_the_working_directory() {
    let token = "a-token-of-16-bytes";
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let lab = Lab::new(&format!("[gateway]\nurl = \"{url}\""));
    let with = |line: &[&str], variables: &[(&str, &str)]| {
        let mut program = lab.program(line);
        program.envs(variables.iter().copied());
        program.output().unwrap()
    };
    let variable = ("CRAWLWAY_GATEWAY__TOKEN", token);
    for line in [&["queues"][..], &["health"], &["search", "word"], &["url", "list"]] {
        let ran = with(line, &[variable]);
        let stderr = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{line:?}: {stderr}");
        for word in ["crawlway.toml:2", &url, "CRAWLWAY_GATEWAY__TOKEN", "--gateway", "CRAWLWAY_GATEWAY__URL"]
        {
            assert!(stderr.contains(word), "{word}: {stderr}");
        }
        assert!(!stderr.contains(token), "{stderr}");
    }
    assert!(listener.accept().is_err(), "no request is sent");

    // URL and token come from equally trusted sources.
    let token_in_same_file = Lab::new(&format!("[gateway]\nurl = \"{url}\"\ntoken = \"{token}\""));
    let programs = [
        ("--gateway", lab.program(&["queues", "--gateway", &url])),
        ("variable", lab.program(&["queues"])),
        ("--config", lab.program(&["queues", "--config", "crawlway.toml"])),
        ("same file", token_in_same_file.program(&["queues"])),
    ];
    for (source, mut program) in programs {
        if source != "same file" {
            program.env(variable.0, variable.1);
        }
        if source == "variable" {
            program.env("CRAWLWAY_GATEWAY__URL", &url);
        }
        let mut command =
            program.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
        let began = std::time::Instant::now();
        let (mut stream, _) = loop {
            match listener.accept() {
                Ok(accepted) => break accepted,
                Err(error) => assert!(began.elapsed().as_secs() < 60, "{source}: {error}"),
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        stream.set_nonblocking(false).unwrap();
        let mut head = vec![0; 4096];
        let read = std::io::Read::read(&mut stream, &mut head).unwrap();
        assert!(text(&head[..read]).contains(&format!("Bearer {token}")), "{source}");
        drop(stream);
        command.wait().unwrap();
    }
}

#[test]
fn health_says_that_a_worker_without_a_port_is_not_asked() {
    let (gateway, worker) = (Lab::new(""), Lab::new(""));
    let up = gateway.up();
    up.wait("/health/ready", |ready| ready["ready"] == true);
    let health = |lab: &Lab, listen: &str| {
        lab.program(&["health"]).env("CRAWLWAY_GATEWAY__LISTEN", listen).output().unwrap()
    };
    let own = health(&gateway, &up.address);
    assert_eq!((own.status.code(), text(&own.stderr)), (Some(0), String::new()));
    let other = health(&worker, &up.address);
    assert_eq!(other.status.code(), Some(0));
    for (ran, part) in [(other, up.address.as_str()), (health(&worker, "127.0.0.1:9"), "no gateway runs")] {
        let stderr = text(&ran.stderr);
        assert!(stderr.contains("`metrics.listen`, which is not set") && stderr.contains(part), "{stderr}");
    }
}
