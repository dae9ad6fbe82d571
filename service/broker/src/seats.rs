//! Seats of one listener. Each listener has its own, so that strangers on TCP shut no local user out of the
//! Unix socket.
//!
//! A source has a share of them: an address, a /64 of IPv6, a user on the Unix socket. A connection without a
//! certificate yet makes way for later ones: the oldest of the busiest source goes first. A certificate's
//! name has a share as well, for all sources.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The source of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SeatSource {
    /// A network: see [`trust::source_of`].
    Net(IpAddr),
    /// A user of this machine.
    User(u32),
}

/// The seats of a listener.
#[derive(Clone, Debug)]
pub struct Seats {
    table: Arc<Mutex<Table>>,
    most: usize,
    of_one: usize,
    waiting: usize,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    taken: BTreeMap<u64, Taken>,
}

#[derive(Debug)]
struct Taken {
    source: SeatSource,
    /// The certificate's name, once it is known.
    name: Option<String>,
    /// For an unfinished handshake: the channel that ends it.
    waits: Option<oneshot::Sender<()>>,
}

/// A seat, given back when it is dropped.
#[derive(Debug)]
pub struct ConnectionSeat {
    seats: Seats,
    number: u64,
}

impl Drop for ConnectionSeat {
    fn drop(&mut self) {
        self.seats.locked().taken.remove(&self.number);
    }
}

impl Seats {
    /// Seats with a limit in all, for one source or name, and for unfinished handshakes.
    pub fn new(most: usize, of_one: usize, waiting: usize) -> Seats {
        Seats { table: Arc::default(), most, of_one, waiting: waiting.max(1) }
    }

    /// A seat for a peer without a handshake. `None`: there is none for this source.
    pub fn take(&self, source: SeatSource) -> Option<ConnectionSeat> {
        let mut table = self.locked();
        if table.taken.len() >= self.most || table.of(source) >= self.of_one {
            return None;
        }
        Some(self.seated(&mut table, source, None))
    }

    /// A seat for a peer before its handshake, and a receiver that ends when the peer must make way.
    pub fn wait(&self, source: SeatSource) -> Option<(ConnectionSeat, oneshot::Receiver<()>)> {
        let mut table = self.locked();
        let waiting: Vec<(u64, SeatSource)> = table
            .taken
            .iter()
            .filter(|(_, one)| one.waits.is_some())
            .map(|(&number, one)| (number, one.source))
            .collect();
        let full = table.taken.len() >= self.most || waiting.len() >= self.waiting;
        let goes = if table.of(source) >= self.of_one {
            Some(waiting.iter().find(|(_, of)| *of == source).map(|(number, _)| *number)?)
        } else if full {
            Some(trust::displaced(waiting)?)
        } else {
            None
        };
        if let Some(waits) = goes.and_then(|goes| table.taken.remove(&goes)).and_then(|one| one.waits) {
            let _ = waits.send(()); // it may have gone by itself
        }
        let (waits, goes) = oneshot::channel();
        Some((self.seated(&mut table, source, Some(waits)), goes))
    }

    fn seated(&self, table: &mut Table, source: SeatSource, waits: Option<oneshot::Sender<()>>) -> ConnectionSeat {
        let number = table.next;
        table.next += 1;
        table.taken.insert(number, Taken { source, name: None, waits });
        ConnectionSeat { seats: self.clone(), number }
    }

    fn locked(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionSeat {
    /// Records that the handshake of a peer without a name is done. `false`: it had to make way.
    pub fn is_in(&self) -> bool {
        let mut table = self.seats.locked();
        let taken = table.taken.get_mut(&self.number).map(|one| one.waits = None);
        taken.is_some()
    }

    /// Records the name after the handshake. `false`: the peer had to make way, or has too many seats
    /// already.
    pub fn is_of(&self, name: String) -> bool {
        let mut table = self.seats.locked();
        let same = table.taken.values().filter(|one| one.name.as_ref() == Some(&name)).count();
        match table.taken.get_mut(&self.number) {
            Some(one) if same < self.seats.of_one => {
                (one.waits, one.name) = (None, Some(name));
                true
            }
            _ => false,
        }
    }
}

impl Table {
    fn of(&self, source: SeatSource) -> usize {
        self.taken.values().filter(|one| one.source == source).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> SeatSource {
        SeatSource::Net(trust::source_of(text.parse().unwrap()))
    }

    #[test]
    fn the_busiest_source_makes_way_and_the_others_stay() {
        let seats = Seats::new(8, 4, 3);
        let (_alice, mut alice) = seats.wait(net("10.0.0.1")).unwrap();
        let (_first, mut first) = seats.wait(net("10.0.0.9")).unwrap();
        let (_second, mut second) = seats.wait(net("10.0.0.9")).unwrap();
        let (_third, mut third) = seats.wait(net("10.0.0.9")).unwrap();
        assert!(first.try_recv().is_ok(), "the oldest of the busiest");
        let (_bob, _) = seats.wait(net("10.0.0.2")).unwrap();
        assert!(second.try_recv().is_ok());
        assert!(alice.try_recv().is_err() && third.try_recv().is_err());
        assert!(!_second.is_of("mallory".into()), "who had to make way is nobody");
        assert!(_alice.is_of("alice".into()));
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let seats = Seats::new(8, 2, 8);
        let known = |n: u16| seats.take(net(&format!("2001:db8::{n:x}")));
        let (_one, _two) = (known(1).unwrap(), known(2).unwrap());
        assert!(known(3).is_none());
        assert!(seats.take(net("2001:db8:0:1::3")).is_some());
    }

    #[test]
    fn shares_of_sources_and_names_come_back() {
        let seats = Seats::new(8, 2, 8);
        let mut all = vec![seats.take(SeatSource::User(7)).unwrap(), seats.take(SeatSource::User(7)).unwrap()];
        assert!(seats.take(SeatSource::User(7)).is_none());
        assert!(seats.take(SeatSource::User(8)).is_some());
        all.pop();
        assert!(seats.take(SeatSource::User(7)).is_some());
        let from = |n: u8| seats.wait(net(&format!("10.0.0.{n}"))).unwrap().0;
        let (a, b, c) = (from(1), from(2), from(3));
        assert!(a.is_of("alice".into()) && b.is_of("alice".into()));
        assert!(!c.is_of("alice".into()), "a third of one name");
        drop(a);
        assert!(c.is_of("alice".into()));
    }

    #[test]
    fn seats_that_are_taken_by_known_ones_are_not_given_away() {
        let seats = Seats::new(2, 2, 2);
        let (one, _) = seats.wait(net("10.0.0.1")).unwrap();
        let (two, _) = seats.wait(net("10.0.0.2")).unwrap();
        assert!(one.is_of("alice".into()) && two.is_of("bob".into()));
        assert!(seats.wait(net("10.0.0.3")).is_none());
    }
}
