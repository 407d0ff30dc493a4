//! The routes: one file per subject, and a folder per flow for what is a flow's own.

mod dead;
pub(crate) mod inventory;
mod queues;
mod search;
mod trails;

use crate::{
    auth::{self, Admission, Token},
    callers::{self, AllowedHosts},
    health,
    metrics::{self, RequestMeter, Telemetry},
    openapi,
    parts::{Parts, Shared},
    problem::Problem,
    readiness::Readiness,
    requests::{self, Frame},
};
use axum::{
    Router,
    extract::{DefaultBodyLimit, FromRef},
    middleware,
};
use http::{Method, Uri};
use std::{sync::Arc, time::Duration};
use utoipa_axum::{router::OpenApiRouter, routes};

/// Who may ask, and how much.
#[derive(Debug, Clone)]
pub struct Options {
    /// The admin token; without one everybody who can reach the gateway may use it.
    pub token: Option<Token>,
    /// The names under which it may be asked.
    pub hosts: AllowedHosts,
    /// The largest body, in bytes.
    pub max_body: usize,
    /// How long an answer may take.
    pub time_limit: Duration,
}

impl Default for Options {
    /// No token, loopback's names, bodies up to 1 MiB, 30 s.
    fn default() -> Self {
        Self {
            token: None,
            hosts: AllowedHosts::default(),
            max_body: 1 << 20,
            time_limit: Duration::from_secs(30),
        }
    }
}

/// The whole gateway as a service. [`bind`](crate::bind) listens for it.
pub fn router(parts: Parts, options: Options) -> Router {
    let shared = Shared::new(parts);
    tokio::spawn(watch_rates(shared.clone()));
    tokio::spawn(search::resume_sitemaps(shared.clone()));
    let (router, document) = described();
    let router = router.merge(openapi::routes(document)).fallback(nothing_here);
    let requests = shared.telemetry.requests().clone();
    framed(router.method_not_allowed_fallback(another_method), requests, shared, options)
}

/// Health and metrics alone, for a process that does its work without a gateway.
pub fn health_router(parts: &Parts, options: Options) -> Router {
    health_of(Telemetry::of_parts(parts), options)
}

/// The same while such a process starts.
pub fn starting_health_router(readiness: Readiness, options: Options) -> Router {
    health_of(Telemetry::starting(readiness), options)
}

fn health_of(telemetry: Telemetry, options: Options) -> Router {
    let (router, _) = health_routes::<Telemetry>().split_for_parts();
    let router = router.fallback(only_health_here).method_not_allowed_fallback(another_method);
    framed(router, telemetry.requests().clone(), telemetry, options)
}

/// What holds for every request, around all routes.
pub(crate) fn framed<S: Clone + Send + Sync + 'static>(
    router: Router<S>,
    requests: Arc<RequestMeter>,
    state: S,
    options: Options,
) -> Router {
    let frame = Frame { requests, time_limit: options.time_limit };
    let admission = Admission::new(options.token, options.time_limit);
    router
        .with_state(state)
        .layer(DefaultBodyLimit::max(options.max_body))
        .layer(middleware::from_fn_with_state(options.max_body, requests::announced))
        .layer(middleware::from_fn_with_state(admission, auth::check))
        .layer(middleware::from_fn_with_state(options.hosts, callers::check))
        .layer(middleware::from_fn_with_state(frame, requests::frame))
}

/// The routes and their description.
pub(crate) fn described() -> (Router<Shared>, utoipa::openapi::OpenApi) {
    let (router, mut document) = OpenApiRouter::with_openapi(openapi::frame())
        .merge(search::routes())
        .merge(inventory::routes())
        .merge(trails::routes())
        .merge(queues::routes())
        .merge(dead::routes())
        .merge(health_routes())
        .split_for_parts();
    openapi::complete(&mut document);
    (router, document)
}

fn health_routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S>
where
    Telemetry: FromRef<S>,
    Readiness: FromRef<S>,
{
    OpenApiRouter::new()
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(metrics::metrics))
}

async fn nothing_here(uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    Problem::not_found(format!("there is nothing at `{path}`; `/api/docs/` shows what there is"))
}

async fn only_health_here(uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    Problem::not_found(format!(
        "there is nothing at `{path}`; this process is no gateway, and has `/health/live`, `/health/ready` and `/metrics`"
    ))
}

pub(crate) async fn another_method(method: Method, uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    Problem::method(format!("`{method}` is not for `{path}`; the header `Allow` says what is"))
}

/// Looks at the running crawls every second, so that there is a rate when somebody asks for the first time.
async fn watch_rates(shared: Shared) {
    let stop = shared.parts.stop.clone();
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
            _ = stop.requested() => return,
        }
        // Whoever asks for a crawl is told what is wrong with the store.
        let _ = shared.rates.look(&*shared.parts.frontier).await;
    }
}
