//! The API's description, and its page.

use crate::lab::Lab;
use http::header;
use serde_json::Value;

#[test]
fn the_description_is_what_clients_were_made_from() {
    insta::assert_snapshot!(crawlway_gateway::document().to_pretty_json().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_is_described_and_every_reference_leads_somewhere() {
    let lab = Lab::idle().await;
    let document = lab.get("/api/openapi.json").await.ok(200);
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let mut routes: Vec<String> = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            routes.push(format!("{} {path}", method.to_uppercase()));
            assert!(operation["responses"]["default"].is_object(), "{method} {path} says how errors look");
            for (status, response) in operation["responses"].as_object().unwrap() {
                assert!(response["description"].is_string(), "{method} {path} {status} has no description");
            }
            assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{method} {path}");
        }
    }
    routes.sort();
    assert_eq!(
        routes,
        [
            "DELETE /api/cache/urls",
            "DELETE /api/crawls/{name}",
            "DELETE /api/dead/{queue}",
            "DELETE /api/dead/{queue}/{id}",
            "DELETE /api/pages",
            "GET /api/crawls",
            "GET /api/crawls/{name}",
            "GET /api/crawls/{name}/urls",
            "GET /api/dead",
            "GET /api/dead/{queue}/{id}",
            "GET /api/pages",
            "GET /api/queues",
            "GET /api/queues/{queue}",
            "GET /api/search",
            "GET /api/trails",
            "GET /api/urls",
            "GET /api/urls/{id}",
            "GET /health/live",
            "GET /health/ready",
            "GET /metrics",
            "POST /",
            "POST /api/crawls",
            "POST /api/crawls/{name}/cancel",
            "POST /api/crawls/{name}/pause",
            "POST /api/crawls/{name}/resume",
            "POST /api/dead/{queue}/replay",
            "POST /api/dead/{queue}/{id}/replay",
            "POST /api/queues/{queue}/pause",
            "POST /api/queues/{queue}/purge",
            "POST /api/queues/{queue}/resume",
            "POST /api/urls",
        ]
    );
    let ids: Vec<&str> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|item| item.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    let unique: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "each operation has a name of its own: {ids:?}");
    check_references(&document, &document);
    lab.end().await;
}

fn check_references(document: &Value, part: &Value) {
    match part {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                let place = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(place).is_some(), "{reference} leads nowhere");
            }
            members.values().for_each(|member| check_references(document, member));
        }
        Value::Array(elements) => elements.iter().for_each(|element| check_references(document, element)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_needs_nothing_from_elsewhere_and_allows_nothing_else() {
    let lab = Lab::idle().await;
    for path in ["/", "/api", "/api/"] {
        let led = lab.get(path).await;
        assert_eq!((led.status.as_u16(), led.header(header::LOCATION)), (307, "/api/docs/"), "{path}");
    }
    let moved = lab.get("/api/docs").await;
    assert_eq!((moved.status.as_u16(), moved.header(header::LOCATION)), (308, "/api/docs/"));
    for (file, kind) in [
        ("", "text/html"),
        ("swagger-ui.css", "text/css"),
        ("index.css", "text/css"),
        ("swagger-ui-bundle.js", "text/javascript"),
        ("swagger-initializer.js", "text/javascript"),
    ] {
        let answer = lab.get(&format!("/api/docs/{file}")).await;
        assert_eq!(answer.status, 200, "{file}");
        assert!(answer.header(header::CONTENT_TYPE).starts_with(kind), "{file}: {:?}", answer.headers);
        let policy = answer.header(header::CONTENT_SECURITY_POLICY);
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("http"), "{policy}");
        assert_eq!(answer.header(header::X_FRAME_OPTIONS), "DENY");
        assert_eq!(answer.header(header::X_CONTENT_TYPE_OPTIONS), "nosniff");
    }
    let page = lab.get("/api/docs/").await.text();
    for place in page.split("src=\"").chain(page.split("href=\"")).skip(1) {
        assert!(!place.starts_with("http") && !place.starts_with("//"), "{place}");
    }
    assert!(!page.contains("<script>"), "the policy would not let it run: {page}");
    assert!(lab.get("/api/docs/swagger-initializer.js").await.text().contains("/api/openapi.json"));
    lab.get("/api/docs/none.js").await.problem(404, "not-found");
    lab.end().await;
}
