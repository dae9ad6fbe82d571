//! Messages for clients that trace: each that comes or goes, as it is on the wire. The client decodes; the
//! agent only copies, up to a limit. Messages above the limit are counted and left out, never waited for.

use crate::console::Console;
use crate::news::Names;
use documents::agent::{Direction, EventDoc, TraceFilter};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use terms::{IfIndex, Time};

/// The most messages that are shown in one second, to all clients together. One costs some microseconds.
const MOST_PER_SECOND: u32 = 5_000;

/// The clients that trace, by connection.
#[derive(Debug, Default)]
pub struct Tracers {
    all: BTreeMap<u64, Tracer>,
    second: u64,
    shown: u32,
}

#[derive(Debug)]
struct Tracer {
    filter: TraceFilter,
    /// Messages left out since the last that was shown.
    lost: u64,
}

/// A message's way in or out.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The direction, in or out.
    pub direction: Direction,
    /// The interface; `None`: the routing table chose it.
    pub interface: Option<IfIndex>,
    /// IP source.
    pub src: IpAddr,
    /// IP destination.
    pub dst: IpAddr,
    /// TTL.
    pub ttl: u8,
    /// True if the packet has Router Alert; `None` if that is not known.
    pub router_alert: Option<bool>,
}

impl Tracers {
    /// A connection traces from now on; a second call changes its filter.
    pub fn add(&mut self, client: u64, filter: TraceFilter) {
        self.all.insert(client, Tracer { filter, lost: 0 });
    }

    /// A connection ended.
    pub fn remove(&mut self, client: u64) {
        self.all.remove(&client);
    }

    /// The clients whose filter accepts a message, as far as there is room. `has_room`: true if a connection
    /// reads its output.
    fn takers(
        &mut self,
        now: Time,
        wants: impl Fn(&TraceFilter) -> bool,
        has_room: impl Fn(u64) -> bool,
    ) -> Vec<(u64, u64)> {
        if self.second != now.as_secs() {
            (self.second, self.shown) = (now.as_secs(), 0);
        }
        let mut takers = Vec::new();
        for (&client, tracer) in self.all.iter_mut().filter(|(_, tracer)| wants(&tracer.filter)) {
            if self.shown >= MOST_PER_SECOND || !has_room(client) {
                tracer.lost += 1;
                continue;
            }
            self.shown += 1;
            takers.push((client, std::mem::take(&mut tracer.lost)));
        }
        takers
    }

    /// Shows a message to the clients that trace.
    pub(crate) fn show(&mut self, seen: &Seen, bytes: &[u8], now: Time, names: &Names, console: &mut Console) {
        if self.all.is_empty() {
            return;
        }
        let kind = bytes.get(1).copied().unwrap_or(0);
        let name = seen.interface.and_then(|index| names.get(&index).cloned());
        let wants = |filter: &TraceFilter| {
            filter.direction.is_none_or(|direction| direction == seen.direction)
                && filter.address.is_none_or(|address| address == seen.src || address == seen.dst)
                && filter.interface.as_ref().is_none_or(|wanted| name.as_ref() == Some(wanted))
                && (filter.types.is_empty() || filter.types.contains(&kind))
        };
        let takers = self.takers(now, wants, |client| console.has_room(client));
        if takers.is_empty() {
            return;
        }
        let Seen { direction, src, dst, ttl, router_alert, .. } = *seen;
        let bytes = hex(bytes);
        for (client, lost) in takers {
            let (interface, bytes) = (name.clone(), bytes.clone());
            console.tell(client, EventDoc::Message { direction, interface, src, dst, ttl, router_alert, bytes, lost });
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use terms::Span;

    #[test]
    fn a_flood_and_a_reader_who_does_not_read_cost_a_count() {
        let mut tracers = Tracers::default();
        tracers.add(16, TraceFilter::default());
        tracers.add(17, TraceFilter { types: vec![2], ..TraceFilter::default() });
        let now = Time::ZERO + Span::from_secs(5);
        let path = |filter: &TraceFilter| filter.types.is_empty() || filter.types.contains(&1);
        for _ in 0..MOST_PER_SECOND {
            assert_eq!(tracers.takers(now, path, |_| true), [(16, 0)], "the other wants Resv alone");
        }
        for _ in 0..10 {
            assert_eq!(tracers.takers(now, path, |_| true), []);
        }
        let later = now + Span::from_secs(1);
        assert_eq!(tracers.takers(later, path, |client| client != 16), [], "16 does not read");
        assert_eq!(tracers.takers(later, path, |_| true), [(16, 11)], "all that was left out is told");
        assert_eq!(tracers.takers(later, |_| true, |_| true), [(16, 0), (17, 0)], "what was not wanted is not lost");
        tracers.remove(16);
        assert_eq!(tracers.takers(later, |_| true, |_| true), [(17, 0)]);
    }

    #[test]
    fn hexadecimal() {
        assert_eq!(hex(&[0x10, 0x01, 0xff]), "1001ff");
    }
}
