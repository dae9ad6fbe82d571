//! A reservation as lists and documents show it: all of its members, and the state of open changes.

use crate::acceptance;
use crate::broker::Broker;
use crate::domain_client::DomainReply;
use crate::gather::{self, GroupMembers, Member, document};
use crate::id::{GroupId, ReservationId};
use crate::problem::Answer;
use crate::transactions::{ChangeKind, Open};
use commit::coordinator::Phase;
use documents::legs::{AcceptanceDoc, LegStateDoc};
use documents::links::CallerDoc;
use documents::rest::{LegRow, Reservation, ReservationWord};
use documents::topology::StatementDoc;
use std::sync::Arc;

/// The members of a row of a list, with those that the list does not show: members that are over, on another
/// page, or at another agent than the one asked about.
///
/// # Errors
/// An agent's answer was of the wrong kind.
pub(crate) async fn whole(
    broker: &Broker,
    caller: &CallerDoc,
    id: &ReservationId,
    members: Vec<Member>,
) -> Answer<GroupMembers> {
    let listed = |name: &String| {
        let is = |member: &Member| *name == GroupId::member_name(&broker.agents[member.agent].name, member.way);
        members.iter().any(is)
    };
    match (id, members.first()) {
        (ReservationId::Group(group), Some(first)) if !first.doc.members.iter().all(listed) => {
            let found = gather::members(&broker.agents, caller, group).await?;
            // The reservation may have gone since.
            Ok(if found.members.is_empty() { GroupMembers { members, ..GroupMembers::default() } } else { found })
        }
        _ => Ok(GroupMembers { members, ..GroupMembers::default() }),
    }
}

/// The reservation with what the domains that were asked say of their legs: one that is over there, or unknown, is
/// missing.
pub(crate) async fn with_domains(broker: Arc<Broker>, mut doc: Reservation) -> Reservation {
    let over = |state: &str| matches!(state, "cancelled" | "ended" | "expired");
    let leg = broker.transactions.leg(&doc.id).filter(|leg| !leg.over);
    let Some(leg) = leg.filter(|_| !over(&doc.state)) else { return doc };
    for asked in leg.asked() {
        let name = asked.domain.clone();
        let Some(domain) = broker.transactions.domains().iter().find(|domain| *domain.name == *name) else { continue };
        match domain.call::<(), LegStateDoc>("GET", &format!("/v1/legs/{}", doc.id), None).await {
            DomainReply::Answered(said) if !over(&said.state) && said.state != "broken" => {
                doc.away.extend((!said.away.is_empty()).then_some(name));
            }
            DomainReply::Answered(_) | DomainReply::Refused(_) => {
                doc.missing.push(name);
                ReservationWord::Broken.as_str().clone_into(&mut doc.state);
            }
            DomainReply::NotAsked(_) | DomainReply::Lost(_) => doc.away.push(name),
        }
    }
    doc
}

/// A leg as its acceptance says.
fn row(statement: &StatementDoc) -> Option<LegRow> {
    let said = acceptance::document(statement)?;
    let AcceptanceDoc { domain, reservation, entry, exit, forward, reverse, sla, .. } = said;
    Some(LegRow { domain, reservation, entry, exit, forward, reverse, sla })
}

/// The members as one document. While a change of several members has not come to its end, its state is that of
/// the change: `preparing` until it is decided, `committing` until all have done it.
pub(crate) fn shown(broker: &Broker, id: &ReservationId, found: &GroupMembers) -> Reservation {
    let mut doc = document(&broker.agents, id, found);
    if let Some(leg) = broker.transactions.leg(&doc.id) {
        doc.legs = leg.acceptances.iter().filter_map(row).collect();
        doc.above = leg.above.map(|above| above.domain);
    }
    let open = broker.transactions.of(&doc.id);
    let state = |open: &Open| match (open.phase, open.kind) {
        (Phase::Preparing | Phase::Prepared | Phase::Deciding, _) => Some(ReservationWord::Preparing.as_str()),
        (Phase::Committing, _) => Some(ReservationWord::Committing.as_str()),
        // What was there before is as it was.
        (Phase::Aborting, ChangeKind::Create) => Some(ReservationWord::Aborting.as_str()),
        (Phase::Aborting, _) => None,
    };
    let over = found.live().next().is_none() && found.unknown.is_empty();
    if let Some(state) = open.iter().filter_map(state).max().filter(|_| !over) {
        state.clone_into(&mut doc.state);
    }
    doc
}
