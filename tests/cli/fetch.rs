//! `crawlway fetch`: a page from a file, a page from a server, and failures.

use crate::home::{Home, Ran};
use serde_json::json;
use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Stdio,
    thread,
};

const PAGE: &str = "\
<!doctype html><html lang=en><head><title>The  Harbour</title><meta name=description content='About cranes.'></head>
<body><nav><a href=/>Home</a></nav>
<main><h1>The Harbour</h1>
<p>The old crane at the harbour was taken down on Monday after ninety years of service, the council stderr.
<p>It will be stored in parts until a <a href='/museum?a=1#top'>museum</a> or a <a href=/museum?a=1>second museum</a> takes it, which may well last.
</main><script>alert(1)</script></body></html>";

/// Server on loopback that handles one connection after the other.
pub(crate) fn serve(answer: impl Fn(&str, SocketAddr) -> String + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            while let Some(path) = path(&stream) {
                if (&stream).write_all(answer(&path, address).as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    address
}

fn path(stream: &TcpStream) -> Option<String> {
    let mut reader = BufReader::with_capacity(1, stream);
    let mut first = None;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            return first;
        }
        first = first.or_else(|| line.split(' ').nth(1).map(str::to_owned));
    }
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}

fn site() -> SocketAddr {
    serve(|path, _| match path {
        "/robots.txt" => answer("200 OK", "", "User-agent: *\nDisallow: /private\n"),
        "/old" => answer("301 Moved", "location: /new\r\n", ""),
        "/new" | "/private" => answer("200 OK", "content-type: text/html\r\n", PAGE),
        "/image" => answer("200 OK", "content-type: image/png\r\n", "png"),
        "/busy" => answer("429 Slow Down", "retry-after: 120\r\n", ""),
        _ => answer("404 Not Found", "content-type: text/html\r\n", "<title>Nothing here</title>"),
    })
}

/// No minimum delay, to save time.
const NO_DELAY: (&str, &str) = ("CRAWLWAY_FETCH__MIN_DELAY", "0s");

fn fetch(home: &Home, address: SocketAddr, line: &str) -> Ran {
    home.run_with(&format!("fetch --allow 127.0.0.1/32:{} {line}", address.port()), &[NO_DELAY])
}

#[test]
fn a_page_from_a_file_as_json() {
    let home = Home::new();
    home.write("page.html", PAGE);
    let output = home.run("fetch --html page.html --url HTTP://Example.org:80/a/../news --json").json();
    assert_eq!(
        output,
        json!({
            "url": "http://example.org/news",
            "title": "The Harbour",
            "description": "About cranes.",
            "language": "en",
            "text": output["text"],
            "links": ["http://example.org/", "http://example.org/museum?a=1"],
            "simhash": output["simhash"],
        })
    );
    assert!(output["simhash"].is_i64());
    let text = output["text"].as_str().unwrap();
    assert!(text.contains("the old crane at the harbour was taken down on monday"), "{text}");
    assert!(!text.contains("alert") && !text.contains('\n'), "{text}");
}

#[test]
fn a_page_from_standard_input_as_text() {
    let home = Home::new();
    let mut command = home.command(&["fetch", "--html", "-", "--url", "https://example.org/"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(PAGE.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    insta::assert_snapshot!(String::from_utf8(ended.stdout).unwrap());
}

#[test]
fn an_empty_file_is_a_page() {
    let home = Home::new();
    home.write("empty.html", "");
    let output = home.run("fetch --html empty.html --url http://e.test/ --json").json();
    assert_eq!(
        output,
        json!({ "url": "http://e.test/", "title": "", "description": null, "language": null, "text": "",
            "links": [], "simhash": output["simhash"] })
    );
}

#[test]
fn a_page_from_a_server_as_text() {
    let (home, address) = (Home::new(), site());
    let output = fetch(&home, address, &format!("http://{address}/old")).ok();
    let output = output.replace(&address.to_string(), "SERVER");
    let output: Vec<&str> =
        output.lines().map(|line| if line.starts_with("timing") { "timing …" } else { line }).collect();
    insta::assert_snapshot!(output.join("\n"));
}

#[test]
fn a_page_from_a_server_as_json() {
    let (home, address) = (Home::new(), site());
    let output = fetch(&home, address, &format!("--json http://{address}/old")).json();
    assert_eq!(output["asked"], format!("http://{address}/old"));
    assert_eq!(output["url"], format!("http://{address}/new"));
    assert_eq!(output["redirects"], json!([{ "url": format!("http://{address}/old"), "status": 301 }]));
    assert_eq!((&output["status"], &output["version"]), (&json!(200), &json!("HTTP/1.1")));
    assert_eq!(output["page"]["title"], "The Harbour");
    assert_eq!(output["page"].as_object().unwrap().len(), 7);
    assert!(output["timing_ms"]["total"].as_f64().unwrap() > 0.0);
    assert!(output["headers"].as_array().unwrap().contains(&json!(["content-type", "text/html"])));
}

#[test]
fn a_response_of_any_status_is_a_success() {
    let (home, address) = (Home::new(), site());
    let output = fetch(&home, address, &format!("--json http://{address}/missing")).json();
    assert_eq!((&output["status"], &output["page"]["title"]), (&json!(404), &json!("Nothing here")));
    let output = fetch(&home, address, &format!("http://{address}/image")).ok();
    assert!(output.ends_with("not a page: the content type is not HTML or text\n"), "{output}");
}

#[test]
fn failures_have_a_code() {
    let (home, address) = (Home::new(), site());
    let stderr = fetch(&home, address, &format!("http://{address}/private")).refused(1);
    assert_eq!(
        stderr,
        format!(
            "error: robots.disallowed: line 2 of robots.txt: `Disallow: /private` (http://{address}/private)\n"
        )
    );
    fetch(&home, address, &format!("--no-robots http://{address}/private")).ok();
    let ran = fetch(&home, address, &format!("--json http://{address}/busy"));
    let output: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (ran.code, &output["error"]["code"], &output["error"]["transient"]),
        (1, &json!("blocked.429"), &json!(true))
    );
    assert!(output["error"]["not_before"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn private_addresses_are_fetched_only_if_allowed() {
    let (home, address) = (Home::new(), site());
    let url = format!("http://{address}/new");
    for line in [
        format!("fetch {url}"),
        format!("fetch --allow 127.0.0.2 {url}"),
        format!("fetch --allow 127.0.0.1/32:1 {url}"),
    ] {
        let stderr = home.run(&line).refused(1);
        assert!(stderr.starts_with("error: guard.private_address: `127.0.0.1` is at 127.0.0.1"), "{stderr}");
    }
    let allow = format!("[\"127.0.0.0/8:{}\"]", address.port());
    home.run_with(&format!("fetch {url}"), &[NO_DELAY, ("CRAWLWAY_FETCH__ALLOW", &allow)]).ok();
}

#[test]
fn usage_errors() {
    let home = Home::new();
    home.write("page.html", PAGE);
    for (line, expected) in [
        ("fetch", "<URL>"),
        ("fetch --html page.html", "--url"),
        ("fetch --url http://e.test/", "--html"),
        ("fetch --html page.html --url http://e.test/ http://e.test/", "cannot be used with"),
        ("fetch --html missing.html --url http://e.test/", "cannot read `missing.html`"),
        ("fetch --html page.html --url nonsense", "relative"),
        ("fetch ftp://e.test/", "not supported"),
        ("fetch http://user:secret@e.test/", "credentials"),
        ("fetch --allow everything http://e.test/", "is not an address range"),
    ] {
        let stderr = home.run(line).refused(2);
        assert!(stderr.contains(expected), "{line}: {stderr}");
        assert!(
            !stderr.contains("secret") || line.contains("secret") && !stderr.contains("user:secret"),
            "{stderr}"
        );
    }
}

#[test]
fn invalid_settings_are_refused_with_their_name() {
    let home = Home::new();
    for (key, value, expected) in [
        ("USER_AGENT", "a\nb", "cannot be sent"),
        ("ROBOTS_AGENT", "a b", "not a product token"),
        ("ALLOW", "[\"nowhere\"]", "is not an address range"),
        ("EXTRA_ROOTS", "nowhere.pem", "`nowhere.pem` cannot be read"),
        ("MIN_DELAY", "2d", "up to \"1d\""),
        ("CONNECT_TIMEOUT", "0s", "from \"1ms\" to \"1h\""),
        ("MAX_HEADERS", "1KiB", "8KiB to 1MiB"),
        ("MAX_BODY", "2GiB", "up to 1GiB"),
        ("MAX_REDIRECTS", "-1", "a whole number from 0"),
        ("PER_HOST_CONCURRENCY", "0", "a whole number from 1"),
    ] {
        let name = format!("CRAWLWAY_FETCH__{key}");
        let stderr = home.run_with("config check", &[(&name, value)]).refused(2);
        assert!(stderr.contains(&name) && stderr.contains(expected), "{stderr}");
    }
}
