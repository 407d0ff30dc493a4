//! The settings of the demo: the defaults, and the few that differ since the hosts are the demo's own.

use crate::config::{Config, Sources, load};
use serde::Serialize;
use std::{net::SocketAddr, path::Path};

/// A setting that differs from its default.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Own {
    pub(super) key: &'static str,
    pub(super) value: &'static str,
    pub(super) default: &'static str,
    pub(super) why: &'static str,
}

/// Everything that differs.
pub(super) const OWN: [Own; 3] = [
    Own {
        key: "fetch.gap",
        value: "50ms",
        default: "1s",
        why: "its hosts are its own; strangers get a second between two requests",
    },
    Own {
        key: "gate.back_off",
        value: "500ms",
        default: "5s",
        why: "its hosts do not stay annoyed for long; a longer Retry-After is still honoured",
    },
    Own { key: "search.retry_after", value: "100ms", default: "1s", why: "what fails here fails on purpose" },
];

/// The defaults with those of the demo's own, in this directory, whatever the settings of this place are: they may be
/// about stores that others use. Only where to listen and what to log is as they say.
pub(super) fn settings(theirs: &Config, data: &Path) -> anyhow::Result<Config> {
    let variable = |own: &Own| format!("CRAWLWAY_{}", own.key.to_ascii_uppercase().replace('.', "__"));
    let variables = OWN.iter().map(|own| (variable(own).into(), own.value.into())).collect();
    let sources = Sources { data_flag: Some(data.to_owned()), variables, ..Sources::default() };
    let mut config = load(&sources)?.config;
    config.log = theirs.log;
    Ok(config)
}

/// Where the gateway listens if it can: where the settings say, if that is on this machine only.
pub(super) fn listen(theirs: &Config, own: &Config) -> Result<SocketAddr, String> {
    match theirs.gateway.listen()? {
        address if address.ip().is_loopback() => Ok(address),
        _ => own.gateway.listen(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn what_is_told_of_the_settings_is_so() {
        let defaults = load(&Sources::default()).unwrap();
        let own = settings(&defaults.config, Path::new("anywhere")).unwrap();
        assert_eq!(own.data_dir, Path::new("anywhere"));
        let defaults = serde_json::to_value(config::settings(&defaults)).unwrap();
        for setting in OWN {
            assert_eq!(defaults[setting.key]["value"], setting.default, "{}", setting.key);
            assert_ne!(setting.value, setting.default);
        }
    }
}
