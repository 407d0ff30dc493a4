//! `crawlway demo`: everything at once, against a small web that it serves itself.

mod examples;
mod found;
mod home;
mod kept;
mod manners;
mod settings;
mod told;

use super::crawl;
use crate::{
    config::Config,
    failure::{ExitKind, Told, UsageError},
    output::Output,
    serving::Serving,
    worker::{Runs, Terms, Worker, stop_on_signals},
};
use anyhow::{Context, bail};
use clap::Args;
use crawlway_demo_web::{Plan, Server, Web};
use crawlway_fetch::{Allowed, resolve::FixedNames};
use crawlway_flow::Stop;
use crawlway_flows::search::{Asked, Definition, Stages};
use crawlway_gateway::{BindError, Listening, bind};
use examples::Shell;
use home::Home;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Instant,
};
use tokio::signal::unix::{SignalKind, signal};

/// Crawl a small web of the demo's own, and show what can be done with it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway demo                    crawl, show what was found, and stay up to be tried
  crawlway demo --exit             the same, and end: 0 if all was found that had to be
  crawlway demo --data DIR         keep what was crawled in this new directory

It serves a small web on 127.0.0.1 (names such as news.localhost, which browsers open too) and
crawls it with the defaults, but for a few waits that are shorter since the hosts are its own; it
says which. Nothing beyond this machine is asked, and settings of this place count only for
`gateway.listen` and `[log]`. If that port is taken, the API is at another one. Without --data
everything is in a temporary directory, named at the beginning, which is removed at the end; only
SIGKILL, or Ctrl-C twice, leaves it behind.

JSON, one document once the crawl is over:
  {\"as_planned\", \"web\": {\"address\", \"start\", \"hosts\", \"pages\"}, \"data\": {\"directory\", \"kept\"},
   \"gateway\": {\"url\", \"docs\", \"instead_of\"}, \"settings\": [{\"key\", \"value\", \"default\", \"why\"}],
   \"crawl\": as of `crawl`, \"found\": {…}, \"hosts\": [{\"host\", \"pages\", \"requests\", \"at_once\",
   \"answers_in_ms\", \"promised_gap_ms\", \"asked_for_it\", \"smallest_gap_ms\", \"done_after_ms\"}],
   \"searches\": [{\"query\", \"shows\", \"command\", \"results\": as of `search`}],
   \"trail\": {\"url\", \"command\", and as of `trail`}, \"inventory\": {\"url\", \"command\",
   \"record\": as of `url get`}, \"differences\": {\"missing\": [URL], …}}

Exit codes: 0 all was found that had to be, and nothing else; 1 it was not, or it failed; 2 the
command line or a setting is wrong; 3 it was asked to stop before the crawl was over.")]
pub(super) struct DemoArgs {
    /// End once the results are shown, instead of staying up
    #[arg(long)]
    exit: bool,
}

/// How a demo has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    AsPlanned,
    Differently,
    /// Before the crawl was over.
    Stopped,
}

pub(super) async fn run(
    args: DemoArgs,
    data: Option<PathBuf>,
    theirs: Config,
    output: &mut Output,
) -> anyhow::Result<()> {
    // First of all, so that nothing is left behind by who changes their mind early.
    let stop = stop_on_signals()?;
    stop_on_hangup(&stop)?;
    let home = Home::new(data.as_deref())?;
    let ended = crawl_and_serve(&home, args.exit, &theirs, &stop, output).await;
    let (path, kept) = (home.path().to_owned(), home.is_kept());
    home.leave()?;
    let ended = ended?;
    if !output.is_json() {
        told::end(&path, kept, ended == Ended::Stopped, output)?;
    }
    output.flush()?;
    match ended {
        Ended::AsPlanned => Ok(()),
        Ended::Differently => Err(Told(ExitKind::Failed).into()),
        Ended::Stopped => Err(Told(ExitKind::Stopped).into()),
    }
}

/// Who closes the terminal's window wants it to end, too.
fn stop_on_hangup(stop: &Stop) -> anyhow::Result<()> {
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    let stop = stop.clone();
    tokio::spawn(async move {
        hangup.recv().await;
        stop.request();
    });
    Ok(())
}

async fn crawl_and_serve(
    home: &Home,
    exit: bool,
    theirs: &Config,
    stop: &Stop,
    output: &mut Output,
) -> anyhow::Result<Ended> {
    let config = settings::settings(theirs, home.path())?;
    let listen = settings::listen(theirs, &config).map_err(UsageError)?;
    let server = Web::builder(Plan::demo()).serve().await.context("cannot serve the small web")?;
    let (listening, taken) = listen_somewhere(listen, &config).await?;
    if !output.is_json() {
        told::begin(server.web(), home, output)?;
        output.flush()?;
    }
    let runs = Runs { search: Stages { crawl: true, index: true }, inventory: true, gateway: true };
    let mut worker = Worker::start(&config, terms(&server)?, runs, None, stop.clone()).await?;
    let ended = async {
        let serving = Serving::start(listening, &worker, &config, terms(&server)?.allow, stop)?;
        let scene =
            Scene { worker: &worker, serving: &serving, taken, server: &server, home, config: &config, stop };
        let shown = show(&scene, exit, output).await;
        if exit || shown.is_err() {
            stop.request();
        }
        let served = serving.until_the_end(&worker, stop).await;
        shown.and_then(|ended| served.map(|()| ended))
    }
    .await;
    // It may not have come to serving.
    stop.request();
    let drained = worker.drain().await;
    let closed = worker.close().await;
    let ended = ended?;
    drained.and(closed)?;
    Ok(ended)
}

/// The small web's names lead to its one address, which is the only one that may be asked; no other name leads
/// anywhere.
fn terms(server: &Server) -> anyhow::Result<Terms> {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let names = server.web().hosts().map(|host| (host.to_owned(), vec![local])).collect();
    let allowed: Allowed = format!("{local}/32:{}", server.web().port()).parse()?;
    Ok(Terms { allow: vec![allowed], robots: true, resolver: Some(Arc::new(FixedNames { names })) })
}

/// Listens there, or at any free port of the same address if that one is taken; then also which was.
async fn listen_somewhere(
    address: SocketAddr,
    config: &Config,
) -> anyhow::Result<(Listening, Option<SocketAddr>)> {
    match bind(address, config.gateway.access("gateway.listen")).await {
        Ok(listening) => Ok((listening, None)),
        Err(BindError::Io { .. }) => {
            let anywhere = SocketAddr::new(address.ip(), 0);
            Ok((bind(anywhere, config.gateway.access("gateway.listen")).await?, Some(address)))
        }
        Err(error) => Err(error.into()),
    }
}

/// All parts of a demo that is up.
struct Scene<'a> {
    worker: &'a Worker,
    serving: &'a Serving,
    /// Where the gateway was to listen, if that was taken.
    taken: Option<SocketAddr>,
    server: &'a Server,
    home: &'a Home,
    config: &'a Config,
    stop: &'a Stop,
}

/// Crawls, compares with the plan, and says what came of it.
async fn show(scene: &Scene<'_>, exit: bool, output: &mut Output) -> anyhow::Result<Ended> {
    let Scene { worker, serving, taken, server, home, config, stop } = *scene;
    let web = server.web();
    let definition = Definition {
        sitemaps: true,
        hosts: web.hosts().map(|host| format!("{host}:{}", web.port())).collect(),
        recrawl_after: config.search.recrawl_after(),
        traps: config.search.traps(),
        ..Definition::of_seeds(web.truth().start.iter().cloned())
    };
    let began = Instant::now();
    let started = crawl::crawl(worker, Asked::new(definition), None, crawl::Watch::Terminal, stop).await?;
    let took = began.elapsed();
    if stop.is_requested() {
        return Ok(Ended::Stopped);
    }
    let Some(crawl) = worker.records.frontier.crawl(&started.crawl.id).await? else {
        bail!("the crawl `{}` is unknown to its own frontier", started.crawl.id);
    };
    let Some(index) = &worker.index else { bail!("the demo has no index") };
    let Some(log) = server.log() else { bail!("the small web has no log") };
    let visits = log.visits();
    let (found, mut differences, pages) = found::look(worker, &**index, &crawl, web, &visits).await?;
    let hosts = manners::look(web, log, worker.request.pace.gap, &found::by_host(&pages));
    differences.hurried =
        hosts.iter().filter(|manners| !manners.kept()).map(|manners| manners.host.clone()).collect();
    let shell = Shell::new(home.path());
    let Some(kept) = kept::keep(serving, config, web, &shell, stop).await? else {
        return Ok(Ended::Stopped);
    };
    if !kept.is_whole() {
        differences.not_kept.push(kept.url.clone());
    }
    let report = told::Report {
        as_planned: differences.is_empty(),
        web: told::WebTold::new(web, server),
        data: told::DataTold { directory: home.path().to_owned(), kept: home.is_kept() },
        gateway: told::GatewayTold::new(serving, taken),
        settings: settings::OWN,
        crawl: crawl::crawled(worker, &started, crawl, took),
        found,
        hosts,
        searches: examples::searches(&**index, &shell).await?,
        trail: examples::trail(worker, web, &shell).await?,
        inventory: kept,
        differences,
    };
    if output.is_json() {
        output.json(&report)?;
    } else {
        report.tell(took, exit, &shell, output)?;
    }
    output.flush()?;
    Ok(if report.as_planned { Ended::AsPlanned } else { Ended::Differently })
}
