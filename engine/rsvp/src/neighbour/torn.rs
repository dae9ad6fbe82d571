//! The tears of a neighbour that came last. A state that was torn down has no mark any more, by which a message of
//! before could be told from a new one. So a repetition that waited longer than the tear (tears are served first)
//! would make it anew, and no refresh would follow: the tear's name is kept in its place.

use super::Exchange;
use crate::state::heard::fold;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{SenderTemplate, Session};
use wire::{FilterObject, Message};

/// The most tears of a neighbour that are kept, 16 KB.
const MOST_TORN: usize = 1_024;

/// The last tears, by the hash of the state that each has ended, the latest last.
#[derive(Default)]
pub(super) struct Torn(VecDeque<(u64, u32)>);

impl Torn {
    /// True if a tear of this state has a newer name.
    fn is_newer(&self, state: u64, name: u32) -> bool {
        self.0.iter().any(|(torn, by)| *torn == state && (name.wrapping_sub(*by) as i32) < 0)
    }

    fn keep(&mut self, state: u64, name: u32) {
        if self.0.len() == MOST_TORN {
            self.0.pop_front();
        }
        self.0.push_back((state, name));
    }
}

impl Exchange<'_> {
    /// True if a newer tear has ended a state that this Path or Resv would make.
    pub(super) fn was_torn(&self, n: usize, name: u32, message: &Message<'_>) -> bool {
        if !matches!(message, Message::Path(_) | Message::Resv(_)) {
            return false;
        }
        self.lives(message).into_iter().any(|state| self.neighbours.all[n].torn.is_newer(state, name))
    }

    /// Keeps the name of a tear.
    pub(super) fn keep_torn(&mut self, n: usize, name: u32, message: &Message<'_>) {
        if matches!(message, Message::PathTear(_) | Message::ResvTear(_)) {
            self.lives(message).into_iter().for_each(|state| self.neighbours.all[n].torn.keep(state, name));
        }
    }

    /// The hashes of the states that a message makes or ends.
    fn lives(&self, message: &Message<'_>) -> Vec<u64> {
        let ports = |filter: Option<FilterObject>| filter.and_then(|filter| filter.ports());
        let (session, senders, upstream): (_, Vec<_>, _) = match message {
            Message::Path(m) => (m.session, [ports(Some(m.sender))].into(), 0),
            Message::PathTear(m) => (m.session, [ports(Some(m.sender))].into(), 0),
            Message::Resv(m) => (m.session, m.flows().map(|flow| ports(flow.filter)).collect(), 1),
            Message::ResvTear(m) => (m.session, m.flows().map(|flow| ports(flow.filter)).collect(), 1),
            _ => return Vec::new(),
        };
        let key = self.neighbours.key ^ upstream;
        senders.into_iter().map(|sender| hash(key, &session, sender.as_ref())).collect()
    }
}

fn hash(key: u64, session: &Session, sender: Option<&SenderTemplate>) -> u64 {
    let ports = u64::from(session.protocol) << 16 | u64::from(session.dst_port);
    let of = fold(address(session.dst, key) ^ ports, key);
    sender.map_or(of, |sender| fold(of ^ address(sender.src, key), key ^ u64::from(sender.src_port) ^ 1 << 63))
}

fn address(address: IpAddr, key: u64) -> u64 {
    match address {
        IpAddr::V4(address) => fold(u64::from(u32::from(address)), key),
        IpAddr::V6(address) => {
            let bits = u128::from(address);
            fold(fold(bits as u64, key) ^ (bits >> 64) as u64, !key)
        }
    }
}
