//! Messages, step by step and as a whole, in a node that holds so many other sessions: Tables 3 to 8, and what Table 9 is
//! made of.
//!
//! A round takes sessions that are there, tears their reservation and their path, and sets both up again; so the number
//! of sessions stays the same, and each step finds its blocks as cold as they are among so many others. The sessions of a
//! round are chosen at random; between two messages of one session lie those of all others of the round.
//!
//! The steps are measured by a node whose probe reads the time-stamp counter; the messages as a whole by a node without
//! a probe, so that looking costs them nothing. What is under [`SHORT`] is measured again in batches of [`BATCH`].

use super::sample::{Estimate, Samples};
use super::transit::{FIRST, Protocol, RATE, SECOND, Transit, down, echo, up};
use crate::error::Error;
use crate::patience::Patience;
use linux::tsc::{Calibration, Stopwatch, switches, ticks};
use terms::probe::{Off, ProbeObserver, ProbePoint};
use wire::MessageType;

/// What is shorter is measured in batches, ns. Twenty would do for the reading, but the counter itself moves on in steps
/// of up to 10 ns on some processors.
pub const SHORT: f64 = 100.0;
/// Executions of a batch.
pub const BATCH: usize = 64;
/// Rounds that are not counted: caches and branch predictors come to know the way.
const WARM_UP: usize = 20;

/// What is measured of a round.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A reservation is torn.
    ResvTear,
    /// A path is torn.
    PathTear,
    /// A path is set up, of a session that is not there.
    Path,
    /// The path of a second sender of the session.
    SecondPath,
    /// A reservation is set up, installed, and goes on.
    Resv,
    /// A Path that says again what was said.
    PathAgain,
    /// A Resv that does.
    ResvAgain,
    /// Boomerang: a reservation is released.
    Release,
    /// Boomerang: one is made, of a session that is not there.
    Reserve,
    /// Boomerang: it is refreshed.
    ReserveAgain,
}

impl Protocol {
    /// What a round consists of, in order.
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

    /// Tells it to a node; how many messages leave for it.
    fn tell<P: ProbeObserver>(self, transit: &mut Transit<P>, n: u32, bytes: &mut [u8]) -> usize {
        match self {
            Kind::Resv | Kind::ResvTear | Kind::ResvAgain => transit.from_downstream(bytes),
            Kind::Path | Kind::SecondPath | Kind::PathTear | Kind::PathAgain => transit.from_upstream(n, bytes),
            Kind::Reserve | Kind::ReserveAgain | Kind::Release => transit.passing(bytes),
        }
    }

    /// How many messages must leave for it: RSVP sends on what changed state, Boomerang everything.
    fn sets_off(self) -> usize {
        usize::from(!matches!(self, Kind::PathAgain | Kind::ResvAgain))
    }
}

/// Medians of one kind of message, ns.
#[derive(Clone, PartialEq, Debug)]
pub struct StepMedians {
    /// Which.
    pub kind: Kind,
    /// All of it.
    pub whole: Option<Estimate>,
    /// All of it once more, of sessions that a whole round has touched just before: what is left when nothing comes from
    /// far memory.
    pub warm: Option<Estimate>,
    /// Each step that it has.
    pub steps: Vec<(ProbePoint, Estimate)>,
}

impl StepMedians {
    /// A step's figure.
    pub fn step(&self, step: ProbePoint) -> Option<Estimate> {
        self.steps.iter().find(|(s, _)| *s == step).map(|(_, estimate)| *estimate)
    }
}

/// A small generator of session numbers: every run chooses the same.
struct Draw(u64);

impl Draw {
    fn next(&mut self, below: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(below.max(1))) as u32
    }

    /// Different numbers.
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

/// The two nodes that are profiled, with the same sessions.
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
    /// Without sessions; room for `most`.
    pub fn new(protocol: Protocol, calibration: Calibration, most: u32) -> Pair {
        let (seen, alone) = (Transit::new(most, Stopwatch::new(calibration)), Transit::new(most, Off));
        Pair { protocol, round: 0, seen, alone, calibration, sessions: 0, draw: Draw(7) }
    }

    /// Sets sessions up until there are so many.
    ///
    /// # Errors
    /// The user stopped it.
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

    /// How many sessions have a reservation.
    pub fn reserved(&self) -> usize {
        self.alone.reserved(self.protocol)
    }

    /// Profiles every kind of message, so many samples each.
    ///
    /// # Errors
    /// The user stopped it, or a message did not set off what it must.
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

    /// The protocol, and a number for the transactions of a round.
    fn next_round(&mut self) -> (Protocol, u32) {
        self.round += 1;
        (self.protocol, self.round * 4)
    }

    /// Samples of each step of each kind; each sample is the mean of a batch.
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

    /// Each kind of message as a whole, without a probe; and again with the same sessions.
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

/// One round: each kind in turn, for all of `who`. `look` gets the node, the kind's place and the work to be measured.
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
