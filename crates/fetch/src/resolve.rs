//! DNS: hosts file first, then name servers, IPv4 and IPv6 in parallel. Answers are cached for their TTL.

#[cfg(test)]
mod tests;

use crate::error::{FetchCode, HopError};
use hickory_resolver::{
    Hosts, ResolverBuilder, TokioResolver,
    config::ResolveHosts,
    lookup::Lookup,
    net::{NetError, runtime::TokioRuntimeProvider},
    proto::{
        op::Query,
        rr::{Name, RecordType},
    },
};
use std::{
    collections::HashMap,
    fmt::Debug,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};
use tokio::time::timeout;

/// Timeout of the other address family once one has addresses (RFC 8305): many name servers drop AAAA queries.
const OTHER_FAMILY_TIMEOUT: Duration = Duration::from_millis(50);
/// Timeout of the AAAA query once the A query said NXDOMAIN. The reverse does not hold: some servers answer NXDOMAIN for every
/// name without AAAA records.
const NXDOMAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// DNS resolver.
#[async_trait::async_trait]
pub trait Resolve: Debug + Send + Sync {
    /// Addresses of a host name.
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError>;
}

/// Error of a DNS look-up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// NXDOMAIN, or no A and AAAA records.
    #[error("no such name")]
    NotFound,
    /// No answer from the name servers.
    #[error("{0}")]
    Failed(String),
}

/// Resolver with the system's hosts file and name servers, and a cache.
#[derive(Debug)]
pub struct DnsResolver {
    hosts: Hosts,
    resolver: Option<TokioResolver>,
}

impl DnsResolver {
    /// Reads the system's configuration. Without name servers only `localhost` and the hosts file resolve.
    pub fn new() -> Self {
        let hosts = Hosts::from_system().unwrap_or_else(|error| {
            tracing::debug!(%error, "no hosts file");
            Hosts::default()
        });
        Self::of(hosts, TokioResolver::builder_tokio())
    }

    fn of(hosts: Hosts, builder: Result<ResolverBuilder<TokioRuntimeProvider>, NetError>) -> Self {
        let resolver = builder.and_then(|mut builder| {
            let options = builder.options_mut();
            options.cache_size = 10_000;
            options.attempts = 2;
            options.use_hosts_file = ResolveHosts::Never;
            builder.build()
        });
        if let Err(error) = &resolver {
            tracing::warn!(%error, "no name servers configured on this system");
        }
        Self { hosts, resolver: resolver.ok() }
    }

    /// Addresses in the hosts file. A name found there is not queried, not even for the other family.
    fn in_hosts_file(&self, name: &Name) -> Vec<IpAddr> {
        [RecordType::A, RecordType::AAAA]
            .into_iter()
            .filter_map(|family| self.hosts.lookup_static_host(&Query::query(name.clone(), family)))
            .flat_map(|lookup| addresses_in(&lookup))
            .collect()
    }
}

impl Default for DnsResolver {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait::async_trait]
impl Resolve for DnsResolver {
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        // RFC 6761: `localhost` is never queried.
        if name == "localhost" || name.ends_with(".localhost") {
            return Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]);
        }
        let name = Name::from_utf8(format!("{name}.")).map_err(|_| LookupError::NotFound)?;
        let local = self.in_hosts_file(&name);
        if !local.is_empty() {
            return Ok(local);
        }
        let Some(resolver) = &self.resolver else {
            return Err(LookupError::Failed("no name servers configured on this system".into()));
        };
        let v4 = async { family_addresses(resolver.ipv4_lookup(name.clone()).await) };
        let v6 = async { family_addresses(resolver.ipv6_lookup(name.clone()).await) };
        both_families(v4, v6).await
    }
}

/// Addresses of one family; empty if the name exists without any.
type Family = Result<Vec<IpAddr>, LookupError>;

fn family_addresses(answer: Result<Lookup, NetError>) -> Family {
    match answer {
        Ok(lookup) => Ok(addresses_in(&lookup)),
        Err(error) if error.is_nx_domain() => Err(LookupError::NotFound),
        Err(error) if error.is_no_records_found() => Ok(Vec::new()),
        Err(error) => Err(LookupError::Failed(error.to_string())),
    }
}

fn addresses_in(lookup: &Lookup) -> Vec<IpAddr> {
    lookup.answers().iter().filter_map(|record| record.data.ip_addr()).collect()
}

/// Addresses of both families. Fails only if neither has one.
async fn both_families(
    v4: impl Future<Output = Family>,
    v6: impl Future<Output = Family>,
) -> Result<Vec<IpAddr>, LookupError> {
    tokio::pin!(v4, v6);
    let timed_out = || Err(LookupError::Failed("timeout".into()));
    let (v4, v6) = tokio::select! {
        first = &mut v4 => {
            let other = match &first {
                Ok(addresses) if !addresses.is_empty() => timeout(OTHER_FAMILY_TIMEOUT, v6).await.unwrap_or_else(|_| timed_out()),
                Err(LookupError::NotFound) => {
                    timeout(NXDOMAIN_TIMEOUT, v6).await.unwrap_or(Err(LookupError::NotFound))
                }
                _ => v6.await,
            };
            (first, other)
        }
        first = &mut v6 => {
            let other = match &first {
                Ok(addresses) if !addresses.is_empty() => timeout(OTHER_FAMILY_TIMEOUT, v4).await.unwrap_or_else(|_| timed_out()),
                _ => v4.await,
            };
            (other, first)
        }
    };
    let addresses = interleaved(v4.as_deref().unwrap_or_default(), v6.as_deref().unwrap_or_default());
    if !addresses.is_empty() {
        return Ok(addresses);
    }
    match (v4, v6) {
        (Err(LookupError::Failed(error)), _) | (_, Err(LookupError::Failed(error))) => {
            Err(LookupError::Failed(error))
        }
        _ => Err(LookupError::NotFound),
    }
}

/// Addresses of both families alternately, since only the first few are dialled.
fn interleaved(v4: &[IpAddr], v6: &[IpAddr]) -> Vec<IpAddr> {
    let max = v4.len().max(v6.len());
    (0..max).flat_map(|at| [v4.get(at), v6.get(at)]).flatten().copied().collect()
}

/// Static table of host names.
#[derive(Debug, Default)]
pub struct StaticNames {
    /// Addresses by name; `*.` is a wildcard for all subdomains.
    pub names: HashMap<String, Vec<IpAddr>>,
}

#[async_trait::async_trait]
impl Resolve for StaticNames {
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

/// Addresses of a URL's host, which may be an IP literal.
pub(crate) async fn addresses(
    resolver: &dyn Resolve,
    host: &url::Host<&str>,
) -> Result<Vec<IpAddr>, HopError> {
    let name = match host {
        url::Host::Ipv4(ip) => return Ok(vec![IpAddr::V4(*ip)]),
        url::Host::Ipv6(ip) => return Ok(vec![IpAddr::V6(*ip)]),
        url::Host::Domain(name) => name.trim_end_matches('.'),
    };
    match resolver.lookup(name).await {
        Ok(addresses) if addresses.is_empty() => {
            Err(HopError::new(FetchCode::DnsNotFound, format!("`{name}` has no address")))
        }
        Ok(addresses) => Ok(addresses),
        Err(LookupError::NotFound) => Err(HopError::new(
            FetchCode::DnsNotFound,
            format!("host `{name}` not found, or it has no address"),
        )),
        Err(LookupError::Failed(error)) => {
            Err(HopError::new(FetchCode::Dns, format!("cannot resolve `{name}`: {error}")))
        }
    }
}
