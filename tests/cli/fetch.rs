//! `crawlway fetch`: a page from a file, a page from a server, and what is said when there is none.

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
<p>The old crane at the harbour was taken down on Monday after ninety years of service, the council said.
<p>It will be stored in parts until a <a href='/museum?a=1#top'>museum</a> or a <a href=/museum?a=1>second museum</a> takes it, which may well last.
</main><script>alert(1)</script></body></html>";

/// A server on loopback that answers each path, one connection after the other.
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

/// Without a gap, since nobody is hammered here.
const HURRY: (&str, &str) = ("CRAWLWAY_FETCH__GAP", "0s");

fn fetch(home: &Home, address: SocketAddr, line: &str) -> Ran {
    home.run_with(&format!("fetch --allow 127.0.0.1/32:{} {line}", address.port()), &[HURRY])
}

#[test]
fn a_page_from_a_file_for_programs() {
    let home = Home::new();
    home.write("page.html", PAGE);
    let told = home.run("fetch --html page.html --url HTTP://Example.org:80/a/../news --json").json();
    assert_eq!(
        told,
        json!({
            "url": "http://example.org/news",
            "title": "The Harbour",
            "description": "About cranes.",
            "language": "en",
            "text": told["text"],
            "links": ["http://example.org/", "http://example.org/museum?a=1"],
            "simhash": told["simhash"],
        })
    );
    assert!(told["simhash"].is_i64());
    let text = told["text"].as_str().unwrap();
    assert!(text.contains("the old crane at the harbour was taken down on monday"), "{text}");
    assert!(!text.contains("alert") && !text.contains('\n'), "{text}");
}

#[test]
fn a_page_from_standard_input_for_people() {
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
fn nothing_is_a_page_too() {
    let home = Home::new();
    home.write("empty.html", "");
    let told = home.run("fetch --html empty.html --url http://e.test/ --json").json();
    assert_eq!(
        told,
        json!({ "url": "http://e.test/", "title": "", "description": null, "language": null, "text": "",
            "links": [], "simhash": told["simhash"] })
    );
}

#[test]
fn a_page_from_a_server_for_people() {
    let (home, address) = (Home::new(), site());
    let told = fetch(&home, address, &format!("http://{address}/old")).ok();
    let told = told.replace(&address.to_string(), "SERVER");
    let told: Vec<&str> =
        told.lines().map(|line| if line.starts_with("timing") { "timing …" } else { line }).collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn a_page_from_a_server_for_programs() {
    let (home, address) = (Home::new(), site());
    let told = fetch(&home, address, &format!("--json http://{address}/old")).json();
    assert_eq!(told["asked"], format!("http://{address}/old"));
    assert_eq!(told["url"], format!("http://{address}/new"));
    assert_eq!(told["redirects"], json!([{ "url": format!("http://{address}/old"), "status": 301 }]));
    assert_eq!((&told["status"], &told["version"]), (&json!(200), &json!("HTTP/1.1")));
    assert_eq!(told["page"]["title"], "The Harbour");
    assert_eq!(told["page"].as_object().unwrap().len(), 7);
    assert!(told["timing_ms"]["total"].as_f64().unwrap() > 0.0);
    assert!(told["headers"].as_array().unwrap().contains(&json!(["content-type", "text/html"])));
}

#[test]
fn an_answer_of_any_status_is_an_answer() {
    let (home, address) = (Home::new(), site());
    let told = fetch(&home, address, &format!("--json http://{address}/missing")).json();
    assert_eq!((&told["status"], &told["page"]["title"]), (&json!(404), &json!("Nothing here")));
    let told = fetch(&home, address, &format!("http://{address}/image")).ok();
    assert!(told.ends_with("not a page: its content is not HTML or text\n"), "{told}");
}

#[test]
fn failures_have_their_code() {
    let (home, address) = (Home::new(), site());
    let said = fetch(&home, address, &format!("http://{address}/private")).refused(1);
    assert_eq!(
        said,
        format!(
            "error: robots.disallowed: line 2 of its robots.txt says `Disallow: /private` (http://{address}/private)\n"
        )
    );
    fetch(&home, address, &format!("--no-robots http://{address}/private")).ok();
    let ran = fetch(&home, address, &format!("--json http://{address}/busy"));
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (ran.code, &told["error"]["code"], &told["error"]["transient"]),
        (1, &json!("blocked.429"), &json!(true))
    );
    assert!(told["error"]["not_before"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn what_is_not_public_is_reached_only_where_it_is_allowed() {
    let (home, address) = (Home::new(), site());
    let url = format!("http://{address}/new");
    for line in [
        format!("fetch {url}"),
        format!("fetch --allow 127.0.0.2 {url}"),
        format!("fetch --allow 127.0.0.1/32:1 {url}"),
    ] {
        let said = home.run(&line).refused(1);
        assert!(said.starts_with("error: guard.private_address: `127.0.0.1` is at 127.0.0.1"), "{said}");
    }
    let allow = format!("[\"127.0.0.0/8:{}\"]", address.port());
    home.run_with(&format!("fetch {url}"), &[HURRY, ("CRAWLWAY_FETCH__ALLOW", &allow)]).ok();
}

#[test]
fn usage_errors() {
    let home = Home::new();
    home.write("page.html", PAGE);
    for (line, says) in [
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
        let said = home.run(line).refused(2);
        assert!(said.contains(says), "{line}: {said}");
        assert!(
            !said.contains("secret") || line.contains("secret") && !said.contains("user:secret"),
            "{said}"
        );
    }
}

#[test]
fn settings_that_cannot_be_meant_are_refused_by_name() {
    let home = Home::new();
    for (key, value, says) in [
        ("USER_AGENT", "a\nb", "cannot be sent"),
        ("ROBOTS_AGENT", "a b", "not a product token"),
        ("ALLOW", "[\"nowhere\"]", "is not an address range"),
        ("EXTRA_ROOTS", "nowhere.pem", "`nowhere.pem` cannot be read"),
        ("GAP", "2d", "up to \"1d\""),
        ("CONNECT_TIMEOUT", "0s", "from \"1ms\" to \"1h\""),
        ("MAX_HEADERS", "1KiB", "8KiB to 1MiB"),
        ("MAX_BODY", "2GiB", "up to 1GiB"),
        ("MAX_REDIRECTS", "-1", "a whole number from 0"),
        ("IN_FLIGHT", "0", "a whole number from 1"),
    ] {
        let name = format!("CRAWLWAY_FETCH__{key}");
        let said = home.run_with("config check", &[(&name, value)]).refused(2);
        assert!(said.contains(&name) && said.contains(says), "{said}");
    }
}
