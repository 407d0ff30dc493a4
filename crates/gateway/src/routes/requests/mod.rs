//! Routes of the flow `requests`.

mod events;
mod user_requests;

use crate::state::GatewayState;
use utoipa_axum::{router::OpenApiRouter, routes};

/// Routes of the flow `requests`: `/api/requests`. They take the service from the extensions of a request.
pub fn request_routes() -> OpenApiRouter<GatewayState> {
    OpenApiRouter::new()
        .routes(routes!(user_requests::add, user_requests::list, user_requests::delete_all))
        .routes(routes!(events::events))
        .routes(routes!(user_requests::one, user_requests::delete))
}
