//! `[gate]`: how long hosts are left alone that do not want us, or do not answer.

use super::value::{Number, Span};
use crawlway_store::gate::{BackOff, Breaker, Policy};
use serde::Deserialize;
use std::time::Duration;

/// How long hosts are left alone.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GateSettings {
    pub(crate) kind: GateKind,
    back_off: Span,
    longest_back_off: Span,
    breaker_failures: Number,
    breaker_cool_down: Span,
}

/// Where it is kept who was asked when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GateKind {
    Embedded,
    Redis,
    #[serde(alias = "postgres")]
    Postgresql,
}

impl GateSettings {
    /// The gate's policy.
    pub(crate) fn policy(&self) -> Policy {
        let breaker = Breaker {
            failures: self.breaker_failures.0,
            cool_down: self.breaker_cool_down.0,
            most: Breaker::default().most.max(self.breaker_cool_down.0),
        };
        Policy {
            back_off: BackOff {
                first: self.back_off.0,
                // The longest is never shorter than the first, so that either can be set alone.
                most: self.longest_back_off.0.max(self.back_off.0),
                ..BackOff::default()
            },
            breaker: (self.breaker_failures.0 > 0).then_some(breaker),
            ..Policy::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.breaker_cool_down.0 == Duration::ZERO {
            return Err("expected a duration of at least \"1ms\"".to_owned());
        }
        self.policy().check().map_err(|error| error.to_string())
    }
}
