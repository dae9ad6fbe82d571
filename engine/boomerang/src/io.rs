//! Inputs and outputs of the engine.
//!
//! The methods of [`Boomerang`](crate::Boomerang) fall into these families:
//!
//! - **Making** (`new`, `with`, `keyed`): before the first input. `configure` may be called between inputs.
//! - **Inputs** (`handle`): one at a time, with the time of the call, and with the ports for routes and traffic control.
//! - **Outputs** (`poll`): read until `None` after each input. Each [`Input::Packet`] has one of [`Output::Pass`],
//!   [`Output::Deliver`] and [`Output::Dropped`]; every other output may come after any input.
//! - **Waking** (`wake_at`): the time of the next [`Input::Wake`]; read it after the last output.
//! - **Views** (`halves`, `sessions`, `owns`, `holds`): at any time.
//!
//! A reservation that the engine has asked of traffic control is answered by [`Input::Installed`]; until it is over,
//! [`Input::Displaced`] or [`Input::InterfaceGone`] may end it.

use crate::auth::AuthKey;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::ports::RHandle;
use terms::{Fault, FlowKey, IfIndex, Rate, Span};
use wire::boomerang::{Rates, Selector};

/// The number of a local application's session. The driver assigns it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AppId(pub u64);

/// The condition for a reply to make state on its outgoing interface. A node that lies only on the way back
/// sees only replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replies {
    /// Only the reply to a request that passed here.
    #[default]
    Known,
    /// Also a reply whose AUTH option is proven.
    Authenticated,
    /// Any reply.
    Any,
}

/// An aggregate of sessions: a node adds RESV_AGGREGATION to their requests, and nodes behind it hold the aggregate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gather {
    /// The flows of the sessions in the aggregate.
    pub classifier: Selector,
    /// The bits of the classifier that count.
    pub mask: Selector,
    /// The rate of the aggregate, forward, in bit/s.
    pub rate: u32,
    /// The outgoing interface of the requests.
    pub oif: IfIndex,
}

/// The configuration of a node.
#[derive(Clone, Debug)]
pub struct Config {
    /// The condition for a reply to make state.
    pub replies: Replies,
    /// The keys for AUTH; none: the option is forwarded unread.
    pub keys: Vec<AuthKey>,
    /// True if only messages with a proven AUTH option may reserve.
    pub require_auth: bool,
    /// True if a new, unproven session is locked until the initiating node has shown that it receives the replies.
    pub lock: bool,
    /// The longest refresh interval, in seconds; a longer one in a message is shortened to it.
    pub most_refresh: u8,
    /// The most session blocks.
    pub most_sessions: usize,
    /// The most different masks at a time.
    pub most_masks: usize,
    /// The most sessions of local applications.
    pub most_asked: usize,
    /// The most messages a second of one source; a new session counts as ten. A second's worth may come at once.
    pub per_source: u32,
    /// The bucket depth of a session, as the time in which its rate fills it.
    pub burst: Span,
    /// The least bucket depth, in bytes.
    pub least_burst: u32,
    /// The least packet size, in bytes: shorter packets of a session count as this many.
    pub min_packet: u32,
    /// The aggregates that this node adds sessions to.
    pub gather: Vec<Gather>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            replies: Replies::Known,
            keys: Vec::new(),
            require_auth: false,
            lock: false,
            most_refresh: 60,
            most_sessions: 1 << 21,
            most_masks: 1_024,
            most_asked: 65_536,
            per_source: 100_000,
            burst: Span::from_millis(100),
            least_burst: 8_192,
            min_packet: 128,
            gather: Vec::new(),
        }
    }
}

/// An input of the engine.
#[derive(Debug)]
pub enum Input<'a> {
    /// An IP packet with a Boomerang message (or something like one). It came in, or (`iif`: `None`) a local
    /// process sent it. It is rewritten in place.
    Packet {
        /// The incoming interface.
        iif: Option<IfIndex>,
        /// The whole packet.
        packet: &'a mut [u8],
    },
    /// `wake_at()` has come (or passed).
    Wake,
    /// A local application's call.
    App(ApplicationCall),
    /// The plane has installed a reservation, or could not: then it is released.
    Installed {
        /// The handle of the reservation.
        handle: RHandle,
        /// The plane's result.
        result: Result<(), Fault>,
    },
    /// A reservation was displaced; its handle is no longer valid.
    Displaced {
        /// The handle of the reservation.
        handle: RHandle,
    },
    /// An interface is gone, with its reservations; their handles are no longer valid.
    InterfaceGone(IfIndex),
}

/// A local application's call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ApplicationCall {
    /// Reserves, or changes a reservation.
    Reserve {
        /// The session.
        app: AppId,
        /// The request.
        asked: crate::SessionRequest,
    },
    /// Releases the reservation.
    Release {
        /// The session.
        app: AppId,
    },
}

/// An output of the engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// The packet of the input, as rewritten, goes out.
    Pass {
        /// The outgoing interface.
        oif: IfIndex,
        /// The next hop, if not the destination itself.
        gateway: Option<IpAddr>,
    },
    /// The packet of the input is for this node's own stack, untouched.
    Deliver,
    /// The packet of the input ends here.
    Dropped(FailureReason),
    /// Another packet goes out.
    Send {
        /// The outgoing interface.
        oif: IfIndex,
        /// The next hop, if not the destination itself.
        gateway: Option<IpAddr>,
        /// The whole packet.
        packet: Vec<u8>,
    },
    /// A report to a local application.
    Upcall {
        /// The session.
        app: AppId,
        /// The report.
        upcall: BoomerangUpcall,
    },
    /// An event, for logs and tests.
    Event(Event),
}

/// The reason for which a packet ends here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FailureReason {
    /// Its TTL has run out.
    Ttl,
    /// There is no route to its destination.
    NoRoute,
    /// Its source or destination is unusable: unspecified, broadcast, loopback, or a group where none may be.
    Address,
    /// Its source exceeds the message limit.
    TooMany,
    /// A forbidden reply: NO_ECHO was set, or a group replies.
    NoEcho,
    /// A message to a group that asks for the reverse direction.
    GroupReverse,
    /// A multicast message that came in by an interface away from its sender.
    WrongWay,
    /// It was for this node, which has processed it.
    Heard,
    /// It reached its far end, and must not be answered.
    Unanswered,
}

/// An event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A half of a session holds capacity.
    Reserved {
        /// The flow, under its mask.
        flow: FlowKey,
        /// The outgoing interface.
        oif: IfIndex,
        /// The rate now.
        rate: Rate,
        /// The rate before.
        before: Rate,
    },
    /// A node's refusal; the state is unchanged.
    Refused {
        /// The flow.
        flow: FlowKey,
        /// The outgoing interface.
        oif: IfIndex,
        /// The rate that was asked for.
        asked: Rate,
        /// The rate that is free.
        free: Rate,
    },
    /// The initiating node released a half.
    Released {
        /// The flow.
        flow: FlowKey,
        /// The outgoing interface.
        oif: IfIndex,
    },
    /// A half was released, or set back to its former rate, because its transaction failed further on.
    Reverted {
        /// The flow.
        flow: FlowKey,
        /// The outgoing interface.
        oif: IfIndex,
        /// The rate after it.
        rate: Rate,
    },
    /// A half was not refreshed in time.
    Expired {
        /// The flow.
        flow: FlowKey,
        /// The outgoing interface.
        oif: IfIndex,
    },
    /// A half was displaced by another reservation, or the plane could not install it.
    Lost {
        /// The flow.
        flow: FlowKey,
        /// The outgoing interface.
        oif: IfIndex,
    },
    /// A reply without a request that passed here: nothing was reserved for it.
    Stranger {
        /// The flow, reverse.
        flow: FlowKey,
    },
    /// An AUTH option with a wrong key, digest or sequence number.
    Unproven {
        /// The initiating node.
        initiator: IpAddr,
    },
    /// A new session is locked and waits for its initiating node to send the key.
    Locked {
        /// The flow.
        flow: FlowKey,
        /// The outgoing interface.
        oif: IfIndex,
    },
    /// A table has reached its limit.
    Full {
        /// The table.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A reply without an open request, or with rates above those of its request.
    Unexpected {
        /// The number of the transaction.
        transaction: u32,
    },
}

/// A report to a local application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoomerangUpcall {
    /// All aware nodes have reserved these rates.
    Reserved {
        /// The reserved rates.
        rates: Rates,
        /// The present refresh interval, in seconds.
        refresh: u8,
        /// The number of aware nodes on the way out and back, if they were counted.
        hops: Option<(u16, u16)>,
    },
    /// A node refused. The former reservation (zero: none) stays.
    Refused {
        /// The available rates on the path, as far as the message came.
        available: Rates,
        /// The rates that stay reserved.
        kept: Rates,
    },
    /// No reply came to this many messages. A set-up that was not yet reserved is given up.
    Silent {
        /// The number of messages.
        messages: u32,
        /// True if the session is given up.
        over: bool,
    },
    /// The two ways have different numbers of aware nodes: one direction may have a gap.
    HopMismatch {
        /// The number on the way out.
        forward: u16,
        /// The number on the way back.
        reverse: u16,
    },
    /// There is no route to the far end.
    NoRoute,
    /// The reservation is released.
    Released,
}
