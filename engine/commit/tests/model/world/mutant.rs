//! Defects on purpose: adapters around the engines that change an input, an output, a record or an answer.
//!
//! Each is a mistake that an implementation of two-phase commit can make. The model must find every one of them.

use super::At;
use super::message::{Message, branch_of, name_of, places_of};
use super::participant::{Fate, ParticipantSite};
use commit::coordinator::{self, Outcome};
use commit::participant::{self, ParticipantRecord, PromisedChange};
use commit::record::CoordinatorRecord;
use commit::{Branch, Coordinator, Decision, Participant, Vote};
use std::collections::BTreeSet;
use terms::Time;

macro_rules! mutants {
    ($($name:ident $words:literal,)*) => {
        /// A defect, or none.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Mutant { None, $(#[doc = $words] $name,)* }

        /// Every defect, with its description.
        pub const MUTANTS: &[(Mutant, &str)] = &[$((Mutant::$name, $words),)*];
    };
}

mutants! {
    DecisionAfterCommit "the coordinator sends Commit before its decision is on the disk",
    PartialVote "the coordinator decides when the first member has said Yes",
    PresumesCommit "the coordinator answers Commit for a transaction that it does not know",
    LostAckIsAbort "the coordinator tells Abort to a member that has not acknowledged a commit",
    ForgetsBeforeAck "the coordinator forgets a transaction when it has sent the decision once",
    ForgetsDecision "the coordinator comes back without its decisions",
    OpenIsAbort "the coordinator answers Abort while it is still waiting for votes",
    LateYesRevives "the coordinator answers a Yes that comes after the abort with Commit",
    NeverRepeats "the coordinator sends a decision only once",
    SameEpoch "the coordinator comes back in the epoch in which it was killed",
    FailedIsDecided "the coordinator takes a decision as written whose write failed",
    VoteBeforeDurable "a participant says Yes before its promise is on the disk",
    TimesOutAlone "a participant drops a promise when no decision has come in time",
    EpochUnchecked "a participant believes messages of an older epoch",
    MootTooEarly "a participant drops a promise as moot before its window has passed",
    RecoversWithoutPromises "a participant comes back without its promises",
    ForgetsTheOver "a participant comes back without the parts that are over",
    AcknowledgesEarly "a participant acknowledges a decision before it is on the disk",
    NeverAsks "a participant does not ask for a decision",
    FailedIsPromised "a participant takes a promise as written whose write failed",
    SecondPromise "a repeated Prepare makes a second promise",
    PromisesUncounted "a host grants what is promised to another transaction",
}

impl Mutant {
    /// The inputs that the coordinator gets in place of this one.
    pub fn coordinator_inputs(self, at: &At, input: coordinator::Input) -> Vec<coordinator::Input> {
        use coordinator::Input;
        match (self, input) {
            (Mutant::PartialVote, Input::Voted { branch, vote: Vote::Yes }) => {
                let transaction = places_of(branch).0;
                let yes = |place| Input::Voted { branch: branch_of(transaction, place), vote: Vote::Yes };
                (0..at.scope.participants).map(yes).collect()
            }
            (Mutant::FailedIsDecided, Input::WriteFailed(batch, _)) => vec![Input::Written(batch)],
            (_, input) => vec![input],
        }
    }

    /// The outputs that the coordinator makes in place of this one, and the inputs that it gets next.
    pub fn coordinator_outputs(
        self,
        at: &At,
        said: &mut BTreeSet<Branch>,
        output: coordinator::Output,
    ) -> (Vec<coordinator::Output>, Vec<coordinator::Input>) {
        use coordinator::Output;
        let members = 0..at.scope.participants;
        match (self, output) {
            (Mutant::DecisionAfterCommit, Output::Append { batch, records, forced }) => {
                let mut outputs = Vec::new();
                for record in &records {
                    let CoordinatorRecord::Transaction { id, epoch, committed: Some(number), .. } = *record else {
                        continue;
                    };
                    let decision = Decision::Commit { number };
                    let branch = |place| Branch { transaction: id, member: u32::from(place) };
                    let tell = |p| Output::Decide { branch: branch(p), name: name_of(p), epoch, decision };
                    outputs.extend(members.clone().map(tell));
                }
                outputs.push(Output::Append { batch, records, forced });
                (outputs, Vec::new())
            }
            (
                Mutant::LostAckIsAbort,
                Output::Decide { branch, name, epoch, decision: decision @ Decision::Commit { .. } },
            ) => {
                let decision = if said.insert(branch) { decision } else { Decision::Abort };
                (vec![Output::Decide { branch, name, epoch, decision }], Vec::new())
            }
            (Mutant::NeverRepeats, Output::Decide { branch, .. }) if !said.insert(branch) => (Vec::new(), Vec::new()),
            (Mutant::ForgetsBeforeAck, output @ Output::Decided { id, decision: Decision::Commit { .. }, .. }) => {
                let branch = |place| Branch { transaction: id, member: u32::from(place) };
                (vec![output], members.map(|place| coordinator::Input::Acknowledged(branch(place))).collect())
            }
            (_, output) => (vec![output], Vec::new()),
        }
    }

    /// A further message in answer to a Yes that comes after the abort.
    pub fn answers_late_yes(self, engine: &Coordinator, transaction: u8, to: u8) -> Option<Message> {
        let (epoch, decision) = (engine.epoch(), Decision::Commit { number: 1 });
        (self == Mutant::LateYesRevives).then_some(Message::Decide { to, transaction, epoch, decision })
    }

    /// The answer to a participant that asks.
    pub fn outcome(self, outcome: Outcome, is_known: bool) -> Outcome {
        match (self, outcome) {
            (Mutant::PresumesCommit, Outcome::Decided(Decision::Abort)) if !is_known => {
                Outcome::Decided(Decision::Commit { number: 1 })
            }
            (Mutant::OpenIsAbort, Outcome::Open) => Outcome::Decided(Decision::Abort),
            (_, outcome) => outcome,
        }
    }

    /// False: the coordinator does not write this record.
    pub fn writes(self, record: &CoordinatorRecord) -> bool {
        self != Mutant::SameEpoch || !matches!(record, CoordinatorRecord::Epoch { .. })
    }

    /// The record that the coordinator reads in place of this one.
    pub fn recovered(self, record: CoordinatorRecord) -> CoordinatorRecord {
        match record {
            CoordinatorRecord::Transaction { id, epoch, members, note, above, .. }
                if self == Mutant::ForgetsDecision =>
            {
                CoordinatorRecord::Transaction { id, epoch, committed: None, members, note, above }
            }
            record => record,
        }
    }

    /// The inputs that a participant gets in place of this one.
    pub fn participant_inputs(
        self,
        at: &At,
        engine: &Participant,
        input: participant::Input,
    ) -> Vec<participant::Input> {
        use participant::Input;
        match (self, input) {
            (Mutant::TimesOutAlone, Input::Wake) => {
                let drop = |branch| Input::Resolve { branch, commit: false };
                let promised = engine.promises().map(|(branch, ..)| branch).filter(|b| engine.is_promised(*b));
                promised.map(drop).chain([Input::Wake]).collect()
            }
            (Mutant::EpochUnchecked, mut input) => {
                if let Input::Prepare { coordinator, epoch, .. }
                | Input::Decide { coordinator, epoch, .. }
                | Input::Connected { coordinator, epoch } = &mut input
                {
                    let known = engine.known(coordinator);
                    *epoch = if epoch.follows(known) { *epoch } else { known };
                }
                vec![input]
            }
            (Mutant::MootTooEarly, Input::Prepare { branch, coordinator, epoch, serial, granted, .. }) => {
                let until = Time::ZERO + at.tick();
                vec![Input::Prepare { branch, coordinator, epoch, serial, granted, until }]
            }
            (Mutant::FailedIsPromised, Input::WriteFailed(id)) => vec![Input::Written(id)],
            (_, input) => vec![input],
        }
    }

    /// The outputs that a participant makes in place of this one.
    pub fn participant_outputs(self, output: participant::Output) -> Vec<participant::Output> {
        use participant::Output;
        match (self, &output) {
            (Mutant::VoteBeforeDurable, Output::Append { change: PromisedChange::Promise(branch), .. }) => {
                vec![Output::Vote { branch: *branch, vote: Vote::Yes }, output]
            }
            (
                Mutant::AcknowledgesEarly,
                Output::Append { change: PromisedChange::Make(branch) | PromisedChange::Drop(branch, _), .. },
            ) => vec![Output::Acknowledge(*branch), output],
            (Mutant::NeverAsks, Output::Ask { .. }) => Vec::new(),
            _ => vec![output],
        }
    }

    /// False: a participant does not read this record.
    pub fn recovers(self, record: &ParticipantRecord) -> bool {
        match record {
            ParticipantRecord::Branch { made: None, .. } => self != Mutant::RecoversWithoutPromises,
            ParticipantRecord::Branch { made: Some(_), .. } => self != Mutant::ForgetsTheOver,
            _ => true,
        }
    }

    /// The host is asked for its decision.
    pub fn at_prepare(self, site: &mut ParticipantSite, branch: Branch) {
        if self == Mutant::SecondPromise && site.engine.is_promised(branch) {
            site.promise(places_of(branch).0);
        }
    }

    /// The amount that the host counts.
    pub fn used(self, site: &ParticipantSite) -> u8 {
        if self == Mutant::PromisesUncounted {
            return site.book.values().filter(|part| part.fate == Fate::Made).map(|part| part.amount).sum();
        }
        site.used()
    }
}
