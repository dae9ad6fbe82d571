//! The counters of a live pair, for a person and for a script.

use super::report::{ColorCount, TrafficCount, color_counts, count};
use rpc::table::{Align, TextTable};
use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use user_plane::pair::FramePair;
use user_plane::way::{FrameWay, LeafDelay, WayCounters};

/// The name of a tree, its interfaces, and the time since its start.
#[derive(Clone, Copy, Debug)]
pub struct LiveSpan<'a> {
    /// The tree's name.
    pub name: &'a str,
    /// The two interfaces.
    pub ends: [&'a str; 2],
    /// Seconds since the start.
    pub seconds: f64,
}

/// All counters of a pair, since its start.
#[derive(Clone, Debug, Serialize)]
pub struct LiveReport {
    /// The tree's name.
    pub name: String,
    /// Seconds since the start.
    pub seconds: f64,
    /// Both directions; the tree's own is first.
    pub ways: Vec<WayReport>,
}

/// One direction.
#[derive(Clone, Debug, Serialize)]
pub struct WayReport {
    /// The interface where frames come in.
    pub from: String,
    /// The interface where they leave.
    pub to: String,
    /// Frames that came in.
    pub received: u64,
    /// Of those, packets of up to 64 KB that were cut into segments.
    pub cut: u64,
    /// Frames that were sent.
    pub sent: u64,
    /// Their bytes, link header included.
    pub sent_bytes: u64,
    /// Frames that are inside.
    pub inside: u64,
    /// ARP frames that passed beside the tree.
    pub arp: u64,
    /// Other frames without a whole IP packet.
    pub not_ip: u64,
    /// Frames that the emulated wire lost.
    pub lost: u64,
    /// Frames that the plane had no buffer for.
    pub no_buffer: u64,
    /// Frames that are longer than the MTU and cannot be cut.
    pub too_long: u64,
    /// Frames that the outgoing interface did not take.
    pub refused: u64,
    /// Frames that the kernel dropped because the plane came too late.
    pub missed: u64,
    /// The leaves of the tree, in order; none without a tree.
    pub classes: Vec<LiveClass>,
}

/// One leaf.
#[derive(Clone, Debug, Serialize)]
pub struct LiveClass {
    /// Its name.
    pub name: String,
    /// Packets classified into this leaf.
    pub arrived: TrafficCount,
    /// Packets dropped by the shaper.
    pub refused: TrafficCount,
    /// Packets in the shaper and in the queue.
    pub waiting: TrafficCount,
    /// Packets sent, of all colours.
    pub sent: TrafficCount,
    /// Counters by colour.
    pub colors: Vec<ColorCount>,
    /// The mean time of a packet in the plane, ms; none: no packet left.
    pub mean_ms: Option<f64>,
    /// The longest, ms.
    pub max_ms: Option<f64>,
}

impl LiveReport {
    /// The counters now.
    pub fn new<I: linux::frames::FrameIo>(seen: &LiveSpan<'_>, pair: &FramePair<I>) -> LiveReport {
        let [a, b] = seen.ends;
        let [there, back] = pair.ways();
        LiveReport {
            name: seen.name.into(),
            seconds: seen.seconds,
            ways: vec![WayReport::new([a, b], there), WayReport::new([b, a], back)],
        }
    }
}

impl WayReport {
    fn new([from, to]: [&str; 2], way: &FrameWay) -> WayReport {
        let WayCounters { received, cut, sent, sent_bytes, arp, not_ip, lost, no_buffer, too_long, refused, missed } =
            *way.counters();
        let classes = way.tree().map_or(Vec::new(), |tree| {
            let leaves = tree.leaves().zip(way.delays());
            leaves.filter_map(|((id, name), delay)| Some(class(name, &tree.counters(id)?, delay))).collect()
        });
        let (from, to, inside) = (from.into(), to.into(), way.inside());
        WayReport {
            from,
            to,
            received,
            cut,
            sent,
            sent_bytes,
            inside,
            arp,
            not_ip,
            lost,
            no_buffer,
            too_long,
            refused,
            missed,
            classes,
        }
    }
}

fn class(name: &str, counters: &traffic::tree::LeafCounters, delay: &LeafDelay) -> LiveClass {
    let total = counters.total();
    let ms = |ns: u64, of: u64| (of > 0).then(|| ns as f64 / of as f64 / 1e6);
    LiveClass {
        name: name.into(),
        arrived: count(counters.arrived),
        refused: count(counters.refused),
        waiting: count(counters.held.plus(total.queued)),
        sent: count(total.sent),
        colors: color_counts(counters),
        mean_ms: ms(delay.sum_ns, delay.packets),
        max_ms: ms(delay.most_ns, delay.packets.min(1)),
    }
}

impl Display for LiveReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {:.3} s", self.name, self.seconds)?;
        for way in &self.ways {
            writeln!(f, "{} to {}: {} frames in, {} out", way.from, way.to, way.received, way.sent)?;
            let losses = [
                (way.lost, "lost on the emulated wire"),
                (way.no_buffer, "dropped for want of a buffer"),
                (way.too_long, "longer than the MTU, and not to be cut"),
                (way.refused, "not taken by the interface"),
                (way.missed, "dropped by the kernel before the plane read them"),
            ];
            for (frames, words) in losses.into_iter().filter(|(frames, _)| *frames > 0) {
                writeln!(f, "  {frames} frames {words}")?;
            }
            if !way.classes.is_empty() {
                write!(f, "{}", self.table(way))?;
            }
        }
        Ok(())
    }
}

impl LiveReport {
    fn table(&self, way: &WayReport) -> TextTable {
        let right = |name| (name, Align::Right);
        let columns = ["arrived", "green", "yellow", "red", "dropped", "waiting", "sent", "Mb/s", "mean ms", "max ms"];
        let mut table = TextTable::new(&[[("class", Align::Left)].as_slice(), &columns.map(right)].concat());
        for class in &way.classes {
            let dropped: u64 =
                class.colors.iter().map(|c| c.early.packets + c.forced.packets + c.overflowed.packets).sum();
            let colors = class.colors.iter().map(|c| c.metered.packets.to_string());
            let mbps = if self.seconds > 0.0 { class.sent.bytes as f64 * 8e-6 / self.seconds } else { 0.0 };
            let ms = |ms: Option<f64>| ms.map_or("-".into(), |ms| format!("{ms:.3}"));
            let numbers = [dropped + class.refused.packets, class.waiting.packets, class.sent.packets];
            let cells = [class.name.clone(), class.arrived.packets.to_string()].into_iter().chain(colors);
            let cells = cells.chain(numbers.map(|n| n.to_string()));
            table.row(cells.chain([format!("{mbps:.3}"), ms(class.mean_ms), ms(class.max_ms)]));
        }
        table
    }
}
