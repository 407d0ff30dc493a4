//! Who is let in: the token, the names of the gateway, and pages of other sites.

use crate::lab::{Lab, request};
use axum::body::Body;
use crawlway_gateway::{Access, AllowedHosts, BindError, Options, Token, bind};
use http::{Method, header};
use serde_json::json;
use std::time::{Duration, Instant};

const TOKEN: &str = "a-token-of-the-test";

async fn guarded() -> Lab {
    Lab::with(Options { token: Token::new(TOKEN), ..Options::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_only_health_and_metrics_are_open() {
    let lab = guarded().await;
    for path in ["/health/live", "/health/ready", "/metrics"] {
        assert_eq!(lab.get(path).await.status, 200, "{path}");
    }
    // What leads to the page tells nothing, and only a GET is let through to it.
    for path in ["/", "/api", "/api/"] {
        assert_eq!(lab.get(path).await.status, 307, "{path}");
    }
    lab.post("/", json!({ "url": "https://a.test/" })).await.problem(401, "unauthorised");
    let document = crawlway_gateway::document();
    let paths = document.paths.paths.keys().map(|path| path.replace("{queue}", "q").replace("{id}", "i"));
    let others =
        ["/api/openapi.json", "/api/docs/", "/api/docs/swagger-ui.css", "/nothing/here"].map(str::to_owned);
    for path in paths.filter(|path| path.starts_with("/api/")).chain(others) {
        let problem = lab.get(&path).await.problem(401, "unauthorised");
        assert!(problem["detail"].as_str().unwrap().contains("Bearer"), "{path}: {problem}");
    }
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_is_sent_as_bearer_and_as_a_password_only_to_the_page() {
    let lab = guarded().await;
    let with = async |path: &str, authorization: &str| {
        let request = request(Method::GET, path).header(header::AUTHORIZATION, authorization);
        lab.send(request.body(Body::empty()).unwrap()).await
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
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_are_answered_later_and_later_and_the_right_one_at_once() {
    let lab = guarded().await;
    let with = async |token: &str| {
        let request =
            request(Method::GET, "/api/queues").header(header::AUTHORIZATION, format!("Bearer {token}"));
        lab.send(request.body(Body::empty()).unwrap()).await
    };
    let began = Instant::now();
    for _ in 0..5 {
        with("a-wrong-token").await.problem(401, "unauthorised");
    }
    assert!(began.elapsed() > Duration::from_millis(1500), "{:?}", began.elapsed());
    // From the same address, while a wrong one waits for its answer.
    {
        let wrong = with("a-wrong-token");
        tokio::pin!(wrong);
        tokio::select! {
            _ = &mut wrong => panic!("a wrong token was not held back"),
            right = with(TOKEN) => assert_eq!(right.status, 200),
        }
        wrong.await.problem(401, "unauthorised");
    }
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_not_ours_is_refused_whatever_is_asked() {
    let hosts = AllowedHosts::new(&["crawl.example.org"], None);
    let lab = Lab::with(Options { hosts, ..Options::default() }).await;
    let under = async |host: Option<&str>, path: &str| {
        let mut request = http::Request::builder().uri(path);
        if let Some(host) = host {
            request = request.header(header::HOST, host);
        }
        lab.send(request.body(Body::empty()).unwrap()).await
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
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_cannot_change_anything() {
    let hosts = AllowedHosts::new(&["crawl.example.org"], None);
    let lab = Lab::with(Options { hosts, ..Options::default() }).await;
    let from = async |method: Method, path: &str, name: &str, value: &str| {
        let request = request(method, path).header(name, value);
        lab.send(request.body(Body::empty()).unwrap()).await
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
    assert_eq!(lab.get("/api/queues/crawler_queue").await.ok(200)["paused"], false);
    for origin in ["http://127.0.0.1:8081", "https://crawl.example.org"] {
        assert_eq!(from(Method::POST, pause, "origin", origin).await.status, 200, "{origin}");
    }
    assert_eq!(from(Method::GET, "/api/queues", "origin", "https://evil.test").await.status, 200);
    // The first of two could be ours, and whoever stands before us may have looked at the other.
    for origins in [["http://127.0.0.1:8081", "https://evil.test"], ["http://127.0.0.1:8081"; 2]] {
        let twice = request(Method::POST, pause).header("origin", origins[0]).header("origin", origins[1]);
        lab.send(twice.body(Body::empty()).unwrap()).await.problem(403, "foreign-origin");
    }
    // What a form can send is not taken for JSON.
    let form = request(Method::POST, "/api/crawls").header(header::CONTENT_TYPE, "text/plain");
    let body = json!({ "seeds": ["http://a.test/"] }).to_string();
    lab.send(form.body(Body::from(body)).unwrap()).await.problem(415, "media-type");
    lab.end().await;
}

#[tokio::test]
async fn nobody_listens_to_the_network_without_a_token_unless_that_is_meant() {
    let open = |token, open_to_all| Access { setting: "gateway.listen", token, open_to_all };
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let refused = bind(address.parse().unwrap(), open(false, false)).await.unwrap_err();
        assert!(matches!(refused, BindError::Unprotected { .. }), "{address}: {refused}");
        assert!(refused.to_string().contains("gateway.token"), "{refused}");
    }
    for access in [open(true, false), open(false, true)] {
        assert!(bind("0.0.0.0:0".parse().unwrap(), access).await.is_ok());
    }
    let first = bind("127.0.0.1:0".parse().unwrap(), open(false, false)).await.unwrap();
    let taken = bind(first.address(), open(false, false)).await.unwrap_err().to_string();
    assert!(taken.contains("gateway.listen") && taken.contains(&first.address().to_string()), "{taken}");
}
