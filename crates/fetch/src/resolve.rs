//! Names to addresses, cached by the resolver for as long as the answers may live.

use crate::error::{Code, Trouble};
use hickory_resolver::TokioResolver;
use std::{
    collections::HashMap,
    fmt::Debug,
    net::{IpAddr, Ipv4Addr},
};

/// Looks names up. Tests bring their own.
#[async_trait::async_trait]
pub trait Resolve: Debug + Send + Sync {
    /// All addresses of a name.
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError>;
}

/// Why a name has no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// There is no such name, or it has no address.
    #[error("no such name")]
    NotFound,
    /// Nobody could say right now.
    #[error("{0}")]
    Failed(String),
}

/// The system's name servers, with a cache.
#[derive(Debug)]
pub struct SystemResolver {
    resolver: Option<TokioResolver>,
}

impl SystemResolver {
    /// Reads the system's settings. Without any, only literal addresses and `localhost` have an address.
    pub fn new() -> Self {
        let resolver = TokioResolver::builder_tokio().and_then(|mut builder| {
            let options = builder.options_mut();
            options.cache_size = 10_000;
            options.attempts = 2;
            builder.build()
        });
        if let Err(error) = &resolver {
            tracing::warn!(%error, "no name servers are known to this system");
        }
        Self { resolver: resolver.ok() }
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait::async_trait]
impl Resolve for SystemResolver {
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        // Names for this machine never leave it (RFC 6761).
        if name == "localhost" || name.ends_with(".localhost") {
            return Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]);
        }
        let Some(resolver) = &self.resolver else {
            return Err(LookupError::Failed("this system has no name servers".into()));
        };
        match resolver.lookup_ip(format!("{name}.")).await {
            Ok(found) => Ok(found.iter().collect()),
            Err(error) if error.is_no_records_found() || error.is_nx_domain() => Err(LookupError::NotFound),
            Err(error) => Err(LookupError::Failed(error.to_string())),
        }
    }
}

/// A fixed table of names, in front of another resolver or alone.
#[derive(Debug, Default)]
pub struct FixedNames {
    /// Addresses by name; a name that starts with `*.` stands for all below it.
    pub names: HashMap<String, Vec<IpAddr>>,
}

#[async_trait::async_trait]
impl Resolve for FixedNames {
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        let mut rest = name;
        if let Some(addresses) = self.names.get(name) {
            return Ok(addresses.clone());
        }
        while let Some((_, parent)) = rest.split_once('.') {
            if let Some(addresses) = self.names.get(&format!("*.{parent}")) {
                return Ok(addresses.clone());
            }
            rest = parent;
        }
        Err(LookupError::NotFound)
    }
}

/// The addresses of a URL's host, which may be a literal.
pub(crate) async fn addresses(
    resolver: &dyn Resolve,
    host: &url::Host<&str>,
) -> Result<Vec<IpAddr>, Trouble> {
    let name = match host {
        url::Host::Ipv4(ip) => return Ok(vec![IpAddr::V4(*ip)]),
        url::Host::Ipv6(ip) => return Ok(vec![IpAddr::V6(*ip)]),
        url::Host::Domain(name) => name.trim_end_matches('.'),
    };
    match resolver.lookup(name).await {
        Ok(addresses) if addresses.is_empty() => {
            Err(Trouble::new(Code::DnsNotFound, format!("`{name}` has no address")))
        }
        Ok(addresses) => Ok(addresses),
        Err(LookupError::NotFound) => {
            Err(Trouble::new(Code::DnsNotFound, format!("there is no host `{name}`, or it has no address")))
        }
        Err(LookupError::Failed(why)) => {
            Err(Trouble::new(Code::Dns, format!("cannot look up `{name}`: {why}")))
        }
    }
}
