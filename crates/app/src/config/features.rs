//! Backends as cargo features: which of them this build has.

use super::layers::Entry;

/// Names of backends in settings, the cargo feature of each, and whether it is compiled in.
const BACKENDS: [(&str, &str, bool); 8] = [
    ("kafka", "kafka", cfg!(feature = "kafka")),
    ("rabbitmq", "rabbitmq", cfg!(feature = "rabbitmq")),
    ("redis", "redis", cfg!(feature = "redis")),
    ("mongodb", "mongodb", cfg!(feature = "mongodb")),
    ("s3", "s3", cfg!(feature = "s3")),
    ("sqs", "sqs", cfg!(feature = "sqs")),
    ("postgresql", "postgresql", cfg!(feature = "postgresql")),
    ("postgres", "postgresql", cfg!(feature = "postgresql")),
];

/// The cargo feature that a setting needs and this build lacks.
pub(super) fn missing(entry: &Entry) -> Option<&'static str> {
    let names_a_backend = matches!(
        entry.key.iter().map(String::as_str).collect::<Vec<_>>()[..],
        [_, "kind"] | ["brokers", _, "kind"] | ["search", "index"] | ["inventory" | "requests", "store"]
    );
    let value = entry.value.as_str().filter(|_| names_a_backend)?;
    lacks(&BACKENDS, value)
}

fn lacks(backends: &[(&str, &'static str, bool)], value: &str) -> Option<&'static str> {
    backends.iter().find(|(name, _, compiled)| *name == value && !compiled).map(|(_, feature, _)| *feature)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Origin, Problem};

    #[test]
    fn a_backend_that_is_not_compiled_in_is_refused_with_its_feature() {
        let backends = [("redis", "redis", true), ("postgres", "postgresql", false)];
        assert_eq!(lacks(&backends, "embedded"), None);
        assert_eq!(lacks(&backends, "redis"), None);
        assert_eq!(lacks(&backends, "postgres"), Some("postgresql"));
        for key in [&["broker", "kind"][..], &["brokers", "events", "kind"]] {
            let key = key.iter().map(|&part| part.to_owned()).collect();
            let entry = Entry { key, value: "rabbitmq".into(), origin: Origin::Variable("X".into()) };
            assert_eq!(missing(&entry), (!cfg!(feature = "rabbitmq")).then_some("rabbitmq"));
            let text = Problem::missing_feature(&entry, "rabbitmq").to_string();
            assert!(text.contains("--features rabbitmq") && text.contains("--features full"), "{text}");
        }
    }
}
