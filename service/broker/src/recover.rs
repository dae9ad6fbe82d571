//! What another broker, or this one in an earlier life, left half done: every agent is asked what it keeps, until every one has
//! answered, and what was decided is carried out.
//!
//! The broker does this as the coordinator of its own transactions. What agents hold they have given their word for, so nobody's
//! policy is asked again. What it finds tells what was decided:
//!
//! - all only hold: nothing; each lets go by itself;
//! - some have booked, the others hold: to book, so it is booked at all;
//! - some have booked, and one never did and will not (its hold ended, or was given back before it was booked): nobody was told
//!   that it is reserved, so it is given back at all;
//! - some have booked, and one is missing or was given back after it was booked: it was whole once. Nothing is touched; it is shown as `broken`.
//!
//! Two brokers that do this at the same time, or to a transaction that is under way, come to the same end: each rule follows from
//! what can never change again, and each step is the same twice.

use crate::agents::AgentClient;
use crate::broker::{Broker, own_voice};
use crate::gather::{self, GroupMembers, Member, each};
use crate::group;
use crate::id::{GroupId, ReservationId};
use crate::intent::{self, Carried};
use crate::problem::{Answer, Problem};
use rpc::book::{BookEvents, BookFilter};
use rpc::links::CallerDoc;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The pause before those who did not answer are asked again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// How far it has come.
#[derive(Debug, Default)]
pub struct Recovery {
    answered: BTreeSet<usize>,
    seen: BTreeMap<GroupId, Seen>,
    /// How many reservations were finished.
    pub finished: usize,
}

/// What is known of a group.
#[derive(Debug, Default)]
struct Seen {
    held: bool,
    booked: bool,
    found: BTreeSet<String>,
    members: Vec<String>,
}

/// What is to be done about a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecoveryAction {
    /// Nothing: it is whole, or only held, or over.
    Nothing,
    /// It is to be booked at all.
    Book,
    /// It is to be given back at all.
    GiveBack,
    /// It was whole once, and is not.
    Broken,
}

/// What what was found says; see above.
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

/// Whether a member that is over was only ever held.
///
/// # Errors
/// Its agent does not answer.
pub async fn never_booked(broker: &Broker, member: &Member) -> Answer<bool> {
    if member.doc.state != "cancelled" {
        return Ok(member.doc.state == "expired");
    }
    match gather::history(&broker.agents[member.agent], &own_voice(), &member.doc.handle).await {
        // What happened long ago may be forgotten; then it counts as booked, and nothing is touched.
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

/// Brings a group to its end, whoever asks for it. The caller of this has its lock. Says whether anything was done.
///
/// # Errors
/// 503: an agent does not answer; it is tried again.
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
    /// Asks those who have not answered yet, and finishes what can be finished. Says whether nothing is left to do.
    pub async fn pass(&mut self, broker: &Broker) -> bool {
        let mut open = false;
        for intent in broker.intents.all() {
            let Some(id) = ReservationId::parse(&intent.id) else { continue };
            let _lock = broker.lock(&id).await;
            // Whoever had the lock may have seen to it.
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

    /// Reads what agents keep in groups; keys are known from there.
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

    /// Groups of which something is booked and something else may not be.
    fn suspects(&self, everybody: bool) -> Vec<GroupId> {
        let half = |seen: &Seen| {
            let there = seen.members.iter().all(|name| seen.found.contains(name));
            seen.booked && (seen.held || (everybody && !there))
        };
        self.seen.iter().filter(|(_, seen)| half(seen)).map(|(group, _)| *group).collect()
    }
}

/// Until all is done, and again whenever a change is left open.
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

/// What an agent keeps of groups and is not over: the group, for what, whether it is only held, and all members.
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
