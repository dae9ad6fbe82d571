//! `may`: which rule would decide about somebody's request, and what it would say. Everybody may ask about themselves;
//! about others operators, auditors, and whom the policy's `auditors` name.

use crate::agent::Agent;
use crate::calls::problem;
use crate::speakers;
use api::agent::{AskDoc, CallerDoc, MayDoc, Problem};
use api::may::MayRow;
use policy::rights::{Call, Right, Whose, named};
use terms::book::Role;

impl Agent {
    /// What policy would say. Nothing changes, and nobody learns what is free.
    ///
    /// # Errors
    /// It is no request, or it is about somebody of whom the caller may not ask.
    pub(crate) fn would_allow(&self, client: u64, who: Option<&CallerDoc>, ask: &AskDoc) -> Result<MayDoc, Problem> {
        let nobody = || problem("refused", "nobody speaks here");
        let (seat, asker) = self.speakers.seat(client, Call::May).ok_or_else(nobody)?;
        let about = match who {
            None => asker.clone(),
            Some(doc) => {
                let about = speakers::read(doc)?;
                // Of themselves the kernel or a certificate says more than they do.
                if about.name == asker.name && about.groups.is_empty() { asker.clone() } else { about }
            }
        };
        let right = if about == *asker { Right::Yes } else { Call::May.right(seat, Whose::Others) };
        if right == Right::No || right == Right::Rule && !self.book.policy.may_audit(asker) {
            let why = format!(
                "what others may is told to operators, auditors, and whom the policy's `auditors` name; you are {}",
                named(asker)
            );
            return Err(problem("refused", why));
        }
        let asked = api::book::convert::enquired(ask)?;
        let verdicts = self.book.broker.would_allow(&self.book.policy, &about, &asked);
        let verdicts = verdicts.ok_or_else(|| problem("misuse", "the window is over, or there is none"))?;
        let row = |(part, verdict): (&broker::io::PartAsk, terms::ports::book::Verdict)| MayRow {
            resource: part.resource.clone(),
            allowed: verdict.denied.is_none(),
            rule: verdict.rule,
            why: verdict.denied,
        };
        let role = match about.role {
            Role::Owner => "owner",
            Role::Auditor => "auditor",
            Role::Operator => "operator",
        };
        Ok(MayDoc {
            parts: asked.parts.iter().zip(verdicts).map(row).collect(),
            who: about.name,
            groups: about.groups,
            role: role.to_owned(),
        })
    }
}
