//! Counters per class and colour, and the delays of packets.

use bench::order::nearest_rank;
use rpc::table::{Align, TextTable};
use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use terms::{PacketMeta, Time};
use traffic::meter::Color;
use traffic::tree::{Departure, LeafCounters, LeafId, Tally, Tree};

/// All counters. `arrived = refused + early + forced + overflowed + sent` holds for every class.
#[derive(Clone, Debug, Serialize)]
pub struct PlaneReport {
    /// The tree's name.
    pub name: String,
    /// The seed of droppers and TSWTCM.
    pub seed: u64,
    /// The rate of the link on the wire, bit/s.
    pub link_bps: u64,
    /// The link's overhead for each packet, bytes.
    pub overhead: u32,
    /// The time from the first arrival to the last arrival or departure, seconds.
    pub seconds: f64,
    /// Frames without a complete IP packet; the output lacks them.
    pub not_ip: u64,
    /// The number of time stamps earlier than the one before.
    pub backwards: u64,
    /// The leaves of the tree, in order.
    pub classes: Vec<ClassReport>,
    /// The arrivals, for figures.
    #[serde(skip)]
    pub arrivals: Vec<Passage>,
    /// The departures, for figures.
    #[serde(skip)]
    pub departures: Vec<Passage>,
}

/// The arrival or departure of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// Nanoseconds since the first arrival.
    pub at: u64,
    /// Index of its class.
    pub class: u32,
    /// IP bytes.
    pub len: u32,
}

/// One leaf.
#[derive(Clone, Debug, Serialize)]
pub struct ClassReport {
    /// Its name.
    pub name: String,
    /// Packets classified into this leaf.
    pub arrived: TrafficCount,
    /// Packets dropped by the shaper.
    pub refused: TrafficCount,
    /// Counters by colour.
    pub colors: Vec<ColorCount>,
    /// The delay from arrival to the start of departure.
    pub delay: Option<Delay>,
}

/// Packets and IP bytes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TrafficCount {
    /// Packets.
    pub packets: u64,
    /// IP bytes.
    pub bytes: u64,
}

/// One colour of a class.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ColorCount {
    /// green, yellow or red.
    pub color: &'static str,
    /// Packets given this colour.
    pub metered: TrafficCount,
    /// Packets dropped at random.
    pub early: TrafficCount,
    /// Packets dropped above the upper threshold.
    pub forced: TrafficCount,
    /// Packets dropped at the tail.
    pub overflowed: TrafficCount,
    /// Packets sent.
    pub sent: TrafficCount,
}

/// Delays of the packets that were sent.
#[derive(Clone, Debug, Serialize)]
pub struct Delay {
    /// Mean, ms.
    pub mean_ms: f64,
    /// Median, ms.
    pub p50_ms: f64,
    /// The 99th percentile, ms.
    pub p99_ms: f64,
    /// The maximum, ms.
    pub max_ms: f64,
    /// Packets by delay, from the first to the last bin that is not empty.
    pub histogram: Vec<Bin>,
    /// The minimum, then every fifth percentile up to 100, ms, for figures.
    #[serde(skip)]
    pub quantiles: Vec<f64>,
}

/// The packets with a delay below `below_us` and not below the bin before.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Bin {
    /// The upper edge, microseconds.
    pub below_us: u64,
    /// The number of packets.
    pub packets: u64,
}

/// A collector of counts while a capture is played.
pub(super) struct Watch {
    start: Time,
    arrivals: Vec<Passage>,
    departures: Vec<Passage>,
    delays: Vec<Vec<u64>>,
    pub(super) not_ip: u64,
    pub(super) backwards: u64,
}

impl Watch {
    pub(super) fn new(tree: &Tree, start: Time) -> Watch {
        let delays = tree.leaves().map(|_| Vec::new()).collect();
        Watch { start, arrivals: Vec::new(), departures: Vec::new(), delays, not_ip: 0, backwards: 0 }
    }

    pub(super) fn arrived(&mut self, now: Time, leaf: LeafId, packet: &PacketMeta) {
        self.arrivals.push(Passage { at: now.since(self.start).as_nanos(), class: leaf.0, len: packet.len });
    }

    pub(super) fn left(&mut self, now: Time, departure: &Departure) {
        let Departure { packet, leaf, .. } = departure;
        self.departures.push(Passage { at: now.since(self.start).as_nanos(), class: leaf.0, len: packet.len });
        self.delays[leaf.0 as usize].push(now.since(packet.arrival).as_nanos());
    }

    pub(super) fn finish(self, name: &str, seed: u64, tree: &Tree) -> PlaneReport {
        let last = |passages: &[Passage]| passages.last().map_or(0, |p| p.at);
        let classes = tree.leaves().zip(self.delays).filter_map(|((id, name), delays)| {
            let counters = tree.counters(id)?;
            Some(class(name, &counters, delays))
        });
        PlaneReport {
            name: name.into(),
            seed,
            link_bps: tree.spec().link.rate.as_bps(),
            overhead: tree.spec().link.overhead,
            seconds: last(&self.arrivals).max(last(&self.departures)) as f64 / 1e9,
            not_ip: self.not_ip,
            backwards: self.backwards,
            classes: classes.collect(),
            arrivals: self.arrivals,
            departures: self.departures,
        }
    }
}

/// A tally as it is printed.
pub(super) fn count(tally: Tally) -> TrafficCount {
    TrafficCount { packets: tally.packets, bytes: tally.bytes }
}

/// The tallies of the three colours as they are printed.
pub(super) fn color_counts(counters: &LeafCounters) -> Vec<ColorCount> {
    let colors = [(Color::Green, "green"), (Color::Yellow, "yellow"), (Color::Red, "red")];
    let one = |(color, word)| {
        let tally = counters.of(color);
        ColorCount {
            color: word,
            metered: count(tally.metered),
            early: count(tally.early),
            forced: count(tally.forced),
            overflowed: count(tally.overflowed),
            sent: count(tally.sent),
        }
    };
    colors.map(one).to_vec()
}

fn class(name: &str, counters: &LeafCounters, delays: Vec<u64>) -> ClassReport {
    let (arrived, refused) = (count(counters.arrived), count(counters.refused));
    ClassReport { name: name.into(), arrived, refused, colors: color_counts(counters), delay: delay(delays) }
}

/// Returns the upper edge of a bin, microseconds: 1, 2, 5 times powers of ten.
fn edge(bin: usize) -> u64 {
    10u64.saturating_pow(bin as u32 / 3 + 1).saturating_mul([1, 2, 5][bin % 3])
}

fn delay(mut nanos: Vec<u64>) -> Option<Delay> {
    nanos.sort_unstable();
    let (&first, &last) = (nanos.first()?, nanos.last()?);
    let ms = |ns: u64| ns as f64 / 1e6;
    let at_most = |share: f64| nearest_rank(&nanos, share).map_or(0.0, ms);
    let bin_of =
        |ns: u64| (0..).find(|&bin| edge(bin).saturating_mul(1_000) > ns || edge(bin) == u64::MAX).unwrap_or(0);
    let up_to = |us: u64| nanos.partition_point(|&ns| ns < us.saturating_mul(1_000)) as u64;
    let histogram = (bin_of(first)..=bin_of(last)).map(|bin| {
        let before = if bin == 0 { 0 } else { up_to(edge(bin - 1)) };
        Bin { below_us: edge(bin), packets: up_to(edge(bin)) - before }
    });
    Some(Delay {
        mean_ms: nanos.iter().map(|&ns| ns as f64).sum::<f64>() / nanos.len() as f64 / 1e6,
        p50_ms: at_most(0.5),
        p99_ms: at_most(0.99),
        max_ms: ms(last),
        histogram: histogram.collect(),
        quantiles: (0..=20).map(|twentieth| at_most(f64::from(twentieth) / 20.0)).collect(),
    })
}

impl Display for PlaneReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {:.3} s, link {}, {} bytes of overhead a packet, seed {}",
            self.name,
            self.seconds,
            terms::Rate::from_bps(self.link_bps),
            self.overhead,
            self.seed
        )?;
        if self.not_ip > 0 {
            writeln!(f, "{} frames without a whole IP packet were left out", self.not_ip)?;
        }
        if self.backwards > 0 {
            writeln!(f, "{} time stamps ran backwards; the latest before them was taken", self.backwards)?;
        }
        write!(f, "\n{}\n{}\n{}", self.counts(), self.delays(), self.histogram())
    }
}

impl PlaneReport {
    /// Formats packets by class and colour.
    fn counts(&self) -> TextTable {
        let right = |name| (name, Align::Right);
        let mut table = TextTable::new(&[
            ("class", Align::Left),
            ("colour", Align::Left),
            right("packets"),
            right("bytes"),
            right("early"),
            right("forced"),
            right("tail"),
            right("sent"),
            right("sent bytes"),
            right("Mb/s"),
        ]);
        let rate = |bytes: u64| {
            if self.seconds > 0.0 { format!("{:.3}", bytes as f64 * 8e-6 / self.seconds) } else { "-".into() }
        };
        for class in &self.classes {
            for c in class.colors.iter().filter(|c| c.metered.packets > 0) {
                let numbers = [
                    c.metered.packets,
                    c.metered.bytes,
                    c.early.packets,
                    c.forced.packets,
                    c.overflowed.packets,
                    c.sent.packets,
                    c.sent.bytes,
                ];
                let words = [class.name.clone(), c.color.to_string()];
                let cells = words.into_iter().chain(numbers.map(|n| n.to_string())).chain([rate(c.sent.bytes)]);
                table.row(cells);
            }
            if class.refused.packets > 0 {
                let TrafficCount { packets, bytes } = class.refused;
                let zeros = ["-", "-", "-", "0", "0"].map(String::from);
                let words =
                    [class.name.clone(), "refused by the shaper".into(), packets.to_string(), bytes.to_string()];
                table.row(words.into_iter().chain(zeros));
            }
            if class.arrived.packets == 0 {
                table.row([class.name.clone(), "no packets".into()]);
            }
        }
        table
    }

    fn delays(&self) -> TextTable {
        let right = |name| (name, Align::Right);
        let columns = ["mean ms", "median ms", "99 % ms", "max ms"].map(right);
        let mut table = TextTable::new(&[[("delay", Align::Left)].as_slice(), &columns].concat());
        for class in &self.classes {
            if let Some(delay) = &class.delay {
                let numbers = [delay.mean_ms, delay.p50_ms, delay.p99_ms, delay.max_ms];
                table.row([class.name.clone()].into_iter().chain(numbers.map(|ms| format!("{ms:.3}"))));
            }
        }
        table
    }

    /// Formats packets by delay: one row a bin, one line a class.
    fn histogram(&self) -> TextTable {
        let mut table = TextTable::new(&[
            ("below", Align::Right),
            ("class", Align::Left),
            ("packets", Align::Right),
            ("", Align::Left),
        ]);
        for class in &self.classes {
            let Some(delay) = &class.delay else { continue };
            let most = delay.histogram.iter().map(|bin| bin.packets).max().unwrap_or(1).max(1);
            for bin in &delay.histogram {
                let bar = "#".repeat((bin.packets * 40).div_ceil(most) as usize);
                let below = terms::Span::from_micros(bin.below_us);
                table.row([said(below), class.name.clone(), bin.packets.to_string(), bar]);
            }
        }
        table
    }
}

fn said(span: terms::Span) -> String {
    match span.as_micros() {
        us if us >= 1_000_000 => format!("{} s", us / 1_000_000),
        us if us >= 1_000 => format!("{} ms", us / 1_000),
        us => format!("{us} us"),
    }
}
