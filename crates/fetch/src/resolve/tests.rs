//! Name servers that answer one address family only, or none.

use super::*;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use std::net::{Ipv6Addr, SocketAddr};
use tokio::net::UdpSocket;

/// Well below the timeout of a dropped query.
const SHORT_TIMEOUT: Duration = Duration::from_secs(4);
const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7));

/// Reply of a name server to the queries of one family.
#[derive(Clone, Copy)]
enum Reply {
    Address,
    NoRecords,
    NxDomain,
    Drop,
}

/// Name server on loopback with the same reply for every name.
async fn name_server(a: Reply, aaaa: Reply) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut question = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut question).await {
            // The question ends four bytes after the root label; EDNS follows.
            let name_end = 12 + question[12..length].iter().position(|&octet| octet == 0).unwrap() + 1;
            let kind = question[name_end + 1];
            let reply = if kind == 1 { a } else { aaaa };
            let code = if matches!(reply, Reply::NxDomain) { 3 } else { 0 };
            let mut answer = question[..name_end + 4].to_vec();
            answer[2..12].copy_from_slice(&[0x81, 0x80 | code, 0, 1, 0, 0, 0, 0, 0, 0]);
            match reply {
                Reply::Drop => continue,
                Reply::NoRecords | Reply::NxDomain => {}
                Reply::Address => {
                    answer[7] = 1;
                    answer.extend([0xc0, 0x0c, 0, kind, 0, 1, 0, 0, 0, 60, 0]);
                    match (kind, V4, V6) {
                        (1, IpAddr::V4(ip), _) => answer.extend([&[4][..], &ip.octets()].concat()),
                        (_, _, IpAddr::V6(ip)) => answer.extend([&[16][..], &ip.octets()].concat()),
                        _ => unreachable!(),
                    }
                }
            }
            let _ = socket.send_to(&answer, from).await;
        }
    });
    address
}

fn resolver(server: SocketAddr, hosts_file: &str) -> DnsResolver {
    let mut connection = ConnectionConfig::udp();
    connection.port = server.port();
    let server = NameServerConfig::new(server.ip(), true, vec![connection]);
    let config = ResolverConfig::from_name_servers(vec![server]);
    let mut hosts = Hosts::default();
    hosts.read_hosts_conf(hosts_file.as_bytes()).unwrap();
    DnsResolver::of(hosts, Ok(TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())))
}

async fn lookup(resolver: &DnsResolver, name: &str) -> Result<Vec<IpAddr>, LookupError> {
    timeout(SHORT_TIMEOUT, resolver.lookup(name)).await.expect("no wait for the dropped family")
}

#[tokio::test]
async fn a_host_resolves_although_queries_of_its_other_family_are_dropped() {
    for (a, aaaa, address) in [
        (Reply::Address, Reply::Drop, V4),
        (Reply::Drop, Reply::Address, V6),
        (Reply::Address, Reply::NoRecords, V4),
        (Reply::NoRecords, Reply::Address, V6),
        (Reply::Address, Reply::NxDomain, V4),
    ] {
        let resolver = resolver(name_server(a, aaaa).await, "");
        for _ in 0..2 {
            assert_eq!(lookup(&resolver, "www.example.org").await, Ok(vec![address]));
        }
    }
}

#[tokio::test]
async fn both_families_resolve() {
    let resolver = resolver(name_server(Reply::Address, Reply::Address).await, "");
    // On a busy machine one reply may be late; the cache has both in the end.
    for _ in 0..50 {
        if lookup(&resolver, "www.example.org").await == Ok(vec![V4, V6]) {
            return;
        }
    }
    panic!("one family is missing");
}

#[tokio::test]
async fn nxdomain_differs_from_a_timeout() {
    for (a, aaaa) in [
        (Reply::NxDomain, Reply::NxDomain),
        (Reply::NxDomain, Reply::Drop),
        (Reply::NoRecords, Reply::NoRecords),
    ] {
        let resolver = resolver(name_server(a, aaaa).await, "");
        assert_eq!(lookup(&resolver, "www.example.org").await, Err(LookupError::NotFound));
    }
    let unknown = both_families(
        std::future::ready(Ok(Vec::new())),
        std::future::ready(Err(LookupError::Failed("timed out".into()))),
    );
    assert_eq!(unknown.await, Err(LookupError::Failed("timed out".into())));
}

#[tokio::test]
async fn names_in_the_hosts_file_resolve_without_name_servers() {
    let hosts = "192.0.2.7 intranet\n2001:db8::7 six.example.org\n# 192.0.2.8 not.this\n";
    let resolver = resolver(name_server(Reply::Drop, Reply::Drop).await, hosts);
    assert_eq!(lookup(&resolver, "intranet").await, Ok(vec![V4]));
    assert_eq!(lookup(&resolver, "six.example.org").await, Ok(vec![V6]));
    let without = DnsResolver { resolver: None, ..resolver };
    assert_eq!(lookup(&without, "intranet").await, Ok(vec![V4]));
}

#[test]
fn addresses_of_both_families_alternate() {
    let others = [V4, IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::BROADCAST)];
    assert_eq!(interleaved(&others, &[V6]), [V4, V6, others[1], others[2]]);
    assert_eq!(interleaved(&[], &[V6]), [V6]);
}
