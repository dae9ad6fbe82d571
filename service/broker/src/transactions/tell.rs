//! The calls of the coordinator to agents: prepare, decide, and the orders that they carry out.

use super::attempt::{Attempt, MemberAction, MemberOrder, MemberPart};
use super::{Transactions, domain_member};
use crate::agents::{AgentClient, Exchange};
use crate::gather;
use crate::problem::{Answer, Problem};
use commit::coordinator::{Input, Serial};
use commit::{Branch, Decision, Epoch, Vote};
use documents::agent::{Problem as Said, Request};
use documents::book::{BookAnswer, BookFilter, DecideDoc, EpochDoc, PrepareAskDoc, PrepareDoc, ReservationDoc};
use std::sync::Arc;
use terms::Time;

/// Asks a member for its vote.
pub async fn prepare(
    transactions: Arc<Transactions>,
    attempt: Arc<Attempt>,
    branch: Branch,
    epoch: Epoch,
    serial: Serial,
) {
    let member = branch.member as usize;
    let (agent, change) = match attempt.parts.get(member) {
        Some(MemberPart::Agent { agent, change }) => (*agent, change),
        Some(MemberPart::Domain(part)) => {
            let input = transactions.prepare_domain(&attempt, branch, (epoch, serial), part).await;
            return transactions.asked(branch, input);
        }
        None => return,
    };
    let (number, agent) = (agent, &transactions.agents[agent]);
    let request = transactions.prepare_request(branch, epoch, serial, change);
    let before = transactions.clock.now();
    let no = |problem: Box<Problem>| {
        let why = problem.detail.clone();
        attempt.note(|progress| progress.refused[member] = Some(problem));
        why
    };
    let input = match agent.exchange(Some(&attempt.caller), request).await {
        Exchange::Answered(answer) => match *answer {
            BookAnswer::Reservation(doc) => transactions.promised(&attempt, branch, number, doc, before),
            _ => {
                let problem = Problem::unavailable(format!("the agent {} says what makes no sense", agent.name));
                Input::Lost { branch, why: no(problem) }
            }
        },
        Exchange::Refused(refusal) => {
            transactions.hear_outdated(&refusal);
            Input::Voted { branch, vote: Vote::No(no(Problem::said(&agent.name, refusal))) }
        }
        Exchange::NotAsked(problem) => {
            transactions.silent[number].notify_one();
            Input::Voted { branch, vote: Vote::No(no(problem)) }
        }
        Exchange::Lost(problem) => {
            transactions.silent[number].notify_one();
            Input::Lost { branch, why: no(problem) }
        }
    };
    transactions.asked(branch, input);
}

/// Tells a member a decision, or has it carry out its order.
pub async fn decide(
    transactions: Arc<Transactions>,
    branch: Branch,
    name: String,
    epoch: Epoch,
    decision: Decision,
    order: Option<Box<MemberOrder>>,
) {
    if let Some(domain) = transactions.domains.iter().find(|domain| domain_member(&domain.name) == name) {
        let done = transactions.decide_domain(domain, branch, (epoch, decision), order.as_deref()).await;
        return transactions.told(branch, done);
    }
    let Some(number) = transactions.agents.iter().position(|agent| *agent.name == *name) else {
        // It is not in the configuration any more: the transaction waits for it.
        return transactions.told(branch, false);
    };
    let agent = &transactions.agents[number];
    let done = match order {
        Some(order) => carry_out(agent, &order).await,
        None => match agent.exchange(None, transactions.decide_request(branch, epoch, decision)).await {
            Exchange::Answered(answer) => {
                if let BookAnswer::Reservation(doc) = *answer {
                    transactions.shown(branch, doc);
                }
                true
            }
            Exchange::Refused(refusal) => {
                transactions.hear_outdated(&refusal);
                false
            }
            Exchange::NotAsked(_) | Exchange::Lost(_) => false,
        },
    };
    if !done {
        transactions.silent[number].notify_one();
    }
    transactions.told(branch, done);
}

/// Carries out an order at an agent. False: it has to be tried again.
async fn carry_out(agent: &AgentClient, order: &MemberOrder) -> bool {
    match &order.action {
        MemberAction::GiveBack(group) => give_back(agent, order, group).await.unwrap_or(false),
        // A domain's, and no agent's.
        MemberAction::EndLeg(_) => true,
        MemberAction::Undo(request) => match agent.exchange(Some(&order.caller), request.as_ref().clone()).await {
            Exchange::Answered(_) => true,
            // What cannot be undone is over, or otherwise not as it was: nobody can do more about it.
            Exchange::Refused(refusal) => !is_passing(&refusal),
            Exchange::NotAsked(_) | Exchange::Lost(_) => false,
        },
    }
}

/// True if the agent may say otherwise in a moment.
fn is_passing(refusal: &Said) -> bool {
    matches!(Problem::said("", refusal.clone()).status, 429 | 503)
}

/// Cancels all reservations with this group name that are not over. True if none is left.
async fn give_back(agent: &AgentClient, order: &MemberOrder, group: &str) -> Answer<bool> {
    let mut conversation = agent.speak(&order.caller).await?;
    let filter = BookFilter { group: Some(group.to_owned()), ..BookFilter::default() };
    let (rows, more) = gather::list(&mut conversation, filter).await?;
    let mut all = !more;
    for row in rows {
        match conversation.book(Request::BookCancel { handle: row.handle }).await {
            Ok(_) => {}
            // It has ended meanwhile.
            Err(problem) if problem.status == 404 => {}
            Err(_) => all = false,
        }
    }
    conversation.end();
    Ok(all)
}

/// An epoch as agents are told it.
pub fn said(epoch: Epoch) -> EpochDoc {
    let Epoch { number, decisions, nonce } = epoch;
    EpochDoc { number, decisions, nonce }
}

impl Transactions {
    /// The call that asks for a vote.
    fn prepare_request(&self, branch: Branch, epoch: Epoch, serial: Serial, change: &PrepareAskDoc) -> Request {
        Request::BookPrepare(Box::new(PrepareDoc {
            transaction: branch.transaction.to_string(),
            member: branch.member,
            coordinator: self.name.clone(),
            epoch: said(epoch),
            serial: serial.number,
            floor: serial.floor,
            ask: change.clone(),
        }))
    }

    /// The call that tells a decision.
    fn decide_request(&self, branch: Branch, epoch: Epoch, decision: Decision) -> Request {
        let commit = match decision {
            Decision::Commit { number } => Some(number),
            Decision::Abort => None,
        };
        Request::BookDecide(DecideDoc {
            transaction: branch.transaction.to_string(),
            member: branch.member,
            coordinator: self.name.clone(),
            epoch: said(epoch),
            commit,
        })
    }

    /// Notes a promise, and gives the attempt up if the agent's clock is too far from the others'.
    fn promised(
        self: &Arc<Self>,
        attempt: &Attempt,
        branch: Branch,
        agent: usize,
        doc: ReservationDoc,
        before: Time,
    ) -> Input {
        if let Some(promise) = &doc.promise {
            self.clocks.note(agent, Time::from_nanos(promise.clock_ns), before, self.clock.now());
        }
        let member = branch.member as usize;
        attempt.note(|progress| (progress.docs[member], progress.promised[member]) = (Some(doc), true));
        let agents: Vec<usize> = attempt.parts.iter().filter_map(MemberPart::agent).collect();
        if let Err(problem) = self.same_time(&agents) {
            attempt.note(|progress| progress.given_up = Some(problem));
            self.take(Input::GiveUp(branch.transaction));
        }
        Input::Voted { branch, vote: Vote::Yes }
    }

    /// Notes that an agent knows a newer start of this coordinator, if that is why it refused.
    pub(super) fn hear_outdated(self: &Arc<Self>, refusal: &Said) {
        let refusal = refusal.refusal.as_ref().filter(|refusal| refusal.reason == "outdated");
        if let Some(EpochDoc { number, decisions, nonce }) = refusal.and_then(|refusal| refusal.known) {
            self.take(Input::Outdated { known: Epoch { number, decisions, nonce } });
        }
    }

    /// Notes a reservation as its agent shows it after the decision.
    fn shown(&self, branch: Branch, doc: ReservationDoc) {
        if let Some(attempt) = self.locked().attempt(branch.transaction) {
            attempt.note(|progress| {
                if let Some(known) = progress.docs.get_mut(branch.member as usize) {
                    *known = Some(doc);
                }
            });
        }
    }

    /// Tells the coordinator what came of a question for a vote.
    fn asked(self: &Arc<Self>, branch: Branch, input: Input) {
        let now = self.clock.now();
        let effects = self.locked().asked(now, branch, input);
        self.perform(effects);
    }

    /// Notes if a member has done what was decided.
    fn told(self: &Arc<Self>, branch: Branch, done: bool) {
        let now = self.clock.now();
        let effects = self.locked().told(now, branch, done);
        self.perform(effects);
    }
}
