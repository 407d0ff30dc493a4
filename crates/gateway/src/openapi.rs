//! OpenAPI document (`/api/openapi.json`), and Swagger UI (`/api/docs/`) without external resources.

use crate::{
    problem::{PROBLEM_JSON, Problem},
    routes::{FlowRoutes, blob_routes, documented, request_routes},
    serve::StaticBody,
};
use axum::{
    Extension, Router,
    body::Bytes,
    extract::Path,
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use http::{HeaderValue, Method, header};
use std::{borrow::Cow, collections::BTreeSet, sync::Arc};
use utoipa::{
    OpenApi, ToSchema,
    openapi::{
        Content, Ref, RefOr, ResponseBuilder,
        path::{Operation, PathItem},
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};
use utoipa_swagger_ui::Config;

/// Path of the OpenAPI document.
const DOCUMENT: &str = "/api/openapi.json";
/// Path of Swagger UI.
const PAGE: &str = "/api/docs";
/// Paths that redirect to Swagger UI.
const REDIRECTS: [&str; 3] = ["/", "/api", "/api/"];

/// Content security policy of Swagger UI, which has inline styles.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
     img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Crawlway",
        description = "Crawls, search, trails, queues and dead letters over HTTP.\n\n\
            Errors are `application/problem+json` (RFC 9457). Send a token as `Authorization: Bearer TOKEN`, unless the \
            gateway needs none; health and metrics never do. A token with the role `user` can use its own requests and search, \
            all other routes need the role `admin`. Every response has a request id in `x-request-id`."
    ),
    tags(
        (name = "crawls", description = "Flow `search`: crawls, and the pages they index"),
        (name = "search", description = "Full-text search and stored pages"),
        (name = "urls", description = "Flow `inventory`: URLs to fetch, and their records"),
        (name = "requests", description = "Flow `requests`: URLs that a worker fetches for a user"),
        (name = "blobs", description = "Raw contents of pages"),
        (name = "trails", description = "Event histories of items"),
        (name = "queues", description = "Queues and their depth"),
        (name = "dead letters", description = "Messages that failed for good, for replay or removal"),
        (name = "tokens", description = "Access tokens of users and admins"),
        (name = "health", description = "Liveness, readiness and metrics"),
    ),
    components(schemas(Problem)),
)]
struct Base;

/// OpenAPI document of a gateway with the built-in flows.
pub fn document() -> utoipa::openapi::OpenApi {
    let flows = [request_routes(), blob_routes()].map(FlowRoutes::new);
    documented([vec![FlowRoutes::search(), FlowRoutes::inventory()], flows.into()].concat()).1
}

/// OpenAPI document without routes.
pub(crate) fn base() -> utoipa::openapi::OpenApi {
    let mut base = Base::openapi();
    // Swagger UI would link it, and no URL covers two licences.
    if let Some(licence) = &mut base.info.license {
        licence.identifier = None;
    }
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let components = base.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    base
}

/// Adds the parts common to all operations: problem details for errors, and the security scheme. Removes unused tags.
pub(crate) fn complete(document: &mut utoipa::openapi::OpenApi) {
    let problem = Content::new(Some(Ref::from_schema_name(Problem::name())));
    let mut used = BTreeSet::new();
    // A parameter of several segments is written like any other.
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths = paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    for (path, item) in &mut document.paths.paths {
        for operation in operations(item) {
            used.extend(operation.tags.iter().flatten().cloned());
            let responses = &mut operation.responses.responses;
            let other = ResponseBuilder::new().description("Any other error").build();
            responses.insert("default".to_owned(), other.into());
            for (status, response) in responses {
                let RefOr::T(response) = response else { continue };
                if !status.starts_with('2') && response.content.is_empty() {
                    response.content.insert(PROBLEM_JSON.to_owned(), problem.clone().into());
                }
                // Required by OpenAPI, also where the schema says it all.
                if response.description.is_empty() {
                    response.description = "Success".to_owned();
                }
            }
            if path.starts_with("/api/") || path == "/" {
                operation.security = Some(vec![
                    SecurityRequirement::default(),
                    SecurityRequirement::new::<_, [&str; 0], &str>("token", []),
                ]);
            }
        }
    }
    // The base has the tags of all built-in flows.
    document.tags.iter_mut().for_each(|tags| tags.retain(|tag| used.contains(&tag.name)));
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete].into_iter().flatten()
}

/// Whether this is a path of the OpenAPI document or of Swagger UI, which people open in a browser.
pub(crate) fn is_page(path: &str) -> bool {
    path == DOCUMENT || path == PAGE || path.strip_prefix(PAGE).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether this is a redirect to Swagger UI, which needs no token.
pub(crate) fn is_redirect(method: &Method, path: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD) && REDIRECTS.contains(&path)
}

/// Redirects from the paths that people try first to Swagger UI.
fn redirects<S: Clone + Send + Sync + 'static>() -> Router<S> {
    // Temporary, since these paths may get a page of their own.
    let redirect = || get(|| async { Redirect::temporary("/api/docs/") });
    REDIRECTS.into_iter().fold(Router::new(), |router, path| router.route(path, redirect()))
}

/// Routes of the OpenAPI document and of Swagger UI.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(document: utoipa::openapi::OpenApi) -> Router<S> {
    // Serialized once; plain JSON cannot fail.
    let document: Bytes = serde_json::to_vec(&document).unwrap_or_default().into();
    let json = move || async move {
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        (kind, Extension(StaticBody), document)
    };
    let config = Arc::new(
        Config::from(DOCUMENT)
            .try_it_out_enabled(true)
            .display_request_duration(true)
            .persist_authorization(false)
            // The default sends the document to an external validator.
            .validator_url("none"),
    );
    let page = |path: String, config: Arc<Config<'static>>| async move { file(&path, config) };
    let first = config.clone();
    redirects()
        .route(DOCUMENT, get(json))
        .route(PAGE, get(|| async { Redirect::permanent("/api/docs/") }))
        .route("/api/docs/", get(move || page(String::new(), first)))
        .route("/api/docs/{*file}", get(move |Path(path): Path<String>| page(path, config)))
}

fn file(path: &str, config: Arc<Config<'static>>) -> Response {
    let file = match utoipa_swagger_ui::serve(path, config) {
        Ok(file) => file,
        Err(error) => return Problem::internal(error.to_string()).into_response(),
    };
    let Some(file) = file else {
        return Problem::not_found("Swagger UI has no such file").into_response();
    };
    let mut response = match file.bytes {
        Cow::Borrowed(bytes) => (Extension(StaticBody), Bytes::from_static(bytes)).into_response(),
        Cow::Owned(bytes) => bytes.into_response(),
    };
    let headers = response.headers_mut();
    if let Ok(kind) = HeaderValue::from_str(&file.content_type) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
