//! The state of neighbours, apart from that of sessions: refresh reduction (RFC 2961) and Hello (RFC 3209
//! section 5).
//!
//! A neighbour whose messages carry the Refresh-Reduction-Capable flag is given names for ours (MESSAGE_ID).
//! State that it has acknowledged is refreshed by name, many names to a message (Srefresh), and messages that
//! come up together travel together (Bundle). Unacknowledged messages are sent again, at growing intervals.
//! In the other direction, the names of its messages are remembered, so that its summaries prolong state
//! without a message being read.
//!
//! | file | contents |
//! |---|---|
//! | `outgoing` | a message goes out: named, summarised, bundled, with acknowledgements |
//! | `repeat` | exponential back-off, RFC 2961 section 6 |
//! | `incoming` | a named message, acknowledgements, a summary come in |
//! | `hello` | instances: a neighbour has started anew |
//! | `flat` | tables by name |
//!
//! **The next reader.** A Path is addressed to the session; the neighbour that will read it is the next hop
//! of the route, or the destination itself. If no neighbour of that address has spoken on the link, the Path
//! has no name and no summary, nor has one of a multicast session (RFC 2961 section 5.6). On a link with one
//! neighbour that is rare otherwise.

mod flat;
mod hello;
pub(crate) mod incoming;
mod outgoing;
mod repeat;
mod torn;

use crate::arrival::Arrival;
use crate::io::{Datagram, Event, NeighbourNews};
use crate::state::heard::BlockRef;
use crate::state::psb::{OutgoingInterfaces, Psb};
use crate::state::table::BlockId;
use crate::state::timers::Alarm;
use crate::state::{State, Timer};
use crate::transport::Transport;
use crate::views::{HelloState, NeighbourView};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use flat::Flat;
use repeat::Waiting;
use terms::{IfIndex, Span, Time};
use torn::Torn;
use wire::objects::MessageIdAck;
use wire::{Header, MessageType};

/// Most neighbours. Further ones get messages without names.
pub(crate) const MOST_NEIGHBOURS: usize = 4096;

/// Most neighbours on one interface, so that who invents neighbours on a link leaves room on the others.
pub(crate) const MOST_ON_A_LINK: u32 = 1024;

/// The state that a message of ours refreshes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum About {
    /// A path state, downstream.
    Path(BlockId<Psb>),
    /// The request to a path state's previous hop.
    Resv(BlockId<Psb>),
}

/// All neighbours.
pub(crate) struct Neighbours {
    /// True if refresh reduction is enabled.
    enabled: bool,
    /// Our epoch, 24 bits, and our Hello instance; both are new in each life.
    epoch: u32,
    instance: u32,
    /// The last name given to a message of ours.
    named: u32,
    key: u64,
    all: Vec<Neighbour>,
    index: BTreeMap<(IfIndex, IpAddr), u32>,
    /// The number of them on each interface.
    on_link: BTreeMap<IfIndex, u32>,
    /// Places in `all` whose interface is gone.
    free: Vec<u32>,
    /// Neighbours that get messages at the end of this input.
    ready: Vec<u32>,
}

/// One neighbour: an address on a link.
struct Neighbour {
    at: IfIndex,
    addr: IpAddr,
    /// Our own address in messages to it.
    own: IpAddr,
    /// True if its last message had the Refresh-Reduction-Capable flag.
    capable: bool,
    /// True if it has acknowledged any message. Some nodes set the flag without support: until an
    /// acknowledgement nothing is bundled for them, and a tear goes once and unnamed, as RFC 2205 has it.
    acknowledges: bool,
    /// Its epoch, and the largest name in it.
    epoch: Option<u32>,
    newest: u32,
    /// The state that each of its names stands for.
    names: Flat<BlockRef>,
    /// Names that stand for more than one state.
    more: BTreeMap<u32, Vec<BlockRef>>,
    /// Its Hello instance, the time of its last Hello, and the time of our next request.
    instance: Option<u32>,
    hello_heard: Time,
    hello_at: Time,
    /// True if it was silent for too long, and is not asked until it is heard again.
    is_silent: bool,
    /// Our last message about each state that we refresh at it; and the state behind each of our names.
    said: Flat<Saying>,
    ours: Flat<u32>,
    /// The name of its last error about each of our states.
    errors: Flat<u32>,
    /// Its last tears.
    torn: Torn,
    /// Messages that it has not acknowledged.
    waiting: Waiting,
    /// Acknowledgements and messages that go out at the end of this input.
    acks: Vec<MessageIdAck>,
    batch: Vec<(MessageType, Datagram)>,
    is_ready: bool,
    /// Names of the next summary, and the time at which it goes.
    summary: Vec<u32>,
    summary_at: Time,
    /// The phase of its refreshes within a period.
    phase: u64,
    /// Acknowledgements of messages to a group, by the time at which they go.
    late: BTreeMap<(Time, u32), MessageIdAck>,
    alarm: Alarm,
}

/// Our last full message about a state.
#[derive(Clone, Copy)]
struct Saying {
    name: u32,
    content: u64,
    acked: bool,
    /// The number of refreshes by name alone since it was last sent in full.
    rounds: u8,
}

impl About {
    /// The state as a number, which keys tables.
    fn number(self) -> u32 {
        match self {
            About::Path(id) => id.number() << 1,
            About::Resv(id) => id.number() << 1 | 1,
        }
    }

    fn of(number: u32) -> About {
        let id = BlockId::of_number(number >> 1);
        if number & 1 == 0 { About::Path(id) } else { About::Resv(id) }
    }

    /// True if the state still exists.
    fn lives(self, state: &State) -> bool {
        let (About::Path(id) | About::Resv(id)) = self;
        state.get(id).is_some()
    }
}

impl Neighbours {
    pub fn new(enabled: bool, chance: [u64; 2]) -> Neighbours {
        Neighbours {
            enabled,
            epoch: chance[0] as u32 & 0x00ff_ffff,
            instance: (chance[0] >> 32) as u32 | 1,
            named: 0,
            key: chance[1],
            all: Vec::new(),
            index: BTreeMap::new(),
            on_link: BTreeMap::new(),
            free: Vec::new(),
            ready: Vec::new(),
        }
    }

    fn find(&self, at: IfIndex, addr: IpAddr) -> Option<usize> {
        self.index.get(&(at, addr)).map(|n| *n as usize)
    }

    /// The next name for a message of ours. Names wrap; zero is not used.
    fn name(&mut self) -> u32 {
        self.named = self.named.wrapping_add(1).max(1);
        self.named
    }

    /// Adds what is known of each to a view of the neighbours.
    pub fn show(&self, all: &mut BTreeMap<(IfIndex, IpAddr), NeighbourView>) {
        for (at, n) in &self.index {
            let neighbour = &self.all[*n as usize];
            let one = all.entry(*at).or_insert_with(NeighbourView::on_link);
            one.capable = Some(neighbour.capable);
            one.hello = match (neighbour.instance, neighbour.is_silent) {
                (None, _) => HelloState::Unheard,
                (Some(_), false) => HelloState::Up,
                (Some(_), true) => HelloState::Silent,
            };
        }
    }

    fn mark(&mut self, n: usize) {
        let neighbour = &mut self.all[n];
        if !neighbour.is_ready {
            neighbour.is_ready = true;
            self.ready.push(n as u32);
        }
    }

    /// True if one more neighbour on this interface can be remembered.
    fn has_room(&self, at: IfIndex) -> bool {
        let here = self.on_link.get(&at).copied().unwrap_or(0);
        here < MOST_ON_A_LINK && (self.all.len() < MOST_NEIGHBOURS || !self.free.is_empty())
    }

    /// Forgets the neighbours on an interface that is gone. Their places are for others: no state has a mark of
    /// theirs any more, because a change of interfaces unmarks all.
    pub fn forget_neighbours(&mut self, at: IfIndex) {
        self.on_link.remove(&at);
        for (n, neighbour) in self.all.iter_mut().enumerate().filter(|(_, n)| n.at == at) {
            if self.index.remove(&(at, neighbour.addr)).is_some() {
                self.free.push(n as u32);
            }
            neighbour.forget_names();
            neighbour.forget_its_names();
            neighbour.instance = None;
            neighbour.hello_at = Time::FOREVER;
            neighbour.is_silent = false;
            neighbour.capable = false;
            neighbour.acknowledges = false;
            neighbour.acks.clear();
            neighbour.late.clear();
            neighbour.batch.clear();
        }
    }
}

/// The exchange of messages with neighbours during one input.
pub(crate) struct Exchange<'a> {
    now: Time,
    neighbours: &'a mut Neighbours,
    state: &'a mut State,
    transport: &'a mut Transport,
}

impl<'a> Exchange<'a> {
    /// With the parts that it works on.
    pub fn new(neighbours: &'a mut Neighbours, state: &'a mut State, transport: &'a mut Transport) -> Exchange<'a> {
        Exchange { now: transport.now(), neighbours, state, transport }
    }
}

impl Exchange<'_> {
    /// The neighbour that a message is from; remembered if it is new.
    fn neighbour(&mut self, at: IfIndex, addr: IpAddr, header: &Header) -> Option<usize> {
        let capable = header.flags & wire::iana::flag::REFRESH_REDUCTION != 0;
        if let Some(n) = self.neighbours.find(at, addr) {
            let neighbour = &mut self.neighbours.all[n];
            if neighbour.capable && !capable {
                neighbour.forget_names();
                neighbour.acknowledges = false;
            }
            neighbour.capable = capable;
            if neighbour.is_silent {
                self.ask_again(n);
            }
            return Some(n);
        }
        if !self.neighbours.has_room(at) {
            return None;
        }
        let own = self.transport.links().address_on(at, addr)?;
        let n = self.neighbours.free.pop().map_or(self.neighbours.all.len(), |n| n as usize);
        let key = self.neighbours.key.wrapping_add(n as u64).wrapping_mul(0xd134_2543_de82_ef95);
        let mut fresh = Neighbour {
            at,
            addr,
            own,
            capable,
            acknowledges: false,
            epoch: None,
            newest: 0,
            names: Flat::new(key),
            more: BTreeMap::new(),
            instance: None,
            hello_heard: self.now,
            hello_at: Time::FOREVER,
            is_silent: false,
            said: Flat::new(key.rotate_left(17)),
            ours: Flat::new(key.rotate_left(34)),
            errors: Flat::new(key.rotate_left(51)),
            torn: Torn::default(),
            waiting: Waiting::default(),
            acks: Vec::new(),
            batch: Vec::new(),
            is_ready: false,
            summary: Vec::new(),
            summary_at: Time::FOREVER,
            phase: key.rotate_left(7),
            late: BTreeMap::new(),
            alarm: Alarm::OFF,
        };
        match self.neighbours.all.get_mut(n) {
            Some(place) => {
                // What may still be under way for the place goes on.
                core::mem::swap(&mut fresh.alarm, &mut place.alarm);
                fresh.is_ready = place.is_ready;
                *place = fresh;
            }
            None => self.neighbours.all.push(fresh),
        }
        self.neighbours.index.insert((at, addr), n as u32);
        *self.neighbours.on_link.entry(at).or_default() += 1;
        if capable {
            self.say_hello(n);
        }
        Some(n)
    }

    /// The neighbour that will read a message that goes out.
    fn reader(&self, datagram: &Datagram, about: Option<About>) -> Option<usize> {
        let at = self.transport.links().leaves_by(datagram)?;
        if !datagram.router_alert {
            return self.neighbours.find(at, datagram.dst);
        }
        let Some(About::Path(id)) = about else { return None };
        match &self.state.get(id)?.out {
            OutgoingInterfaces::Interface { oif, gateway, .. } if *oif == at => {
                self.neighbours.find(at, gateway.unwrap_or(datagram.dst))
            }
            _ => None,
        }
    }

    pub(crate) fn arm_neighbour(&mut self, n: usize) {
        let neighbour = &mut self.neighbours.all[n];
        let at = neighbour.summary_at.min(neighbour.hello_at).min(neighbour.waiting.next()).min(neighbour.late_at());
        if at != Time::FOREVER {
            self.state.alarms().set_by(&mut neighbour.alarm, at, Timer::Neighbour(n as u32));
        }
    }

    /// Handles a neighbour's alarm.
    pub(crate) fn neighbour_alarm(&mut self, n: u32) {
        let n = n as usize;
        let neighbour = &mut self.neighbours.all[n];
        self.state.alarms().clear(&mut neighbour.alarm);
        if neighbour.summary_at <= self.now {
            self.send_summary(n);
        }
        if self.neighbours.all[n].hello_at <= self.now {
            self.hello_due(n);
        }
        self.repeat_unacknowledged(n);
        self.acknowledge_late(n);
        self.arm_neighbour(n);
    }

    /// Counts a message that changes nothing, and reports the reason.
    fn drop_message(&mut self, from: &Arrival, why: &'static str) {
        self.state.not_a_refresh();
        self.transport.out().dropped(why);
        self.transport.out().say(Event::Dropped { iif: from.iif, src: from.src, why });
    }

    pub(crate) fn neighbour_news(&mut self, n: usize, news: NeighbourNews) {
        let Neighbour { at, addr, .. } = self.neighbours.all[n];
        self.transport.out().say(Event::Neighbour { interface: at, addr, news });
    }
}

impl Neighbour {
    fn late_at(&self) -> Time {
        self.late.first_key_value().map_or(Time::FOREVER, |((at, _), _)| *at)
    }

    /// Forgets our names for this neighbour: all state will be sent in full.
    fn forget_names(&mut self) {
        self.said.clear();
        self.ours.clear();
        self.waiting = Waiting::default();
        self.summary.clear();
        self.summary_at = Time::FOREVER;
    }

    /// Forgets the neighbour's names.
    fn forget_its_names(&mut self) {
        self.names.clear();
        self.more.clear();
        self.errors.clear();
        self.torn = Torn::default();
        self.epoch = None;
        self.newest = 0;
    }
}

/// The longest wait of a name for others to share its summary: a small part of the refresh period.
fn gathering(refresh: Span) -> Span {
    Span::from_nanos(refresh.as_nanos() / 64)
}
