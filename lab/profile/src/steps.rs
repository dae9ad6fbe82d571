//! Messages, step by step and as a whole, in a node that holds many other sessions: Tables 3 to 8, and the
//! data of Table 9.
//!
//! A round takes existing sessions, tears their reservation and their path, and sets both up again; so the
//! number of sessions stays the same, and each step finds its blocks as cold as they are among so many
//! others. The sessions of a round are chosen at random; between two messages of one session are those of all
//! others of the round.
//!
//! The steps are measured in a node whose probe reads the time-stamp counter; whole messages in a node
//! without a probe, so that probing adds no time to them. Steps shorter than [`SHORT`] are measured again in
//! batches of [`BATCH`].

use super::sample::{Estimate, Samples};
use super::transit::{FIRST, Protocol, RATE, SECOND, Transit, down, echo, up};
use bed::error::Error;
use bed::patience::Patience;
use linux::tsc::{Calibration, Stopwatch, switches, ticks};
use terms::probe::{Off, ProbeObserver, ProbePoint};
use wire::MessageType;

/// The time below which a step is measured in batches, ns. Twenty would do for the reading, but on some
/// processors the counter itself moves in steps of up to 10 ns.
pub const SHORT: f64 = 100.0;
/// Executions of a batch.
pub const BATCH: usize = 64;
/// Rounds that are not counted, while caches and branch predictors warm up.
const WARM_UP: usize = 20;

/// The kinds of messages in a round.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A ResvTear.
    ResvTear,
    /// A PathTear.
    PathTear,
    /// A Path of a new session.
    Path,
    /// A Path of a second sender of the session.
    SecondPath,
    /// A Resv that makes and installs a reservation, and goes on.
    Resv,
    /// A Path that refreshes.
    PathAgain,
    /// A Resv that refreshes.
    ResvAgain,
    /// Boomerang: a release.
    Release,
    /// Boomerang: a reservation of a new session.
    Reserve,
    /// Boomerang: a refresh.
    ReserveAgain,
}

impl Protocol {
    /// Returns the messages of a round, in order.
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Protocol::Rsvp => &[
                Kind::ResvTear,
                Kind::PathTear,
                Kind::Path,
                Kind::SecondPath,
                Kind::Resv,
                Kind::PathAgain,
                Kind::ResvAgain,
            ],
            Protocol::Boomerang => &[Kind::Release, Kind::Reserve, Kind::ReserveAgain],
        }
    }
}

impl Kind {
    fn message(self, n: u32, transaction: u32) -> Vec<u8> {
        match self {
            Kind::Release => echo(n, transaction, 0),
            Kind::Reserve => echo(n, transaction + 1, RATE),
            Kind::ReserveAgain => echo(n, transaction + 2, RATE),
            Kind::ResvTear => up(MessageType::ResvTear, n),
            Kind::PathTear => down(MessageType::PathTear, n, FIRST),
            Kind::Path | Kind::PathAgain => down(MessageType::Path, n, FIRST),
            Kind::SecondPath => down(MessageType::Path, n, SECOND),
            Kind::Resv | Kind::ResvAgain => up(MessageType::Resv, n),
        }
    }

    /// Passes the message to a node. Returns the number of messages that the node sends.
    fn tell<P: ProbeObserver>(self, transit: &mut Transit<P>, n: u32, bytes: &mut [u8]) -> usize {
        match self {
            Kind::Resv | Kind::ResvTear | Kind::ResvAgain => transit.from_downstream(bytes),
            Kind::Path | Kind::SecondPath | Kind::PathTear | Kind::PathAgain => transit.from_upstream(n, bytes),
            Kind::Reserve | Kind::ReserveAgain | Kind::Release => transit.passing(bytes),
        }
    }

    /// Returns the number of messages that the node must send: RSVP forwards changes only, Boomerang
    /// everything.
    fn sets_off(self) -> usize {
        usize::from(!matches!(self, Kind::PathAgain | Kind::ResvAgain))
    }
}

/// Medians of one kind of message, ns.
#[derive(Clone, PartialEq, Debug)]
pub struct StepMedians {
    /// The kind of message.
    pub kind: Kind,
    /// The time of the whole message.
    pub whole: Option<Estimate>,
    /// The time of the whole message for sessions that the round before has just touched: it excludes
    /// accesses to far memory.
    pub warm: Option<Estimate>,
    /// The time of each of its steps.
    pub steps: Vec<(ProbePoint, Estimate)>,
}

impl StepMedians {
    /// Returns a step's estimate.
    pub fn step(&self, step: ProbePoint) -> Option<Estimate> {
        self.steps.iter().find(|(s, _)| *s == step).map(|(_, estimate)| *estimate)
    }
}

/// A generator of session numbers that is the same in every run.
struct Draw(u64);

impl Draw {
    fn next(&mut self, below: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(below.max(1))) as u32
    }

    /// Returns `count` different numbers.
    fn some(&mut self, count: usize, below: u32) -> Vec<u32> {
        let mut all = Vec::with_capacity(count);
        while all.len() < count.min(below as usize) {
            let n = self.next(below);
            if !all.contains(&n) {
                all.push(n);
            }
        }
        all
    }
}

/// The two profiled nodes, with the same sessions.
pub struct Pair {
    protocol: Protocol,
    round: u32,
    seen: Transit<Stopwatch>,
    alone: Transit<Off>,
    calibration: Calibration,
    sessions: u32,
    draw: Draw,
}

impl Pair {
    /// Creates nodes without sessions, with room for `most`.
    pub fn new(protocol: Protocol, calibration: Calibration, most: u32) -> Pair {
        let (seen, alone) = (Transit::new(most, Stopwatch::new(calibration)), Transit::new(most, Off));
        Pair { protocol, round: 0, seen, alone, calibration, sessions: 0, draw: Draw(7) }
    }

    /// Sets up sessions until there are `to`.
    ///
    /// # Errors
    /// The user stops the run.
    pub fn grow(&mut self, to: u32, patience: &Patience) -> Result<(), Error> {
        while self.sessions < to {
            self.seen.establish(self.protocol, self.sessions);
            self.alone.establish(self.protocol, self.sessions);
            self.sessions += 1;
            if self.sessions.is_multiple_of(4096) {
                patience.check()?;
            }
        }
        let there = (self.seen.reserved(self.protocol), self.alone.reserved(self.protocol));
        if there != (to as usize, to as usize) {
            return Err(Error::Void(format!("{to} sessions were set up, and {there:?} are reserved")));
        }
        Ok(())
    }

    /// Returns the number of sessions with a reservation.
    pub fn reserved(&self) -> usize {
        self.alone.reserved(self.protocol)
    }

    /// Profiles every kind of message, with `repetitions` samples each.
    ///
    /// # Errors
    /// The user stops the run, or a message did not cause the expected output.
    pub fn profile(&mut self, repetitions: usize, patience: &Patience) -> Result<Vec<StepMedians>, Error> {
        let single = self.steps(1, repetitions, patience)?;
        let batches = self.steps(BATCH, repetitions, patience)?;
        let wholes = self.wholes(repetitions, patience)?;
        let profiles = self.protocol.kinds().iter().zip(single).zip(batches).zip(wholes).map(
            |(((kind, single), batched), [whole, warm])| {
                let one = |(step, samples): &(ProbePoint, Samples)| {
                    let alone = samples.estimate(1)?;
                    let together = batched.iter().find(|(s, _)| s == step).and_then(|(_, b)| b.estimate(BATCH));
                    Some((*step, together.filter(|_| alone.median < SHORT).unwrap_or(alone)))
                };
                let steps = single.iter().filter_map(one).collect();
                StepMedians { kind: *kind, whole, warm, steps }
            },
        );
        Ok(profiles.collect())
    }

    /// Returns the protocol, and a number for the transactions of a round.
    fn next_round(&mut self) -> (Protocol, u32) {
        self.round += 1;
        (self.protocol, self.round * 4)
    }

    /// Measures each step of each kind; each sample is the mean of a batch.
    fn steps(
        &mut self,
        batch: usize,
        repetitions: usize,
        patience: &Patience,
    ) -> Result<Vec<Vec<(ProbePoint, Samples)>>, Error> {
        let mut all: Vec<Vec<(ProbePoint, Samples)>> = vec![Vec::new(); self.protocol.kinds().len()];
        // A dropped sample is taken again, unless nearly all are dropped.
        let (mut taken, mut tries) = (0, 0);
        while taken < WARM_UP + repetitions && tries < WARM_UP + 4 * repetitions {
            (taken, tries) = (taken + 1, tries + 1);
            patience.check()?;
            let who = self.draw.some(batch, self.sessions);
            let mut dropped = false;
            let counted = taken > WARM_UP;
            let protocol = self.next_round();
            round(&mut self.seen, protocol, &who, |transit, place, work| {
                transit.probe_mut(protocol.0).clear();
                let before = switches();
                work(transit);
                let switched = switches() != before;
                dropped |= switched;
                let watch = transit.probe_mut(protocol.0);
                for step in ProbePoint::ALL {
                    let Some(ns) = watch.mean_ns(step).filter(|_| counted) else { continue };
                    let known = all[place].iter().position(|(s, _)| *s == step).unwrap_or_else(|| {
                        all[place].push((step, Samples::default()));
                        all[place].len() - 1
                    });
                    all[place][known].1.add(ns, switched);
                }
            })?;
            taken -= usize::from(dropped && counted);
        }
        Ok(all)
    }

    /// Measures whole messages of each kind without a probe, and again with the same sessions.
    fn wholes(&mut self, repetitions: usize, patience: &Patience) -> Result<Vec<[Option<Estimate>; 2]>, Error> {
        let Calibration { ns_per_tick, empty, .. } = self.calibration;
        let mut all = vec![[Samples::default(), Samples::default()]; self.protocol.kinds().len()];
        for taken in 0..WARM_UP + repetitions {
            patience.check()?;
            // Refreshes are short: a batch of them is one sample.
            let who = self.draw.some(BATCH, self.sessions);
            for warm in [0, 1] {
                let protocol = self.next_round();
                round(&mut self.alone, protocol, &who, |transit, place, work| {
                    let (before, start) = (switches(), ticks());
                    work(transit);
                    let spent = (ticks() - start) as f64 - empty;
                    if taken >= WARM_UP {
                        all[place][warm].add(spent * ns_per_tick / who.len() as f64, switches() != before);
                    }
                })?;
            }
        }
        Ok(all.iter().map(|samples| samples.each_ref().map(|samples| samples.estimate(BATCH))).collect())
    }
}

/// Plays one round: each kind in turn, for all of `who`. `look` gets the node, the kind's index and the work
/// to measure.
fn round<P: ProbeObserver>(
    transit: &mut Transit<P>,
    (protocol, transaction): (Protocol, u32),
    who: &[u32],
    mut look: impl FnMut(&mut Transit<P>, usize, &mut dyn FnMut(&mut Transit<P>)),
) -> Result<(), Error> {
    for (place, kind) in protocol.kinds().iter().copied().enumerate() {
        let mut messages: Vec<_> = who.iter().map(|n| (*n, kind.message(*n, transaction))).collect();
        let mut sent = 0;
        look(transit, place, &mut |transit| {
            for (n, bytes) in &mut messages {
                sent += kind.tell(transit, *n, bytes);
            }
        });
        if sent != who.len() * kind.sets_off() {
            return Err(Error::Void(format!("{} messages of {kind:?} set off {sent}", who.len())));
        }
        if kind == Kind::SecondPath {
            for n in who {
                transit.from_upstream(*n, &down(MessageType::PathTear, *n, SECOND));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_every_step_and_they_add_up() {
        let mut pair = Pair::new(Protocol::Rsvp, Calibration::measure(), 200);
        let patience = Patience::endless();
        pair.grow(200, &patience).unwrap();
        let profiles = pair.profile(40, &patience).unwrap();
        let steps = |kind: Kind| -> Vec<ProbePoint> {
            let found = profiles.iter().find(|p| p.kind == kind).unwrap();
            let mut steps: Vec<ProbePoint> = found.steps.iter().map(|(step, _)| *step).collect();
            steps.sort();
            steps
        };
        use ProbePoint::*;
        assert_eq!(
            steps(Kind::Path),
            [FindSession, CreateSession, CreatePsb, Route, PathRefresh, ResvRefresh],
            "a new session"
        );
        assert!(steps(Kind::SecondPath).contains(&FindPsb));
        assert_eq!(steps(Kind::Resv), [FindSession, CheckStyles, ManageReservation, ResvRefresh]);
        assert_eq!(steps(Kind::ResvTear), [FindSession, ResvRefresh, FindRsb, TearReservation]);
        assert_eq!(steps(Kind::PathTear), [FindSession, FindPsb, TearPsb]);
        assert!(steps(Kind::PathAgain).is_empty(), "a refresh is none of these");
        for profile in &profiles {
            let whole = profile.whole.unwrap().median;
            let sum: f64 = profile.steps.iter().map(|(_, step)| step.median).sum();
            assert!(whole > 0.0 && sum < whole * 1.6 + 200.0, "{:?}: {sum} of {whole} ns", profile.kind);
        }
        assert_eq!(pair.reserved(), 200, "a round leaves everything as it was");
    }

    #[test]
    fn boomerang_has_the_steps_of_the_document() {
        let mut pair = Pair::new(Protocol::Boomerang, Calibration::measure(), 200);
        let patience = Patience::endless();
        pair.grow(200, &patience).unwrap();
        let profiles = pair.profile(40, &patience).unwrap();
        use ProbePoint::*;
        let expected: [(Kind, &[ProbePoint]); 3] = [
            (Kind::Release, &[BoomerangFind, BoomerangManage, BoomerangRemove]),
            (Kind::Reserve, &[BoomerangFind, BoomerangCreate, BoomerangManage]),
            (Kind::ReserveAgain, &[BoomerangFind, BoomerangManage]),
        ];
        for (kind, steps) in expected {
            let found = profiles.iter().find(|p| p.kind == kind).unwrap();
            let there: Vec<ProbePoint> = found.steps.iter().map(|(step, _)| *step).collect();
            assert!(steps.iter().all(|step| there.contains(step)), "{kind:?}: {there:?}");
            assert!(found.whole.unwrap().median > 0.0);
        }
        assert_eq!(pair.reserved(), 200, "a round leaves everything as it was");
    }
}
