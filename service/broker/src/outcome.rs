//! `GET /v1/transactions/{id}`: the outcome of a transaction, for an agent that has promised a part of it and
//! does not hear.

use crate::broker::Broker;
use crate::caller::ConnectionPeer;
use crate::problem::{BoxedProblem, Problem};
use crate::query::Query;
use crate::transactions::{domain_member, said};
use axum::Json;
use axum::extract::{Extension, Path, RawQuery, State};
use booking::policy::rights::Seat;
use commit::coordinator::Outcome;
use commit::{Decision, TransactionId};
use documents::rest::TransactionDoc;
use std::sync::Arc;
use trust::{CertificateRole, Identity};

/// The outcome of a transaction, for its agents, for the brokers of domains that are members, and for operators.
///
/// A transaction that the broker does not know was aborted.
#[utoipa::path(get, path = "/v1/transactions/{id}", params(
    ("id" = String, Path, description = "The transaction, 32 hexadecimal digits"),
    ("epoch" = u64, Query, description = "The number of the broker's start in which it was promised"),
), responses((status = 200, body = TransactionDoc), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn outcome(
    State(broker): State<Arc<Broker>>,
    Extension(peer): Extension<ConnectionPeer>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<TransactionDoc>, BoxedProblem> {
    peer.caller()?;
    let query = Query::read(query, &["epoch"])?;
    let epoch =
        query.parsed::<u64>("epoch")?.ok_or_else(|| Problem::malformed("epoch: in which start was it promised?"))?;
    let id = TransactionId::parse(&id).ok_or_else(Problem::not_found)?;
    let (present, outcome, members) = broker.transactions.outcome(id, epoch);
    if let (Seat::Agent | Seat::Broker, ConnectionPeer::Certificate { identity, .. }) = (peer.seat(), &peer) {
        match identity.role {
            CertificateRole::Broker => is_domain(&broker, identity, &members)?,
            _ => is_member(&broker, identity, &members)?,
        }
    }
    let (outcome, commit) = match outcome {
        Outcome::Open => ("pending", None),
        Outcome::Decided(Decision::Commit { number }) => ("committed", Some(number)),
        Outcome::Decided(Decision::Abort) => ("aborted", None),
        Outcome::Unknown => ("unknown", None),
    };
    Ok(Json(TransactionDoc {
        transaction: id.to_string(),
        coordinator: broker.transactions.name().to_owned(),
        epoch: said(present),
        outcome: outcome.to_owned(),
        commit,
    }))
}

/// Checks that this broker's domain is one of the members, or, if the transaction is over, a neighbour.
fn is_domain(broker: &Broker, identity: &Identity, members: &[String]) -> Result<(), Box<Problem>> {
    let domain = identity.domain.as_deref().unwrap_or_default();
    let known = broker.transactions.domains().iter().any(|neighbour| *neighbour.name == *domain);
    let is = members.is_empty() || members.contains(&domain_member(domain));
    if known && is { Ok(()) } else { Err(Problem::not_found()) }
}

/// Checks that this agent is one of the members; without members the transaction is over, and any agent of ours
/// may know that.
fn is_member(broker: &Broker, identity: &Identity, members: &[String]) -> Result<(), Box<Problem>> {
    // Agents have the names of our configuration; their certificates are known from our own connections to them.
    if broker.agents.iter().any(|agent| !agent.is_known()) && !broker.agents.iter().any(|agent| agent.is(identity)) {
        return Err(Problem::unavailable("not all agents have been reached yet: ask again"));
    }
    let is = |name: &str| broker.agents.iter().any(|agent| *agent.name == *name && agent.is(identity));
    let ours = || broker.agents.iter().any(|agent| agent.is(identity));
    let may = if members.is_empty() { ours() } else { members.iter().any(|name| is(name)) };
    if may { Ok(()) } else { Err(Problem::not_found()) }
}
