//! `[rate_limit]`: backend of the rate limiter, back-off and circuit breaker.

use super::value::{Number, Span};
use crawlway_store::rate_limiter::{BackoffPolicy, CircuitBreakerPolicy, RateLimitPolicy};
use serde::Deserialize;
use std::time::Duration;

/// Settings of the rate limiter.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateLimitSettings {
    pub(crate) kind: RateLimitKind,
    backoff_delay: Span,
    max_backoff_delay: Span,
    breaker_failures: Number,
    breaker_cooldown: Span,
    max_defer: Span,
    lease: Span,
}

/// Backend of the rate limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RateLimitKind {
    Embedded,
    Redis,
    #[serde(alias = "postgres")]
    Postgresql,
}

impl RateLimitSettings {
    /// Back-off and circuit breaker.
    pub(crate) fn policy(&self) -> RateLimitPolicy {
        let breaker = CircuitBreakerPolicy {
            failure_threshold: self.breaker_failures.0,
            cooldown: self.breaker_cooldown.0,
            max: CircuitBreakerPolicy::default().max.max(self.breaker_cooldown.0),
        };
        RateLimitPolicy {
            backoff: BackoffPolicy {
                first: self.backoff_delay.0,
                // Never shorter than the first delay, so that either can be set alone.
                max: self.max_backoff_delay.0.max(self.backoff_delay.0),
                ..BackoffPolicy::default()
            },
            breaker: (self.breaker_failures.0 > 0).then_some(breaker),
            max_defer: self.max_defer.0,
            lease: self.lease.0,
            ..RateLimitPolicy::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.breaker_cooldown.0 == Duration::ZERO {
            return Err("expected a duration of at least \"1ms\"".to_owned());
        }
        self.policy().check().map_err(|error| error.to_string())
    }
}
