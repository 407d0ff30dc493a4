//! Rule: crates depend on each other only in the allowed directions.
//!
//! Contracts depend on no other crate, backends on their contract, flows on contracts, and only the app on backends.

use super::Finding;
use crate::workspace::{Crate, Dependency};

/// Allowed dependencies of a crate inside the workspace. `*` at the end of a name matches any suffix.
struct Row {
    crates: &'static str,
    may_use: &'static [&'static str],
    /// Further dependencies of its tests.
    tests_may_use: &'static [&'static str],
}

const ANYTHING: &[&str] = &["crawlway-*"];

/// Backends and tools for tests above the contracts.
const TEST_BACKENDS: &[&str] = &[
    "crawlway-testkit",
    "crawlway-demo-web",
    "crawlway-broker",
    "crawlway-broker-*",
    "crawlway-store",
    "crawlway-store-*",
    "crawlway-search-index",
];

const CONTRACTS_MAY_USE: &[&str] = &["crawlway-clock", "crawlway-suspects"];

/// Table of allowed dependencies; the first matching row applies.
const TABLE: &[Row] = &[
    // The app may use every crate, and no crate may use the app.
    Row { crates: "crawlway", may_use: ANYTHING, tests_may_use: ANYTHING },
    // User interfaces.
    Row {
        crates: "crawlway-gateway",
        may_use: &[
            "crawlway-flows",
            "crawlway-flow",
            "crawlway-clock",
            "crawlway-content",
            "crawlway-fetch",
            "crawlway-broker",
            "crawlway-store",
        ],
        tests_may_use: TEST_BACKENDS,
    },
    Row { crates: "crawlway-console", may_use: &["crawlway-flows"], tests_may_use: TEST_BACKENDS },
    // Flows, on contracts.
    Row {
        crates: "crawlway-flows",
        may_use: &[
            "crawlway-flow",
            "crawlway-clock",
            "crawlway-content",
            "crawlway-fetch",
            "crawlway-broker",
            "crawlway-store",
        ],
        tests_may_use: TEST_BACKENDS,
    },
    Row {
        crates: "crawlway-flow",
        may_use: &["crawlway-broker", "crawlway-store", "crawlway-clock"],
        tests_may_use: TEST_BACKENDS,
    },
    Row {
        crates: "crawlway-fetch",
        may_use: &["crawlway-clock", "crawlway-content", "crawlway-store"],
        tests_may_use: TEST_BACKENDS,
    },
    // Contracts and pure code.
    Row { crates: "crawlway-clock", may_use: &[], tests_may_use: &[] },
    Row { crates: "crawlway-lock", may_use: &[], tests_may_use: &[] },
    Row { crates: "crawlway-suspects", may_use: &[], tests_may_use: &[] },
    Row { crates: "crawlway-content", may_use: &[], tests_may_use: &[] },
    Row { crates: "crawlway-conformance", may_use: &[], tests_may_use: &[] },
    Row { crates: "crawlway-broker", may_use: CONTRACTS_MAY_USE, tests_may_use: &[] },
    Row { crates: "crawlway-store", may_use: CONTRACTS_MAY_USE, tests_may_use: &[] },
    // Conformance suites. Their tests inject faults into backends.
    Row {
        crates: "crawlway-broker-conformance",
        may_use: &["crawlway-broker", "crawlway-conformance"],
        tests_may_use: &[],
    },
    Row {
        crates: "crawlway-store-conformance",
        may_use: &["crawlway-store", "crawlway-conformance"],
        tests_may_use: &["crawlway-clock", "crawlway-store-*", "crawlway-search-index"],
    },
    // Backends: their contract, and in tests its suite.
    Row {
        crates: "crawlway-broker-*",
        may_use: &["crawlway-broker", "crawlway-clock", "crawlway-lock"],
        tests_may_use: &["crawlway-testkit", "crawlway-broker-conformance", "crawlway-conformance"],
    },
    // Their rate limiters are compared with the embedded one.
    Row {
        crates: "crawlway-store-redis",
        may_use: &["crawlway-store", "crawlway-clock"],
        tests_may_use: &["crawlway-testkit", "crawlway-store-conformance", "crawlway-store-embedded"],
    },
    Row {
        crates: "crawlway-store-sql",
        may_use: &["crawlway-store", "crawlway-clock", "crawlway-lock"],
        tests_may_use: &["crawlway-testkit", "crawlway-store-conformance", "crawlway-store-embedded"],
    },
    Row {
        crates: "crawlway-store-*",
        may_use: &["crawlway-store", "crawlway-clock", "crawlway-lock"],
        tests_may_use: &["crawlway-testkit", "crawlway-store-conformance"],
    },
    Row {
        crates: "crawlway-search-index",
        may_use: &["crawlway-lock", "crawlway-store"],
        tests_may_use: &["crawlway-testkit", "crawlway-store-conformance"],
    },
    // The demo web is independent of Crawlway.
    Row { crates: "crawlway-demo-web", may_use: &[], tests_may_use: &[] },
    // Development tools.
    Row { crates: "crawlway-testkit", may_use: ANYTHING, tests_may_use: ANYTHING },
    Row { crates: "crawlway-bench", may_use: ANYTHING, tests_may_use: ANYTHING },
    Row { crates: "xtask", may_use: &[], tests_may_use: &[] },
];

/// Crates that may use the client of a broker, a database or a cloud.
const MAY_NAME_PRODUCTS: &[&str] = &[
    "crawlway",
    "crawlway-broker-*",
    "crawlway-store-*",
    "crawlway-search-index",
    "crawlway-testkit",
    "crawlway-bench",
];

/// Development crates: only tests and other development crates may use them.
const NOT_SHIPPED: &[&str] = &[
    "crawlway-testkit",
    "crawlway-broker-conformance",
    "crawlway-store-conformance",
    "crawlway-conformance",
    "crawlway-bench",
    "xtask",
];

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
        let Some(row) = TABLE.iter().find(|row| fits(row.crates, &member.name)) else {
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

fn wrong_direction(row: &Row, member: &str, Dependency { name, is_dev }: &Dependency) -> Option<String> {
    let may_use = |list: &[&str]| list.iter().any(|pattern| fits(pattern, name));
    if *is_dev {
        // Tests may depend on their own crate with other features.
        if name == member || may_use(row.may_use) || may_use(row.tests_may_use) {
            return None;
        }
        let allowed = [row.may_use, row.tests_may_use].concat();
        return Some(format!(
            "the tests of `{member}` may not use `{name}`; they may use {}, says {THIS_FILE}",
            written(&allowed)
        ));
    }
    let not_shipped = |name: &str| NOT_SHIPPED.contains(&name);
    if not_shipped(name) && !not_shipped(member) {
        return Some(format!(
            "`{member}` may not depend on `{name}`, which is not shipped; only [dev-dependencies] may"
        ));
    }
    if may_use(row.may_use) {
        return None;
    }
    Some(format!(
        "`{member}` may not depend on `{name}`; it may use {}, says {THIS_FILE}",
        written(row.may_use)
    ))
}

fn named_product(member: &str, Dependency { name, is_dev }: &Dependency) -> Option<String> {
    let may_name_products = MAY_NAME_PRODUCTS.iter().any(|pattern| fits(pattern, member));
    if may_name_products || *is_dev || !is_product(name) {
        return None;
    }
    Some(format!("`{member}` may not name a product, and `{name}` is the client of one; use it in a backend"))
}

fn is_product(name: &str) -> bool {
    name.split(['-', '_']).any(|word| PRODUCTS.contains(&word))
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

fn written(patterns: &[&str]) -> String {
    if patterns.is_empty() {
        return "no crate of the workspace".to_owned();
    }
    patterns.iter().map(|pattern| format!("`{pattern}`")).collect::<Vec<_>>().join(", ")
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
