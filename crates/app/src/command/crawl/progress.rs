//! How far a crawl is, on standard error, for who watches.

use crawlway_gateway::shape::Counts;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::{IsTerminal, stderr},
    time::{Duration, Instant},
};

/// How long the rate looks back.
const WINDOW: Duration = Duration::from_secs(5);

pub(super) struct Progress {
    bar: ProgressBar,
    /// What becomes of pages that wait in the queue.
    becomes: &'static str,
    /// How much was done at which time, lately.
    lately: Vec<(Instant, u64)>,
}

impl Progress {
    pub(super) fn new(becomes: &'static str) -> Self {
        let target = if stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(5)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos}/{len} URLs  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, becomes, lately: Vec::new() }
    }

    /// Shows how far it is, with so many pages being fetched and so many in the queue.
    pub(super) fn show(&mut self, counts: &Counts, fetching: u64, in_queue: u64) {
        let done = counts.done + counts.dead;
        let now = Instant::now();
        self.lately.retain(|(at, _)| now - *at <= WINDOW);
        self.lately.push((now, done));
        let (since, before) = self.lately[0];
        let seconds = (now - since).as_secs_f64();
        let rate = if seconds > 0.0 { done.saturating_sub(before) as f64 / seconds } else { 0.0 };
        let left = counts.waiting + counts.in_flight;
        let eta = match rate {
            rate if rate > 0.0 && left > 0 => {
                let left = Duration::from_secs_f64((left as f64 / rate).min(1e9));
                format!(", about {} left", crate::quantity::rough_duration(left))
            }
            _ => String::new(),
        };
        self.bar.set_length(done + left);
        self.bar.set_position(done);
        self.bar.set_message(format!(
            "{rate:.0}/s, {fetching} being fetched, {in_queue} to be {}, {} dead{eta}",
            self.becomes, counts.dead
        ));
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
