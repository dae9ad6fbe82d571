//! Changes of a reservation over several agents: amounts, windows, labels, bindings. All agents change or
//! none: several members are a transaction ([`crate::transactions`]), one is a plain call.

use crate::broker::Broker;
use crate::gather::{GroupMembers, Member};
use crate::group::{complete, renew, reservation};
use crate::id::{MemberRole, ReservationId};
use crate::plan::flow;
use crate::problem::{Answer, Problem};
use crate::shown::shown;
use crate::transactions::{ChangeKind, MemberPart, plain};
use documents::book::{AmountDoc, BindingDoc, ChangeDoc, PrepareAskDoc};
use documents::links::CallerDoc;
use documents::rest::{BindWish, Change, Reservation};

/// Changes amounts, window or label at all agents; if one refuses, all keep the old values.
///
/// # Errors
/// 404; 422: the change does not fit the reservation; an agent's refusal.
pub async fn modify(broker: &Broker, caller: &CallerDoc, id: &ReservationId, change: &Change) -> Answer<Reservation> {
    let _lock = broker.lock(id).await;
    let mut found = complete(broker, caller, id).await?;
    let members = &found.members;
    let mut changes = Vec::new();
    for (number, member) in members.iter().enumerate() {
        let change = member_change(members, number, member, change)?;
        if change != ChangeDoc::default() {
            let handle = member.doc.handle.clone();
            changes.push((number, PrepareAskDoc::Modify { handle, change }));
        }
    }
    if changes.is_empty() {
        return Err(Problem::misuse("nothing is to be changed: name forward, reverse, amounts, start, end or label"));
    }
    carried(broker, caller, id, ChangeKind::Modify, changes, &mut found).await?;
    Ok(shown(broker, id, &found))
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
    let part = |(number, change): (&usize, PrepareAskDoc)| MemberPart { agent: found.members[*number].agent, change };
    let parts = numbers.iter().zip(changes).map(part).collect();
    let progress = broker.transactions.vote(&id.to_string(), kind, caller, parts).await?;
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
    let orders: Vec<(usize, usize, Option<BindingDoc>)> = match (wish.flow, wish.part, ends) {
        (Some(ports), None, Some(ends)) if wish.binding.is_none() => {
            let of_path = members.iter().enumerate().filter(|(_, member)| member.way != MemberRole::Alone);
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
            vec![located(members, part).map(|(member, part)| (member, part, wish.binding.clone()))?]
        }
        _ => return Err(Problem::misuse("name either flow, or part and binding")),
    };
    let change = |(number, part, binding): (usize, usize, Option<BindingDoc>)| {
        let handle = members[number].doc.handle.clone();
        (number, PrepareAskDoc::Bind { handle, part, binding })
    };
    let changes = orders.into_iter().map(change).collect();
    carried(broker, caller, id, ChangeKind::Bind, changes, &mut found).await?;
    Ok(shown(broker, id, &found))
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
