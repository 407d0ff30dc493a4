//! A demo that stays up, to be tried.

use crate::lab::{Lab, commands, get};
use rustix::process::Signal;
use serde_json::Value;
use std::net::TcpListener;

#[test]
fn it_stays_up_until_it_is_asked_to_end() {
    let lab = Lab::new();
    let mut demo = lab.start(lab.program(&["demo", "--json"]));
    let document = demo.document();
    assert_eq!(document["as_planned"], true, "{document:#}");

    let url = document["gateway"]["url"].as_str().unwrap();
    let (status, answer) = get(&format!("{url}/api/search?q=lighthouse"));
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(status, 200, "{answer}");
    assert!(answer["total"].as_u64().unwrap() > 3, "{answer}");
    assert_eq!(get(document["gateway"]["docs"].as_str().unwrap()).0, 200);
    let (status, page) = get(document["web"]["start"][0].as_str().unwrap());
    assert!(status == 200 && page.contains("The Coastal Courier"), "{page}");

    let directory = lab.left_behind();
    assert_eq!(directory.len(), 1, "it has a directory while it runs");
    assert!(directory[0].join("gateway.json").exists());
    demo.signal(Signal::TERM);
    let (status, _) = demo.ended();
    assert_eq!(status.code(), Some(0));
    assert_eq!((lab.left_behind(), lab.written()), (Vec::new(), Vec::new()));
}

#[test]
fn what_it_shows_works_while_it_runs_also_where_the_port_was_taken() {
    let lab = Lab::new();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap();
    let mut program = lab.program(&["demo"]);
    program.env("CRAWLWAY_GATEWAY__LISTEN", taken.to_string());
    let mut demo = lab.start(program);
    let mut said = demo.until(&format!("{taken} is taken, so the API is at another port"));
    let api = demo.until("the API");
    let docs = api.split_whitespace().last().unwrap();
    assert_eq!(get(docs).0, 200, "{api}");
    let last = demo.until("Ctrl-C ends it and removes");
    assert!(last.contains(lab.left_behind()[0].to_str().unwrap()), "{last}");
    said.push_str(&last);
    let shown = commands(&said);
    assert_eq!(shown.len(), 8, "{said}");
    shown.into_iter().for_each(|command| lab.type_in(command));
    demo.signal(Signal::INT);
    let (status, rest) = demo.ended();
    assert_eq!(status.code(), Some(0));
    assert!(rest.contains("removed "), "{rest}");
    assert_eq!(lab.left_behind(), Vec::<std::path::PathBuf>::new());
}
