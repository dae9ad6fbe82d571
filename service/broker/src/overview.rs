//! The broker and its agents as a whole: the caller, the agents, the map, interfaces, audits.

use crate::broker::Broker;
use crate::caller::ConnectionPeer;
use crate::gather::each;
use crate::problem::{Answer, BoxedProblem, Problem};
use crate::query::Query;
use crate::shared::SharedAnswers;
use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, RawQuery, State};
use axum::http::Response;
use axum::routing::{MethodRouter, get, post};
use booking::policy::rights::Call;
use documents::agent::{Answer as Said, AuditAsk, Request};
use documents::book::Instant;
use documents::links::CallerDoc;
use documents::overview::{
    AgentAudit, AgentDoctor, AgentInterfaces, AgentRow, Agents, Audits, CertificateRow, Doctors, Interfaces, MapDoc,
    MeDoc, SignalledReservations, SignalledRow, TicketDoc,
};
use documents::show::{PAGE, Skip};
use std::sync::Arc;
use trust::Identity;

type Here = State<Arc<Broker>>;
type Said_<T> = Result<Json<T>, BoxedProblem>;
type Shared = Result<Response<Body>, BoxedProblem>;

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
        Call::GetSignalled => Some(get(signalled)),
        Call::GetDoctor => Some(get(doctor)),
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
pub(crate) async fn agents(State(broker): Here, Extension(peer): Extension<ConnectionPeer>) -> Shared {
    peer.caller()?;
    // The broker asks as itself, so that all callers hear the same.
    Ok(broker.shared().get("agents", all_agents(&broker)).await?)
}

pub(crate) async fn all_agents(broker: &Broker) -> Answer<Agents> {
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
    Ok(Agents { agents: names.zip(answers.await).map(row).collect() })
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
) -> Shared {
    let caller = peer.caller()?;
    let only = only(&broker, &Query::read(query, &["agent"])?)?;
    let key = SharedAnswers::of_caller(&format!("interfaces {only:?}"), &caller);
    Ok(broker.shared().get(&key, all_interfaces(&broker, &caller, only)).await?)
}

pub(crate) async fn all_interfaces(broker: &Broker, caller: &CallerDoc, only: Option<usize>) -> Answer<Interfaces> {
    let read = |agent: &str, said| match said {
        Said::Status(status) => Some(AgentInterfaces {
            agent: agent.to_owned(),
            interfaces: status.interfaces,
            signalled: status.reservations.len() as u64,
            notes: status.notes,
        }),
        _ => None,
    };
    let (agents, away) = asked(broker, caller, only, Request::Status, read).await?;
    Ok(Interfaces { at: Instant(broker.clock.today()), agents, away })
}

/// The signalled reservations of all agents, or of one: what RSVP and Boomerang asked for.
#[utoipa::path(get, path = "/v1/signalled", params(
    ("agent" = Option<String>, Query, description = "Only of this agent"),
), responses((status = 200, body = SignalledReservations), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn signalled(
    State(broker): Here,
    Extension(peer): Extension<ConnectionPeer>,
    RawQuery(query): RawQuery,
) -> Shared {
    let caller = peer.caller()?;
    let only = only(&broker, &Query::read(query, &["agent"])?)?;
    let key = SharedAnswers::of_caller(&format!("signalled {only:?}"), &caller);
    Ok(broker.shared().get(&key, all_signalled(&broker, &caller, only)).await?)
}

async fn all_signalled(broker: &Broker, caller: &CallerDoc, only: Option<usize>) -> Answer<SignalledReservations> {
    let read = |agent: &str, said| match said {
        Said::Reservations(rows) => Some(rows.iter().map(|row| SignalledRow::of(agent, row)).collect::<Vec<_>>()),
        _ => None,
    };
    let (agents, away) = asked(broker, caller, only, Request::Reservations(Skip { skip: 0 }), read).await?;
    let more = agents.iter().any(|rows| rows.len() >= PAGE);
    let reservations = agents.into_iter().flatten().collect();
    Ok(SignalledReservations { at: Instant(broker.clock.today()), reservations, more, away })
}

/// The features that the agents' machines have and lack, and the certificates that the broker and its agents show.
#[utoipa::path(get, path = "/v1/doctor",
    responses((status = 200, body = Doctors), (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn doctor(State(broker): Here, Extension(peer): Extension<ConnectionPeer>) -> Said_<Doctors> {
    let caller = peer.caller()?;
    let answers = each(&broker.agents, |_, agent| {
        let caller = caller.clone();
        async move {
            let mut conversation = agent.speak(&caller).await?;
            let identity = conversation.identity().cloned();
            let said = conversation.call(Request::Doctor).await;
            let found = match said {
                Ok(Said::Doctor(found)) => found,
                Ok(_) => return Err(conversation.nonsense("no findings")),
                // An agent of an earlier version does not know the question.
                Err(problem) if problem.status < 500 => return Ok(Some((None, identity))),
                Err(problem) => return Err(problem),
            };
            conversation.end();
            Ok(Some((Some(AgentDoctor { agent: agent.name.to_string(), found }), identity)))
        }
    });
    let own = broker.gate.as_ref().and_then(|gate| gate.own());
    let row = |of: &str, identity: &Identity| CertificateRow {
        of: of.to_owned(),
        name: identity.to_string(),
        until: Instant(identity.not_after),
    };
    let mut certificates: Vec<CertificateRow> = own.iter().map(|own| row("broker", own)).collect();
    let (answers, away) = present(&broker, answers.await)?;
    let names = broker.agents.iter().map(|agent| &*agent.name).filter(|name| !away.iter().any(|gone| gone == name));
    let shown = names.zip(&answers).filter_map(|(name, (_, identity))| Some(row(name, identity.as_ref()?)));
    certificates.extend(shown);
    let agents = answers.into_iter().filter_map(|(found, _)| found).collect();
    Ok(Json(Doctors { agents, certificates, away }))
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
    let read = |agent: &str, said| match said {
        Said::Audit(page) => {
            Some(AgentAudit { agent: agent.to_owned(), entries: page.entries, next: page.next, last: page.last })
        }
        _ => None,
    };
    let (agents, away) = asked(&broker, &caller, only, Request::BookAudit(ask), read).await?;
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

/// Asks all agents, or the one of this index, the same for a caller. Returns what `read` makes of each answer (`None`: it
/// makes no sense), and the agents that are away.
async fn asked<T: Send + 'static>(
    broker: &Broker,
    caller: &CallerDoc,
    only: Option<usize>,
    request: Request,
    read: impl Fn(&str, Said) -> Option<T> + Copy + Send + 'static,
) -> Answer<(Vec<T>, Vec<String>)> {
    let answers = each(&broker.agents, |number, agent| {
        let (caller, request) = (caller.clone(), request.clone());
        async move {
            if only.is_some_and(|only| only != number) {
                return Ok(None);
            }
            let mut conversation = agent.speak(&caller).await?;
            let said = conversation.call(request).await?;
            let row =
                read(&agent.name, said).ok_or_else(|| conversation.nonsense("another answer than was asked for"))?;
            conversation.end();
            Ok(Some(row))
        }
    });
    present(broker, answers.await)
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
