//! Third-party clients in Python, written from the contract alone (`tests/foreign`): one publishes URLs to the queue, another
//! reads the records in MongoDB.

use super::{deployment::Deployment, site::Site};
use crawlway_store::inventory::RecordId;
use crawlway_testkit::foreign_client::ForeignClient;
use serde_json::{Value, json};

#[test]
fn a_url_published_by_one_client_is_fetched_and_its_record_is_read_by_another() {
    let site = Site::serve();
    let mut deployment = Deployment::two_processes(&site, "", "third-party");
    let paths = ["/ok/theirs", "/broken/theirs", "/image"];
    let requests = paths.map(|path| format!("their-{}={}", &path[1..3], site.url(path)));
    let arguments: Vec<&str> = requests.iter().map(String::as_str).collect();
    let host = &deployment.servers().host;
    // The client declares the queue before Crawlway does, and once more afterwards.
    let published = ForeignClient::at(&host.server, &host.name, "request_urls.py", &arguments).finish();
    assert_eq!(published.len(), 3);
    let running = deployment.start();
    let finished = |path: &str| {
        let location = format!("/api/urls/{}", RecordId::of_url(&site.url(path)));
        running.api.wait_finished(&location)
    };
    for path in paths {
        finished(path);
    }
    assert_eq!(finished("/ok/theirs")["additional_details"]["crawlway"]["message_id"], "their-ok");
    let requests_before = site.requests("/ok/theirs");
    let host = &deployment.servers().host;
    let again = ForeignClient::at(&host.server, &host.name, "request_urls.py", &["other=https://a.invalid/"])
        .finish();
    assert_eq!(again[0]["message_id"], "other");
    assert_eq!(site.requests("/ok/theirs"), requests_before);

    let mongo = deployment.servers().mongo.url();
    let lines = ForeignClient::start("records.py", &[&mongo, "crawlway", "urls"]).finish();
    let (indexes, records) = lines.split_first().unwrap();
    let has_index = |of: &[&str]| indexes["indexes"].as_array().unwrap().contains(&json!(of));
    assert!(has_index(&["url"]), "{indexes}");
    let by_time = indexes["indexes"].as_array().unwrap().iter().any(|index| index[0] == "created_at");
    assert!(by_time, "{indexes}");
    let of = |path: &str| -> &Value {
        records
            .iter()
            .find(|record| record["url"] == site.url(path))
            .unwrap_or_else(|| panic!("{path}: {lines:?}"))
    };
    let page = of("/ok/theirs");
    assert_eq!(page["_id"], json!({ "object_id": RecordId::of_url(&site.url("/ok/theirs")).to_string() }));
    assert_eq!(page["status"], "COMPLETED");
    let metadata = &page["metadata"];
    assert_eq!(metadata["page_source"], "<title>/ok/theirs</title>café\u{fffd}");
    assert_eq!(
        (&metadata["headers"]["content-type"], &metadata["headers"]["via"]),
        (&json!("text/html; charset=iso-8859-1"), &json!(["a", "b"]))
    );
    assert_eq!(
        metadata["cookies"]["id"],
        json!({ "value": "1", "attributes": { "path": "/", "httponly": true } })
    );
    assert_eq!(page["processing"]["retry_count"], 0);
    assert_eq!(page["processing"]["error_message"], Value::Null);
    for time in [&page["created_at"], &page["updated_at"], &page["processing"]["last_attempt_at"]] {
        assert!(time["time"].as_str().is_some_and(|time| time.ends_with("+00:00")), "a date in UTC: {page}");
    }
    let failure = of("/broken/theirs");
    assert_eq!(failure["status"], "FAILED_PERMANENT");
    assert_eq!(failure["processing"]["retry_count"], 3);
    assert!(failure["processing"]["error_message"].as_str().unwrap().contains("http.500"), "{failure}");
    assert_eq!(failure["metadata"], json!({ "headers": null, "cookies": null, "page_source": null }));
    let image = of("/image");
    assert_eq!((&image["status"], &image["metadata"]["page_source"]), (&json!("COMPLETED"), &Value::Null));
}
