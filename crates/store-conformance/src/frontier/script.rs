//! Steps of frontier cases.
//!
//! A URL is written `a/1` for `https://a.example/1`, and `other:a/1` in the crawl `other`. Its latest taking has the same
//! name, the one before `a/1~`. `_` in a text stands for a space. Times are relative to now.
//!
//! | step | call and expectation |
//! |---|---|
//! | `policy pending 3`, `policy host 2` | first step: limits of pending URLs |
//! | `crawl NAME [max N]` | opens a crawl; as the first step it is the default one, in place of `crawl` |
//! | `add a/1 b@kind2 c! d+ = new over known new` | adds a batch: with a budget, insisted on, in any case; default: all new |
//! | `take a b` | `next(10, 1)` answers exactly these |
//! | `next MAX PER = a b`, `= ordered a b`, `= 2`, `-> p q` | `next` answers these, in this order, this many; names for them |
//! | `none` | nothing can be taken |
//! | `taken a KEY VALUE …` | what was handed out: attempt, losses, replays, error, item, lease, etag, modified, insist |
//! | `done a [KEY=VALUE …]` | settles: outcome, fetched, crawled, canonical, etag, modified, links, rest |
//! | `retry a 20s`, `fail a ERROR`, `reject a`, `defer a 1s`, `wait a 1s` | settles, `= retrying 2`, `= dead`, `= deferred` |
//! | `fenced a` | settling and extending have no effect |
//! | `extend a b = yes no`, `alone a [= no]`, `back [= N]`, `end_all` | leases; settles all that is due as done |
//! | `entry a KEY VALUE …`, `unknown a` | look-up: state, attempts, due, outcome, canonical, crawled, item |
//! | `dead a b`, `deadinfo a KEY VALUE …` | the dead, oldest first; attempts, replays, reason, first, last, lost, at, item |
//! | `replay a = yes`, `drop a = yes`, `insist a = no`, `reopen due|all|without_links|outcome X|urls a b = N` | as they say |
//! | `counts 1 0 0 0`, `fetched 1`, `outcomes NAME N …`, `left_out NAME N …` | counts: pending, in flight, done, dead |
//! | `is STATE`, `set STATE [= STATE]`, `limit N [= STATE]`, `ended now`, `due none|now|20s` | the crawl |
//! | `snapshot`, `unchanged` | the crawl and its counts stay as they were |
//! | `pass 20s`, `restart` | time passes; the store is opened again |
//! | `elsewhere`, `here` | the next steps use another handle, or the first again |
//!
//! A crawl other than the default one is named first, as in `is other: paused`.

use super::fixture::*;
use crate::script::{Step, duration, is_yes, number, shifted, steps, text};

pub(super) async fn run(harness: Fresh<'_>, script: &str) {
    let steps = steps(script);
    let mut policy = POLICY;
    let mut name = ("crawl", None);
    let mut begin = 0;
    for step in &steps {
        match &step.split_whitespace().collect::<Vec<_>>()[..] {
            ["policy", "pending", max] => policy.max_pending = number(max),
            ["policy", "host", max] => policy.max_pending_per_host = number(max),
            ["crawl", id] => name = (id, None),
            ["crawl", id, "max", max] => name = (id, Some(number(max))),
            _ => break,
        }
        begin += 1;
        if step.starts_with("crawl") {
            break;
        }
    }
    let t = Fixture::with(harness, policy).await;
    let crawl = t.start(name.0, name.1).await;
    let here = t.store.clone();
    let mut story = Story { t, here, crawl, added: HashMap::new(), taken: HashMap::new(), before: None };
    for step in &steps[begin..] {
        story = if step == "restart" { story.restart().await } else { story.step(step).await };
    }
}

fn crawl_state(word: &str) -> CrawlState {
    let state = CrawlState::ALL.iter().find(|state| state.as_str() == word);
    *state.unwrap_or_else(|| panic!("`{word}` is no state of a crawl"))
}

/// Counts by name.
fn counts_by_name(words: &[&str]) -> BTreeMap<String, u64> {
    words.chunks(2).map(|pair| (pair[0].to_owned(), number(pair[1]))).collect()
}

struct Story<'h> {
    t: Fixture<'h>,
    here: Arc<dyn Frontier>,
    crawl: CrawlId,
    /// New URLs by name.
    added: HashMap<String, NewUrl>,
    /// Takings by name, the latest last.
    taken: HashMap<String, Vec<ClaimedUrl>>,
    before: Option<Crawl>,
}

impl Story<'_> {
    async fn restart(self) -> Self {
        let Self { t, here, .. } = self;
        drop(here);
        let t = t.reopened().await;
        Self { here: t.store.clone(), t, ..self }
    }

    fn at(&self, word: &str) -> Timestamp {
        shifted(self.t.now(), if word == "now" { "0s" } else { word })
    }

    /// The crawl of a name, the name without it, and the URL without its modifiers.
    fn resolve<'w>(&self, word: &'w str) -> (CrawlId, &'w str, NewUrl) {
        let (crawl, rest) = match word.split_once(':') {
            Some((crawl, rest)) => (CrawlId::new(crawl).expect("an allowed id"), rest),
            None => (self.crawl.clone(), word),
        };
        let bare = rest.trim_end_matches(['!', '+']);
        let (bare, budget) = bare.split_once('@').map_or((bare, None), |(bare, budget)| (bare, Some(budget)));
        let (host, path) = bare.split_once('/').unwrap_or((bare, ""));
        let budget = budget.map(|budget| {
            let kind = budget.trim_end_matches(|c: char| c.is_ascii_digit());
            let most = number(&budget[kind.len()..]);
            UrlBudget { kind: kind.to_owned(), max: most, reason: format!("too_many_{kind}") }
        });
        let (insist, ignore_limit) = (rest.ends_with('!'), rest.ends_with('+'));
        let name = &word[..word.len() - (rest.len() - bare.len())];
        (
            crawl,
            name,
            NewUrl {
                ignore_canonical: insist,
                ignore_limit,
                budget,
                ..url(&format!("{host}.example"), path)
            },
        )
    }

    fn name(&self, crawl: &CrawlId, url: &str) -> String {
        let name = url.trim_start_matches("https://").replacen(".example", "", 1);
        let name = name.trim_end_matches('/');
        if *crawl == self.crawl { name.to_owned() } else { format!("{crawl}:{name}") }
    }

    fn held(&self, word: &str) -> &ClaimedUrl {
        let (name, back) = word.strip_suffix('~').map_or((word, 1), |name| (name, 2));
        let takings = self.taken.get(name).map_or(&[][..], |takings| takings);
        let place = takings.len().checked_sub(back);
        place.map_or_else(|| panic!("`{word}` was not taken"), |place| &takings[place])
    }

    /// The item of a URL, of a named taking, or an unknown one.
    fn item(&self, word: &str) -> String {
        match self.added.get(word) {
            Some(new) => new.item.clone(),
            None if self.taken.contains_key(word.trim_end_matches('~')) => self.held(word).item.clone(),
            None => word.to_owned(),
        }
    }

    fn url(&self, word: &str) -> String {
        if self.taken.contains_key(word) { self.held(word).url.clone() } else { self.resolve(word).2.url }
    }

    /// Checks what was handed out, and keeps it by name.
    fn hold(&mut self, taken: Vec<ClaimedUrl>, expected: &[&str], names: &[&str], step: &str) {
        let mut found: Vec<String> = taken.iter().map(|taken| self.name(&taken.crawl, &taken.url)).collect();
        for (taken, name) in taken.iter().zip(&found) {
            let takings = self.taken.entry(name.clone()).or_default();
            assert!(takings.iter().all(|before| before.receipt != taken.receipt), "{step}: a receipt twice");
            takings.push(taken.clone());
        }
        let mut expected = expected.to_vec();
        match expected.first() {
            None => {
                assert_eq!(taken.len(), names.len(), "{step}: {found:?}");
                for (taken, name) in taken.iter().zip(names) {
                    self.taken.entry((*name).to_owned()).or_default().push(taken.clone());
                }
            }
            Some(first) if first.parse::<usize>().is_ok() => {
                assert_eq!(taken.len(), number::<usize>(first), "{step}: {found:?}");
            }
            Some(&"ordered") => assert_eq!(found, expected[1..], "{step}"),
            Some(_) => {
                found.sort();
                expected.sort_unstable();
                assert_eq!(found, expected, "{step}");
            }
        }
    }

    async fn settle(&self, word: &str, ending: UrlVerdict, expected: &[&str], step: &str) {
        let settled = self.t.settle(self.held(word), ending).await;
        match expected {
            [] => {}
            ["retrying", attempt] => {
                assert_eq!(settled, UrlSettleOutcome::Retrying { attempt: number(attempt) }, "{step}");
            }
            ["dead"] => assert_eq!(settled, UrlSettleOutcome::Dead, "{step}"),
            ["deferred"] => assert_eq!(settled, UrlSettleOutcome::Deferred, "{step}"),
            other => panic!("{step}: `{other:?}` is no answer"),
        }
    }

    fn done(&self, options: &[&str]) -> UrlVerdict {
        let mut facts = PageFacts { fetched: true, ..PageFacts::default() };
        let (mut outcome, mut rest) = ("published".to_owned(), Duration::ZERO);
        for option in options {
            let (key, value) = option.split_once('=').unwrap_or((option, "now"));
            match key {
                "outcome" => outcome = value.to_owned(),
                "rest" => rest = duration(value),
                "fetched" => facts.fetched = is_yes(value),
                "crawled" => facts.crawled_at = Some(self.at(value)),
                "canonical" => facts.canonical = Some(text(value)),
                "etag" => facts.validators.etag = Some(text(value)),
                "modified" => facts.validators.last_modified = Some(text(value)),
                "links" => facts.links = Some(text(value)),
                other => panic!("`{other}` is no fact of a page"),
            }
        }
        UrlVerdict::Done { outcome, facts, host_delay: rest }
    }

    /// Compares facts, as texts, with expected keys and values.
    fn check<const N: usize>(&self, facts: [(&str, Option<String>); N], expected: &[&str], step: &str) {
        for pair in expected.chunks(2) {
            let [key, value] = pair else { panic!("{step}: a value is missing") };
            let Some((_, fact)) = facts.iter().find(|(name, _)| name == key) else {
                panic!("{step}: no {key}")
            };
            let expected = match (*key, *value) {
                (_, "none") => None,
                (_, "*") => {
                    assert!(fact.is_some(), "{step}: {key}");
                    continue;
                }
                ("item", name) => Some(self.item(name)),
                ("due" | "crawled" | "lease" | "at", time) => Some(self.at(time).as_millis().to_string()),
                (_, value) => Some(text(value)),
            };
            assert_eq!(*fact, expected, "{step}: {key}");
        }
    }

    fn check_taken(&self, word: &str, expected: &[&str], step: &str) {
        let taken = self.held(word);
        let facts = [
            ("attempt", Some(taken.attempt.to_string())),
            ("losses", Some(taken.losses.to_string())),
            ("replays", Some(taken.replays.to_string())),
            ("insist", taken.ignore_canonical.then(|| "yes".to_owned())),
            ("error", taken.last_error.clone()),
            ("etag", taken.validators.etag.clone()),
            ("modified", taken.validators.last_modified.clone()),
            ("item", Some(taken.item.clone())),
            ("lease", Some(taken.lease_until.as_millis().to_string())),
        ];
        self.check(facts, expected, step);
    }

    async fn check_entry(&self, word: &str, expected: &[&str], step: &str) {
        let entry = self.t.find(&self.url(word)).await;
        let state = match entry.state {
            EntryState::Waiting => "pending",
            EntryState::InFlight => "in flight",
            EntryState::Done => "done",
            EntryState::Dead => "dead",
        };
        let facts = [
            ("state", Some(state.to_owned())),
            ("attempts", Some(entry.attempts.to_string())),
            ("due", entry.due.map(|at| at.as_millis().to_string())),
            ("crawled", entry.crawled_at.map(|at| at.as_millis().to_string())),
            ("outcome", entry.outcome),
            ("canonical", entry.canonical),
            ("item", Some(entry.item)),
        ];
        self.check(facts, expected, step);
    }

    async fn check_dead(&self, word: &str, expected: &[&str], step: &str) {
        let all = self.t.dead(None, 100).await;
        let found = all.into_iter().find(|dead| self.name(&dead.crawl, &dead.url) == word);
        let dead = found.unwrap_or_else(|| panic!("{step}: it is not dead"));
        assert!(!dead.reason.is_empty(), "{step}: a reason");
        let facts = [
            ("attempts", Some(dead.attempts.to_string())),
            ("replays", Some(dead.replays.to_string())),
            ("reason", Some(dead.reason)),
            ("first", dead.first_error),
            ("last", dead.last_error),
            ("lost", Some(if dead.worker_lost { "yes" } else { "no" }.to_owned())),
            ("at", Some(dead.dead_at.as_millis().to_string())),
            ("item", Some(dead.item)),
        ];
        self.check(facts, expected, step);
    }

    async fn fenced(&self, word: &str, step: &str) {
        let taken = self.held(word);
        let before = self.t.find(&taken.url).await;
        for ending in
            [done(), dead(), retry(Duration::ZERO), UrlVerdict::Defer { until: self.t.now() + WHILE }]
        {
            self.t.has_no_effect(taken, ending, step).await;
        }
        assert_eq!(self.t.extend(&[taken]).await, [false], "{step}");
        assert_eq!(self.t.find(&taken.url).await, before, "{step}");
    }

    async fn reopen(&self, id: &CrawlId, which: &[&str]) -> u64 {
        let which = match which {
            ["due"] => return self.t.reopen_crawl(id).await,
            ["all"] => Reopen::All,
            ["without_links"] => Reopen::WithoutLinks,
            ["outcome", outcome] => Reopen::Outcome((*outcome).to_owned()),
            ["urls", urls @ ..] => Reopen::Urls(urls.iter().map(|word| self.url(word)).collect()),
            other => panic!("`{other:?}` cannot be reopened"),
        };
        expect_ok(self.t.store.reopen(id, &which).await, "reopening")
    }

    async fn add(&mut self, words: &[&str], expected: &[&str], step: &str) {
        let (mut id, mut batch, mut names) = (self.crawl.clone(), Vec::new(), Vec::new());
        for word in words {
            let (crawl, name, new) = self.resolve(word);
            id = crawl;
            batch.push(new);
            names.push(name);
        }
        let added = self.t.add(&id, &batch).await;
        let word = |added: &AddOutcome| match added {
            AddOutcome::New => "new",
            AddOutcome::Duplicate => "known",
            AddOutcome::OverBudget => "over",
        };
        let answers: Vec<&str> = added.iter().map(word).collect();
        let all_new = vec!["new"; words.len()];
        assert_eq!(answers, if expected.is_empty() { &all_new[..] } else { expected }, "{step}");
        for ((name, new), added) in names.into_iter().zip(batch).zip(added) {
            if added == AddOutcome::New {
                self.added.insert(name.to_owned(), new);
            }
        }
    }

    async fn step(mut self, step: &str) -> Self {
        let Step { verb, args, sign, answer } = &Step::parse(step);
        let (mut args, answer) = (&args[..], &answer[..]);
        let named = args.first().and_then(|word| word.strip_suffix(':'));
        let named = named.map(|name| CrawlId::new(name).expect("an allowed id"));
        args = if named.is_some() { &args[1..] } else { args };
        let id = named.clone().unwrap_or_else(|| self.crawl.clone());
        let yes_no = || answer.iter().map(|word| is_yes(word)).collect::<Vec<_>>();
        match *verb {
            "crawl" => drop(self.t.start(args[0], args.get(2).map(|max| number(max))).await),
            "elsewhere" => self.t.store = self.t.another_handle().await,
            "here" => self.t.store = self.here.clone(),
            "pass" => self.t.pass(duration(args[0])).await,
            "add" => self.add(args, answer, step).await,
            "take" => {
                let taken = self.t.next(10, 1).await;
                self.hold(taken, args, &[], step);
            }
            "next" => {
                let taken = self.t.next(number(args[0]), number(args[1])).await;
                let (expected, names) = if *sign == "->" { (&[][..], answer) } else { (answer, &[][..]) };
                self.hold(taken, expected, names, step);
            }
            "none" => self.t.nothing(step).await,
            "taken" => self.check_taken(args[0], &args[1..], step),
            "entry" => self.check_entry(args[0], &args[1..], step).await,
            "unknown" => {
                let found = expect_ok(self.t.store.find(&self.url(args[0])).await, "finding");
                assert_eq!(found, [], "{step}");
            }
            "done" => self.settle(args[0], self.done(&args[1..]), answer, step).await,
            "retry" => {
                let rest =
                    args.get(2).map_or(Duration::ZERO, |rest| duration(rest.trim_start_matches("rest=")));
                let ending = UrlVerdict::Retry {
                    after: duration(args[1]),
                    error: "timed out".to_owned(),
                    host_delay: rest,
                };
                self.settle(args[0], ending, answer, step).await;
            }
            "fail" => self.settle(args[0], fails(&text(args[1])), answer, step).await,
            "reject" => {
                let rest =
                    args.get(1).map_or(Duration::ZERO, |rest| duration(rest.trim_start_matches("rest=")));
                self.settle(
                    args[0],
                    UrlVerdict::Dead { reason: "gone".to_owned(), host_delay: rest },
                    answer,
                    step,
                )
                .await;
            }
            "defer" => {
                self.settle(args[0], UrlVerdict::Defer { until: self.at(args[1]) }, answer, step).await;
            }
            "wait" => self.settle(args[0], UrlVerdict::Wait { until: self.at(args[1]) }, answer, step).await,
            "fenced" => self.fenced(args[0], step).await,
            "end_all" => self.t.end_all(done).await,
            "extend" => {
                let held: Vec<&ClaimedUrl> = args.iter().map(|word| self.held(word)).collect();
                assert_eq!(self.t.extend(&held).await, yes_no(), "{step}");
            }
            "alone" => {
                assert_eq!(
                    self.t.alone(self.held(args[0])).await,
                    answer.first().is_none_or(|word| is_yes(word)),
                    "{step}"
                );
            }
            "back" => {
                let back = self.t.take_back().await;
                assert_eq!(back, answer.first().map_or(back, |count| number(count)), "{step}");
            }
            "losses" => {
                let mut losses: Vec<u32> = args.iter().map(|word| self.held(word).losses).collect();
                losses.sort_unstable();
                assert_eq!(losses, answer.iter().map(|word| number(word)).collect::<Vec<u32>>(), "{step}");
            }
            "dead" => {
                for most in [1, 3, 100] {
                    let dead = self.t.dead(named.as_ref(), most).await;
                    let names: Vec<_> = dead.iter().map(|dead| self.name(&dead.crawl, &dead.url)).collect();
                    assert_eq!(names, args, "{step}, {most} at a time");
                }
            }
            "deadinfo" => self.check_dead(args[0], &args[1..], step).await,
            "replay" | "drop" => {
                let items: Vec<String> = args.iter().map(|word| self.item(word)).collect();
                let answers = if *verb == "drop" {
                    self.t.store.drop_dead_letters(&items).await
                } else {
                    Ok(self.t.replay(&items).await)
                };
                assert_eq!(expect_ok(answers, verb), yes_no(), "{step}");
            }
            "insist" => assert_eq!(self.t.insist(&id, &self.url(args[0])).await, is_yes(answer[0]), "{step}"),
            "reopen" => assert_eq!(self.reopen(&id, args).await, number::<u64>(answer[0]), "{step}"),
            "counts" => {
                let counts = self.t.four(&id).await;
                assert_eq!(
                    counts.to_vec(),
                    args.iter().map(|word| number(word)).collect::<Vec<u64>>(),
                    "{step}"
                );
            }
            "fetched" => assert_eq!(self.t.counts(&id).await.fetched, number::<u64>(args[0]), "{step}"),
            "outcomes" => assert_eq!(self.t.counts(&id).await.outcomes, counts_by_name(args), "{step}"),
            "left_out" => assert_eq!(self.t.counts(&id).await.left_out, counts_by_name(args), "{step}"),
            "is" => self.t.is(&id, crawl_state(args[0]), step).await,
            "set" => {
                let state = self.t.set(&id, crawl_state(args[0])).await.state;
                assert_eq!(state, crawl_state(answer.first().unwrap_or(&args[0])), "{step}");
            }
            "limit" => {
                let state = self.t.set_limit(&id, (args[0] != "none").then(|| number(args[0]))).await.state;
                assert_eq!(state, crawl_state(answer[0]), "{step}");
            }
            "ended" => assert_eq!(self.t.crawl(&id).await.ended_at, Some(self.at(args[0])), "{step}"),
            "due" => {
                let due = expect_ok(self.t.store.next_due().await, "asking when the next is due");
                match args[0] {
                    "none" => assert_eq!(due, None, "{step}"),
                    "now" => assert!(due.is_some_and(|at| at <= self.t.now()), "{step}: {due:?}"),
                    time => assert_eq!(due, Some(self.at(time)), "{step}"),
                }
            }
            "snapshot" => self.before = Some(self.t.crawl(&id).await),
            "unchanged" => {
                let before = self.before.as_ref().unwrap_or_else(|| panic!("{step}: there is no snapshot"));
                assert_eq!(self.t.crawl(&before.id).await, *before, "{step}");
            }
            other => panic!("there is no step `{other}`"),
        }
        self
    }
}
