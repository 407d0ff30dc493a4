//! Names to addresses: from the hosts file, else from the name servers, both families side by side. Cached by the resolver for as long
//! as the answers may live.

#[cfg(test)]
mod tests;

use crate::error::{Code, Trouble};
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

/// Once one family has addresses, the other is waited for no longer than this (RFC 8305): many name servers drop the questions for it.
const OTHER_FAMILY: Duration = Duration::from_millis(50);
/// Once IPv4 says that there is no such name, IPv6 is waited for no longer than this. The other way round says little: some
/// servers deny names that they have no IPv6 for.
const NO_SUCH_NAME: Duration = Duration::from_secs(1);

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

/// The system's hosts file and name servers, with a cache.
#[derive(Debug)]
pub struct SystemResolver {
    hosts: Hosts,
    resolver: Option<TokioResolver>,
}

impl SystemResolver {
    /// Reads the system's settings. Without any, only literal addresses, `localhost` and the hosts file have an address.
    pub fn new() -> Self {
        let hosts = Hosts::from_system().unwrap_or_else(|error| {
            tracing::debug!(%error, "there is no hosts file");
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
            tracing::warn!(%error, "no name servers are known to this system");
        }
        Self { hosts, resolver: resolver.ok() }
    }

    /// The addresses that the hosts file has. Who stands there is not asked for elsewhere, not even for the other family.
    fn in_hosts_file(&self, name: &Name) -> Vec<IpAddr> {
        [RecordType::A, RecordType::AAAA]
            .into_iter()
            .filter_map(|family| self.hosts.lookup_static_host(&Query::query(name.clone(), family)))
            .flat_map(|found| addresses_in(&found))
            .collect()
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
        let name = Name::from_utf8(format!("{name}.")).map_err(|_| LookupError::NotFound)?;
        let local = self.in_hosts_file(&name);
        if !local.is_empty() {
            return Ok(local);
        }
        let Some(resolver) = &self.resolver else {
            return Err(LookupError::Failed("this system has no name servers".into()));
        };
        let v4 = async { of_family(resolver.ipv4_lookup(name.clone()).await) };
        let v6 = async { of_family(resolver.ipv6_lookup(name.clone()).await) };
        side_by_side(v4, v6).await
    }
}

/// The addresses of one family: none if there are none, not found if there is no such name.
type Family = Result<Vec<IpAddr>, LookupError>;

fn of_family(answer: Result<Lookup, NetError>) -> Family {
    match answer {
        Ok(found) => Ok(addresses_in(&found)),
        Err(error) if error.is_nx_domain() => Err(LookupError::NotFound),
        Err(error) if error.is_no_records_found() => Ok(Vec::new()),
        Err(error) => Err(LookupError::Failed(error.to_string())),
    }
}

fn addresses_in(lookup: &Lookup) -> Vec<IpAddr> {
    lookup.answers().iter().filter_map(|record| record.data.ip_addr()).collect()
}

/// What is there of both families. Fails only when neither has an address.
async fn side_by_side(
    v4: impl Future<Output = Family>,
    v6: impl Future<Output = Family>,
) -> Result<Vec<IpAddr>, LookupError> {
    tokio::pin!(v4, v6);
    let late = || Err(LookupError::Failed("no answer in time".into()));
    let (v4, v6) = tokio::select! {
        first = &mut v4 => {
            let other = match &first {
                Ok(found) if !found.is_empty() => timeout(OTHER_FAMILY, v6).await.unwrap_or_else(|_| late()),
                Err(LookupError::NotFound) => {
                    timeout(NO_SUCH_NAME, v6).await.unwrap_or(Err(LookupError::NotFound))
                }
                _ => v6.await,
            };
            (first, other)
        }
        first = &mut v6 => {
            let other = match &first {
                Ok(found) if !found.is_empty() => timeout(OTHER_FAMILY, v4).await.unwrap_or_else(|_| late()),
                _ => v4.await,
            };
            (other, first)
        }
    };
    let found = in_turn(v4.as_deref().unwrap_or_default(), v6.as_deref().unwrap_or_default());
    if !found.is_empty() {
        return Ok(found);
    }
    match (v4, v6) {
        (Err(LookupError::Failed(error)), _) | (_, Err(LookupError::Failed(error))) => {
            Err(LookupError::Failed(error))
        }
        _ => Err(LookupError::NotFound),
    }
}

/// One address of each family after the other, since only the first few are dialled.
fn in_turn(v4: &[IpAddr], v6: &[IpAddr]) -> Vec<IpAddr> {
    let longest = v4.len().max(v6.len());
    (0..longest).flat_map(|at| [v4.get(at), v6.get(at)]).flatten().copied().collect()
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
