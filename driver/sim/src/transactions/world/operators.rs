//! Operators: they decide promises whose coordinator is gone or has lost them, and accept an older journal.

use super::super::message::Place;
use super::{AGENTS, BROKERS, Due, TransactionWorld};
use commit::Branch;
use terms::Span;
use terms::book::Handle;

/// The time between two looks of the operators.
const LOOK: Span = Span::from_secs(60);

impl TransactionWorld {
    /// Operators look at each agent, if a promise waits for them.
    pub(super) fn operators_look(&mut self) {
        self.later(LOOK, Due::Operators);
        self.look();
    }

    fn look(&mut self) {
        if self.judge.gone.is_empty() && self.resolving.is_empty() && self.guessing.is_empty() {
            return;
        }
        for n in 0..AGENTS {
            if self.agents[n].is_up() && !self.stopped.contains_key(&Place::Agent(n)) {
                let outputs = self.agents[n].operator_list(self.now);
                self.agents_say(n, outputs);
            }
        }
        self.guessing.clear();
    }

    /// An operator has the list of an agent's promises, and decides those that wait for it.
    pub(super) fn operator_decides(&mut self, n: usize, promises: Vec<(Branch, usize, Handle)>) {
        for (branch, broker, handle) in promises {
            let known = self.judge.gone.contains(&broker) || self.resolving.contains(&branch);
            let commit = match () {
                // The journal is read on its machine, or the callers are asked.
                () if known => self.judge.is_decided(branch.transaction),
                () if self.guessing.contains(&broker) => self.rng.below(2) == 0,
                () => continue,
            };
            self.tally.count("C10 operator decides a promise", "");
            self.judge.operator(branch, commit);
            let outputs = self.agents[n].resolve(self.now, handle, commit);
            self.agents_say(n, outputs);
        }
    }

    /// Operators decide by guess what is promised to a broker that is down.
    pub(super) fn guess(&mut self) {
        let is_away = |n: &usize| !self.brokers[*n].is_up() || self.stopped.contains_key(&Place::Broker(*n));
        self.guessing = (0..BROKERS).filter(is_away).collect();
        if !self.guessing.is_empty() {
            self.look();
        }
    }

    /// An operator says that a broker's journal is an older copy, and starts it again.
    pub(super) fn accept_older(&mut self, n: usize) {
        if self.brokers[n].accept_older() {
            self.judge.older_accepted(n);
            self.kill(Place::Broker(n));
            self.later(Span::from_secs(1), Due::Start(Place::Broker(n)));
        }
    }
}
