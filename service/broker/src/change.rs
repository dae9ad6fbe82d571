//! Changes of a reservation over several agents: amounts, windows, labels, bindings. All agents change or
//! none: several members are a transaction ([`crate::transactions`]), one is a plain call.

use crate::broker::Broker;
use crate::cross::{self, LegUpdate};
use crate::gather::{GroupMembers, Member};
use crate::group::{complete, renew, reservation};
use crate::id::{MemberRole, ReservationId};
use crate::plan::flow;
use crate::problem::{Answer, Problem};
use crate::shown::shown;
use crate::transactions::{ChangeKind, MemberPart, Note, plain};
use documents::book::{AmountDoc, BindingDoc, ChangeDoc, PrepareAskDoc};
use documents::legs::LegChange;
use documents::links::CallerDoc;
use documents::rest::{BindWish, Change, Ports, Reservation};
use std::net::IpAddr;

/// Changes amounts, window or label at all agents; if one refuses, all keep the old values.
///
/// # Errors
/// 404; 422: the change does not fit the reservation; an agent's refusal.
pub async fn modify(broker: &Broker, caller: &CallerDoc, id: &ReservationId, change: &Change) -> Answer<Reservation> {
    let _lock = broker.lock(id).await;
    let mut found = complete(broker, caller, id).await?;
    let changes = changes(&found.members, change)?;
    if changes.is_empty() {
        return Err(Problem::misuse(
            "nothing is to be changed: name forward, reverse, amounts, start, end, label or without",
        ));
    }
    let update = LegUpdate::of(broker, id, LegChange::Modify, |leg| cross::modified(leg, change))?;
    match (update, id) {
        (Some(update), ReservationId::Group(group)) => {
            drop(update.carry_out(broker, caller, group, changes, &mut found).await?);
        }
        _ => carried(broker, caller, id, ChangeKind::Modify, changes, &mut found).await?,
    }
    Ok(shown(broker, id, &found))
}

/// Divides a change among the members that it concerns.
///
/// # Errors
/// 422: it does not fit the reservation.
pub(crate) fn changes(members: &[Member], change: &Change) -> Answer<Vec<(usize, PrepareAskDoc)>> {
    let mut changes = Vec::new();
    for (number, member) in members.iter().enumerate() {
        let change = member_change(members, number, member, change)?;
        if change != ChangeDoc::default() {
            let handle = member.doc.handle.clone();
            changes.push((number, PrepareAskDoc::Modify { handle, change }));
        }
    }
    Ok(changes)
}

/// Carries a change out at one member, or at several as one.
async fn carried(
    broker: &Broker,
    caller: &CallerDoc,
    id: &ReservationId,
    kind: ChangeKind,
    mut changes: Vec<(usize, PrepareAskDoc)>,
    found: &mut GroupMembers,
) -> Answer<()> {
    if changes.len() == 1
        && let Some((number, change)) = changes.pop()
    {
        let member = &mut found.members[number];
        member.doc = reservation(&broker.agents[member.agent], caller, plain(change)).await?;
        return Ok(());
    }
    let (numbers, changes): (Vec<usize>, Vec<PrepareAskDoc>) = changes.into_iter().unzip();
    let part = |(number, change): (&usize, PrepareAskDoc)| MemberPart::at_agent(found.members[*number].agent, change);
    let parts = numbers.iter().zip(changes).map(part).collect();
    let progress = broker.transactions.vote(Note::new(id, kind), caller, parts).await?;
    renew(&mut found.members, &numbers, progress);
    Ok(())
}

/// The parts of a change that concern this member.
fn member_change(members: &[Member], number: usize, member: &Member, change: &Change) -> Answer<ChangeDoc> {
    let mut doc = ChangeDoc { amounts: Vec::new(), ..change.rest.clone() };
    let rate = match member.way {
        MemberRole::Forward => change.forward,
        MemberRole::Reverse => change.reverse,
        MemberRole::Alone => None,
    };
    if let Some(rate) = rate {
        let amount = |part| AmountDoc { part, rate: Some(rate), ..AmountDoc::default() };
        doc.amounts.extend((0..member.doc.parts.len()).map(amount));
    }
    for (way, said) in [(MemberRole::Forward, change.forward), (MemberRole::Reverse, change.reverse)] {
        if said.is_some() && !members.iter().any(|member| member.way == way) {
            let what = format!("nothing is reserved {} here", way.name().unwrap_or_default());
            return Err(Problem::misuse(what));
        }
    }
    let first: usize = members[..number].iter().map(|member| member.doc.parts.len()).sum();
    let all: usize = members.iter().map(|member| member.doc.parts.len()).sum();
    for amount in &change.rest.amounts {
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

/// Binds parts to flows, processes or control groups.
///
/// # Errors
/// 404; 422: the binding does not fit the reservation; an agent's refusal.
pub async fn bind(broker: &Broker, caller: &CallerDoc, id: &ReservationId, wish: &BindWish) -> Answer<Reservation> {
    let _lock = broker.lock(id).await;
    let mut found = complete(broker, caller, id).await?;
    let members = &found.members;
    let ends = match id {
        ReservationId::Group(group) => group.ends,
        ReservationId::Lone { .. } => None,
    };
    let orders: Vec<PartBinding> = match (wish.flow, wish.part, ends) {
        (Some(ports), None, Some(ends)) if wish.binding.is_none() => of_flow(members, ends, ports),
        (Some(_), None, None) => {
            return Err(Problem::misuse("a flow is bound to a reservation between two hosts: name part and binding"));
        }
        (None, Some(part), _) => {
            vec![located(members, part).map(|(member, part)| (member, part, wish.binding.clone()))?]
        }
        _ => return Err(Problem::misuse("name either flow, or part and binding")),
    };
    let changes = bindings(members, orders);
    let update = match wish.flow {
        Some(flow) => LegUpdate::of(broker, id, LegChange::Bind, |leg| leg.flow = Some(flow))?,
        // One hop here has its own binding; what the others serve stays as it was.
        None => None,
    };
    match (update, id) {
        (Some(update), ReservationId::Group(group)) => {
            drop(update.carry_out(broker, caller, group, changes, &mut found).await?);
        }
        _ => carried(broker, caller, id, ChangeKind::Bind, changes, &mut found).await?,
    }
    Ok(shown(broker, id, &found))
}

/// A part of a member, and what it is to serve: the member's number, the part's, the binding.
pub(crate) type PartBinding = (usize, usize, Option<BindingDoc>);

/// The packets between two hosts, for every hop of the path.
pub(crate) fn of_flow(members: &[Member], ends: (IpAddr, IpAddr), ports: Ports) -> Vec<PartBinding> {
    let of_path = members.iter().enumerate().filter(|(_, member)| member.way != MemberRole::Alone);
    let parts = of_path.flat_map(|(number, member)| {
        let binding = BindingDoc::Flow(flow(ends, ports, member.way));
        // An agreement is about all packets of its domain.
        let parts = member.doc.parts.iter().enumerate().filter(|(_, part)| !part.resource.starts_with("sla/"));
        parts.map(move |(part, _)| (number, part, Some(binding.clone())))
    });
    parts.collect()
}

/// Divides bindings among the members.
pub(crate) fn bindings(members: &[Member], orders: Vec<PartBinding>) -> Vec<(usize, PrepareAskDoc)> {
    let change = |(number, part, binding): PartBinding| {
        let handle = members[number].doc.handle.clone();
        (number, PrepareAskDoc::Bind { handle, part, binding })
    };
    orders.into_iter().map(change).collect()
}

/// The member of a part, and the part's index in it.
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
