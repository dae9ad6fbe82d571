//! A message under way, apart from its packet, and the outcome of its steps.

use crate::io::FailureReason;
use crate::limit::Account;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::IfIndex;
use wire::boomerang::{self, Aggregate, AuthOption, Opt, Places, Rates, Selector, TravelDirection};

/// The fate of the packet of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Pass {
        oif: IfIndex,
        gateway: Option<IpAddr>,
    },
    Deliver,
    /// It is a reply to a message of this node, with this transaction. If no session of this node waits for it, it is
    /// delivered.
    Answer {
        transaction: u32,
    },
    Dropped(FailureReason),
}

/// A copy of a message's values, so that the packet itself can be written to.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub leg: TravelDirection,
    pub initiator: IpAddr,
    pub src: IpAddr,
    pub dst: IpAddr,
    pub transaction: u32,
    pub nack: bool,
    pub no_echo: bool,
    pub refresh: u8,
    pub key: u64,
    pub classifier: Selector,
    pub mask: Selector,
    first: Rates,
    more: Vec<Rates>,
    pub aggregate: Option<Aggregate>,
    pub auth: Option<AuthOption>,
    pub proven: bool,
    /// The bucket that pays for the message.
    pub account: Account,
    /// True if the message starts at this node, where the flow enters the network.
    pub entry: bool,
    /// True if this node added the aggregation option.
    pub gathered_here: bool,
    /// For a reply: true if the block of its request waits for its key; `None`: no request passed here.
    pub request_locked: Option<bool>,
    pub places: Places,
}

/// The outcome for one half on its interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    /// The index of the pair that was reserved.
    pub index: usize,
    /// The free rate, if less than asked, in bit/s.
    pub free: Option<u32>,
    /// True if this node has refused.
    pub refused: bool,
    /// The factor for KEY.
    pub lock: Option<u64>,
}

impl Work {
    pub fn of(probe: &boomerang::ProbePacket<'_>, iif: Option<IfIndex>) -> Work {
        let message = &probe.message;
        let (mut aggregate, mut auth) = (None, None);
        for (_, option) in message.options() {
            match option {
                Opt::Aggregation(found) => aggregate = aggregate.or(Some(found)),
                Opt::Auth(found) => auth = auth.or(Some(found)),
                _ => {}
            }
        }
        Work {
            leg: message.leg,
            initiator: probe.initiator(),
            src: probe.src,
            dst: probe.dst,
            transaction: message.transaction,
            nack: message.is_nack(),
            no_echo: message.is_no_echo(),
            refresh: message.refresh,
            key: message.key,
            classifier: message.classifier,
            mask: message.mask,
            first: message.qos.asked(),
            more: if message.qos.count() > 1 { message.qos.iter().skip(1).collect() } else { Vec::new() },
            aggregate,
            auth,
            proven: false,
            account: Account::Own,
            entry: iif.is_none(),
            gathered_here: false,
            request_locked: None,
            places: Places::of(probe),
        }
    }

    /// The message as its own reply, which starts here.
    pub fn turned(&self) -> Work {
        Work { leg: TravelDirection::Reply, entry: true, account: Account::Own, ..self.clone() }
    }

    /// The pair at an index of the vector.
    pub fn rates(&self, index: usize) -> Option<Rates> {
        match index.checked_sub(1) {
            None => Some(self.first),
            Some(index) => self.more.get(index).copied(),
        }
    }

    /// The number of pairs.
    pub fn count(&self) -> usize {
        self.more.len() + 1
    }

    /// The rate that a leg asks for in its own direction, in bit/s.
    pub fn rate(&self, leg: TravelDirection, index: usize) -> Option<u32> {
        self.rates(index).map(|rates| if leg == TravelDirection::Request { rates.forward } else { rates.reverse })
    }

    /// The classifier and the mask of the packets that a leg reserves for.
    pub fn flow(&self, leg: TravelDirection) -> (Selector, Selector) {
        match leg {
            TravelDirection::Request => (self.classifier, self.mask),
            TravelDirection::Reply => (self.classifier.turned(), self.mask.turned()),
        }
    }
}
