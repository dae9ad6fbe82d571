//! `may`: the rule that would decide about a request, booked or signalled, and its decision. Callers may ask
//! about themselves; operators, auditors and those whom the policy's `auditors` name may ask about others.

use crate::calls::problem;
use crate::drive::Drive;
use crate::speakers;
use booking::policy::rights::{Call, Right, Whose, named};
use booking::policy::{Asker, SignalClaim};
use documents::agent::{AskDoc, CallerDoc, MayDoc, Problem, SignalDoc};
use documents::event::Direction;
use documents::may::{CallerRights, MayRow, Signal};
use terms::book::{Caller, CallerRole};
use terms::ports::book::PolicyDecision;

impl Drive {
    /// The decision that policy would make. Nothing changes, and the answer does not show what is free.
    ///
    /// # Errors
    /// The request is invalid, or the caller may not ask about this person.
    pub(crate) fn would_allow(
        &mut self,
        client: u64,
        who: Option<&CallerDoc>,
        ask: &AskDoc,
        signal: Option<&SignalDoc>,
    ) -> Result<MayDoc, Problem> {
        let about = about(self, client, who)?;
        let parts = match signal {
            Some(_) if *ask != AskDoc::default() => return Err(problem("misuse", "ask or signal? one at once")),
            Some(signal) => would_signal(self, &about, signal)?,
            None => would_book(self, &about, ask)?,
        };
        let role = match about.role {
            CallerRole::Owner => CallerRights::Owner,
            CallerRole::Auditor => CallerRights::Auditor,
            CallerRole::Operator => CallerRights::Operator,
            CallerRole::Broker => CallerRights::Broker,
        };
        Ok(MayDoc { parts, who: about.name, groups: about.groups, role })
    }
}

/// The person about whom a caller asks.
fn about(drive: &Drive, client: u64, who: Option<&CallerDoc>) -> Result<Caller, Problem> {
    let nobody = || problem("refused", "nobody speaks here");
    let (seat, asker) = drive.speakers.seat(client, Call::May).ok_or_else(nobody)?;
    let about = match who {
        None => asker.clone(),
        Some(doc) => {
            let about = speakers::read(doc)?;
            // Of themselves the kernel or a certificate says more than they do.
            if about.name == asker.name && about.groups.is_empty() { asker.clone() } else { about }
        }
    };
    let right = if about == *asker { Right::Yes } else { Call::May.right(seat, Whose::Others) };
    if right == Right::No || right == Right::Rule && !drive.node.policy().rules().may_audit(asker) {
        let why = format!(
            "what others may is told to operators, auditors, and whom the policy's `auditors` name; you are {}",
            named(asker)
        );
        return Err(problem("refused", why));
    }
    Ok(about)
}

fn would_book(drive: &Drive, about: &Caller, ask: &AskDoc) -> Result<Vec<MayRow>, Problem> {
    let asked = crate::book::convert::enquired(ask)?;
    let verdicts = drive.node.bookings().would_allow(drive.node.policy(), about, &asked);
    let verdicts = verdicts.ok_or_else(|| problem("misuse", "the window is over, or there is none"))?;
    let row = |(part, verdict): (&booking::io::PartAsk, PolicyDecision)| MayRow {
        resource: part.resource.clone(),
        way: None,
        allowed: verdict.denied.is_none(),
        rule: verdict.rule,
        above: verdict.above,
        why: verdict.denied,
    };
    Ok(asked.parts.iter().zip(verdicts).map(row).collect())
}

fn would_signal(drive: &mut Drive, about: &Caller, signal: &SignalDoc) -> Result<Vec<MayRow>, Problem> {
    let seat = drive.speakers.seat_of(about);
    let claims = crate::signals::would_claim(&mut drive.signals(), signal)?;
    let (call, whose) = match signal.how {
        Signal::Send => (Call::Sender, Whose::Any),
        Signal::Receive => (Call::Reserve, Whose::Any),
        Signal::Boomerang => (Call::BoomerangReserve, Whose::Own),
    };
    let now = drive.book.calendar(drive.clock.now());
    let asker = Asker { caller: about, seat, priority: signal.priority, now };
    let verdicts = match call.right(seat, whose) {
        Right::No => {
            let denied = Some(call.refusal(seat, whose, about));
            claims
                .iter()
                .map(|_| PolicyDecision { rule: String::new(), denied: denied.clone(), ..PolicyDecision::default() })
                .collect()
        }
        Right::Yes | Right::Rule => {
            drive.speakers.signalled.verdicts(drive.node.policy().rules(), &asker, None, &claims)
        }
    };
    let row = |(claim, verdict): (SignalClaim, PolicyDecision)| MayRow {
        resource: claim.resource.unwrap_or_default(),
        way: Some(if claim.inward { Direction::In } else { Direction::Out }),
        allowed: verdict.denied.is_none(),
        rule: verdict.rule,
        above: verdict.above,
        why: verdict.denied,
    };
    Ok(claims.into_iter().zip(verdicts).map(row).collect())
}
