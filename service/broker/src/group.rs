//! One reservation over several agents: created, booked and cancelled at all of them or at none.
//!
//! One member is one call. Several are a transaction ([`crate::transactions`]). A hold over several agents is
//! no promise: each member has its own deadline, and ends by itself.

use crate::agents::AgentClient;
use crate::broker::Broker;
use crate::gather::{GroupMembers, Member, document, each, find};
use crate::id::{GroupId, MemberRole, ReservationId};
use crate::plan::AgentRequest;
use crate::problem::{Answer, Problem};
use crate::shown::shown;
use crate::transactions::{AttemptProgress, ChangeKind, MemberAction, MemberOrder, MemberPart, Note, domain_member};
use axum::http::StatusCode;
use documents::agent::Request;
use documents::book::{BookAnswer, PrepareAskDoc, ReservationDoc};
use documents::links::CallerDoc;
use documents::rest::Reservation;

/// Reserves these pieces under a group's name. The caller must have the lock of the group.
///
/// # Errors
/// The first refusal of an agent: nothing is reserved.
pub async fn create(
    broker: &Broker,
    caller: &CallerDoc,
    group: &GroupId,
    pieces: Vec<AgentRequest>,
    hold: Option<f64>,
) -> Answer<Reservation> {
    let id = ReservationId::Group(*group);
    let mut members = match (pieces.len(), hold) {
        (1, _) | (_, Some(_)) => held(broker, caller, pieces, hold).await?,
        (_, None) => {
            let ways: Vec<(usize, MemberRole)> = pieces.iter().map(|piece| (piece.agent, piece.way)).collect();
            let part = |piece: AgentRequest| {
                let change = PrepareAskDoc::Create(piece.ask);
                MemberPart::at_agent(piece.agent, change)
            };
            let parts = pieces.into_iter().map(part).collect();
            let made = broker.transactions.vote(Note::new(&id, ChangeKind::Create), caller, parts).await?;
            let member = |((agent, way), doc): ((usize, MemberRole), Option<ReservationDoc>)| {
                Some(Member { agent, way, doc: doc? })
            };
            ways.into_iter().zip(made.docs).filter_map(member).collect()
        }
    };
    members.sort_by_key(|member| (member.way, member.agent));
    Ok(shown(broker, &id, &GroupMembers { members, ..GroupMembers::default() }))
}

/// Makes these reservations by plain calls, all at once. If one is refused, the others are released: they are
/// only held, or there is none.
///
/// # Errors
/// The first refusal of an agent: nothing is held.
pub(crate) async fn held(
    broker: &Broker,
    caller: &CallerDoc,
    pieces: Vec<AgentRequest>,
    hold: Option<f64>,
) -> Answer<Vec<Member>> {
    let agents: Vec<AgentClient> = pieces.iter().map(|piece| broker.agents[piece.agent].clone()).collect();
    let made = each(&agents, |number, agent| {
        let (caller, mut ask) = (caller.clone(), pieces[number].ask.clone());
        ask.hold_s = hold;
        async move { reservation(&agent, &caller, Request::BookCreate(ask)).await }
    });
    let (mut members, mut refused) = (Vec::new(), None);
    for (piece, made) in pieces.iter().zip(made.await) {
        match made {
            Ok(doc) => members.push(Member { agent: piece.agent, way: piece.way, doc }),
            Err(problem) => refused = refused.or(Some(problem)),
        }
    }
    let Some(problem) = refused else { return Ok(members) };
    release(broker, caller, &members).await;
    Err(problem)
}

/// Releases members that are only held. One that is out of reach ends by itself.
pub(crate) async fn release(broker: &Broker, caller: &CallerDoc, members: &[Member]) {
    let agents: Vec<AgentClient> = members.iter().map(|member| broker.agents[member.agent].clone()).collect();
    let released = each(&agents, |number, agent| {
        let (caller, handle) = (caller.clone(), members[number].doc.handle.clone());
        async move { reservation(&agent, &caller, Request::BookCancel { handle }).await }
    });
    released.await;
}

/// Books what is held.
///
/// # Errors
/// 404; 409: it is not whole, or a change of it is under way; an agent's refusal: all stay held.
pub async fn commit(broker: &Broker, caller: &CallerDoc, id: &ReservationId) -> Answer<Reservation> {
    let _lock = broker.lock(id).await;
    let mut found = complete(broker, caller, id).await?;
    let halved = found.live().count() < found.members.len() || !found.missing.is_empty();
    if halved && found.live().count() > 0 {
        let what = "it is not whole any more: some of its parts are over or missing; give it back and reserve again";
        return Err(Problem::new(StatusCode::CONFLICT, "wrong_state", "Not in this state", what));
    }
    book(broker, caller, id, &mut found.members).await?;
    Ok(shown(broker, id, &found))
}

/// Books all members that are only held.
///
/// # Errors
/// An agent's refusal: all stay held.
pub(crate) async fn book(
    broker: &Broker,
    caller: &CallerDoc,
    id: &ReservationId,
    members: &mut [Member],
) -> Answer<()> {
    if let [member] = members {
        let request = Request::BookCommit { handle: member.doc.handle.clone(), decided: false };
        member.doc = reservation(&broker.agents[member.agent], caller, request).await?;
        return Ok(());
    }
    let held: Vec<usize> = (0..members.len()).filter(|number| members[*number].doc.state == "held").collect();
    if held.is_empty() {
        return Ok(());
    }
    let part = |number: &usize| {
        let change = PrepareAskDoc::Hold { handle: members[*number].doc.handle.clone() };
        MemberPart::at_agent(members[*number].agent, change)
    };
    let parts = held.iter().map(part).collect();
    let made = broker.transactions.vote(Note::new(id, ChangeKind::Book), caller, parts).await?;
    renew(members, &held, made);
    Ok(())
}

/// Cancels a reservation.
///
/// # Errors
/// 404; 409: it is over; 503: no agent that has a part of it answers, or it could not be written down.
pub async fn cancel(broker: &Broker, caller: &CallerDoc, id: &ReservationId) -> Answer<Reservation> {
    let _lock = broker.lock(id).await;
    let found = find(&broker.agents, caller, id).await?;
    let leg = broker.transactions.leg(&id.to_string()).filter(|leg| !leg.over);
    let several = found.members.len() + found.unknown.len() + found.away.len() > 1 || leg.is_some();
    let (ReservationId::Group(group), true) = (id, several) else {
        let member = &found.members[0];
        let request = Request::BookCancel { handle: member.doc.handle.clone() };
        let doc = reservation(&broker.agents[member.agent], caller, request).await?;
        let members = vec![Member { doc, ..member.clone() }];
        return Ok(document(&broker.agents, id, &GroupMembers { members, ..GroupMembers::default() }));
    };
    if found.live().count() == 0 && found.unknown.is_empty() && found.away.is_empty() && leg.is_none() {
        let state = document(&broker.agents, id, &found).state;
        let what = format!("not possible: the reservation is {state}");
        return Err(Problem::new(StatusCode::CONFLICT, "wrong_state", "Not in this state", what));
    }
    give_back(broker, caller, group, &found).await?;
    let found = find(&broker.agents, caller, id).await.map_err(|problem| is_given_back(&problem))?;
    Ok(shown(broker, id, &found))
}

/// The answer when the state of a reservation cannot be told after its end was ordered. It is never a refusal: the end is
/// written down, and comes, whatever agents answer now.
pub(crate) fn is_given_back(problem: &Problem) -> Box<Problem> {
    let what = "it is written down that this is given back, and not known yet how far that is";
    Problem::unavailable(format!("{what}: {}", problem.detail))
}

/// Orders the end of all live members of a group, and of those at agents that are away. The caller must have
/// its lock.
///
/// # Errors
/// 503: it could not be written down; nothing has changed.
pub(crate) async fn give_back(
    broker: &Broker,
    caller: &CallerDoc,
    group: &GroupId,
    found: &GroupMembers,
) -> Answer<AttemptProgress> {
    let name = |agent: usize| broker.agents[agent].name.to_string();
    let mut all: Vec<(String, String)> =
        found.live().map(|member| (name(member.agent), member.doc.group.clone())).collect();
    all.extend(found.unknown.iter().map(|(agent, way)| (agent.clone(), group.member(*way))));
    // If no member has the list of members, each agent that is away may have some.
    if found.members.iter().all(|member| member.doc.members.is_empty()) {
        let away = found.away.iter().flat_map(|&agent| MemberRole::ALL.map(|way| (name(agent), group.member(way))));
        all.extend(away);
    }
    let order = |(agent, group)| {
        let action = MemberAction::GiveBack(group);
        (agent, MemberOrder { caller: caller.clone(), action })
    };
    let mut orders: Vec<(String, MemberOrder)> = all.into_iter().map(order).collect();
    let id = ReservationId::Group(*group);
    let mut leg = broker.transactions.leg(&id.to_string()).filter(|leg| !leg.over);
    if let Some(leg) = &mut leg {
        leg.over = true;
        for asked in leg.asked() {
            let action = MemberAction::EndLeg(leg.reservation.clone());
            orders.push((domain_member(&asked.domain), MemberOrder { caller: caller.clone(), action }));
        }
    }
    if orders.is_empty() {
        return Ok(AttemptProgress::default());
    }
    let note = Note { leg: leg.map(Box::new), ..Note::new(&id, ChangeKind::Cancel) };
    broker.transactions.order(note, orders).await
}

/// Updates these members from the agents' latest answers.
pub(crate) fn renew(members: &mut [Member], changed: &[usize], progress: AttemptProgress) {
    for (number, doc) in changed.iter().zip(progress.docs) {
        if let Some(doc) = doc {
            members[*number].doc = doc;
        }
    }
}

/// All members, provided that no agent that may have one is away and no other change is under way.
///
/// # Errors
/// 404; 409: a change is under way; 503: an agent does not answer.
pub(crate) async fn complete(broker: &Broker, caller: &CallerDoc, id: &ReservationId) -> Answer<GroupMembers> {
    let found = find(&broker.agents, caller, id).await?;
    let nobody_says = found.members.iter().all(|member| member.doc.members.is_empty());
    let away = found.away.first().filter(|_| nobody_says).map(|&away| broker.agents[away].name.to_string());
    if let Some(away) = away.or_else(|| found.unknown.first().map(|(agent, _)| agent.clone())) {
        return Err(Problem::unavailable(format!("the agent {away} does not answer")));
    }
    if !broker.transactions.of(&id.to_string()).is_empty() {
        let what = "an earlier change of it has not come to its end at all agents: ask again in a moment";
        return Err(Problem::new(StatusCode::CONFLICT, "wrong_state", "Not in this state", what));
    }
    Ok(found)
}

/// Makes one call about one reservation.
pub(crate) async fn reservation(agent: &AgentClient, caller: &CallerDoc, request: Request) -> Answer<ReservationDoc> {
    match agent.ask(caller, request).await? {
        BookAnswer::Reservation(doc) => Ok(doc),
        _ => Err(Problem::unavailable(format!("the agent {} says what makes no sense", agent.name))),
    }
}
