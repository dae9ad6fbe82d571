//! The calls of the coordinator to the broker of the next domain: its leg is one member of the transaction. Its
//! promise counts only if the acceptances that come with it are believed.

use super::Transactions;
use super::attempt::{Attempt, AttemptProgress, DomainPart, MemberAction, MemberOrder, Note};
use super::legs::LegRecord;
use super::tell::said;
use super::{domain_member, draw};
use crate::acceptance::OwnAcceptance;
use crate::domain_client::{DomainClient, DomainReply};
use crate::problem::{Answer, Problem};
use axum::http::StatusCode;
use commit::coordinator::{Input, Serial};
use commit::{Branch, Decision, Epoch, TransactionId, Vote};
use documents::book::{EpochDoc, Instant};
use documents::legs::{LegAskDoc, LegDecidedDoc, LegDecisionDoc, LegPromiseDoc, LegStateDoc, TreeLegDoc};
use documents::topology::StatementDoc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// The longest wait for the acceptance of the domain after one of a tree.
const ACCEPTED: Duration = Duration::from_secs(30);
/// The pause before a domain that did not answer is told of this coordinator again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// In a tree: the acceptances of the domains after this member, once they have come; `None`: they do not.
async fn after(attempt: &Attempt, member: usize) -> Option<Vec<StatementDoc>> {
    let next = member + 1;
    if next >= attempt.parts.len() {
        return Some(Vec::new());
    }
    let over = |progress: &AttemptProgress| {
        progress.promised[next] || progress.refused.iter().any(Option::is_some) || progress.verdict.is_some()
    };
    let progress = timeout(ACCEPTED, attempt.until(over)).await.ok()?.ok()?;
    let leg = attempt.noted().leg.filter(|_| progress.promised[next])?;
    Some(leg.acceptances)
}

impl Transactions {
    /// Asks another domain for its vote.
    pub(super) async fn prepare_domain(
        self: &Arc<Self>,
        attempt: &Attempt,
        branch: Branch,
        (epoch, serial): (Epoch, Serial),
        part: &DomainPart,
    ) -> Input {
        let member = branch.member as usize;
        let no = |problem: Box<Problem>| {
            let why = problem.detail.clone();
            attempt.note(|progress| progress.refused[member] = Some(problem));
            why
        };
        let Some(leg) = attempt.note.leg.as_deref() else {
            return Input::Voted { branch, vote: Vote::No("the reservation has no leg".to_owned()) };
        };
        let domain = &self.domains[part.domain];
        let after = match &part.entry {
            Some(_) => match after(attempt, member).await {
                Some(after) => after,
                None => return Input::Voted { branch, vote: Vote::No("the domain after it has not accepted".into()) },
            },
            None => Vec::new(),
        };
        let tree = part.entry.clone().map(|entry| TreeLegDoc { entry, after: after.clone() });
        let ask = LegAskDoc {
            transaction: branch.transaction.to_string(),
            member: branch.member,
            epoch: said(epoch),
            serial: serial.number,
            floor: serial.floor,
            origin: part.origin.to_string(),
            via: part.via.clone(),
            reservation: leg.reservation.clone(),
            owner: part.owner.clone(),
            groups: part.groups.clone(),
            token: part.token.clone(),
            border: part.border.clone(),
            leg: leg.leg.clone(),
            change: part.change,
            tree,
        };
        match domain.call::<_, LegPromiseDoc>("POST", "/v1/legs", Some(&ask)).await {
            DomainReply::Answered(promise) => match self.accepted((domain, part), leg, &after, promise.acceptances) {
                Ok(leg) => {
                    let note = Note { leg: Some(Box::new(leg)), ..attempt.note.clone() };
                    attempt.accept(note.clone());
                    let now = self.clock.now();
                    let effects = self.locked().note(now, branch.transaction, note);
                    self.perform(effects);
                    attempt.note(|progress| progress.promised[member] = true);
                    Input::Voted { branch, vote: Vote::Yes }
                }
                // It has promised, and is told the end.
                Err(problem) => Input::Lost { branch, why: no(problem) },
            },
            DomainReply::Refused(problem) => {
                self.hear_outdated_above(&problem);
                Input::Voted { branch, vote: Vote::No(no(problem)) }
            }
            DomainReply::NotAsked(problem) => Input::Voted { branch, vote: Vote::No(no(problem)) },
            DomainReply::Lost(problem) => Input::Lost { branch, why: no(problem) },
        }
    }

    /// Checks the acceptances of a domain that was asked, and adds our own if another domain asked us. `after`: those
    /// that it was shown, in a tree.
    ///
    /// # Errors
    /// 502: they are not believed, and nothing is promised.
    fn accepted(
        &self,
        (domain, part): (&DomainClient, &DomainPart),
        leg: &LegRecord,
        after: &[StatementDoc],
        acceptances: Vec<StatementDoc>,
    ) -> Answer<LegRecord> {
        let refused = |why: String| {
            Problem::new(
                StatusCode::BAD_GATEWAY,
                "acceptance",
                "Acceptance not believed",
                format!("{why}: nothing has changed"),
            )
        };
        let voice = self.voice().ok_or_else(|| refused("this broker has no certificate".to_owned()))?;
        let today = self.clock.today();
        let entry = part.entry.as_deref().unwrap_or(&voice.domain);
        voice.check((entry, &domain.name), part.origin, &leg.leg, &acceptances, today).map_err(refused)?;
        if part.entry.is_some() && acceptances.get(1..) != Some(after) {
            return Err(refused(format!("the acceptance of {} names others than it was shown", domain.name)));
        }
        let own = self.own_acceptance(leg, part.origin, &acceptances)?;
        let acceptances = own.into_iter().chain(acceptances).collect();
        Ok(LegRecord { acceptances, noted: Instant(today), ..leg.clone() })
    }

    /// Our own acceptance of a leg that another domain asked for; `None`: it begins here.
    ///
    /// # Errors
    /// 503: it cannot be signed.
    pub fn own_acceptance(
        &self,
        leg: &LegRecord,
        origin: commit::TransactionId,
        after: &[StatementDoc],
    ) -> Answer<Option<StatementDoc>> {
        let Some(above) = &leg.above else { return Ok(None) };
        let voice = self.voice().ok_or_else(|| Problem::unavailable("this broker has no certificate"))?;
        let own = OwnAcceptance {
            origin,
            reservation: &leg.reservation,
            entry: above.entry.as_ref().unwrap_or(&above.domain),
            exit: leg.next.as_ref().map(|next| &next.domain).or(leg.exit.as_ref()).map(String::as_str),
            sla: None,
            leg: &leg.leg,
        };
        voice.accept(&own, after, self.clock.today()).map(Some).map_err(Problem::unavailable)
    }

    /// Tells the next domain a decision, or has it give its leg back. False: it has to be told again.
    pub(super) async fn decide_domain(
        self: &Arc<Self>,
        domain: &DomainClient,
        branch: Branch,
        (epoch, decision): (Epoch, Decision),
        order: Option<&MemberOrder>,
    ) -> bool {
        if let Some(MemberOrder { action: MemberAction::EndLeg(reservation), .. }) = order {
            return match domain.call::<(), LegStateDoc>("DELETE", &format!("/v1/legs/{reservation}"), None).await {
                DomainReply::Answered(_) => true,
                // There is none, or none any more.
                DomainReply::Refused(problem) => problem.status == 404,
                DomainReply::NotAsked(_) | DomainReply::Lost(_) => false,
            };
        }
        let commit = match decision {
            Decision::Commit { number } => Some(number),
            Decision::Abort => None,
        };
        let doc = LegDecisionDoc { member: branch.member, epoch: said(epoch), commit };
        let target = format!("/v1/transactions/{}", branch.transaction);
        match domain.call::<_, LegDecidedDoc>("PUT", &target, Some(&doc)).await {
            DomainReply::Answered(_) => true,
            DomainReply::Refused(problem) => {
                self.hear_outdated_above(&problem);
                false
            }
            DomainReply::NotAsked(_) | DomainReply::Lost(_) => false,
        }
    }

    /// Tells another domain of this coordinator's epoch, until it has said that it knows no newer one. Returns
    /// when `stopped` changes. There is no call for that alone: it is told the abort of a transaction that never was.
    pub async fn greet_domain(self: Arc<Self>, number: usize, mut stopped: watch::Receiver<bool>) {
        tokio::select! {
            () = self.greet(number) => {}
            _ = stopped.changed() => return,
        }
        // A task of the broker that ends before the broker is a fault.
        let _ = stopped.changed().await;
    }

    async fn greet(self: &Arc<Self>, number: usize) {
        let domain = &self.domains[number];
        let mut pause = FIRST_PAUSE;
        loop {
            let Ok(never) = draw::<16>().map(TransactionId) else { return };
            let doc = LegDecisionDoc { member: 0, epoch: said(self.epoch()), commit: None };
            let said = domain.call::<_, LegDecidedDoc>("PUT", &format!("/v1/transactions/{never}"), Some(&doc)).await;
            match said {
                DomainReply::Answered(_) => return self.take(Input::Confirmed(domain_member(&domain.name))),
                DomainReply::Refused(problem) if problem.status == 403 => {
                    // It takes no legs from this domain, so it keeps none.
                    return self.take(Input::Confirmed(domain_member(&domain.name)));
                }
                DomainReply::Refused(problem) => self.hear_outdated_above(&problem),
                DomainReply::NotAsked(_) | DomainReply::Lost(_) => {}
            }
            sleep(pause).await;
            pause = pause.saturating_mul(2).min(LAST_PAUSE);
        }
    }

    /// Notes that another domain knows a newer start of this coordinator, if that is why it refused.
    fn hear_outdated_above(self: &Arc<Self>, problem: &Problem) {
        if let (true, Some(EpochDoc { number, decisions, nonce })) = (problem.kind.ends_with("outdated"), problem.known)
        {
            self.take(Input::Outdated { known: Epoch { number, decisions, nonce } });
        }
    }
}
