//! Routes: a file per resource, and a folder per flow.

mod blobs;
mod dead_letters;
mod inventory;
mod queues;
mod requests;
mod search;
mod tokens;
mod trails;

pub(crate) use blobs::is_signed;

pub use blobs::blob_routes;
pub use inventory::inventory_routes;
pub use requests::request_routes;
pub use search::search_routes;

use crate::{
    auth::{self, Authentication, Token},
    context::GatewayContext,
    health,
    metrics::{self, RequestMeter, Telemetry},
    middleware::{self, Tracking},
    openapi,
    origin::{self, AllowedHosts},
    problem::Problem,
    readiness::Readiness,
    requests::RequestService,
    service::{Error, excerpt},
    state::GatewayState,
    token_cache::TokenCache,
    token_limits::TokenLimits,
};
use axum::{
    Extension, Router,
    extract::{DefaultBodyLimit, FromRef},
    middleware::from_fn_with_state,
};
use crawlway_clock::Clock;
use crawlway_store::BlobStore;
use http::{Method, Uri};
use std::{fmt, sync::Arc, time::Duration};
use utoipa_axum::{router::OpenApiRouter, routes};

/// Options of a router: authentication and limits of requests.
#[derive(Debug, Clone)]
pub struct RouterOptions {
    /// Admin token; `None` for access without a token.
    pub token: Option<Token>,
    /// Limits of each stored token.
    pub token_limits: TokenLimits,
    /// Allowed values of the header `Host`.
    pub hosts: AllowedHosts,
    /// Maximum size of a request body in bytes.
    pub max_body: usize,
    /// Timeout of a request.
    pub request_timeout: Duration,
}

impl Default for RouterOptions {
    /// No admin token, loopback names, bodies up to 1 MiB, 30 s.
    fn default() -> Self {
        Self {
            token: None,
            token_limits: TokenLimits::default(),
            hosts: AllowedHosts::default(),
            max_body: 1 << 20,
            request_timeout: Duration::from_secs(30),
        }
    }
}

/// Routes of a flow, with its background tasks.
#[derive(Clone)]
pub struct FlowRoutes {
    /// Routes with their OpenAPI documentation.
    pub routes: OpenApiRouter<GatewayState>,
    /// Starts the background tasks of the routes.
    pub start: Option<fn(GatewayState)>,
    /// Routes for the role `user`, with all routes below them; all others are for admins.
    pub user_paths: &'static [&'static str],
}

impl FlowRoutes {
    /// Routes for admins, without background tasks.
    pub fn new(routes: OpenApiRouter<GatewayState>) -> Self {
        Self { routes, start: None, user_paths: &[] }
    }

    /// Opens routes to the role `user`, such as `/api/requests` with all routes below it.
    pub fn for_users(self, user_paths: &'static [&'static str]) -> Self {
        Self { user_paths, ..self }
    }

    /// Routes of the flow `search`. Its tasks sample crawl rates and read sitemaps.
    pub fn search() -> Self {
        let start = Some(search::start_tasks as fn(GatewayState));
        Self { start, ..Self::new(search_routes()) }.for_users(&["/api/search"])
    }

    /// Routes of the flow `requests`.
    pub fn requests(service: RequestService) -> Self {
        Self::new(request_routes().layer(Extension(service))).for_users(&["/api/requests"])
    }

    /// Routes of the blobs in a store.
    pub fn blobs(store: Arc<dyn BlobStore>) -> Self {
        Self::new(blob_routes().layer(Extension(store)))
    }

    /// Routes of the flow `inventory`.
    pub fn inventory() -> Self {
        Self::new(inventory_routes())
    }
}

impl fmt::Debug for FlowRoutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<&String> = self.routes.get_openapi().paths.paths.keys().collect();
        f.debug_struct("FlowRoutes").field("paths", &paths).finish_non_exhaustive()
    }
}

/// Router of a gateway with these flows, for [`Listener::serve`](crate::Listener::serve). It serves before the stores of the
/// context are connected.
pub fn router(context: GatewayContext, flows: Vec<FlowRoutes>, options: RouterOptions) -> Router {
    let state = GatewayState::new(context);
    for start in flows.iter().filter_map(|flow| flow.start) {
        start(state.clone());
    }
    let user_paths = flows.iter().flat_map(|flow| flow.user_paths).copied().collect();
    let (router, document) = documented(flows);
    let router = router.merge(openapi::routes(document)).fallback(not_found);
    let requests = state.telemetry().requests().clone();
    let access =
        Access { tokens: state.token_cache().clone(), user_paths, clock: state.context().clock.clone() };
    with_middleware(router.method_not_allowed_fallback(method_not_allowed), requests, state, access, options)
}

/// Router with health and metrics alone, for a process without a gateway.
pub fn health_router(context: &GatewayContext, options: RouterOptions) -> Router {
    let telemetry = Telemetry::new(context);
    let (router, _) = health_routes::<Telemetry>().split_for_parts();
    let router = router.fallback(only_telemetry).method_not_allowed_fallback(method_not_allowed);
    let tokens = TokenCache::new(context.tokens.clone());
    let access = Access { tokens, user_paths: Vec::new(), clock: context.clock.clone() };
    with_middleware(router, telemetry.requests().clone(), telemetry, access, options)
}

/// Stored tokens, and what users may do with theirs.
struct Access {
    tokens: TokenCache,
    user_paths: Vec<&'static str>,
    clock: Clock,
}

/// Adds the middleware of all requests.
fn with_middleware<S: Clone + Send + Sync + 'static>(
    router: Router<S>,
    requests: Arc<RequestMeter>,
    state: S,
    access: Access,
    options: RouterOptions,
) -> Router {
    let tracking = Tracking { requests, timeout: options.request_timeout };
    let Access { tokens, user_paths, clock } = access;
    let RouterOptions { token, token_limits, request_timeout, .. } = options;
    let authentication = Authentication::new(token, tokens, token_limits, user_paths, clock, request_timeout);
    router
        .with_state(state)
        .layer(DefaultBodyLimit::max(options.max_body))
        .layer(from_fn_with_state(options.max_body, middleware::check_content_length))
        .layer(from_fn_with_state(authentication, auth::check))
        .layer(from_fn_with_state(options.hosts, origin::check))
        .layer(from_fn_with_state(tracking, middleware::track))
}

/// Common routes and those of the flows, with their OpenAPI document.
pub(crate) fn documented(flows: Vec<FlowRoutes>) -> (Router<GatewayState>, utoipa::openapi::OpenApi) {
    let base = OpenApiRouter::with_openapi(openapi::base());
    let (router, mut document) = flows
        .into_iter()
        .fold(base, |router, flow| router.merge(flow.routes))
        .merge(trails::routes())
        .merge(queues::routes())
        .merge(dead_letters::routes())
        .merge(tokens::routes())
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
    Problem::no_route(format!(
        "no route `{}`; `/api/docs/` has those of the flows that run here (`flows`)",
        excerpt(uri.path())
    ))
}

async fn only_telemetry(uri: Uri) -> Problem {
    Problem::no_route(format!(
        "no route `{}`; this process is no gateway, and has `/health/live`, `/health/ready` and `/metrics`",
        excerpt(uri.path())
    ))
}

async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    let path = excerpt(uri.path());
    Problem::method(format!("`{method}` is not allowed for `{path}`; see the header `Allow`"))
}

/// Runs an operation to its end, also when the client disconnects or the request times out.
async fn uncancelled<T: Send + 'static>(
    operation: impl Future<Output = Result<T, Error>> + Send + 'static,
    interrupted: &'static str,
) -> Result<T, Problem> {
    let result = tokio::spawn(operation).await.map_err(|error| {
        tracing::error!(%error, "operation of a request panicked");
        Problem::internal(interrupted)
    })?;
    Ok(result?)
}

/// Default number of entries in a list.
fn default_limit() -> usize {
    50
}
