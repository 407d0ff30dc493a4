//! Settings of the demo: the defaults, with shorter delays since the hosts are the demo's own.

use crate::config::{Config, Sources, load};
use serde::Serialize;
use std::{net::SocketAddr, path::Path};

/// Setting whose value in the demo is not the default.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct SettingOverride {
    pub(super) key: &'static str,
    pub(super) value: &'static str,
    pub(super) default: &'static str,
    pub(super) why: &'static str,
}

/// All overrides.
pub(super) const OVERRIDES: [SettingOverride; 3] = [
    SettingOverride {
        key: "fetch.min_delay",
        value: "50ms",
        default: "1s",
        why: "the hosts are the demo's own; other hosts get a second between two requests",
    },
    SettingOverride {
        key: "rate_limit.backoff_delay",
        value: "500ms",
        default: "5s",
        why: "the hosts recover at once; a longer Retry-After is still honoured",
    },
    SettingOverride {
        key: "search.retry_delay",
        value: "100ms",
        default: "1s",
        why: "the failures here are part of the demo",
    },
];

/// Defaults with the overrides, in this data directory. Of the user's settings only `[log]` applies, since the others
/// may name stores that are in use.
pub(super) fn settings(user: &Config, data: &Path) -> anyhow::Result<Config> {
    let variable = |setting: &SettingOverride| {
        format!("CRAWLWAY_{}", setting.key.to_ascii_uppercase().replace('.', "__"))
    };
    let variables =
        OVERRIDES.iter().map(|setting| (variable(setting).into(), setting.value.into())).collect();
    let sources = Sources { data_flag: Some(data.to_owned()), variables, ..Sources::default() };
    let mut config = load(&sources)?.config;
    config.log = user.log;
    Ok(config)
}

/// Preferred address of the gateway: the user's `gateway.listen` if it is on loopback, else the default.
pub(super) fn listen(user: &Config, demo: &Config) -> Result<SocketAddr, String> {
    match user.gateway.listen()? {
        address if address.ip().is_loopback() => Ok(address),
        _ => demo.gateway.listen(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn overrides_name_the_real_defaults() {
        let defaults = load(&Sources::default()).unwrap();
        let demo = settings(&defaults.config, Path::new("anywhere")).unwrap();
        assert_eq!(demo.data_dir, Path::new("anywhere"));
        let defaults = serde_json::to_value(config::settings(&defaults)).unwrap();
        for setting in OVERRIDES {
            assert_eq!(defaults[setting.key]["value"], setting.default, "{}", setting.key);
            assert_ne!(setting.value, setting.default);
        }
    }
}
