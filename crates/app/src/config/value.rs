//! Types of settings that TOML lacks. Their errors contain the expected form.

use crate::quantity::{DURATION_SYNTAX, SIZE, parse_duration, parse_size};
use serde::Deserialize;
use std::{num::NonZeroU32, time::Duration};

/// Size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "toml::Value")]
pub(crate) struct ByteSize(pub(crate) u64);

/// Duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "toml::Value")]
pub(crate) struct Span(pub(crate) Duration);

/// Retention period; `None` for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "toml::Value")]
pub(crate) struct Keep(pub(crate) Option<Duration>);

/// Number of at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "toml::Value")]
pub(crate) struct Count(pub(crate) NonZeroU32);

/// Number of at least 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "toml::Value")]
pub(crate) struct Number(pub(crate) u32);

impl TryFrom<toml::Value> for Number {
    type Error = String;
    fn try_from(value: toml::Value) -> Result<Self, String> {
        let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
        number.map(Self).ok_or_else(|| format!("expected a whole number from 0 to {}", u32::MAX))
    }
}

impl TryFrom<toml::Value> for ByteSize {
    type Error = String;
    fn try_from(value: toml::Value) -> Result<Self, String> {
        let bytes = match &value {
            toml::Value::Integer(bytes) => u64::try_from(*bytes).ok(),
            toml::Value::String(text) => parse_size(text),
            _ => None,
        };
        bytes.map(Self).ok_or_else(|| format!("expected {SIZE}"))
    }
}

impl TryFrom<toml::Value> for Span {
    type Error = String;
    fn try_from(value: toml::Value) -> Result<Self, String> {
        let duration = value.as_str().and_then(parse_duration);
        duration.map(Self).ok_or_else(|| format!("expected {DURATION_SYNTAX}"))
    }
}

impl TryFrom<toml::Value> for Keep {
    type Error = String;
    fn try_from(value: toml::Value) -> Result<Self, String> {
        match value.as_str() {
            Some("forever") => Ok(Self(None)),
            text => text
                .and_then(parse_duration)
                .map(|duration| Self(Some(duration)))
                .ok_or_else(|| format!("expected {DURATION_SYNTAX}, or \"forever\"")),
        }
    }
}

impl TryFrom<toml::Value> for Count {
    type Error = String;
    fn try_from(value: toml::Value) -> Result<Self, String> {
        let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
        let number = number.and_then(NonZeroU32::new);
        number.map(Self).ok_or_else(|| format!("expected a whole number from 1 to {}", u32::MAX))
    }
}
