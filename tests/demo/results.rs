//! Results and output of a demo that runs to its end.

use crate::{
    lab::{Lab, commands},
    truth,
};
use serde_json::{Value, json};

/// Report without what differs from run to run: ports, times, and the numbers of requests.
fn stable(document: &Value, directory: &str) -> Value {
    let port = document["web"]["address"].as_str().unwrap().split(':').nth(1).unwrap().to_owned();
    let gateway = document["gateway"]["url"].as_str().unwrap().to_owned();
    let text = document.to_string().replace(&format!(":{port}"), ":PORT");
    let text = text.replace(&gateway, "http://GATEWAY").replace(directory, "DATA");
    let text = text.replace(env!("CARGO_BIN_EXE_crawlway"), "crawlway");
    let mut stable: Value = serde_json::from_str(&text).unwrap();
    stable["crawl"] = json!({ "state": stable["crawl"]["state"], "indexed": stable["crawl"]["indexed"] });
    for host in stable["hosts"].as_array_mut().unwrap() {
        let host = host.as_object_mut().unwrap();
        for unstable in ["requests", "answers_in_ms", "smallest_gap_ms", "done_after_ms"] {
            assert!(host.remove(unstable).is_some_and(|value| value.is_u64()), "{unstable}");
        }
    }
    for search in stable["searches"].as_array_mut().unwrap() {
        for hit in search["results"]["hits"].as_array_mut().unwrap() {
            let members =
                ["url", "title", "duplicates"].map(|member| (member.to_owned(), hit[member].clone()));
            *hit = Value::Object(members.into_iter().collect());
        }
    }
    let steps = stable["trail"]["items"][0]["entries"].as_array().unwrap().iter();
    let steps = steps.map(|step| json!([step["stage"], step["outcome"], step["attempt"], step["error"]]));
    stable["trail"]["items"] = steps.collect();
    stable["trail"].as_object_mut().unwrap().remove("frontier");
    let record = &stable["inventory"]["record"];
    let headers = record["metadata"]["headers"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let source = record["metadata"]["page_source"].as_str().unwrap().lines().next();
    stable["inventory"]["record"] = json!({
        "status": record["status"], "retry_count": record["processing"]["retry_count"], "headers": headers,
        "cookies": record["metadata"]["cookies"], "source": source,
    });
    let request = &stable["request"]["request"];
    let command = format!("crawlway request get {} --data DATA", request["id"].as_str().unwrap());
    assert_eq!(stable["request"]["command"], command);
    stable["request"] = json!({
        "url": request["url"], "email": request["email"], "status": request["status"],
        "status_code": request["result"]["statusCode"], "has_title": request["result"]["title"] != "",
    });
    stable
}

#[test]
fn the_report_is_complete_and_no_file_is_left_behind() {
    let lab = Lab::new();
    let (code, document) = lab.json(&["demo", "--exit", "--json"]);
    assert_eq!(code, Some(0), "{document:#}");
    let directory = document["data"]["directory"].as_str().unwrap();
    assert!(directory.contains("crawlway-demo-"), "{directory}");
    assert_eq!((lab.temporary_files(), lab.files()), (Vec::new(), Vec::new()));
    insta::assert_snapshot!(serde_json::to_string_pretty(&stable(&document, directory)).unwrap());
}

#[test]
fn the_crawl_is_complete_and_polite_and_the_printed_commands_work() {
    let lab = Lab::new();
    let kept = lab.path("kept");
    let ran = lab.run(&["demo", "--exit", "--data", kept.to_str().unwrap()]);
    let printed = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{printed}");
    assert!(printed.contains("318  pages in the search index"), "{printed}");
    assert!(printed.ends_with(&format!("kept {}\n", kept.display())), "{printed}");
    assert_eq!((lab.temporary_files().len(), lab.files().len()), (0, 1));

    let port = printed.split("http://news.localhost:").nth(1).unwrap().split('/').next().unwrap();
    truth::check(&lab, &kept, port.parse().unwrap());

    let commands = commands(&printed);
    assert_eq!(commands.len(), 9, "{printed}");
    commands.into_iter().for_each(|command| lab.run_in_shell(command));
    let ran = lab.run(&["search", "\"golden loaf\"", "--json", "--data", kept.to_str().unwrap()]);
    let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(found["total"], 2, "{found}");

    let ran = lab.run(&["demo", "--exit", "--data", kept.to_str().unwrap()]);
    let error = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(2), "{error}");
    assert!(error.contains("is not empty; the demo needs a new directory"), "{error}");
}

#[test]
fn the_users_settings_do_not_apply_except_for_the_address() {
    let lab = Lab::new();
    // Records on a server, and a minimum delay with which the crawl would take hours.
    let settings = "data_dir = \"theirs\"\nonly_process = true\n[records]\nkind = \"postgresql\"\n[fetch]\nmin_delay = \"1min\"\n";
    std::fs::write(lab.path("crawlway.toml"), settings).unwrap();
    let (code, document) = lab.json(&["demo", "--exit", "--json"]);
    assert_eq!((code, &document["found"]["pages"]), (Some(0), &json!(318)), "{document:#}");
    assert_eq!(lab.files(), [lab.path("crawlway.toml")]);
}
