//! What is logged, and how: `[log]`, on standard error.

use serde::Deserialize;
use std::io;
use tracing_subscriber::{
    filter::LevelFilter, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt,
};

/// What is logged, and how.
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

/// Logs from here on, at a level that the flag `--verbose` may raise.
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
    // What libraries find worth telling is only wanted when something is looked for.
    let of_others = if level == LevelFilter::INFO { LevelFilter::WARN } else { level };
    let registry = tracing_subscriber::registry().with(
        Targets::new()
            .with_default(of_others)
            .with_target("crawlway", level)
            // What recovery found is told as a warning by whoever opens the queue, whatever the level.
            .with_target(crate::open::TELLS_DAMAGE_ITSELF, LevelFilter::OFF)
            // What it calls an error is often an answer that was asked for; ours say what matters.
            .with_target("lapin", LevelFilter::OFF),
    );
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    // Fails only if something else logs already; then that goes on.
    let _ = match settings.format {
        Format::Text => registry.with(layer.with_ansi(false)).try_init(),
        Format::Json => registry.with(layer.json()).try_init(),
    };
}
