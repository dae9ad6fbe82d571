//! `GET /v1/acceptances`: what each domain on the way of a reservation has accepted, with its signature.

use crate::acceptance;
use crate::broker::Broker;
use crate::caller::ConnectionPeer;
use crate::problem::{BoxedProblem, Problem};
use crate::query::Query;
use crate::transactions::LegRecord;
use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use documents::legs::{Acceptances, KeptAcceptance};
use std::sync::Arc;

/// The acceptances that are kept with the caller's reservations across domains; for an operator or auditor, with
/// all.
#[utoipa::path(get, path = "/v1/acceptances", params(
    ("reservation" = Option<String>, Query, description = "Of this reservation"),
    ("owner" = Option<String>, Query, description = "Of this owner"),
), responses((status = 200, body = Acceptances), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn list(
    State(broker): State<Arc<Broker>>,
    Extension(peer): Extension<ConnectionPeer>,
    RawQuery(query): RawQuery,
) -> Result<Json<Acceptances>, BoxedProblem> {
    let caller = peer.caller()?;
    let query = Query::read(query, &["reservation", "owner"])?;
    let (reservation, owner) = (query.text("reservation"), query.text("owner"));
    let sees_all = caller.role == "operator" || caller.role == "auditor";
    let mut legs = broker.transactions.legs();
    legs.retain(|leg| {
        (sees_all || leg.owner == caller.name)
            && reservation.as_ref().is_none_or(|name| *name == leg.reservation)
            && owner.as_ref().is_none_or(|name| *name == leg.owner)
    });
    legs.sort_by(|a, b| (a.noted, &a.reservation).cmp(&(b.noted, &b.reservation)));
    Ok(Json(Acceptances { acceptances: legs.iter().flat_map(rows).collect() }))
}

fn rows(leg: &LegRecord) -> impl Iterator<Item = KeptAcceptance> {
    leg.acceptances.iter().filter_map(|statement| {
        Some(KeptAcceptance {
            at: leg.noted,
            reservation: leg.reservation.clone(),
            owner: leg.owner.clone(),
            over: leg.over,
            accepted: acceptance::document(statement)?,
            statement: statement.clone(),
        })
    })
}
