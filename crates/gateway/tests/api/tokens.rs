//! Stored tokens: identity, roles, limits, expiry and revocation.

use crate::harness::{TestGateway, TestResponse, flows, request};
use axum::{Json, body::Body};
use crawlway_clock::{Clock, ManualClock, Timestamp};
use crawlway_gateway::{
    Caller, FlowRoutes, GatewayContext, Later, RouterOptions, Token, TokenLimits, router,
};
use http::{Method, header};
use serde_json::{Value, json};
use std::time::Duration;
use utoipa_axum::{router::OpenApiRouter, routes};

const ADMIN: &str = "a-token-of-the-test";

fn with_admin() -> RouterOptions {
    RouterOptions { token: Token::new(ADMIN), ..RouterOptions::default() }
}

impl TestGateway {
    async fn as_token(&self, token: &str, method: Method, path: &str, body: Value) -> TestResponse {
        let request = request(method, path)
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .header(header::CONTENT_TYPE, "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    async fn get_as(&self, token: &str, path: &str) -> TestResponse {
        self.as_token(token, Method::GET, path, Value::Null).await
    }

    /// Secret and id of a new token.
    async fn add_token(&self, new: Value) -> (String, String) {
        let made = self.as_token(ADMIN, Method::POST, "/api/tokens", new).await;
        assert_eq!(made.header(header::CACHE_CONTROL), "no-store");
        let made = made.ok(201);
        (made["token"].as_str().unwrap().to_owned(), made["id"].as_str().unwrap().to_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_shown_once_and_listed_without_its_secret() {
    let gateway = TestGateway::with(with_admin()).await;
    let new = json!({ "email": " Ann@Example.ORG ", "expires": "30d" });
    let made = gateway.as_token(ADMIN, Method::POST, "/api/tokens", new).await.ok(201);
    let secret = made["token"].as_str().unwrap();
    assert!(secret.starts_with("cw_") && secret.len() == 67, "{secret}");
    assert_eq!((made["email"].as_str(), made["role"].as_str()), (Some("ann@example.org"), Some("user")));
    let listed = gateway.get_as(ADMIN, "/api/tokens").await;
    assert!(!listed.text().contains(&secret[3..]), "{}", listed.text());
    let listed = listed.ok(200);
    for field in ["id", "email", "role", "created_at", "expires_at", "revoked_at"] {
        assert_eq!(listed["tokens"][0][field], made[field], "{field}");
    }
    let stored = crawlway_store::Tokens::list(&gateway.records).await.unwrap();
    assert_eq!(stored[0].hash, crawlway_store::TokenHash::of(secret));
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_tokens_to_be_made_are_refused_with_the_field() {
    let gateway = TestGateway::with(with_admin()).await;
    for (new, field) in [
        (json!({ "email": "a:b@example.org" }), "email"),
        (json!({ "email": "ann@example.org\n" }), "email"),
        (json!({ "email": "\u{430}nn@example.org" }), "email"),
        (json!({ "email": "ann@example.org", "expires": "soon" }), "expires"),
        (json!({ "email": "ann@example.org", "expires": "0s" }), "expires"),
        (json!({ "email": "ann@example.org", "expires": "99999999d" }), "expires"),
        (json!({ "email": "ann@example.org", "role": "root" }), "role"),
        (json!({ "email": "ann@example.org", "scope": "all" }), "scope"),
    ] {
        let refused = gateway.as_token(ADMIN, Method::POST, "/api/tokens", new.clone()).await;
        let problem = refused.problem(400, "invalid");
        assert_eq!(problem["field"], field, "{new}: {problem}");
    }
    assert_eq!(gateway.get_as(ADMIN, "/api/tokens").await.ok(200), json!({ "tokens": [] }));
    let path = "/api/tokens/none";
    gateway.as_token(ADMIN, Method::DELETE, path, Value::Null).await.problem(404, "not-found");
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_only_the_routes_that_flows_open_to_users() {
    let gateway = TestGateway::with(with_admin()).await;
    let (user, _) = gateway.add_token(json!({ "email": "ann@example.org" })).await;
    let (admin, _) = gateway.add_token(json!({ "email": "ops@example.org", "role": "admin" })).await;
    for path in
        ["/health/live", "/health/ready", "/metrics", "/api/openapi.json", "/api/docs/", "/api/search?q=a"]
    {
        assert_eq!(gateway.get_as(&user, path).await.status, 200, "{path}");
    }
    let document = serde_json::to_value(crawlway_gateway::document()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let mut denied = 0;
    for (path, item) in paths.iter().filter(|(path, _)| path.starts_with("/api/") && *path != "/api/search") {
        for method in item.as_object().unwrap().keys() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let path = path.replace(['{', '}'], "");
            let problem = gateway.as_token(&user, method, &path, json!({})).await.problem(403, "forbidden");
            assert!(problem["detail"].as_str().unwrap().contains("`admin`"), "{path}: {problem}");
            denied += 1;
        }
    }
    assert!(denied > 20, "{denied}");
    for path in
        ["/api/search/../queues", "/api/search%2f..%2fqueues", "/api/searches", "//api/search", "/nothing"]
    {
        gateway.get_as(&user, path).await.problem(403, "forbidden");
    }
    gateway
        .as_token(&user, Method::POST, "/", json!({ "url": "https://a.test/" }))
        .await
        .problem(403, "forbidden");
    assert_eq!(gateway.get_as(&admin, "/api/queues").await.status, 200);
    assert_eq!(gateway.get_as(&admin, "/api/tokens").await.status, 200);
    gateway.shut_down().await;
}

#[utoipa::path(get, path = "/api/who/{id}", operation_id = "who")]
async fn who(caller: Caller) -> Json<Value> {
    Json(
        json!({ "email": caller.email, "role": caller.role, "token": caller.token_id, "trusted": caller.trusted }),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_get_the_caller() {
    let mut gateway = TestGateway::with(with_admin()).await;
    let (user, id) = gateway.add_token(json!({ "email": "Ann@example.org" })).await;
    let (admin, admin_id) = gateway.add_token(json!({ "email": "ops@example.org", "role": "admin" })).await;
    let own = || FlowRoutes::new(OpenApiRouter::new().routes(routes!(who))).for_users(&["/api/who"]);
    let protected = router(gateway.context.clone(), vec![own()], with_admin());
    let open = router(gateway.context.clone(), vec![own()], RouterOptions::default());
    gateway.router = protected;
    for (token, expected) in [
        (ADMIN, json!({ "email": null, "role": "admin", "token": "gateway.token", "trusted": true })),
        (&user, json!({ "email": "ann@example.org", "role": "user", "token": id, "trusted": false })),
        (&admin, json!({ "email": "ops@example.org", "role": "admin", "token": admin_id, "trusted": true })),
    ] {
        assert_eq!(gateway.get_as(token, "/api/who/1").await.ok(200), expected);
    }
    gateway.get("/api/who/1").await.problem(401, "unauthorised");
    gateway.router = open;
    let local = json!({ "email": null, "role": "admin", "token": null, "trusted": true });
    assert_eq!(gateway.get("/api/who/1").await.ok(200), local);
    let remote = gateway.send_from(
        ([192, 0, 2, 1], 4).into(),
        request(Method::GET, "/api/who/1").body(Body::empty()).unwrap(),
    );
    assert_eq!(remote.await.ok(200)["trusted"], false);
    assert_eq!(gateway.get_as(&user, "/api/who/1").await.ok(200)["role"], "user");
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_admin_token_an_invalid_token_is_still_refused() {
    let gateway = TestGateway::with(RouterOptions::default()).await;
    assert_eq!(gateway.get("/api/queues").await.status, 200);
    let made =
        gateway.post("/api/tokens", json!({ "email": "ops@example.org", "role": "admin" })).await.ok(201);
    let (token, id) = (made["token"].as_str().unwrap(), made["id"].as_str().unwrap());
    assert_eq!(gateway.get_as(token, "/api/queues").await.status, 200);
    let revoked =
        gateway.as_token(token, Method::DELETE, &format!("/api/tokens/{id}"), Value::Null).await.ok(200);
    assert_eq!(revoked["id"], id);
    let problem = gateway.get_as(token, "/api/queues").await.problem(401, "unauthorised");
    assert!(problem["detail"].as_str().unwrap().contains("was revoked at"), "{problem}");
    for wrong in ["guessed", "cw_guessed", "\u{ff}"] {
        gateway.get_as(wrong, "/api/queues").await.problem(401, "unauthorised");
    }
    assert_eq!(gateway.get_as("cw_guessed", "/health/ready").await.status, 200);
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_is_refused_and_the_response_says_so() {
    let mut gateway = TestGateway::with(with_admin()).await;
    let clock = ManualClock::at(Timestamp::now());
    let context = GatewayContext { clock: Clock::Manual(clock.clone()), ..gateway.context.clone() };
    gateway.router = router(context, flows(), with_admin());
    let (token, id) = gateway.add_token(json!({ "email": "ann@example.org", "expires": "1h" })).await;
    assert_eq!(gateway.get_as(&token, "/api/search?q=a").await.status, 200);
    clock.advance(Duration::from_secs(3600));
    let problem = gateway.get_as(&token, "/api/search?q=a").await.problem(401, "unauthorised");
    assert!(
        problem["detail"].as_str().unwrap().starts_with(&format!("token `{id}` expired at")),
        "{problem}"
    );
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_elsewhere_holds_within_five_seconds() {
    let gateway = TestGateway::with(with_admin()).await;
    let (token, id) = gateway.add_token(json!({ "email": "ann@example.org" })).await;
    assert_eq!(gateway.get_as(&token, "/api/search?q=a").await.status, 200);
    crawlway_store::Tokens::revoke(&gateway.records, &id, Timestamp::now()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(3100)).await;
    gateway.get_as(&token, "/api/search?q=a").await.problem(401, "unauthorised");
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_not_connected_a_stored_token_is_503() {
    let mut gateway = TestGateway::with(with_admin()).await;
    let (token, _) = gateway.add_token(json!({ "email": "ann@example.org" })).await;
    let with_tokens = |tokens| {
        let context = GatewayContext { tokens, ..gateway.context.clone() };
        router(context, flows(), with_admin())
    };
    let (starting, absent) = (Later::new(), Later::absent("not here"));
    let (first, second) = (with_tokens(starting.clone()), with_tokens(absent));
    let tokens = gateway.context.tokens.get().unwrap();
    gateway.router = first;
    let refused = gateway.get_as(&token, "/api/search?q=a").await;
    refused.problem(503, "starting");
    assert_eq!(refused.header(header::RETRY_AFTER), "5");
    assert_eq!(gateway.get_as(ADMIN, "/api/queues").await.status, 200);
    gateway.get_as("no-stored-token", "/api/queues").await.problem(401, "unauthorised");
    assert_eq!(gateway.get_as(&token, "/health/live").await.status, 200);
    starting.set(tokens);
    assert_eq!(gateway.get_as(&token, "/api/search?q=a").await.status, 200);
    gateway.router = second;
    gateway.get_as(&token, "/api/search?q=a").await.problem(401, "unauthorised");
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_token_has_a_rate_limit_of_its_own() {
    let token_limits = TokenLimits { rate: 1, burst: 3, concurrency: 0 };
    let gateway = TestGateway::with(RouterOptions { token_limits, ..with_admin() }).await;
    let (ann, _) = gateway.add_token(json!({ "email": "ann@example.org" })).await;
    let (bob, _) = gateway.add_token(json!({ "email": "bob@example.org" })).await;
    for _ in 0..3 {
        assert_eq!(gateway.get_as(&ann, "/api/search?q=a").await.status, 200);
    }
    let refused = gateway.get_as(&ann, "/api/search?q=a").await;
    let problem = refused.problem(429, "too-many-requests");
    assert!(problem["detail"].as_str().unwrap().contains("gateway.token_rate"), "{problem}");
    assert_eq!(refused.header(header::RETRY_AFTER), "1");
    assert_eq!(gateway.get_as(&bob, "/api/search?q=a").await.status, 200, "another token");
    assert_eq!(gateway.get_as(&ann, "/health/ready").await.status, 200, "health is not limited");
    assert_eq!(gateway.get_as(ADMIN, "/api/queues").await.status, 200, "nor is the operator");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(gateway.get_as(&ann, "/api/search?q=a").await.status, 200);
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_counts_as_in_progress_until_its_body_is_read() {
    let token_limits = TokenLimits { rate: 0, burst: 0, concurrency: 1 };
    let gateway = TestGateway::with(RouterOptions { token_limits, ..with_admin() }).await;
    let (ann, _) = gateway.add_token(json!({ "email": "ann@example.org" })).await;
    let first = gateway.open_as(&ann, "/api/search?q=a").await;
    assert_eq!(first.status(), 200);
    let refused = gateway.get_as(&ann, "/api/search?q=a").await;
    let problem = refused.problem(429, "too-many-requests");
    assert!(problem["detail"].as_str().unwrap().contains("gateway.token_concurrency"), "{problem}");
    assert!(first.headers().get(header::CONTENT_TYPE).is_some());
    drop(first);
    assert_eq!(gateway.get_as(&ann, "/api/search?q=a").await.status, 200);
    gateway.shut_down().await;
}

impl TestGateway {
    /// Response whose body is not read.
    async fn open_as(&self, token: &str, path: &str) -> axum::response::Response {
        use tower::ServiceExt;
        let request = request(Method::GET, path).header(header::AUTHORIZATION, format!("Bearer {token}"));
        self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }
}
