//! Changes of a reservation over several agents: amounts, windows, labels, bindings. All agents change or
//! none. The change is written down first ([`crate::intent`]), with the steps that undo it.

use crate::broker::Broker;
use crate::gather::{GroupMembers, Member, document};
use crate::group::{complete, renew, reservation};
use crate::id::{MemberRole, ReservationId};
use crate::intent::{self, Carried, Intent, MemberAction, MemberStep};
use crate::plan::flow;
use crate::problem::{Answer, Problem};
use documents::agent::Request;
use documents::book::{AmountDoc, BindingDoc, ChangeDoc};
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
        let doc = member_change(members, number, member, change)?;
        if doc != ChangeDoc::default() {
            changes.push((grows(member, &doc), number, doc));
        }
    }
    if changes.is_empty() {
        return Err(Problem::misuse("nothing is to be changed: name forward, reverse, amounts, start, end or label"));
    }
    // Increases come first: if one is refused, the steps before it are undone by decreases.
    changes.sort_by_key(|(grows, number, _)| (!grows, *number));
    let several = changes.len() > 1;
    let step = |(_, number, change): (bool, usize, ChangeDoc)| {
        let member = &members[number];
        let back = if several { Some(MemberAction::Ask(Box::new(undone(member, &change)?))) } else { None };
        let forward = MemberAction::Ask(Box::new(Request::BookModify { handle: member.doc.handle.clone(), change }));
        Ok(MemberStep { agent: broker.agents[member.agent].name.to_string(), forward, back })
    };
    let steps = changes.into_iter().map(step).collect::<Answer<Vec<MemberStep>>>()?;
    carried(broker, caller, id, "modify", steps, &mut found).await?;
    Ok(document(&broker.agents, id, &found))
}

/// Carries a change out at one agent, or at several as one.
async fn carried(
    broker: &Broker,
    caller: &CallerDoc,
    id: &ReservationId,
    what: &str,
    mut steps: Vec<MemberStep>,
    found: &mut GroupMembers,
) -> Answer<()> {
    let alone = if steps.len() == 1 { steps.pop() } else { None };
    if let Some(MemberStep { agent, forward: MemberAction::Ask(request), .. }) = alone {
        let Some(known) = broker.agents.iter().find(|known| *known.name == *agent) else {
            return Err(Problem::not_found());
        };
        let doc = reservation(known, caller, *request).await?;
        renew(broker, &mut found.members, vec![(agent, doc)]);
        return Ok(());
    }
    let intent = Intent { id: id.to_string(), what: what.to_owned(), caller: caller.clone(), back: false, steps };
    match intent::undertake(broker, intent).await? {
        Carried::Done(docs) => {
            renew(broker, &mut found.members, docs);
            Ok(())
        }
        Carried::Refused(problem) | Carried::Stuck(problem) => Err(problem),
        Carried::Open(mut problem) => {
            problem.detail +=
                "; it is changed everywhere or nowhere as soon as all agents answer: look at it again then";
            Err(problem)
        }
    }
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

/// True if a change asks for more of anything than the member has.
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

/// The request that undoes this change of a member: the same fields, with their values from before.
fn undone(member: &Member, change: &ChangeDoc) -> Answer<Request> {
    let amount = |changed: &AmountDoc| {
        let part = changed.part;
        let row = member.doc.parts.get(part).ok_or_else(|| Problem::misuse(format!("there is no part {part}")))?;
        let had = row.steps.first().map_or(0.0, |step| step.amount);
        if row.steps.iter().any(|step| step.amount != had) {
            // A change sets all windows to one amount, so none could restore these.
            let what = "its windows have different amounts, which one change at several agents cannot keep: give it back and \
                        reserve again";
            return Err(Problem::misuse(what));
        }
        let empty = AmountDoc { part, ..AmountDoc::default() };
        Ok(match row.unit.as_str() {
            "bit/s" => AmountDoc { rate: Some(had as u64), ..empty },
            "cores" => AmountDoc { cores: Some(had), ..empty },
            "bytes/s" => AmountDoc { bytes_per_s: Some(had as u64), ..empty },
            _ => AmountDoc { count: Some(had as u64), ..empty },
        })
    };
    let steps = || member.doc.parts.iter().flat_map(|row| &row.steps);
    // A window that has begun keeps its start; the agent refuses to move it, and it was not moved.
    let moved = member.doc.state == "booked" && change.start.is_some();
    // A window that moved as a whole is moved back as a whole.
    let both = change.end.is_some() || (moved && steps().count() == 1);
    let end = || steps().map(|step| step.end.unwrap_or(documents::book::Instant(terms::Time::FOREVER))).max();
    let back = ChangeDoc {
        amounts: change.amounts.iter().map(amount).collect::<Answer<_>>()?,
        start: if moved { steps().map(|step| step.start).min() } else { None },
        end: if both { end() } else { None },
        label: change.label.as_ref().map(|_| member.doc.label.clone()),
    };
    Ok(Request::BookModify { handle: member.doc.handle.clone(), change: back })
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
    let step = |(number, part, binding): (usize, usize, Option<BindingDoc>)| {
        let doc = &members[number].doc;
        let ask =
            |binding| MemberAction::Ask(Box::new(Request::BookBind { handle: doc.handle.clone(), part, binding }));
        let had = doc.parts.get(part).and_then(|row| row.binding.clone());
        MemberStep {
            agent: broker.agents[members[number].agent].name.to_string(),
            forward: ask(binding),
            back: Some(ask(had)),
        }
    };
    let steps: Vec<MemberStep> = orders.into_iter().map(step).collect();
    carried(broker, caller, id, "bind", steps, &mut found).await?;
    Ok(document(&broker.agents, id, &found))
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
