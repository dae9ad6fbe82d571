//! One reservation over several agents: held at all, then booked at all; or given back at all.
//!
//! Agents are asked in their order, so that two brokers that want the same do not wait for each other. What is held
//! has a deadline of its own: if the broker ends in the middle, the agents give it back, or the next broker finishes
//! what was decided ([`crate::broker::Broker::recover`]).

use crate::agents::Agent;
use crate::broker::Broker;
use crate::documents::{BindWish, Change, Reservation};
use crate::gather::{self, Found, Member, document, find};
use crate::id::{Group, Id, Way};
use crate::plan::{Piece, flow};
use crate::problem::{Answer, Problem};
use api::agent::Request;
use api::book::{AmountDoc, BindingDoc, BookAnswer, ChangeDoc, ReservationDoc};
use api::links::CallerDoc;

/// How long the agents hold while the others are asked, seconds.
const HOLD_S: f64 = 30.0;

/// Reserves these pieces under a group's name.
///
/// # Errors
/// What the first agent said that said no; all others have given back what they held.
pub async fn create(
    broker: &Broker,
    caller: &CallerDoc,
    group: &Group,
    pieces: Vec<Piece>,
    hold: Option<f64>,
) -> Answer<Reservation> {
    let one = pieces.len() == 1;
    let mut members: Vec<Member> = Vec::new();
    for piece in pieces {
        let mut ask = piece.ask;
        ask.hold_s = hold.or((!one).then_some(HOLD_S));
        let agent = &broker.agents[piece.agent];
        match reservation(agent, caller, Request::BookCreate(ask)).await {
            Ok(doc) => members.push(Member { agent: piece.agent, way: piece.way, doc }),
            Err(problem) => {
                give_back(broker, caller, &members).await;
                return Err(problem);
            }
        }
    }
    if hold.is_none() && !one {
        commit_all(broker, caller, &mut members).await?;
    }
    members.sort_by_key(|member| (member.way, member.agent));
    Ok(document(&broker.agents, &Id::Group(*group), &members))
}

/// Books what is held.
///
/// # Errors
/// 404; what an agent said, and then all is given back.
pub async fn commit(broker: &Broker, caller: &CallerDoc, id: &Id) -> Answer<Reservation> {
    let mut members = complete(broker, caller, id).await?;
    commit_all(broker, caller, &mut members).await?;
    Ok(document(&broker.agents, id, &members))
}

async fn commit_all(broker: &Broker, caller: &CallerDoc, members: &mut [Member]) -> Answer<()> {
    for number in 0..members.len() {
        let Member { agent, doc, .. } = &members[number];
        if doc.state != "held" {
            continue;
        }
        let agent = &broker.agents[*agent];
        let handle = doc.handle.clone();
        match reservation(agent, caller, Request::BookCommit { handle: handle.clone() }).await {
            Ok(doc) => members[number].doc = doc,
            Err(problem) => {
                // Somebody with the same key may have committed it meanwhile.
                let now = reservation(agent, caller, show(&handle)).await;
                match now {
                    Ok(doc) if matches!(doc.state.as_str(), "booked" | "active" | "suspended") => {
                        members[number].doc = doc
                    }
                    _ => {
                        give_back(broker, caller, members).await;
                        return Err(problem);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Gives all back. What cannot be reached now is only held, and ends by itself.
async fn give_back(broker: &Broker, caller: &CallerDoc, members: &[Member]) {
    for member in members.iter().filter(|member| !member.is_over()) {
        let handle = member.doc.handle.clone();
        let _ = reservation(&broker.agents[member.agent], caller, Request::BookCancel { handle }).await;
    }
}

/// Gives a reservation back.
///
/// # Errors
/// 404; 409: it is over; 503: an agent that may hold a part of it is away, and the rest is given back.
pub async fn cancel(broker: &Broker, caller: &CallerDoc, id: &Id) -> Answer<Reservation> {
    let Found { mut members, away } = find(&broker.agents, caller, id).await?;
    let mut first = None;
    let several = members.iter().filter(|member| !member.is_over()).count() > 0;
    for member in members.iter_mut().filter(|member| !several || !member.is_over()) {
        let handle = member.doc.handle.clone();
        match reservation(&broker.agents[member.agent], caller, Request::BookCancel { handle }).await {
            Ok(doc) => member.doc = doc,
            Err(problem) => first = first.or(Some(problem)),
        }
    }
    if let Some(problem) = first {
        return Err(problem);
    }
    if let Some(&away) = away.first() {
        let what = format!("given back, except at {}, which does not answer: ask again", broker.agents[away].name);
        return Err(Problem::unavailable(what));
    }
    Ok(document(&broker.agents, id, &members))
}

/// Changes amounts, window or label everywhere; if the new does not fit somewhere, the old stays everywhere.
///
/// # Errors
/// 404; 422: the change does not fit the reservation; what an agent said.
pub async fn modify(broker: &Broker, caller: &CallerDoc, id: &Id, change: &Change) -> Answer<Reservation> {
    let mut members = complete(broker, caller, id).await?;
    let mut steps = Vec::new();
    for (number, member) in members.iter().enumerate() {
        let doc = member_change(&members, number, member, change)?;
        if doc != ChangeDoc::default() {
            steps.push((grows(member, &doc), number, doc));
        }
    }
    if steps.is_empty() {
        return Err(Problem::misuse("nothing is to be changed: name forward, reverse, amounts, start, end or label"));
    }
    // What asks for more comes first: if it is refused, what has been done is undone by asking for less.
    steps.sort_by_key(|(grows, number, _)| (!grows, *number));
    let before = members.clone();
    let mut done: Vec<usize> = Vec::new();
    for (_, number, change) in steps {
        let member = &mut members[number];
        let (agent, handle) = (&broker.agents[member.agent], member.doc.handle.clone());
        match reservation(agent, caller, Request::BookModify { handle, change }).await {
            Ok(doc) => member.doc = doc,
            Err(mut problem) => {
                for undone in done {
                    if let Err(again) = restore(broker, caller, &before[undone]).await {
                        problem.detail +=
                            &format!("; and what was changed before could not be undone: {}", again.detail);
                    }
                }
                return Err(problem);
            }
        }
        done.push(number);
    }
    Ok(document(&broker.agents, id, &members))
}

/// The parts of a change that are this member's.
fn member_change(members: &[Member], number: usize, member: &Member, change: &Change) -> Answer<ChangeDoc> {
    let mut doc = ChangeDoc { amounts: Vec::new(), start: change.start, end: change.end, label: change.label.clone() };
    let rate = match member.way {
        Way::Forward => change.forward,
        Way::Reverse => change.reverse,
        Way::Alone => None,
    };
    if let Some(rate) = rate {
        let amount = |part| AmountDoc { part, rate: Some(rate), ..AmountDoc::default() };
        doc.amounts.extend((0..member.doc.parts.len()).map(amount));
    }
    for (way, said) in [(Way::Forward, change.forward), (Way::Reverse, change.reverse)] {
        if said.is_some() && !members.iter().any(|member| member.way == way) {
            let what = format!("nothing is reserved {} here", way.name().unwrap_or_default());
            return Err(Problem::misuse(what));
        }
    }
    let first: usize = members[..number].iter().map(|member| member.doc.parts.len()).sum();
    let all: usize = members.iter().map(|member| member.doc.parts.len()).sum();
    for amount in &change.amounts {
        if amount.part >= all {
            return Err(Problem::misuse(format!("there is no part {}: there are {all}", amount.part)));
        }
        if (first..first + member.doc.parts.len()).contains(&amount.part) {
            if let Some(way) = member.way.name() {
                let what = format!("part {} is one hop of a path, which keeps one rate: name `{way}`", amount.part);
                return Err(Problem::misuse(what));
            }
            doc.amounts.push(AmountDoc { part: amount.part - first, ..*amount });
        }
    }
    Ok(doc)
}

/// Whether a change asks for more than there is, of anything.
fn grows(member: &Member, change: &ChangeDoc) -> bool {
    let more = |amount: &AmountDoc| {
        let wanted = [
            amount.rate.map(|n| n as f64),
            amount.cores,
            amount.bytes_per_s.map(|n| n as f64),
            amount.count.map(|n| n as f64),
        ];
        let row = member.doc.parts.get(amount.part);
        let had = row.and_then(|row| row.steps.iter().map(|step| step.amount).reduce(f64::max)).unwrap_or(0.0);
        wanted.into_iter().flatten().any(|wanted| wanted > had)
    };
    change.start.is_some() || change.end.is_some() || change.amounts.iter().any(more)
}

/// Makes a member as it was.
async fn restore(broker: &Broker, caller: &CallerDoc, member: &Member) -> Answer<ReservationDoc> {
    let parts = member.doc.parts.iter().enumerate();
    let amount = |(part, row): (usize, &api::book::PartRow)| {
        let had = row.steps.first().map_or(0.0, |step| step.amount);
        let empty = AmountDoc { part, ..AmountDoc::default() };
        match row.unit.as_str() {
            "bit/s" => AmountDoc { rate: Some(had as u64), ..empty },
            "cores" => AmountDoc { cores: Some(had), ..empty },
            "bytes/s" => AmountDoc { bytes_per_s: Some(had as u64), ..empty },
            _ => AmountDoc { count: Some(had as u64), ..empty },
        }
    };
    let steps = || member.doc.parts.iter().flat_map(|row| &row.steps);
    let change = ChangeDoc {
        amounts: parts.map(amount).collect(),
        // A window that has begun keeps its start; the agent refuses to move it, and it was not moved.
        start: (member.doc.state == "booked").then(|| steps().map(|step| step.start).min()).flatten(),
        end: steps().map(|step| step.end.unwrap_or(api::book::Instant(terms::Time::FOREVER))).max(),
        label: Some(member.doc.label.clone()),
    };
    let handle = member.doc.handle.clone();
    reservation(&broker.agents[member.agent], caller, Request::BookModify { handle, change }).await
}

/// Says whose packets or processes parts are for.
///
/// # Errors
/// 404; 422: it does not fit the reservation; what an agent said.
pub async fn bind(broker: &Broker, caller: &CallerDoc, id: &Id, wish: &BindWish) -> Answer<Reservation> {
    let mut members = complete(broker, caller, id).await?;
    let ends = match id {
        Id::Group(group) => group.ends,
        Id::Lone { .. } => None,
    };
    let orders: Vec<(usize, usize, Option<BindingDoc>)> = match (wish.flow, wish.part, ends) {
        (Some(ports), None, Some(ends)) if wish.binding.is_none() => {
            let of_path = members.iter().enumerate().filter(|(_, member)| member.way != Way::Alone);
            of_path
                .flat_map(|(number, member)| {
                    let binding = BindingDoc::Flow(flow(ends, ports, member.way));
                    (0..member.doc.parts.len()).map(move |part| (number, part, Some(binding.clone())))
                })
                .collect()
        }
        (Some(_), None, None) => {
            return Err(Problem::misuse("a flow is bound to a reservation between two hosts: name part and binding"));
        }
        (None, Some(part), _) => {
            vec![located(&members, part).map(|(member, part)| (member, part, wish.binding.clone()))?]
        }
        _ => return Err(Problem::misuse("name either flow, or part and binding")),
    };
    for (number, part, binding) in orders {
        let member = &mut members[number];
        let (agent, handle) = (&broker.agents[member.agent], member.doc.handle.clone());
        member.doc = reservation(agent, caller, Request::BookBind { handle, part, binding }).await?;
    }
    Ok(document(&broker.agents, id, &members))
}

/// The member of a part, and its number there.
fn located(members: &[Member], part: usize) -> Answer<(usize, usize)> {
    let mut first = 0;
    for (number, member) in members.iter().enumerate() {
        if part < first + member.doc.parts.len() {
            return Ok((number, part - first));
        }
        first += member.doc.parts.len();
    }
    Err(Problem::misuse(format!("there is no part {part}: there are {first}")))
}

/// All members; nobody is away.
async fn complete(broker: &Broker, caller: &CallerDoc, id: &Id) -> Answer<Vec<Member>> {
    let Found { members, away } = find(&broker.agents, caller, id).await?;
    match away.first() {
        Some(&away) => Err(Problem::unavailable(format!("the agent {} does not answer", broker.agents[away].name))),
        None => Ok(members),
    }
}

fn show(handle: &str) -> Request {
    Request::BookShow { handle: Some(handle.to_owned()), filter: gather::all() }
}

/// One call about one reservation.
async fn reservation(agent: &Agent, caller: &CallerDoc, request: Request) -> Answer<ReservationDoc> {
    match agent.ask(caller, request).await? {
        BookAnswer::Reservation(doc) => Ok(doc),
        _ => Err(Problem::unavailable(format!("the agent {} says what makes no sense", agent.name))),
    }
}
