//! Allowances in the kernel: what is damaged, or said in another's name, uses up nothing of his; and the engine is as
//! strict with the same messages.

use super::bed::{Bed, RULES, Say, bed, granted};
use crate::scratch::in_netns;
use boomerang::{Boomerang, Config, FailureReason, Input, Output};
use linux::boomerang::{DROP, PASS, ProgramRules, REDIRECT};
use terms::ports::{RHandle, Route, RouteDecision, TcRequest, TrafficControl};
use terms::{Adspec, IfIndex, Rate, Refused, Time};
use wire::boomerang::TravelDirection;

const MBIT: u32 = 1_000_000;
/// So few that a second's worth is soon said, and that a slow machine earns little back.
const FEW: u32 = 20;

fn scarce() -> Bed {
    let bed = bed(64, Rate::from_mbps(10));
    bed.path.set_rules(&ProgramRules { per_source: FEW, ..RULES });
    bed
}

/// Another session of the same two ends.
fn other(n: u16) -> Say {
    let mut say = Say::flow(1, 1_000, 1_000);
    say.flow.dst_port = 6_000 + n;
    say
}

/// So many set-ups in the name of a flow's source, and as many replies in that of its far end.
fn flood(many: u16) -> impl Iterator<Item = Say> {
    (0..many).flat_map(|n| [other(n), other(1_000 + n).reply()])
}

#[test]
fn a_flood_in_somebodys_name_leaves_his_sessions_alone() {
    for wide in [false, true] {
        in_netns(move || {
            let bed = scarce();
            let form = |say: Say| if wide { say.v6() } else { say };
            assert_eq!(bed.heard(&form(Say::flow(1, 3 * MBIT, MBIT))), granted(3 * MBIT, MBIT));
            assert_eq!(bed.heard(&form(Say::flow(1, 3 * MBIT, MBIT).reply())), granted(3 * MBIT, MBIT));
            let passed = flood(100).filter(|say| bed.hear(&form(say.clone())).verdict == REDIRECT).count();
            assert!(passed < 20, "the flood is bounded: {passed}");
            assert!(bed.path.counts().expect("counts").silenced > 100);
            for n in 2..5 {
                let again = form(Say::flow(1, 3 * MBIT, MBIT).transaction(n));
                assert_eq!(bed.heard(&again), granted(3 * MBIT, MBIT), "refreshed");
                assert_eq!(bed.heard(&again.reply()), granted(3 * MBIT, MBIT), "and answered");
            }
            let east = bed.path.run(&form(other(9)).frame(), bed.east).expect("test run").verdict;
            assert_ne!(east, DROP, "what comes in elsewhere has an allowance of its own");
        });
    }
}

#[test]
fn what_is_damaged_uses_up_nothing() {
    in_netns(|| {
        let bed = scarce();
        for say in [Say::flow(1, MBIT, 0), Say::flow(1, MBIT, 0).v6()] {
            let mut damaged = say.frame();
            *damaged.last_mut().expect("a message") ^= 1;
            for _ in 0..200 {
                assert_eq!(bed.path.run(&damaged, bed.west).expect("test run").verdict, PASS, "somebody's ping");
            }
            assert_eq!(bed.heard(&say), granted(MBIT, 0));
        }
        assert_eq!(bed.path.counts().expect("counts").silenced, 0);
    });
}

/// An interface with room for all.
struct Ample(IfIndex, IfIndex);

impl Route for Ample {
    fn route(&mut self, dst: std::net::IpAddr, _: Option<std::net::IpAddr>, _: Option<IfIndex>) -> RouteDecision {
        let west = matches!(dst, std::net::IpAddr::V4(dst) if dst.octets()[1] == 10);
        RouteDecision::Out { oif: if west { self.0 } else { self.1 }, gateway: None, source: [10, 0, 0, 1].into() }
    }
}

impl TrafficControl for Ample {
    fn add(&mut self, now: Time, _: &TcRequest<'_>) -> Result<RHandle, Refused> {
        Ok(RHandle(now.as_nanos()))
    }

    fn modify(&mut self, _: Time, _: RHandle, _: &TcRequest<'_>) -> Result<(), Refused> {
        Ok(())
    }

    fn remove(&mut self, _: Time, _: RHandle) {}

    fn offers(&self, _: Time, _: IfIndex, _: u32) -> Rate {
        Rate::from_mbps(10)
    }

    fn advertise(&self, _: Time, _: IfIndex, arriving: &Adspec) -> Adspec {
        *arriving
    }
}

/// What is silenced is silenced by both: the same script, one message after another.
#[test]
fn both_silence_the_same() {
    in_netns(|| {
        let bed = scarce();
        let mut ample = Ample(bed.west, bed.east);
        let mut engine = Boomerang::new(Config { per_source: FEW, ..Config::default() }, 5);
        let mut script = vec![Say::flow(1, 3 * MBIT, MBIT), Say::flow(1, 3 * MBIT, MBIT).reply()];
        script.extend(flood(40));
        script.extend((2..6).flat_map(|n| {
            let again = Say::flow(1, 3 * MBIT, MBIT).transaction(n);
            [again.clone(), again.reply(), other(500 + n as u16)]
        }));
        // And of a source that has said nothing yet.
        script.push(Say::flow(2, MBIT, 0));
        let mut silent = (Vec::new(), Vec::new());
        // The engine's clock stands still, and so nearly does the program's: a script is over in milliseconds, and a token
        // comes every 50. A machine that stalls earns the program a few, which are counted.
        let begun = linux::clock::monotonic_coarse();
        for (n, say) in script.iter().enumerate() {
            let before = bed.path.counts().expect("counts").silenced;
            let iif = if say.leg == TravelDirection::Request { bed.west } else { bed.east };
            bed.path.run(&say.frame(), iif).expect("test run");
            if bed.path.counts().expect("counts").silenced > before {
                silent.0.push(n);
            }
            let mut packet = say.packet();
            let now = Time::from_nanos(1_000_000_000 + n as u64);
            engine.handle(now, &mut ample, Input::Packet { iif: Some(iif), packet: &mut packet });
            while let Some(output) = engine.poll() {
                if output == Output::Dropped(FailureReason::TooMany) {
                    silent.1.push(n);
                }
            }
        }
        let lasted = linux::clock::monotonic_coarse() - begun;
        assert!(silent.1.len() > 40 && !silent.1.contains(&0), "{silent:?}");
        let earned = (lasted / 1_000_000 * u64::from(FEW) / 1_000 + 1) as usize;
        let differ = silent.1.iter().filter(|n| !silent.0.contains(n)).count();
        assert!(silent.0.iter().all(|n| silent.1.contains(n)) && differ <= 2 * earned, "{silent:?} in {lasted} ns");
        let last = script.len() - 1;
        for refresh in (82..last).filter(|n| (n - 82) % 3 < 2) {
            assert!(!silent.0.contains(&refresh) && !silent.1.contains(&refresh), "{refresh}: {silent:?}");
        }
    });
}
