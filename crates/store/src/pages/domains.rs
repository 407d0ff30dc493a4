//! A host and the domains above it.

pub(super) fn domains(host: &str) -> impl Iterator<Item = &str> {
    let host = host.trim_end_matches('.');
    let address = host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok();
    std::iter::successors(Some(host), move |domain| {
        if address { None } else { domain.split_once('.').map(|(_, above)| above) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_found_by_each_domain_above_it() {
        assert_eq!(
            domains("www.example.org.").collect::<Vec<_>>(),
            ["www.example.org", "example.org", "org"]
        );
        assert_eq!(domains("127.0.0.1").collect::<Vec<_>>(), ["127.0.0.1"]);
        assert_eq!(domains("[2001:db8::1]").collect::<Vec<_>>(), ["[2001:db8::1]"]);
        assert_eq!(domains("localhost").collect::<Vec<_>>(), ["localhost"]);
    }
}
