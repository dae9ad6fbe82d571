//! Plays a capture through a tree, in the capture's own time.

use super::file::TreeFile;
use super::packet::{self, Framed};
use super::report::{PlaneReport, Watch};
use crate::capture::{CaptureFile, CapturedPacket, write};
use terms::{Bytes, Time};
use traffic::tree::{Departure, LinkShape, Tree, TreeEgress};

/// The result of playing a capture.
#[derive(Clone, Debug)]
pub struct Played {
    /// The departures, as a capture file.
    pub capture: Vec<u8>,
    /// The counters.
    pub report: PlaneReport,
}

/// The reason why a capture cannot be played.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// The file is no capture, or cut off in its header.
    NotACapture(&'static str),
    /// The capture is damaged at this byte.
    Damaged(&'static str, usize),
    /// The capture has frames of two link types; one file holds one.
    LinkTypes(u32, u32),
    /// The capture has no IP packet.
    NoPackets,
    /// A packet is later than February 2106, where the file format ends.
    TooLate,
    /// The tree was refused, or it stopped giving packets.
    Tree(String),
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Wrong::NotACapture(what) => write!(f, "{what}: give a pcap or pcapng file"),
            Wrong::Damaged(what, offset) => write!(f, "{what} (byte {offset}): capture it again, or cut it there"),
            Wrong::LinkTypes(a, b) => {
                write!(f, "frames of link types {a} and {b}: the output holds one; split the capture by interface")
            }
            Wrong::NoPackets => f.write_str("there is no IP packet in it"),
            Wrong::TooLate => f.write_str("a packet comes or leaves after February 2106, where capture files end"),
            Wrong::Tree(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Wrong {}

/// The end of 32 bits of seconds, in nanoseconds.
const END: u64 = (1 << 32) * 1_000_000_000 - 1;

/// Plays the packets of a capture file, each at its time stamp. An earlier time stamp than the one before
/// counts as the same time. Ends when the tree is empty.
///
/// # Errors
/// [`Wrong`].
pub fn run(file: &TreeFile, seed: u64, input: &[u8]) -> Result<Played, Wrong> {
    let records = CaptureFile::new(input).map_err(Wrong::NotACapture)?;
    let records =
        records.collect::<Result<Vec<CapturedPacket<'_>>, _>>().map_err(|cut| Wrong::Damaged(cut.what, cut.offset))?;
    let link = records.first().ok_or(Wrong::NoPackets)?.link;
    if let Some(other) = records.iter().find(|record| record.link != link) {
        return Err(Wrong::LinkTypes(link, other.link));
    }
    let start = Time::from_nanos(records[0].nanos.min(END));
    let tree = Tree::new(file.spec.clone(), start, seed).map_err(|refused| Wrong::Tree(refused.to_string()))?;
    let watch = Watch::new(&tree, start);
    let link = Link { shape: file.spec.link, packets: Vec::new(), out: write::Writer::new(link), watch };
    let mut player = Player { tree, free: start, now: start, link };
    for record in &records {
        player.arrive(record)?;
    }
    if player.link.packets.is_empty() {
        return Err(Wrong::NoPackets);
    }
    player.send(Time::FOREVER)?;
    if let Some(when) = player.tree.wake_at(player.free) {
        return Err(Wrong::Tree(format!("the tree did not send everything by {when:?}")));
    }
    let Player { tree, link: Link { out, watch, .. }, .. } = player;
    Ok(Played { capture: out.finish(), report: watch.finish(&file.name, seed, &tree) })
}

struct Player<'a> {
    tree: Tree,
    /// The time at which the link is free again.
    free: Time,
    now: Time,
    link: Link<'a>,
}

impl<'a> Player<'a> {
    fn arrive(&mut self, record: &CapturedPacket<'a>) -> Result<(), Wrong> {
        if record.nanos > END {
            return Err(Wrong::TooLate);
        }
        let stamped = Time::from_nanos(record.nanos);
        let Link { packets, watch, .. } = &mut self.link;
        watch.backwards += u64::from(stamped < self.now);
        self.now = self.now.max(stamped);
        let Some((framed, meta)) = packet::of_record(record, self.now, packets.len() as u64) else {
            watch.not_ip += 1;
            return Ok(());
        };
        packets.push(framed);
        watch.arrived(self.now, self.tree.classify(&meta), &meta);
        self.send(self.now)?;
        self.tree.enqueue(self.now, meta);
        Ok(())
    }

    /// Sends the packets whose transmission starts before `until`.
    fn send(&mut self, until: Time) -> Result<(), Wrong> {
        self.free = self.tree.serve(self.free, until, &mut self.link)?;
        Ok(())
    }
}

/// A link whose packets go to a capture file.
struct Link<'a> {
    shape: LinkShape,
    /// The packets, by [`terms::PacketMeta::id`].
    packets: Vec<Framed<'a>>,
    out: write::Writer,
    watch: Watch,
}

impl TreeEgress for Link<'_> {
    type Error = Wrong;

    fn send(&mut self, now: Time, departure: &Departure) -> Result<Time, Wrong> {
        let frame = self.packets[departure.packet.id as usize].marked(departure.dscp);
        self.out.frame(now.as_nanos(), &frame).map_err(|write::TooLate| Wrong::TooLate)?;
        self.watch.left(now, departure);
        let wire = departure.packet.len.saturating_add(self.shape.overhead);
        Ok(now + self.shape.rate.span_for(Bytes::new(u64::from(wire))))
    }
}
