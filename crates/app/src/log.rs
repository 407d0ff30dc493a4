//! Logging to standard error: the settings `[log]`.

use serde::Deserialize;
use std::io;
use tracing_subscriber::{
    filter::LevelFilter, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt,
};

/// Settings `[log]`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogSettings {
    level: Level,
    format: Format,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    Text,
    Json,
}

/// Starts logging. `--verbose` raises the level.
pub(crate) fn start(settings: LogSettings, verbose: u8) {
    let level = match settings.level {
        Level::Off => LevelFilter::OFF,
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let level = match verbose {
        0 => level,
        1 => level.max(LevelFilter::INFO),
        _ => level.max(LevelFilter::DEBUG),
    };
    // INFO of libraries is noise.
    let library_level = if level == LevelFilter::INFO { LevelFilter::WARN } else { level };
    let audit_level = if level == LevelFilter::OFF { level } else { level.max(LevelFilter::INFO) };
    let registry = tracing_subscriber::registry().with(
        Targets::new()
            .with_default(library_level)
            .with_target("crawlway", level)
            .with_target("crawlway::audit", audit_level)
            // Damage found by recovery is printed as a warning when the queue is opened, whatever the level.
            .with_target(crate::open::TELLS_DAMAGE_ITSELF, LevelFilter::OFF)
            // Its errors are often expected replies; the broker crate logs those that matter.
            .with_target("lapin", LevelFilter::OFF),
    );
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    // Fails only if a subscriber is installed already.
    let _ = match settings.format {
        Format::Text => registry.with(layer.with_ansi(false)).try_init(),
        Format::Json => registry.with(layer.json()).try_init(),
    };
}
