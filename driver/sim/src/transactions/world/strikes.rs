//! Faults strike, and end.

use super::super::faults::{Blow, Moment, Strike};
use super::super::message::Place;
use super::super::net::{Trouble, Weather};
use super::{AGENTS, BROKERS, Due, TransactionWorld};
use crate::rng::Probability;
use terms::{Span, Time};

/// The time for which a coordinator and a participant stand still.
const STILL: Span = Span::from_secs(300);

impl TransactionWorld {
    /// A moment has come for a process: a fault that waited for it strikes.
    pub(super) fn moment(&mut self, place: Place, moment: Moment, other: Option<Place>) {
        if self.calm || !self.is_up(place) {
            return;
        }
        let Some(blow) = self.plan.spring(moment) else { return };
        match blow {
            Blow::Die(span) => {
                self.tally.count(death(moment), "");
                self.kill(place);
                self.later(span, Due::Start(place));
            }
            Blow::AllDie => {
                self.tally.count(death(moment), "");
                self.kill_all();
            }
            Blow::Stop(span) => self.stop(place, span),
            Blow::StopCoordinator(span) => {
                if let Some(other) = other {
                    self.stop(other, span);
                }
            }
            Blow::Full(span) => self.fill(place, span),
            Blow::Distrust(span) => {
                self.tally.count("C8 removed from the trust list after its vote", "");
                other.into_iter().for_each(|other| self.cut(place, other, Trouble::Untrusted, span));
            }
            Blow::Expire(span) => {
                self.tally.count("C14 certificate expires after a vote", "");
                self.isolate(place, Trouble::Expired, span);
            }
        }
    }

    /// A fault strikes at its time.
    pub(super) fn strike(&mut self, strike: Strike) {
        if self.calm {
            return;
        }
        let (broker, agent) = (self.any(BROKERS), self.any(AGENTS));
        let (broker, agent) = (Place::Broker(broker), Place::Agent(agent));
        let long = Span::from_secs(5 + self.rng.below(600));
        match strike {
            Strike::Weather => self.net.set_weather(weather()),
            Strike::Fair => self.net.set_weather(Weather::default()),
            Strike::Partition => self.isolate(agent, Trouble::Partition, long),
            Strike::OneWay => self.one_way(broker, agent, Trouble::OneWay, long),
            Strike::Swizzle => self.swizzle(),
            Strike::HalfOpen => self.one_way(broker, agent, Trouble::HalfOpen, long),
            Strike::BlackHole => self.cut(broker, agent, Trouble::BlackHole, long),
            Strike::SlowLoris => self.one_way(broker, agent, Trouble::SlowLoris, long),
            Strike::Kill(place) => {
                self.kill(place);
                self.later(long, Due::Start(place));
            }
            Strike::KillAll => self.kill_all(),
            Strike::Stop(place) => self.stop(place, STILL),
            Strike::Full(place) => self.fill(place, long),
            Strike::Copy(place) => self.back_up(place),
            Strike::Restore(place) => self.restore(place),
            Strike::Jump(n) => {
                self.tally.count("clock jumps", "");
                let by = self.rng.below(120_000_000_000) as i64 - 60_000_000_000;
                self.set_clock(n, by);
                self.later(Span::from_secs(20), Due::Strike(Strike::Right(n)));
            }
            Strike::Skew(n) => {
                self.tally.count("clock is wrong", "");
                let by = self.rng.below(20_000_000_000) as i64 - 10_000_000_000;
                self.set_clock(n, by);
            }
            Strike::Right(n) => self.set_clock(n, 0),
            Strike::Gone => self.goes_for_ever(),
            Strike::Guess => self.guess(),
        }
    }

    /// Everything that is wrong ends.
    pub(super) fn calm_down(&mut self) {
        self.calm = true;
        self.plan.calm();
        self.net.calm();
        self.guessing.clear();
        for place in self.places() {
            self.fill_until(place, Time::ZERO);
            if self.stopped.contains_key(&place) {
                self.resume(place);
            }
            self.start(place);
        }
        (0..AGENTS).for_each(|n| self.set_clock(n, 0));
    }

    fn any(&mut self, of: usize) -> usize {
        self.rng.below(of as u64) as usize
    }

    fn one_way(&mut self, broker: Place, agent: Place, trouble: Trouble, span: Span) {
        let (from, to) = if self.rng.below(2) == 0 { (broker, agent) } else { (agent, broker) };
        self.net.trouble(from, to, trouble, self.now + span);
    }

    fn cut(&mut self, one: Place, other: Place, trouble: Trouble, span: Span) {
        self.net.trouble(one, other, trouble, self.now + span);
        self.net.trouble(other, one, trouble, self.now + span);
    }

    fn isolate(&mut self, place: Place, trouble: Trouble, span: Span) {
        for other in self.places() {
            self.cut(place, other, trouble, span);
        }
    }

    fn swizzle(&mut self) {
        let until = Span::from_secs(60 + self.rng.below(200));
        for agent in (0..AGENTS).map(Place::Agent) {
            if self.rng.below(3) > 0 {
                for broker in (0..BROKERS).map(Place::Broker) {
                    let span = Span::from_secs(self.rng.below(120)).saturating_add(until);
                    self.cut(broker, agent, Trouble::Clogged, span);
                }
            }
        }
    }

    /// A process dies. A write that is under way is on the disk, or not.
    pub(super) fn kill(&mut self, place: Place) {
        if !self.is_up(place) {
            return;
        }
        self.stopped.remove(&place);
        self.alarms.remove(&place);
        let lucky = self.rng.below(2) == 0;
        let (now, kept) = (self.now, if lucky { "D1 killed, its write kept" } else { "D1 killed, its write lost" });
        match place {
            Place::Broker(n) => {
                if self.brokers[n].disk().is_writing() {
                    self.tally.count(kept, "");
                }
                for batch in self.brokers[n].die(now, lucky) {
                    self.judge.coordinator_wrote(now, &batch.changes);
                }
                self.clients_ask_again(n);
            }
            Place::Agent(n) => {
                if self.agents[n].disk().is_writing() {
                    self.tally.count(kept, "");
                }
                for batch in self.agents[n].die(now, lucky) {
                    self.agent_has(n, &batch);
                }
            }
        }
    }

    fn kill_all(&mut self) {
        self.tally.count("C3 all die", "");
        for place in self.places() {
            self.kill(place);
            let span = Span::from_millis(500 + self.rng.below(60_000));
            self.later(span, Due::Start(place));
        }
    }

    fn stop(&mut self, place: Place, span: Span) {
        if !self.is_up(place) || self.stopped.contains_key(&place) {
            return;
        }
        self.tally.count(
            match place {
                Place::Broker(_) => "C12 coordinator stands still for 300 s",
                Place::Agent(_) => "C12 participant stands still for 300 s",
            },
            "",
        );
        self.stopped.insert(place, Vec::new());
        self.later(span, Due::Resume(place));
    }

    /// A process that stood still goes on: everything that waited for it comes at once.
    pub(super) fn resume(&mut self, place: Place) {
        let Some(waiting) = self.stopped.remove(&place) else { return };
        if matches!(place, Place::Broker(_)) {
            for n in 0..AGENTS {
                for _ in 0..self.judge.outlived_holds(n, self.agents[n].calendar(self.now)) {
                    self.tally.count("C5 hold runs out while its coordinator stands still", "");
                }
            }
        }
        waiting.into_iter().for_each(|due| self.happen(due));
        self.set_alarm(place);
    }

    fn fill(&mut self, place: Place, span: Span) {
        self.fill_until(place, self.now + span);
    }

    fn fill_until(&mut self, place: Place, until: Time) {
        match place {
            Place::Broker(n) => self.brokers[n].disk_mut().fill(until),
            Place::Agent(n) => self.agents[n].disk_mut().fill(until),
        }
    }

    fn set_clock(&mut self, n: usize, ahead: i64) {
        let outputs = self.agents[n].set_clock(self.now, ahead);
        self.agents_say(n, outputs);
    }

    fn back_up(&mut self, place: Place) {
        match place {
            Place::Broker(n) => {
                self.brokers[n].disk_mut().back_up();
                self.judge.copy_coordinator(n);
            }
            Place::Agent(n) => {
                self.agents[n].disk_mut().back_up();
                self.judge.copy(n);
            }
        }
    }

    /// A process dies, and its disk is set back to its copy.
    fn restore(&mut self, place: Place) {
        self.kill(place);
        match place {
            Place::Broker(n) => {
                if self.brokers[n].restore() {
                    self.tally.count("C7 coordinator restored from an older copy", "");
                    self.judge.coordinator_restored(n);
                }
            }
            Place::Agent(n) => {
                if self.agents[n].disk_mut().restore().is_some() {
                    self.tally.count("C7 participant restored from an older copy", "");
                    self.judge.restored(n);
                }
            }
        }
        self.later(Span::from_secs(20), Due::Start(place));
    }

    /// The last broker dies, and never comes back.
    fn goes_for_ever(&mut self) {
        let n = BROKERS - 1;
        self.tally.count("C10 coordinator gone for ever", "");
        self.kill(Place::Broker(n));
        self.judge.gone.insert(n);
        self.judge.coordinator_restored(n);
    }
}

fn weather() -> Weather {
    let percent = Probability::percent;
    Weather { loss: percent(12), double: percent(15), slow: percent(30), late: percent(5) }
}

fn death(moment: Moment) -> &'static str {
    match moment {
        Moment::BeforeLog => "C1 coordinator dies before the log",
        Moment::AfterLog => "C1 coordinator dies after the log, before a send",
        Moment::AfterOneSend => "C1 coordinator dies after one of several sends",
        Moment::AfterAllSends => "C1 coordinator dies after all sends",
        Moment::BeforePromise => "C2 participant dies before its vote is on the disk",
        Moment::AfterVote => "C2 participant dies after its vote",
        Moment::InApply => "C2 participant dies in the apply",
    }
}
