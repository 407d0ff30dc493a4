//! Access tokens with a running gateway: use, roles, expiry, revocation, limits, sharing, and secrets in logs.

use crate::{
    inventory::postgres::Database,
    lab::{Lab, Up},
};
use crawlway_testkit::{
    http,
    private_redis::{Persistence, PrivateRedis},
};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

const ADMIN: &str = "admin-token-of-the-test";

fn with_admin(settings: &str) -> Lab {
    Lab::new(&format!("[gateway]\ntoken = \"{ADMIN}\"\n{settings}"))
}

/// Runs a command that succeeds, and returns its JSON.
fn json_of(lab: &Lab, line: &[&str]) -> Value {
    let ran = lab.run(&[line, &["--json"]].concat());
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((ran.status.code(), &*stderr), (Some(0), ""), "{line:?}");
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// Secret and id of a new token.
fn add(lab: &Lab, line: &[&str]) -> (String, String) {
    let made = json_of(lab, &[&["token", "add"], line].concat());
    (made["token"].as_str().unwrap().to_owned(), made["id"].as_str().unwrap().to_owned())
}

impl Up {
    /// Status and body of a request with a token.
    fn with_token(&self, token: &str, method: &str, path: &str) -> (u16, Value) {
        let authorization = format!("authorization: Bearer {token}");
        let (status, body) = http::request(&self.address, method, path, &[&authorization], "").unwrap();
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    fn status_of(&self, token: &str, path: &str) -> u16 {
        self.with_token(token, "GET", path).0
    }

    /// Waits until a token is refused, and returns the reason.
    fn wait_refused(&self, token: &str) -> String {
        let began = Instant::now();
        loop {
            let (status, problem) = self.with_token(token, "GET", "/api/search?q=a");
            if status == 401 {
                return problem["detail"].as_str().unwrap().to_owned();
            }
            assert!(began.elapsed() < Duration::from_secs(5), "{status} after 5 s");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn tokens_made_before_and_during_the_run_are_used_and_revoked() {
    let lab = with_admin("");
    let (before, before_id) = add(&lab, &["ann@Example.org"]);
    let up = lab.up();
    let (during, during_id) = add(&lab, &["ops@example.org", "--role", "admin", "--expires", "30d"]);
    let listed = json_of(&lab, &["token", "list"]);
    let fields = |number: usize| {
        let token = &listed["tokens"][number];
        (token["id"].as_str().unwrap(), token["email"].as_str().unwrap(), token["role"].as_str().unwrap())
    };
    assert_eq!(fields(0), (before_id.as_str(), "ann@example.org", "user"));
    assert_eq!(fields(1), (during_id.as_str(), "ops@example.org", "admin"));

    assert_eq!(up.status_of(&before, "/api/search?q=a"), 200);
    let (status, problem) = up.with_token(&before, "GET", "/api/queues");
    assert_eq!((status, &problem["type"]), (403, &json!("urn:crawlway:problem:forbidden")), "{problem}");
    assert_eq!(up.with_token(&before, "POST", "/api/queues/crawler_queue/purge").0, 403);
    assert_eq!(up.status_of(&during, "/api/queues"), 200);
    // A user may use the commands with their token, too.
    let mut as_user = lab.program(&["queues", "--gateway", &format!("http://{}", up.address)]);
    let refused = as_user.env("CRAWLWAY_GATEWAY__TOKEN", &before).output().unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("`admin`") && !stderr.contains(&before), "{stderr}");

    assert_eq!(json_of(&lab, &["token", "revoke", &before_id])["id"], before_id);
    let (status, problem) = up.with_token(&before, "GET", "/api/search?q=a");
    assert_eq!(status, 401, "at once, since this gateway has revoked it: {problem}");
    assert!(problem["detail"].as_str().unwrap().contains("was revoked at"), "{problem}");
    assert_eq!(up.status_of(&during, "/api/queues"), 200);
    drop(up);

    // Revoked while no gateway runs.
    json_of(&lab, &["token", "revoke", &during_id]);
    let up = lab.up();
    assert_eq!(up.status_of(&during, "/api/queues"), 401);
    assert_eq!(up.status_of(ADMIN, "/api/queues"), 200);
    assert_eq!(up.get("/api/queues").0, 401);
}

#[test]
fn an_expired_token_is_refused() {
    let lab = with_admin("");
    let up = lab.up();
    let (token, id) = add(&lab, &["ann@example.org", "--expires", "2s"]);
    assert_eq!(up.status_of(&token, "/api/search?q=a"), 200);
    let reason = up.wait_refused(&token);
    assert!(reason.starts_with(&format!("token `{id}` expired at ")), "{reason}");
}

#[test]
fn without_an_admin_token_local_clients_are_admins_and_a_revoked_token_is_not() {
    let lab = Lab::new("");
    let up = lab.up();
    let (token, id) = add(&lab, &["ops@example.org", "--role", "admin"]);
    assert_eq!((up.get("/api/queues").0, up.status_of(&token, "/api/queues")), (200, 200));
    json_of(&lab, &["token", "revoke", &id]);
    assert_eq!((up.get("/api/queues").0, up.status_of(&token, "/api/queues")), (200, 401));
    assert_eq!(up.status_of("cw_guessed", "/api/queues"), 401);
}

#[test]
fn a_token_that_sends_too_much_is_limited() {
    let lab = with_admin("token_rate = 1\ntoken_burst = 5\n");
    let up = lab.up();
    let (token, _) = add(&lab, &["ann@example.org"]);
    let statuses: Vec<u16> = (0..20).map(|_| up.status_of(&token, "/api/search?q=a")).collect();
    assert_eq!(statuses[..5], [200; 5]);
    assert!(statuses[5..].contains(&429), "{statuses:?}");
    assert!((0..20).all(|_| up.status_of(ADMIN, "/api/queues") == 200), "the operator is not limited");
}

#[test]
fn two_gateways_on_one_database_share_tokens_and_revocations() {
    let runtime = Runtime::new().unwrap();
    let database = Database::new(&runtime, "tokens");
    let lab = || {
        let mut lab = Lab::new(&format!("only_process = true\n[gateway]\ntoken = \"{ADMIN}\""));
        lab.variables = vec![
            ("CRAWLWAY_RECORDS__KIND", "postgresql".to_owned()),
            ("CRAWLWAY_RECORDS__POSTGRESQL__URL", database.url(None)),
        ];
        lab
    };
    let (first_lab, second_lab) = (lab(), lab());
    let (first, second) = (first_lab.up(), second_lab.up());
    for up in [&first, &second] {
        let began = Instant::now();
        while up.get("/health/ready").0 != 200 {
            assert!(began.elapsed() < Duration::from_secs(30), "not ready");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    let (token, id) = add(&first_lab, &["ann@example.org"]);
    for up in [&first, &second] {
        assert_eq!(up.status_of(&token, "/api/search?q=a"), 200);
    }
    json_of(&second_lab, &["token", "revoke", &id]);
    assert_eq!(second.status_of(&token, "/api/search?q=a"), 401);
    assert!(first.wait_refused(&token).contains("was revoked at"));
    drop((first, second));
    database.drop(&runtime);
}

#[test]
fn changes_are_audited_and_no_secret_is_logged() {
    for (flags, is_verbose) in [(&["up", "--json"][..], false), (&["up", "--json", "-vv"], true)] {
        let lab = with_admin("");
        let log = lab.data().with_extension("log");
        let mut program = lab.program(flags);
        let up = lab.up_by(program.stderr(File::create(&log).unwrap()));
        let (admin, id) = add(&lab, &["ops@example.org", "--role", "admin"]);
        let (user, _) = add(&lab, &["ann@example.org"]);
        assert_eq!(up.with_token(&admin, "POST", "/api/queues/crawler_queue/pause").0, 200);
        assert_eq!(up.with_token(&user, "DELETE", "/api/dead/crawler_queue?all=true").0, 403);
        assert_eq!(up.status_of(&admin, "/api/queues"), 200);
        assert_eq!(up.status_of("cw_wrong-token-with-a-typo", "/api/queues"), 401);
        drop(up);
        let log = fs::read_to_string(log).unwrap();
        let audit: Vec<&str> = log.lines().filter(|line| line.contains("crawlway::audit")).collect();
        let expected: [&[&str]; 4] = [
            &["token=\"gateway.token\"", "method=POST", "route=\"/api/tokens\"", "status=201"],
            &["token=\"gateway.token\"", "method=POST", "route=\"/api/tokens\"", "status=201"],
            &[
                &format!("token=\"{id}\""),
                "email=\"ops@example.org\"",
                "method=POST",
                "route=\"/api/queues/{queue}/pause\"",
                "path=\"/api/queues/crawler_queue/pause\"",
                "status=200",
                "request_id=",
            ],
            &[
                "email=\"ann@example.org\"",
                "method=DELETE",
                "route=\"/api/dead/{queue}\"",
                "path=\"/api/dead/crawler_queue\"",
                "query=\"all=true\"",
                "status=403",
            ],
        ];
        assert_eq!(audit.len(), expected.len(), "{log}");
        for (line, parts) in audit.iter().zip(expected) {
            assert!(parts.iter().all(|part| line.contains(part)), "{line} lacks one of {parts:?}");
        }
        assert_eq!(log.contains("method=GET"), is_verbose, "{log}");
        for secret in [admin.as_str(), &user, ADMIN, "wrong-token-with-a-typo", &admin[3..]] {
            assert!(!log.contains(secret), "a secret is in the log:\n{log}");
        }
        for file in ["records.db", "records.db-wal"] {
            let stored = fs::read(lab.data().join(file)).unwrap_or_default();
            let stored = String::from_utf8_lossy(&stored);
            assert!(
                !stored.contains(&admin[3..]) && !stored.contains(&user[3..]),
                "a secret is stored in {file}"
            );
        }
    }
}

#[test]
fn gateways_that_share_redis_and_no_database_share_tokens() {
    let redis = PrivateRedis::start(Persistence::AppendOnly);
    let lab = || {
        let mut lab = with_admin("");
        lab.variables = vec![
            ("CRAWLWAY_ONLY_PROCESS", "true".to_owned()),
            ("CRAWLWAY_REDIS__URL", redis.url()),
            ("CRAWLWAY_REQUESTS__STORE", "redis".to_owned()),
        ];
        lab
    };
    let (offline, serving) = (lab(), lab());
    let (token, id) = add(&offline, &["ann@example.org"]);
    let up = serving.up();
    up.wait("/health/ready", |ready| ready["ready"] == true);
    assert_eq!(up.status_of(&token, "/api/requests"), 200);
    let (other, _) = add(&serving, &["bob@example.org"]);
    assert_eq!(up.status_of(&other, "/api/requests"), 200);
    let listed = json_of(&offline, &["token", "list"]);
    let emails: Vec<&Value> =
        listed["tokens"].as_array().unwrap().iter().map(|token| &token["email"]).collect();
    assert_eq!(emails, [&json!("ann@example.org"), &json!("bob@example.org")]);
    json_of(&offline, &["token", "revoke", &id]);
    assert!(up.wait_refused(&token).contains("revoked"));
    assert_eq!(up.status_of(&other, "/api/requests"), 200, "the other token stays valid");
}
