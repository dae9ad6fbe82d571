//! What the engine is told and what it says.

use crate::auth::AuthKey;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::ports::RHandle;
use terms::{Fault, FlowKey, IfIndex, Rate, Span};
use wire::boomerang::{Rates, Selector};

/// A local application's session. The driver gives the numbers out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AppId(pub u64);

/// When a reply may make state on the interface that it leaves by. A node that lies on the way back alone sees
/// nothing but replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replies {
    /// Only the reply to a request that passed here.
    #[default]
    Known,
    /// Also one that proves who asks.
    Authenticated,
    /// Any.
    Any,
}

/// Sessions that go on as one: a node adds RESV_AGGREGATION to their requests, and nodes behind it hold the whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gather {
    /// Which sessions: those whose flow is under this.
    pub classifier: Selector,
    /// Which bits of that count.
    pub mask: Selector,
    /// How much for all of them, forward, bit/s.
    pub rate: u32,
    /// Of the requests that leave here.
    pub oif: IfIndex,
}

/// How a node behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// When a reply may make state.
    pub replies: Replies,
    /// Keys for AUTH; none: the option is carried along unread.
    pub keys: Vec<AuthKey>,
    /// Whether only who proves who it is may reserve.
    pub require_auth: bool,
    /// Whether a new session of somebody unproven is locked until the initiating node has shown that it hears the replies.
    pub lock: bool,
    /// The longest refresh interval; a longer one in a message is shortened to it, s.
    pub most_refresh: u8,
    /// Most session blocks.
    pub most_sessions: usize,
    /// Most different masks at a time.
    pub most_masks: usize,
    /// Most sessions of local applications.
    pub most_asked: usize,
    /// Messages a second that are taken of one source; a new session counts as ten. A second's worth may come at once.
    pub per_source: u32,
    /// A session's bucket holds what its rate brings in this time,
    pub burst: Span,
    /// and at least this many bytes.
    pub least_burst: u32,
    /// A packet of a session that is shorter counts as this many bytes.
    pub min_packet: u32,
    /// Sessions that go on as one.
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

/// What the engine is told.
#[derive(Debug)]
pub enum Input<'a> {
    /// An IP packet with a Boomerang message (or something that looks like one) came in, or (`iif`: `None`) is a local
    /// process's. It is rewritten where it lies.
    Packet {
        /// Where.
        iif: Option<IfIndex>,
        /// All of it.
        packet: &'a mut [u8],
    },
    /// `wake_at()` has come (or passed).
    Wake,
    /// A local application's call.
    App(ApplicationCall),
    /// A reservation was installed in the plane, or could not be: then it is given back.
    Installed {
        /// Which.
        handle: RHandle,
        /// How it went.
        result: Result<(), Fault>,
    },
    /// A reservation made way; its handle is not known any more.
    Displaced {
        /// Which.
        handle: RHandle,
    },
    /// An interface went: what was reserved there is gone, and its handles are not known any more.
    InterfaceGone(IfIndex),
}

/// A local application's call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ApplicationCall {
    /// Reserve, or change what is reserved.
    Reserve {
        /// Whose.
        app: AppId,
        /// What.
        asked: crate::SessionRequest,
    },
    /// Give it back.
    Release {
        /// Whose.
        app: AppId,
    },
}

/// What the engine says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// The packet that was told, as it is now, goes out.
    Pass {
        /// Where.
        oif: IfIndex,
        /// The next hop, if not the destination itself.
        gateway: Option<IpAddr>,
    },
    /// The packet that was told is for this node's own stack, untouched.
    Deliver,
    /// The packet that was told ends here.
    Dropped(FailureReason),
    /// Another packet goes out.
    Send {
        /// Where.
        oif: IfIndex,
        /// The next hop, if not the destination itself.
        gateway: Option<IpAddr>,
        /// All of it.
        packet: Vec<u8>,
    },
    /// Tell a local application.
    Upcall {
        /// Who.
        app: AppId,
        /// What.
        upcall: BoomerangUpcall,
    },
    /// Something happened.
    Event(Event),
}

/// Why a packet ended here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FailureReason {
    /// Its time to live is over.
    Ttl,
    /// There is no way to its destination.
    NoRoute,
    /// Its source or destination is nobody's, everybody's, or a group's that it must not be.
    Address,
    /// Its source says too much.
    TooMany,
    /// A reply that must not be: NO_ECHO was said, or a group answers.
    NoEcho,
    /// A message to a group that asks for something in reverse.
    GroupReverse,
    /// A multicast message that did not come from where its sender is.
    WrongWay,
    /// It was for this node, and has been heard.
    Heard,
    /// Far end of a message that must not be answered.
    Unanswered,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A half of a session holds capacity.
    Reserved {
        /// Whose packets; masked.
        flow: FlowKey,
        /// Where they leave.
        oif: IfIndex,
        /// How much.
        rate: Rate,
        /// How much it was.
        before: Rate,
    },
    /// A node's refusal: nothing has changed.
    Refused {
        /// Whose packets.
        flow: FlowKey,
        /// Where they would leave.
        oif: IfIndex,
        /// How much was asked.
        asked: Rate,
        /// How much there is.
        free: Rate,
    },
    /// A half was given back because the initiating node said so.
    Released {
        /// Whose packets.
        flow: FlowKey,
        /// Where.
        oif: IfIndex,
    },
    /// A half was given back, or brought back to what it was, because its transaction failed further on.
    Reverted {
        /// Whose packets.
        flow: FlowKey,
        /// Where.
        oif: IfIndex,
        /// How much it has again.
        rate: Rate,
    },
    /// A half was not refreshed in time.
    Expired {
        /// Whose packets.
        flow: FlowKey,
        /// Where.
        oif: IfIndex,
    },
    /// A half made way for somebody else, or the plane could not install it.
    Lost {
        /// Whose packets.
        flow: FlowKey,
        /// Where.
        oif: IfIndex,
    },
    /// A reply to no request that passed here: nothing was reserved for it.
    Stranger {
        /// Whose packets, reverse.
        flow: FlowKey,
    },
    /// An AUTH option that proves nothing: key, digest or sequence number are wrong.
    Unproven {
        /// Who asked.
        initiator: IpAddr,
    },
    /// A new session waits, locked, for its initiating node to say the key.
    Locked {
        /// Whose packets.
        flow: FlowKey,
        /// Where.
        oif: IfIndex,
    },
    /// A limit of a table is reached.
    Full {
        /// Which.
        what: &'static str,
        /// Its size.
        limit: usize,
    },
    /// A reply that answers nothing that is open, or asks for more than was asked.
    Unexpected {
        /// Its transaction.
        transaction: u32,
    },
}

/// What a local application is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoomerangUpcall {
    /// All aware nodes have reserved these rates.
    Reserved {
        /// How much.
        rates: Rates,
        /// Seconds between refreshes now.
        refresh: u8,
        /// Aware nodes on the way out and back, where they were counted.
        hops: Option<(u16, u16)>,
    },
    /// A node refused. What was reserved before (zero: nothing) stays.
    Refused {
        /// What there is, as far as the message came.
        available: Rates,
        /// What stays.
        kept: Rates,
    },
    /// Nobody answered any of so many messages. What was not yet reserved is given up.
    Silent {
        /// How many.
        messages: u32,
        /// Whether it is given up.
        over: bool,
    },
    /// Way out and way back met different numbers of aware nodes: one direction may have a gap.
    HopMismatch {
        /// On the way out.
        forward: u16,
        /// On the way back.
        reverse: u16,
    },
    /// There is no way to the far end.
    NoRoute,
    /// Given back.
    Released,
}
