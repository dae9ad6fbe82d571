//! The filter in front of the queue of the signalling sockets: the program `bpf/gate.c`. It always admits
//! messages about sessions with a reservation here. Messages about new sessions, and messages of neighbours
//! without a session, have a limited share of the queue, and between neighbours one address has at most half
//! of it. So a flood is dropped on arrival, at the cost of its sender.

use super::MessageReceiver;
use crate::boomerang::shared::{Shareable, Shared};
use crate::bpf::{fault, refused};
use aya::EbpfLoader;
use aya::maps::Map;
use aya::programs::SocketFilter;
use std::collections::HashSet;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};
use terms::{Fault, IfIndex, Session};

/// The compiled program.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/gate.o");

/// `PAGES`, `PAGE`, `SOURCES` and `KINDS` of `bpf/gate.c`.
const PAGES: usize = 256;
const PAGE: usize = 4096;
const SOURCES: usize = 256;
const KINDS: usize = 4;

/// The room of messages between neighbours, of the rest, and of summaries, in bytes as the program counts them. A queue
/// has room for four times as much, because some network cards take far more memory for a packet than it needs.
const ROOM: [u64; KINDS] = [512 << 10, 2 << 20, 512 << 10, 0];

/// `struct settings`.
#[repr(C)]
struct Settings {
    seed: [AtomicU64; 2],
    used: [AtomicU64; KINDS],
    room: [AtomicU64; KINDS],
    dropped: [AtomicU64; KINDS],
    keyed: [AtomicU8; 256],
    from: [[AtomicU64; SOURCES]; 2],
}

/// `struct page`.
#[repr(C)]
struct Page([AtomicU8; PAGE]);

// SAFETY: `repr(C)`, a multiple of eight bytes, of atomics alone.
unsafe impl Shareable for Settings {}
// SAFETY: the same.
unsafe impl Shareable for Page {}

/// The filter of a [`MessageReceiver`]'s sockets. It stays attached when this is dropped.
pub struct IntakeFilter {
    settings: Shared<Settings>,
    pages: Shared<Page>,
    /// The known sessions, by their hash.
    known: HashSet<u64>,
    seed: [u64; 2],
}

/// The numbers of messages that were dropped before the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dropped {
    /// Messages between neighbours without a session.
    pub link: u64,
    /// Messages without a reservation here, or malformed ones.
    pub rest: u64,
}

impl IntakeFilter {
    /// Attaches the filter to the sockets of a receiver. `seed`: random, so that an attacker cannot predict
    /// which sessions collide.
    ///
    /// # Errors
    /// CAP_BPF is missing, or the kernel lacks a feature of the program. The sockets are then unchanged.
    pub fn before(receiver: &MessageReceiver, seed: [u64; 2]) -> Result<IntakeFilter, Fault> {
        let mut object = EbpfLoader::new().load(OBJECT).map_err(|error| refused("load the sockets' filter", &error))?;
        let missing = || Fault { what: "the sockets' filter is not in its object", code: 0 };
        let program: &mut SocketFilter =
            object.program_mut("sluice_gate").and_then(|program| program.try_into().ok()).ok_or_else(missing)?;
        program.load().map_err(|error| refused("load the sockets' filter", &error))?;
        let mut array = |name| match object.take_map(name) {
            Some(Map::Array(data)) => Ok(data),
            _ => Err(missing()),
        };
        let (settings, pages) = (array("gate")?, array("known")?);
        let map = fault("map the memory of the sockets' filter");
        let settings = Shared::<Settings>::map(settings.fd().as_fd(), 1).map_err(&map)?;
        let pages = Shared::<Page>::map(pages.fd().as_fd(), PAGES).map_err(&map)?;
        let gate = IntakeFilter { settings, pages, known: HashSet::new(), seed };
        let set = gate.settings();
        set.seed.iter().zip(seed).for_each(|(place, word)| place.store(word, Relaxed));
        set.room.iter().zip(ROOM).for_each(|(place, room)| place.store(room, Relaxed));
        // Only now: before that nothing had room.
        let program: &SocketFilter =
            object.program("sluice_gate").and_then(|program| program.try_into().ok()).ok_or_else(missing)?;
        for (socket, _) in &receiver.sockets {
            program.attach(socket).map_err(|error| refused("put a filter before a socket", &error))?;
        }
        Ok(gate)
    }

    /// Marks a session as kept or not: messages about a kept session always enter the queue.
    pub fn keep(&mut self, session: &Session, kept: bool) {
        let hash = hash(self.seed, session);
        let changed = if kept { self.known.insert(hash) } else { self.known.remove(&hash) };
        let place = (hash >> 44) as usize;
        let Some(count) = self.pages.all().get(place / PAGE).map(|page| &page.0[place % PAGE]) else { return };
        // A counter that is full stays so: how many share it is no longer known.
        match count.load(Relaxed) {
            u8::MAX => {}
            n if changed && kept => count.store(n + 1, Relaxed),
            n if changed => count.store(n.saturating_sub(1), Relaxed),
            _ => {}
        }
    }

    /// Sets whether messages that come in by an interface must be signed; if so, unsigned ones no longer
    /// count as kept.
    pub fn sign(&self, interface: IfIndex, keyed: bool) {
        self.settings().keyed[interface.0 as usize & 255].store(keyed.into(), Relaxed);
    }

    /// Notes that the sockets are empty: the whole room is free again.
    pub fn emptied(&self) {
        let set = self.settings();
        set.used.iter().chain(set.from.as_flattened()).for_each(|used| used.store(0, Relaxed));
    }

    /// The numbers of messages dropped so far.
    pub fn dropped(&self) -> Dropped {
        let [link, rest, summaries, _] = self.settings().dropped.each_ref().map(|count| count.load(Relaxed));
        Dropped { link: link + summaries, rest }
    }

    fn settings(&self) -> &Settings {
        &self.settings.all()[0]
    }
}

impl std::fmt::Debug for IntakeFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("known", &self.known.len())
            .field("dropped", &self.dropped())
            .finish_non_exhaustive()
    }
}

/// The hash of a session, as in `is_known` of `bpf/gate.c`.
fn hash([first, second]: [u64; 2], session: &Session) -> u64 {
    let mut words = [0; 3];
    let kind = match session.dst {
        IpAddr::V4(dst) => {
            words[0] = u64::from(u32::from_ne_bytes(dst.octets()));
            1
        }
        IpAddr::V6(dst) => {
            let bits = u128::from_ne_bytes(dst.octets());
            let (low, high) = (bits as u64, (bits >> 64) as u64);
            (words[0], words[1]) = if cfg!(target_endian = "little") { (low, high) } else { (high, low) };
            2
        }
    };
    words[2] = kind << 32 | u64::from(session.protocol) << 16 | u64::from(session.dst_port);
    words.into_iter().fold(first, |hash, word| {
        let hash = (hash ^ word).wrapping_mul(second | 1);
        hash ^ hash >> 29
    })
}
