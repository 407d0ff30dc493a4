//! How far a crawl is, on standard error: a bar on a terminal, lines elsewhere.

use crate::quantity::rough_duration;
use crawlway_gateway::shape::Counts;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::{
    io::{self, IsTerminal, Write, stderr},
    time::{Duration, Instant},
};

/// How long the rate looks back.
const WINDOW: Duration = Duration::from_secs(5);
/// How long it is between two lines.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

/// For whom progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::command) enum Watch {
    /// Nobody but who sits at a terminal.
    Terminal,
    /// People, by lines where there is no terminal.
    People,
    /// Programs, by lines of JSON.
    Programs,
    /// Nobody.
    Quiet,
}

pub(in crate::command) struct Progress {
    bar: ProgressBar,
    /// For whom lines are written, if they are.
    lines: Option<Lines>,
    /// What becomes of pages that wait in the queue.
    becomes: &'static str,
    began: Instant,
    /// How much was done at which time, lately.
    lately: Vec<(Instant, u64)>,
}

/// Lines of progress.
struct Lines {
    json: bool,
    last: Instant,
}

/// How far a crawl is at one moment.
#[derive(Debug, Clone, Serialize)]
struct Moment<'a> {
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
    pub(in crate::command) fn new(watch: Watch, becomes: &'static str) -> Self {
        // A bar would be torn apart by lines of the log.
        let is_logged = tracing::enabled!(target: "crawlway::request", tracing::Level::INFO);
        let bar = stderr().is_terminal() && !is_logged && matches!(watch, Watch::Terminal | Watch::People);
        let lines = !bar && matches!(watch, Watch::People | Watch::Programs);
        let target = if bar { ProgressDrawTarget::stderr_with_hz(5) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos}/{len} URLs  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let began = Instant::now();
        let lines = lines.then_some(Lines { json: watch == Watch::Programs, last: began });
        Self { bar, lines, becomes, began, lately: Vec::new() }
    }

    /// Shows how far it is, with so many pages being fetched and so many in the queue, and what it waits for.
    pub(in crate::command) fn show(
        &mut self,
        counts: &Counts,
        fetching: u64,
        in_queue: u64,
        waits_for: Option<&str>,
    ) {
        let done = counts.done + counts.dead;
        let now = Instant::now();
        self.lately.retain(|(at, _)| now - *at <= WINDOW);
        self.lately.push((now, done));
        let (since, before) = self.lately[0];
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
            self.becomes, counts.dead
        );
        self.bar.set_message(message.clone());
        let due = self.lines.as_ref().is_some_and(|lines| now - lines.last >= BETWEEN_LINES);
        let Some(lines) = self.lines.as_mut().filter(|_| due) else { return };
        lines.last = now;
        let elapsed = now - self.began;
        let line = if lines.json {
            let moment = Moment {
                seconds: elapsed.as_secs(),
                done,
                waiting: counts.waiting,
                in_flight: fetching,
                dead: counts.dead,
                to_be_indexed: in_queue,
                rate_per_second: (rate * 10.0).round() / 10.0,
                waits_for,
            };
            serde_json::json!({ "progress": moment }).to_string()
        } else {
            format!("{}: {done} of {} URLs done, {message}", rough_duration(elapsed), done + left)
        };
        // Who has closed standard error does not want to know.
        let _ = writeln!(io::stderr(), "{line}");
    }

    pub(in crate::command) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
