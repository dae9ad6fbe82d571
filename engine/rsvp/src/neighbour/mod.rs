//! What is between a neighbour and us beside the state of sessions: refresh reduction (RFC 2961) and Hello (RFC 3209
//! section 5).
//!
//! A neighbour whose messages carry the Refresh-Reduction-Capable flag is given names for ours (MESSAGE_ID); what it has
//! acknowledged is refreshed by name, many to a message (Srefresh), and messages that come up together travel together
//! (Bundle). What it has not acknowledged is said again, at growing intervals. The other way round, what it names is
//! remembered by name, so that its summaries prolong state without a message being read.
//!
//! | file | what |
//! |---|---|
//! | `outgoing` | a message goes out: named, summarised, bundled, with acknowledgements on its back |
//! | `repeat` | exponential back-off, RFC 2961 section 6 |
//! | `incoming` | a named message, acknowledgements, a summary come in |
//! | `hello` | instances, epochs: a neighbour has started anew |
//! | `flat` | tables by name |
//!
//! **Who is next.** A Path has the session's address on it; the neighbour that will read it is the next hop of the
//! route, or the destination itself. If none of its address has spoken on that link, the Path has no name and no
//! summary, nor has one of a multicast session: on a link with one neighbour that is hardly ever so otherwise, and it must be (RFC 2961 section 5.6).

mod flat;
mod hello;
mod incoming;
mod outgoing;
mod repeat;

use crate::engine::{Rsvp, Timer};
use crate::heard::State;
use crate::io::{Datagram, Event};
use crate::psb::{OutgoingInterfaces, Psb, PsbKey};
use crate::table::{BlockId, BlockTable};
use crate::timers::Alarm;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use flat::Flat;
use repeat::Waiting;
use terms::probe::ProbeObserver;
use terms::{IfIndex, Span, Time};
use wire::objects::MessageIdAck;
use wire::{Header, MessageType};

/// Most neighbours. Whoever comes after is spoken to without names.
pub(crate) const MOST_NEIGHBOURS: usize = 4096;

/// What happened between a neighbour and us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeighbourNews {
    /// It has answered our challenge: from here on its messages are taken.
    Authenticated {
        /// By which key.
        key_id: u64,
    },
    /// The last key that we share is over, and is used on for lack of another (RFC 2747 section 5.3).
    KeyOverdue {
        /// Which.
        key_id: u64,
    },
    /// It has started anew (its epoch or its Hello instance is another one), and is told everything again.
    Restarted,
    /// It has not answered a Hello for three and a half intervals.
    Silent,
}

/// What a message that we send keeps up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum About {
    /// A path state, downstream.
    Path(BlockId<Psb>),
    /// What is asked of a path state's previous hop.
    Resv(BlockId<Psb>),
}

/// All neighbours.
pub(crate) struct Neighbours {
    /// Whether refresh reduction is done at all.
    enabled: bool,
    /// Our epoch, 24 bits, and our Hello instance: of this life alone.
    epoch: u32,
    instance: u32,
    /// The last name given to a message of ours.
    named: u32,
    key: u64,
    all: Vec<Neighbour>,
    index: BTreeMap<(IfIndex, IpAddr), u32>,
    /// Those with something to say at the end of this input.
    ready: Vec<u32>,
    /// What the message that is being taken in spoke of, and whether it must be read again when it comes again.
    spoken: Vec<State>,
    again: bool,
}

/// One neighbour: an address on a link.
pub(crate) struct Neighbour {
    at: IfIndex,
    addr: IpAddr,
    /// Our own address in what we say to it.
    own: IpAddr,
    /// Whether its last message had the Refresh-Reduction-Capable flag.
    capable: bool,
    /// Whether it has acknowledged anything. The flag alone is also set by some who know none of it: until then nothing
    /// is bundled for them, and a tear goes once and unnamed, as RFC 2205 has it.
    acknowledges: bool,
    /// Its epoch, and the largest name in it.
    epoch: Option<u32>,
    newest: u32,
    /// What its names stand for.
    names: Flat<State>,
    /// Names that stand for more than one state.
    more: BTreeMap<u32, Vec<State>>,
    /// Its Hello instance, when it last said one, and when we ask again.
    instance: Option<u32>,
    hello_heard: Time,
    hello_at: Time,
    /// What we keep up at it, by what it is about; and what our names are about.
    said: Flat<Saying>,
    ours: Flat<u32>,
    /// The name of its last error about something that we said.
    errors: Flat<u32>,
    /// What it has not acknowledged.
    waiting: Waiting,
    /// What goes out at the end of this input.
    acks: Vec<MessageIdAck>,
    batch: Vec<(MessageType, Datagram)>,
    is_ready: bool,
    /// Names of the next summary, and when it goes.
    summary: Vec<u32>,
    summary_at: Time,
    /// When in a period its states are refreshed.
    phase: u64,
    /// Acknowledgements of what came to a group, by when they go.
    late: BTreeMap<(Time, u32), MessageIdAck>,
    alarm: Alarm,
}

/// What was last said of something.
#[derive(Clone, Copy)]
struct Saying {
    name: u32,
    content: u64,
    acked: bool,
    /// How often it was refreshed by its name alone since it was last said in full.
    rounds: u8,
}

impl About {
    /// As a number that tables can be keyed by.
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

    /// Whether there is anything left to keep up.
    fn lives(self, psbs: &BlockTable<PsbKey, Psb>) -> bool {
        let (About::Path(id) | About::Resv(id)) = self;
        psbs.get(id).is_some()
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
            ready: Vec::new(),
            spoken: Vec::new(),
            again: false,
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

    fn mark(&mut self, n: usize) {
        let neighbour = &mut self.all[n];
        if !neighbour.is_ready {
            neighbour.is_ready = true;
            self.ready.push(n as u32);
        }
    }

    /// The message that is being taken in has made or refreshed this state.
    pub fn spoke_of(&mut self, state: State) {
        if self.enabled && !self.spoken.contains(&state) && self.spoken.len() < wire::object::MAX_OBJECTS {
            self.spoken.push(state);
        }
    }

    /// It has done something that it must do again when it comes again.
    pub fn not_a_refresh(&mut self) {
        self.again = true;
    }
}

impl<P: ProbeObserver> Rsvp<P> {
    /// The neighbour that a message is from; remembered if it is new.
    fn neighbour(&mut self, now: Time, at: IfIndex, addr: IpAddr, header: &Header) -> Option<usize> {
        let capable = header.flags & wire::iana::flag::REFRESH_REDUCTION != 0;
        if let Some(n) = self.neighbours.find(at, addr) {
            let neighbour = &mut self.neighbours.all[n];
            if neighbour.capable && !capable {
                neighbour.forget_names();
                neighbour.acknowledges = false;
            }
            neighbour.capable = capable;
            return Some(n);
        }
        if self.neighbours.all.len() >= MOST_NEIGHBOURS {
            return None;
        }
        let own = self.address_on(at, addr)?;
        let n = self.neighbours.all.len();
        let key = self.neighbours.key.wrapping_add(n as u64).wrapping_mul(0xd134_2543_de82_ef95);
        self.neighbours.all.push(Neighbour {
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
            hello_heard: now,
            hello_at: self.config.hello.map_or(Time::FOREVER, |every| now + every),
            said: Flat::new(key.rotate_left(17)),
            ours: Flat::new(key.rotate_left(34)),
            errors: Flat::new(key.rotate_left(51)),
            waiting: Waiting::default(),
            acks: Vec::new(),
            batch: Vec::new(),
            is_ready: false,
            summary: Vec::new(),
            summary_at: Time::FOREVER,
            phase: key.rotate_left(7),
            late: BTreeMap::new(),
            alarm: Alarm::OFF,
        });
        self.neighbours.index.insert((at, addr), n as u32);
        self.arm_neighbour(n);
        if capable {
            self.say_hello(n);
        }
        Some(n)
    }

    /// The neighbour that will read a message that goes out.
    fn reader(&self, datagram: &Datagram, about: Option<About>) -> Option<usize> {
        let at = self.leaves_by(datagram)?;
        if !datagram.router_alert {
            return self.neighbours.find(at, datagram.dst);
        }
        let Some(About::Path(id)) = about else { return None };
        match &self.psbs.get(id)?.out {
            OutgoingInterfaces::Interface { oif, gateway, .. } if *oif == at => {
                self.neighbours.find(at, gateway.unwrap_or(datagram.dst))
            }
            _ => None,
        }
    }

    /// An interface is gone, and with it all who were there.
    pub(crate) fn forget_neighbours(&mut self, at: IfIndex) {
        for neighbour in self.neighbours.all.iter_mut().filter(|n| n.at == at) {
            neighbour.forget_names();
            neighbour.forget_its_names();
            neighbour.instance = None;
            neighbour.acknowledges = false;
            neighbour.acks.clear();
            neighbour.late.clear();
            neighbour.batch.clear();
        }
    }

    pub(crate) fn arm_neighbour(&mut self, n: usize) {
        let neighbour = &mut self.neighbours.all[n];
        let at = neighbour.summary_at.min(neighbour.hello_at).min(neighbour.waiting.next()).min(neighbour.late_at());
        if at != Time::FOREVER {
            self.timers.set_by(&mut neighbour.alarm, at, Timer::Neighbour(n as u32));
        }
    }

    /// Something of a neighbour's is due.
    pub(crate) fn neighbour_alarm(&mut self, now: Time, n: u32) {
        let n = n as usize;
        let neighbour = &mut self.neighbours.all[n];
        self.timers.clear(&mut neighbour.alarm);
        if neighbour.summary_at <= now {
            self.send_summary(n);
        }
        if self.neighbours.all[n].hello_at <= now {
            self.hello_due(now, n);
        }
        self.repeat_unacknowledged(now, n);
        self.acknowledge_late(now, n);
        self.arm_neighbour(n);
    }

    pub(crate) fn neighbour_news(&mut self, n: usize, news: NeighbourNews) {
        let Neighbour { at, addr, .. } = self.neighbours.all[n];
        self.say(Event::Neighbour { interface: at, addr, news });
    }
}

impl Neighbour {
    fn late_at(&self) -> Time {
        self.late.first_key_value().map_or(Time::FOREVER, |((at, _), _)| *at)
    }

    /// Nothing that we named counts any more: all will be said in full.
    fn forget_names(&mut self) {
        self.said.clear();
        self.ours.clear();
        self.waiting = Waiting::default();
        self.summary.clear();
        self.summary_at = Time::FOREVER;
    }

    /// Nothing that it named counts any more.
    fn forget_its_names(&mut self) {
        self.names.clear();
        self.more.clear();
        self.errors.clear();
        self.epoch = None;
        self.newest = 0;
    }
}

/// How long names may wait for others to share a summary: a small part of the refresh period.
fn gathering(refresh: Span) -> Span {
    Span::from_nanos(refresh.as_nanos() / 64)
}
