//! The audit of decisions, read back for those who may: a bounded stretch at a time, on the journal's thread.

use super::convert;
use crate::calls::problem;
use crate::config::Level;
use crate::drive::Drive;
use booking::record::{Audited, AuditedAsk, AuditedPart};
use documents::agent::{Answer, Problem, ReplyLine};
use documents::book::{self, AskedDoc, AskedPartDoc, AuditAsk, AuditPage, AuditRow, Instant};
use store::{ChainLink, Damage, Error, Store};
use terms::Time;
use terms::book::{Handle, ResourceKind};

/// The most entries that one call looks at: new bookings wait meanwhile, some milliseconds.
const LOOKED_AT: u64 = 1_024;
/// The most entries in an answer, and its size in bytes, roughly.
const MOST_ENTRIES: usize = 1_000;
const MOST_BYTES: usize = 1 << 18;

/// A query of the audit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    from: Option<u64>,
    most: usize,
    handle: Option<Handle>,
    who: Option<String>,
}

impl Wanted {
    /// Reads a query from a document.
    ///
    /// # Errors
    /// `misuse`: the handle is invalid.
    pub fn of(ask: &AuditAsk) -> Result<Wanted, Problem> {
        let handle = ask.handle.as_deref().map(convert::handled).transpose()?;
        let most = ask.limit.unwrap_or(MOST_ENTRIES).min(MOST_ENTRIES);
        Ok(Wanted { from: ask.from, most, handle, who: ask.who.clone() })
    }

    /// Reads the page. An entry that does not match its hash ends it.
    pub(super) fn read(&self, store: &mut dyn Store) -> Result<AuditPage, Error> {
        let last = store.head().number;
        let from = self.from.unwrap_or_else(|| (last + 1).saturating_sub(self.most as u64)).max(1);
        let mut page = AuditPage { entries: Vec::new(), next: from, last };
        if from > last || self.most == 0 {
            return Ok(page);
        }
        let (mut bytes, mut wrong) = (0, None);
        store.audit(from, LOOKED_AT, &mut |link, body| {
            let full = page.entries.len() >= self.most || bytes >= MOST_BYTES;
            if full || wrong.is_some() {
                return;
            }
            page.next = link.number + 1;
            match Audited::decode(body) {
                Ok(audited) if self.fits(&audited) => {
                    bytes += body.len();
                    page.entries.push(row(link, audited));
                }
                Ok(_) => {}
                Err(_) => wrong = Some(link.number),
            }
        })?;
        wrong.map_or(Ok(page), |number| Err(Error::Damaged(Damage::Audit(number))))
    }

    fn fits(&self, audited: &Audited) -> bool {
        let handle = self.handle.is_none_or(|handle| audited.handle == Some(handle));
        handle && self.who.as_ref().is_none_or(|who| *who == audited.who)
    }
}

fn row(link: &ChainLink, audited: Audited) -> AuditRow {
    AuditRow {
        number: link.number,
        at: Instant(audited.at),
        who: audited.who,
        verb: audited.verb,
        handle: audited.handle.map(|handle| handle.text()),
        outcome: audited.outcome,
        rules: audited.rules,
        asked: audited.asked.map(asked),
        hash: link.hash.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn asked(asked: AuditedAsk) -> AskedDoc {
    let part = |part: AuditedPart| {
        let kind = ResourceKind::of(&part.resource);
        let of = |amount| book::amount(kind, amount);
        AskedPartDoc {
            amount: (part.amount > 0).then(|| of(part.amount)),
            least: (part.least < part.amount).then(|| of(part.least)),
            unit: book::unit(kind).to_owned(),
            resource: part.resource,
        }
    };
    AskedDoc {
        parts: asked.parts.into_iter().map(part).collect(),
        start: Instant(asked.from),
        end: (asked.until != Time::FOREVER).then_some(Instant(asked.until)),
        windows: (asked.windows != 1).then_some(asked.windows),
        seconds: asked.length.map(|length| length.as_nanos() as f64 / 1e9),
        volume: asked.volume,
    }
}

impl Drive {
    /// Starts a query of the audit; [`Drive::reply_audit`] sends the answer.
    ///
    /// # Errors
    /// The caller may not read the audit, or the query is invalid.
    pub(crate) fn call_audit(&mut self, client: u64, id: u64, ask: &AuditAsk) -> Result<(), Problem> {
        let caller = self.speakers.of(client);
        if !self.node.policy().rules().may_audit(&caller) {
            self.console.line(Level::Warn, "audit_denied", &[("client", &client), ("who", &caller.name)]);
            let why = "the audit is for operators and auditors, and for whom the policy names: auditors = [...]";
            return Err(problem("refused", why));
        }
        let wanted = Wanted::of(ask)?;
        let number = self.book.wait_for(client, id)?;
        // What was decided before the call is in it.
        self.send_batches();
        if let Err(error) = self.book.desk.read_audit(number, wanted) {
            self.book.calls.remove(&number);
            return Err(problem("refused", error.to_string()));
        }
        self.console.owe(client);
        Ok(())
    }

    /// Sends pages of the audit to the clients that wait for them.
    pub(super) fn reply_audit(&mut self) {
        for (number, page) in self.book.desk.pages() {
            let Some(waiting) = self.book.calls.remove(&number) else { continue };
            let id = waiting.id;
            let line = match page {
                Ok(page) => ReplyLine::Ok { id, ok: Box::new(Answer::Audit(page)) },
                Err(error) => ReplyLine::Error { id, error: problem("fault", error.to_string()) },
            };
            self.console.pay(waiting.client, &line);
        }
    }
}
