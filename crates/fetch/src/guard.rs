//! SSRF guard: only public addresses may be dialled. It checks every address just before its socket is opened.

use crate::error::{FetchCode, HopError};
use ipnet::IpNet;
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ops::RangeInclusive,
};

/// Exception of the SSRF guard: a range of addresses and their ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedRange {
    /// Range of addresses.
    pub range: IpNet,
    /// Ranges of ports; empty means all ports.
    pub ports: Vec<RangeInclusive<u16>>,
}

/// Syntax error in an exception of the SSRF guard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an address range; write one such as `127.0.0.1/32:8080`, `127.0.0.1/32:8000-8100`, `10.0.0.0/8` or `[::1/128]:80,443`"
)]
pub struct AllowedRangeError(String);

impl std::str::FromStr for AllowedRange {
    type Err = AllowedRangeError;

    fn from_str(text: &str) -> Result<Self, AllowedRangeError> {
        let wrong = || AllowedRangeError(text.to_owned());
        let (range, ports) = match text.strip_prefix('[') {
            Some(rest) => {
                let (range, after) = rest.split_once(']').ok_or_else(wrong)?;
                (range, after.strip_prefix(':').or(after.is_empty().then_some("")).ok_or_else(wrong)?)
            }
            None if text.matches(':').count() > 1 => (text, ""),
            None => text.split_once(':').unwrap_or((text, "")),
        };
        let range = match range.parse::<IpNet>() {
            Ok(range) => range,
            Err(_) => IpNet::from(range.parse::<IpAddr>().map_err(|_| wrong())?),
        };
        let ports = match ports {
            "" => Vec::new(),
            ports => {
                ports.split(',').map(|ports| port_range(ports).ok_or_else(wrong)).collect::<Result<_, _>>()?
            }
        };
        Ok(Self { range, ports })
    }
}

/// Parses `80` or `8000-8100`.
fn port_range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then_some(first..=last)
}

/// SSRF guard: allows public addresses with usual ports, and the exceptions.
#[derive(Debug, Clone, Default)]
pub struct SsrfGuard {
    allowed: Vec<AllowedRange>,
}

impl SsrfGuard {
    /// Guard with these exceptions.
    pub fn new(allowed: Vec<AllowedRange>) -> Self {
        Self { allowed }
    }

    /// Whether this address may be dialled.
    pub fn allows(&self, address: SocketAddr) -> bool {
        let ip = canonical(address.ip());
        let excepted = self.allowed.iter().any(|allowed| {
            (allowed.range.contains(&ip) || allowed.range.contains(&address.ip()))
                && (allowed.ports.is_empty()
                    || allowed.ports.iter().any(|ports| ports.contains(&address.port())))
        });
        excepted || (is_public(ip) && !is_forbidden_port(address.port()))
    }

    pub(crate) fn check(&self, address: SocketAddr, host: &str) -> Result<(), HopError> {
        if self.allows(address) {
            return Ok(());
        }
        if is_public(canonical(address.ip())) {
            return Err(HopError::new(
                FetchCode::GuardPort,
                format!("port {} of `{host}` belongs to another protocol than HTTP", address.port()),
            ));
        }
        let range = match address {
            SocketAddr::V4(v4) => format!("{}/32:{}", v4.ip(), v4.port()),
            SocketAddr::V6(v6) => format!("[{}/128]:{}", v6.ip(), v6.port()),
        };
        Err(HopError::new(
            FetchCode::GuardPrivateAddress,
            format!(
                "`{host}` is at {}, which is not a public address; to allow it, use `--allow {range}` or the setting `fetch.allow`",
                address.ip()
            ),
        ))
    }
}

/// IPv4 address embedded in an IPv6 address: mapped, translated (NAT64), or tunnelled (6to4).
fn canonical(ip: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = ip else { return ip };
    embedded_v4(v6).map_or(ip, IpAddr::V4)
}

fn embedded_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let bytes = ip.octets();
    let v4 = |at: usize| Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
    match ip.segments() {
        // IPv4-mapped ::ffff:a.b.c.d, and the deprecated IPv4-compatible ::a.b.c.d.
        [0, 0, 0, 0, 0, 0xffff, ..] => Some(v4(12)),
        [0, 0, 0, 0, 0, 0, high, low] if (high, low) != (0, 0) && (high, low) != (0, 1) => Some(v4(12)),
        // IPv4-translated ::ffff:0:a.b.c.d.
        [0, 0, 0, 0, 0xffff, 0, ..] => Some(v4(12)),
        // NAT64 64:ff9b::/96. The local-use 64:ff9b:1::/48 is refused as a whole: only its gateway knows where in it the IPv4
        // address is (RFC 8215).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(v4(12)),
        // 6to4: 2002:a.b.c.d::/48.
        [0x2002, ..] => Some(v4(2)),
        _ => None,
    }
}

/// Whether the address is globally routable. Unassigned ranges are not.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, d] = ip.octets();
    let special = matches!(
        (a, b, c, d),
        (0 | 10 | 127, ..)              // this network, private, loopback
            | (100, 64..=127, ..)       // carrier-grade NAT
            | (169, 254, ..)            // link-local, with the cloud metadata services
            | (172, 16..=31, ..)        // private
            | (192, 0, 0, _)            // protocol assignments
            | (192, 0, 2, _)            // documentation
            | (192, 31, 196, _)         // AS112
            | (192, 52, 193, _)         // AMT
            | (192, 88, 99, _)          // 6to4 relays
            | (192, 168, ..)            // private
            | (192, 175, 48, _)         // AS112
            | (198, 18..=19, ..)        // benchmarks
            | (198, 51, 100, _)         // documentation
            | (203, 0, 113, _)          // documentation
            | (224..=255, ..) // multicast, reserved, broadcast
    );
    // Azure's metadata and DNS service has an address in a public range.
    !special && ip != Ipv4Addr::new(168, 63, 129, 16)
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let segments = ip.segments();
    // Global unicast is 2000::/3; inside it, some ranges are special.
    let global = segments[0] & 0xe000 == 0x2000;
    let special = match segments {
        [0x2001, second, ..] if second < 0x0200 => true, // Teredo, ORCHID, benchmarks, protocol assignments
        [0x2001, 0x0db8, ..] => true,                    // documentation
        [0x3fff, second, ..] if second < 0x1000 => true, // documentation
        [0x2002, ..] => true,                            // 6to4, checked by its embedded address
        _ => false,
    };
    global && !special
}

/// Whether the port belongs to another protocol, whose server an HTTP request could abuse.
fn is_forbidden_port(port: u16) -> bool {
    port < 1024 && !matches!(port, 80 | 443 | 591 | 593 | 832 | 981)
        || matches!(
            port,
            1719 | 1720
                | 1723
                | 2049
                | 2375
                | 2376
                | 3306
                | 3659
                | 4045
                | 5060
                | 5061
                | 5432
                | 5672
                | 6000
                | 6379
                | 6566
                | 6665..=6669 | 6697 | 9200 | 9300 | 10080 | 11211 | 27017
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(address: &str) -> bool {
        SsrfGuard::default().allows(SocketAddr::new(address.parse().unwrap(), 443))
    }

    #[test]
    fn public_addresses_pass() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
        ] {
            assert!(allowed(address), "{address}");
        }
    }

    #[test]
    fn every_other_address_is_refused() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "2001:10::1",
            "3fff::1",
            "100::1",
            "4000::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a00:1",
            "64:ff9b:1::808:808",
            "64:ff9b:1:808:8:800::",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::1",
            "2002:c0a8:101::",
        ] {
            assert!(!allowed(address), "{address}");
        }
    }

    #[test]
    fn exceptions_hold_for_exactly_their_range_and_ports() {
        let guard = SsrfGuard::new(vec![
            "127.0.0.1/32:8080".parse().unwrap(),
            "[::1]:80,443".parse().unwrap(),
            "10.1.0.0/16".parse().unwrap(),
        ]);
        let allows = |text: &str| guard.allows(text.parse().unwrap());
        assert!(
            allows("127.0.0.1:8080")
                && allows("[::ffff:127.0.0.1]:8080")
                && allows("[::1]:443")
                && allows("10.1.2.3:22")
        );
        assert!(
            !allows("127.0.0.1:8081")
                && !allows("127.0.0.2:8080")
                && !allows("[::1]:8080")
                && !allows("10.2.0.1:80")
        );
    }

    #[test]
    fn an_exception_takes_a_range_of_ports() {
        let guard = SsrfGuard::new(vec!["127.0.0.1/32:8000-8100,9000".parse().unwrap()]);
        let allows = |port: u16| guard.allows(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
        assert!(allows(8000) && allows(8050) && allows(8100) && allows(9000));
        assert!(!allows(7999) && !allows(8101) && !allows(9001));
    }

    #[test]
    fn a_private_address_is_refused_with_the_flag_and_the_setting_that_allow_it() {
        for (address, flag) in
            [("127.0.0.1:8080", "--allow 127.0.0.1/32:8080"), ("[::1]:80", "--allow [::1/128]:80")]
        {
            let address: SocketAddr = address.parse().unwrap();
            let refused = SsrfGuard::default().check(address, "localhost").unwrap_err().detail;
            assert!(refused.contains(flag) && refused.contains("`fetch.allow`"), "{refused}");
            let range = flag.trim_start_matches("--allow ").parse().unwrap();
            assert!(SsrfGuard::new(vec![range]).allows(address), "what the message names is enough");
        }
    }

    #[test]
    fn ports_of_other_protocols_are_refused() {
        let guard = SsrfGuard::default();
        assert!(guard.allows("1.1.1.1:80".parse().unwrap()) && guard.allows("1.1.1.1:8443".parse().unwrap()));
        assert!(
            !guard.allows("1.1.1.1:25".parse().unwrap()) && !guard.allows("1.1.1.1:6379".parse().unwrap())
        );
    }

    #[test]
    fn a_bad_exception_is_named() {
        for bad in [
            "",
            "nonsense",
            "127.0.0.1/33",
            "127.0.0.1:x",
            "[::1",
            "10.0.0.0/8:99999",
            "10.0.0.0/8:90-80",
            "10.0.0.0/8:80-",
        ] {
            let text = bad.parse::<AllowedRange>().unwrap_err().to_string();
            assert!(text.contains("is not an address range"), "{text}");
        }
    }
}
