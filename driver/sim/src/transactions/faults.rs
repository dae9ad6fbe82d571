//! Faults: those that strike when something happens, and those that strike at a time. Both are drawn from the seed.

use super::message::Place;
use crate::rng::Rng;
use terms::{Span, Time};

/// A moment at which a fault may strike: the process of this place is just about to do the next thing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Moment {
    /// A decision to commit is handed to the disk.
    BeforeLog,
    /// It is on the disk, and no member was told.
    AfterLog,
    /// One of several members was told.
    AfterOneSend,
    /// All members were told.
    AfterAllSends,
    /// A promise is handed to the disk.
    BeforePromise,
    /// The vote has left.
    AfterVote,
    /// How a promise ends is handed to the disk.
    InApply,
}

/// A fault that strikes at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Blow {
    /// The process dies, for so long.
    Die(Span),
    /// Every process dies.
    AllDie,
    /// The process stands still, for so long.
    Stop(Span),
    /// The other process stands still: the coordinator of a vote.
    StopCoordinator(Span),
    /// Its disk has no space, for so long.
    Full(Span),
    /// The coordinator trusts the agent no more, for so long.
    Distrust(Span),
    /// The agent's certificate expires, and is renewed after so long.
    Expire(Span),
}

/// A fault that waits for a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trap {
    pub(super) moment: Moment,
    /// The number of such moments that it lets pass.
    pub(super) skip: u64,
    pub(super) blow: Blow,
}

/// A fault at a time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Strike {
    /// Messages are lost, doubled, overtaken, late.
    Weather,
    Fair,
    Partition,
    OneWay,
    /// Links are clogged one after the other, and come back in another order.
    Swizzle,
    HalfOpen,
    BlackHole,
    SlowLoris,
    Kill(Place),
    KillAll,
    Stop(Place),
    Full(Place),
    /// A copy of its disk is made.
    Copy(Place),
    /// It dies, and its disk is set back to the copy.
    Restore(Place),
    /// An agent's clock jumps.
    Jump(usize),
    /// An agent's clock is wrong for a while.
    Skew(usize),
    Right(usize),
    /// The last broker is gone for ever.
    Gone,
    /// Operators decide by guess the promises to a broker that is down.
    Guess,
}

/// The faults of a run.
pub(super) struct Plan {
    traps: Vec<Trap>,
    /// Those at a time, in no order.
    pub(super) strikes: Vec<(Time, Strike)>,
}

/// Short and long absences, seconds.
const ABSENCES: [u64; 5] = [1, 5, 40, 200, 700];

impl Plan {
    /// Draws the faults of a run of so many brokers and agents.
    pub(super) fn draw(rng: &mut Rng, begin: Time, length: Span, brokers: usize, agents: usize) -> Plan {
        let traps = (0..1 + rng.below(5)).map(|_| trap(rng)).collect();
        let mut strikes = Vec::new();
        for _ in 0..2 + rng.below(7) {
            let at = begin + Span::from_nanos(rng.below(length.as_nanos()));
            let any = match rng.below((brokers + agents) as u64) as usize {
                n if n < brokers => Place::Broker(n),
                n => Place::Agent(n - brokers),
            };
            let (agent, later) = (rng.below(agents as u64) as usize, at + Span::from_secs(30 + rng.below(600)));
            match rng.below(20) {
                0..4 => strikes.extend([(at, Strike::Weather), (later, Strike::Fair)]),
                4 => strikes.push((at, Strike::Partition)),
                5 => strikes.push((at, Strike::OneWay)),
                6 => strikes.push((at, Strike::Swizzle)),
                7 => strikes.push((at, Strike::HalfOpen)),
                8 => strikes.push((at, Strike::BlackHole)),
                9 => strikes.push((at, Strike::SlowLoris)),
                10..12 => strikes.push((at, Strike::Kill(any))),
                12 => strikes.push((at, Strike::KillAll)),
                13 => strikes.push((at, Strike::Stop(any))),
                14 => strikes.push((at, Strike::Full(any))),
                15 => strikes.extend([(at, Strike::Copy(any)), (later, Strike::Restore(any))]),
                16 => strikes.push((at, Strike::Jump(agent))),
                17 => strikes.extend([(at, Strike::Skew(agent)), (later, Strike::Right(agent))]),
                18 => strikes.push((at, Strike::Gone)),
                _ => strikes.push((at, Strike::Guess)),
            }
        }
        Plan { traps, strikes }
    }

    /// A moment has come. The fault that waited for it.
    pub(super) fn spring(&mut self, moment: Moment) -> Option<Blow> {
        let waits = |trap: &mut Trap| {
            let here = trap.moment == moment && trap.skip == 0;
            if trap.moment == moment && !here {
                trap.skip -= 1;
            }
            here
        };
        let found = self.traps.iter_mut().position(waits)?;
        Some(self.traps.swap_remove(found).blow)
    }

    /// No fault strikes any more.
    pub(super) fn calm(&mut self) {
        self.traps.clear();
        self.strikes.clear();
    }
}

fn trap(rng: &mut Rng) -> Trap {
    const MOMENTS: [Moment; 7] = [
        Moment::BeforeLog,
        Moment::AfterLog,
        Moment::AfterOneSend,
        Moment::AfterAllSends,
        Moment::BeforePromise,
        Moment::AfterVote,
        Moment::InApply,
    ];
    let moment = MOMENTS[rng.below(MOMENTS.len() as u64) as usize];
    let absence = Span::from_secs(ABSENCES[rng.below(ABSENCES.len() as u64) as usize]);
    let blow = match (moment, rng.below(12)) {
        (_, 0) => Blow::AllDie,
        (_, 1) => Blow::Stop(Span::from_secs(300)),
        (Moment::BeforeLog | Moment::BeforePromise | Moment::InApply, 2..5) => Blow::Full(absence),
        (Moment::AfterVote, 2..5) => Blow::StopCoordinator(Span::from_secs(300)),
        (Moment::AfterVote, 5..7) => Blow::Distrust(absence),
        (Moment::AfterVote, 7..9) => Blow::Expire(absence),
        _ => Blow::Die(absence),
    };
    Trap { moment, skip: rng.below(6), blow }
}
