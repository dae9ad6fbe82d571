//! The stub agent as a participant of transactions: it promises, hears decisions, and says what it has promised.

use crate::stub::{Book, amount_of, over, refusal};
use documents::agent::Problem;
use documents::book::*;
use documents::links::CallerDoc;
use linux::clock::Clock;

/// A promise that is not decided.
pub struct Promise {
    handle: String,
    /// Only its own coordinator hears of it and decides it.
    coordinator: String,
    epoch: u64,
    change: PrepareAskDoc,
    /// The amounts before, of a modification.
    had: Vec<f64>,
}

/// What a decision is about.
pub type Branch = (String, u32);

impl Book {
    pub fn prepare(&mut self, caller: &CallerDoc, doc: PrepareDoc) -> Result<ReservationDoc, Problem> {
        self.believe(&doc.coordinator, doc.epoch)?;
        let mut had = Vec::new();
        let handle = match &doc.ask {
            PrepareAskDoc::Create(ask) => {
                let made = self.create(caller, ask.clone(), "promised")?;
                made.handle
            }
            PrepareAskDoc::Hold { handle }
            | PrepareAskDoc::Modify { handle, .. }
            | PrepareAskDoc::Bind { handle, .. } => {
                let at = self.mine(caller, handle)?;
                let row = &self.rows[at];
                if over(row) || row.promise.is_some() {
                    return Err(refusal("wrong_state", "it is over, or promised"));
                }
                if let PrepareAskDoc::Modify { change, .. } = &doc.ask {
                    had = row.parts.iter().map(|part| part.steps[0].amount).collect();
                    self.keep_the_greater(at, change)?;
                }
                handle.clone()
            }
        };
        let change = match doc.ask {
            PrepareAskDoc::Create(_) => "create",
            PrepareAskDoc::Hold { .. } => "hold",
            PrepareAskDoc::Modify { .. } => "modify",
            PrepareAskDoc::Bind { .. } => "bind",
        };
        let promise = PromiseDoc {
            transaction: doc.transaction.clone(),
            member: doc.member,
            coordinator: doc.coordinator.clone(),
            change: change.into(),
            clock_ns: self.clock_ns(),
        };
        let at = self.mine(caller, &handle)?;
        self.rows[at].promise = Some(promise);
        let promise = Promise { handle, coordinator: doc.coordinator, epoch: doc.epoch.number, change: doc.ask, had };
        self.promises.insert((doc.transaction, doc.member), promise);
        Ok(self.rows[at].clone())
    }

    pub fn decide(&mut self, doc: DecideDoc) -> Result<BookAnswer, Problem> {
        self.believe(&doc.coordinator, doc.epoch)?;
        let branch = (doc.transaction, doc.member);
        let own = self.promises.get(&branch).is_some_and(|promise| promise.coordinator == doc.coordinator);
        let Some(promise) = own.then(|| self.promises.remove(&branch)).flatten() else {
            return Ok(BookAnswer::Nothing);
        };
        let Promise { handle, change, had, .. } = promise;
        let at = self.rows.iter().position(|row| row.handle == handle).unwrap();
        self.rows[at].promise = None;
        let committed = doc.commit.is_some();
        let event = match (change, committed) {
            (PrepareAskDoc::Create(_), false) => {
                self.rows[at].state = "cancelled".into();
                "cancelled"
            }
            (PrepareAskDoc::Create(_) | PrepareAskDoc::Hold { .. }, true) => {
                self.rows[at].state = "active".into();
                "committed"
            }
            (PrepareAskDoc::Modify { change, .. }, true) => {
                self.change(at, &change);
                "modified"
            }
            (PrepareAskDoc::Modify { .. }, false) => {
                for (part, had) in self.rows[at].parts.iter_mut().zip(had) {
                    (part.steps[0].amount, part.now) = (had, had);
                }
                "modified"
            }
            (PrepareAskDoc::Bind { part, binding, .. }, true) => {
                self.rows[at].parts[part].binding = binding;
                "bound"
            }
            (PrepareAskDoc::Hold { .. } | PrepareAskDoc::Bind { .. }, false) => "bound",
        };
        self.event(&handle, event);
        Ok(BookAnswer::Reservation(self.rows[at].clone()))
    }

    pub fn promised(&mut self, doc: PromisesDoc) -> Result<PromiseRows, Problem> {
        self.believe(&doc.coordinator, doc.epoch)?;
        let row = |((transaction, member), promise): (&Branch, &Promise)| PromiseRow {
            transaction: transaction.clone(),
            member: *member,
            epoch: promise.epoch,
        };
        let own = |(_, promise): &(&Branch, &Promise)| promise.coordinator == doc.coordinator;
        let rows = self.promises.iter().filter(own).map(row).collect();
        Ok(PromiseRows { rows, more: false, clock_ns: self.clock_ns() })
    }

    fn believe(&mut self, coordinator: &str, epoch: EpochDoc) -> Result<(), Problem> {
        let known = self.known.entry(coordinator.to_owned()).or_default();
        let newer = epoch.number > known.number && epoch.decisions >= known.decisions;
        if newer || epoch == *known {
            *known = epoch;
            return Ok(());
        }
        let mut no = refusal("outdated", "a newer start of this broker is known");
        no.refusal.as_mut().unwrap().known = Some(*known);
        Err(no)
    }

    fn clock_ns(&self) -> u64 {
        Clock::start().today().as_nanos() + self.ahead * 1_000_000_000
    }

    fn keep_the_greater(&mut self, at: usize, change: &ChangeDoc) -> Result<(), Problem> {
        self.fits(at, change)?;
        for amount in &change.amounts {
            let part = &mut self.rows[at].parts[amount.part];
            part.steps[0].amount = part.steps[0].amount.max(amount_of(amount));
        }
        Ok(())
    }
}
