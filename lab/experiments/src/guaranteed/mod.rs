//! Guaranteed service (RFC 2212) over planes in user space: every packet's delay beside the bound that its receiver was promised.
//!
//! Three agents in a line, two hops. The planes of both hops declare `D`; the receiver's agent hears `C_tot` and `D_tot` in the
//! Path, and reserves the least rate whose bound is no more than [`WANTED`]. The sender sends the worst that its token bucket
//! allows, under a flood of more than the second link carries. Each packet is stamped by the kernel where it leaves the
//! sender's stack and where it comes into the receiver's.

mod source;
mod stalls;
mod stamps;

use crate::experiment::{Experiment, Finding, RunOptions};
use crate::reserve::{Receiving, ReservedFlow, Sending};
use bed::Bed;
use bed::cbr::Cbr;
use bed::error::Error;
use bed::scratch::{self, Scratch};
use bed::testbed::UpOptions;
use documents::agent::{FlowSpecDoc, SenderId, SessionId};
use linux::clock::Clock;
use source::GreedySource;
use stalls::StallWatch;
use stamps::{StampTap, TapSide};
use std::time::Duration;
use terms::guaranteed::{delay_bound, rspec_for};
use terms::{Adspec, Bytes, GuaranteedTerms, Rate, Span, Tspec};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "guaranteed",
    about: "Guaranteed service over two hops in user space: every packet's delay beside its bound, under a flood",
    source: "RFC 2212: Specification of Guaranteed Quality of Service (Shenker, Partridge, Guerin 1997)",
    takes: "root, 5 minutes",
    run,
};

/// Two hops, each with a plane in user space at its way out.
const TOPOLOGY: &str = "\
name = \"guaranteed\"
[rsvp]
refresh = \"2s\"
[[node]]
name = \"left\"
kind = \"host\"
[[node]]
name = \"middle\"
kind = \"router\"
[[node]]
name = \"right\"
kind = \"host\"
[[link]]
between = [\"left\", \"middle\"]
rate = \"40mbit\"
delay_bound = \"22ms\"
[[link]]
between = [\"middle\", \"right\"]
rate = \"20mbit\"
delay_bound = \"22ms\"
";
const SENDER: &str = "left";
const RECEIVER: &str = "right";
/// The nodes whose way out is a hop.
const HOPS: [&str; 2] = ["left", "middle"];
const TABLE: &str = "delay";
/// The flow: packets of this many bytes of IP, 8 of them in its bucket.
const PACKET: u32 = 200;
const BURST: u32 = 8;
const RATE: Rate = Rate::from_kbps(8_000);
const PORT: u16 = 5_004;
const UDP: u8 = 17;
/// The delay that the receiver asks for, at most.
const WANTED: Span = Span::from_millis(48);
/// The rate of the flood, 1,400-byte packets: more than the second link has.
const FLOOD: Rate = Rate::from_kbps(30_000);
const FLOOD_PORT: u16 = 9_000;
/// Packets of the whole and of the quick form.
const PACKETS: [u64; 2] = [1_000_000, 30_000];
/// The time in which the last packets come.
const LAST: Duration = Duration::from_secs(1);

fn tspec() -> Tspec {
    Tspec { r: RATE, b: Bytes::new(u64::from(BURST * PACKET)), p: Rate::INFINITE, m: PACKET, M: PACKET }
}

/// The promise to the receiver.
struct Promise {
    terms: GuaranteedTerms,
    rate: Rate,
    bound: Span,
}

/// The testbed, with the reservation in place.
struct Stand {
    bed: Bed,
    _scratch: Scratch,
    _sending: Sending,
    _receiving: Receiving,
    promise: Promise,
}

impl Stand {
    fn up(options: &RunOptions) -> Result<Stand, Error> {
        let up = UpOptions::usual()?;
        // Without the right to it the machine's other work may hold the sender up.
        let _ = linux::process::go_first();
        scratch::sweep(&up.testbeds);
        let scratch = Scratch::create()?;
        let bed = Bed::of("the testbed of two hops", TOPOLOGY, scratch.name(), None, &up)?;
        options.patience.check()?;
        let (from, to) = (bed.host(SENDER)?, bed.host(RECEIVER)?);
        let flow = ReservedFlow {
            session: SessionId { dst: to.address.into(), protocol: UDP, dst_port: PORT },
            sender: SenderId { src: from.address.into(), src_port: PORT.into() },
        };
        let sending = Sending::start(bed.client(SENDER)?, flow, tspec().into())?;
        let mut receiving = Receiving::start(bed.client(RECEIVER)?, flow)?;
        let terms = receiving.wait_for_terms()?;
        let adspec = Adspec { guaranteed: Some(terms), ..Adspec::origin(PACKET) };
        let rspec = rspec_for(&tspec(), &adspec, WANTED).ok_or_else(|| {
            Error::Void(format!("the path exports D_tot = {} us: no rate keeps {WANTED:?}", terms.d_tot))
        })?;
        let (rate_bps, slack_us) = (rspec.R.as_bps(), 0);
        receiving.reserve_as(FlowSpecDoc::Guaranteed { tspec: tspec().into(), rate_bps, slack_us })?;
        let bound = delay_bound(&tspec(), rspec.R, terms.c_tot, terms.d_tot);
        let promise = Promise { terms, rate: rspec.R, bound };
        Ok(Stand { bed, _scratch: scratch, _sending: sending, _receiving: receiving, promise })
    }

    /// Every hop has the flow in a class of its own.
    fn check(&self) -> Result<(), Error> {
        for name in HOPS {
            let status = self.bed.status(name)?;
            let found = status.reservations.iter().find(|row| row.session.dst_port == PORT);
            let installed = found.and_then(|row| row.installed.as_ref());
            if !installed.is_some_and(|installed| !installed.shared && installed.state.as_str() == "installed") {
                return Err(Error::Void(format!("{name} has no class for the flow: {installed:?}")));
            }
        }
        Ok(())
    }
}

/// The delays of all packets, held against the bound.
#[derive(Debug, Default)]
struct Delays {
    packets: u64,
    lost: u64,
    above: u64,
    /// Of those above the bound, the ones during whose way this machine stood still.
    excused: u64,
    worst_ns: u64,
    sum_ns: u64,
    /// Sorted.
    all: Vec<u64>,
}

impl Delays {
    fn of(sent: &[u64], came: &[u64], bound: Span, stalls: &StallWatch) -> Delays {
        let mut found = Delays::default();
        for (number, sent) in sent.iter().enumerate().filter(|(_, sent)| **sent > 0) {
            found.packets += 1;
            let Some(came) = came.get(number).filter(|came| **came > 0) else {
                found.lost += 1;
                continue;
            };
            let delay = came.saturating_sub(*sent);
            found.all.push(delay);
            found.sum_ns += delay;
            found.worst_ns = found.worst_ns.max(delay);
            if delay > bound.as_nanos() {
                found.above += 1;
                found.excused += u64::from(stalls.stood_still(*sent, *came));
            }
        }
        found.all.sort_unstable();
        found
    }

    fn at(&self, share: f64) -> f64 {
        let place = (self.all.len() as f64 * share) as usize;
        self.all.get(place.min(self.all.len().saturating_sub(1))).map_or(0.0, |ns| ms(*ns))
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn run(options: &RunOptions) -> Result<Finding, Error> {
    let wanted = PACKETS[usize::from(options.quick)];
    let stand = Stand::up(options)?;
    stand.check()?;
    let (from, to) = (stand.bed.host(SENDER)?, stand.bed.host(RECEIVER)?);
    let clock = Clock::start();
    let taps = [StampTap::start(&from, PORT, TapSide::Out)?, StampTap::start(&to, PORT, TapSide::In)?];
    let flood = Cbr::start(&from, &to, FLOOD_PORT, clock)?;
    flood.set_rate(FLOOD);
    options.patience.wait(Duration::from_millis(500))?;
    let stalls = StallWatch::start()?;
    let source = GreedySource::start(&from, (to.address, PORT), wanted, (PACKET, BURST, RATE))?;
    while !source.is_done() {
        options.patience.wait(Duration::from_millis(100))?;
    }
    options.patience.wait(LAST)?;
    let flooded = flood.count();
    drop((source, flood));
    let stalls = stalls.end();
    if let Some(missed) = taps.iter().map(StampTap::missed).find(|missed| *missed > 0) {
        return Err(Error::Void(format!("a capture missed {missed} packets")));
    }
    let [sent, came] = taps.map(StampTap::end);
    let delays = Delays::of(&sent, &came, stand.promise.bound, &stalls);
    let beyond = stand.bed.status("middle")?.notes.into_iter().find(|note| note.contains("delay bound"));
    let mut finding = Finding::default();
    tell(&mut finding, &delays, &stand.promise, &stalls);
    finding.notes.push(format!(
        "the flood sent {} packets, of which {} came; the hops offer {} at the end",
        flooded.sent,
        flooded.received,
        if beyond.is_some() { "guaranteed service no more" } else { "guaranteed service" }
    ));
    judge(&mut finding, &delays, wanted);
    Ok(finding)
}

fn tell(finding: &mut Finding, delays: &Delays, promise: &Promise, stalls: &StallWatch) {
    let bound = ms(promise.bound.as_nanos());
    finding.title(TABLE, "delay from the sender's stack to the receiver's, ms, beside the bound of RFC 2212");
    let mean = ms(delays.sum_ns) / delays.all.len().max(1) as f64;
    for (column, value) in [
        ("bound", bound),
        ("worst", ms(delays.worst_ns)),
        ("99.99 %", delays.at(0.9999)),
        ("99 %", delays.at(0.99)),
        ("median", delays.at(0.5)),
        ("mean", mean),
    ] {
        finding.cell(TABLE, "reserved", column, None, &[value]);
    }
    finding.value("packets", delays.packets as f64);
    finding.value("lost", delays.lost as f64);
    finding.value("above_bound", delays.above as f64);
    finding.value("above_bound_without_stall", (delays.above - delays.excused) as f64);
    finding.value("bound_ms", bound);
    finding.value("worst_ms", ms(delays.worst_ns));
    finding.value("stalls", stalls.count() as f64);
    finding.value("longest_stall_ms", ms(stalls.longest_ns()));
    let Promise { terms, rate, .. } = promise;
    finding.notes.push(format!(
        "r = {RATE}, b = {} bytes, R = {rate}; C_tot = {} bytes, D_tot = {} us over {} hops",
        BURST * PACKET,
        terms.c_tot,
        terms.d_tot,
        HOPS.len()
    ));
    finding.notes.push(format!(
        "idle threads, one on each processor, stood still for more than {} ms {} times, at most {:.3} ms",
        stalls::STALL.as_micros() / 1_000,
        stalls.count(),
        ms(stalls.longest_ns())
    ));
}

fn judge(finding: &mut Finding, delays: &Delays, wanted: u64) {
    if delays.packets < wanted {
        finding.shortfalls.push(format!("{} of {wanted} packets were sent", delays.packets));
    }
    if delays.lost > 0 {
        finding.shortfalls.push(format!("{} of {} reserved packets were lost", delays.lost, delays.packets));
    }
    if delays.above > delays.excused {
        let unexcused = delays.above - delays.excused;
        finding
            .shortfalls
            .push(format!("{unexcused} packets came later than their bound, while the machine did not stand still"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bed::file::TestbedFile;
    use std::path::Path;

    #[test]
    fn the_testbed_declares_its_bounds_and_the_bound_fits() {
        let file = TestbedFile::parse(Path::new("guaranteed.toml"), TOPOLOGY).unwrap();
        assert_eq!(file.bounds, [Some(Span::from_millis(22)); 2]);
        let terms = GuaranteedTerms { c_tot: 3_000, d_tot: 44_000, ..GuaranteedTerms::default() };
        let adspec = Adspec { guaranteed: Some(terms), ..Adspec::origin(PACKET) };
        let rspec = rspec_for(&tspec(), &adspec, WANTED).unwrap();
        assert!(rspec.R > RATE && rspec.R < Rate::from_kbps(15_000), "{}", rspec.R);
        assert!(delay_bound(&tspec(), rspec.R, terms.c_tot, terms.d_tot) <= WANTED);
    }

    #[test]
    fn a_late_packet_is_counted_and_excused_by_a_stall_alone() {
        let stalls = StallWatch::of(vec![(900, 2_000)]);
        let (sent, came) = ([100, 1_000, 5_000, 0, 6_000], [150, 1_900, 5_900, 0, 0]);
        let delays = Delays::of(&sent, &came, Span::from_nanos(500), &stalls);
        assert_eq!((delays.packets, delays.lost, delays.above, delays.excused), (4, 1, 2, 1));
        assert_eq!((delays.worst_ns, delays.sum_ns), (900, 1_850));
    }
}
