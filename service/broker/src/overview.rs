//! The broker and its agents as a whole: the caller, the agents, the map, interfaces, audits.

use crate::broker::Broker;
use crate::caller::ConnectionPeer;
use crate::gather::each;
use crate::problem::{Answer, BoxedProblem, Problem};
use crate::query::Query;
use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use axum::routing::{MethodRouter, get, post};
use booking::policy::rights::Call;
use documents::agent::{Answer as Said, AuditAsk, Request};
use documents::book::Instant;
use documents::overview::{
    AgentAudit, AgentInterfaces, AgentRow, Agents, Audits, Interfaces, MapDoc, MeDoc, TicketDoc,
};
use std::sync::Arc;

type Here = State<Arc<Broker>>;
type Said_<T> = Result<Json<T>, BoxedProblem>;

/// The most entries of one agent's audit in one answer.
const MAX_ENTRIES: usize = 1000;

/// The handler of one of these calls.
pub(crate) fn handler(call: Call) -> Option<MethodRouter<Arc<Broker>>> {
    match call {
        Call::GetMe => Some(get(me)),
        Call::PostTicket => Some(post(ticket)),
        Call::GetAgents => Some(get(agents)),
        Call::GetMap => Some(get(map)),
        Call::GetInterfaces => Some(get(interfaces)),
        Call::GetAudit => Some(get(audit)),
        _ => None,
    }
}

/// The caller, as the broker knows it, and the broker's clock.
#[utoipa::path(get, path = "/v1/me",
    responses((status = 200, body = MeDoc), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn me(State(broker): Here, Extension(peer): Extension<ConnectionPeer>) -> Said_<MeDoc> {
    let caller = peer.caller()?;
    Ok(Json(MeDoc {
        name: caller.name,
        groups: caller.groups,
        role: caller.role,
        seat: peer.seat().name().to_owned(),
        at: Instant(broker.clock.today()),
        zone: jiff::tz::TimeZone::system().iana_name().map(str::to_owned),
        broker: broker.transactions.name().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        until: peer.until().map(Instant),
    }))
}

/// A ticket, by which one browser may sign in once as the caller.
///
/// Only who is known by the Unix socket or by a certificate gets one; a browser that is signed in gets none.
#[utoipa::path(post, path = "/v1/tickets",
    responses((status = 201, body = TicketDoc), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn ticket(
    State(broker): Here,
    Extension(peer): Extension<ConnectionPeer>,
) -> Result<(axum::http::StatusCode, Json<TicketDoc>), BoxedProblem> {
    peer.caller()?;
    let door = broker.web.as_ref().ok_or_else(|| {
        Problem::unavailable("this broker has no listener for browsers: [web] in its file, or `sluice broker --web`")
    })?;
    Ok((axum::http::StatusCode::CREATED, Json(door.ticket(peer, broker.clock.now())?)))
}

/// The agents: those that answer, and those that do not.
#[utoipa::path(get, path = "/v1/agents",
    responses((status = 200, body = Agents), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn agents(State(broker): Here, Extension(peer): Extension<ConnectionPeer>) -> Said_<Agents> {
    peer.caller()?;
    let answers = each(&broker.agents, |_, agent| async move {
        let mut conversation = agent.speak_as_itself().await?;
        let said = conversation.call(Request::Hello).await?;
        let Said::Hello(hello) = said else { return Err(conversation.nonsense("no greeting")) };
        conversation.end();
        Ok(hello)
    });
    let row = |(agent, answer): (_, Answer<documents::agent::HelloDoc>)| match answer {
        Ok(hello) => AgentRow {
            agent,
            node: Some(hello.node),
            version: Some(hello.version),
            uptime_ms: Some(hello.uptime_ms),
            away: None,
        },
        Err(problem) => AgentRow { agent, node: None, version: None, uptime_ms: None, away: Some(problem.detail) },
    };
    let names = broker.agents.iter().map(|agent| agent.name.to_string());
    Ok(Json(Agents { agents: names.zip(answers.await).map(row).collect() }))
}

/// The networks on which agents are neighbours.
#[utoipa::path(get, path = "/v1/map",
    responses((status = 200, body = MapDoc), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn map(State(broker): Here, Extension(peer): Extension<ConnectionPeer>) -> Said_<MapDoc> {
    peer.caller()?;
    let map = broker.map().await?;
    let away = map.away().to_vec();
    let agents = broker.names().into_iter().filter(|name| !away.iter().any(|of| of == name));
    Ok(Json(MapDoc { agents: agents.map(str::to_owned).collect(), networks: map.networks(), away }))
}

/// The interfaces of all agents, or of one, with their classes and counters.
#[utoipa::path(get, path = "/v1/interfaces", params(
    ("agent" = Option<String>, Query, description = "Only of this agent"),
), responses((status = 200, body = Interfaces), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn interfaces(
    State(broker): Here,
    Extension(peer): Extension<ConnectionPeer>,
    RawQuery(query): RawQuery,
) -> Said_<Interfaces> {
    let caller = peer.caller()?;
    let only = only(&broker, &Query::read(query, &["agent"])?)?;
    let answers = each(&broker.agents, |number, agent| {
        let caller = caller.clone();
        async move {
            if only.is_some_and(|only| only != number) {
                return Ok(None);
            }
            let mut conversation = agent.speak(&caller).await?;
            let said = conversation.call(Request::Status).await?;
            let Said::Status(status) = said else { return Err(conversation.nonsense("no status")) };
            conversation.end();
            Ok(Some(AgentInterfaces {
                agent: agent.name.to_string(),
                interfaces: status.interfaces,
                signalled: status.reservations.len() as u64,
                notes: status.notes,
            }))
        }
    });
    let (agents, away) = present(&broker, answers.await)?;
    Ok(Json(Interfaces { at: Instant(broker.clock.today()), agents, away }))
}

/// The decisions of all agents, or of one: caller, request, outcome and rule. Without `from` the newest.
#[utoipa::path(get, path = "/v1/audit", params(
    ("agent" = Option<String>, Query, description = "Only of this agent"),
    ("from" = Option<u64>, Query, description = "From this number on; it needs an agent"),
    ("limit" = Option<usize>, Query, description = "At most so many entries of each agent; default: 100, at most 1000"),
    ("who" = Option<String>, Query, description = "Only decisions on calls of this caller"),
    ("handle" = Option<String>, Query, description = "Only decisions about this reservation of an agent"),
), responses((status = 200, body = Audits), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn audit(
    State(broker): Here,
    Extension(peer): Extension<ConnectionPeer>,
    RawQuery(query): RawQuery,
) -> Said_<Audits> {
    let caller = peer.caller()?;
    let query = Query::read(query, &["agent", "from", "limit", "who", "handle"])?;
    let (only, from) = (only(&broker, &query)?, query.parsed::<u64>("from")?);
    if from.is_some() && only.is_none() && broker.agents.len() > 1 {
        return Err(Problem::malformed("each agent numbers its own decisions: from needs an agent").into());
    }
    let limit = query.parsed("limit")?.unwrap_or(100);
    if !(1..=MAX_ENTRIES).contains(&limit) {
        return Err(Problem::malformed(format!("limit is 1 to {MAX_ENTRIES}")).into());
    }
    let ask = AuditAsk { from, limit: Some(limit), handle: query.text("handle"), who: query.text("who") };
    let answers = each(&broker.agents, |number, agent| {
        let (caller, ask) = (caller.clone(), ask.clone());
        async move {
            if only.is_some_and(|only| only != number) {
                return Ok(None);
            }
            let mut conversation = agent.speak(&caller).await?;
            let said = conversation.call(Request::BookAudit(ask)).await?;
            let Said::Audit(page) = said else { return Err(conversation.nonsense("no audit")) };
            conversation.end();
            let agent = agent.name.to_string();
            Ok(Some(AgentAudit { agent, entries: page.entries, next: page.next, last: page.last }))
        }
    });
    let (agents, away) = present(&broker, answers.await)?;
    Ok(Json(Audits { agents, away }))
}

/// The index of the one agent that a query names.
fn only(broker: &Broker, query: &Query) -> Answer<Option<usize>> {
    let names = broker.names();
    let number = |name: String| {
        let what = || Problem::malformed(format!("agent: one of {}", names.join(", ")));
        Broker::number(&names, &name).ok_or_else(what)
    };
    query.text("agent").map(number).transpose()
}

/// The answers that came, and the agents that are away.
fn present<T>(broker: &Broker, answers: Vec<Answer<Option<T>>>) -> Answer<(Vec<T>, Vec<String>)> {
    let (mut all, mut away) = (Vec::new(), Vec::new());
    for (agent, answer) in broker.agents.iter().zip(answers) {
        match answer {
            Ok(row) => all.extend(row),
            Err(problem) if problem.status == 503 => away.push(agent.name.to_string()),
            Err(problem) => return Err(problem),
        }
    }
    Ok((all, away))
}
