//! SSRF protection: IP literals in every notation, names, redirects, and DNS rebinding.

use crate::{
    server::{Server, page},
    setup::{expect, fetcher, normal, request, setup, within},
};
use crawlway_fetch::{
    FetchCode, Fetcher, SsrfGuard,
    resolve::{LookupError, Resolve, StaticNames},
};
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1));
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Fetcher whose guard has these exceptions, with these names.
fn guarded(exceptions: &[&str], names: &[(&str, &[IpAddr])]) -> Fetcher {
    let mut setup = setup();
    setup.ssrf_guard =
        SsrfGuard::new(exceptions.iter().map(|range| range.parse().expect("a range")).collect());
    let names = names.iter().map(|(name, addresses)| ((*name).to_owned(), addresses.to_vec())).collect();
    setup.resolver = Arc::new(StaticNames { names });
    Fetcher::new(setup).expect("a fetcher")
}

/// Loopback only; the unit tests of the guard cover the other ranges, so that a failing test dials nothing outside.
#[tokio::test]
async fn ip_literals_in_every_notation() {
    let server = Server::by_path(|_| page("200 OK", "", b"secret")).await;
    let port = server.address.port();
    let fetcher = guarded(&[], &[]);
    for host in [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "017700000001",
        "0177.0.0.1",
        "127.0.0.1.",
        "①②⑦.⓪.⓪.①",
        "%31%32%37.0.0.1",
        "0",
        "0.0.0.0",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
    ] {
        let error = expect(
            within(&fetcher, &request(&format!("http://{host}:{port}/"))).await,
            FetchCode::GuardPrivateAddress,
        );
        assert!(error.detail.contains("not a public address"), "{host}: {error}");
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 0, "nothing was dialled");
}

#[tokio::test]
async fn names_with_private_addresses() {
    let server = Server::by_path(|_| page("200 OK", "", b"secret")).await;
    let port = server.address.port();
    let v6: IpAddr = "::ffff:127.0.0.1".parse().expect("an address");
    let fetcher =
        guarded(&[], &[("inside.test", &[FIRST]), ("mapped.test", &[v6]), ("both.test", &[v6, FIRST])]);
    for name in ["inside.test", "mapped.test", "both.test", "inside.test."] {
        let error = expect(
            within(&fetcher, &request(&format!("http://{name}:{port}/"))).await,
            FetchCode::GuardPrivateAddress,
        );
        assert!(error.detail.contains(name.trim_end_matches('.')), "{error}");
    }
    // `localhost` is resolved without a query.
    let mut setup = setup();
    setup.ssrf_guard = SsrfGuard::default();
    setup.resolver = Arc::new(crawlway_fetch::resolve::DnsResolver::new());
    let system = Fetcher::new(setup).expect("a fetcher");
    for name in ["localhost", "LOCALHOST", "deep.localhost"] {
        expect(
            within(&system, &request(&format!("http://{name}:{port}/"))).await,
            FetchCode::GuardPrivateAddress,
        );
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 0, "nothing was dialled");
}

#[tokio::test]
async fn of_several_addresses_only_the_allowed_are_dialled() {
    let forbidden = Server::on("127.0.0.1:0", |_| page("200 OK", "", b"forbidden")).await;
    let port = forbidden.address.port();
    let allowed = Server::on(&format!("127.0.0.2:{port}"), |_| page("200 OK", "", b"allowed")).await;
    let fetcher = guarded(&["127.0.0.2/32"], &[("mixed.test", &[FIRST, SECOND])]);
    let fetched = within(&fetcher, &request(&format!("http://mixed.test:{port}/"))).await.expect("a page");
    assert_eq!((&*fetched.body, fetched.address), (&b"allowed"[..], allowed.address));
    assert_eq!(forbidden.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_exception_is_for_its_ports_only() {
    let server = Server::by_path(|_| page("200 OK", "", b"in")).await;
    let port = server.address.port();
    let other = Server::by_path(|_| page("200 OK", "", b"in")).await;
    let fetcher = guarded(&[&format!("127.0.0.1/32:{port}")], &[]);
    assert_eq!(&*within(&fetcher, &request(&server.url("/"))).await.expect("a page").body, b"in");
    expect(within(&fetcher, &request(&other.url("/"))).await, FetchCode::GuardPrivateAddress);
    assert_eq!(other.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_redirect_is_checked_as_the_first_request_is() {
    let inside = Server::on("127.0.0.2:0", |_| page("200 OK", "", b"secret")).await;
    let port = inside.address.port();
    for target in [
        format!("http://127.0.0.2:{port}/latest/meta-data"),
        format!("http://0x7f.2:{port}/"),
        format!("http://[::ffff:127.0.0.2]:{port}/"),
        format!("http://inside.test:{port}/"),
    ] {
        let location = target.clone();
        let server = Server::by_path(move |path| match path {
            "/robots.txt" => page("404 Not Found", "", b""),
            _ => page("302 Found", &format!("location: {location}\r\n"), b""),
        })
        .await;
        for robots in [false, true] {
            let fetcher = guarded(&["127.0.0.1/32"], &[("inside.test", &[SECOND])]);
            let mut request = request(&server.url("/"));
            request.obey_robots = robots;
            let error = expect(within(&fetcher, &request).await, FetchCode::GuardPrivateAddress);
            assert_eq!(error.url, normal(&target).as_str());
        }
    }
    assert_eq!(inside.connections.load(Ordering::SeqCst), 0, "nothing was dialled");
}

/// Resolver with DNS rebinding: one address first, and another one afterwards.
#[derive(Debug, Default)]
struct Rebinding {
    lookups: AtomicUsize,
}

#[async_trait::async_trait]
impl Resolve for Rebinding {
    async fn lookup(&self, _name: &str) -> Result<Vec<IpAddr>, LookupError> {
        let first = self.lookups.fetch_add(1, Ordering::SeqCst) == 0;
        Ok(vec![if first { FIRST } else { SECOND }])
    }
}

#[tokio::test]
async fn dns_rebinding() {
    // Each connection is closed after its response, so that the next request needs a new one.
    let closing =
        |body: &'static str| move |_: &str| page("200 OK", "connection: close\r\n", body.as_bytes());
    let public = Server::on("127.0.0.1:0", closing("public")).await;
    let port = public.address.port();
    let private = Server::on(&format!("127.0.0.2:{port}"), closing("private")).await;
    let names = Arc::new(Rebinding::default());
    let mut setup = setup();
    setup.ssrf_guard = SsrfGuard::new(vec!["127.0.0.1/32".parse().expect("a range")]);
    setup.resolver = names.clone();
    let fetcher = Fetcher::new(setup).expect("a fetcher");
    let request = request(&format!("http://rebind.test:{port}/"));
    // One look-up serves both the check and the connect; a second one would return the private address.
    let fetched = within(&fetcher, &request).await.expect("a page");
    assert_eq!((&*fetched.body, fetched.address), (&b"public"[..], public.address));
    assert_eq!(names.lookups.load(Ordering::SeqCst), 1, "one look-up per connection");
    expect(within(&fetcher, &request).await, FetchCode::GuardPrivateAddress);
    assert_eq!(names.lookups.load(Ordering::SeqCst), 2);
    assert_eq!(private.connections.load(Ordering::SeqCst), 0);
}

/// The test below runs this one again, with proxies in its environment.
#[tokio::test]
async fn a_page_is_fetched_directly() {
    let server = Server::by_path(|_| page("200 OK", "", b"direct")).await;
    let fetched = within(&fetcher(), &request(&server.url("/"))).await.expect("a page");
    assert_eq!((&*fetched.body, fetched.address), (&b"direct"[..], server.address));
}

#[tokio::test]
async fn proxies_in_the_environment_are_ignored() {
    let proxy = Server::by_path(|_| page("200 OK", "", b"through a proxy")).await;
    let url = format!("http://{}", proxy.address);
    let mut test = std::process::Command::new(std::env::current_exe().expect("this test"));
    test.args(["--exact", "ssrf::a_page_is_fetched_directly"]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        test.env(name, &url);
    }
    test.env_remove("no_proxy").env_remove("NO_PROXY");
    let output =
        tokio::task::spawn_blocking(move || test.output()).await.expect("no panic").expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    assert_eq!(proxy.connections.load(Ordering::SeqCst), 0, "no request to the proxy");
}
