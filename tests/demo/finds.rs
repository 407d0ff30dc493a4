//! What a demo that goes to its end finds and says.

use crate::lab::{Lab, commands};
use serde_json::{Value, json};

/// What differs from run to run is taken out: ports, times, and how the work was shared out.
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
        for vague in ["requests", "answers_in_ms", "smallest_gap_ms", "done_after_ms"] {
            assert!(host.remove(vague).is_some_and(|value| value.is_u64()), "{vague}");
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
    stable
}

#[test]
fn everything_is_found_and_nothing_is_left_behind() {
    let lab = Lab::new();
    let (code, document) = lab.json(&["demo", "--exit", "--json"]);
    assert_eq!(code, Some(0), "{document:#}");
    let directory = document["data"]["directory"].as_str().unwrap();
    assert!(directory.contains("crawlway-demo-"), "{directory}");
    assert_eq!((lab.left_behind(), lab.written()), (Vec::new(), Vec::new()));
    insta::assert_snapshot!(serde_json::to_string_pretty(&stable(&document, directory)).unwrap());
}

#[test]
fn what_is_kept_can_be_searched_afterwards() {
    let lab = Lab::new();
    let kept = lab.path("kept");
    let ran = lab.run(&["demo", "--exit", "--data", kept.to_str().unwrap()]);
    let said = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{said}");
    assert!(said.contains("318  pages in the index") && said.contains("nothing is missing"), "{said}");
    assert!(said.ends_with(&format!("kept {}\n", kept.display())), "{said}");
    assert_eq!((lab.left_behind().len(), lab.written().len()), (0, 1));

    let shown = commands(&said);
    assert_eq!(shown.len(), 8, "{said}");
    shown.into_iter().for_each(|command| lab.type_in(command));
    let ran = lab.run(&["search", "\"golden loaf\"", "--json", "--data", kept.to_str().unwrap()]);
    let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(found["total"], 2, "{found}");

    let ran = lab.run(&["demo", "--exit", "--data", kept.to_str().unwrap()]);
    let told = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(2), "{told}");
    assert!(told.contains("is not empty, and the demo begins with nothing"), "{told}");
}

#[test]
fn settings_of_the_place_do_not_count_but_for_where_to_listen() {
    let lab = Lab::new();
    // Records elsewhere, and a pace at which the crawl would take hours.
    let settings = "data_dir = \"theirs\"\nonly_process = true\n[records]\nkind = \"postgresql\"\n[fetch]\ngap = \"1min\"\n";
    std::fs::write(lab.path("crawlway.toml"), settings).unwrap();
    let (code, document) = lab.json(&["demo", "--exit", "--json"]);
    assert_eq!((code, &document["as_planned"]), (Some(0), &json!(true)), "{document:#}");
    assert_eq!(lab.written(), [lab.path("crawlway.toml")]);
}
