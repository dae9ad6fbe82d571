//! Recovery of transactions that another broker, or this one in an earlier life, left half done. Every agent
//! is asked for its members, until each has answered, and the decision is carried out.
//!
//! The broker does this as the coordinator of its own transactions. The agents consented by their holds, so
//! no policy is asked again. The members show the decision:
//!
//! - all only hold: no decision; each hold ends by itself;
//! - some are committed, the others hold: to commit, so all are committed;
//! - some are committed, and one never was and will not be (its hold ended, or was cancelled before its
//!   commit): no caller was told that it is reserved, so all are cancelled;
//! - some are committed, and one is missing or was cancelled after its commit: it was whole once. It stays,
//!   shown as `broken`.
//!
//! Two brokers that do this at the same time, or to a transaction that is under way, come to the same end:
//! each rule follows from facts that can never change again, and each step is idempotent.

use crate::agents::AgentClient;
use crate::broker::{Broker, own_voice};
use crate::gather::{self, GroupMembers, Member, each};
use crate::group;
use crate::id::{GroupId, ReservationId};
use crate::intent::{self, Carried};
use crate::problem::{Answer, Problem};
use documents::book::{BookEvents, BookFilter};
use documents::links::CallerDoc;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The pause before agents that did not answer are asked again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// The progress of a recovery.
#[derive(Debug, Default)]
pub struct Recovery {
    answered: BTreeSet<usize>,
    seen: BTreeMap<GroupId, Seen>,
    /// The number of reservations that were finished.
    pub finished: usize,
}

/// The known members of a group.
#[derive(Debug, Default)]
struct Seen {
    held: bool,
    booked: bool,
    found: BTreeSet<String>,
    members: Vec<String>,
}

/// The action that a group needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecoveryAction {
    /// None: it is whole, or only held, or over.
    Nothing,
    /// To be committed at all agents.
    Book,
    /// To be cancelled at all agents.
    GiveBack,
    /// None: it was whole once, and is not.
    Broken,
}

/// Decides what a group needs by the rules above.
///
/// # Errors
/// 503: an agent that has a part of it does not answer.
pub async fn judge(broker: &Broker, found: &GroupMembers) -> Answer<RecoveryAction> {
    if let Some((agent, _)) = found.unknown.first() {
        return Err(Problem::unavailable(format!("the agent {agent}, which has a part of it, does not answer")));
    }
    let booked = found.live().any(|member| member.doc.state != "held");
    if !booked {
        return Ok(RecoveryAction::Nothing);
    }
    let mut broken = !found.missing.is_empty();
    for member in found.members.iter().filter(|member| member.is_over()) {
        if never_booked(broker, member).await? {
            return Ok(RecoveryAction::GiveBack);
        }
        broken = true;
    }
    Ok(match (broken, found.live().any(|member| member.doc.state == "held")) {
        (true, _) => RecoveryAction::Broken,
        (false, true) => RecoveryAction::Book,
        (false, false) => RecoveryAction::Nothing,
    })
}

/// True if a member that is over was only ever held.
///
/// # Errors
/// Its agent does not answer.
pub async fn never_booked(broker: &Broker, member: &Member) -> Answer<bool> {
    if member.doc.state != "cancelled" {
        return Ok(member.doc.state == "expired");
    }
    match gather::history(&broker.agents[member.agent], &own_voice(), &member.doc.handle).await {
        // Old events may be forgotten; then it counts as committed, and stays.
        Ok(BookEvents { events, lost: false, .. }) => {
            let created = events.iter().find(|event| event.event == "created");
            let held = created.is_some_and(|event| event.text.as_deref() == Some("held"));
            Ok(held && events.iter().all(|event| event.event != "committed"))
        }
        Ok(_) => Ok(false),
        Err(problem) if problem.status == 404 => Ok(false),
        Err(problem) => Err(problem),
    }
}

/// Finishes a group, on behalf of any caller. The caller must have its lock. True if anything was done.
///
/// # Errors
/// 503: an agent does not answer; recovery tries again.
pub async fn settle(broker: &Broker, caller: &CallerDoc, group: &GroupId) -> Answer<bool> {
    let id = ReservationId::Group(*group);
    if let Some(mut intent) = broker.intents.of(&id.to_string()) {
        return match intent::carry_out(broker, &mut intent).await {
            Carried::Open(problem) => Err(problem),
            _ => Ok(true),
        };
    }
    let mut found = gather::members(&broker.agents, caller, group).await?;
    match judge(broker, &found).await? {
        RecoveryAction::Nothing | RecoveryAction::Broken => Ok(false),
        RecoveryAction::Book => {
            group::commit_all(broker, &own_voice(), &id, &mut found.members, true).await?;
            Ok(true)
        }
        RecoveryAction::GiveBack => {
            group::give_back(broker, &own_voice(), group, &found).await?;
            Ok(true)
        }
    }
}

impl Recovery {
    /// Asks agents that have not answered yet, and finishes what it can. True if nothing is left to do.
    pub async fn pass(&mut self, broker: &Broker) -> bool {
        let mut open = false;
        for intent in broker.intents.all() {
            let Some(id) = ReservationId::parse(&intent.id) else { continue };
            let _lock = broker.lock(&id).await;
            // The last holder of the lock may have finished it.
            let Some(mut intent) = broker.intents.of(&intent.id) else { continue };
            match intent::carry_out(broker, &mut intent).await {
                Carried::Open(_) => open = true,
                _ => self.finished += 1,
            }
        }
        if self.answered.len() < broker.agents.len() {
            self.ask(broker).await;
        }
        let everybody = self.answered.len() == broker.agents.len();
        for group in self.suspects(everybody) {
            let _lock = broker.lock(&ReservationId::Group(group)).await;
            match settle(broker, &own_voice(), &group).await {
                Ok(done) => {
                    self.finished += usize::from(done);
                    self.seen.remove(&group);
                }
                Err(_) => open = true,
            }
        }
        if everybody && !open {
            self.seen.clear();
        }
        everybody && !open
    }

    /// Reads the members at agents; keys are known from there.
    async fn ask(&mut self, broker: &Broker) {
        let asked = self.answered.clone();
        let answers = each(&broker.agents, |number, agent| {
            let known = asked.contains(&number);
            async move { if known { Ok(None) } else { all_of(&agent).await.map(Some) } }
        });
        for (number, answer) in answers.await.into_iter().enumerate() {
            let Ok(Some(rows)) = answer else { continue };
            self.answered.insert(number);
            for (group, name, held, members) in rows {
                let _ = broker.use_key(group);
                let seen = self.seen.entry(group).or_default();
                *(if held { &mut seen.held } else { &mut seen.booked }) = true;
                seen.found.insert(GroupId::member_name(&broker.agents[number].name, name));
                seen.members = members;
            }
        }
    }

    /// Groups of which one member is committed and another may not be.
    fn suspects(&self, everybody: bool) -> Vec<GroupId> {
        let half = |seen: &Seen| {
            let there = seen.members.iter().all(|name| seen.found.contains(name));
            seen.booked && (seen.held || (everybody && !there))
        };
        self.seen.iter().filter(|(_, seen)| half(seen)).map(|(group, _)| *group).collect()
    }
}

/// Runs until all is done, and again whenever a change is left open.
pub(crate) async fn run(
    broker: Arc<Broker>,
    mut recovery: Recovery,
    mut done: bool,
    mut stopped: watch::Receiver<bool>,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let sleep = async {
            match done {
                true => broker.nudge.notified().await,
                false => tokio::time::sleep(pause).await,
            }
        };
        tokio::select! {
            () = sleep => {}
            _ = stopped.changed() => return,
        }
        pause = if done { FIRST_PAUSE } else { pause.saturating_mul(2).min(LAST_PAUSE) };
        done = recovery.pass(&broker).await;
    }
}

/// An agent's members that are not over: the group, the role, true if it is only held, and all members'
/// names.
async fn all_of(agent: &AgentClient) -> Answer<Vec<(GroupId, crate::id::MemberRole, bool, Vec<String>)>> {
    let mut conversation = agent.speak(&own_voice()).await?;
    let mut groups = Vec::new();
    let mut after = None;
    loop {
        let filter = BookFilter { after: after.take(), ..BookFilter::default() };
        let (rows, more) = gather::list(&mut conversation, filter).await?;
        for row in &rows {
            let of_ours = GroupId::of_member(&row.group);
            groups.extend(of_ours.map(|(group, way)| (group, way, row.state == "held", row.members.clone())));
        }
        match rows.last() {
            Some(last) if more => after = Some(last.handle.clone()),
            _ => {
                conversation.end();
                return Ok(groups);
            }
        }
    }
}
