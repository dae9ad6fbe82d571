//! Boomerang in the agent: eBPF programs at ingress (`linux::boomerang`) catch messages and hand over those
//! that they do not decide themselves. The node decides, and the messages go out as whole packets.
//!
//! A session that an application reserves belongs to the agent: it outlives the connection unless the
//! application asked otherwise.

mod calls;
pub mod config;
mod fast;
pub mod news;
mod show;
mod shown;
mod theirs;
pub(crate) mod turn;

use self::config::BoomerangConfig;
use self::shown::news;
use crate::console::Console;
use crate::measure::FlowMeter;
use crate::messages::Messages;
use crate::news::{Names, name_of};
use boomerang::{AppId, Output};
use control::granted::GrantedShare;
use documents::agent::{Direction, EventDoc};
use linux::boomerang::{FastPath, Hanging, ProgramRules, rows_for};
use linux::clock;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use terms::{Bytes, Fault, FlowKey, IfIndex, Rate, Time};

/// The most sessions of the kernel's table in the list of all reservations.
const FEW_SHOWN: usize = 1_000;
/// The longest time until messages are read: the agent looks around every 5 s.
const READ_WITHIN: terms::Span = terms::Span::from_secs(6);

/// Boomerang's part of the agent.
pub(crate) struct BoomerangHost {
    path: FastPath,
    /// Sessions that the program admits by itself.
    fast: Fast,
    /// Interfaces with the programs attached.
    hanging: BTreeSet<IfIndex>,
    /// The application behind each session.
    owners: BTreeMap<AppId, Owner>,
    /// The number of the last session.
    last: u64,
    /// Connections that see every message.
    tracers: BTreeSet<u64>,
    /// The message that the node was told, with the node's changes.
    told: Vec<u8>,
    /// The counters of the kernel table's sessions at the last query.
    meter: FlowMeter,
}

/// The application behind a session, and whether the session ends with its connection.
#[derive(Clone, Copy, Debug)]
struct Owner {
    client: Option<u64>,
    bound: bool,
}

impl BoomerangHost {
    /// Loads the programs, or adopts those of an earlier agent.
    pub(crate) fn open(
        config: &BoomerangConfig,
        state: &std::path::Path,
        seed: [u64; 2],
    ) -> Result<BoomerangHost, Fault> {
        let path = FastPath::open(state, rows_for(config.fast_sessions), seed)?;
        path.set_rules(&ProgramRules {
            most_refresh: config.most_refresh,
            burst: config.burst,
            burst_least: Bytes::new(config.least_burst.into()),
            min_unit: boomerang::Config::default().min_packet,
            per_source: config.per_source,
            offset: terms::Span::from_nanos(clock::slept()),
        });
        Ok(BoomerangHost {
            path,
            fast: Fast::default(),
            hanging: BTreeSet::new(),
            owners: BTreeMap::new(),
            last: 0,
            tracers: BTreeSet::new(),
            told: Vec::new(),
            meter: FlowMeter::default(),
        })
    }

    /// The descriptor that becomes readable when there are messages.
    pub(crate) fn ring(&self) -> std::os::fd::BorrowedFd<'_> {
        self.path.ring()
    }

    /// Tells the programs that the agent will read again in time.
    pub(crate) fn is_alive(&self, clock: &linux::clock::Clock) {
        self.path.set_slept(terms::Span::from_nanos(clock::slept()));
        self.path.reads_until(clock.boot_nanos(clock.now() + READ_WITHIN));
    }

    /// Attaches the programs to an interface, or detaches them.
    fn hang(&mut self, interface: IfIndex, on: bool, fast: bool) -> Result<(), Fault> {
        if on == self.hanging.contains(&interface) {
            return Ok(());
        }
        if on {
            if self.path.hanging(interface).is_none() {
                self.attach(interface, fast)?;
            }
            self.path.listen(interface, true)?;
            self.hanging.insert(interface);
        } else {
            self.hanging.remove(&interface);
            self.path.listen(interface, false)?;
            self.path.detach(interface)?;
        }
        Ok(())
    }

    /// Carries out an output of Boomerang's engine. Returns the number of a session that is over.
    pub(crate) fn said(
        &mut self,
        said: Output,
        messages: &mut Messages,
        console: &mut Console,
        names: &Names,
    ) -> Option<u64> {
        match said {
            Output::Pass { oif, .. } => {
                let packet = std::mem::take(&mut self.told);
                self.send(oif, &packet, messages, console, names);
            }
            Output::Send { oif, packet, .. } => self.send(oif, &packet, messages, console, names),
            Output::Upcall { app, upcall } => return self.upcall(app, upcall, console),
            // A reply to a ping with our magic that no session of ours sent: whoever did must do without.
            Output::Deliver | Output::Dropped(_) | Output::Event(_) => {}
        }
        None
    }

    /// Sends a packet out of an interface, and shows it to the clients that trace.
    fn send(&self, oif: IfIndex, packet: &[u8], messages: &mut Messages, console: &mut Console, names: &Names) {
        let Ok(header) = wire::ip::Packet::parse(packet) else { return };
        self.trace(Direction::Out, Some(oif), packet, None, console, names);
        messages.send_packet(oif, header.dst(), packet, console);
    }

    /// Tells the application of a session what became of it. Returns its number if it is over.
    fn upcall(&mut self, app: AppId, upcall: boomerang::BoomerangUpcall, console: &mut Console) -> Option<u64> {
        let owner = self.owners.get(&app).copied();
        let over = ends(&upcall);
        if over {
            self.owners.remove(&app);
        }
        let event = EventDoc::Boomerang { number: app.0, news: news(upcall) };
        if let Some(client) = owner.and_then(|owner| owner.client) {
            console.tell(client, event);
        }
        over.then_some(app.0)
    }

    /// Records that a connection has ended. Returns the sessions that end with it.
    fn client_gone(&mut self, client: u64) -> Vec<AppId> {
        self.tracers.remove(&client);
        let mut over = Vec::new();
        for (app, owner) in self.owners.iter_mut().filter(|(_, owner)| owner.client == Some(client)) {
            owner.client = None;
            if owner.bound {
                over.push(*app);
            }
        }
        over
    }

    /// The number of sessions in the kernel's table that the list of all reservations leaves out.
    pub(crate) fn rows_left_out(&self) -> usize {
        self.path.total().0.saturating_sub(FEW_SHOWN)
    }

    /// Shows every later packet to this connection.
    fn traced_by(&mut self, client: u64) {
        self.tracers.insert(client);
    }

    /// True if a connection sees the packets.
    fn is_traced(&self) -> bool {
        !self.tracers.is_empty()
    }

    /// Shows a packet to the clients that trace.
    fn trace(
        &self,
        direction: Direction,
        interface: Option<IfIndex>,
        packet: &[u8],
        became: Option<String>,
        console: &mut Console,
        names: &Names,
    ) {
        if self.tracers.is_empty() {
            return;
        }
        let mut bytes = String::with_capacity(2 * packet.len());
        packet.iter().for_each(|octet| _ = write!(bytes, "{octet:02x}"));
        let interface = interface.map(|index| name_of(index, names));
        let event = EventDoc::Echo { direction, interface, bytes, became };
        console.tell_all(self.tracers.iter().copied().collect(), event);
    }

    /// The time of the next sweep of the table.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        self.fast.sweep_at
    }

    /// Attaches the program to XDP, if `fast` and the device has it, or else to the ingress of traffic
    /// control.
    fn attach(&self, interface: IfIndex, fast: bool) -> Result<(), Fault> {
        if fast && self.path.attach(interface, Hanging::Native).is_ok() {
            return Ok(());
        }
        self.path.attach(interface, Hanging::Ingress)
    }

    fn share(&self, config: &BoomerangConfig, rate: Rate) -> GrantedShare {
        let burst = rate.demands(config.burst).get().max(u64::from(config.least_burst));
        GrantedShare { rate, burst: Bytes::new(burst), min_packet: boomerang::Config::default().min_packet }
    }
}

/// The fast path of an agent.
#[derive(Debug, Default)]
pub(crate) struct Fast {
    /// Interfaces that admit, with the rates of their links.
    links: BTreeMap<IfIndex, Rate>,
    sweep_at: Option<Time>,
    /// Sessions that the program's table marks as the engine's.
    theirs: BTreeSet<(IfIndex, FlowKey)>,
}

impl Fast {
    /// True if the program admits sessions on this interface.
    fn admits(&self, oif: IfIndex) -> bool {
        self.links.contains_key(&oif)
    }

    /// Records the table's sessions that belong to the engine of an earlier agent.
    fn found(&mut self, theirs: Vec<(IfIndex, FlowKey)>) {
        self.theirs = theirs.into_iter().collect();
    }
}

/// True if the session gets no more events.
fn ends(upcall: &boomerang::BoomerangUpcall) -> bool {
    use boomerang::BoomerangUpcall as U;
    match upcall {
        U::Refused { kept, .. } => kept.is_zero(),
        U::Silent { over, .. } => *over,
        U::NoRoute | U::Released => true,
        U::Reserved { .. } | U::HopMismatch { .. } => false,
    }
}
