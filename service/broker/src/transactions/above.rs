//! The broker as a participant: brokers of other domains ask it for promises and tell it decisions. What they
//! are told leaves only when it is on the disk.

use super::attempt::{Attempt, MemberPart, Note};
use super::desk::{Beginning, Desk, DeskEffect};
use super::{Transactions, draw};
use crate::domain_client::DomainReply;
use crate::problem::{Answer, Problem};
use commit::coordinator::TransactionKind;
use commit::participant::{Input as FromAbove, Output as ToAbove};
use commit::subordinate::{AskedFromAbove, Input};
use commit::{Branch, CoordinatorName, Decision, Epoch, TransactionId, Vote};
use documents::book::EpochDoc;
use documents::links::CallerDoc;
use documents::rest::TransactionDoc;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The longest wait for our own members' votes.
const VOTES: Duration = Duration::from_secs(30);
/// The longest wait for a decision to be on the disk.
const DECIDED: Duration = Duration::from_secs(10);

/// The answer to a broker that asks for a promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VoteAbove {
    /// The vote.
    Voted(Vote),
    /// That broker is older than another start of it: the newest that is known.
    Outdated(Epoch),
}

/// Those who wait for what this broker says to another: requests under way.
#[derive(Debug, Default)]
pub struct AboveWaiters {
    votes: BTreeMap<Branch, (CoordinatorName, oneshot::Sender<VoteAbove>)>,
    decided: BTreeMap<Branch, (CoordinatorName, oneshot::Sender<Result<(), Epoch>>)>,
}

impl AboveWaiters {
    /// Tells all who wait for what this coordinator asked that it is outdated.
    fn outdated(&mut self, coordinator: &CoordinatorName, known: Epoch) {
        for (branch, (name, waits)) in std::mem::take(&mut self.votes) {
            if name == *coordinator {
                let _ = waits.send(VoteAbove::Outdated(known));
            } else {
                self.votes.insert(branch, (name, waits));
            }
        }
        for (branch, (name, waits)) in std::mem::take(&mut self.decided) {
            if name == *coordinator {
                let _ = waits.send(Err(known));
            } else {
                self.decided.insert(branch, (name, waits));
            }
        }
    }
}

impl Desk {
    /// Takes what the participant says.
    pub(super) fn heard_above(&mut self, output: ToAbove, effects: &mut Vec<DeskEffect>) {
        match output {
            // The engine writes by itself.
            ToAbove::Append { .. } => {}
            ToAbove::Vote { branch, vote } => {
                if let Some((_, waits)) = self.waiters.votes.remove(&branch) {
                    let _ = waits.send(VoteAbove::Voted(vote));
                }
            }
            ToAbove::Acknowledge(branch) => {
                if let Some((_, waits)) = self.waiters.decided.remove(&branch) {
                    let _ = waits.send(Ok(()));
                }
            }
            ToAbove::Outdated { coordinator, known } => {
                self.waiters.outdated(&coordinator, known);
            }
            ToAbove::Ask { branch, coordinator, epoch } => {
                effects.push(DeskEffect::AskAbove { branch, coordinator, epoch });
            }
            ToAbove::Contradicted { branch, committed } => {
                let (other, here) = if committed { ("made", "not") } else { ("given up", "made") };
                effects.push(DeskEffect::Say(format!(
                    "transaction {} was {other} by the domain that asked for it, and {here} here: its leg does not agree",
                    branch.transaction
                )));
            }
        }
    }
}

impl Transactions {
    /// Has our own members promise a part of another domain's transaction, and promises it then. Returns the
    /// attempt; its note has the acceptances.
    ///
    /// # Errors
    /// A member's refusal, or another reason: nothing has changed here.
    pub async fn promise(
        self: &Arc<Self>,
        asked: AskedFromAbove,
        note: Note,
        caller: &CallerDoc,
        parts: Vec<MemberPart>,
    ) -> Answer<Note> {
        self.agree_on_time(&parts).await?;
        let branch = asked.branch;
        let (tell, told) = oneshot::channel();
        let members = self.member_records(&parts);
        let kind = match parts.last() {
            Some(MemberPart::Domain(_)) => TransactionKind::Chain,
            _ => TransactionKind::Vote,
        };
        let id = TransactionId(draw::<16>().map_err(|error| Problem::unavailable(format!("no randomness: {error}")))?);
        let attempt = Arc::new(Attempt::new(caller.clone(), parts, members.len(), note));
        let coordinator = asked.coordinator.clone();
        let beginning = Beginning { id, kind, members, above: Some(asked) };
        let now = self.clock.now();
        let effects = {
            let mut desk = self.locked();
            desk.waiters.votes.insert(branch, (coordinator, tell));
            desk.begin(now, beginning, attempt.clone())
        };
        self.perform(effects);
        match timeout(VOTES, told).await {
            Ok(Ok(VoteAbove::Voted(Vote::Yes))) => Ok(attempt.noted()),
            Ok(Ok(VoteAbove::Voted(Vote::No(why)))) => {
                let progress = attempt.progress();
                let known = progress.refused.iter().any(Option::is_some) || progress.given_up.is_some();
                Err(if known {
                    progress.problem()
                } else {
                    Problem::unavailable(format!("{why}: nothing has changed"))
                })
            }
            Ok(Ok(VoteAbove::Outdated(known))) => Err(Problem::outdated(said(known))),
            _ => Err(Problem::unavailable("it is not promised yet: ask again")),
        }
    }

    /// Takes the decision of another domain's broker. Returns when it is on the disk.
    ///
    /// # Errors
    /// 409: that broker is outdated; 503: it could not be written yet: tell it again.
    pub async fn hear_decision(
        self: &Arc<Self>,
        branch: Branch,
        coordinator: CoordinatorName,
        epoch: Epoch,
        decision: Decision,
    ) -> Answer<()> {
        let (tell, told) = oneshot::channel();
        let now = self.clock.now();
        let effects = {
            let mut desk = self.locked();
            desk.waiters.decided.insert(branch, (coordinator.clone(), tell));
            desk.put(now, Input::Above(FromAbove::Decide { branch, coordinator, epoch, decision }))
        };
        self.perform(effects);
        match timeout(DECIDED, told).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(known))) => Err(Problem::outdated(said(known))),
            _ => Err(Problem::unavailable("the decision is not on the disk yet: tell it again")),
        }
    }

    /// Asks the broker of another domain for its decision.
    pub(super) async fn ask_above(self: Arc<Self>, branch: Branch, coordinator: CoordinatorName, epoch: Epoch) {
        let Some((domain, _)) = coordinator.split_once('/') else { return };
        let Some(broker) = self.domains.iter().find(|broker| *broker.name == *domain) else { return };
        let target = format!("/v1/transactions/{}?epoch={}", branch.transaction, epoch.number);
        let DomainReply::Answered(doc) = broker.call::<(), TransactionDoc>("GET", &target, None).await else { return };
        let decision = match (doc.outcome.as_str(), doc.commit) {
            ("committed", Some(number)) => Decision::Commit { number },
            ("aborted", _) => Decision::Abort,
            _ => return,
        };
        let EpochDoc { number, decisions, nonce } = doc.epoch;
        let epoch = Epoch { number, decisions, nonce };
        let now = self.clock.now();
        let input = Input::Above(FromAbove::Decide { branch, coordinator, epoch, decision });
        let effects = self.locked().put(now, input);
        self.perform(effects);
    }
}

fn said(epoch: Epoch) -> EpochDoc {
    super::said(epoch)
}
