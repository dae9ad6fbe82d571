//! The figures that applications report of themselves: `PUT /v1/readings/{name}`, and the newest of each.
//!
//! A camera knows its frames per second, a transfer what it has moved: beside what the network gives, that is what
//! people want to see.

use crate::broker::Broker;
use crate::caller::ConnectionPeer;
use crate::problem::{BoxedProblem, Problem};
use crate::request_body::body;
use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{Request, StatusCode};
use documents::overview::{ReadingWish, Readings};
use std::sync::Arc;

/// Report the newest value of a figure. It is forgotten after a minute without a newer one.
#[utoipa::path(put, path = "/v1/readings/{name}", params(("name" = String, Path)), request_body = ReadingWish,
    responses((status = 204), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn put(
    State(broker): State<Arc<Broker>>,
    Extension(peer): Extension<ConnectionPeer>,
    Path(name): Path<String>,
    request: Request<Body>,
) -> Result<StatusCode, BoxedProblem> {
    let caller = peer.caller()?;
    let wish: ReadingWish = body(&broker, request).await?;
    broker.readings().put(&caller, &name, wish, broker.clock.today())?;
    Ok(StatusCode::NO_CONTENT)
}

/// The newest readings of the caller's applications; for an operator or auditor, of all.
#[utoipa::path(get, path = "/v1/readings",
    responses((status = 200, body = Readings), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn list(
    State(broker): State<Arc<Broker>>,
    Extension(peer): Extension<ConnectionPeer>,
) -> Result<Json<Readings>, BoxedProblem> {
    let caller = peer.caller()?;
    Ok(Json(Readings { readings: broker.readings().list(&caller, broker.clock.today()) }))
}
