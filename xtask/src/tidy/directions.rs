//! Rule: crates depend on each other only in the allowed directions.
//!
//! Contracts depend on no other crate, backends on their contract, flows on contracts, and only the app on backends.

use super::Finding;
use crate::workspace::{Crate, Dependency};

/// Allowed dependencies of a crate inside the workspace: crate, its dependencies, and further dependencies of its tests. Names are
/// without the prefix `crawlway-`, and `*` at the end of a name matches any suffix.
type Row = (&'static str, &'static str, &'static str);

/// Backends and tools for tests above the contracts.
const TEST_BACKENDS: &str = "testkit demo-web broker broker-* store store-* search-index";

/// Table of allowed dependencies; the first matching row applies.
const TABLE: &[Row] = &[
    // The app may use every crate, and no crate may use the app.
    ("crawlway", "*", "*"),
    // User interfaces.
    ("gateway", "flows flow clock content fetch broker store", TEST_BACKENDS),
    ("console", "flows", TEST_BACKENDS),
    // Flows, on contracts.
    ("flows", "flow clock content fetch broker store", TEST_BACKENDS),
    ("flow", "broker store clock", TEST_BACKENDS),
    ("fetch", "clock content store tls", TEST_BACKENDS),
    // Contracts and pure code.
    ("clock", "", ""),
    ("lock", "", ""),
    ("tls", "", ""),
    ("suspects", "", ""),
    ("content", "", ""),
    ("conformance", "", ""),
    ("broker", "clock suspects", ""),
    ("store", "clock suspects", ""),
    // Conformance suites. Their tests inject faults into backends.
    ("broker-conformance", "broker conformance", ""),
    ("store-conformance", "store conformance", "clock store-* search-index"),
    // What backends share that keep state of their queues in a ledger.
    ("broker-ledger", "broker store", ""),
    // Backends: their contract, and in tests its suite.
    ("broker-kafka", "broker broker-ledger store clock tls", "testkit broker-conformance conformance"),
    ("broker-sqs", "broker broker-ledger store clock tls", "testkit broker-conformance conformance"),
    ("broker-*", "broker clock lock tls", "testkit broker-conformance conformance"),
    // Their rate limiters are compared with the embedded one.
    ("store-redis", "store clock tls", "testkit store-conformance store-embedded"),
    ("store-sql", "store clock lock tls", "testkit store-conformance store-embedded"),
    ("store-*", "store clock lock tls", "testkit store-conformance"),
    ("search-index", "lock store", "testkit store-conformance"),
    // The demo web is independent of Crawlway.
    ("demo-web", "", ""),
    // Development tools.
    ("testkit", "*", "*"),
    ("bench", "*", "*"),
    ("xtask", "", ""),
];

/// Crates that may use the client of a broker, a database or a cloud.
const MAY_NAME_PRODUCTS: &str = "crawlway broker-* store-* search-index testkit bench";

/// Development crates: only tests and other development crates may use them.
const NOT_SHIPPED: &str = "testkit broker-conformance store-conformance conformance bench xtask";

/// Words in the names of product clients.
#[rustfmt::skip]
const PRODUCTS: &[&str] = &[
    // Brokers.
    "rabbitmq", "lapin", "amqp", "amqprs", "amq", "kafka", "rdkafka", "rskafka", "sqs",
    // Databases, caches and search.
    "redis", "fred", "postgres", "sqlx", "diesel", "rusqlite", "sqlite", "mongodb", "bson", "tantivy",
    // Clouds.
    "aws", "rusoto", "s3",
];

/// Path of the table, for messages.
const THIS_FILE: &str = "xtask/src/tidy/directions.rs";

pub(super) fn check(crates: &[Crate]) -> Vec<Finding> {
    let members: Vec<&str> = crates.iter().map(|member| member.name.as_str()).collect();
    let mut findings = Vec::new();
    for member in crates {
        let mut report = |message: String| {
            findings.push(Finding { path: member.manifest.clone(), line: None, message });
        };
        let Some(row) = TABLE.iter().find(|(pattern, ..)| fits(pattern, &member.name)) else {
            report(format!("the crate `{}` is new: add a row to the table in {THIS_FILE}", member.name));
            continue;
        };
        for dependency in &member.dependencies {
            let fault = if members.contains(&dependency.name.as_str()) {
                wrong_direction(row, &member.name, dependency)
            } else {
                named_product(&member.name, dependency)
            };
            if let Some(fault) = fault {
                report(fault);
            }
        }
    }
    findings
}

fn wrong_direction(
    (_, may_use, tests_may_use): &Row,
    member: &str,
    Dependency { name, is_dev }: &Dependency,
) -> Option<String> {
    let is_allowed = fits_any(may_use, name);
    if *is_dev {
        // Tests may depend on their own crate with other features.
        let is_allowed = is_allowed || name == member || fits_any(tests_may_use, name);
        return (!is_allowed).then(|| {
            let allowed = format!("{may_use} {tests_may_use}");
            format!(
                "the tests of `{member}` may not use `{name}`; allowed: {}; see {THIS_FILE}",
                allowed.trim()
            )
        });
    }
    if fits_any(NOT_SHIPPED, name) && !fits_any(NOT_SHIPPED, member) {
        return Some(format!(
            "`{member}` may not depend on `{name}`, which is not shipped; only [dev-dependencies] may"
        ));
    }
    let fault = || format!("`{member}` may not depend on `{name}`; allowed: {may_use}; see {THIS_FILE}");
    (!is_allowed).then(fault)
}

fn named_product(member: &str, Dependency { name, is_dev }: &Dependency) -> Option<String> {
    if fits_any(MAY_NAME_PRODUCTS, member) || *is_dev || !is_product(name) {
        return None;
    }
    Some(format!("`{member}` may not name a product, and `{name}` is the client of one; use it in a backend"))
}

fn is_product(name: &str) -> bool {
    name.split(['-', '_']).any(|word| PRODUCTS.contains(&word))
}

fn fits_any(patterns: &str, name: &str) -> bool {
    patterns.split_whitespace().any(|pattern| fits(pattern, name))
}

fn fits(pattern: &str, name: &str) -> bool {
    let short = name.strip_prefix("crawlway-");
    match pattern.strip_suffix('*') {
        Some(start) => short.is_some_and(|short| short.starts_with(start)),
        None => short.unwrap_or(name) == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Findings of a workspace in lines such as `crawlway-flow: crawlway-broker dev:crawlway-testkit`. Dependencies of the
    /// workspace become members too.
    fn findings(lines: &str) -> Vec<String> {
        let mut crates: Vec<Crate> = Vec::new();
        for line in lines.lines() {
            let (name, dependencies) = line.trim().split_once(':').unwrap();
            let dependencies = dependencies
                .split_whitespace()
                .map(|word| match word.strip_prefix("dev:") {
                    Some(name) => Dependency { name: name.to_owned(), is_dev: true },
                    None => Dependency { name: word.to_owned(), is_dev: false },
                })
                .collect();
            crates.push(member(name, dependencies));
        }
        let used: Vec<String> =
            crates.iter().flat_map(|c| &c.dependencies).map(|dependency| dependency.name.clone()).collect();
        for name in used {
            let ours = name.starts_with("crawlway") || name == "xtask";
            if ours && !crates.iter().any(|member| member.name == name) {
                crates.push(member(&name, vec![]));
            }
        }
        check(&crates).into_iter().map(|finding| finding.message).collect()
    }

    fn member(name: &str, dependencies: Vec<Dependency>) -> Crate {
        Crate {
            name: name.to_owned(),
            manifest: format!("{name}/Cargo.toml"),
            dependencies,
            binaries: vec![],
        }
    }

    #[test]
    fn wrong_directions_are_found() {
        for line in [
            "crawlway-gateway: crawlway-broker-kafka",
            "crawlway-flows: crawlway-gateway",
            "crawlway-flow: crawlway-content",
            "crawlway-fetch: crawlway-broker",
            "crawlway-content: crawlway-fetch",
            "crawlway-broker: crawlway-content",
            "crawlway-broker-kafka: crawlway-broker-embedded",
            "crawlway-demo-web: crawlway-fetch",
            "crawlway-flows: crawlway",
            "xtask: crawlway-content",
        ] {
            let findings = findings(line);
            assert_eq!(findings.len(), 1, "{line}: {findings:?}");
            assert!(findings[0].contains("may not depend on"), "{line}: {findings:?}");
        }
    }

    #[test]
    fn development_crates_are_not_shipped() {
        for line in [
            "crawlway: crawlway-bench",
            "crawlway-flow: crawlway-testkit",
            "crawlway-broker-sqs: crawlway-broker-conformance",
        ] {
            let findings = findings(line);
            assert_eq!(findings.len(), 1, "{line}: {findings:?}");
            assert!(findings[0].contains("not shipped"), "{line}: {findings:?}");
        }
    }

    #[test]
    fn a_new_crate_needs_a_row() {
        let findings = findings("crawlway-surprise: serde");
        assert_eq!(findings.len(), 1);
        assert!(findings[0].contains("`crawlway-surprise` is new"), "{findings:?}");
        assert!(findings[0].contains(THIS_FILE), "{findings:?}");
    }

    #[test]
    fn flows_and_contracts_use_no_product() {
        for line in
            ["crawlway-flows: lapin", "crawlway-gateway: aws-sdk-s3", "crawlway-store: tokio-postgres"]
        {
            let findings = findings(line);
            assert_eq!(findings.len(), 1, "{line}: {findings:?}");
            assert!(findings[0].contains("may not name a product"), "{findings:?}");
        }
        assert!(!is_product("tokio") && !is_product("serde_json") && !is_product("sha3"));
    }
}
