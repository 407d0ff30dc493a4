//! Authentication, allowed hosts, and CSRF protection.

use crate::harness::{TestGateway, request};
use axum::body::Body;
use crawlway_gateway::{AccessControl, AllowedHosts, BindError, RouterOptions, Token, bind};
use http::{Method, header};
use serde_json::json;
use std::time::{Duration, Instant};

const TOKEN: &str = "a-token-of-the-test";

async fn with_token() -> TestGateway {
    TestGateway::with(RouterOptions { token: Token::new(TOKEN), ..RouterOptions::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_only_health_and_metrics_are_public() {
    let gateway = with_token().await;
    for path in ["/health/live", "/health/ready", "/metrics"] {
        assert_eq!(gateway.get(path).await.status, 200, "{path}");
    }
    // Redirects to Swagger UI are public, for GET only.
    for path in ["/", "/api", "/api/"] {
        assert_eq!(gateway.get(path).await.status, 307, "{path}");
    }
    gateway.post("/", json!({ "url": "https://a.test/" })).await.problem(401, "unauthorised");
    let document = crawlway_gateway::document();
    let paths = document.paths.paths.keys().map(|path| path.replace("{queue}", "q").replace("{id}", "i"));
    let others =
        ["/api/openapi.json", "/api/docs/", "/api/docs/swagger-ui.css", "/nothing/here"].map(str::to_owned);
    for path in paths.filter(|path| path.starts_with("/api/")).chain(others) {
        let problem = gateway.get(&path).await.problem(401, "unauthorised");
        assert!(problem["detail"].as_str().unwrap().contains("Bearer"), "{path}: {problem}");
    }
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_is_a_bearer_token_and_a_password_for_swagger_ui_only() {
    let gateway = with_token().await;
    let with = async |path: &str, authorization: &str| {
        let request = request(Method::GET, path).header(header::AUTHORIZATION, authorization);
        gateway.send(request.body(Body::empty()).unwrap()).await
    };
    assert_eq!(with("/api/queues", &format!("Bearer {TOKEN}")).await.status, 200);
    assert_eq!(with("/api/queues", &format!("bearer {TOKEN}")).await.status, 200);
    for wrong in [
        "Bearer",
        "Bearer a-token-of-the-tesT",
        "Bearer a-token",
        TOKEN,
        "Bearer a-token-of-the-test-and-more",
    ] {
        let answer = with("/api/queues", wrong).await;
        answer.problem(401, "unauthorised");
        assert_eq!(answer.header(header::WWW_AUTHENTICATE), "Bearer", "{wrong}");
    }
    // anybody:a-token-of-the-test
    let password = "Basic YW55Ym9keTphLXRva2VuLW9mLXRoZS10ZXN0";
    assert_eq!(with("/api/docs/", password).await.status, 200);
    with("/api/queues", password).await.problem(401, "unauthorised");
    assert!(with("/api/docs/", "Basic !").await.header(header::WWW_AUTHENTICATE).starts_with("Basic"));
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_to_wrong_tokens_are_delayed_and_to_the_right_one_not() {
    let gateway = with_token().await;
    let with = async |token: &str| {
        let request =
            request(Method::GET, "/api/queues").header(header::AUTHORIZATION, format!("Bearer {token}"));
        gateway.send(request.body(Body::empty()).unwrap()).await
    };
    let began = Instant::now();
    for _ in 0..5 {
        with("a-wrong-token").await.problem(401, "unauthorised");
    }
    assert!(began.elapsed() > Duration::from_millis(1500), "{:?}", began.elapsed());
    // From the same address, during the delay of a wrong token.
    {
        let wrong = with("a-wrong-token");
        tokio::pin!(wrong);
        tokio::select! {
            _ = &mut wrong => panic!("the response to a wrong token was not delayed"),
            right = with(TOKEN) => assert_eq!(right.status, 200),
        }
        wrong.await.problem(401, "unauthorised");
    }
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_hosts_are_rejected_on_all_routes() {
    let hosts = AllowedHosts::new(&["crawl.example.org"], None);
    let gateway = TestGateway::with(RouterOptions { hosts, ..RouterOptions::default() }).await;
    let under = async |host: Option<&str>, path: &str| {
        let mut request = http::Request::builder().uri(path);
        if let Some(host) = host {
            request = request.header(header::HOST, host);
        }
        gateway.send(request.body(Body::empty()).unwrap()).await
    };
    for host in ["localhost:8081", "127.0.0.1", "[::1]:8081", "crawl.example.org"] {
        assert_eq!(under(Some(host), "/api/queues").await.status, 200, "{host}");
    }
    for path in ["/api/queues", "/health/ready", "/metrics", "/api/docs/"] {
        let problem = under(Some("rebound.evil.test:8081"), path).await.problem(403, "foreign-host");
        assert!(problem["detail"].as_str().unwrap().contains("gateway.allowed_hosts"), "{problem}");
    }
    under(None, "/api/queues").await.problem(403, "foreign-host");
    under(Some("localhost"), "http://rebound.evil.test/api/queues").await.problem(403, "foreign-host");
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cross_site_requests_cannot_make_changes() {
    let hosts = AllowedHosts::new(&["crawl.example.org"], None);
    let gateway = TestGateway::with(RouterOptions { hosts, ..RouterOptions::default() }).await;
    let from = async |method: Method, path: &str, name: &str, value: &str| {
        let request = request(method, path).header(name, value);
        gateway.send(request.body(Body::empty()).unwrap()).await
    };
    let pause = "/api/queues/crawler_queue/pause";
    for origin in
        ["https://evil.test", "null", "http://127.0.0.1:3000", "http://localhost:8081", "127.0.0.1:8081"]
    {
        from(Method::POST, pause, "origin", origin).await.problem(403, "foreign-origin");
        from(Method::DELETE, "/api/dead/crawler_queue?all=true", "origin", origin)
            .await
            .problem(403, "foreign-origin");
    }
    for site in ["cross-site", "same-site"] {
        from(Method::POST, pause, "sec-fetch-site", site).await.problem(403, "foreign-origin");
    }
    assert_eq!(gateway.get("/api/queues/crawler_queue").await.ok(200)["paused"], false);
    for origin in ["http://127.0.0.1:8081", "https://crawl.example.org"] {
        assert_eq!(from(Method::POST, pause, "origin", origin).await.status, 200, "{origin}");
    }
    assert_eq!(from(Method::GET, "/api/queues", "origin", "https://evil.test").await.status, 200);
    // A proxy might check the first origin and the gateway the second.
    for origins in [["http://127.0.0.1:8081", "https://evil.test"], ["http://127.0.0.1:8081"; 2]] {
        let twice = request(Method::POST, pause).header("origin", origins[0]).header("origin", origins[1]);
        gateway.send(twice.body(Body::empty()).unwrap()).await.problem(403, "foreign-origin");
    }
    // An HTML form cannot send JSON.
    let form = request(Method::POST, "/api/crawls").header(header::CONTENT_TYPE, "text/plain");
    let body = json!({ "seeds": ["http://a.test/"] }).to_string();
    gateway.send(form.body(Body::from(body)).unwrap()).await.problem(415, "media-type");
    gateway.shut_down().await;
}

#[tokio::test]
async fn the_network_needs_a_token_unless_unauthenticated_access_is_allowed() {
    let open = |token, allow_unauthenticated| AccessControl {
        setting: "gateway.listen",
        token,
        allow_unauthenticated,
    };
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let refused = bind(address.parse().unwrap(), open(false, false)).await.unwrap_err();
        assert!(matches!(refused, BindError::Unauthenticated { .. }), "{address}: {refused}");
        assert!(refused.to_string().contains("gateway.token"), "{refused}");
    }
    for access in [open(true, false), open(false, true)] {
        assert!(bind("0.0.0.0:0".parse().unwrap(), access).await.is_ok());
    }
    let first = bind("127.0.0.1:0".parse().unwrap(), open(false, false)).await.unwrap();
    let taken = bind(first.address(), open(false, false)).await.unwrap_err().to_string();
    assert!(taken.contains("gateway.listen") && taken.contains(&first.address().to_string()), "{taken}");
}
