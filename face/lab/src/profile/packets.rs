//! RSVP's messages on real packets, through the whole agent: Table 1, Figures 2 and 4, and the signalling load of section
//! 6.2.
//!
//! Checkpoint 1 is at the other ends of the node's wires, checkpoint 2 at its own interfaces; between those lie the
//! kernel's stack, the raw sockets, the engine and, for a Resv, the ledger and the plane: classes and flow map written
//! and read back before the Resv goes on.

use super::boundary::Boundary;
use super::line::{Agent, BEHIND, END, FAR, Line, NEAR};
use super::sample::{Estimate, Samples};
use super::tester::{End, Tester};
use crate::cbr::Cbr;
use crate::error::Error;
use crate::host::Host;
use crate::patience::Patience;
use linux::clock::Clock;
use linux::netns::Namespace;
use std::time::Duration;
use terms::Rate;
use wire::MessageType;

/// The messages of a session's life, in order.
pub const LIFE: [MessageType; 4] = [MessageType::Path, MessageType::Resv, MessageType::ResvTear, MessageType::PathTear];
/// Packets of the background traffic: 512 bytes, as in the document.
pub const PACKET: u32 = 512;
/// Background traffic, Mb/s.
pub const TRAFFIC: [u64; 7] = [0, 10, 20, 30, 40, 55, 100];
/// Of the quick form.
pub const TRAFFIC_QUICK: [u64; 2] = [0, 55];
/// What Figure 4 is drawn at, Mb/s.
pub const LEVELS_AT: u64 = 55;
/// Messages a second of the signalling load.
pub const INTENSITY: [u64; 5] = [100, 200, 400, 800, 1_600];
/// Of the quick form.
pub const INTENSITY_QUICK: [u64; 2] = [100, 200];
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// Links of the node: fast enough that no message waits for the background traffic in a queue.
const LINK: Rate = Rate::from_mbps(10_000);

/// Times of each kind of message at both checkpoints, us.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Times {
    /// By place in [`LIFE`]: checkpoint 1, checkpoint 2.
    pub kinds: [(Samples, Samples); 4],
}

impl Times {
    /// A kind's estimates at both checkpoints.
    pub fn estimates(&self, kind: MessageType) -> Option<(Estimate, Estimate)> {
        let (one, two) = &self.kinds[LIFE.iter().position(|k| *k == kind)?];
        one.estimate(1).zip(two.estimate(1))
    }
}

/// A line with an agent, and a tester around it.
pub struct Bed {
    tester: Tester,
    inner: Boundary,
    traffic: Cbr,
    agent: Agent,
    _line: Line,
    next: u32,
}

impl Bed {
    /// Starts everything.
    ///
    /// # Errors
    /// No privileges, or the agent did not start.
    pub fn start() -> Result<Bed, Error> {
        crate::bed::Bed::possible()?;
        let line = Line::new()?;
        let agent = Agent::start(&line, LINK, "[rsvp]\nrefresh = \"600s\"\n")?;
        let up = End::open(&line.upstream, END, NEAR.0)?;
        let down = End::open(&line.downstream, END, FAR.0)?;
        let tester = Tester::new((&line.upstream, up), (&line.downstream, down), BEHIND)?;
        let inner = Boundary::new(line.inner()?);
        let host = |namespace: &Namespace, address| {
            let namespace = Namespace::open(namespace.name())?;
            Ok::<_, Error>(Host { namespace, interface: END.into(), address })
        };
        let (from, to) = (host(&line.upstream, NEAR.1)?, host(&line.downstream, FAR.1)?);
        let traffic = Cbr::start_of(PACKET, &from, &to, 5009, Clock::start())?;
        Ok(Bed { tester, inner, traffic, agent, _line: line, next: 0 })
    }

    /// Lives of so many sessions, one after the other, a message each `gap`, with so much background traffic.
    ///
    /// # Errors
    /// A message did not come through, or the user stopped it.
    pub fn lives(&mut self, count: usize, gap: Duration, mbps: u64, patience: &Patience) -> Result<Times, Error> {
        self.traffic.set_rate(Rate::from_mbps(mbps));
        if mbps > 0 {
            patience.wait(Duration::from_millis(100))?;
        }
        let mut times = Times::default();
        let clock = std::time::Instant::now();
        let mut due = Duration::ZERO;
        for _ in 0..count {
            let n = self.next;
            self.next += 1;
            for (place, kind) in LIFE.into_iter().enumerate() {
                patience.check()?;
                std::thread::sleep(due.saturating_sub(clock.elapsed()));
                due = (due + gap).max(clock.elapsed());
                let outside = self.tester.exchange(kind, n, PATIENCE)?;
                let Some(outside) = outside else { return Err(self.lost(kind)) };
                self.inner.look();
                let name = self.tester.name(kind, n);
                times.kinds[place].0.add(outside, false);
                // A checkpoint whose buffer was full has no stamp.
                match self.inner.inside(&name) {
                    Some(inside) => times.kinds[place].1.add(inside, false),
                    None => times.kinds[place].1.discarded += 1,
                }
            }
            self.tester.outer.forget();
            self.inner.forget();
        }
        self.traffic.set_rate(Rate::ZERO);
        Ok(times)
    }

    fn lost(&self, kind: MessageType) -> Error {
        match self.agent.has_ended() {
            true => Error::Void("the agent of the node under test has ended".into()),
            false => Error::Void(format!("a {kind:?} did not come through the node within {PATIENCE:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_live_through_a_real_agent_and_both_checkpoints_see_it() {
        if let Err(error) = crate::bed::Bed::possible() {
            println!("SKIPPED: {error}");
            return;
        }
        let mut bed = Bed::start().unwrap();
        let times = bed.lives(5, Duration::from_millis(2), 20, &Patience::endless()).unwrap();
        for kind in LIFE {
            let (one, two) = times.estimates(kind).unwrap();
            assert_eq!((one.n, two.n), (5, 5), "{kind:?}");
            assert!(two.median > 1.0 && one.median > two.median, "{kind:?}: {} around {}", one.median, two.median);
            assert!(one.median < 1e6, "{kind:?}");
        }
        assert!(bed.traffic.count().sent > 100, "there was background traffic");
        let there = bed.tester.outer.count(super::super::boundary::What::Rsvp(MessageType::Path));
        assert_eq!(there, 0, "what has been counted is forgotten");
    }
}
