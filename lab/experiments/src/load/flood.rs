//! Floods of messages at a given rate, whether or not they are served.

use super::messages::{self, About, END, NEIGHBOUR, NODE};
use super::neighbour::{Neighbour, Seal};
use bed::error::Error;
use linux::netns::Namespace;
use linux::sockets::{MessageSender, Outgoing};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use wire::MessageType;

/// An address on the link that no node of the testbed uses.
const STRANGER: [u8; 4] = [10, 0, 0, 77];
/// The messages sent before the kernel gets them and the neighbour reads its answers.
const AT_ONCE: u64 = 256;

/// The sender of a flood, and the kind of its signatures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// Unsigned, from an address that no node has.
    Stranger,
    /// Unsigned, from the address of a neighbour.
    Spoofed,
    /// By a neighbour with the key of the link, if its interface has keys.
    Sealed(Seal),
}

impl Manner {
    /// All manners, for links with keys.
    pub const ALL: [Manner; 5] = [
        Manner::Stranger,
        Manner::Spoofed,
        Manner::Sealed(Seal::Right),
        Manner::Sealed(Seal::Again),
        Manner::Sealed(Seal::Wrong),
    ];
    /// The manners that need no key.
    pub const UNSIGNED: [Manner; 2] = [Manner::Stranger, Manner::Spoofed];

    /// True if the messages are signed.
    pub fn is_sealed(self) -> bool {
        match self {
            Manner::Stranger | Manner::Spoofed => false,
            Manner::Sealed(Seal::Right | Seal::Again | Seal::Wrong) => true,
        }
    }
}

/// A generator of floods in a namespace, with a neighbour that has the key.
pub struct Flood {
    sender: MessageSender,
    serial: u32,
    /// `None` on links without keys.
    pub neighbour: Option<Neighbour>,
    lih: u32,
}

/// The extent of one flood.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flooded {
    /// Messages given to the kernel.
    pub sent: u64,
    /// The length of the flood.
    pub took: Duration,
}

impl Flooded {
    /// Returns messages per second.
    pub fn rate(&self) -> f64 {
        self.sent as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

impl std::ops::AddAssign for Flooded {
    fn add_assign(&mut self, other: Flooded) {
        self.sent += other.sent;
        self.took += other.took;
    }
}

impl Flood {
    /// Opens a generator in this namespace.
    ///
    /// # Errors
    /// The namespace is gone, or no socket can be made in it.
    pub fn open(from: &Namespace, neighbour: Option<Neighbour>) -> Result<Flood, Error> {
        // Without keys, messages that lack the node's handle are dropped early: a stranger does not know it.
        let lih = neighbour.as_ref().map_or(1, Neighbour::lih);
        Ok(Flood { sender: from.run(MessageSender::open)??, serial: 0, neighbour, lih })
    }

    /// Sends messages of a type for `length`, `rate` per second, or without one as many as possible. A slow
    /// receiver does not slow it.
    pub fn run(&mut self, kind: MessageType, manner: Manner, rate: Option<f64>, length: Duration) -> Flooded {
        if let (Manner::Sealed(Seal::Right), Some(neighbour)) = (manner, &mut self.neighbour) {
            neighbour.forget();
        }
        let begun = Instant::now();
        let mut flooded = Flooded::default();
        while begun.elapsed() < length {
            let due = rate.map_or(flooded.sent + AT_ONCE, |rate| (begun.elapsed().as_secs_f64() * rate) as u64);
            // What could not be sent in time is not made up for in one burst.
            for _ in 0..due.saturating_sub(flooded.sent).min(4 * AT_ONCE) {
                self.one(kind, manner);
                flooded.sent += 1;
            }
            self.sender.flush(|_| ());
            if let Some(neighbour) = &mut self.neighbour {
                neighbour.flush();
                neighbour.listen();
            }
            if rate.is_some() {
                std::thread::sleep(Duration::from_micros(500));
            }
        }
        flooded.took = begun.elapsed();
        flooded
    }

    fn one(&mut self, kind: MessageType, manner: Manner) {
        self.serial = self.serial.wrapping_add(1);
        let hop = match manner {
            Manner::Stranger => IpAddr::from(STRANGER),
            Manner::Spoofed => IpAddr::from(NEIGHBOUR),
            Manner::Sealed(seal) => {
                if let Some(neighbour) = &mut self.neighbour {
                    neighbour.one(kind, seal, self.serial);
                }
                return;
            }
        };
        let Some(bytes) = messages::bare(kind, &About::nobody(hop, self.lih, NEIGHBOUR.into(), self.serial)) else {
            return;
        };
        let router_alert = messages::goes_through(kind);
        let (dst, ttl) = (IpAddr::from(if router_alert { END } else { NODE }), messages::ttl(kind));
        let out = Outgoing { oif: None, src: hop, dst, ttl, router_alert, bytes: &bytes };
        self.sender.push(&out, |_| ());
    }
}
