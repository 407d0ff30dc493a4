//! Scripts of cases, in the style of sqllogictest: steps with their expected answers. The steps of a contract are in its
//! `script.rs`.
//!
//! Steps are separated by `;` or a new line, `#` starts a comment, `repeat 3: …` repeats a line. `=` and `->` separate a call
//! from its expected answer. Times are written `20s`, `1ms`, `60s-1ms`.

use crawlway_store::Timestamp;
use std::{str::FromStr, time::Duration};

pub(crate) fn steps(script: &str) -> Vec<String> {
    let mut steps = Vec::new();
    for line in script.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let (times, line) = match line.strip_prefix("repeat ").and_then(|rest| rest.split_once(':')) {
            Some((times, line)) => (number(times), line),
            None => (1, line),
        };
        for _ in 0..times {
            steps.extend(line.split(';').map(str::trim).filter(|step| !step.is_empty()).map(str::to_owned));
        }
    }
    steps
}

/// A step: its verb, arguments, sign and expected answer.
pub(crate) struct Step<'s> {
    pub(crate) verb: &'s str,
    pub(crate) args: Vec<&'s str>,
    pub(crate) sign: &'s str,
    pub(crate) answer: Vec<&'s str>,
}

impl<'s> Step<'s> {
    pub(crate) fn parse(step: &'s str) -> Self {
        let words: Vec<&str> = step.split_whitespace().collect();
        let place = words.iter().position(|word| ["=", "->"].contains(word)).unwrap_or(words.len());
        let sign = words.get(place).copied().unwrap_or_default();
        let answer = words.get(place + 1..).unwrap_or_default().to_vec();
        Self { verb: words[0], args: words[1..place].to_vec(), sign, answer }
    }
}

pub(crate) fn number<T: FromStr>(word: &str) -> T {
    word.parse().unwrap_or_else(|_| panic!("`{word}` is no number"))
}

/// Milliseconds of `20s`, `1ms`, `-20s`, `60s-1ms` or `60s+1ms`.
pub(crate) fn millis(word: &str) -> i64 {
    let place = word.char_indices().skip(1).find(|(_, sign)| "+-".contains(*sign)).map(|(place, _)| place);
    let (first, rest) = word.split_at(place.unwrap_or(word.len()));
    let rest = if rest.is_empty() { 0 } else { millis(rest) };
    let first = first.trim_start_matches('+');
    rest + match first.strip_suffix("ms") {
        Some(first) => number::<i64>(first),
        None => 1000 * number::<i64>(first.trim_end_matches('s')),
    }
}

pub(crate) fn duration(word: &str) -> Duration {
    Duration::from_millis(u64::try_from(millis(word)).unwrap_or_else(|_| panic!("`{word}` is negative")))
}

/// A time and a span such as `-20s`.
pub(crate) fn shifted(time: Timestamp, span: &str) -> Timestamp {
    let by = millis(span);
    let step = Duration::from_millis(by.unsigned_abs());
    if by < 0 { time - step } else { time + step }
}

/// A text, in which `_` stands for a space.
pub(crate) fn text(word: &str) -> String {
    word.replace('_', " ")
}

pub(crate) fn is_yes(word: &str) -> bool {
    match word {
        "yes" => true,
        "no" => false,
        other => panic!("`{other}` is neither yes nor no"),
    }
}
