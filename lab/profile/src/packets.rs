//! Messages on real packets, through the whole agent: Tables 1 and 2, Figures 2 to 4, and the signalling load of section
//! 6.2.
//!
//! Checkpoint 1 is at the other ends of the node's wires, checkpoint 2 at its own interfaces. Between those
//! are the kernel's stack, the raw sockets, the engine and, for a Resv, the ledger and the plane: classes and
//! flow map are written and read back before the Resv goes on. Messages that Boomerang's fast path decides in
//! the driver (XDP) never reach the hooks of checkpoint 2.

use super::boundary::Boundary;
use super::line::{END, FAR, NEAR, ProfiledAgent, ProfiledLine};
use super::sample::{Estimate, Samples};
use super::tester::{LifeMessage, Tester};
use super::transit::Protocol;
use bed::cbr::Cbr;
use bed::error::Error;
use bed::host::Host;
use bed::patience::Patience;
use linux::clock::Clock;
use linux::netns::Namespace;
use std::time::Duration;
use terms::Rate;

/// The length of packets of the background traffic, bytes, as in the document.
pub const PACKET: u32 = 512;
/// The rates of the background traffic, Mb/s.
pub const TRAFFIC: [u64; 7] = [0, 10, 20, 30, 40, 55, 100];
/// The rates of the background traffic in the quick form, Mb/s.
pub const TRAFFIC_QUICK: [u64; 2] = [0, 55];
/// The background traffic of Figure 4, Mb/s.
pub const LEVELS_AT: u64 = 55;
/// The rates of the signalling load, messages per second.
pub const INTENSITY: [u64; 5] = [100, 200, 400, 800, 1_600];
/// The rates of the signalling load in the quick form, messages per second.
pub const INTENSITY_QUICK: [u64; 2] = [100, 200];
/// The time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Additional lines of the agent's configuration.
pub const CONFIG: &str = "[rsvp]\nrefresh = \"600s\"\n[boomerang]\nreplies = \"known\"\nper_source = 100000000\n";
/// The same lines, with Boomerang decided in the kernel.
pub const FAST: &str = "[rsvp]\nrefresh = \"600s\"\n[boomerang]\nreplies = \"known\"\nper_source = 100000000\n\
                        fast_path = true\n";
/// The rate of the node's links: so high that no message waits for the background traffic in a queue.
const LINK: Rate = Rate::from_mbps(10_000);

/// The times of each kind of message at both checkpoints, us.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MessageTimes {
    /// In the order of a session's life: the message, its times at checkpoint 1, at checkpoint 2.
    pub parts: Vec<(LifeMessage, Samples, Samples)>,
}

impl MessageTimes {
    /// Returns a kind's estimates at both checkpoints.
    pub fn estimates(&self, part: LifeMessage) -> (Option<Estimate>, Option<Estimate>) {
        let found = self.parts.iter().find(|(p, ..)| *p == part);
        found.map_or((None, None), |(_, one, two)| (one.estimate(1), two.estimate(1)))
    }
}

/// A line with an agent, and a tester around it.
pub struct PacketBed {
    tester: Tester,
    inner: Boundary,
    traffic: Cbr,
    agent: ProfiledAgent,
    _line: ProfiledLine,
    next: u32,
}

impl PacketBed {
    /// Starts everything. `config` is added to the agent's configuration.
    ///
    /// # Errors
    /// Missing privileges, or the agent did not start.
    pub fn start(config: &str) -> Result<PacketBed, Error> {
        bed::Bed::possible()?;
        let line = ProfiledLine::new()?;
        let agent = ProfiledAgent::start(&line, LINK, config)?;
        let tester = line.tester()?;
        let inner = Boundary::new(line.inner()?);
        let host = |namespace: &Namespace, address| {
            let namespace = Namespace::open(namespace.name())?;
            Ok::<_, Error>(Host { namespace, interface: END.into(), address })
        };
        let (from, to) = (host(&line.upstream, NEAR.1)?, host(&line.downstream, FAR.1)?);
        let traffic = Cbr::start_of(PACKET, &from, &to, 5009, Clock::start())?;
        Ok(PacketBed { tester, inner, traffic, agent, _line: line, next: 0 })
    }

    /// Plays the lives of `count` sessions, one after the other, a message each `gap`, with `mbps` of
    /// background traffic.
    ///
    /// # Errors
    /// A message did not come through, or the user stops the run.
    pub fn lives(
        &mut self,
        protocol: Protocol,
        count: usize,
        gap: Duration,
        mbps: u64,
        patience: &Patience,
    ) -> Result<MessageTimes, Error> {
        self.traffic.set_rate(Rate::from_mbps(mbps));
        if mbps > 0 {
            patience.wait(Duration::from_millis(100))?;
        }
        let parts = protocol.life().iter().map(|part| (*part, Samples::default(), Samples::default()));
        let mut times = MessageTimes { parts: parts.collect() };
        let clock = std::time::Instant::now();
        let mut due = Duration::ZERO;
        for _ in 0..count {
            let n = self.next;
            self.next += 1;
            for (part, one, two) in &mut times.parts {
                let part = *part;
                patience.check()?;
                std::thread::sleep(due.saturating_sub(clock.elapsed()));
                due = (due + gap).max(clock.elapsed());
                let outside = self.tester.exchange(part, n, PATIENCE)?;
                let Some(outside) = outside else { return Err(self.lost(part)) };
                self.inner.look();
                let name = self.tester.name(part, n);
                one.add(outside, false);
                // What XDP sends on is not seen here.
                match self.inner.inside(&name) {
                    Some(inside) => two.add(inside, false),
                    None => two.discarded += 1,
                }
            }
            self.tester.outer.forget();
            self.inner.forget();
        }
        self.traffic.set_rate(Rate::ZERO);
        Ok(times)
    }

    fn lost(&self, part: LifeMessage) -> Error {
        match self.agent.has_ended() {
            true => Error::Void("the agent of the node under test has ended".into()),
            false => Error::Void(format!("a {} did not come through the node within {PATIENCE:?}", part.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_live_through_a_real_agent_and_both_checkpoints_see_it() {
        if let Err(error) = bed::Bed::possible() {
            println!("SKIPPED: {error}");
            return;
        }
        let mut bed = PacketBed::start(CONFIG).unwrap();
        let (gap, endless) = (Duration::from_millis(2), Patience::endless());
        for protocol in [Protocol::Rsvp, Protocol::Boomerang] {
            let times = bed.lives(protocol, 5, gap, 20, &endless).unwrap();
            for part in protocol.life() {
                let (one, two) = times.estimates(*part);
                let (one, two) = (one.unwrap(), two.unwrap());
                assert_eq!((one.n, two.n), (5, 5), "{part:?}");
                assert!(two.median > 1.0 && one.median > two.median, "{part:?}: {} around {}", one.median, two.median);
                assert!(one.median < 1e6, "{part:?}");
            }
        }
        assert!(bed.traffic.count().sent > 100, "there was background traffic");
        let names = [bed.tester.name(LifeMessage::Rsvp(wire::MessageType::Path), 4)];
        assert_eq!(bed.tester.outer.count(names.iter()), (0, 0), "what has been counted is forgotten");
    }
}
