//! `/api/tokens`: access tokens.

use super::uncancelled;
use crate::{
    dto::{CreatedToken, NewToken, TokenList, TokenView},
    extract::{JsonBody, PathParams},
    problem::Problem,
    service,
    state::GatewayState,
};
use axum::{Json, extract::State, response::AppendHeaders};
use http::{StatusCode, header};
use utoipa_axum::{router::OpenApiRouter, routes};

/// Created token, with headers that keep it out of caches.
type Created = (StatusCode, AppendHeaders<[(header::HeaderName, &'static str); 1]>, Json<CreatedToken>);

pub(super) fn routes() -> OpenApiRouter<GatewayState> {
    OpenApiRouter::new().routes(routes!(list, add)).routes(routes!(revoke))
}

/// List tokens, oldest first; revoked and expired ones stay in the list
#[utoipa::path(get, path = "/api/tokens", operation_id = "listTokens", tag = "tokens", responses((status = OK, body = TokenList)))]
async fn list(State(state): State<GatewayState>) -> Result<Json<TokenList>, Problem> {
    Ok(Json(service::tokens::list(&*state.tokens()?).await?))
}

/// Make a token; only this response has its secret
#[utoipa::path(post, path = "/api/tokens", operation_id = "addToken", tag = "tokens", request_body = NewToken, responses(
    (status = CREATED, body = CreatedToken),
    (status = BAD_REQUEST, description = "Invalid e-mail or lifetime"),
))]
async fn add(
    State(state): State<GatewayState>,
    JsonBody(new): JsonBody<NewToken>,
) -> Result<Created, Problem> {
    let (tokens, now) = (state.tokens()?, state.context().clock.now());
    let add = async move { service::tokens::add(&*tokens, &new, now).await };
    let created = uncancelled(add, "making the token was interrupted; list the tokens").await?;
    Ok((StatusCode::CREATED, AppendHeaders([(header::CACHE_CONTROL, "no-store")]), Json(created)))
}

/// Revoke a token; at the other gateways this holds within 5 s
#[utoipa::path(delete, path = "/api/tokens/{id}", operation_id = "revokeToken", tag = "tokens",
    params(("id" = String, Path, description = "Public id of the token")), responses(
    (status = OK, body = TokenView),
    (status = NOT_FOUND, description = "Unknown token"),
))]
async fn revoke(
    State(state): State<GatewayState>,
    PathParams(id): PathParams<String>,
) -> Result<Json<TokenView>, Problem> {
    let (tokens, now, cache) = (state.tokens()?, state.context().clock.now(), state.token_cache().clone());
    let revoke = async move {
        let revoked = service::tokens::revoke(&*tokens, &id, now).await?;
        cache.evict(&revoked.hash);
        Ok(revoked)
    };
    let revoked = uncancelled(revoke, "the revocation was interrupted; list the tokens").await?;
    Ok(Json(revoked.into()))
}
