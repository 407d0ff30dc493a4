//! Rule: the crates of the workspace depend on each other only in these directions.
//!
//! The table is the architecture: contracts know nothing, backends know their contract, flows know contracts,
//! and only the app knows which backends there are.

use super::Finding;
use crate::workspace::{Crate, Dependency};

/// What a crate may depend on inside the workspace. `*` at the end of a name stands for any rest.
struct Row {
    crates: &'static str,
    may_use: &'static [&'static str],
    /// What its tests may use besides.
    tests_may_use: &'static [&'static str],
}

const ANYTHING: &[&str] = &["crawlway-*"];

/// What a test above the contracts sets up.
const SET_UP: &[&str] = &[
    "crawlway-testkit",
    "crawlway-demo-web",
    "crawlway-broker",
    "crawlway-broker-*",
    "crawlway-store",
    "crawlway-store-*",
    "crawlway-search-index",
];

const CONTRACTS_MAY_USE: &[&str] = &["crawlway-clock", "crawlway-suspects"];

/// The first row that fits a crate holds.
const TABLE: &[Row] = &[
    // The app knows everything, and nothing knows the app.
    Row { crates: "crawlway", may_use: ANYTHING, tests_may_use: ANYTHING },
    // What users see.
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
        tests_may_use: SET_UP,
    },
    Row { crates: "crawlway-console", may_use: &["crawlway-flows"], tests_may_use: SET_UP },
    // What is done, in terms of contracts.
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
        tests_may_use: SET_UP,
    },
    Row {
        crates: "crawlway-flow",
        may_use: &["crawlway-broker", "crawlway-store", "crawlway-clock"],
        tests_may_use: SET_UP,
    },
    Row {
        crates: "crawlway-fetch",
        may_use: &["crawlway-clock", "crawlway-content", "crawlway-store"],
        tests_may_use: SET_UP,
    },
    // Contracts and pure code know nothing.
    Row { crates: "crawlway-clock", may_use: &[], tests_may_use: &[] },
    Row { crates: "crawlway-lock", may_use: &[], tests_may_use: &[] },
    Row { crates: "crawlway-suspects", may_use: &[], tests_may_use: &[] },
    Row { crates: "crawlway-content", may_use: &[], tests_may_use: &[] },
    Row { crates: "crawlway-conformance", may_use: &[], tests_may_use: &[] },
    Row { crates: "crawlway-broker", may_use: CONTRACTS_MAY_USE, tests_may_use: &[] },
    Row { crates: "crawlway-store", may_use: CONTRACTS_MAY_USE, tests_may_use: &[] },
    // A suite knows its contract. Its own tests put faults into backends that pass.
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
    // A backend knows its contract only, and its tests the suite of the contract.
    Row {
        crates: "crawlway-broker-*",
        may_use: &["crawlway-broker", "crawlway-clock", "crawlway-lock"],
        tests_may_use: &["crawlway-testkit", "crawlway-broker-conformance", "crawlway-conformance"],
    },
    // Their gates are compared with the embedded one, step by step.
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
    // The small web to crawl is a stranger to us, as any web is.
    Row { crates: "crawlway-demo-web", may_use: &[], tests_may_use: &[] },
    // What serves development.
    Row { crates: "crawlway-testkit", may_use: ANYTHING, tests_may_use: ANYTHING },
    Row { crates: "crawlway-bench", may_use: ANYTHING, tests_may_use: ANYTHING },
    Row { crates: "xtask", may_use: &[], tests_may_use: &[] },
];

/// The crates that may use the client of a broker, a database or a cloud. All others speak in contracts.
const MAY_NAME_PRODUCTS: &[&str] = &[
    "crawlway",
    "crawlway-broker-*",
    "crawlway-store-*",
    "crawlway-search-index",
    "crawlway-testkit",
    "crawlway-bench",
];

/// These serve development, so what is shipped never contains them: only tests use them, and each other.
const NOT_SHIPPED: &[&str] = &[
    "crawlway-testkit",
    "crawlway-broker-conformance",
    "crawlway-store-conformance",
    "crawlway-conformance",
    "crawlway-bench",
    "xtask",
];

/// A crate whose name is one of these, or has one of these between its dashes, is a product's client.
#[rustfmt::skip]
const PRODUCTS: &[&str] = &[
    // Brokers.
    "rabbitmq", "lapin", "amqp", "amqprs", "amq", "kafka", "rdkafka", "rskafka", "sqs",
    // Databases, caches and search.
    "redis", "fred", "postgres", "sqlx", "diesel", "rusqlite", "sqlite", "mongodb", "bson", "tantivy",
    // Clouds.
    "aws", "rusoto", "s3",
];

/// Where the table is, for whoever has to extend it.
const THIS_FILE: &str = "xtask/src/tidy/directions.rs";

pub(super) fn check(crates: &[Crate]) -> Vec<Finding> {
    let members: Vec<&str> = crates.iter().map(|member| member.name.as_str()).collect();
    let mut findings = Vec::new();
    for member in crates {
        let mut report = |message: String| {
            findings.push(Finding { path: member.manifest.clone(), line: None, message });
        };
        let Some(row) = TABLE.iter().find(|row| fits(row.crates, &member.name)) else {
            report(format!(
                "the crate `{}` is new: add a row to the table in {THIS_FILE} that says what it may use",
                member.name
            ));
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
    row: &Row,
    member: &str,
    Dependency { name, only_for_tests }: &Dependency,
) -> Option<String> {
    let may_use = |list: &[&str]| list.iter().any(|pattern| fits(pattern, name));
    if *only_for_tests {
        // A crate's tests may ask for the crate itself with other features.
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

fn named_product(member: &str, Dependency { name, only_for_tests }: &Dependency) -> Option<String> {
    let may_name_products = MAY_NAME_PRODUCTS.iter().any(|pattern| fits(pattern, member));
    if may_name_products || *only_for_tests || !is_product(name) {
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

    /// A workspace from lines such as `crawlway-flow: crawlway-broker dev:crawlway-testkit`. Crates of ours
    /// that are only depended on become members too, since a dependency counts as ours only if it is one.
    fn findings(lines: &str) -> Vec<String> {
        let mut crates: Vec<Crate> = Vec::new();
        for line in lines.lines() {
            let (name, dependencies) = line.trim().split_once(':').unwrap();
            let dependencies = dependencies
                .split_whitespace()
                .map(|word| match word.strip_prefix("dev:") {
                    Some(name) => Dependency { name: name.to_owned(), only_for_tests: true },
                    None => Dependency { name: word.to_owned(), only_for_tests: false },
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
    fn the_directions_of_the_architecture_pass() {
        let none: [&str; 0] = [];
        assert_eq!(
            findings(
                "crawlway: crawlway-gateway crawlway-broker-kafka crawlway-demo-web redis dev:crawlway-testkit
                 crawlway-gateway: crawlway-flows tokio
                 crawlway-console: crawlway-flows
                 crawlway-flows: crawlway-flow crawlway-content crawlway-fetch crawlway-broker crawlway-store
                 crawlway-flow: crawlway-broker crawlway-store dev:crawlway-broker-embedded
                 crawlway-fetch: crawlway-content crawlway-store
                 crawlway-broker-kafka: crawlway-broker rdkafka dev:crawlway-testkit dev:crawlway-broker-conformance
                 crawlway-broker-conformance: crawlway-broker crawlway-conformance
                 crawlway-broker: bytes dev:crawlway-broker
                 crawlway-store-sql: crawlway-store sqlx dev:crawlway-store-conformance
                 crawlway-store-conformance: crawlway-store dev:crawlway-store-sql
                 crawlway-search-index: crawlway-store tantivy
                 crawlway-testkit: crawlway-broker-kafka redis
                 crawlway-bench: crawlway-testkit crawlway-content rusqlite
                 xtask: clap"
            ),
            none
        );
    }

    #[test]
    fn each_wrong_direction_is_found() {
        for line in [
            "crawlway-gateway: crawlway-broker-kafka",
            "crawlway-console: crawlway-store-sql",
            "crawlway-flows: crawlway-broker-rabbitmq",
            "crawlway-flows: crawlway-gateway",
            "crawlway-flow: crawlway-content",
            "crawlway-fetch: crawlway-broker",
            "crawlway-content: crawlway-fetch",
            "crawlway-broker: crawlway-content",
            "crawlway-store: crawlway-broker",
            "crawlway-conformance: crawlway-broker",
            "crawlway-broker-kafka: crawlway-broker-embedded",
            "crawlway-broker-sqs: crawlway-store",
            "crawlway-store-redis: crawlway-broker",
            "crawlway-search-index: crawlway-content",
            "crawlway-demo-web: crawlway-fetch",
            "crawlway-flows: crawlway",
            "crawlway-testkit: crawlway",
            "xtask: crawlway-content",
        ] {
            let findings = findings(line);
            assert_eq!(findings.len(), 1, "{line}: {findings:?}");
            assert!(findings[0].contains("may not depend on"), "{line}: {findings:?}");
        }
    }

    #[test]
    fn the_tests_of_a_crate_have_directions_too() {
        for line in ["crawlway-content: dev:crawlway-flows", "crawlway-broker-sqs: dev:crawlway-broker-kafka"]
        {
            let findings = findings(line);
            assert_eq!(findings.len(), 1, "{line}: {findings:?}");
            assert!(findings[0].starts_with("the tests of"), "{line}: {findings:?}");
        }
    }

    #[test]
    fn what_is_not_shipped_stays_out_of_what_is() {
        for line in [
            "crawlway: crawlway-testkit",
            "crawlway: crawlway-bench",
            "crawlway-flow: crawlway-testkit",
            "crawlway-broker-sqs: crawlway-testkit",
            "crawlway-broker-sqs: crawlway-broker-conformance",
            "crawlway-store-sql: crawlway-store-conformance",
        ] {
            let findings = findings(line);
            assert_eq!(findings.len(), 1, "{line}: {findings:?}");
            assert!(findings[0].contains("not shipped"), "{line}: {findings:?}");
        }
    }

    #[test]
    fn a_crate_that_is_not_in_the_table_is_told_where_to_go() {
        let findings = findings("crawlway-surprise: serde");
        assert_eq!(findings.len(), 1);
        assert!(findings[0].contains("`crawlway-surprise` is new"), "{findings:?}");
        assert!(findings[0].contains(THIS_FILE), "{findings:?}");
    }

    #[test]
    fn flows_and_contracts_name_no_product() {
        for product in [
            "lapin",
            "rdkafka",
            "aws-sdk-sqs",
            "aws-sdk-s3",
            "rust-s3",
            "redis",
            "tokio-postgres",
            "sqlx",
            "mongodb",
        ] {
            for member in
                ["crawlway-flows", "crawlway-flow", "crawlway-gateway", "crawlway-broker", "crawlway-store"]
            {
                let findings = findings(&format!("{member}: {product}"));
                assert_eq!(findings.len(), 1, "{member}: {product}: {findings:?}");
                assert!(findings[0].contains("may not name a product"), "{findings:?}");
            }
        }
        assert!(!is_product("tokio") && !is_product("serde_json") && !is_product("sha3"));
    }
}
