//! `config check` and `up` refuse files for TLS that do not fit, and settings for TLS that no connection uses.

use crate::home::Home;
use crawlway_testkit::certificates::Certificates;

/// All servers with TLS, and the table of each one's files.
const SERVERS: &str = r#"
[broker]
kind = "rabbitmq"
[broker.rabbitmq]
url = "amqps://crawl:secret@localhost:1"
[rate_limit]
kind = "redis"
[seen]
kind = "redis"
[redis]
url = "rediss://localhost:1"
[records]
kind = "postgresql"
[records.postgresql]
url = "postgres://crawl@localhost:1/crawl?sslmode=verify-full"
[search]
index = "postgresql"
[inventory]
store = "mongodb"
[inventory.mongodb]
url = "mongodb://localhost:1/?tls=true"
[gateway]
url = "https://localhost:1"
"#;
const TABLES: [&str; 5] =
    ["broker.rabbitmq.tls", "redis.tls", "records.postgresql.tls", "inventory.mongodb.tls", "gateway.tls"];

/// Variable of a setting.
fn variable(table: &str, name: &str) -> String {
    format!("CRAWLWAY_{}__{}", table.replace('.', "__").to_uppercase(), name.to_uppercase())
}

#[test]
fn files_that_do_not_fit_are_refused_with_their_setting() {
    let certificates = Certificates::new();
    let home = Home::new();
    home.write("crawlway.toml", SERVERS);
    home.run("config check").ok();
    let path = |name: &str| certificates.path(name).display().to_string();
    for table in TABLES {
        let run = |line: &str, files: &[(&str, &str)]| {
            let variables: Vec<(String, String)> =
                files.iter().map(|(name, file)| (variable(table, name), path(file))).collect();
            let variables: Vec<(&str, &str)> =
                variables.iter().map(|(name, file)| (name.as_str(), file.as_str())).collect();
            home.run_with(line, &variables)
        };
        run("config check", &[("ca", "ca.pem"), ("certificate", "client.pem"), ("key", "client.key")]).ok();
        for (files, setting, says) in [
            (&[("ca", "missing.pem")][..], "ca", "cannot be read"),
            (&[("ca", "client.key")], "ca", "expected PEM with at least one CA certificate"),
            (&[("certificate", "client.pem")], "key", "needs both"),
            (
                &[("certificate", "client.pem"), ("key", "other.key")],
                "key",
                "is not the key of the certificate",
            ),
            (&[("certificate", "server.pem"), ("key", "server.key")], "certificate", "clientAuth"),
        ] {
            let refused = run("config check", files).refused(2);
            assert!(refused.contains(&format!("`{table}.{setting}`")) && refused.contains(says), "{refused}");
        }
        let refused = run("up", &[("ca", "missing.pem")]).refused(2);
        assert!(refused.contains(&format!("`{table}.ca`")), "{refused}");
    }
}

#[test]
fn files_without_tls_and_urls_without_verification_are_refused() {
    let certificates = Certificates::new();
    let home = Home::new();
    home.write("crawlway.toml", SERVERS);
    let ca = certificates.path("ca.pem").display().to_string();
    for (table, url, plain, says) in [
        ("broker.rabbitmq.tls", "BROKER__RABBITMQ__URL", "amqp://crawl:secret@localhost:1", "amqps://"),
        ("redis.tls", "REDIS__URL", "redis://localhost:1", "rediss://"),
        (
            "records.postgresql.tls",
            "RECORDS__POSTGRESQL__URL",
            "postgres://crawl@localhost:1/crawl",
            "sslmode=verify-full",
        ),
        ("inventory.mongodb.tls", "INVENTORY__MONGODB__URL", "mongodb://localhost:1/", "tls=true"),
    ] {
        let url = format!("CRAWLWAY_{url}");
        let refused =
            home.run_with("config check", &[(&variable(table, "ca"), &ca), (&url, plain)]).refused(2);
        assert!(refused.contains(&format!("`{table}.ca`")) && refused.contains(says), "{refused}");
    }
    for (url, insecure, says) in [
        ("CRAWLWAY_REDIS__URL", "rediss://localhost:1/#insecure", "always verified"),
        ("CRAWLWAY_RECORDS__POSTGRESQL__URL", "postgres://localhost:1/crawl?sslmode=require", "verify-full"),
        (
            "CRAWLWAY_INVENTORY__MONGODB__URL",
            "mongodb://localhost:1/?tls=true&tlsInsecure=true",
            "always verified",
        ),
    ] {
        let refused = home.run_with("config check", &[(url, insecure)]).refused(2);
        assert!(refused.contains(says), "{refused}");
    }
}
