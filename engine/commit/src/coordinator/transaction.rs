//! A transaction: its members, its phase, and its time.

use super::io::Phase;
use crate::record::{CoordinatorRecord, MemberRecord};
use crate::{Branch, Decision, Epoch, TransactionId};
use alloc::vec::Vec;
use terms::{Span, Time};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Member {
    pub(super) record: MemberRecord,
    pub(super) yes: bool,
    pub(super) acknowledged: bool,
    pub(super) due: Time,
    pub(super) pause: Span,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Transaction {
    pub(super) epoch: Epoch,
    pub(super) phase: Phase,
    pub(super) number: u64,
    /// Its number in this coordinator's present epoch; 0: it is of an earlier one.
    pub(super) serial: u64,
    pub(super) members: Vec<Member>,
    pub(super) note: Vec<u8>,
    /// The part of another coordinator's transaction that it stands for.
    pub(super) above: Option<Branch>,
    /// True: only the last member has been asked for its vote.
    pub(super) chained: bool,
    pub(super) deadline: Time,
    /// Its time in [`Coordinator::due`].
    pub(super) wake: Option<Time>,
}

impl Member {
    /// Members that have said nothing, and are told something from `due` on.
    pub(super) fn all(records: Vec<MemberRecord>, due: Time, pause: Span) -> Vec<Member> {
        let member = |record| Member { record, yes: false, acknowledged: false, due, pause };
        records.into_iter().map(member).collect()
    }
}

impl Transaction {
    /// A transaction whose members are asked, as far as it is known from this.
    pub(super) fn new(epoch: Epoch, members: Vec<Member>, note: Vec<u8>, above: Option<Branch>) -> Transaction {
        let (phase, chained) = (Phase::Preparing, false);
        Transaction {
            epoch,
            phase,
            number: 0,
            serial: 0,
            members,
            note,
            above,
            chained,
            deadline: Time::FOREVER,
            wake: None,
        }
    }

    pub(super) fn record(&self, id: TransactionId) -> CoordinatorRecord {
        let committed = (self.number > 0).then_some(self.number);
        let members = self.members.iter().map(|member| member.record.clone()).collect();
        let (epoch, note, above) = (self.epoch, self.note.clone(), self.above);
        CoordinatorRecord::Transaction { id, epoch, committed, members, note, above }
    }

    /// The decision, if it may be told.
    pub(super) fn decision(&self) -> Option<Decision> {
        match self.phase {
            Phase::Preparing | Phase::Prepared | Phase::Deciding => None,
            Phase::Committing => Some(Decision::Commit { number: self.number }),
            Phase::Aborting => Some(Decision::Abort),
        }
    }

    /// True if a participant is one of its members.
    pub(super) fn is_with(&self, name: &str) -> bool {
        self.members.iter().any(|member| member.record.name == name)
    }

    pub(super) fn wake_at(&self) -> Option<Time> {
        match self.phase {
            Phase::Preparing => Some(self.deadline),
            Phase::Prepared | Phase::Deciding => None,
            _ => self.members.iter().filter(|member| !member.acknowledged).map(|member| member.due).min(),
        }
    }
}
