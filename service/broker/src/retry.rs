//! A request with an idempotency key that was used before: its remains are whole, or gone, before it is tried
//! again.

use crate::broker::Broker;
use crate::crossing;
use crate::gather::{self, GroupMembers, document, find};
use crate::group;
use crate::id::{GroupId, ReservationId};
use crate::problem::{Answer, Problem};
use crate::transactions::{ChangeKind, Open};
use commit::coordinator::Phase;
use documents::links::CallerDoc;
use documents::rest::Wish;

/// The earlier results of a key.
#[derive(Default)]
pub(crate) struct Before {
    /// The whole group, if it is there: this is the answer.
    pub whole: Option<GroupMembers>,
    /// The time of an earlier attempt that came to nothing; the next attempt has another name.
    pub attempt: u64,
}

/// True if the next domain has a part of it: what is held here alone cannot become the whole.
fn crosses(broker: &Broker, wish: &Wish) -> bool {
    wish.path.as_ref().is_some_and(|path| crossing::is_elsewhere(broker, path.to))
}

/// True if this agent may have a part of the wish: any, for a path may go another way than before.
fn asks(wish: &Wish, agent: &str) -> bool {
    let of = |resource: &str| resource.split_once('/').is_some_and(|(name, _)| name == agent);
    wish.path.is_some() || wish.parts.iter().any(|part| of(&part.resource))
}

/// Gives back the remains of an earlier attempt.
///
/// # Errors
/// 503: they have not gone everywhere. An order that an agent has not carried out yet, or that is carried out again after
/// a crash, would take what the next attempt makes: both have the group's name.
async fn remains_go(broker: &Broker, caller: &CallerDoc, group: &GroupId, found: &GroupMembers) -> Answer<()> {
    group::give_back(broker, caller, group, found).await?;
    let id = ReservationId::Group(*group).to_string();
    match broker.transactions.quiet(&id).await.is_empty() {
        true => Ok(()),
        false => Err(Problem::unavailable("what is left of an earlier attempt has not gone at all agents: ask again")),
    }
}

/// Repairs the remains of a request with this key: afterwards they are whole, or gone.
///
/// # Errors
/// 409: it was whole once, and is over; 503: it is not known yet what becomes of an earlier attempt.
pub(crate) async fn before(broker: &Broker, caller: &CallerDoc, group: &GroupId, wish: &Wish) -> Answer<Before> {
    let id = ReservationId::Group(*group);
    let open = broker.transactions.quiet(&id.to_string()).await;
    let waits = |open: &Open| open.phase != Phase::Committing || open.kind == ChangeKind::Cancel;
    if open.iter().any(waits) {
        let what = "what was begun with this key has not come to its end at all agents: ask again";
        return Err(Problem::unavailable(what));
    }
    // A retry asks for the same, so that only an agent that it asks can have something of it.
    let mut found = gather::members_at(&broker.agents, caller, group, |agent| asks(wish, agent)).await?;
    if found.members.is_empty() {
        return match found.away.first() {
            Some(&agent) => {
                Err(Problem::unavailable(format!("the agent {} does not answer", broker.agents[agent].name)))
            }
            None => Ok(Before::default()),
        };
    }
    if !open.is_empty() && found.live().next().is_some() {
        // It is decided, and will be whole.
        return Ok(Before { whole: Some(found), ..Before::default() });
    }
    if let Some((agent, _)) = found.unknown.first() {
        let what = format!("the agent {agent}, which has a part of it, does not answer");
        return Err(Problem::unavailable(what));
    }
    let waiting = |found: &GroupMembers| -> Vec<usize> {
        found.live().filter(|member| member.doc.promise.is_some()).map(|member| member.agent).collect()
    };
    if open.is_empty() && !waiting(&found).is_empty() {
        broker.transactions.resolve(&waiting(&found)).await;
        found = find(&broker.agents, caller, &id).await?;
    }
    if let Some(agent) = waiting(&found).first().filter(|_| open.is_empty()) {
        // Another broker asked for it, and decides; or the agent does not answer.
        let agent = &broker.agents[*agent].name;
        let what =
            format!("the agent {agent} waits for the decision about an earlier attempt with this key: ask again");
        return Err(Problem::unavailable(what));
    }
    let whole = found.live().count() == found.members.len() && found.missing.is_empty();
    let held = found.live().filter(|member| member.doc.state == "held").count();
    match found.live().count() {
        0 => {}
        _ if whole && (held == 0 || wish.hold_s.is_some()) => {
            return Ok(Before { whole: Some(found), ..Before::default() });
        }
        live if whole && live == held && !crosses(broker, wish) => {
            // All held, and nobody came to decide.
            group::book(broker, caller, &id, &mut found.members).await?;
            return Ok(Before { whole: Some(found), ..Before::default() });
        }
        // A part of what was asked, which cannot become the whole.
        _ => {
            remains_go(broker, caller, group, &found).await?;
            found = find(&broker.agents, caller, &id).await?;
        }
    }
    let mut in_vain = false;
    for member in &found.members {
        in_vain |= gather::never_booked(&broker.agents[member.agent], member).await?;
    }
    let state = document(&broker.agents, &id, &found).state;
    if !in_vain {
        return Err(Problem::key_over(&id.to_string(), &state));
    }
    let attempt = found.members.iter().map(|member| member.doc.created.0.as_nanos()).max().unwrap_or(0);
    Ok(Before { attempt, ..Before::default() })
}
