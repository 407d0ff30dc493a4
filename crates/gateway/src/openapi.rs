//! The API described for programs (`/api/openapi.json`) and on a page (`/api/docs/`) that needs nothing from elsewhere.

use crate::{
    problem::{PROBLEM_JSON, Problem},
    serve::KeptAnyway,
};
use axum::{
    Extension, Router,
    body::Bytes,
    extract::Path,
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use http::{HeaderValue, Method, header};
use std::{borrow::Cow, sync::Arc};
use utoipa::{
    OpenApi, ToSchema,
    openapi::{
        Content, Ref, RefOr, ResponseBuilder,
        path::{Operation, PathItem},
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};
use utoipa_swagger_ui::Config;

/// Where the description is.
const DOCUMENT: &str = "/api/openapi.json";
/// Where the page is.
const PAGE: &str = "/api/docs";
/// What leads to the page.
const LEADS_TO_PAGE: [&str; 3] = ["/", "/api", "/api/"];

/// The page runs its own scripts and asks this gateway only. Its styles are partly in its elements.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
     img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Crawlway",
        description = "Crawls, search, trails, queues and dead letters over HTTP.\n\n\
            Errors are `application/problem+json`. If a token is set, send it as `Authorization: Bearer TOKEN`; \
            health and metrics need none. Every answer has the id of its request in `x-request-id`."
    ),
    tags(
        (name = "crawls", description = "The flow `search`: crawl pages and index them"),
        (name = "search", description = "Find pages by what they say"),
        (name = "urls", description = "The flow `inventory`: ask for URLs, and read what came back"),
        (name = "trails", description = "What happened to an item"),
        (name = "queues", description = "Where items wait"),
        (name = "dead letters", description = "What was given up, and why"),
        (name = "health", description = "Whether the process lives and works"),
    ),
    components(schemas(Problem)),
)]
struct Frame;

/// The API, described. Every route is in it.
pub fn document() -> utoipa::openapi::OpenApi {
    crate::routes::described().1
}

/// What the routes are added to.
pub(crate) fn frame() -> utoipa::openapi::OpenApi {
    let mut frame = Frame::openapi();
    // The page would make a link of it, and there is no address for two licences at once.
    if let Some(licence) = &mut frame.info.license {
        licence.identifier = None;
    }
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let components = frame.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    frame
}

/// Adds what holds for every operation: how errors look, and that a token may be needed.
pub(crate) fn complete(document: &mut utoipa::openapi::OpenApi) {
    for (path, item) in &mut document.paths.paths {
        for operation in operations(item) {
            let problem = Content::new(Some(Ref::from_schema_name(Problem::name())));
            let answer =
                ResponseBuilder::new().description("What went wrong").content(PROBLEM_JSON, problem).build();
            operation.responses.responses.insert("default".to_owned(), answer.into());
            for response in operation.responses.responses.values_mut() {
                // Where the shape says it all, one is needed all the same for the document to be valid.
                if let RefOr::T(response) = response
                    && response.description.is_empty()
                {
                    response.description = "What was asked for".to_owned();
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
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete].into_iter().flatten()
}

/// Whether this is the description or its page, which a person opens in a browser.
pub(crate) fn is_page(path: &str) -> bool {
    path == DOCUMENT || path == PAGE || path.strip_prefix(PAGE).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether this only leads to the page, which strangers may know of.
pub(crate) fn leads_to_page(method: &Method, path: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD) && LEADS_TO_PAGE.contains(&path)
}

/// Addresses that a person tries first; they lead to the page.
pub(crate) fn redirects<S: Clone + Send + Sync + 'static>() -> Router<S> {
    // Not for good: one day there may be something there.
    let lead = || get(|| async { Redirect::temporary("/api/docs/") });
    LEADS_TO_PAGE.into_iter().fold(Router::new(), |router, path| router.route(path, lead()))
}

/// The routes of the description and its page.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(document: utoipa::openapi::OpenApi) -> Router<S> {
    // Nothing in it can fail to be written, and it is written once.
    let document: Bytes = serde_json::to_vec(&document).unwrap_or_default().into();
    let described = move || async move {
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        (kind, Extension(KeptAnyway), document)
    };
    let config = Arc::new(
        Config::from(DOCUMENT)
            .try_it_out_enabled(true)
            .display_request_duration(true)
            .persist_authorization(false)
            // Otherwise the page would have the document checked by a server elsewhere.
            .validator_url("none"),
    );
    let page = |path: String, config: Arc<Config<'static>>| async move { file(&path, config) };
    let first = config.clone();
    redirects()
        .route(DOCUMENT, get(described))
        .route(PAGE, get(|| async { Redirect::permanent("/api/docs/") }))
        .route("/api/docs/", get(move || page(String::new(), first)))
        .route("/api/docs/{*file}", get(move |Path(path): Path<String>| page(path, config)))
}

fn file(path: &str, config: Arc<Config<'static>>) -> Response {
    let found = match utoipa_swagger_ui::serve(path, config) {
        Ok(found) => found,
        Err(error) => return Problem::internal(error.to_string()).into_response(),
    };
    let Some(file) = found else {
        return Problem::not_found("the page has no such file").into_response();
    };
    // Most files are parts of the program.
    let mut answer = match file.bytes {
        Cow::Borrowed(bytes) => (Extension(KeptAnyway), Bytes::from_static(bytes)).into_response(),
        Cow::Owned(bytes) => bytes.into_response(),
    };
    let headers = answer.headers_mut();
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
    answer
}
