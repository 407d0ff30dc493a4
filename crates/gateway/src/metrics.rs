//! `/metrics`: Prometheus metrics of the process. Counted by `StageMetrics` (`crates/flow`), `Fetcher::outcomes` (`crates/fetch`), the depth of
//! the queues and [`RequestMeter`]; a new metric is a field of [`Snapshot`] and a line in its `encode`.

use crate::{
    coalescing::CoalescingCache,
    context::{GatewayContext, Meters},
    later::Later,
    problem::Problem,
    readiness::Readiness,
};
use axum::{
    extract::{FromRef, State},
    response::{IntoResponse, Response},
};
use crawlway_broker::{DeadLetters, Depth, QueueName};
use crawlway_fetch::Fetcher;
use crawlway_flow::StageSnapshot;
use http::{Method, header};
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet, text},
    metrics::MetricType,
    registry::Registry,
};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Timeout of a queue depth, after which the queue is left out.
const DEPTH_TIMEOUT: Duration = Duration::from_secs(1);
/// Upper bounds of the request duration histogram, in milliseconds.
const REQUEST_BUCKETS_MS: [u64; 10] = [1, 5, 10, 25, 50, 100, 250, 1_000, 5_000, 30_000];

/// Request counters and durations by route, method and status.
#[derive(Debug, Default)]
pub(crate) struct RequestMeter(Mutex<BTreeMap<RequestKey, Times>>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RequestKey {
    route: String,
    method: &'static str,
    status: u16,
}

#[derive(Debug, Clone, Default)]
struct Times {
    count: u64,
    seconds: f64,
    took: [u64; REQUEST_BUCKETS_MS.len() + 1],
}

impl RequestMeter {
    pub(crate) fn count(&self, method: &Method, route: String, status: u16, took: Duration) {
        // Bounds the label values: a client may send any method.
        let method = match *method {
            Method::GET => "GET",
            Method::HEAD => "HEAD",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            Method::OPTIONS => "OPTIONS",
            _ => "other",
        };
        let mut all = self.0.lock();
        let times = all.entry(RequestKey { route, method, status }).or_default();
        times.count += 1;
        times.seconds += took.as_secs_f64();
        let place = REQUEST_BUCKETS_MS.partition_point(|bound| u128::from(*bound) < took.as_millis());
        times.took[place] += 1;
    }

    fn read(&self) -> BTreeMap<RequestKey, Times> {
        self.0.lock().clone()
    }
}

/// Sources of the metrics. One that is not connected yet has no values.
#[derive(Debug, Clone)]
pub(crate) struct Telemetry {
    readiness: Readiness,
    requests: Arc<RequestMeter>,
    queues: Later<dyn DeadLetters>,
    depths: CoalescingCache<Vec<(String, Depth)>>,
    fetcher: Later<Fetcher>,
    meters: Meters,
}

impl Telemetry {
    pub(crate) fn new(context: &GatewayContext) -> Self {
        Self {
            readiness: context.readiness.clone(),
            requests: Arc::default(),
            queues: context.queues.clone(),
            depths: CoalescingCache::default(),
            fetcher: context.fetcher.clone(),
            meters: context.meters.clone(),
        }
    }

    /// Meter of the requests.
    pub(crate) fn requests(&self) -> &Arc<RequestMeter> {
        &self.requests
    }

    async fn queue_depths(&self) -> Vec<(String, Depth)> {
        let Some(queues) = self.queues.get() else { return Vec::new() };
        self.depths.get(DEPTH_TIMEOUT * 2, || queue_depths(queues)).await.unwrap_or_default()
    }
}

impl FromRef<Telemetry> for Readiness {
    fn from_ref(telemetry: &Telemetry) -> Self {
        telemetry.readiness.clone()
    }
}

/// Get metrics for Prometheus
#[utoipa::path(get, path = "/metrics", operation_id = "getMetrics", tag = "health", responses(
    (status = OK, body = String, content_type = "application/openmetrics-text", description = "OpenMetrics text format"),
))]
pub(crate) async fn metrics(State(telemetry): State<Telemetry>) -> Result<Response, Problem> {
    let snapshot = Snapshot::take(&telemetry).await;
    let mut registry = Registry::default();
    registry.register_collector(Box::new(snapshot));
    let mut body = String::new();
    text::encode(&mut body, &registry).map_err(|error| Problem::internal(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response())
}

/// All values at one point in time.
#[derive(Debug)]
struct Snapshot {
    stages: Vec<(&'static str, &'static str, StageSnapshot)>,
    queues: Vec<(String, Depth)>,
    fetches: BTreeMap<String, u64>,
    requests: BTreeMap<RequestKey, Times>,
    ready: Vec<(&'static str, bool)>,
}

impl Snapshot {
    /// Snapshot of all sources. One that does not respond leaves out only its own values.
    async fn take(telemetry: &Telemetry) -> Self {
        let (queues, ready) = tokio::join!(telemetry.queue_depths(), telemetry.readiness.check());
        let meters = telemetry.meters.read().into_iter();
        Self {
            stages: meters.map(|one| (one.flow, one.stage, one.meter.read())).collect(),
            queues,
            fetches: telemetry.fetcher.get().map(|fetcher| fetcher.outcomes()).unwrap_or_default(),
            requests: telemetry.requests.read(),
            ready: ready.into_iter().map(|one| (one.name, one.ready)).collect(),
        }
    }
}

/// Depth of each queue that responds in time.
async fn queue_depths(queues: Arc<dyn DeadLetters>) -> Vec<(String, Depth)> {
    let specs = queues.queues().await.unwrap_or_default();
    let depth = |name: QueueName| {
        let queues = &queues;
        async move {
            match tokio::time::timeout(DEPTH_TIMEOUT, queues.depth(&name)).await {
                Ok(Ok(depth)) => Some((name.to_string(), depth)),
                _ => None,
            }
        }
    };
    let depths = futures::future::join_all(specs.into_iter().map(|spec| depth(spec.name))).await;
    depths.into_iter().flatten().collect()
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.encode_stages(&mut encoder)?;
        self.encode_queues(&mut encoder)?;
        let fetches = self.fetches.iter().map(|(code, count)| ([("code", code.as_str())], *count));
        counters(&mut encoder, "crawlway_fetches", "Finished fetches by HTTP status or error code", fetches)?;
        self.encode_requests(&mut encoder)?;
        let ready =
            self.ready.iter().map(|(name, ready)| ([("dependency", *name)], f64::from(u8::from(*ready))));
        gauges(&mut encoder, "crawlway_ready", "Readiness of a dependency, 1 or 0", ready)?;
        let version = [([("version", env!("CARGO_PKG_VERSION"))], 1.0)];
        gauges(&mut encoder, "crawlway_build_info", "Version of the program; always 1", version)
    }
}

impl Snapshot {
    fn encode_stages(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let of = |flow: &'static str, stage: &'static str| [("flow", flow), ("stage", stage)];
        let outcomes = self.stages.iter().flat_map(|(flow, stage, reading)| {
            let outcomes = reading.outcomes.iter();
            outcomes.map(move |(outcome, count)| {
                ([("flow", *flow), ("stage", *stage), ("outcome", *outcome)], *count)
            })
        });
        counters(encoder, "crawlway_stage_items", "Finished attempts of a stage by outcome", outcomes)?;
        let fenced = self.stages.iter().map(|(flow, stage, reading)| (of(flow, stage), reading.fenced));
        counters(
            encoder,
            "crawlway_stage_fenced",
            "Items that were fenced before they were settled",
            fenced,
        )?;
        let outages = self.stages.iter().map(|(flow, stage, reading)| (of(flow, stage), reading.outages));
        counters(encoder, "crawlway_stage_outages", "Outages of a dependency of a stage", outages)?;
        let in_flight = self.stages.iter().flat_map(|(flow, stage, reading)| {
            [("running", reading.running), ("finishing", reading.finishing)]
                .map(|(state, count)| ([("flow", *flow), ("stage", *stage), ("state", state)], count as f64))
        });
        gauges(
            encoder,
            "crawlway_stage_in_flight",
            "Items of a stage that run or are being finished (published, recorded, settled)",
            in_flight,
        )?;
        let times = self.stages.iter().map(|(flow, stage, reading)| {
            let seconds = reading.took_ms as f64 / 1000.0;
            (of(flow, stage), seconds, buckets(reading.took.iter().copied()))
        });
        histograms(encoder, "crawlway_stage_duration_seconds", "Duration of an attempt of a stage", times)
    }

    fn encode_queues(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let depths = self.queues.iter().flat_map(|(queue, depth)| {
            let states = [
                ("ready", depth.ready),
                ("in_flight", depth.in_flight),
                ("delayed", depth.delayed),
                ("dead", depth.dead),
            ];
            states.map(|(state, count)| ([("queue", queue.as_str()), ("state", state)], count as f64))
        });
        gauges(encoder, "crawlway_queue_messages", "Messages of a queue by state", depths)?;
        let ages = self.queues.iter().filter_map(|(queue, depth)| {
            depth.oldest_age.map(|age| ([("queue", queue.as_str())], age.as_secs_f64()))
        });
        gauges(encoder, "crawlway_queue_oldest_age_seconds", "Age of the oldest pending message", ages)?;
        let rates = self.queues.iter().filter_map(|(queue, depth)| Some((queue, depth.rates?)));
        let rates = rates.flat_map(|(queue, rates)| {
            [("published", rates.published), ("settled", rates.settled)]
                .map(|(what, rate)| ([("queue", queue.as_str()), ("what", what)], rate))
        });
        gauges(
            encoder,
            "crawlway_queue_messages_per_second",
            "Rate of published messages and settled deliveries of a queue, over all processes",
            rates,
        )?;
        let paused = self
            .queues
            .iter()
            .map(|(queue, depth)| ([("queue", queue.as_str())], f64::from(u8::from(depth.paused))));
        gauges(encoder, "crawlway_queue_paused", "Whether deliveries are paused, 1 or 0", paused)
    }

    fn encode_requests(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let statuses: Vec<String> = self.requests.keys().map(|key| key.status.to_string()).collect();
        let counts = self.requests.iter().zip(&statuses).map(|((key, times), status)| {
            let labels = [("route", key.route.as_str()), ("method", key.method), ("status", status.as_str())];
            (labels, times.count)
        });
        counters(encoder, "crawlway_gateway_requests", "HTTP requests", counts)?;
        let times = self.requests.iter().zip(&statuses).map(|((key, times), status)| {
            let labels = [("route", key.route.as_str()), ("method", key.method), ("status", status.as_str())];
            let bounds = REQUEST_BUCKETS_MS.iter().copied().map(Some).chain([None]);
            (labels, times.seconds, buckets(bounds.zip(times.took)))
        });
        histograms(encoder, "crawlway_gateway_request_duration_seconds", "Duration of an HTTP request", times)
    }
}

/// Histogram buckets with bounds in seconds, the last one infinite.
fn buckets(took: impl Iterator<Item = (Option<u64>, u64)>) -> Vec<(f64, u64)> {
    took.map(|(bound, count)| (bound.map_or(f64::INFINITY, |millis| millis as f64 / 1000.0), count)).collect()
}

/// Writes a counter. The encoder appends `_total` to its name.
fn counters<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, u64)>,
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in values {
        metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
    }
    Ok(())
}

fn gauges<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, f64)>,
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        metric.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

fn histograms<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, f64, Vec<(f64, u64)>)>,
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (labels, sum, buckets) in values {
        let count = buckets.iter().map(|(_, count)| count).sum();
        metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}
