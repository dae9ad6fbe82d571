//! Defects on purpose of a broker between two others: adapters around `Subordinate` that change an input, an output, a
//! write, a record or an answer. The chain of three domains must find every one of them.

use super::{Rows, Tables, promise_rows, rows};
use commit::coordinator::{self, Outcome};
use commit::participant::{self, ParticipantRecord};
use commit::record::CoordinatorRecord;
use commit::subordinate::{Input, Output};
use commit::{Branch, Decision, Subordinate, Vote};

macro_rules! mutants {
    ($($name:ident $words:literal,)*) => {
        /// A defect, or none.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum NestedMutant { None, $(#[doc = $words] $name,)* }

        /// Every defect, with its description.
        pub const NESTED_MUTANTS: &[(NestedMutant, &str)] = &[$((NestedMutant::$name, $words),)*];
    };
}

mutants! {
    YesBeforeMembers "a domain says Yes when it is asked, before its members have",
    YesBeforeDurable "a domain says Yes before its promise is on the disk",
    PromiseFirst "a promise is on the disk before the transaction over the members is",
    DecisionWithoutMembers "the decision from above is written without that about the members",
    ForgetsPromises "a domain comes back without what it had promised above",
    ForgetsTransactions "a domain comes back without the transactions over its members",
    TimesOutAlone "a domain drops its promise when no decision has come in time",
    DecidesAlone "a domain tells its members Commit when it says Yes above",
    AcknowledgesEarly "a domain acknowledges a decision before it is on its disk",
    NeverAsks "a domain does not ask above for a decision",
    OpenIsAbort "a domain answers Abort to a member while it waits for the decision from above",
    FailedIsPromised "a domain takes a promise as written whose write failed",
}

impl NestedMutant {
    /// The inputs that a broker gets in place of this one.
    pub fn inputs(self, engine: &Subordinate, input: Input) -> Vec<Input> {
        match (self, input) {
            (NestedMutant::TimesOutAlone, Input::Wake) => {
                let above = engine.participant();
                let drop = |branch| Input::Above(participant::Input::Resolve { branch, commit: false });
                let promised = above.promises().map(|(branch, ..)| branch).filter(|one| above.is_promised(*one));
                promised.map(drop).chain([Input::Wake]).collect()
            }
            (NestedMutant::FailedIsPromised, Input::WriteFailed(batch, _)) => vec![Input::Written(batch)],
            (_, input) => vec![input],
        }
    }

    /// The vote that is sent as soon as the question has come.
    pub fn votes_at_once(self) -> Option<Vote> {
        (self == NestedMutant::YesBeforeMembers).then_some(Vote::Yes)
    }

    /// The outputs that a broker makes in place of this one.
    pub fn outputs(self, engine: &Subordinate, output: Output) -> Vec<Output> {
        match (self, &output) {
            (NestedMutant::YesBeforeDurable, Output::Append { promises, .. }) => {
                let yes = |branch| Output::Above(participant::Output::Vote { branch, vote: Vote::Yes });
                parts(promises, false).map(yes).chain([output.clone()]).collect()
            }
            (NestedMutant::AcknowledgesEarly, Output::Append { promises, .. }) => {
                let done = |branch| Output::Above(participant::Output::Acknowledge(branch));
                parts(promises, true).map(done).chain([output.clone()]).collect()
            }
            (NestedMutant::NeverAsks, Output::Above(participant::Output::Ask { .. })) => Vec::new(),
            (NestedMutant::DecidesAlone, Output::Above(participant::Output::Vote { branch, vote: Vote::Yes })) => {
                let (epoch, decision) = (engine.coordinator().epoch(), Decision::Commit { number: 1 });
                let decide = |transaction| {
                    (0..2).map(move |member| {
                        let branch = Branch { transaction, member };
                        Output::Below(coordinator::Output::Decide { branch, name: String::new(), epoch, decision })
                    })
                };
                engine.below(*branch).into_iter().flat_map(decide).chain([output.clone()]).collect()
            }
            _ => vec![output],
        }
    }

    /// The changes of the tables that one write makes, in the order in which they reach the disk.
    pub fn writes(self, records: &[CoordinatorRecord], promises: &[ParticipantRecord]) -> Vec<Tables> {
        let both = [rows(records), promise_rows(promises)];
        let is_promise = parts(promises, false).next().is_some();
        let is_decision = parts(promises, true).next().is_some();
        match self {
            NestedMutant::PromiseFirst if is_promise => {
                let [records, promises] = both;
                vec![[Vec::new(), promises], [records, Vec::new()]]
            }
            NestedMutant::DecisionWithoutMembers if is_decision => {
                let [_, promises] = both;
                vec![[Vec::new(), promises]]
            }
            _ => vec![both],
        }
    }

    /// The records that a broker reads of its journal.
    pub fn recovered(self, [records, promises]: &[Rows; 2]) -> (Vec<CoordinatorRecord>, Vec<ParticipantRecord>) {
        let records = records.iter().map(|(key, value)| CoordinatorRecord::read(key, value).unwrap());
        let promises = promises.iter().map(|(key, value)| ParticipantRecord::read(key, value).unwrap());
        let is_known = |record: &CoordinatorRecord| {
            let is_nested = matches!(record, CoordinatorRecord::Transaction { above: Some(_), .. });
            self != NestedMutant::ForgetsTransactions || !is_nested
        };
        let is_promised = |record: &ParticipantRecord| {
            let is_open = matches!(record, ParticipantRecord::Branch { made: None, .. });
            self != NestedMutant::ForgetsPromises || !is_open
        };
        (records.filter(is_known).collect(), promises.filter(is_promised).collect())
    }

    /// The answer of a broker to a member that asks.
    pub fn outcome(self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Open if self == NestedMutant::OpenIsAbort => Outcome::Decided(Decision::Abort),
            outcome => outcome,
        }
    }
}

/// The parts that these records promise; `over`: that they end.
fn parts(promises: &[ParticipantRecord], over: bool) -> impl Iterator<Item = Branch> {
    promises.iter().filter_map(move |record| match record {
        ParticipantRecord::Branch { branch, made, .. } if made.is_some() == over => Some(*branch),
        _ => None,
    })
}
