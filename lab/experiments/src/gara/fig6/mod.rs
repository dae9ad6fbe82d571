//! Figure 6 of seed 002 (section 5.4): network and processor of one receiver reserved together, in seven phases, with a
//! real flood and real hogs.
//!
//! The receiver works on every byte and needs about half of a core. The hogs take most of that away, as the
//! flood takes most of the link. Both reservations are made and cancelled through the agents: the network at
//! the router before the bottleneck, the processor at the receiving host, for the receiving thread.

mod hogs;
mod judge;

use super::booking::Book;
use super::digest::Digest;
use super::garnet::{CORE, EDGE, OTHERS, PREMIUM};
use super::meter::ClassMeter;
use super::tcp_flow::{TcpFlow, TcpOffer};
use crate::experiment::{Experiment, Finding, RunOptions};
use bed::Bed;
use bed::cbr::Cbr;
use bed::error::Error;
use bed::scratch::{self, Scratch};
use bed::testbed::UpOptions;
use documents::book::{BindingDoc, PartDoc};
use hogs::Hogs;
use linux::clock::Clock;
use std::time::{Duration, Instant};
use terms::Rate;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "gara-fig6",
    about: "Network and processor of one receiver reserved together: a TCP flow through a flood and a load, in seven phases",
    source: "Foster, Roy, Sander, Winkler: End-to-End Quality of Service for High-End Applications (2000), Figure 6",
    takes: "root, 3 minutes",
    run: |options| run(options, &PACED),
};

/// The same with a sender that is greedy, as the seed's.
pub const GREEDY_EXPERIMENT: Experiment = Experiment {
    name: "gara-fig6-greedy",
    about: "The same with a greedy TCP sender, as ttcp is: it offers whatever the socket accepts",
    run: |options| run(options, &GREEDY),
    ..EXPERIMENT
};

/// The testbed of Figure 4 with two changes: up to 95 Mb/s of premium (section 5.4), and a receiver whose
/// processors can be reserved.
const TOPOLOGY: &str = include_str!("../../../../../examples/garnet.toml");
const PREMIUM_THERE: &str = "premium = \"45mbit\"";
const PREMIUM_HERE: &str = "premium = \"95mbit\"";
const RECEIVER: &str = "name = \"bravo\"\n";
const RESERVABLE: &str = "settings = \"\"\"\n[cpu]\nkept_back = \"3%\"\n\"\"\"\n";

fn topology() -> String {
    TOPOLOGY.replace(PREMIUM_THERE, PREMIUM_HERE).replace(RECEIVER, &format!("{RECEIVER}{RESERVABLE}"))
}

/// A form of the experiment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub offer: TcpOffer,
    /// The rate that the flow has without load.
    pub unloaded: Rate,
    pub reserved: Rate,
    /// The receiver's processor time for a byte: half of a core at the unloaded rate.
    pub cost: Duration,
    /// The least share of min(unloaded rate, reservation) while every contended resource is reserved.
    pub share: f64,
    /// True if each counted second must have the share, false if the mean of a phase.
    pub each_second: bool,
}

/// An application with a rate. The reserved rate is a little higher, so that the sender can catch up after a short
/// delay.
const PACED: Form = Form {
    offer: TcpOffer::Rate(Rate::from_mbps(60)),
    unloaded: Rate::from_mbps(60),
    reserved: Rate::from_mbps(72),
    cost: Duration::from_nanos(72),
    share: 0.99,
    each_second: true,
};
/// A greedy sender. TCP goes below what the edge lets pass whenever the edge drops a packet, so the mean of a phase
/// counts, and the share is what the seed's flows sent of their reservations: 32 of 36, 16 of 18, 8 of 9 Mb/s.
const GREEDY: Form = Form {
    offer: TcpOffer::Greedy,
    unloaded: Rate::from_mbps(95),
    reserved: Rate::from_mbps(90),
    cost: Duration::from_nanos(46),
    share: 8.0 / 9.0,
    each_second: false,
};
/// The rate of the seed's generator.
const FLOOD: Rate = Rate::from_mbps(80);
/// The reserved share of a processor, in cores.
const CORES: f64 = 0.85;
/// The number of hogs for each core: without a reservation the receiver gets about a quarter of a core.
const HOGS_PER_CORE: usize = 3;
const PORT: u16 = 5_001;
const FLOOD_PORT: u16 = 9;

/// The conditions of a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Phase {
    /// The seed's number for it.
    pub number: u32,
    /// The begin, in the seed's seconds.
    pub begins: u32,
    pub flood: bool,
    pub hogs: bool,
    pub network: bool,
    pub processor: bool,
    /// The length in the short form, seconds.
    pub short: u32,
    pub what: &'static str,
}

const fn phase(number: u32, begins: u32, held: [bool; 4], short: u32, what: &'static str) -> Phase {
    let [flood, hogs, network, processor] = held;
    Phase { number, begins, flood, hogs, network, processor, short, what }
}

/// The phases of section 5.4.
pub(crate) const PHASES: [Phase; 7] = [
    phase(1, 0, [false, false, false, false], 3, "alone"),
    phase(2, 10, [true, false, false, false], 3, "flood"),
    phase(3, 40, [true, false, true, false], 6, "flood, network reserved"),
    phase(4, 60, [true, true, true, false], 4, "flood and load, network reserved"),
    phase(5, 80, [true, true, true, true], 7, "flood and load, both reserved"),
    phase(6, 120, [true, true, false, true], 3, "flood and load, processor reserved"),
    phase(7, 160, [true, true, false, false], 3, "flood and load"),
];
/// The end of the seed's figure, seconds.
const END: u32 = 180;

impl Phase {
    /// True if every contended resource is reserved.
    pub(crate) fn is_kept(&self) -> bool {
        (!self.flood || self.network) && (!self.hogs || self.processor)
    }

    /// Returns the phase's length, seconds.
    fn length(&self, quick: bool) -> u32 {
        let next = PHASES.get(self.number as usize).map_or(END, |next| next.begins);
        if quick { self.short } else { next - self.begins }
    }
}

/// The rates in a second, or in its part before a phase's end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Second {
    pub phase: u32,
    /// The second's number within the phase, from 0.
    pub number: u32,
    /// The middle of the second, seconds since the start.
    pub at: f64,
    pub tcp_mbps: f64,
    pub flood_mbps: f64,
}

fn run(options: &RunOptions, form: &Form) -> Result<Finding, Error> {
    Bed::possible()?;
    let up = UpOptions::usual()?;
    let mut finding = Finding::default();
    let seconds = play(options, &up, form, &mut finding)?;
    judge::fill(&mut finding, &seconds, form, options.quick);
    Ok(finding)
}

/// Plays all phases with agents of the program that `up` names.
fn play(options: &RunOptions, up: &UpOptions, form: &Form, finding: &mut Finding) -> Result<Vec<Second>, Error> {
    linux::process::go_first()?;
    let digest = Digest::costing(form.cost);
    scratch::sweep(&up.testbeds);
    let scratch = Scratch::create()?;
    let bed = Bed::of("examples/garnet.toml", &topology(), scratch.name(), None, up)?;
    let clock = Clock::start();
    let flow = TcpFlow::connect(&bed.host(PREMIUM[0])?, &bed.host(PREMIUM[1])?, PORT, form.offer, Some(digest))?;
    flow.begin();
    let flood = Cbr::start(&bed.host(OTHERS[0])?, &bed.host(OTHERS[1])?, FLOOD_PORT, clock)?;
    let cores = linux::cpu::capacity::cores() as usize;
    finding.notes.push(format!(
        "{}, {} reserved at {EDGE}; the receiver needs about half of a core, {CORES} are reserved; {} hogs",
        match form.offer {
            TcpOffer::Rate(rate) => format!("{rate} offered"),
            TcpOffer::Greedy => "a greedy sender".to_owned(),
        },
        form.reserved,
        HOGS_PER_CORE * cores
    ));
    let edge = linux::netns::Namespace::open(&bed.node(EDGE)?.namespace)?;
    let mut meter = ClassMeter::open(&edge, &bed.interface(EDGE, CORE)?)?;
    let mut held = Held::default();
    let mut seconds = Vec::new();
    let begin = Instant::now();
    // The first second of a connection is its own.
    options.patience.wait(Duration::from_millis(500))?;
    for phase in PHASES {
        flood.set_rate(if phase.flood { FLOOD } else { Rate::ZERO });
        if phase.hogs && held.hogs.is_none() {
            held.hogs = Some(Hogs::start(HOGS_PER_CORE * cores)?);
        }
        held.network(&bed, &flow, form.reserved, phase.network)?;
        held.processor(&bed, &flow, phase.processor)?;
        if options.progress {
            eprintln!("{:>4} s  {}. {}", begin.elapsed().as_secs(), phase.number, phase.what);
        }
        for number in 0..phase.length(options.quick) {
            let (before, flooded) = (meter.read(|| flow.received())?, flood.count());
            options.patience.wait(Duration::from_secs(1))?;
            let (now, now_flooded) = (meter.read(|| flow.received())?, flood.count());
            let second = crate::gara::meter::Second::between(&before, &now);
            seconds.push(Second {
                phase: phase.number,
                number,
                at: (before.at - begin).as_secs_f64() + second.length / 2.0,
                // In the premium class there is only this flow; elsewhere its receiver counts it.
                tcp_mbps: if phase.network { second.foreground } else { second.offered },
                flood_mbps: now_flooded.since(&flooded).received_mbps(Duration::from_secs_f64(second.length)),
            });
        }
    }
    Ok(seconds)
}

/// The load and the reservations at present.
#[derive(Debug, Default)]
struct Held {
    hogs: Option<Hogs>,
    network: Option<String>,
    processor: Option<String>,
}

impl Held {
    fn network(&mut self, bed: &Bed, flow: &TcpFlow, rate: Rate, wanted: bool) -> Result<(), Error> {
        let part = PartDoc {
            resource: format!("net/{}", bed.interface(EDGE, CORE)?),
            rate: Some(rate.as_bps()),
            packet_bytes: Some(1_500),
            binding: Some(BindingDoc::Flow(flow.binding())),
            ..PartDoc::default()
        };
        hold(&mut self.network, Book::open(&bed.node(EDGE)?.socket)?, part, wanted)
    }

    fn processor(&mut self, bed: &Bed, flow: &TcpFlow, wanted: bool) -> Result<(), Error> {
        let part = PartDoc {
            resource: "cpu".into(),
            cores: Some(CORES),
            binding: Some(BindingDoc::Tid(flow.receiver())),
            ..PartDoc::default()
        };
        hold(&mut self.processor, Book::open(&bed.node(PREMIUM[1])?.socket)?, part, wanted)
    }
}

/// Makes or cancels a reservation of one part, as `wanted` says. Returns when it is in force.
fn hold(held: &mut Option<String>, mut book: Book, part: PartDoc, wanted: bool) -> Result<(), Error> {
    match (held.take(), wanted) {
        (None, true) => *held = Some(book.reserve(part, "gara-fig6")?.handle),
        (Some(handle), false) => book.cancel(&handle)?,
        (as_it_is, _) => *held = as_it_is,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topology_of_figure_4_is_changed_where_it_must() {
        let file = bed::file::TestbedFile::parse(std::path::Path::new("garnet.toml"), &topology()).unwrap();
        assert!(file.settings["bravo"].contains("[cpu]"));
        assert!(topology().contains(PREMIUM_HERE) && !topology().contains(PREMIUM_THERE));
    }

    #[test]
    fn phases_follow_the_seed_and_kept_ones_are_long_enough_to_be_judged() {
        let begins: Vec<u32> = PHASES.iter().map(|phase| phase.begins).collect();
        assert_eq!(begins, [0, 10, 40, 60, 80, 120, 160]);
        assert_eq!(PHASES.iter().map(|phase| phase.length(false)).sum::<u32>(), END);
        let kept: Vec<u32> = PHASES.iter().filter(|phase| phase.is_kept()).map(|phase| phase.number).collect();
        assert_eq!(kept, [1, 3, 5]);
        assert!(PHASES.iter().all(|phase| phase.short >= 3));
    }
}
