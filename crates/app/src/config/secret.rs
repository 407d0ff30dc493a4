//! Secrets are never printed: not by `config show`, not in an error, not in a log.

use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// Printed instead of a secret.
pub(crate) const MASK: &str = "***";

/// Keys with one of these in their name hold secrets.
const SECRET_NAMES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "api_key",
    "access_key",
    "private_key",
];

/// Keys with such a part that hold no secret.
const PUBLIC_NAMES: &[&str] = &["token_rate", "token_burst", "token_concurrency"];

/// Value that is masked in all output.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub(crate) fn new(secret: String) -> Self {
        Self(secret)
    }

    /// The secret itself, for authentication.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

/// Value of a required URL setting; an error if it is empty although another setting selects its server.
pub(super) fn set<'a>(
    address: &'a Secret,
    setting: &str,
    kind: &str,
    needed: &str,
) -> Result<&'a str, String> {
    match address.expose() {
        "" => Err(format!("`{setting}` is \"{kind}\", but `{needed}` is empty; set it")),
        address => Ok(address),
    }
}

/// Whether the value of a key is a secret, by its name.
pub(crate) fn is_secret(key: &[String]) -> bool {
    key.iter().any(|part| is_secret_name(part))
}

/// Value with secrets masked, for output.
pub(crate) fn masked(key: &[String], value: &toml::Value) -> toml::Value {
    // An empty value is not masked: it shows that no secret is set.
    if is_secret(key) && value.as_str() != Some("") {
        return MASK.into();
    }
    match value {
        toml::Value::String(text) => mask_url(text).into(),
        toml::Value::Array(values) => {
            toml::Value::Array(values.iter().map(|value| masked(key, value)).collect())
        }
        toml::Value::Table(table) => {
            let inner = |(name, value): (&String, &toml::Value)| {
                (name.clone(), masked(&[key, std::slice::from_ref(name)].concat(), value))
            };
            toml::Value::Table(table.iter().map(inner).collect())
        }
        other => other.clone(),
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    !PUBLIC_NAMES.contains(&name.as_str()) && SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// Masks the password in `scheme://user:password@host`, and parameters whose names are those of secrets. A PEM text, which
/// may be a key, is masked whole.
///
/// A password with an unescaped `/`, `?` or `@` is masked, too: the mask reaches to the last `@`, and so hides too much of an
/// address with an `@` in its path.
fn mask_url(text: &str) -> String {
    if text.contains("-----BEGIN") {
        return MASK.to_owned();
    }
    let Some(scheme_end) = text.find("://").map(|at| at + 3) else {
        return if is_address_with_secret(text) { MASK.to_owned() } else { text.to_owned() };
    };
    let (scheme, rest) = text.split_at(scheme_end);
    let rest = match rest.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((user, _)) => format!("{user}:{MASK}@{host}"),
            None => rest.to_owned(),
        },
        None => rest.to_owned(),
    };
    format!("{scheme}{}", mask_parameters(&rest))
}

/// Whether a text may be an address of another form with a password: `host=db password=…`, `user:password@host`.
fn is_address_with_secret(text: &str) -> bool {
    let names_secret = |word: &str| word.split_once('=').is_some_and(|(name, _)| is_secret_name(name));
    let mut words = text.split(|sign: char| sign.is_whitespace() || matches!(sign, ';' | '&' | '?'));
    let is_one_word = !text.contains(char::is_whitespace);
    words.any(names_secret)
        || (is_one_word && text.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')))
}

fn mask_parameters(address: &str) -> String {
    let Some((path, query)) = address.split_once('?') else { return address.to_owned() };
    let parameters: Vec<String> = query
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((name, _)) if is_secret_name(name) => format!("{name}={MASK}"),
            _ => parameter.to_owned(),
        })
        .collect();
    format!("{path}?{}", parameters.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(key: &str, value: impl Into<toml::Value>) -> String {
        let key: Vec<String> = key.split('.').map(str::to_owned).collect();
        masked(&key, &value.into()).to_string()
    }

    #[test]
    fn an_address_of_another_form_is_masked_completely() {
        for address in
            ["host=db user=crawlway password=hunter2", "crawlway:hunter2@db/crawl", "db?password=hunter2"]
        {
            assert_eq!(shown("records.postgresql.url", address), format!("\"{MASK}\""), "{address}");
        }
        for harmless in ["host=db user=crawlway", "Bot (mailto:me@example.org)", "a/b", "me@example.org"] {
            assert_eq!(shown("fetch.user_agent", harmless), format!("\"{harmless}\""));
        }
    }

    #[test]
    fn only_expose_returns_the_secret() {
        let secret: Secret = serde_json::from_str("\"hunter2\"").unwrap();
        assert_eq!(secret.expose(), "hunter2");
        let printed =
            format!("{secret} {secret:?} {:#?} {}", Some(&secret), serde_json::to_string(&secret).unwrap());
        assert!(!printed.contains("hunter2") && printed.contains(MASK), "{printed}");
    }

    #[test]
    fn values_of_keys_with_secret_names_are_masked() {
        for key in
            ["broker.rabbitmq.password", "gateway.token_key", "SECRET", "store.s3.secret-key", "a.api-key"]
        {
            assert_eq!(shown(key, "hunter2"), "\"***\"", "{key}");
        }
        assert_eq!(shown("pin.secret", 1234), "\"***\"");
        assert_eq!(shown("secrets.one", "hunter2"), "\"***\"");
        assert_eq!(shown("gateway.token", ""), "\"\"");
        assert_eq!(shown("gateway.token_rate", 50), "50");
    }

    #[test]
    fn passwords_in_addresses_are_masked() {
        for (address, masked) in [
            ("amqp://user:pass@host:5672/vhost", "amqp://user:***@host:5672/vhost"),
            ("redis://:pass@host", "redis://:***@host"),
            ("amqp://user:p@ss/w:rd@host", "amqp://user:***@host"),
            (
                "postgres://u@h/db?sslmode=require&password=pass",
                "postgres://u@h/db?sslmode=require&password=***",
            ),
            ("https://example.com:8080/path?q=1", "https://example.com:8080/path?q=1"),
            ("amqp://a:pass@h1,amqp://b:pass@h2", "amqp://a:***@h2"),
            ("no address: a@b", "no address: a@b"),
        ] {
            assert_eq!(shown("broker.url", address), format!("\"{masked}\""));
        }
        let list = toml::Value::Array(vec!["amqp://user:pass@host".into()]);
        assert_eq!(shown("broker.urls", list), "[\"amqp://user:***@host\"]");
    }
}
