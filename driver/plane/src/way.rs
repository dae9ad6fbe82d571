//! One direction: frames from an interface, through a tree or straight on, over the wire, to the other interface.
//!
//! The tree runs in the time of its link, not in that of the loop: a frame comes when the kernel got it, where that is known
//! ([`FrameBuffer::age`]), and what was due since the last turn leaves at its own instants. So a thread that wakes late sends
//! what its link would have sent, and its lateness counts once. A frame that is no whole IP packet takes
//! the tree's way as the class without rules does; only ARP passes beside it, at most [`MAX_ARP`] frames a second, because
//! a full queue would otherwise cut off everyone.

pub use crate::delays::LeafDelay;

use crate::delays::ErrorTerms;
use crate::link::{Wire, WireSpec};
use crate::packet;
use crate::pool::Pool;
use crate::port::PortShaping;
use crate::segment::Segments;
use crate::shaping::{self, Shaping, TreeShaping};
use linux::error::SystemError;
use linux::frames::{BURST, BurstSent, FrameBuffer, FrameIo};
use terms::{Span, Time};
use traffic::port::Port;
use traffic::tree::{Tree, TreeSpec, Unworkable};

/// ARP frames a second that pass beside the tree.
pub const MAX_ARP: u32 = 128;
/// The most frames in one direction: in queues, shapers and on the wire.
pub const MAX_FRAMES: u64 = 1 << 17;
/// Buffers beside those of queues: bursts on their way in and out.
const SPARE: u64 = 4 * BURST as u64;
/// Buffers for a wire with delay.
const ON_WIRE: u64 = 1 << 14;
/// The longest packet with its link header that a sender leaves to be cut.
const LONGEST: usize = 14 + 8 + 65_535;
/// How long a full socket is left alone.
const PATIENCE: Span = Span::from_micros(200);

/// A reason why a direction cannot be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UnfitTree {
    /// The tree is refused.
    Tree(Unworkable),
    /// Its queues and shapers hold more packets than there may be buffers.
    TooDeep(u64),
}

impl std::fmt::Display for UnfitTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            UnfitTree::Tree(refused) => write!(f, "{refused}"),
            UnfitTree::TooDeep(packets) => write!(
                f,
                "its queues and shapers may hold {packets} packets: a live plane has buffers for {MAX_FRAMES}; make \
                 queues shorter"
            ),
        }
    }
}

impl std::error::Error for UnfitTree {}

/// The counters of a direction. Every frame that came in is counted in one of the others, or waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WayCounters {
    /// Frames that came in, as they came.
    pub received: u64,
    /// Of those, packets that were cut into segments.
    pub cut: u64,
    /// Frames that were sent.
    pub sent: u64,
    /// Bytes of the frames that were sent.
    pub sent_bytes: u64,
    /// ARP frames that passed beside the tree.
    pub arp: u64,
    /// Frames without a whole IP packet that took the tree's way.
    pub not_ip: u64,
    /// Frames that were dropped because no buffer was free.
    pub no_buffer: u64,
    /// Frames that were dropped because they are longer than a buffer and cannot be cut.
    pub too_long: u64,
    /// Frames that the wire lost, as it was told to.
    pub lost: u64,
    /// Frames that the interface did not take: it is down, or the frame is longer than its MTU.
    pub refused: u64,
    /// Frames that the kernel dropped because they were not read in time.
    pub missed: u64,
}

/// One direction of a pair.
#[derive(Debug)]
pub struct FrameWay {
    shaping: Shaping,
    path: Frames,
    incoming: Vec<FrameBuffer>,
    scratch: Box<[u8]>,
    /// The time up to which the link's time has come.
    served: Time,
}

/// Buffers, the wire, and what waits for the interface.
#[derive(Debug)]
pub(crate) struct Frames {
    pool: Pool,
    wire: Wire,
    outgoing: Vec<FrameBuffer>,
    staged: usize,
    blocked: bool,
    counters: WayCounters,
}

impl FrameWay {
    /// A direction for frames of up to `room` bytes, with a tree and its seed or without.
    ///
    /// # Errors
    /// [`UnfitTree`].
    pub fn new(tree: Option<(TreeSpec, u64)>, wire: WireSpec, room: usize, now: Time) -> Result<FrameWay, UnfitTree> {
        let held = tree.as_ref().map_or(0, |(spec, _)| shaping::packets(spec));
        if held > MAX_FRAMES - SPARE - on_wire(&wire) {
            return Err(UnfitTree::TooDeep(held));
        }
        let shaping = match tree {
            Some((spec, seed)) => Shaping::Tree(Box::new(TreeShaping::new(spec, seed, now).map_err(UnfitTree::Tree)?)),
            None => Shaping::Plain,
        };
        Ok(FrameWay::with(shaping, held, wire, room, now))
    }

    /// A direction through a port, whose queues and shapers never hold more than `held` packets together.
    pub fn of_port(
        port: Port,
        bound: Option<ErrorTerms>,
        held: u64,
        wire: WireSpec,
        room: usize,
        now: Time,
    ) -> FrameWay {
        let buffers = held + SPARE + on_wire(&wire);
        let shaping = Shaping::Port(Box::new(PortShaping::new(port, bound, buffers as usize, now)));
        FrameWay::with(shaping, held, wire, room, now)
    }

    fn with(shaping: Shaping, held: u64, wire: WireSpec, room: usize, now: Time) -> FrameWay {
        let pool = Pool::new((held + SPARE + on_wire(&wire)) as u32, room);
        let burst = || (0..BURST).map(|_| FrameBuffer::new(room)).collect::<Vec<FrameBuffer>>();
        let wire = Wire::new(wire, pool.len());
        let counters = WayCounters::default();
        let path = Frames { pool, wire, outgoing: burst(), staged: 0, blocked: false, counters };
        let scratch = vec![0; LONGEST].into_boxed_slice();
        FrameWay { shaping, path, incoming: burst(), scratch, served: now }
    }

    /// Takes what has come in at `from`, and sends what is due by `to`. Returns the number of frames that moved.
    ///
    /// # Errors
    /// An interface is gone.
    pub fn turn(&mut self, now: Time, from: &mut impl FrameIo, to: &mut impl FrameIo) -> Result<usize, SystemError> {
        let got = from.receive(&mut self.incoming)?;
        for nth in 0..got {
            let age = self.incoming[nth].age.as_nanos();
            let came = Time::from_nanos(now.as_nanos().saturating_sub(age)).max(self.served);
            // What was due before goes first: it has left its queue when this one comes.
            if came > self.served {
                self.shaping.serve(now, came, &mut self.path);
                self.served = came;
            }
            self.arrive((came, now), nth, from);
        }
        // After a full burst more may wait that came before now: its time is next.
        let until = if got == BURST && self.incoming[got - 1].age > Span::ZERO { self.served } else { now };
        self.shaping.serve(now, until + Span::from_nanos(1), &mut self.path);
        self.served = self.served.max(until);
        let sent = self.path.flush(now, to)?;
        Ok(got + sent)
    }

    /// Lets go what is due by now. A change of the plan comes next: what has come in and was not taken yet comes after it,
    /// or the port would see a time before that of the change.
    pub(crate) fn catch_up(&mut self, now: Time) {
        if now > self.served {
            self.shaping.serve(now, now + Span::from_nanos(1), &mut self.path);
            self.served = now;
        }
    }

    /// The time of the next useful turn if nothing comes in.
    pub fn wake_at(&self, now: Time) -> Option<Time> {
        let blocked = self.path.blocked.then(|| now + PATIENCE);
        [blocked, self.shaping.wake_at(), self.path.wire.next()].into_iter().flatten().min()
    }

    /// The tree, if there is one.
    pub fn tree(&self) -> Option<&Tree> {
        match &self.shaping {
            Shaping::Tree(shaping) => Some(shaping.tree()),
            _ => None,
        }
    }

    /// By leaf of the tree: delays.
    pub fn delays(&self) -> &[LeafDelay] {
        match &self.shaping {
            Shaping::Tree(shaping) => shaping.delays(),
            _ => &[],
        }
    }

    /// The port and the delays of its classes, if there is one.
    pub fn port(&self) -> Option<&PortShaping> {
        match &self.shaping {
            Shaping::Port(shaping) => Some(shaping),
            _ => None,
        }
    }

    /// The same, for changes of its plan.
    pub fn port_mut(&mut self) -> Option<&mut PortShaping> {
        match &mut self.shaping {
            Shaping::Port(shaping) => Some(shaping),
            _ => None,
        }
    }

    /// The counters.
    pub fn counters(&self) -> &WayCounters {
        &self.path.counters
    }

    /// Frames that are inside: in shapers and queues, on the wire, and before the interface.
    pub fn inside(&self) -> u64 {
        (self.path.pool.len() - self.path.pool.free() + self.path.staged) as u64
    }

    pub(crate) fn missed(&mut self, frames: u64) {
        self.path.counters.missed += frames;
    }

    /// One frame of the burst, with the time at which it came in, and now.
    fn arrive(&mut self, times: (Time, Time), nth: usize, from: &impl FrameIo) {
        let FrameWay { shaping, path, incoming, scratch, .. } = self;
        path.counters.received += 1;
        let frame = &mut incoming[nth];
        let rest = from.rest(nth);
        if !frame.offload.is_segmented() {
            if !rest.is_empty() {
                path.counters.too_long += 1;
                return;
            }
            let Some(number) = path.buffer() else { return };
            std::mem::swap(frame, path.pool.at(number));
            shaping.enter(path, times, number);
            return;
        }
        let (offload, head) = (frame.offload, frame.bytes());
        let whole = head.len() + rest.len();
        if whole > scratch.len() {
            path.counters.too_long += 1;
            return;
        }
        scratch[..head.len()].copy_from_slice(head);
        scratch[head.len()..whole].copy_from_slice(rest);
        let whole = &scratch[..whole];
        let Some(segments) = packet::ip_at(whole).and_then(|ip| Segments::new(whole, offload, ip)) else {
            path.counters.too_long += 1;
            return;
        };
        path.counters.cut += 1;
        for nth in 0..segments.count() {
            let Some(number) = path.buffer() else { continue };
            if segments.write(nth, path.pool.at(number)) {
                shaping.enter(path, times, number);
            } else {
                path.counters.too_long += 1;
                path.pool.give(number);
            }
        }
    }
}

impl Frames {
    /// A frame by the number of its buffer.
    pub(crate) fn at(&mut self, number: u32) -> &mut FrameBuffer {
        self.pool.at(number)
    }

    /// Gives the buffer of a frame back that goes no further.
    pub(crate) fn give(&mut self, number: u32) {
        self.pool.give(number);
    }

    /// A frame, and the counters of frames that are no packets of IP.
    pub(crate) fn counted(&mut self, number: u32) -> (&mut FrameBuffer, &mut WayCounters) {
        (self.pool.at(number), &mut self.counters)
    }

    /// A free buffer; a frame that finds none is counted as dropped.
    fn buffer(&mut self) -> Option<u32> {
        let free = self.pool.take();
        self.counters.no_buffer += u64::from(free.is_none());
        free
    }

    /// A frame goes to the wire, which may lose it.
    pub(crate) fn put_on_wire(&mut self, now: Time, number: u32) {
        if !self.wire.put(now, number) {
            self.counters.lost += 1;
            self.pool.give(number);
        }
    }

    /// Sends what has come out of the wire.
    fn flush(&mut self, now: Time, to: &mut impl FrameIo) -> Result<usize, SystemError> {
        let mut sent = 0;
        self.blocked = false;
        loop {
            while self.staged < BURST
                && let Some(number) = self.wire.take(now)
            {
                std::mem::swap(self.pool.at(number), &mut self.outgoing[self.staged]);
                self.pool.give(number);
                self.staged += 1;
            }
            if self.staged == 0 {
                return Ok(sent);
            }
            let gone = match to.send(&self.outgoing[..self.staged])? {
                BurstSent::Went(0) | BurstSent::Full => {
                    self.blocked = true;
                    return Ok(sent);
                }
                BurstSent::Went(gone) => {
                    self.counters.sent += gone as u64;
                    let bytes: usize = self.outgoing[..gone].iter().map(|frame| frame.bytes().len()).sum();
                    self.counters.sent_bytes += bytes as u64;
                    gone
                }
                BurstSent::Dropped => {
                    self.counters.refused += 1;
                    1
                }
            };
            self.outgoing[..self.staged].rotate_left(gone);
            self.staged -= gone;
            sent += gone;
        }
    }
}

/// Buffers for frames that are on their way.
fn on_wire(wire: &WireSpec) -> u64 {
    if wire.delay > Span::ZERO { ON_WIRE } else { 0 }
}
