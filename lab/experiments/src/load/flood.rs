//! Floods of messages: so many a second, whether they are served or not.

use super::messages::{self, About, END, NEIGHBOUR, NODE};
use super::neighbour::{Neighbour, Seal};
use crate::error::Error;
use linux::netns::Namespace;
use linux::sockets::{MessageSender, Outgoing};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use wire::MessageType;

/// Somebody on the link who has no business here.
const STRANGER: [u8; 4] = [10, 0, 0, 77];
/// Messages that are sent before the kernel has them, and before a neighbour listens.
const AT_ONCE: u64 = 256;

/// Who sends a flood, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// Unsigned, from an address that nobody has.
    Stranger,
    /// Unsigned, from the address of a neighbour.
    Spoofed,
    /// By a neighbour who has the key of the link, if its interface has keys.
    Sealed(Seal),
}

impl Manner {
    /// All where there are keys.
    pub const ALL: [Manner; 5] = [
        Manner::Stranger,
        Manner::Spoofed,
        Manner::Sealed(Seal::Right),
        Manner::Sealed(Seal::Again),
        Manner::Sealed(Seal::Wrong),
    ];
    /// Those that need no key.
    pub const UNSIGNED: [Manner; 2] = [Manner::Stranger, Manner::Spoofed];

    /// Whether it is signed at all.
    pub fn is_sealed(self) -> bool {
        match self {
            Manner::Stranger | Manner::Spoofed => false,
            Manner::Sealed(Seal::Right | Seal::Again | Seal::Wrong) => true,
        }
    }
}

/// Who floods, from a namespace, and with it a neighbour who has the key.
pub struct Flood {
    sender: MessageSender,
    serial: u32,
    /// None where there are no keys.
    pub neighbour: Option<Neighbour>,
    lih: u32,
}

/// What one did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flooded {
    /// Messages that were given to the kernel.
    pub sent: u64,
    /// Over so long.
    pub took: Duration,
}

impl Flooded {
    /// Messages a second.
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
    /// From here.
    ///
    /// # Errors
    /// The namespace is gone, or has no sockets for us.
    pub fn open(from: &Namespace, neighbour: Option<Neighbour>) -> Result<Flood, Error> {
        // Without keys what brings no handle of the node's is dropped early: nobody has told a stranger what it is.
        let lih = neighbour.as_ref().map_or(1, Neighbour::lih);
        Ok(Flood { sender: from.run(MessageSender::open)??, serial: 0, neighbour, lih })
    }

    /// Sends messages of a type for so long, `rate` a second or, without one, as many as go. A slow receiver slows nothing down.
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
