//! Rate limit and concurrency limit per stored token, in this process.

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// Number of tokens above which those that are idle are forgotten.
const MAX_IDLE: usize = 10_000;

/// Limits of each stored token; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenLimits {
    /// Requests per second in the long run.
    pub rate: u32,
    /// Requests at once after a pause: the capacity of the token bucket.
    pub burst: u32,
    /// Requests in progress.
    pub concurrency: u32,
}

impl Default for TokenLimits {
    /// 50 requests per second, bursts of 100, 32 at a time.
    fn default() -> Self {
        Self { rate: 50, burst: 100, concurrency: 32 }
    }
}

/// State of the limits. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct TokenLimiter {
    limits: TokenLimits,
    usages: Arc<Mutex<HashMap<String, Usage>>>,
}

/// Use of one token: its token bucket and its requests in progress.
#[derive(Debug)]
struct Usage {
    /// Requests that the bucket has left, as of `at`.
    left: f64,
    at: Instant,
    running: u32,
}

/// Request that a limit refuses.
#[derive(Debug, PartialEq)]
pub(crate) enum LimitExceeded {
    /// The bucket is empty; it has a request again after this time.
    Rate(Duration),
    /// As many requests are in progress as allowed.
    Concurrency,
}

/// Admitted request. Dropping it ends the request.
#[derive(Debug)]
pub(crate) struct Admission {
    limiter: TokenLimiter,
    id: String,
}

impl TokenLimiter {
    pub(crate) fn new(limits: TokenLimits) -> Self {
        Self { limits, usages: Arc::default() }
    }

    pub(crate) fn limits(&self) -> TokenLimits {
        self.limits
    }

    /// Admits a request of the token with this id at this time.
    pub(crate) fn admit(&self, id: &str, now: Instant) -> Result<Admission, LimitExceeded> {
        let TokenLimits { rate, burst, concurrency } = self.limits;
        let (rate, burst) = (f64::from(rate), f64::from(burst.max(1)));
        let mut usages = self.usages.lock();
        if usages.len() >= MAX_IDLE {
            usages.retain(|_, usage| usage.running > 0 || usage.refilled(rate, burst, now) < burst);
        }
        let usage = usages.entry(id.to_owned()).or_insert(Usage { left: burst, at: now, running: 0 });
        if concurrency > 0 && usage.running >= concurrency {
            return Err(LimitExceeded::Concurrency);
        }
        if rate > 0.0 {
            usage.left = usage.refilled(rate, burst, now);
            usage.at = now;
            if usage.left < 1.0 {
                return Err(LimitExceeded::Rate(Duration::from_secs_f64((1.0 - usage.left) / rate)));
            }
            usage.left -= 1.0;
        }
        usage.running += 1;
        Ok(Admission { limiter: self.clone(), id: id.to_owned() })
    }
}

impl Usage {
    fn refilled(&self, rate: f64, burst: f64, now: Instant) -> f64 {
        let refilled = self.left + now.saturating_duration_since(self.at).as_secs_f64() * rate;
        refilled.min(burst)
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if let Some(usage) = self.limiter.usages.lock().get_mut(&self.id) {
            usage.running = usage.running.saturating_sub(1);
        }
    }
}

/// Body of an admitted request, which is in progress until the body ends.
pub(crate) struct AdmittedBody {
    body: Body,
    _admission: Admission,
}

impl AdmittedBody {
    pub(crate) fn wrap(body: Body, admission: Admission) -> Body {
        Body::new(Self { body, _admission: admission })
    }
}

impl HttpBody for AdmittedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_refills_up_to_its_burst() {
        let limiter = TokenLimiter::new(TokenLimits { rate: 10, burst: 2, concurrency: 0 });
        let start = Instant::now();
        let admit = |ms: u64| limiter.admit("t1", start + Duration::from_millis(ms)).map(drop);
        assert_eq!((admit(0), admit(0)), (Ok(()), Ok(())));
        assert_eq!(admit(0), Err(LimitExceeded::Rate(Duration::from_millis(100))));
        assert_eq!(admit(50), Err(LimitExceeded::Rate(Duration::from_millis(50))));
        assert_eq!(admit(100), Ok(()));
        assert_eq!((admit(60_000), admit(60_000)), (Ok(()), Ok(())));
        assert!(admit(60_000).is_err(), "a long pause allows no more than a burst");
        assert!(limiter.admit("t2", start).is_ok(), "each token has its own bucket");
    }

    #[test]
    fn a_request_is_in_progress_until_it_is_dropped() {
        let limiter = TokenLimiter::new(TokenLimits { rate: 0, burst: 0, concurrency: 2 });
        let now = Instant::now();
        let first = limiter.admit("t1", now).unwrap();
        let _second = limiter.admit("t1", now).unwrap();
        assert_eq!(limiter.admit("t1", now).unwrap_err(), LimitExceeded::Concurrency);
        assert!(limiter.admit("t2", now).is_ok());
        drop(first);
        assert!(limiter.admit("t1", now).is_ok());
    }

    #[test]
    fn idle_tokens_are_forgotten_and_others_not() {
        let limiter = TokenLimiter::new(TokenLimits { rate: 1, burst: 1, concurrency: 1 });
        let now = Instant::now();
        let _running = limiter.admit("running", now).unwrap();
        for number in 0..2 * MAX_IDLE {
            let at = now + Duration::from_secs(2 * number as u64);
            drop(limiter.admit(&format!("t{number}"), at));
        }
        let late = now + Duration::from_secs(5 * MAX_IDLE as u64);
        assert_eq!(limiter.admit("running", late).unwrap_err(), LimitExceeded::Concurrency);
        assert!(limiter.usages.lock().len() <= MAX_IDLE + 1);
    }
}
