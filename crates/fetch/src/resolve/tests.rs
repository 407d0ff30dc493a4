//! Name servers that answer for one family only, or for nobody.

use super::*;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use std::net::{Ipv6Addr, SocketAddr};
use tokio::net::UdpSocket;

/// Well below what a question that is dropped takes.
const SOON: Duration = Duration::from_secs(4);
const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7));

/// What a name server does with a question for one family.
#[derive(Clone, Copy)]
enum Does {
    Answer,
    SayNone,
    DenyTheName,
    Drop,
}

/// A name server on loopback that knows every name.
async fn name_server(a: Does, aaaa: Does) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut question = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut question).await {
            // The question ends four bytes after the root label; what follows it is EDNS.
            let name_end = 12 + question[12..length].iter().position(|&octet| octet == 0).unwrap() + 1;
            let kind = question[name_end + 1];
            let does = if kind == 1 { a } else { aaaa };
            let code = if matches!(does, Does::DenyTheName) { 3 } else { 0 };
            let mut answer = question[..name_end + 4].to_vec();
            answer[2..12].copy_from_slice(&[0x81, 0x80 | code, 0, 1, 0, 0, 0, 0, 0, 0]);
            match does {
                Does::Drop => continue,
                Does::SayNone | Does::DenyTheName => {}
                Does::Answer => {
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

fn resolver(server: SocketAddr, hosts_file: &str) -> SystemResolver {
    let mut connection = ConnectionConfig::udp();
    connection.port = server.port();
    let server = NameServerConfig::new(server.ip(), true, vec![connection]);
    let config = ResolverConfig::from_name_servers(vec![server]);
    let mut hosts = Hosts::default();
    hosts.read_hosts_conf(hosts_file.as_bytes()).unwrap();
    SystemResolver::of(hosts, Ok(TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())))
}

async fn soon(resolver: &SystemResolver, name: &str) -> Result<Vec<IpAddr>, LookupError> {
    timeout(SOON, resolver.lookup(name)).await.expect("nobody waits for the family that is not answered for")
}

#[tokio::test]
async fn a_host_is_found_although_questions_for_its_other_family_are_dropped() {
    for (a, aaaa, found) in [
        (Does::Answer, Does::Drop, V4),
        (Does::Drop, Does::Answer, V6),
        (Does::Answer, Does::SayNone, V4),
        (Does::SayNone, Does::Answer, V6),
        (Does::Answer, Does::DenyTheName, V4),
    ] {
        let resolver = resolver(name_server(a, aaaa).await, "");
        for _ in 0..2 {
            assert_eq!(soon(&resolver, "www.example.org").await, Ok(vec![found]));
        }
    }
}

#[tokio::test]
async fn both_families_are_there_when_both_are_answered_for() {
    let resolver = resolver(name_server(Does::Answer, Does::Answer).await, "");
    // On a busy machine an answer may be late; in the end both are known.
    for _ in 0..50 {
        if soon(&resolver, "www.example.org").await == Ok(vec![V4, V6]) {
            return;
        }
    }
    panic!("one family is missing");
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_told_from_one_that_nobody_answers_for() {
    for (a, aaaa) in [
        (Does::DenyTheName, Does::DenyTheName),
        (Does::DenyTheName, Does::Drop),
        (Does::SayNone, Does::SayNone),
    ] {
        let resolver = resolver(name_server(a, aaaa).await, "");
        assert_eq!(soon(&resolver, "www.example.org").await, Err(LookupError::NotFound));
    }
    let unknown = side_by_side(
        std::future::ready(Ok(Vec::new())),
        std::future::ready(Err(LookupError::Failed("timed out".into()))),
    );
    assert_eq!(unknown.await, Err(LookupError::Failed("timed out".into())));
}

#[tokio::test]
async fn names_in_the_hosts_file_work_while_the_name_servers_are_down() {
    let hosts = "192.0.2.7 intranet\n2001:db8::7 six.example.org\n# 192.0.2.8 not.this\n";
    let resolver = resolver(name_server(Does::Drop, Does::Drop).await, hosts);
    assert_eq!(soon(&resolver, "intranet").await, Ok(vec![V4]));
    assert_eq!(soon(&resolver, "six.example.org").await, Ok(vec![V6]));
    let without = SystemResolver { resolver: None, ..resolver };
    assert_eq!(soon(&without, "intranet").await, Ok(vec![V4]));
}

#[test]
fn addresses_of_both_families_are_tried_in_turn() {
    let others = [V4, IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::BROADCAST)];
    assert_eq!(in_turn(&others, &[V6]), [V4, V6, others[1], others[2]]);
    assert_eq!(in_turn(&[], &[V6]), [V6]);
}
