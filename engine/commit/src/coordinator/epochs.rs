//! Starts of the coordinator: its journal is read, an epoch begins, and participants say whether they know a newer one.
//!
//! A journal may have been restored from an older copy, and only a participant that heard more can tell. So what is
//! not in the journal, or is undecided there, is presumed to be aborted only when the participants that may have heard
//! of a commit have confirmed that they know no newer epoch.

use super::{Coordinator, Member, Output, Phase, Readiness, Transaction};
use crate::record::CoordinatorRecord;
use crate::{Epoch, TransactionId};
use alloc::vec::Vec;
use terms::Time;

impl Coordinator {
    pub(super) fn recover(&mut self, record: CoordinatorRecord) {
        match record {
            CoordinatorRecord::Epoch { number, decisions, forgotten } => {
                self.epoch = Epoch { number, decisions, nonce: 0 };
                (self.decisions, self.forgotten) = (decisions, forgotten);
            }
            CoordinatorRecord::Transaction { id, epoch, committed, members, note, above } => {
                let phase = match (committed, above) {
                    (Some(_), _) => Phase::Committing,
                    (None, Some(_)) => Phase::Prepared,
                    (None, None) => Phase::Aborting,
                };
                let members = Member::all(members, Time::ZERO, self.config.pause);
                let of =
                    Transaction { number: committed.unwrap_or(0), ..Transaction::new(epoch, members, note, above) };
                self.transactions.insert(id, Transaction { phase, ..of });
            }
            CoordinatorRecord::End(_) => {}
        }
    }

    /// Starts an epoch: nothing is said in it before it is on the disk. The records are written with it.
    pub(super) fn open(&mut self, mut records: Vec<CoordinatorRecord>) {
        (self.epoch.number, self.epoch.decisions, self.serial) = (self.epoch.number + 1, self.decisions, 0);
        records.push(self.epoch_record());
        let batch = self.append(records, true);
        self.readiness = Readiness::Opening(batch);
    }

    /// Forgets transactions that an older copy of the journal shows as undecided: they may have been decided
    /// since. Only a commit is certain. Returns the records to write.
    pub(super) fn forget_lost(&mut self) -> Vec<CoordinatorRecord> {
        let lost = |of: &Transaction| of.serial == 0 && of.phase == Phase::Aborting && self.has_lost(of.epoch.number);
        let lost = self.transactions.iter().filter(|(_, of)| lost(of)).map(|(id, _)| *id).collect::<Vec<_>>();
        lost.iter().for_each(|id| self.remove(*id));
        lost.into_iter().map(CoordinatorRecord::End).collect()
    }

    /// True if transactions of the epoch of this number may have been decided and are not in the journal.
    pub(super) fn has_lost(&self, epoch: u64) -> bool {
        self.forgotten.0 <= epoch && epoch <= self.forgotten.1
    }

    pub(super) fn outdated(&mut self, now: Time, known: Epoch) {
        if self.readiness == Readiness::Open && !self.epoch.follows(known) {
            let undecided = self.transactions.iter().filter(|(_, of)| of.phase == Phase::Preparing);
            for id in undecided.map(|(id, _)| *id).collect::<Vec<_>>() {
                self.abort(now, id, None, "participants know a newer start of this coordinator".into());
            }
            self.readiness = Readiness::Outdated;
            self.out.push_back(Output::Outdated { known });
        }
    }

    pub(super) fn accept_older(&mut self, known: Epoch, nonce: u64) {
        if self.readiness != Readiness::Outdated {
            return;
        }
        // The copy may be of any earlier epoch: this coordinator may have started several times with it, unheard.
        self.forgotten = (1, known.number.max(self.epoch.number));
        self.epoch.number = self.forgotten.1;
        self.decisions = self.decisions.max(known.decisions);
        let lost = self.forget_lost();
        self.transactions.values_mut().for_each(|of| of.serial = 0);
        self.serials.clear();
        self.epoch.nonce = nonce;
        self.open(lost);
    }

    /// A participant knows no epoch that is newer than the present one.
    pub(super) fn confirmed(&mut self, now: Time, name: &str) {
        if !self.unheard.remove(name) {
            return;
        }
        let with =
            |id: &&TransactionId| self.transactions.get(*id).is_some_and(|of| of.is_with(name) && !self.holds(of));
        let free: Vec<TransactionId> = self.held.iter().filter(with).copied().collect();
        free.into_iter().for_each(|id| self.tell(id, Phase::Aborting, now));
    }

    /// True if a participant has not confirmed the epoch that may have heard that this transaction is committed.
    pub(super) fn holds(&self, of: &Transaction) -> bool {
        let presumed = of.serial == 0 && of.phase == Phase::Aborting;
        presumed && of.members.iter().any(|member| self.unheard.contains(&member.record.name))
    }
}
