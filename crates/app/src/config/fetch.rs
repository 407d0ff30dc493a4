//! `[fetch]`: settings of the HTTP client.

use super::value::{ByteSize, Count, Number, Span};
use crawlway_content::NormalUrl;
use crawlway_fetch::{AllowedRange, FetcherConfig, Identity, Limits, MemoryBudget, Request, SsrfGuard};
use crawlway_store::rate_limiter::{self, MAX_MIN_DELAY, RateLimiter};
use serde::Deserialize;
use std::{
    num::{NonZeroU32, NonZeroUsize},
    sync::Arc,
    time::Duration,
};

const MAX_BODY: ByteSize = ByteSize(1 << 30);
const MIN_MEMORY: ByteSize = ByteSize(8 << 20);
const HEADERS: (ByteSize, ByteSize) = (ByteSize(8 << 10), ByteSize(1 << 20));

/// Settings of the HTTP client.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FetchSettings {
    user_agent: String,
    robots_agent: String,
    per_host_concurrency: Count,
    min_delay: Span,
    connect_timeout: Span,
    first_byte_timeout: Span,
    total_timeout: Span,
    max_headers: ByteSize,
    max_body: ByteSize,
    max_decoded: ByteSize,
    max_memory: ByteSize,
    max_redirects: Number,
    max_robots_wait: Span,
    allow: Vec<String>,
    extra_roots: Vec<String>,
}

impl FetchSettings {
    /// Request for a page with these settings.
    pub(crate) fn request(&self, url: NormalUrl) -> anyhow::Result<Request> {
        let size = |ByteSize(bytes): ByteSize| usize::try_from(bytes).unwrap_or(usize::MAX);
        Ok(Request {
            rate_limit: rate_limiter::RateLimits {
                concurrency: self.per_host_concurrency.0.get(),
                min_delay: self.min_delay.0,
            },
            identity: Arc::new(self.identity().map_err(anyhow::Error::msg)?),
            robots_max_wait: self.max_robots_wait.0,
            limits: Limits {
                connect: self.connect_timeout.0,
                first_byte: self.first_byte_timeout.0,
                total: self.total_timeout.0,
                header_bytes: size(self.max_headers),
                body_bytes: size(self.max_body),
                decoded_bytes: size(self.max_decoded),
                redirects: usize::try_from(self.max_redirects.0).unwrap_or(usize::MAX),
                ..Limits::default()
            },
            ..Request::new(url)
        })
    }

    /// Overrides concurrency and minimum delay.
    pub(crate) fn override_pace(
        &mut self,
        concurrency: Option<NonZeroUsize>,
        min_delay: Option<Duration>,
    ) -> Result<(), String> {
        if let Some(concurrency) = concurrency {
            let concurrency = u32::try_from(concurrency.get()).ok().and_then(NonZeroU32::new);
            self.per_host_concurrency =
                Count(concurrency.ok_or("`per_host_concurrency`: expected a smaller number")?);
        }
        if let Some(min_delay) = min_delay {
            self.min_delay = Span(min_delay);
        }
        self.check()
    }

    /// Setup of a fetcher with this rate limiter; `additional` are further exceptions of the SSRF guard.
    pub(crate) fn setup(
        &self,
        rate_limiter: Arc<dyn RateLimiter>,
        additional: &[AllowedRange],
    ) -> anyhow::Result<FetcherConfig> {
        let extra_roots = self.roots().map_err(anyhow::Error::msg)?;
        let (guard, memory) = (self.guard(additional)?, self.pages_memory());
        Ok(FetcherConfig { ssrf_guard: guard, extra_roots, memory, ..FetcherConfig::new(rate_limiter) })
    }

    /// SSRF guard with the exceptions of the settings and additional ones.
    pub(crate) fn guard(&self, additional: &[AllowedRange]) -> anyhow::Result<SsrfGuard> {
        let mut allowed = self.allowed().map_err(anyhow::Error::msg)?;
        allowed.extend_from_slice(additional);
        Ok(SsrfGuard::new(allowed))
    }

    /// Memory budget of all pages together.
    fn pages_memory(&self) -> MemoryBudget {
        MemoryBudget::new(usize::try_from(self.max_memory.0).unwrap_or(usize::MAX))
    }

    /// Further CA certificates.
    fn roots(&self) -> Result<Vec<Vec<u8>>, String> {
        let read = |path: &String| {
            let pem = std::fs::read(path).map_err(|error| format!("`{path}` cannot be read: {error}"))?;
            crawlway_tls::check_roots(&pem).map_err(|error| format!("`{path}`: {error}"))?;
            Ok(pem)
        };
        self.extra_roots.iter().map(read).collect()
    }

    fn identity(&self) -> Result<Identity, String> {
        let identity = match self.user_agent.as_str() {
            "" => Ok(Identity::default()),
            agent => Identity::user_agent(agent),
        };
        identity
            .and_then(|identity| identity.with_robots_token(&self.robots_agent))
            .map_err(|error| error.to_string())
    }

    fn allowed(&self) -> Result<Vec<AllowedRange>, String> {
        self.allow.iter().map(|range| range.parse().map_err(|error| format!("{error}"))).collect()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.identity()?;
        self.allowed()?;
        self.roots()?;
        if self.min_delay.0 > MAX_MIN_DELAY {
            return Err("`min_delay`: expected a duration of up to \"1d\"".to_owned());
        }
        let timeouts = [self.connect_timeout, self.first_byte_timeout, self.total_timeout];
        if timeouts.iter().any(|Span(time)| *time == Duration::ZERO || *time > Duration::from_secs(3600)) {
            return Err("`connect_timeout`, `first_byte_timeout` and `total_timeout`: expected a duration from \"1ms\" to \"1h\"".to_owned());
        }
        if self.max_headers < HEADERS.0 || self.max_headers > HEADERS.1 {
            return Err("`max_headers`: expected 8KiB to 1MiB".to_owned());
        }
        if self.max_body > MAX_BODY || self.max_decoded > MAX_BODY {
            return Err("`max_body` and `max_decoded`: expected up to 1GiB".to_owned());
        }
        if self.max_memory < MIN_MEMORY {
            return Err("`max_memory`: expected 8MiB or more".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::given;
    use crawlway_store_embedded::{EmbeddedRateLimiter, RateLimiterOptions};
    use std::sync::Arc;

    /// Self-signed CA certificate.
    const AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBezCCASGgAwIBAgIUXaIRj5iRX98W+okwgfO6un+hspswCgYIKoZIzj0EAwIw\n\
EjEQMA4GA1UEAwwHRXhhbXBsZTAgFw0yNjExMTYxMzIwMDBaGA8yMTI2MTAyMzEz\n\
MjAwMFowEjEQMA4GA1UEAwwHRXhhbXBsZTBZMBMGByqGSM49AgEGCCqGSM49AwEH\n\
A0IABNNy5bKuquAsKU08zvRNuhcVl+heADaS/m8pKCQYJ0AVvvk0NGhL9utOskYC\n\
It620BMFlI8GWjM0n9vMPJnRzZWjUzBRMB0GA1UdDgQWBBTNXb2L0iedlhMW8wf7\n\
G/OHBnwgkTAfBgNVHSMEGDAWgBTNXb2L0iedlhMW8wf7G/OHBnwgkTAPBgNVHRMB\n\
Af8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIHps9WIDbwzjTV8HM5dWGSdPo/7e\n\
wWMRLLed4/6YXG1RAiEAh53MalhvBTGfG28Gj+G8ugOrJwD36fWNsV0yt6O+VQM=\n\
-----END CERTIFICATE-----\\n";

    #[test]
    fn extra_roots_are_trusted() {
        const KEY: &str = "CRAWLWAY_FETCH__EXTRA_ROOTS";
        let path = std::env::temp_dir().join(format!("crawlway-extra-roots-{}.pem", std::process::id()));
        let file = path.to_str().unwrap();
        std::fs::write(&path, AUTHORITY).unwrap();
        let fetch = given(&[(KEY, file)]).unwrap().config.fetch;
        let rate_limiter = Arc::new(EmbeddedRateLimiter::open(RateLimiterOptions::default()).unwrap());
        let setup = fetch.setup(rate_limiter.clone(), &[]).unwrap();
        assert_eq!(setup.extra_roots, [AUTHORITY.as_bytes()]);
        crawlway_fetch::Fetcher::new(setup).unwrap();
        std::fs::write(&path, "nonsense").unwrap();
        let refused = given(&[(KEY, file)]).unwrap_err().to_string();
        assert!(refused.contains(KEY) && refused.contains("expected PEM"), "{refused}");
        std::fs::remove_file(&path).unwrap();
        assert!(given(&[(KEY, file)]).unwrap_err().to_string().contains("cannot be read"));
        assert!(given(&[]).unwrap().config.fetch.setup(rate_limiter, &[]).unwrap().extra_roots.is_empty());
    }
}
