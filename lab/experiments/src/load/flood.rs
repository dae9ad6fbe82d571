//! Messages of every type from somebody who has no business here, so many a second, whether they are served or not.

use crate::error::Error;
use linux::netns::Namespace;
use linux::sockets::{MessageSender, Outgoing};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use terms::{Bytes, FlowSpec, Rate, SenderTemplate, Session, Span, Style, Tspec};
use wire::{Builder, Challenge, MessageType, RsvpHop};

/// A neighbour of the node that is flooded, which is imitated; and somebody else on the link.
const NEIGHBOUR: [u8; 4] = [10, 0, 0, 1];
const STRANGER: [u8; 4] = [10, 0, 0, 77];
/// The node itself, and the end of the path through it.
const NODE: [u8; 4] = [10, 0, 0, 2];
const END: [u8; 4] = [10, 0, 2, 2];

/// Every type that there is.
pub fn kinds() -> Vec<MessageType> {
    (0..=u8::MAX).filter_map(MessageType::from_number).collect()
}

/// A flood from a namespace.
pub struct Flood {
    sender: MessageSender,
    serial: u32,
}

/// What one did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flooded {
    /// Messages that the kernel took.
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

impl Flood {
    /// From here.
    ///
    /// # Errors
    /// The namespace is gone, or has no sockets for us.
    pub fn open(from: &Namespace) -> Result<Flood, Error> {
        Ok(Flood { sender: from.run(MessageSender::open)??, serial: 0 })
    }

    /// Sends messages of a type for so long, `rate` a second or, without one, as many as go. A slow receiver slows nothing down.
    pub fn run(&mut self, kind: MessageType, spoofed: bool, rate: Option<f64>, length: Duration) -> Flooded {
        let begun = Instant::now();
        let mut flooded = Flooded::default();
        while begun.elapsed() < length {
            let due = rate.map_or(flooded.sent + 256, |rate| (begun.elapsed().as_secs_f64() * rate) as u64);
            // What could not be sent in time is not made up for in one burst.
            for _ in 0..due.saturating_sub(flooded.sent).min(1_024) {
                self.one(kind, spoofed);
                flooded.sent += 1;
            }
            self.sender.flush(|_| ());
            if rate.is_some() {
                std::thread::sleep(Duration::from_micros(500));
            }
        }
        flooded.took = begun.elapsed();
        flooded
    }

    fn one(&mut self, kind: MessageType, spoofed: bool) {
        self.serial = self.serial.wrapping_add(1);
        let hop = IpAddr::from(if spoofed { NEIGHBOUR } else { STRANGER });
        let through = matches!(kind, MessageType::Path | MessageType::PathTear);
        let Some(bytes) = message(kind, hop, self.serial) else { return };
        let dst = IpAddr::from(if through { END } else { NODE });
        let (ttl, router_alert) = (if through { 63 } else { 255 }, through);
        let out = Outgoing { oif: None, src: hop, dst, ttl, router_alert, bytes: &bytes };
        self.sender.push(&out, |_| ());
    }
}

/// A message of a type, about a session that nobody has: what it says must not be believed of those that are there.
fn message(kind: MessageType, hop: IpAddr, serial: u32) -> Option<Vec<u8>> {
    let ttl = if matches!(kind, MessageType::Path | MessageType::PathTear) { 63 } else { 255 };
    let session = Session { dst: END.into(), protocol: 17, dst_port: 20_000 + (serial % 20_000) as u16 };
    let template = SenderTemplate { src: NEIGHBOUR.into(), src_port: 1 + serial / 20_000 % 60_000 };
    let tspec = Tspec { r: Rate::from_kbps(1), b: Bytes::new(2_000), p: Rate::INFINITE, m: 64, M: 1_500 };
    let build = Builder::new(kind, ttl);
    let build = match kind {
        MessageType::Path => build
            .session(&session)
            .hop(&RsvpHop { addr: hop, lih: 1 })
            .time_values(Span::from_secs(2))
            .sender_template(&template.into())
            .sender_tspec(&tspec),
        MessageType::Resv => build
            .session(&session)
            .hop(&RsvpHop { addr: hop, lih: 1 })
            .time_values(Span::from_secs(2))
            .style(Style::Ff)
            .flowspec(&FlowSpec::ControlledLoad(tspec))
            .filter_spec(&template.into()),
        MessageType::PathTear => build
            .session(&session)
            .hop(&RsvpHop { addr: hop, lih: 1 })
            .sender_template(&template.into())
            .sender_tspec(&tspec),
        MessageType::ResvTear => {
            build.session(&session).hop(&RsvpHop { addr: hop, lih: 1 }).style(Style::Ff).filter_spec(&template.into())
        }
        MessageType::IntegrityChallenge => {
            let mut cookie = [7; 16];
            cookie[..4].copy_from_slice(&serial.to_be_bytes());
            build.challenge(&Challenge { key_id: 1, cookie: &cookie })
        }
        // What is behind the header does not matter to who has to choose before it reads.
        _ => build.session(&session),
    };
    build.finish().ok()
}
