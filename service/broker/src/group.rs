//! One reservation over several agents: held at every agent and then committed at every one, or cancelled.
//!
//! Agents are asked in their order, so that two brokers with the same aim do not wait for each other. A hold
//! has its own deadline, and each agent keeps the names of all members. So a reader of the members knows the
//! decision: none while all only hold; to commit once one is committed; to cancel once one is not committed
//! and never will be ([`crate::recover`]).

use crate::agents::AgentClient;
use crate::broker::Broker;
use crate::gather::{GroupMembers, Member, document, find};
use crate::id::{GroupId, ReservationId};
use crate::intent::{self, Carried, Intent, MemberAction, MemberStep};
use crate::plan::AgentRequest;
use crate::problem::{Answer, Problem};
use axum::http::StatusCode;
use documents::agent::Request;
use documents::book::{BookAnswer, ReservationDoc};
use documents::links::CallerDoc;
use documents::rest::Reservation;
use terms::{Span, Time};

/// The holding time while the other agents are asked, seconds.
const HOLD_S: f64 = 30.0;
/// The largest difference between the clocks of two agents: beyond it their windows would not meet.
const MOST_SKEW: Span = Span::from_secs(1);

/// Reserves these pieces under a group's name. The caller must have the lock of the group.
///
/// # Errors
/// The first refusal of an agent; all other agents have then released their holds.
pub async fn create(
    broker: &Broker,
    caller: &CallerDoc,
    group: &GroupId,
    pieces: Vec<AgentRequest>,
    hold: Option<f64>,
) -> Answer<Reservation> {
    let one = pieces.len() == 1;
    let mut members: Vec<Member> = Vec::new();
    let mut clocks = Clocks::default();
    for piece in pieces {
        let mut ask = piece.ask;
        ask.hold_s = hold.or((!one).then_some(HOLD_S));
        let agent = &broker.agents[piece.agent];
        let before = broker.clock.now();
        let held = reservation(agent, caller, Request::BookCreate(ask)).await.and_then(|doc| {
            if !one {
                clocks.note(&agent.name, doc.created.0, before, broker.clock.now())?;
            }
            Ok(doc)
        });
        match held {
            Ok(doc) => members.push(Member { agent: piece.agent, way: piece.way, doc }),
            Err(problem) => {
                let_go(broker, caller, &members).await;
                return Err(problem);
            }
        }
    }
    let id = ReservationId::Group(*group);
    if hold.is_none() && !one {
        commit_all(broker, caller, &id, &mut members, true).await?;
    }
    members.sort_by_key(|member| (member.way, member.agent));
    Ok(document(&broker.agents, &id, &GroupMembers { members, ..GroupMembers::default() }))
}

/// The offsets of agents' clocks from ours: only the differences between them matter.
#[derive(Default)]
struct Clocks {
    /// The agent, and the least and the most that its clock is ahead of ours, nanoseconds.
    first: Option<(String, i128, i128)>,
}

impl Clocks {
    /// Notes that an agent made something at `made` by its clock, between these instants of ours.
    fn note(&mut self, agent: &str, made: Time, before: Time, after: Time) -> Answer<()> {
        let made = i128::from(made.as_nanos());
        let (least, most) = (made - i128::from(after.as_nanos()), made - i128::from(before.as_nanos()));
        let Some((first, first_least, first_most)) = &self.first else {
            self.first = Some((agent.to_owned(), least, most));
            return Ok(());
        };
        // The least difference, for any travel time of the answers.
        let apart = (least - first_most).max(first_least - most);
        if apart <= i128::from(MOST_SKEW.as_nanos()) {
            return Ok(());
        }
        Err(Problem::unavailable(format!(
            "the clocks of the agents {first} and {agent} are {:.1} s apart, so their windows would not meet: set them (at most {} s)",
            apart as f64 / 1e9,
            MOST_SKEW.as_nanos() / Span::NANOS_PER_SEC,
        )))
    }
}

/// Commits what is held.
///
/// # Errors
/// 404; 409: it is not whole; an agent's refusal: before any commit all stay held, afterwards all are
/// cancelled.
pub async fn commit(broker: &Broker, caller: &CallerDoc, id: &ReservationId) -> Answer<Reservation> {
    let _lock = broker.lock(id).await;
    let mut found = complete(broker, caller, id).await?;
    let halved = found.live().count() < found.members.len() || !found.missing.is_empty();
    if halved && found.live().count() > 0 {
        let what = "it is not whole any more: some of its parts are over or missing; give it back and reserve again";
        return Err(Problem::new(StatusCode::CONFLICT, "wrong_state", "Not in this state", what));
    }
    commit_all(broker, caller, id, &mut found.members, false).await?;
    Ok(document(&broker.agents, id, &found))
}

/// Commits at all agents that have not done so. `decided`: the agents' holds count as consent; otherwise they
/// ask their policy again.
pub(crate) async fn commit_all(
    broker: &Broker,
    caller: &CallerDoc,
    id: &ReservationId,
    members: &mut [Member],
    decided: bool,
) -> Answer<()> {
    let several = members.len() > 1;
    let mut booked = members.iter().any(|member| !member.is_over() && member.doc.state != "held");
    let mut open = false;
    for number in 0..members.len() {
        let Member { agent, doc, .. } = &members[number];
        // An agent that has not answered may have committed: from then on all must.
        if doc.state != "held" {
            continue;
        }
        let request = Request::BookCommit { handle: doc.handle.clone(), decided: several && (decided || booked) };
        match reservation(&broker.agents[*agent], caller, request).await {
            Ok(doc) => (members[number].doc, booked) = (doc, true),
            Err(problem) if several && matches!(problem.status, 429 | 503) => open = true,
            Err(problem) if several && (booked || open) => return give_up(broker, id, members, problem).await,
            Err(problem) => {
                if decided {
                    let_go(broker, caller, members).await;
                }
                return Err(problem);
            }
        }
    }
    if !open {
        return Ok(());
    }
    let step = |member: &Member| MemberStep {
        agent: broker.agents[member.agent].name.to_string(),
        forward: MemberAction::Ask(Box::new(Request::BookCommit { handle: member.doc.handle.clone(), decided: true })),
        back: Some(MemberAction::GiveBack(member.doc.group.clone())),
    };
    let steps = members.iter().map(step).collect();
    let (id, what, caller) = (id.to_string(), "commit".to_owned(), crate::broker::own_voice());
    let intent = Intent { id: id.clone(), what, caller, back: false, steps };
    match intent::undertake(broker, intent).await? {
        Carried::Done(docs) => {
            renew(broker, members, docs);
            Ok(())
        }
        Carried::Refused(problem) | Carried::Stuck(problem) => Err(problem),
        Carried::Open(mut problem) => {
            problem.detail += &format!(
                "; it is booked everywhere or nowhere as soon as it does: ask for {id}, or again with the same key, or give it back"
            );
            Err(problem)
        }
    }
}

/// Cancels all members, written down first: one will never be committed, others are.
async fn give_up(broker: &Broker, id: &ReservationId, members: &[Member], mut problem: Box<Problem>) -> Answer<()> {
    let all = members.iter().map(|member| (broker.agents[member.agent].name.to_string(), member.doc.group.clone()));
    let intent = intent::giving_back(id, &crate::broker::own_voice(), all.collect());
    if let Carried::Open(open) = intent::undertake(broker, intent).await? {
        problem.detail += &format!("; all is given back, also there, as soon as it answers: {}", open.detail);
    }
    Err(problem)
}

/// Releases members that are only held. One that is out of reach ends by itself: no broker decides for it.
async fn let_go(broker: &Broker, caller: &CallerDoc, members: &[Member]) {
    for member in members.iter().filter(|member| member.doc.state == "held") {
        let handle = member.doc.handle.clone();
        let _ = reservation(&broker.agents[member.agent], caller, Request::BookCancel { handle }).await;
    }
}

/// Cancels a reservation.
///
/// # Errors
/// 404; 409: it is over; 503: an agent that may have a part of it is away: it is cancelled there once it
/// answers.
pub async fn cancel(broker: &Broker, caller: &CallerDoc, id: &ReservationId) -> Answer<Reservation> {
    let _lock = broker.lock(id).await;
    let found = find(&broker.agents, caller, id).await?;
    let (ReservationId::Group(group), true) = (id, found.members.len() + found.unknown.len() + found.away.len() > 1)
    else {
        let member = &found.members[0];
        let request = Request::BookCancel { handle: member.doc.handle.clone() };
        let doc = reservation(&broker.agents[member.agent], caller, request).await?;
        let members = vec![Member { doc, ..member.clone() }];
        return Ok(document(&broker.agents, id, &GroupMembers { members, ..GroupMembers::default() }));
    };
    if found.live().count() == 0 && found.unknown.is_empty() && found.away.is_empty() {
        let state = document(&broker.agents, id, &found).state;
        let what = format!("not possible: the reservation is {state}");
        return Err(Problem::new(StatusCode::CONFLICT, "wrong_state", "Not in this state", what));
    }
    give_back(broker, caller, group, &found).await?;
    let found = find(&broker.agents, caller, id).await?;
    Ok(document(&broker.agents, id, &found))
}

/// Cancels all live members of a group, and those at agents that are away. The caller must have its lock.
///
/// # Errors
/// 503: an agent has not answered yet; it cancels as soon as it does.
pub(crate) async fn give_back(
    broker: &Broker,
    caller: &CallerDoc,
    group: &GroupId,
    found: &GroupMembers,
) -> Answer<()> {
    let name = |agent: usize| broker.agents[agent].name.to_string();
    let mut all: Vec<(String, String)> =
        found.live().map(|member| (name(member.agent), member.doc.group.clone())).collect();
    all.extend(found.unknown.iter().map(|(agent, way)| (agent.clone(), group.member(*way))));
    // If no member has the list of members, each agent that is away may have some.
    if found.members.iter().all(|member| member.doc.members.is_empty()) {
        let away =
            found.away.iter().flat_map(|&agent| crate::id::MemberRole::ALL.map(|way| (name(agent), group.member(way))));
        all.extend(away);
    }
    let id = ReservationId::Group(*group);
    match intent::undertake(broker, intent::giving_back(&id, caller, all)).await? {
        Carried::Open(problem) => {
            let what =
                format!("given back, except where nobody answers; there as soon as somebody does: {}", problem.detail);
            Err(Problem::unavailable(what))
        }
        _ => Ok(()),
    }
}

/// Updates the members from the agents' latest answers.
pub(crate) fn renew(broker: &Broker, members: &mut [Member], docs: Vec<(String, ReservationDoc)>) {
    for (agent, doc) in docs {
        let same =
            |member: &&mut Member| *broker.agents[member.agent].name == *agent && member.doc.handle == doc.handle;
        if let Some(member) = members.iter_mut().find(same) {
            member.doc = doc;
        }
    }
}

/// All members, provided that no agent that may have one is away.
pub(crate) async fn complete(broker: &Broker, caller: &CallerDoc, id: &ReservationId) -> Answer<GroupMembers> {
    let found = find(&broker.agents, caller, id).await?;
    let nobody_says = found.members.iter().all(|member| member.doc.members.is_empty());
    let away = found.away.first().filter(|_| nobody_says).map(|&away| broker.agents[away].name.to_string());
    match away.or_else(|| found.unknown.first().map(|(agent, _)| agent.clone())) {
        Some(away) => Err(Problem::unavailable(format!("the agent {away} does not answer"))),
        None => Ok(found),
    }
}

/// Makes one call about one reservation.
pub(crate) async fn reservation(agent: &AgentClient, caller: &CallerDoc, request: Request) -> Answer<ReservationDoc> {
    match agent.ask(caller, request).await? {
        BookAnswer::Reservation(doc) => Ok(doc),
        _ => Err(Problem::unavailable(format!("the agent {} says what makes no sense", agent.name))),
    }
}
