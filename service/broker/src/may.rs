//! `GET /v1/may`: the rule of an agent's policy that would decide, and its decision.

use crate::broker::Broker;
use crate::caller::ConnectionPeer;
use crate::problem::{Answer, BoxedProblem, Problem};
use crate::query::Query;
use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use axum::http::HeaderMap;
use documents::agent::{Answer as Said, Request};
use documents::book::{AskDoc, Instant, PartDoc, WhenDoc};
use documents::links::CallerDoc;
use documents::may::{MayDoc, SignalDoc};
use std::sync::Arc;

/// The query names for bookings, for signalled requests, and for both.
const BOOKED: &[&str] = &["resource", "cores", "bytes_per_s", "count", "start", "end", "duration_s", "label"];
const SIGNALLED: &[&str] = &["agent", "src", "dst", "reverse", "priority"];
const ANY: &[&str] = &["signal", "rate", "who", "groups"];

/// The rule that would decide, and its reason; nothing is reserved.
///
/// Only operators, auditors, and callers that the policy names may ask about others.
#[utoipa::path(get, path = "/v1/may", params(
    ("resource" = Option<String>, Query, description = "AGENT/RESOURCE, of what would be booked"),
    ("rate" = Option<u64>, Query, description = "Of network, and of what would be signalled: bit/s"),
    ("cores" = Option<f64>, Query, description = "Of processors"),
    ("bytes_per_s" = Option<u64>, Query, description = "Of a disk"),
    ("count" = Option<u64>, Query, description = "Of what is counted"),
    ("start" = Option<String>, Query, description = "From when, RFC 3339; default: now"),
    ("end" = Option<String>, Query, description = "Until when; default: open at its end"),
    ("duration_s" = Option<f64>, Query, description = "For how long, in place of end"),
    ("signal" = Option<String>, Query, description = "In place of a resource, what would be signalled: send, receive or boomerang"),
    ("agent" = Option<String>, Query, description = "At which agent it would be signalled; default: the only one"),
    ("src" = Option<String>, Query, description = "From where: an address, of Boomerang also a prefix; default: anywhere, of receive alone"),
    ("dst" = Option<String>, Query, description = "To where"),
    ("reverse" = Option<u64>, Query, description = "Of Boomerang: how much comes back, bit/s"),
    ("priority" = Option<u16>, Query, description = "At which pre-emption priority"),
    ("label" = Option<String>, Query, description = "With this label"),
    ("who" = Option<String>, Query, description = "About whom; default: the caller"),
    ("groups" = Option<String>, Query, description = "Their groups, separated by commas"),
    ("Sluice-Token" = Option<String>, Header, description = "A token of a virtual organisation, which the caller holds"),
), responses((status = 200, body = MayDoc), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn may(
    State(broker): State<Arc<Broker>>,
    Extension(peer): Extension<ConnectionPeer>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Json<MayDoc>, BoxedProblem> {
    let caller = peer.caller_showing(&headers)?;
    let query = Query::read(query, &[BOOKED, SIGNALLED, ANY].concat())?;
    let signal = signalled(&query)?;
    let other = if signal.is_some() { BOOKED } else { SIGNALLED };
    if let Some(name) = other.iter().find(|name| query.text(name).is_some()) {
        return Err(
            Problem::malformed(format!("{name}: signal says what is signalled, resource what is booked")).into()
        );
    }
    let (number, ask) = match signal {
        Some(_) => (agent(&broker, query.text("agent"))?, AskDoc::default()),
        None => booked(&broker, &query)?,
    };
    let groups = query.text("groups").unwrap_or_default();
    let groups = groups.split(',').filter(|group| !group.is_empty()).map(str::to_owned).collect();
    let who = query.text("who").map(|name| CallerDoc { name, groups, role: "owner".to_owned(), token: None });
    let agent = &broker.agents[number];
    let mut conversation = agent.speak(&caller).await?;
    let answer = conversation.call(Request::May { who, ask, signal }).await;
    let said = match answer? {
        Said::May(doc) => doc,
        _ => return Err(conversation.nonsense("no answer about what may be").into()),
    };
    conversation.end();
    let parts = said.parts.into_iter().map(|mut row| {
        if !row.resource.is_empty() {
            row.resource = format!("{}/{}", agent.name, row.resource);
        }
        row
    });
    Ok(Json(MayDoc { parts: parts.collect(), ..said }))
}

/// The booking in question, and its agent.
fn booked(broker: &Broker, query: &Query) -> Answer<(usize, AskDoc)> {
    let named = query.text("resource").ok_or_else(|| Problem::malformed("resource: AGENT/RESOURCE, which one?"))?;
    let (number, resource) = crate::plan::place(&broker.names(), &named)?;
    let part = PartDoc {
        resource: resource.to_owned(),
        rate: query.parsed("rate")?,
        cores: query.parsed("cores")?,
        bytes_per_s: query.parsed("bytes_per_s")?,
        count: query.parsed("count")?,
        ..PartDoc::default()
    };
    let when = WhenDoc {
        start: query.parsed::<Instant>("start")?,
        end: query.parsed::<Instant>("end")?,
        duration_s: query.parsed("duration_s")?,
        ..WhenDoc::default()
    };
    let ask = AskDoc { parts: vec![part], when, label: query.text("label").unwrap_or_default(), ..AskDoc::default() };
    Ok((number, ask))
}

/// The signalled request in question, if there is one.
fn signalled(query: &Query) -> Answer<Option<SignalDoc>> {
    let Some(how) = query.text("signal") else { return Ok(None) };
    Ok(Some(SignalDoc {
        how: how.parse().map_err(|wrong: String| Problem::malformed(wrong))?,
        src: query.text("src"),
        dst: query.text("dst").ok_or_else(|| Problem::malformed("dst: where do the packets go?"))?,
        rate: query.parsed("rate")?.unwrap_or(0),
        reverse: query.parsed("reverse")?.unwrap_or(0),
        priority: query.parsed("priority")?,
    }))
}

/// The agent of that name, or the only one.
fn agent(broker: &Broker, name: Option<String>) -> Answer<usize> {
    let names = broker.names();
    let found = match &name {
        Some(name) => Broker::number(&names, name),
        None => (names.len() == 1).then_some(0),
    };
    found.ok_or_else(|| Problem::malformed(format!("agent: one of {}", names.join(", "))))
}
