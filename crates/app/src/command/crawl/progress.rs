//! Progress of a crawl on standard error: a bar on a terminal, lines elsewhere.

use crate::quantity::rough_duration;
use crawlway_gateway::dto::Counts;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::{
    io::{self, IsTerminal, Write, stderr},
    time::{Duration, Instant},
};

/// Length of the rate window.
const RATE_WINDOW: Duration = Duration::from_secs(5);
/// Interval between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Form of the progress output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::command) enum ProgressMode {
    /// A bar on a terminal, nothing elsewhere.
    Terminal,
    /// A bar on a terminal, lines elsewhere.
    Text,
    /// Lines of JSON.
    Json,
    Quiet,
}

pub(in crate::command) struct Progress {
    bar: ProgressBar,
    /// Lines instead of a bar.
    lines: Option<Lines>,
    /// Next step of pending pages: `indexed` or `written`.
    next_step: &'static str,
    began: Instant,
    /// URLs done at each time in the rate window.
    window: Vec<(Instant, u64)>,
}

/// Progress lines.
struct Lines {
    json: bool,
    last: Instant,
}

/// Progress line as JSON.
#[derive(Debug, Clone, Serialize)]
struct ProgressLine<'a> {
    seconds: u64,
    done: u64,
    waiting: u64,
    in_flight: u64,
    dead: u64,
    to_be_indexed: u64,
    rate_per_second: f64,
    waits_for: Option<&'a str>,
}

impl Progress {
    pub(in crate::command) fn new(mode: ProgressMode, next_step: &'static str) -> Self {
        // Log lines would break a bar.
        let is_logged = tracing::enabled!(target: "crawlway::request", tracing::Level::INFO);
        let bar = stderr().is_terminal()
            && !is_logged
            && matches!(mode, ProgressMode::Terminal | ProgressMode::Text);
        let lines = !bar && matches!(mode, ProgressMode::Text | ProgressMode::Json);
        let target = if bar { ProgressDrawTarget::stderr_with_hz(5) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos}/{len} URLs  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let began = Instant::now();
        let lines = lines.then_some(Lines { json: mode == ProgressMode::Json, last: began });
        Self { bar, lines, next_step, began, window: Vec::new() }
    }

    /// Shows the counts, the numbers of pages being fetched and pending in the queue, and what the crawl waits for.
    pub(in crate::command) fn show(
        &mut self,
        counts: &Counts,
        fetching: u64,
        in_queue: u64,
        waits_for: Option<&str>,
    ) {
        let done = counts.done + counts.dead;
        let now = Instant::now();
        self.window.retain(|(at, _)| now - *at <= RATE_WINDOW);
        self.window.push((now, done));
        let (since, before) = self.window[0];
        let seconds = (now - since).as_secs_f64();
        let rate = if seconds > 0.0 { done.saturating_sub(before) as f64 / seconds } else { 0.0 };
        let left = counts.waiting + counts.in_flight;
        self.bar.set_length(done + left);
        self.bar.set_position(done);
        let eta = match rate {
            rate if rate > 0.0 && left > 0 && waits_for.is_none() => {
                let left = Duration::from_secs_f64((left as f64 / rate).min(1e9));
                format!(", about {} left", rough_duration(left))
            }
            _ => String::new(),
        };
        let waits = waits_for.map(|waits_for| format!("; {waits_for}")).unwrap_or_default();
        let message = format!(
            "{rate:.0}/s, {fetching} being fetched, {in_queue} to be {}, {} dead{eta}{waits}",
            self.next_step, counts.dead
        );
        self.bar.set_message(message.clone());
        let due = self.lines.as_ref().is_some_and(|lines| now - lines.last >= LINE_INTERVAL);
        let Some(lines) = self.lines.as_mut().filter(|_| due) else { return };
        lines.last = now;
        let elapsed = now - self.began;
        let line = if lines.json {
            let progress = ProgressLine {
                seconds: elapsed.as_secs(),
                done,
                waiting: counts.waiting,
                in_flight: fetching,
                dead: counts.dead,
                to_be_indexed: in_queue,
                rate_per_second: (rate * 10.0).round() / 10.0,
                waits_for,
            };
            serde_json::json!({ "progress": progress }).to_string()
        } else {
            format!("{}: {done} of {} URLs done, {message}", rough_duration(elapsed), done + left)
        };
        // A closed standard error is ignored.
        let _ = writeln!(io::stderr(), "{line}");
    }

    pub(in crate::command) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
