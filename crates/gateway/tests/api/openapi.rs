//! OpenAPI document and Swagger UI.

use crate::harness::TestGateway;
use http::header;
use serde_json::Value;

/// Contract of generated clients: everything but the prose.
#[test]
fn the_contract_of_generated_clients_is_stable() {
    let mut document = serde_json::to_value(crawlway_gateway::document()).unwrap();
    remove_prose(&mut document);
    insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap());
}

/// Removes descriptions and summaries. A schema property of such a name is an object, and stays.
fn remove_prose(part: &mut Value) {
    match part {
        Value::Object(members) => {
            members.retain(|name, value| {
                !(matches!(name.as_str(), "description" | "summary") && value.is_string())
            });
            members.values_mut().for_each(remove_prose);
        }
        Value::Array(elements) => elements.iter_mut().for_each(remove_prose),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_is_documented_and_every_reference_resolves() {
    let gateway = TestGateway::idle().await;
    let document = gateway.get("/api/openapi.json").await.ok(200);
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let mut routes: Vec<String> = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            routes.push(format!("{} {path}", method.to_uppercase()));
            assert!(operation["responses"]["default"].is_object(), "{method} {path} documents its errors");
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
            "DELETE /api/tokens/{id}",
            "GET /api/crawls",
            "GET /api/crawls/{name}",
            "GET /api/crawls/{name}/urls",
            "GET /api/dead",
            "GET /api/dead/{queue}/{id}",
            "GET /api/pages",
            "GET /api/queues",
            "GET /api/queues/{queue}",
            "GET /api/search",
            "GET /api/tokens",
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
            "POST /api/tokens",
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
    assert_eq!(unique.len(), ids.len(), "operation ids are unique: {ids:?}");
    check_references(&document, &document);
    gateway.shut_down().await;
}

fn check_references(document: &Value, part: &Value) {
    match part {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                let place = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(place).is_some(), "{reference} does not resolve");
            }
            members.values().for_each(|member| check_references(document, member));
        }
        Value::Array(elements) => elements.iter().for_each(|element| check_references(document, element)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn swagger_ui_loads_no_external_resources() {
    let gateway = TestGateway::idle().await;
    for path in ["/", "/api", "/api/"] {
        let led = gateway.get(path).await;
        assert_eq!((led.status.as_u16(), led.header(header::LOCATION)), (307, "/api/docs/"), "{path}");
    }
    let moved = gateway.get("/api/docs").await;
    assert_eq!((moved.status.as_u16(), moved.header(header::LOCATION)), (308, "/api/docs/"));
    for (file, kind) in [
        ("", "text/html"),
        ("swagger-ui.css", "text/css"),
        ("index.css", "text/css"),
        ("swagger-ui-bundle.js", "text/javascript"),
        ("swagger-initializer.js", "text/javascript"),
    ] {
        let answer = gateway.get(&format!("/api/docs/{file}")).await;
        assert_eq!(answer.status, 200, "{file}");
        assert!(answer.header(header::CONTENT_TYPE).starts_with(kind), "{file}: {:?}", answer.headers);
        let policy = answer.header(header::CONTENT_SECURITY_POLICY);
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("http"), "{policy}");
        assert_eq!(answer.header(header::X_FRAME_OPTIONS), "DENY");
        assert_eq!(answer.header(header::X_CONTENT_TYPE_OPTIONS), "nosniff");
    }
    let page = gateway.get("/api/docs/").await.text();
    for place in page.split("src=\"").chain(page.split("href=\"")).skip(1) {
        assert!(!place.starts_with("http") && !place.starts_with("//"), "{place}");
    }
    assert!(!page.contains("<script>"), "forbidden by the content security policy: {page}");
    assert!(gateway.get("/api/docs/swagger-initializer.js").await.text().contains("/api/openapi.json"));
    gateway.get("/api/docs/none.js").await.problem(404, "not-found");
    gateway.shut_down().await;
}
