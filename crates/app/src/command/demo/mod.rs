//! `crawlway demo`: all flows at work on a small web that the demo serves itself.

mod data;
mod examples;
mod inventory;
mod politeness;
mod report;
mod request;
mod settings;
mod summary;

use super::crawl;
use crate::{
    config::Config,
    failure::{AlreadyReported, ExitKind, UsageError},
    flows::{self, DemoContext},
    opening::Opening,
    output::Output,
    permissions,
    role::Role,
    service::Client,
    serving::Serving,
    worker::{Overrides, Process, Worker, stop_on_signals},
};
use anyhow::{Context, bail};
use clap::Args;
use crawlway_demo_web::{Plan, Server, Web};
use crawlway_fetch::{AllowedRange, resolve::StaticNames};
use crawlway_flow::Shutdown;
use crawlway_flows::search::{CrawlRequest, Definition};
use crawlway_gateway::{BindError, Listener, bind};
use data::DataDirectory;
pub(crate) use examples::Shell;
pub(crate) use inventory::InventoryDemo;
pub(crate) use request::RequestDemo;
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Instant,
};
use url::Url;

/// Access log of the small web's servers, in the data directory.
const ACCESS_LOG: &str = "web-access.jsonl";

/// Crawl a small web that the demo serves itself, and show what to try next
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway demo                    crawl, show the results, and keep running
  crawlway demo --exit             crawl, show the results, and end
  crawlway demo --data DIR         keep the data in this new directory

The demo serves a small web on 127.0.0.1, with host names such as news.localhost, which browsers open
too. It crawls this web with the default settings, except for a few shorter delays, which it lists. It
connects to nothing outside this machine. Of your settings only `gateway.listen` and `[log]` apply.
If the port of `gateway.listen` is in use, the API listens on another one.

Without --data everything is in a temporary directory. The demo prints its path, and removes it at the
end. Only SIGKILL, or Ctrl-C three times, leaves it behind.

JSON, one document once the crawl is finished:
  {\"web\": {\"address\", \"start\", \"hosts\"}, \"data\": {\"directory\", \"kept\", \"access_log\"},
   \"gateway\": {\"url\", \"docs\", \"instead_of\"}, \"settings\": [{\"key\", \"value\", \"default\", \"why\"}],
   \"crawl\": as in `crawl`, \"found\": {…}, \"hosts\": [{\"host\", \"pages\", \"requests\", \"at_once\",
   \"answers_in_ms\", \"promised_gap_ms\", \"asked_for_it\", \"smallest_gap_ms\", \"done_after_ms\"}],
   \"searches\": [{\"query\", \"shows\", \"command\", \"results\": as in `search`}],
   \"trail\": {\"url\", \"command\", and as in `trail`}, \"inventory\": {\"url\", \"command\",
   \"record\": as in `url get`}, \"request\": {\"command\", \"request\": as in `request get`}}

Exit codes: 0 success; 1 failure; 2 invalid command line or setting; 3 stopped before the crawl was
finished.")]
pub(super) struct DemoArgs {
    /// End after the results are shown
    #[arg(long)]
    exit: bool,
}

/// How a demo ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Finished,
    /// Before the crawl was finished.
    Stopped,
}

pub(super) async fn run(
    args: DemoArgs,
    data_flag: Option<PathBuf>,
    user: Config,
    output: &mut Output,
) -> anyhow::Result<()> {
    // Before the temporary directory exists, so that a signal cannot leave it behind.
    let stop = stop_on_signals()?;
    let data = DataDirectory::new(data_flag.as_deref())?;
    let ending = crawl_and_serve(&data, args.exit, &user, &stop, output).await;
    let (path, kept) = (data.path().to_owned(), data.is_kept());
    data.close()?;
    let ending = ending?;
    if !output.is_json() {
        report::end(&path, kept, ending == Ending::Stopped, output)?;
    }
    output.flush()?;
    match ending {
        Ending::Finished => Ok(()),
        Ending::Stopped => Err(AlreadyReported(ExitKind::Stopped).into()),
    }
}

async fn crawl_and_serve(
    data: &DataDirectory,
    exit: bool,
    user: &Config,
    stop: &Shutdown,
    output: &mut Output,
) -> anyhow::Result<Ending> {
    let config = settings::settings(user, data.path())?;
    let listen = settings::listen(user, &config).map_err(UsageError)?;
    permissions::data_directory(data.path())?;
    let web = Web::builder(Plan::demo()).log_file(data.path().join(ACCESS_LOG));
    let server = web.serve().await.context("cannot serve the small web")?;
    let (listening, taken) = listen_or_any_port(listen, &config).await?;
    if !output.is_json() {
        report::begin(server.web(), data, output)?;
        output.flush()?;
    }
    let role = Role::everything();
    let process = Process::new(&config, &role, overrides(&server)?, false, stop.clone()).await?;
    let handles = process.handles.clone();
    let mut serving = Serving::gateway(listening, &handles, &config, &role);
    let started = process.start(&Opening { readiness: &handles.readiness, until: None }).await?;
    let Some(mut worker) = started else { bail!("a stop was requested") };
    handles.readiness.started(worker.failure_check());
    let ending = async {
        serving.announce(&config)?;
        let demo =
            Demo { worker: &worker, serving: &serving, taken, server: &server, data, config: &config, stop };
        let shown = show(&demo, exit, output).await;
        if exit || shown.is_err() {
            stop.request();
        }
        let served = serving.until_the_end(&worker, stop).await;
        shown.and_then(|ending| served.map(|()| ending))
    }
    .await;
    // Without a gateway nothing else has requested it.
    stop.request();
    let drained = worker.drain().await;
    let closed = worker.close().await;
    let ending = ending?;
    drained.and(closed)?;
    Ok(ending)
}

/// Host names that resolve to loopback, and the port of the small web as the only private address that may be fetched.
fn overrides(server: &Server) -> anyhow::Result<Overrides> {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let names = server.web().hosts().map(|host| (host.to_owned(), vec![local])).collect();
    let allowed: AllowedRange = format!("{local}/32:{}", server.web().port()).parse()?;
    let resolver = Some(Arc::new(StaticNames { names }) as Arc<_>);
    Ok(Overrides { allow: vec![allowed], resolver, ..Overrides::default() })
}

/// Listens on this address, or on a free port if its port is in use; then also returns the address that was in use.
async fn listen_or_any_port(
    address: SocketAddr,
    config: &Config,
) -> anyhow::Result<(Listener, Option<SocketAddr>)> {
    match bind(address, config.gateway.access("gateway.listen")).await {
        Ok(listening) => Ok((listening, None)),
        Err(BindError::Io { .. }) => {
            let any_port = SocketAddr::new(address.ip(), 0);
            Ok((bind(any_port, config.gateway.access("gateway.listen")).await?, Some(address)))
        }
        Err(error) => Err(error.into()),
    }
}

/// All parts of a running demo.
struct Demo<'a> {
    worker: &'a Worker,
    serving: &'a Serving,
    /// The preferred address of the gateway, if its port was in use.
    taken: Option<SocketAddr>,
    server: &'a Server,
    data: &'a DataDirectory,
    config: &'a Config,
    stop: &'a Shutdown,
}

/// Crawls, runs the examples, and prints the report.
async fn show(demo: &Demo<'_>, exit: bool, output: &mut Output) -> anyhow::Result<Ending> {
    let Demo { worker, serving, taken, server, data, config, stop } = *demo;
    let web = server.web();
    let definition = Definition {
        sitemaps: true,
        hosts: web.hosts().map(|host| format!("{host}:{}", web.port())).collect(),
        recrawl_after: config.search.recrawl_after(),
        traps: config.search.traps(),
        ..Definition::of_seeds(web.ground_truth().start.iter().cloned())
    };
    let began = Instant::now();
    let started =
        crawl::crawl(worker, CrawlRequest::new(definition), None, crawl::ProgressMode::Terminal, stop)
            .await?;
    let took = began.elapsed();
    if stop.is_requested() {
        return Ok(Ending::Stopped);
    }
    let Some(crawl) = worker.stores.frontier()?.crawl(&started.crawl.id).await? else {
        bail!("crawl `{}` is not in the frontier", started.crawl.id);
    };
    let index = worker.stores.index()?;
    let Some(log) = server.log() else { bail!("the small web has no access log") };
    let (found, pages) = summary::summarise(worker, &*index, &crawl, web, &log.entries()).await?;
    let hosts = politeness::measure(web, log, worker.handles.request.rate_limit.min_delay, &pages);
    let shell = Shell::new(data.path());
    let client = Client::new(Url::parse(&serving.url())?, &config.gateway)?;
    let context = DemoContext { client, web, shell: &shell };
    let (mut fields, mut examples) = (BTreeMap::new(), Vec::new());
    for of_flow in flows::all().iter().filter_map(|flow| flow.demo()) {
        let mut example = tokio::select! {
            example = of_flow.run(&context) => example?,
            _ = stop.requested() => return Ok(Ending::Stopped),
        };
        fields.insert(of_flow.field(), example.json.take());
        examples.push(example);
    }
    let report = report::Report {
        web: report::WebInfo::new(web, server),
        data: report::DataInfo::new(data),
        gateway: report::GatewayInfo::new(serving, taken),
        settings: settings::OVERRIDES,
        crawl: crawl::local_report(worker, &started, crawl, took),
        found,
        hosts,
        searches: examples::searches(&*index, &shell).await?,
        trail: examples::trail(worker, web, &shell).await?,
        fields,
        examples,
    };
    if output.is_json() {
        output.json(&report)?;
    } else {
        report.print(took, exit, &shell, output)?;
    }
    output.flush()?;
    Ok(Ending::Finished)
}
