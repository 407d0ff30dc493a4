//! Routes: a file per resource, and a folder per flow.

mod dead_letters;
pub(crate) mod inventory;
mod queues;
mod search;
mod trails;

use crate::{
    auth::{self, Authentication, Token},
    context::{GatewayContext, Shared},
    health,
    metrics::{self, RequestMeter, Telemetry},
    middleware::{self, Tracking},
    openapi,
    origin::{self, AllowedHosts},
    problem::{Problem, excerpt},
    readiness::Readiness,
};
use axum::{
    Router,
    extract::{DefaultBodyLimit, FromRef},
    middleware::from_fn_with_state,
};
use http::{Method, Uri};
use std::{sync::Arc, time::Duration};
use utoipa_axum::{router::OpenApiRouter, routes};

/// Options of a router: authentication and limits of requests.
#[derive(Debug, Clone)]
pub struct RouterOptions {
    /// Admin token; `None` for no authentication.
    pub token: Option<Token>,
    /// Allowed values of the header `Host`.
    pub hosts: AllowedHosts,
    /// Maximum size of a request body in bytes.
    pub max_body: usize,
    /// Timeout of a request.
    pub request_timeout: Duration,
}

impl Default for RouterOptions {
    /// No token, loopback names, bodies up to 1 MiB, 30 s.
    fn default() -> Self {
        Self {
            token: None,
            hosts: AllowedHosts::default(),
            max_body: 1 << 20,
            request_timeout: Duration::from_secs(30),
        }
    }
}

/// Router of the full gateway, for [`Listener::serve`](crate::Listener::serve).
pub fn router(context: GatewayContext, options: RouterOptions) -> Router {
    let shared = Shared::new(context);
    tokio::spawn(sample_crawl_rates(shared.clone()));
    tokio::spawn(search::resume_sitemaps(shared.clone()));
    let (router, document) = documented();
    let router = router.merge(openapi::routes(document)).fallback(not_found);
    let requests = shared.telemetry.requests().clone();
    with_middleware(router.method_not_allowed_fallback(method_not_allowed), requests, shared, options)
}

/// Router with health and metrics alone, for a worker without a gateway.
pub fn health_router(context: &GatewayContext, options: RouterOptions) -> Router {
    telemetry_router(Telemetry::of_gateway(context), options)
}

/// Router with health and metrics alone, while the worker starts.
pub fn starting_health_router(readiness: Readiness, options: RouterOptions) -> Router {
    telemetry_router(Telemetry::starting(readiness), options)
}

fn telemetry_router(telemetry: Telemetry, options: RouterOptions) -> Router {
    let (router, _) = health_routes::<Telemetry>().split_for_parts();
    let router = router.fallback(only_telemetry).method_not_allowed_fallback(method_not_allowed);
    with_middleware(router, telemetry.requests().clone(), telemetry, options)
}

/// Adds the middleware of all requests.
pub(crate) fn with_middleware<S: Clone + Send + Sync + 'static>(
    router: Router<S>,
    requests: Arc<RequestMeter>,
    state: S,
    options: RouterOptions,
) -> Router {
    let tracking = Tracking { requests, timeout: options.request_timeout };
    let authentication = Authentication::new(options.token, options.request_timeout);
    router
        .with_state(state)
        .layer(DefaultBodyLimit::max(options.max_body))
        .layer(from_fn_with_state(options.max_body, middleware::check_content_length))
        .layer(from_fn_with_state(authentication, auth::check))
        .layer(from_fn_with_state(options.hosts, origin::check))
        .layer(from_fn_with_state(tracking, middleware::track))
}

/// Routes with their OpenAPI document.
pub(crate) fn documented() -> (Router<Shared>, utoipa::openapi::OpenApi) {
    let (router, mut document) = OpenApiRouter::with_openapi(openapi::base())
        .merge(search::routes())
        .merge(inventory::routes())
        .merge(trails::routes())
        .merge(queues::routes())
        .merge(dead_letters::routes())
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

async fn not_found(uri: Uri) -> Problem {
    Problem::not_found(format!("no route `{}`; see `/api/docs/`", excerpt(uri.path())))
}

async fn only_telemetry(uri: Uri) -> Problem {
    Problem::not_found(format!(
        "no route `{}`; this process is no gateway, and has `/health/live`, `/health/ready` and `/metrics`",
        excerpt(uri.path())
    ))
}

pub(crate) async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    let path = excerpt(uri.path());
    Problem::method(format!("`{method}` is not allowed for `{path}`; see the header `Allow`"))
}

/// Runs an operation to its end, also when the client disconnects or the request times out.
async fn uncancelled<T: Send + 'static>(
    operation: impl Future<Output = Result<T, Problem>> + Send + 'static,
    interrupted: &'static str,
) -> Result<T, Problem> {
    tokio::spawn(operation).await.unwrap_or_else(|error| {
        tracing::error!(%error, "operation of a request panicked");
        Err(Problem::internal(interrupted))
    })
}

/// Default number of entries in a list.
fn default_limit() -> usize {
    50
}

/// Samples the running crawls every second, so that the first request for a crawl has a rate.
async fn sample_crawl_rates(shared: Shared) {
    let stop = shared.context.stop.clone();
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
            _ = stop.requested() => return,
        }
        // Requests report an outage of the store.
        let _ = shared.rates.sample(&*shared.context.frontier).await;
    }
}
